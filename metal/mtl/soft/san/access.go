package san

import (
	"math/bits"
	"slices"

	"minfer/metal/msl/ir"
)

// Access records an access and reports its races. Call it before a store takes
// effect, with out-of-bounds lanes removed from the mask, where Obj.Track is
// set. A simdgroup-matrix load or store is one Access for each element of the
// lane mapping.
func (w *Worker) Access(sg int, a *Access) {
	o := a.Obj
	if !o.Track || a.Mask == 0 {
		return
	}
	sg &= Lanes - 1
	s := &w.tg
	origin := o.Base
	if o.Space != ir.Threadgroup {
		s = &w.dev[o.buf]
		origin = o.Base - w.run.bufs[o.buf].lo
	}
	w.cur, w.curSg = a, sg
	w.accesses++
	n := a.ElemSize * a.Count
	widened := a.Kind == Write && a.Vector > n
	m := a.Mask
	if a.Matrix && a.Kind == Read && a.Off == nil && o.Space == ir.Threadgroup && w.matrixLoad(s, a, origin) {
		return
	}
	if a.Matrix && a.Kind == Write && !slices.Contains(w.matrixStores, int32(a.Pos)) {
		w.matrixStores = append(w.matrixStores, int32(a.Pos))
	}
	load := a.Matrix && a.Kind == Read
	if a.rowable() && !load {
		m = w.rows(s, a, origin)
	}
	if a.Count == 1 && n <= 4 && !widened && !load && m != 0 {
		switch {
		case a.Kind == Read:
			m = w.readWords(s, a, origin, m)
		case a.Kind == Write && a.Val32[0] != nil:
			m = w.writeWords(s, a, origin, m)
		}
	}
	for m != 0 {
		lane := bits.TrailingZeros32(m)
		off := a.offset(lane)
		lanes := uint32(1) << lane
		m &= m - 1
		if a.Kind != Write {
			// Lanes at one place are one step: a broadcast costs one cell.
			for m != 0 {
				next := bits.TrailingZeros32(m)
				if a.offset(next) != off {
					break
				}
				lanes |= 1 << next
				m &= m - 1
			}
		}
		at, size := int(off)+origin, n
		if widened {
			at -= a.VectorOff
			size = a.Vector
		}
		p := s.page(at)
		if unit := 1<<p.shift - 1; (at|size)&unit != 0 || at&(pageBytes-1)+size > pageBytes {
			w.pieces(s, a, at, size, lane, lanes)
			continue
		}
		first := at & (pageBytes - 1) >> p.shift
		w.cells(s, p, a, first, first+size>>p.shift, at, at, lane, lanes)
	}
}

// readWords reads one granule a lane for as long as that is all there is to do,
// and returns the lanes that are left.
func (w *Worker) readWords(s *shadow, a *Access, origin int, m uint32) uint32 {
	var (
		key  = s.gen | s.sf[w.curSg] | uint64(w.curSg)<<sgShift
		pos  = int32(a.Pos)
		n    = uint(a.ElemSize)
		at   = origin + int(a.Base)
		p    *page
		page = -1
	)
	if a.Off == nil && a.Stride == 0 {
		return m // a broadcast is one step of the general way
	}
	for m != 0 {
		lane := bits.TrailingZeros32(m)
		here := at + lane*int(a.Stride)
		if a.Off != nil {
			here = origin + int(a.Off[lane])
		}
		if here>>pageShift != page {
			page = here >> pageShift
			p = s.page(here)
			if uint(1)<<p.shift != n || p.atomic {
				return m
			}
		}
		if uint(here)&(n-1) != 0 {
			return m
		}
		if r := &p.rows[here/rowBytes&(len(p.rows)-1)]; r.state != rowCells {
			p.open(s, here, here+int(n), false)
		} else {
			r.last = s.gen
		}
		i := here & (pageBytes - 1) >> p.shift
		c := &p.cells[i]
		lanes := uint32(1) << lane
		if a.Off != nil {
			for next := lane + 1; next < Lanes && m>>next&1 != 0 && a.Off[next] == a.Off[lane]; next++ {
				lanes |= 1 << next
			}
		}
		if c.w >= s.gen && !inOrder(c.w, key, lanes, 1<<(c.w&laneMask)) {
			return m
		}
		if c.r == key && c.rpos == pos {
			c.rmask |= lanes
		} else if c.r < s.gen || c.r != key && (c.r^key)&sgMask == 0 {
			c.r, c.rmask, c.rpos = key, lanes, pos
		} else {
			w.addReader(s, p, i, key, lanes, pos)
		}
		if p.sums != nil {
			p.sums[i].read(w.group+1, pos, w.who(lane))
		}
		m &^= lanes
	}
	return 0
}

