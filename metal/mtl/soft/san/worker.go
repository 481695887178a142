package san

import (
	"math/bits"

	"minfer/metal/msl/ir"
)

// Worker watches the threadgroups that one goroutine executes.
type Worker struct {
	run     *Run
	group   uint32
	threads int
	seq     uint32 // of findings in the threadgroup

	tg    shadow
	dev   []shadow // by Object.buf
	cur   *Access  // the access that is being checked
	curSg int
	unit  int // bytes of a granule in it
	// accesses counts accesses, for lastRace.
	accesses uint64
	// matrixStores are the places of simdgroup-matrix stores.
	matrixStores []int32
	lastRace     lastRace
	poison       []uint64   // threadgroup memory, one bit a byte
	lanes        [][]uint32 // private memory by simdgroup: for each byte the lanes that did not write it

	written []*bitmap           // by Object.buf
	last    []map[int]*lastPage // by Object.buf, outputs only
	origins []origin
	recent  [Lanes][4]poisonLoad // by simdgroup, a ring: for uses without an origin
	next    [Lanes]uint8
	found   findings
}

// poisonLoad is a load that brought poison in.
type poisonLoad struct {
	origin
	mask uint32
}

type origin struct {
	obj *Object
	pos ir.Pos
	off int64
}

func newWorker(r *Run) *Worker {
	w := &Worker{run: r, found: findings{}, origins: make([]origin, 1)}
	pagesOf := func(n int) []*page { return make([]*page, (n+pageBytes-1)/pageBytes) }
	// Generation 0 is before everything: cells start as older than any access.
	w.tg = shadow{gen: 1 << genShift, pages: pagesOf(r.Threadgroup)}
	w.dev = make([]shadow, len(r.bufs))
	w.written = make([]*bitmap, len(r.bufs))
	w.last = make([]map[int]*lastPage, len(r.bufs))
	for i, t := range r.bufs {
		w.dev[i] = shadow{gen: 1 << genShift, sums: true}
		if t.track {
			w.dev[i].pages = pagesOf(t.hi - t.lo)
		}
	}
	if r.c.mode >= Mem {
		w.poison = make([]uint64, (r.Threadgroup+63)/64)
	}
	return w
}

// BeginGroup starts a threadgroup: its linear index in the grid, and how many
// threads and simdgroups it has.
func (w *Worker) BeginGroup(group, threads, simdgroups int) {
	w.group, w.threads, w.seq = uint32(group), threads, 0
	for sg := range min(simdgroups, Lanes) {
		w.recent[sg] = [4]poisonLoad{}
	}
	w.tg.tick()
	for i := range w.dev {
		w.dev[i].tick()
	}
	if w.run.c.mode < Mem {
		return
	}
	for i := range w.poison {
		w.poison[i] = ^uint64(0)
	}
	if w.run.private == 0 {
		return
	}
	for len(w.lanes) < simdgroups {
		w.lanes = append(w.lanes, make([]uint32, w.run.private))
	}
	for _, l := range w.lanes[:simdgroups] {
		for i := range l {
			l[i] = ^uint32(0)
		}
	}
}

// EndGroup ends the threadgroup.
func (w *Worker) EndGroup() {}

// Barrier is a threadgroup_barrier that all simdgroups have reached. Call it
// once for the threadgroup.
func (w *Worker) Barrier(flags ir.MemFlags) {
	if flags&ir.MemThreadgroup != 0 {
		w.tg.tick()
	}
	if flags&ir.MemDevice != 0 {
		for i := range w.dev {
			w.dev[i].tick()
		}
	}
}

// SgBarrier is a simdgroup_barrier of one simdgroup.
func (w *Worker) SgBarrier(sg int, flags ir.MemFlags) {
	sg &= Lanes - 1
	if flags&ir.MemThreadgroup != 0 {
		w.tg.tickSg(sg)
	}
	if flags&ir.MemDevice != 0 {
		for i := range w.dev {
			w.dev[i].tickSg(sg)
		}
	}
}

// LoadPoison says which lanes of each loaded element read a byte that nobody
// wrote. It needs Obj.Poison. out has a.Count elements set; any is their union.
func (w *Worker) LoadPoison(sg int, a *Access, out *[MaxElems]uint32) (any uint32) {
	o := a.Obj
	for e := range a.Count {
		out[e] = 0
	}
	switch o.Space {
	case ir.Thread:
		any = w.loadPrivate(sg, a, out)
	case ir.Threadgroup:
		if w.cleanSpan(a) {
			return 0
		}
		for m := a.Mask; m != 0; m &= m - 1 {
			lane := bits.TrailingZeros32(m)
			at := int(a.offset(lane)) + o.Base
			if n := a.ElemSize * a.Count; n <= 64 && getBits(w.poison, at, n) == 0 {
				continue
			}
			for e := range a.Count {
				if getBits(w.poison, at+e*a.ElemSize, a.ElemSize) != 0 {
					out[e] |= 1 << lane
				}
			}
		}
	default:
		if o.Buffer == nil {
			return 0
		}
		t := w.run.bufs[o.buf]
		mine := w.written[o.buf]
		if first, n := a.span(); n > 0 && o.Buffer.defined.covers(first+o.Base, n) {
			return 0
		}
		for m := a.Mask; m != 0; m &= m - 1 {
			lane := bits.TrailingZeros32(m)
			at := int(a.offset(lane)) + o.Base
			for e := range a.Count {
				got := o.Buffer.defined.get(at+e*a.ElemSize, a.ElemSize)
				if mine != nil {
					got |= mine.get(at+e*a.ElemSize-t.lo, a.ElemSize)
				}
				if got != ^uint64(0)>>(64-a.ElemSize) {
					out[e] |= 1 << lane
				}
			}
		}
	}
	for e := range a.Count {
		any |= out[e]
	}
	if any != 0 {
		w.remember(sg, a, any)
	}
	return any
}

