package interp

import (
	"math"
	"math/bits"
	"unsafe"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl/soft/lane"
	"minfer/metal/mtl/soft/san"
)

// A simdgroup matrix is 64 float32 in rows, whatever its type: values of half
// and bfloat are kept as the floats that they are. A poisoned element poisons
// all of it: the lanes' bits are those of the elements by the mapping below.

// sgIndex is the place of a lane's first element: row 4*(L>>4&1) + (L>>1&3),
// column 4*(L>>3&1) + 2*(L&1); the second lies behind it.
func sgIndex(l int) int {
	return (4*(l>>4&1)+l>>1&3)*8 + 4*(l>>3&1) + 2*(l&1)
}

// sgLane is the lane that has an element.
func sgLane(i int) int {
	r, c := i/8, i%8
	return r>>2<<4 | c>>2<<3 | r&3<<1 | c>>1&1
}

// toFloat and fromFloat convert the bits of an element.

func toFloat(x uint32, t ir.Type) float32 {
	switch t {
	case ir.F16:
		return lane.FromF16(uint16(x))
	case ir.BF16:
		return lane.FromBF16(uint16(x))
	}
	return math.Float32frombits(x)
}

func fromFloat(x float32, t ir.Type) uint32 {
	switch t {
	case ir.F16:
		return uint32(lane.F16(x))
	case ir.BF16:
		return uint32(lane.BF16(x))
	}
	return math.Float32bits(x)
}

func (s *simdgroup) matrix(w *worker, in *instr, m uint32, pc int) {
	if w.san != nil {
		w.converged(s, pc, m)
	}
	switch in.op {
	case opSgFill, opSgDiag:
		a := &w.p.acc[in.x]
		var x uint32
		if a.uni {
			x = *s.u32(in.a)
		} else {
			v := s.vec(in.a)
			x = v[bits.TrailingZeros32(m)]
			if w.san != nil {
				for k := m; k != 0; k &= k - 1 {
					if v[bits.TrailingZeros32(k)] != x {
						w.san.NonuniformSimd(s.index, w.p.pos[pc], m, s.live, true)
						break
					}
				}
			}
		}
		f := toFloat(x, a.elem)
		d := s.sg(in.dst)
		if in.op == opSgFill {
			for i := range d {
				d[i] = f
			}
			return
		}
		*d = [64]float32{}
		for i := 0; i < 64; i += 9 {
			d[i] = f
		}
	case opSgLoad, opSgStore:
		s.matrixMemory(w, in, &w.p.acc[in.x], m, pc)
	case opSgMMA:
		d := s.sg(in.dst)
		lane.MMA(d, s.sg(in.a), s.sg(in.b), s.sg(in.c))
		switch t := ir.Type(in.x); t {
		case ir.F16, ir.BF16:
			for i := range d {
				d[i] = toFloat(fromFloat(d[i], t), t)
			}
		}
	case opSgElem:
		d, a := s.vec(in.dst), s.sg(in.a)
		for l := range d {
			d[l] = fromFloat(a[sgIndex(l)+int(in.imm)], ir.Type(in.x))
		}
	case opSgWith:
		*s.sg(in.dst) = *s.sg(in.a)
		d, v := s.sg(in.dst), s.vec(in.b)
		for k := m; k != 0; k &= k - 1 {
			l := bits.TrailingZeros32(k)
			d[sgIndex(l)+int(in.imm)] = toFloat(v[l], ir.Type(in.x))
		}
	}
}

// uniformOperand reads a matrix operand that must be the same in all lanes.
func (s *simdgroup) uniformOperand(w *worker, a *access, k int, wide bool, m uint32, pc int) uint64 {
	r := a.sgVarying[k]
	if r == 0 {
		return *s.u64(a.sg[k])
	}
	if !wide { // an I1 is a mask
		x := *s.u32(r) & m
		if x != 0 && x != m && w.san != nil {
			w.san.NonuniformSimd(s.index, w.p.pos[pc], m, s.live, true)
		}
		return mask64(x>>bits.TrailingZeros32(m)&1 != 0)
	}
	return s.sameInAll(w, s.wide(r), m, pc)
}

func (s *simdgroup) sameInAll(w *worker, v *[32]uint64, m uint32, pc int) uint64 {
	x := v[bits.TrailingZeros32(m)]
	if w.san != nil {
		for k := m; k != 0; k &= k - 1 {
			if v[bits.TrailingZeros32(k)] != x {
				w.san.NonuniformSimd(s.index, w.p.pos[pc], m, s.live, true)
				break
			}
		}
	}
	return x
}