// inOrder says whether an access of lanes under key comes after an earlier one of
// the same generation by the lanes of mask: they belong to one simdgroup, and a
// barrier of it lies between or it is the same single lane.
func inOrder(then, key uint64, lanes, mask uint32) bool {
	return (then^key)&sgMask == 0 && (!sameStep(then, key) || mask&^lanes == 0 && lanes&(lanes-1) == 0)
}

// writeWords is readWords for stores.
func (w *Worker) writeWords(s *shadow, a *Access, origin int, m uint32) uint32 {
	var (
		key  = s.gen | s.sf[w.curSg] | uint64(w.curSg)<<sgShift
		pos  = int32(a.Pos)
		n    = uint(a.ElemSize)
		at   = origin + int(a.Base)
		vals = a.Val32[0]
		clip = uint32(1)<<(8*n) - 1
		p    *page
		page = -1
	)
	if n == 4 {
		clip = ^uint32(0)
	}
	for m != 0 {
		lane := bits.TrailingZeros32(m)
		here := at + lane*int(a.Stride)
		if a.Off != nil {
			here = origin + int(a.Off[lane])
		}
		if here>>pageShift != page {
			page = here >> pageShift
			p = s.page(here)
			if uint(1)<<p.shift != n || p.atomic {
				return m
			}
		}
		if uint(here)&(n-1) != 0 {
			return m
		}
		r := &p.rows[here/rowBytes&(len(p.rows)-1)]
		if r.mgen >= s.gen {
			return m
		}
		if r.state != rowCells {
			p.open(s, here, here+int(n), true)
		} else {
			r.last, r.wgen = s.gen, s.gen
		}
		i := here & (pageBytes - 1) >> p.shift
		c := &p.cells[i]
		if c.w >= s.gen || c.r >= s.gen {
			lanes := uint32(1) << lane
			if c.w >= s.gen && !inOrder(c.w, key, lanes, 1<<(c.w&laneMask)) ||
				c.r >= s.gen && (p.cold != nil || !inOrder(c.r, key, lanes, c.rmask)) {
				return m
			}
		}
		val := vals[lane] & clip
		c.w, c.val, c.wpos = key|uint64(lane), val, pos
		if p.sums != nil {
			p.sums[i].write(w.group+1, pos, w.who(lane), val, true)
		}
		m &= m - 1
	}
	return 0
}

// offset is a lane's byte offset in the object.
func (a *Access) offset(lane int) int64 {
	if a.Off != nil {
		return int64(a.Off[lane])
	}
	return a.Base + int64(lane)*a.Stride
}

// pieces does an access that crosses pages or does not fit a page's granules.
func (w *Worker) pieces(s *shadow, a *Access, at, size, lane int, lanes uint32) {
	start := at
	for end := at + size; at < end; {
		p := s.page(at)
		n := min(end-at, pageBytes-at&(pageBytes-1))
		if low := uint(bits.TrailingZeros32(uint32(at | n))); low < p.shift {
			p.refine(low)
		}
		first := at & (pageBytes - 1) >> p.shift
		w.cells(s, p, a, first, first+n>>p.shift, at, start, lane, lanes)
		at += n
	}
}