// remember keeps a load that brought poison in.
func (w *Worker) remember(sg int, a *Access, mask uint32) {
	sg &= Lanes - 1
	r := &w.recent[sg]
	p := poisonLoad{origin{a.Obj, a.Pos, a.offset(bits.TrailingZeros32(mask))}, mask}
	if last := &r[w.next[sg]&3]; last.obj == p.obj && last.pos == p.pos {
		last.mask |= mask
		return
	}
	w.next[sg]++
	r[w.next[sg]&3] = p
}

// recall finds the last load of the simdgroup that brought poison into one of the
// lanes.
func (w *Worker) recall(sg int, mask uint32) origin {
	sg &= Lanes - 1
	for i := range uint8(4) {
		if p := &w.recent[sg][(w.next[sg]-i)&3]; p.obj != nil && p.mask&mask != 0 {
			return p.origin
		}
	}
	return origin{}
}

// cleanSpan says whether the whole span of an access by formula is free of
// poison.
func (w *Worker) cleanSpan(a *Access) bool {
	lo, n := a.span()
	lo += a.Obj.Base
	for hi := lo + n; lo < hi; {
		n := min(64, hi-lo)
		if getBits(w.poison, lo, n) != 0 {
			return false
		}
		lo += n
	}
	return n > 0
}

// span is the range of the object that an access by formula covers, gaps
// included; of 0 bytes where it is long or has no formula.
func (a *Access) span() (first, n int) {
	if a.Off != nil || a.Stride < 0 || a.Stride > 64 || a.Mask == 0 {
		return 0, 0
	}
	lo := int(a.offset(bits.TrailingZeros32(a.Mask)))
	hi := int(a.offset(31-bits.LeadingZeros32(a.Mask))) + a.ElemSize*a.Count
	return lo, hi - lo
}

func (w *Worker) loadPrivate(sg int, a *Access, out *[MaxElems]uint32) (any uint32) {
	l := w.lanes[sg][a.Obj.Base:]
	if a.Off == nil && a.Stride == 0 {
		for e := range a.Count {
			at := int(a.Base) + e*a.ElemSize
			for b := range a.ElemSize {
				out[e] |= l[at+b] & a.Mask
			}
			any |= out[e]
		}
		return any
	}
	for m := a.Mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m)
		at := int(a.offset(lane))
		for e := range a.Count {
			for b := range a.ElemSize {
				out[e] |= l[at+e*a.ElemSize+b] & (1 << lane)
			}
			any |= out[e]
		}
	}
	return any
}

// StorePoison marks the bytes of a store as written or, for the lanes in in, as
// still unwritten. in nil is all written. It needs Obj.Mark; atomics that may
// write count as stores. A store of poison to
// device memory is reported by Uninitialized first and then counts as written.
func (w *Worker) StorePoison(sg int, a *Access, in *[MaxElems]uint32) {
	o := a.Obj
	n := a.ElemSize * a.Count
	switch o.Space {
	case ir.Thread:
		w.storePrivate(sg, a, in)
	case ir.Threadgroup:
		if in == nil && a.Off == nil && a.Mask == ^uint32(0) && a.Stride == int64(n) {
			putBits(w.poison, int(a.Base)+o.Base, n*Lanes, false)
			return
		}
		for m := a.Mask; m != 0; m &= m - 1 {
			lane := bits.TrailingZeros32(m)
			at := int(a.offset(lane)) + o.Base
			if in == nil {
				putBits(w.poison, at, n, false)
				continue
			}
			for e := range a.Count {
				putBits(w.poison, at+e*a.ElemSize, a.ElemSize, in[e]>>lane&1 != 0)
			}
		}
	case ir.Device:
		if o.Buffer == nil {
			return
		}
		t := w.run.bufs[o.buf]
		mine := w.written[o.buf]
		if mine == nil {
			mine = newBitmap(t.hi - t.lo)
			w.written[o.buf] = mine
		}
		base := o.Base - t.lo
		if a.Off == nil && a.Mask == ^uint32(0) && a.Stride == int64(n) {
			mine.put(base+int(a.Base), n*Lanes, true)
		} else {
			for m := a.Mask; m != 0; m &= m - 1 {
				mine.put(base+int(a.offset(bits.TrailingZeros32(m))), n, true)
			}
		}
		if t.output {
			w.keepLast(sg&(Lanes-1), o.buf, base, a)
		}
	}
}