func (s *simdgroup) matrixMemory(w *worker, in *instr, a *access, m uint32, pc int) {
	stride := int64(s.uniformOperand(w, a, 0, true, m, pc))
	col := int64(s.uniformOperand(w, a, 1, true, m, pc))
	row := int64(s.uniformOperand(w, a, 2, true, m, pc))
	transpose := s.uniformOperand(w, a, 3, false, m, pc)&1 != 0
	off := uint64(a.disp) + *s.u64(a.su)
	if a.sv != 0 {
		off += s.sameInAll(w, s.wide(a.sv), m, pc)
	}
	if s.poisoned {
		w.addressPoison(s, a, m)
		for k := range a.sg {
			w.usePoison(s, pc, a.sg[k], m, san.UseAddress)
			w.usePoison(s, pc, a.sgVarying[k], m, san.UseAddress)
		}
	}
	if s.poisoned && !a.write {
		*s.poison(in.dst) = 0
	}
	obj := a.obj
	start := int64(off)
	if obj < 0 {
		if obj, start = untag(off); obj < 0 || int(obj) >= len(w.objs) {
			obj = 0
		}
	}
	o := &w.objs[obj]
	size := int64(a.size)
	if a.dev || a.obj < 0 && o.san != nil && o.san.Space <= ir.Constant {
		if a.write {
			w.cnt.DeviceWritten += 64 * size
		} else {
			w.cnt.DeviceRead += 64 * size
		}
	}
	// Element (r, c) lies at start + ((row+r)*stride + col+c)*size; transposed, r and
	// c change places.
	rs, cs := stride*size, size
	start += (row*stride + col) * size
	if transpose {
		rs, cs = cs, rs
	}
	ok := !o.private
	for _, x := range [...]int64{stride, col, row, start} {
		ok = ok && x >= -1<<40 && x <= 1<<40
	}
	lo, hi := start, start
	for _, step := range [...]int64{rs, cs} {
		lo, hi = min(lo, lo+7*step), max(hi, hi+7*step)
	}
	mat := in.dst
	if a.write {
		mat = in.a
	}
	d := s.sg(mat)
	aligned := w.san == nil || (start+o.align)&int64(a.align-1) == 0 && rs&int64(a.align-1)&cs == 0
	if ok && lo >= 0 && hi+size <= o.size {
		if w.san != nil && (!aligned || o.san != nil && (o.san.Track || o.san.Poison || o.san.Mark) || s.poisoned) {
			s.matrixSan(w, a, o, mat, start, rs, cs, m)
		}
		s.matrixCopy(a, o, d, start, rs, cs)
		return
	}
	// Lane by lane: each has two elements.
	for e := range 2 {
		var offs [32]int64
		for l := range offs {
			r, c := int64(sgIndex(l)/8), int64(sgIndex(l)%8+e)
			offs[l] = start + r*rs + c*cs
			if !ok {
				offs[l] = -1 << 40
			}
		}
		in := inBounds(o, m, &offs, size)
		kind := san.Read
		if a.write {
			kind = san.Write
		}
		w.outOfBounds(s, a, o, kind, m&^in, &offs)
		for l := range offs {
			i := sgIndex(l) + e
			switch {
			case in>>l&1 == 0:
				if !a.write {
					d[i] = 0
				}
			case a.write:
				s.writeLane(o, l, offs[l], a.elem, uint64(fromFloat(d[i], a.elem)))
			default:
				d[i] = toFloat(uint32(s.readLane(o, l, offs[l], a.elem)), a.elem)
			}
		}
		if w.san != nil && o.san != nil && in != 0 {
			s.matrixElements(w, a, o, mat, e, in, &offs)
		}
	}
}

