package interp

import (
	"math/bits"
	"unsafe"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl/soft/lane"
	"minfer/metal/mtl/soft/san"
)

func (s *simdgroup) store(w *worker, a *access, m uint32) {
	off := a.disp + int64(*s.u64(a.su))
	n := int64(a.size * a.count)
	if a.dev {
		w.cnt.DeviceWritten += n * int64(bits.OnesCount32(m))
	}
	if s.poisoned {
		w.addressPoison(s, a, m)
	}
	if a.obj >= 0 {
		o := &w.objs[a.obj]
		if o.private {
			if a.sv == 0 && s.storeRow(w, a, off, m) {
				return
			}
		} else {
			r := &w.rng
			v := &zeroLanes
			if a.sv != 0 {
				v = (*[32]int64)(unsafe.Pointer(s.wide(a.sv)))
				lane.Addresses(r, v, m, n)
			} else {
				*r = lane.Range{}
			}
			if r.Lo >= -far && r.Hi <= far && off >= -far && off <= far && r.Lo+off >= 0 && r.Hi+off+n <= o.size &&
				(w.san == nil || (r.Or|off+o.align)&int64(a.align-1) == 0) {
				if w.san != nil {
					c := w.start(a, o, san.Write, m)
					if a.sv == 0 {
						c.Base = off
					} else {
						w.placeLanes(c, off, v, r, n)
					}
					w.beforeStore(s, a, o, c)
				}
				s.storeLanes(a, o, off, v, r, m)
				return
			}
		}
	}
	s.eachObject(w, a, off, m, func(o *object, m uint32, offs *[32]int64) { s.storeSlow(w, a, o, m, offs) })
}

var zeroLanes [32]int64

func (s *simdgroup) storeLanes(a *access, o *object, off int64, v *[32]int64, r *lane.Range, m uint32) {
	if r.Affine && a.count == 1 && m == 0xffffffff && a.elem != ir.I1 {
		p := unsafe.Add(o.ptr, r.Base+off)
		switch a.size {
		case 4:
			*(*[32]uint32)(p) = *s.vec(a.regs[0])
		case 2:
			lane.Store16(p, s.vec(a.regs[0]))
		case 1:
			lane.Store8(p, s.vec(a.regs[0]))
		default:
			*(*[32]uint64)(p) = *s.wide(a.regs[0])
		}
		return
	}
	if a.sv == 0 {
		// One address: the last lane's value stays.
		m = 1 << (31 - bits.LeadingZeros32(m))
	}
	for k, reg := range a.regs {
		p := unsafe.Add(o.ptr, off+int64(k*a.size))
		switch {
		case a.elem == ir.I1:
			x := *s.u32(reg)
			for t := m; t != 0; t &= t - 1 {
				l := bits.TrailingZeros32(t)
				*(*uint8)(unsafe.Add(p, v[l])) = uint8(x >> l & 1)
			}
		case a.size == 4:
			x := s.vec(reg)
			for t := m; t != 0; t &= t - 1 {
				l := bits.TrailingZeros32(t)
				*(*uint32)(unsafe.Add(p, v[l])) = x[l]
			}
		case a.size == 2:
			x := s.vec(reg)
			for t := m; t != 0; t &= t - 1 {
				l := bits.TrailingZeros32(t)
				*(*uint16)(unsafe.Add(p, v[l])) = uint16(x[l])
			}
		case a.size == 1:
			x := s.vec(reg)
			for t := m; t != 0; t &= t - 1 {
				l := bits.TrailingZeros32(t)
				*(*uint8)(unsafe.Add(p, v[l])) = uint8(x[l])
			}
		default:
			x := s.wide(reg)
			for t := m; t != 0; t &= t - 1 {
				l := bits.TrailingZeros32(t)
				*(*uint64)(unsafe.Add(p, v[l])) = x[l]
			}
		}
	}
}

// beforeStore tells the sanitizer of a store: races, poison that reaches device
// memory, which bytes are written now.
func (w *worker) beforeStore(s *simdgroup, a *access, o *object, c *san.Access) {
	if o.track() {
		w.values(s, c, a)
		w.san.Access(s.index, c)
	}
	var in *[san.MaxElems]uint32
	if s.poisoned {
		var any uint32
		for k, r := range a.regs {
			w.poison[k] = *s.poison(r) & c.Mask
			any |= w.poison[k]
		}
		switch {
		case any == 0:
		case o.san != nil && o.san.Space == ir.Device:
			w.san.Uninitialized(s.index, c.Pos, san.UseStore, any, 0)
		default:
			in = &w.poison
		}
	}
	if o.mark() {
		w.san.StorePoison(s.index, c, in)
	}
}

func (s *simdgroup) storeSlow(w *worker, a *access, o *object, m uint32, offs *[32]int64) {
	ok := inBounds(o, m, offs, int64(a.size*a.count))
	w.outOfBounds(s, a, o, san.Write, m&^ok, offs)
	w.misaligned(s, a, o, san.Write, ok, offs)
	if ok == 0 {
		return
	}
	if w.san != nil {
		w.beforeStore(s, a, o, w.withOffsets(w.start(a, o, san.Write, ok), offs))
	}
	for k, r := range a.regs {
		for t := ok; t != 0; t &= t - 1 {
			l := bits.TrailingZeros32(t)
			s.writeLane(o, l, offs[l]+int64(k*a.size), a.elem, s.lane(r, a.elem, l))
		}
	}
}

// storeRow is loadRow's twin, for any mask.
func (s *simdgroup) storeRow(w *worker, a *access, off int64, m uint32) bool {
	o := &w.objs[a.obj]
	if a.size != 4 || off&3 != 0 || off < 0 || off > o.size-int64(a.size*a.count) || w.san != nil && off&int64(a.align-1) != 0 {
		return false
	}
	if w.san != nil {
		c := w.start(a, o, san.Write, m)
		c.Base = off
		w.beforeStore(s, a, o, c)
	}
	row := unsafe.Add(unsafe.Pointer(unsafe.SliceData(s.private)), (int64(o.word)+off>>2)*128)
	for k, r := range a.regs {
		d := (*[32]uint32)(unsafe.Add(row, k*128))
		if m == 0xffffffff {
			*d = *s.vec(r)
		} else {
			lane.Merge32(d, m, s.vec(r))
		}
	}
	return true
}