func (w *Worker) storePrivate(sg int, a *Access, in *[MaxElems]uint32) {
	l := w.lanes[sg][a.Obj.Base:]
	for e := range a.Count {
		var set uint32
		if in != nil {
			set = in[e] & a.Mask
		}
		if a.Off == nil && a.Stride == 0 {
			at := int(a.Base) + e*a.ElemSize
			for b := range a.ElemSize {
				l[at+b] = l[at+b]&^a.Mask | set
			}
			continue
		}
		for m := a.Mask; m != 0; m &= m - 1 {
			lane := bits.TrailingZeros32(m)
			at := int(a.offset(lane)) + e*a.ElemSize
			bit := uint32(1) << lane
			for b := range a.ElemSize {
				l[at+b] = l[at+b]&^bit | set&bit
			}
		}
	}
}

// Origin returns a name for poison that a load brought in, or that an
// uninitialised variable gave (obj nil). off is a byte of obj that it came from.
func (w *Worker) Origin(obj *Object, pos ir.Pos, off int64) Origin {
	for i := len(w.origins) - 1; i > 0; i-- {
		if o := &w.origins[i]; o.obj == obj && o.pos == pos {
			return Origin(i)
		}
	}
	w.origins = append(w.origins, origin{obj, pos, off})
	return Origin(len(w.origins) - 1)
}

// Uninitialized reports that poison reached a use in the lanes of mask. Where
// from is 0 it is taken to come from the simdgroup's last load of poison in one of
// the lanes.
func (w *Worker) Uninitialized(sg int, pos ir.Pos, use Use, mask uint32, from Origin) {
	var o origin
	if from == 0 {
		o = w.recall(sg, mask)
	} else if int(from) < len(w.origins) {
		o = w.origins[from]
	}
	f := w.event(kindUninitialized, o.obj, pos, o.pos, sg, mask)
	f.use, f.kind = use, Read
	w.found.add(f, o.off, elemSize(o.obj))
}

// OutOfBounds reports an access of which the lanes in mask are not inside the
// object. off are the lanes' signed byte offsets. The access must not happen:
// reads give 0, writes are dropped.
func (w *Worker) OutOfBounds(sg int, a *Access, mask uint32, off *[Lanes]int64) {
	if mask == 0 {
		return
	}
	kind := kindOutOfBounds
	switch a.Obj.Space {
	case ir.Threadgroup:
		kind = kindThreadgroupBounds
	case ir.Thread:
		kind = kindPrivateBounds
	}
	n := int64(a.ElemSize * a.Count)
	for m := mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m)
		f := w.event(kind, a.Obj, a.Pos, 0, sg, 1<<lane)
		f.kind, f.unit = a.Kind, a.ElemSize
		at := off[lane]
		f.first = at
		// The bytes outside are what is reported: an access that straddles the end
		// is outside from the end on.
		end := at + n
		if at >= 0 && at < int64(a.Obj.Size) {
			at = int64(a.Obj.Size)
		}
		f.past = end - int64(a.Obj.Size)
		w.found.add(f, at, end-at)
	}
}

// NullAccess reports an access through a null pointer.
func (w *Worker) NullAccess(sg int, pos ir.Pos, kind Kind, mask uint32) {
	if mask == 0 {
		return
	}
	f := w.event(kindOutOfBounds, nil, pos, 0, sg, mask)
	f.kind, f.null = kind, true
	w.found.add(f, 0, 1)
}

// Misaligned reports an access whose address is not a multiple of align.
func (w *Worker) Misaligned(sg int, a *Access, mask uint32, align int) {
	if mask == 0 {
		return
	}
	f := w.event(kindMisaligned, a.Obj, a.Pos, 0, sg, mask)
	f.kind, f.align, f.unit = a.Kind, align, a.ElemSize
	at := a.offset(bits.TrailingZeros32(mask))
	f.first = at
	w.found.add(f, at, int64(a.ElemSize*a.Count))
}

// BarrierDivergence reports a threadgroup_barrier at pos that not every thread
// reached: the lanes of missing in simdgroup sg are elsewhere, at other where
// known (0 if not); ended says that they have returned. Abandon the threadgroup
// afterwards: what it would do next is undefined, and findings would only be
// consequences.
func (w *Worker) BarrierDivergence(sg int, pos, other ir.Pos, missing uint32, ended bool) {
	f := w.event(kindBarrier, nil, pos, other, sg, missing)
	f.ended = ended
	w.found.add(f, 0, 0)
}

// NonuniformSimd reports a simdgroup function under active lanes that leave out
// some of the live ones, or (operand true) an operand that must be the same in
// all lanes and is not.
func (w *Worker) NonuniformSimd(sg int, pos ir.Pos, active, live uint32, operand bool) {
	mask := live &^ active
	if operand {
		mask = active
	}
	f := w.event(kindNonuniform, nil, pos, 0, sg, mask)
	f.operand, f.active, f.live = operand, active, live
	w.found.add(f, 0, 0)
}

func elemSize(o *Object) int64 {
	if o == nil {
		return 1
	}
	return int64(o.ElemSize)
}