// cells applies an access to the granules [i, end) of a page, the first of which
// lies at byte at of an access that starts at byte start.
func (w *Worker) cells(s *shadow, p *page, a *Access, i, end, at, start, lane int, lanes uint32) {
	key := s.gen | s.sf[w.curSg] | uint64(w.curSg)<<sgShift
	pos := int32(a.Pos)
	unit := 1 << p.shift
	w.unit = unit
	p.open(s, at, at+(end-i)<<p.shift, a.Kind.writes())
	if a.Kind == Write {
		key |= uint64(lane)
		shift := at - start
		if a.Vector > a.ElemSize*a.Count {
			shift -= a.VectorOff
		}
		for ; i < end; i, at, shift = i+1, at+unit, shift+unit {
			c := &p.cells[i]
			val, known := a.value(lane, shift, unit)
			k := key
			if !known {
				k |= darkBit
			}
			if c.w >= s.gen || c.r >= s.gen || p.atomic || p.rows[i<<p.shift/rowBytes].mgen >= s.gen {
				w.checkWrite(s, p, i, k, val, at)
			}
			c.w, c.val, c.wpos = k, val, pos
			if p.sums != nil {
				p.sums[i].write(w.group+1, pos, w.who(lane), val, known)
			}
		}
		return
	}
	for ; i < end; i, at = i+1, at+unit {
		if a.Kind.atomic() {
			w.atomic(s, p, i, key, lanes, at)
			continue
		}
		c := &p.cells[i]
		if c.w >= s.gen || p.atomic {
			readers := lanes
			if a.Matrix && !slices.Contains(w.matrixStores, c.wpos) {
				// Any lane may be the one that reads this element. A matrix that is stored
				// and loaded back stays with its lanes.
				readers = ^uint32(0)
			}
			w.checkRead(s, p, i, key, readers, at)
		}
		switch {
		case c.r == key && c.rpos == pos:
			c.rmask |= lanes
		case c.r < s.gen || c.r != key && (c.r^key)&sgMask == 0:
			c.r, c.rmask, c.rpos = key, lanes, pos
		default:
			w.addReader(s, p, i, key, lanes, pos)
		}
		if p.sums != nil {
			p.sums[i].read(w.group+1, pos, w.who(lane))
		}
	}
}

func (w *Worker) who(lane int) uint16 {
	return uint16(w.cur.Obj.id<<10 | w.curSg<<5 | lane)
}

// value is the part of a stored value that falls into the granule of n bytes
// from byte shift of the access on.
func (a *Access) value(lane, shift, n int) (uint32, bool) {
	if a.ElemSize == 4 && n == 4 {
		if uint(shift) >= uint(4*a.Count) {
			return 0, false
		}
		v := a.Val32[shift>>2]
		if v == nil {
			return 0, false
		}
		return v[lane], true
	}
	var out uint32
	for i := range n {
		at := shift + i
		if at < 0 || at >= a.ElemSize*a.Count {
			return 0, false
		}
		e, b := at/a.ElemSize, uint(at%a.ElemSize)*8
		var byt uint32
		if a.ElemSize <= 4 {
			v := a.Val32[e]
			if v == nil {
				return 0, false
			}
			byt = v[lane] >> b & 0xff
		} else {
			v := a.Val64[e]
			if v == nil {
				return 0, false
			}
			byt = uint32(v[lane]>>b) & 0xff
		}
		out |= byt << (8 * i)
	}
	return out, true
}

// other describes the earlier side of a conflict.
type other struct {
	kind Kind
	key  uint64 // simdgroup and lane
	pos  int32
}

