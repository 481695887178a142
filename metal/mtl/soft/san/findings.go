package san

import (
	"math/bits"

	"minfer/metal/msl/ir"
)

// The kinds of findings, as docs/launch-cases.md names them.
const (
	KindThreadgroupRace   = "threadgroup-race"
	KindDeviceRace        = "device-race"
	KindDispatchRace      = "dispatch-race"
	KindBarrierDivergence = "barrier-divergence"
	KindOutOfBounds       = "out-of-bounds"
	KindThreadgroupBounds = "threadgroup-out-of-bounds"
	KindPrivateBounds     = "private-out-of-bounds"
	KindUninitialized     = "uninitialized"
	KindUnwrittenOutput   = "unwritten-output"
	KindNonuniformSimd    = "nonuniform-simd"
	KindNaN               = "nan"
	KindMismatch          = "mismatch"
	KindMisaligned        = "misaligned"
	KindInvalidLaunch     = "invalid-launch"
	KindTypeMismatch      = "type-mismatch"
	KindTimeout           = "timeout"
	KindOrderDependent    = "order-dependent"
	KindCompileError      = "compile-error"
)

// Kinds lists all kinds of findings.
var Kinds = []string{
	KindThreadgroupRace, KindDeviceRace, KindDispatchRace, KindBarrierDivergence, KindOutOfBounds,
	KindThreadgroupBounds, KindPrivateBounds, KindUninitialized, KindUnwrittenOutput, KindNonuniformSimd,
	KindNaN, KindMismatch, KindMisaligned, KindInvalidLaunch, KindTypeMismatch, KindTimeout,
	KindOrderDependent, KindCompileError,
}

// code is a kind in a key.
type code uint8

const (
	kindThreadgroupRace code = iota
	kindDeviceRace
	kindDispatchRace
	kindBarrier
	kindOutOfBounds
	kindThreadgroupBounds
	kindPrivateBounds
	kindUninitialized
	kindUnwritten
	kindNonuniform
	kindNaN
	kindMismatch
	kindMisaligned
)

func (c code) String() string { return Kinds[c] }

// eventKey is what makes two occurrences the same finding within a dispatch.
type eventKey struct {
	code       code
	inside     bool // lanes of one simdgroup
	groups     bool // of two threadgroups
	obj, obj2  int16
	pos, other ir.Pos
	kind       Kind  // of the access at pos
	kind2      Kind  // of the access at other
	dispatch   int16 // dispatch-race: index of the earlier one
}

// event is one occurrence, and then the sum of equal ones: the details are those
// of the first.
type event struct {
	eventKey
	tg, seq   uint32 // place in the defined order of occurrences
	tg2       uint32
	who, who2 uint16 // simdgroup<<5 | lane
	mask      uint32
	count     int
	lo, hi    int64 // bytes of the object, [lo, hi)
	unit      int   // bytes of one element accessed
	first     int64 // byte offset of the access
	past      int64 // bytes past the end
	align     int
	use       Use
	null      bool
	ended     bool
	operand   bool
	active    uint32
	live      uint32
	note      bool
	equal     bool
	pastRun   *Run // dispatch-race: the earlier dispatch
}

// findings are the occurrences of one worker.
type findings map[eventKey]*event

func (f findings) add(e event, lo, n int64) {
	e.count = 1
	e.lo, e.hi = lo, lo+n
	f.merge(e.eventKey, &e)
}

// merge adds an occurrence. It is commutative and associative.
func (f findings) merge(k eventKey, e *event) {
	old := f[k]
	if old == nil {
		c := *e
		f[k] = &c
		return
	}
	// One error among notes makes an error.
	note, equal := old.note && e.note, old.equal && e.equal
	defer func() { old.note, old.equal = note, equal }()
	if e.tg < old.tg || e.tg == old.tg && e.seq < old.seq {
		count, lo, hi, past := old.count, old.lo, old.hi, old.past
		*old = *e
		old.count, old.lo, old.hi = old.count+count, min(old.lo, lo), max(old.hi, hi)
		old.past = max(old.past, past)
		return
	}
	old.count += e.count
	old.lo, old.hi = min(old.lo, e.lo), max(old.hi, e.hi)
	old.past = max(old.past, e.past)
}