// matrixSan tells the sanitizer of an access in bounds. Which lane has which
// element is not defined, so it is told as 8 lanes with a row of 8 elements each
// (a column, transposed): the direction that lies together in memory.
func (s *simdgroup) matrixSan(w *worker, a *access, o *object, mat uint32, start, rs, cs int64, m uint32) {
	kind := san.Read
	if a.write {
		kind = san.Write
	}
	c := w.start(a, o, kind, 0xff)
	c.Count, c.Base, c.Stride, c.Matrix = 8, start, rs, true
	rows := true
	if cs != int64(a.size) {
		c.Stride, rows = cs, false
	}
	if w.san != nil && a.align > 1 {
		var bad uint32
		for r := range int64(8) {
			if (start+o.align+r*c.Stride)&int64(a.align-1) != 0 {
				bad |= 1 << r
			}
		}
		if bad != 0 {
			c.Mask = bad
			w.san.Misaligned(s.index, c, bad, a.align)
			c.Mask = 0xff
		}
	}
	if o.san == nil {
		return
	}
	at := func(r, k int) int {
		if rows {
			return 8*r + k
		}
		return 8*k + r
	}
	if a.write {
		if o.san.Track {
			d := s.sg(mat)
			for k := range 8 {
				x := &w.bools[k]
				for r := range 8 {
					x[r] = fromFloat(d[at(r, k)], a.elem)
				}
				c.Val32[k], c.Val64[k] = x, nil
			}
			w.san.Access(s.index, c)
		}
		var in *[san.MaxElems]uint32
		if s.poisoned {
			if bad := *s.poison(mat); bad != 0 {
				if o.san.Space == ir.Device {
					w.san.Uninitialized(s.index, a.pos, san.UseStore, bad&m, 0)
				} else {
					in = &w.poison
					for k := range 8 {
						in[k] = 0
						for r := range 8 {
							in[k] |= bad >> sgLane(at(r, k)) & 1 << r
						}
					}
				}
			}
		}
		if o.san.Mark {
			w.san.StorePoison(s.index, c, in)
		}
		return
	}
	if o.san.Track {
		w.san.Access(s.index, c)
	}
	var bad uint32
	if o.san.Poison {
		bad = w.san.LoadPoison(s.index, c, &w.poison)
	}
	if bad == 0 && !s.poisoned {
		return
	}
	s.poisoned = true
	p := s.poison(mat)
	*p = 0
	if bad != 0 {
		for k := range 8 {
			for r := range 8 {
				*p |= w.poison[k] >> r & 1 << sgLane(at(r, k))
			}
		}
	}
}

func (s *simdgroup) matrixElements(w *worker, a *access, o *object, mat uint32, e int, m uint32, offs *[32]int64) {
	if o.san == nil {
		return
	}
	kind := san.Read
	if a.write {
		kind = san.Write
	}
	c := w.withOffsets(w.start(a, o, kind, m), offs)
	if a.write {
		if o.san.Track {
			x := &w.bools[0]
			d := s.sg(mat)
			for l := range x {
				x[l] = fromFloat(d[sgIndex(l)+e], a.elem)
			}
			c.Val32[0], c.Val64[0] = x, nil
			w.san.Access(s.index, c)
		}
		var in *[san.MaxElems]uint32
		if s.poisoned {
			if bad := *s.poison(mat) & m; bad != 0 {
				if o.san.Space == ir.Device {
					w.san.Uninitialized(s.index, a.pos, san.UseStore, bad, 0)
				} else {
					w.poison[0] = bad
					in = &w.poison
				}
			}
		}
		if o.san.Mark {
			w.san.StorePoison(s.index, c, in)
		}
		return
	}
	if o.san.Track {
		w.san.Access(s.index, c)
	}
	var bad uint32
	if o.san.Poison {
		if bad = w.san.LoadPoison(s.index, c, &w.poison); bad != 0 {
			bad = w.poison[0]
		}
	}
	if bad == 0 && !s.poisoned {
		return
	}
	s.poisoned = true
	p := s.poison(mat)
	if e == 0 {
		*p = 0
	}
	*p |= bad
}

// matrixCopy moves the 64 elements.
func (s *simdgroup) matrixCopy(a *access, o *object, d *[64]float32, start, rs, cs int64) {
	p := unsafe.Add(o.ptr, start)
	if a.elem == ir.F32 && cs == 4 {
		for r := range 8 {
			row := (*[8]float32)(unsafe.Add(p, int64(r)*rs))
			if a.write {
				*row = [8]float32(d[8*r:])
			} else {
				copy(d[8*r:8*r+8], row[:])
			}
		}
		return
	}
	for r := range int64(8) {
		for c := range int64(8) {
			q := unsafe.Add(p, r*rs+c*cs)
			x := &d[8*r+c]
			switch {
			case a.elem == ir.F32 && a.write:
				*(*float32)(q) = *x
			case a.elem == ir.F32:
				*x = *(*float32)(q)
			case a.write:
				*(*uint16)(q) = uint16(fromFloat(*x, a.elem))
			default:
				*x = toFloat(uint32(*(*uint16)(q)), a.elem)
			}
		}
	}
}