// unordered compares the access of lanes under key now with an earlier one
// under key then by the lanes of mask: whether they are of different simdgroups,
// or of different lanes of one without a barrier between; and which lane of mask
// is in conflict. mask 0 is key's own lane.
func unordered(gen, now uint64, lanes uint32, then uint64, mask uint32) (cross, inside bool, lane int) {
	if then < gen {
		return false, false, 0
	}
	if mask == 0 {
		mask = 1 << (then & laneMask)
	}
	if (now^then)&sgMask != 0 {
		return true, false, bits.TrailingZeros32(mask)
	}
	if !sameStep(now, then) {
		return false, false, 0
	}
	if lanes&(lanes-1) == 0 {
		mask &^= lanes
	}
	if mask == 0 {
		return false, false, 0
	}
	return false, true, bits.TrailingZeros32(mask)
}

// against reports a conflict of the current access with an earlier one, if they
// are unordered.
func (w *Worker) against(s *shadow, now uint64, lanes uint32, o other, mask uint32, at int, equal bool) {
	cross, inside, lane := unordered(s.gen, now, lanes, o.key, mask)
	if !cross && !inside {
		return
	}
	o.key = o.key&^laneMask | uint64(lane)
	mine := lanes
	if inside {
		if rest := lanes &^ (1 << lane); rest != 0 {
			mine = rest
		}
	}
	w.race(o, bits.TrailingZeros32(mine), at, inside, equal)
}

func (w *Worker) checkWrite(s *shadow, p *page, i int, key uint64, val uint32, at int) {
	c := &p.cells[i]
	lanes := uint32(1) << (key & laneMask)
	equal := c.val == val && (c.w|key)&darkBit == 0
	w.against(s, key, lanes, other{Write, c.w, c.wpos}, 0, at, equal)
	w.againstReaders(s, p, i, key, lanes, at)
	if p.atomic && p.cold != nil {
		x := &p.cold[i]
		w.against(s, key, lanes, other{AtomicWrite, x.a, x.aPos}, x.amask, at, false)
		w.against(s, key, lanes, other{AtomicWrite, x.ao, x.aoPos}, 0, at, false)
		w.against(s, key, lanes, other{AtomicRead, x.ar, x.arPos}, x.armask, at, false)
		w.against(s, key, lanes, other{AtomicRead, x.aro, x.aroPos}, 0, at, false)
	}
}

// againstReaders compares a write with the plain reads of a granule.
func (w *Worker) againstReaders(s *shadow, p *page, i int, key uint64, lanes uint32, at int) {
	c := &p.cells[i]
	if p.rows[i<<p.shift/rowBytes].mgen >= s.gen {
		w.againstMatrix(s, p, i, key, lanes, at)
	}
	if c.r < s.gen {
		return
	}
	w.against(s, key, lanes, other{Read, c.r, c.rpos}, c.rmask, at, false)
	if p.cold == nil {
		return
	}
	x := &p.cold[i]
	if x.r0 == c.r {
		w.against(s, key, lanes, other{Read, c.r, x.pos0}, x.mask0, at, false)
	}
	w.against(s, key, lanes, other{Read, x.other, x.otherPos}, 0, at, false)
}

func (w *Worker) checkRead(s *shadow, p *page, i int, key uint64, lanes uint32, at int) {
	c := &p.cells[i]
	w.against(s, key, lanes, other{Write, c.w, c.wpos}, 0, at, false)
	if p.atomic && p.cold != nil {
		x := &p.cold[i]
		w.against(s, key, lanes, other{AtomicWrite, x.a, x.aPos}, x.amask, at, false)
		w.against(s, key, lanes, other{AtomicWrite, x.ao, x.aoPos}, 0, at, false)
	}
}