func objID(o *Object) int16 {
	if o == nil {
		return -1
	}
	return int16(o.id)
}

func (w *Worker) event(c code, o *Object, pos, other ir.Pos, sg int, mask uint32) event {
	w.seq++
	lane := bits.TrailingZeros32(mask) & (Lanes - 1)
	return event{
		eventKey: eventKey{code: c, obj: objID(o), obj2: -1, pos: pos, other: other},
		tg:       w.group, seq: w.seq, mask: mask, who: uint16(sg<<5 | lane),
	}
}

// race records a conflict of the current access, by its lane, with an earlier one
// at byte at of the shadowed memory. equal is a store of what was there.
func (w *Worker) race(o other, lane, at int, inside, equal bool) {
	a := w.cur
	obj := a.Obj
	c := kindThreadgroupRace
	origin := obj.Base
	if obj.Space != ir.Threadgroup {
		c = kindDeviceRace
		origin = obj.Base - w.run.bufs[obj.buf].lo
	}
	e := w.event(c, obj, a.Pos, ir.Pos(o.pos), w.curSg, 1<<lane)
	// One lane's access is one occurrence, however many granules it has.
	again := lastRace{w.accesses, lane, a.Pos, o.pos, o.kind}
	repeat := again == w.lastRace
	w.lastRace = again
	e.kind, e.kind2, e.inside = a.Kind, o.kind, inside
	e.note = equal || inside && w.run.c.mode < Strict
	e.equal = equal
	e.tg2, e.who2 = w.group, uint16(o.key&(sgMask|laneMask))
	e.unit = a.ElemSize
	e.count = 1
	if repeat {
		e.count = 0
	}
	e.lo, e.hi = int64(at-origin), int64(at-origin+w.unit)
	w.found.merge(e.eventKey, &e)
}

// lastRace tells granules of one access apart from accesses.
type lastRace struct {
	access    uint64
	lane      int
	pos       ir.Pos
	other     int32
	otherKind Kind
}

// compareGroups finds races between threadgroups of one dispatch in a buffer.
func (r *Run) compareGroups(found findings, buf int) {
	t := r.bufs[buf]
	for n, p := range t.pages {
		if p == nil {
			continue
		}
		for i := range p.rows {
			if !p.rows[i].settled() {
				p.expandRow(i)
			}
		}
		for i := range p.sums {
			if p.rows[i<<p.shift/rowBytes].state != rowCells {
				continue
			}
			at := n*pageBytes + i<<p.shift
			s := &p.sums[i]
			if s.wmax.tg != s.wmin.tg {
				r.groups(found, buf, at, 1<<p.shift, s.wmin, s.wmax, Write, Write, s.differ == 0)
			}
			r.firstPair(found, buf, at, 1<<p.shift, s.wmin, s.wmax, s.rmin, s.rmax, Write, Read)
			if p.atomics != nil {
				a := &p.atomics[i]
				r.firstPair(found, buf, at, 1<<p.shift, s.wmin, s.wmax, a.wmin, a.wmax, Write, AtomicWrite)
				r.firstPair(found, buf, at, 1<<p.shift, s.wmin, s.wmax, a.rmin, a.rmax, Write, AtomicRead)
				r.firstPair(found, buf, at, 1<<p.shift, a.wmin, a.wmax, s.rmin, s.rmax, AtomicWrite, Read)
			}
		}
	}
}

// firstPair reports the first pair of a writer and another access from different
// threadgroups, if there is one.
func (r *Run) firstPair(found findings, buf, at, n int, w0, w1, o0, o1 party, kw, ko Kind) {
	if w0.tg == 0 || o0.tg == 0 {
		return
	}
	switch {
	case w0.tg != o0.tg:
		r.groups(found, buf, at, n, w0, o0, kw, ko, false)
	case w0.tg != o1.tg:
		r.groups(found, buf, at, n, w0, o1, kw, ko, false)
	case w1.tg != o0.tg:
		r.groups(found, buf, at, n, w1, o0, kw, ko, false)
	}
}

// groups records a race of two threadgroups; the later access in the order of
// threadgroups is the first side of the report.
func (r *Run) groups(found findings, buf, at, n int, a, b party, ka, kb Kind, equal bool) {
	if a.tg > b.tg {
		a, b, ka, kb = b, a, kb, ka
	}
	obj := r.objects[b.who>>10]
	obj2 := r.objects[a.who>>10]
	e := event{
		eventKey: eventKey{
			code: kindDeviceRace, groups: true, obj: objID(obj), obj2: objID(obj2),
			pos: ir.Pos(b.pos), other: ir.Pos(a.pos), kind: kb, kind2: ka,
		},
		tg: b.tg - 1, tg2: a.tg - 1, who: b.who & (sgMask | laneMask), who2: a.who & (sgMask | laneMask),
		seq: ^uint32(0), note: equal, equal: equal, unit: n,
	}
	lo := int64(at + r.bufs[buf].lo - obj.Base)
	// Of equally ranked occurrences the lower offset comes first, so that the
	// details do not depend on the order of comparison.
	found.add(e, lo, int64(n))
}

// compareDispatches finds conflicts with an earlier dispatch of the interval.
func (r *Run) compareDispatches(found findings, past *Run) {
	for i, t := range r.bufs {
		if !t.track {
			continue
		}
		for j, q := range past.bufs {
			if q.buf != t.buf || !q.track {
				continue
			}
			shift := (t.lo - q.lo) / pageBytes
			for n, p := range t.pages {
				if m := n + shift; p != nil && m >= 0 && m < len(q.pages) && q.pages[m] != nil {
					r.dispatchPage(found, past, i, j, n, p, q.pages[m])
				}
			}
		}
	}
}

func (r *Run) dispatchPage(found findings, past *Run, buf, _ int, n int, p, q *page) {
	p.refine(min(p.shift, q.shift))
	q.refine(p.shift)
	for i := range p.rows {
		if !p.rows[i].used() || !q.rows[i].used() {
			continue
		}
		p.expandRow(i)
		q.expandRow(i)
	}
	for i := range p.sums {
		if j := i << p.shift / rowBytes; p.rows[j].state != rowCells || q.rows[j].state != rowCells {
			continue
		}
		now, then := [4]party{Read: p.sums[i].rmin, Write: p.sums[i].wmin}, [4]party{Read: q.sums[i].rmin, Write: q.sums[i].wmin}
		if p.atomics != nil {
			now[AtomicRead], now[AtomicWrite] = p.atomics[i].rmin, p.atomics[i].wmin
		}
		if q.atomics != nil {
			then[AtomicRead], then[AtomicWrite] = q.atomics[i].rmin, q.atomics[i].wmin
		}
		for ka, a := range then {
			for kb, b := range now {
				ka, kb := Kind(ka), Kind(kb)
				if a.tg == 0 || b.tg == 0 || !ka.writes() && !kb.writes() || ka.atomic() && kb.atomic() {
					continue
				}
				obj := r.objects[b.who>>10]
				e := event{
					eventKey: eventKey{
						code: kindDispatchRace, obj: objID(obj), obj2: int16(a.who >> 10),
						pos: ir.Pos(b.pos), other: ir.Pos(a.pos), kind: kb, kind2: ka,
						dispatch: int16(past.d.Index),
					},
					tg: b.tg - 1, tg2: a.tg - 1, who: b.who & (sgMask | laneMask), who2: a.who & (sgMask | laneMask),
					seq: ^uint32(0), unit: 1 << p.shift, pastRun: past,
				}
				at := n*pageBytes + i<<p.shift
				found.add(e, int64(at+r.bufs[buf].lo-obj.Base), int64(e.unit))
			}
		}
	}
}