// addReader records a read where the granule has a current reader of another
// simdgroup or at another place.
func (w *Worker) addReader(s *shadow, p *page, i int, key uint64, lanes uint32, pos int32) {
	c := &p.cells[i]
	x := p.chill(i)
	switch {
	case c.r == key: // another place
		if x.r0 == key {
			x.mask0 |= c.rmask
		} else {
			x.r0, x.mask0 = key, c.rmask
		}
		x.pos0 = c.rpos
	default:
		x.other = c.r | uint64(bits.TrailingZeros32(c.rmask))
		x.otherPos = c.rpos
	}
	c.r, c.rmask, c.rpos = key, lanes, pos
}

// atomic records an atomic access to a granule.
func (w *Worker) atomic(s *shadow, p *page, i int, key uint64, lanes uint32, at int) {
	p.atomic = true
	c := &p.cells[i]
	x := p.chill(i)
	w.against(s, key, lanes, other{Write, c.w, c.wpos}, 0, at, false)
	key |= uint64(bits.TrailingZeros32(lanes))
	pos := int32(w.cur.Pos)
	if w.cur.Kind == AtomicWrite {
		w.againstReaders(s, p, i, key, lanes, at)
		if (x.a^key)&sgMask != 0 {
			x.ao, x.aoPos = x.a, x.aPos
		}
		if x.a < s.gen || !sameStep(x.a, key) || (x.a^key)&sgMask != 0 {
			x.amask = 0
		}
		x.a, x.aPos, x.amask = key, pos, x.amask|lanes
	} else {
		if (x.ar^key)&sgMask != 0 {
			x.aro, x.aroPos = x.ar, x.arPos
		}
		if x.ar < s.gen || !sameStep(x.ar, key) || (x.ar^key)&sgMask != 0 {
			x.armask = 0
		}
		x.ar, x.arPos, x.armask = key, pos, x.armask|lanes
	}
	if p.sums != nil {
		if p.atomics == nil {
			p.atomics = make([]atomics, len(p.cells))
		}
		y := &p.atomics[i]
		q := party{w.group + 1, pos, w.who(keyLane(key))}
		if w.cur.Kind == AtomicWrite {
			widen(&y.wmin, &y.wmax, q)
		} else {
			widen(&y.rmin, &y.rmax, q)
		}
	}
}

// widen takes a party into a least and greatest pair. Of one threadgroup the
// first access stays.
func widen(lo, hi *party, q party) {
	if q.tg == 0 {
		return
	}
	if lo.tg == 0 || q.tg < lo.tg {
		*lo = q
	}
	if q.tg > hi.tg {
		*hi = q
	}
}

func (s *summary) write(tg uint32, pos int32, who uint16, val uint32, known bool) {
	if s.wmax.tg == 0 {
		q := party{tg, pos, who}
		s.wmin, s.wmax, s.val, s.differ = q, q, val, 0
		if !known {
			s.differ = 15
		}
		return
	}
	if s.val != val || !known {
		s.differ |= unequal(s.val, val, known)
	}
	if s.wmax.tg != tg {
		widen(&s.wmin, &s.wmax, party{tg, pos, who})
	}
}

func (s *summary) read(tg uint32, pos int32, who uint16) {
	if s.rmax.tg == tg {
		return
	}
	widen(&s.rmin, &s.rmax, party{tg, pos, who})
}

// unequal has a bit for each byte in which two values differ.
func unequal(a, b uint32, known bool) uint8 {
	if !known {
		return 15
	}
	var d uint8
	for i := range 4 {
		if (a^b)>>(8*i)&0xff != 0 {
			d |= 1 << i
		}
	}
	return d
}

// merge takes in another worker's summary.
func (s *summary) merge(o *summary) {
	if o.wmin.tg != 0 {
		if s.wmin.tg == 0 {
			s.val, s.differ = o.val, o.differ
		} else {
			s.differ |= o.differ | unequal(s.val, o.val, true)
		}
		widen(&s.wmin, &s.wmax, o.wmin)
		widen(&s.wmin, &s.wmax, o.wmax)
	}
	widen(&s.rmin, &s.rmax, o.rmin)
	widen(&s.rmin, &s.rmax, o.rmax)
}
