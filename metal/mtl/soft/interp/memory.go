package interp

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl/soft/lane"
	"minfer/metal/mtl/soft/san"
)

// object is a piece of memory while a worker runs.
type object struct {
	ptr     unsafe.Pointer
	size    int64
	align   int64 // the start's address modulo 64, for alignment checks
	private bool  // an array of each lane: ptr is unused, word says where
	word    int
	san     *san.Object
}

// far bounds offsets, so that sums of a few can't wrap.
const far = 1 << 46

// What the sanitizer wants to know of an object: nothing of null, which it does
// not have.

func (o *object) track() bool  { return o.san != nil && o.san.Track }
func (o *object) poison() bool { return o.san != nil && o.san.Poison }
func (o *object) mark() bool   { return o.san != nil && o.san.Mark }

// start fills the worker's access record.
func (w *worker) start(a *access, o *object, kind san.Kind, m uint32) *san.Access {
	c := &w.access
	c.Kind, c.Obj, c.Pos, c.Mask = kind, o.san, a.pos, m
	c.ElemSize, c.Count = a.size, max(a.count, 1)
	c.Vector, c.VectorOff = 0, 0
	if a.mem != nil {
		c.Vector, c.VectorOff = a.mem.Vector, a.mem.VectorOff
	}
	c.Off, c.Base, c.Stride = nil, 0, 0
	c.Matrix = false
	return c
}

// place sets the lanes' offsets of an access record: off plus the varying part.
func (w *worker) placeLanes(c *san.Access, off int64, v *[32]int64, r *lane.Range, stride int64) {
	if r.Affine {
		c.Base, c.Stride = off+r.Base, stride
		return
	}
	for l := range w.offs {
		w.offs[l] = uint64(v[l] + off)
	}
	c.Off = &w.offs
}

// values hands the values of a store to the access record.
func (w *worker) values(s *simdgroup, c *san.Access, a *access) {
	for k, r := range a.regs {
		if a.size == 8 {
			c.Val32[k], c.Val64[k] = nil, s.wide(r)
		} else if a.elem == ir.I1 {
			x := &w.bools[k]
			m := *s.u32(r)
			for l := range x {
				x[l] = m >> l & 1
			}
			c.Val32[k], c.Val64[k] = x, nil
		} else {
			c.Val32[k], c.Val64[k] = s.vec(r), nil
		}
	}
}

func (s *simdgroup) load(w *worker, a *access, m uint32) {
	off := a.disp + int64(*s.u64(a.su))
	n := int64(a.size * a.count)
	if a.dev {
		w.cnt.DeviceRead += n * int64(bits.OnesCount32(m))
	}
	if s.poisoned {
		w.addressPoison(s, a, m)
	}
	if a.obj >= 0 && a.sv != 0 {
		o := &w.objs[a.obj]
		if !o.private {
			v := (*[32]int64)(unsafe.Pointer(s.wide(a.sv)))
			r := &w.rng
			lane.Addresses(r, v, m, n)
			if r.Lo >= -far && r.Hi <= far && off >= -far && off <= far && r.Lo+off >= 0 && r.Hi+off+n <= o.size &&
				(w.san == nil || (r.Or|off+o.align)&int64(a.align-1) == 0) {
				s.loadLanes(a, o, off, v, r, m)
				if w.san != nil && (o.track() || o.poison() || s.poisoned) {
					c := w.start(a, o, san.Read, m)
					w.placeLanes(c, off, v, r, n)
					w.afterLoad(s, a, o, c)
				}
				return
			}
		}
	}
	if a.joined {
		s.loadJoined(w, a, m)
		return
	}
	if a.obj >= 0 && a.sv == 0 && w.objs[a.obj].private && s.loadRow(w, a, off, m) {
		return
	}
	s.eachObject(w, a, off, m, func(o *object, m uint32, offs *[32]int64) { s.loadSlow(w, a, o, m, offs) })
}

// loadLanes is the common case: everything in bounds.
func (s *simdgroup) loadLanes(a *access, o *object, off int64, v *[32]int64, r *lane.Range, m uint32) {
	if r.Affine && a.count == 1 && r.Base+off >= 0 && r.Base+off+int64(32*a.size) <= o.size {
		p := unsafe.Add(o.ptr, r.Base+off)
		switch {
		case a.elem == ir.I1:
			var x [32]uint32
			lane.Load8(&x, p)
			*s.u64(a.regs[0]) = uint64(nonzero(&x))
		case a.size == 4:
			*s.vec(a.regs[0]) = *(*[32]uint32)(p)
		case a.size == 2:
			lane.Load16(s.vec(a.regs[0]), p)
		case a.size == 1:
			lane.Load8(s.vec(a.regs[0]), p)
		default:
			*s.wide(a.regs[0]) = *(*[32]uint64)(p)
		}
		return
	}
	// Gathers of narrow elements may read whole words where those are in bounds.
	words := r.Hi+off+int64(a.size*(a.count-1))+4 <= o.size
	for k, reg := range a.regs {
		p := unsafe.Add(o.ptr, off+int64(k*a.size))
		switch {
		case a.elem == ir.I1:
			var x [32]uint32
			lane.Gather8(&x, p, v, m)
			*s.u64(reg) = uint64(nonzero(&x))
		case a.size == 4:
			lane.Gather32(s.vec(reg), p, v, m)
		case a.size == 2 && words:
			lane.Gather16(s.vec(reg), p, v, m)
		case a.size == 2:
			lane.Gather16Exact(s.vec(reg), p, v, m)
		case a.size == 1 && words:
			lane.Gather8(s.vec(reg), p, v, m)
		case a.size == 1:
			lane.Gather8Exact(s.vec(reg), p, v, m)
		default:
			lane.Gather64(s.wide(reg), p, v, m)
		}
	}
}

func nonzero(x *[32]uint32) uint32 {
	var m uint32
	for l, v := range x {
		if v&0xff != 0 {
			m |= 1 << l
		}
	}
	return m
}

// afterLoad tells the sanitizer of a load and takes over the poison.
func (w *worker) afterLoad(s *simdgroup, a *access, o *object, c *san.Access) {
	if o.track() {
		w.san.Access(s.index, c)
	}
	var bad uint32
	if o.poison() {
		bad = w.san.LoadPoison(s.index, c, &w.poison)
	}
	if bad == 0 && !s.poisoned {
		return
	}
	s.poisoned = true
	for k, r := range a.regs {
		p := uint32(0)
		if bad != 0 {
			p = w.poison[k]
		}
		*s.poison(r) = *s.poison(r)&^c.Mask | p&c.Mask
	}
}

func (s *simdgroup) loadUniform(w *worker, a *access, m uint32) {
	off := a.disp + int64(*s.u64(a.su))
	n := int64(a.size * a.count)
	if a.dev {
		w.cnt.DeviceRead += n
	}
	if s.poisoned {
		w.addressPoison(s, a, m)
	}
	o := &w.objs[a.obj]
	if off < 0 || off > o.size-n || w.san != nil && (off+o.align)&int64(a.align-1) != 0 {
		s.loadUniformSlow(w, a, o, off, m)
		return
	}
	for k, r := range a.regs {
		*s.u64(r) = readElem(unsafe.Add(o.ptr, off+int64(k*a.size)), a.elem)
	}
	if w.san != nil && (o.track() || o.poison() || s.poisoned) {
		s.uniformLoaded(w, a, o, off, m)
	}
}

func (s *simdgroup) uniformLoaded(w *worker, a *access, o *object, off int64, m uint32) {
	c := w.start(a, o, san.Read, m)
	c.Base = off
	if o.track() {
		w.san.Access(s.index, c)
	}
	var bad uint32
	if o.poison() {
		bad = w.san.LoadPoison(s.index, c, &w.poison)
	}
	if bad == 0 && !s.poisoned {
		return
	}
	s.poisoned = true
	for k, r := range a.regs {
		p := uint32(0)
		if bad != 0 && w.poison[k]&m != 0 {
			p = ^uint32(0)
		}
		*s.poison(r) = p
	}
}

func (s *simdgroup) loadUniformSlow(w *worker, a *access, o *object, off int64, m uint32) {
	n := int64(a.size * a.count)
	if off < 0 || off > o.size-n {
		if w.san != nil {
			for l := range w.signed {
				w.signed[l] = off
			}
			w.outOfBounds(s, a, o, san.Read, m, &w.signed)
		}
		for _, r := range a.regs {
			*s.u64(r) = 0
			if s.poisoned {
				*s.poison(r) = 0
			}
		}
		return
	}
	if w.san != nil && o.san != nil {
		c := w.start(a, o, san.Read, m)
		c.Base = off
		w.san.Misaligned(s.index, c, m, a.align)
	}
	for k, r := range a.regs {
		*s.u64(r) = readElem(unsafe.Add(o.ptr, off+int64(k*a.size)), a.elem)
	}
	if w.san != nil {
		s.uniformLoaded(w, a, o, off, m)
	}
}

// readElem reads one element as a scalar.
func readElem(p unsafe.Pointer, t ir.Type) uint64 {
	switch t.Size() {
	case 1:
		x := uint64(*(*uint8)(p))
		if t == ir.I1 && x != 0 {
			return 0xffffffff
		}
		return x
	case 2:
		return uint64(*(*uint16)(p))
	case 4:
		return uint64(*(*uint32)(p))
	}
	return *(*uint64)(p)
}

// eachObject calls f for each object that active lanes point into, with those
// lanes and their offsets.
func (s *simdgroup) eachObject(w *worker, a *access, off int64, m uint32, f func(o *object, m uint32, offs *[32]int64)) {
	var ptr [32]uint64
	for l := range ptr {
		ptr[l] = uint64(off)
		if a.sv != 0 {
			ptr[l] += s.wide(a.sv)[l]
		}
	}
	var offs [32]int64
	if a.obj >= 0 {
		for l := range offs {
			offs[l] = int64(ptr[l])
		}
		f(&w.objs[a.obj], m, &offs)
		return
	}
	var obj [32]int32
	for l := range ptr {
		obj[l], offs[l] = untag(ptr[l])
	}
	for m != 0 {
		k := obj[bits.TrailingZeros32(m)]
		var part uint32
		for t := m; t != 0; t &= t - 1 {
			if l := bits.TrailingZeros32(t); obj[l] == k {
				part |= 1 << l
			}
		}
		m &^= part
		if k < 0 || int(k) >= len(w.objs) {
			k = 0
		}
		f(&w.objs[k], part, &offs)
	}
}

// inBounds gives the lanes whose n bytes lie in the object.
func inBounds(o *object, m uint32, offs *[32]int64, n int64) uint32 {
	var ok uint32
	for k := m; k != 0; k &= k - 1 {
		l := bits.TrailingZeros32(k)
		if offs[l] >= 0 && offs[l] <= o.size-n {
			ok |= 1 << l
		}
	}
	return ok
}

// outOfBounds reports lanes outside an object, null included.
func (w *worker) outOfBounds(s *simdgroup, a *access, o *object, kind san.Kind, m uint32, offs *[32]int64) {
	if w.san == nil || m == 0 {
		return
	}
	if o.san == nil {
		w.san.NullAccess(s.index, a.pos, kind, m)
		return
	}
	w.san.OutOfBounds(s.index, w.start(a, o, kind, m), m, offs)
}

// misaligned reports the lanes in m whose address is not what the access
// promises.
func (w *worker) misaligned(s *simdgroup, a *access, o *object, kind san.Kind, m uint32, offs *[32]int64) {
	if w.san == nil || a.align <= 1 || o.san == nil {
		return
	}
	var bad uint32
	for k := m; k != 0; k &= k - 1 {
		l := bits.TrailingZeros32(k)
		if (offs[l]+o.align)&int64(a.align-1) != 0 {
			bad |= 1 << l
		}
	}
	if bad != 0 {
		w.san.Misaligned(s.index, w.withOffsets(w.start(a, o, kind, bad), offs), bad, a.align)
	}
}

func (w *worker) withOffsets(c *san.Access, offs *[32]int64) *san.Access {
	for l := range w.offs {
		w.offs[l] = uint64(offs[l])
	}
	c.Off = &w.offs
	return c
}

// loadSlow loads lane by lane, writing the lanes in m only.
func (s *simdgroup) loadSlow(w *worker, a *access, o *object, m uint32, offs *[32]int64) {
	n := int64(a.size * a.count)
	ok := inBounds(o, m, offs, n)
	w.outOfBounds(s, a, o, san.Read, m&^ok, offs)
	w.misaligned(s, a, o, san.Read, ok, offs)
	for k, r := range a.regs {
		for t := m; t != 0; t &= t - 1 {
			l := bits.TrailingZeros32(t)
			var x uint64
			if ok>>l&1 != 0 {
				x = s.readLane(o, l, offs[l]+int64(k*a.size), a.elem)
			}
			s.setLane(r, a.elem, l, x)
		}
	}
	if s.poisoned {
		for _, r := range a.regs {
			*s.poison(r) &^= m
		}
	}
	if w.san != nil && ok != 0 {
		w.afterLoad(s, a, o, w.withOffsets(w.start(a, o, san.Read, ok), offs))
	}
}

func (s *simdgroup) setLane(r uint32, t ir.Type, l int, x uint64) {
	switch {
	case t == ir.I1:
		p := s.u64(r)
		*p &^= 1 << l
		if x != 0 {
			*p |= 1 << l
		}
	case t.Size() == 8:
		s.wide(r)[l] = x
	default:
		s.vec(r)[l] = uint32(x)
	}
}

func (s *simdgroup) lane(r uint32, t ir.Type, l int) uint64 {
	switch {
	case t == ir.I1:
		return *s.u64(r) >> l & 1
	case t.Size() == 8:
		return s.wide(r)[l]
	}
	return uint64(s.vec(r)[l])
}

// readLane reads an element that is in bounds.
func (s *simdgroup) readLane(o *object, l int, off int64, t ir.Type) uint64 {
	if !o.private {
		return readElem(unsafe.Add(o.ptr, off), t)
	}
	var b [8]byte
	for k := range t.Size() {
		b[k] = s.private[s.privateByte(o, l, off+int64(k))]
	}
	return binary.LittleEndian.Uint64(b[:])
}

// privateByte is where a byte of a lane's private array lies: words of the 32
// lanes side by side.
func (s *simdgroup) privateByte(o *object, l int, off int64) int64 {
	return (int64(o.word)+off>>2)*128 + int64(l)*4 + off&3
}

func (s *simdgroup) writeLane(o *object, l int, off int64, t ir.Type, x uint64) {
	if o.private {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], x)
		for k := range t.Size() {
			s.private[s.privateByte(o, l, off+int64(k))] = b[k]
		}
		return
	}
	p := unsafe.Add(o.ptr, off)
	switch t.Size() {
	case 1:
		*(*uint8)(p) = uint8(x)
	case 2:
		*(*uint16)(p) = uint16(x)
	case 4:
		*(*uint32)(p) = uint32(x)
	default:
		*(*uint64)(p) = x
	}
}

// loadRow loads from a private array at one offset for all lanes: whole rows of
// words. It is false where it does not apply.
func (s *simdgroup) loadRow(w *worker, a *access, off int64, m uint32) bool {
	o := &w.objs[a.obj]
	if a.size < 4 || off&3 != 0 || off < 0 || off > o.size-int64(a.size*a.count) || w.san != nil && off&int64(a.align-1) != 0 {
		return false
	}
	row := unsafe.Add(unsafe.Pointer(unsafe.SliceData(s.private)), (int64(o.word)+off>>2)*128)
	for k, r := range a.regs {
		if a.size == 4 {
			*s.vec(r) = *(*[32]uint32)(unsafe.Add(row, k*128))
			continue
		}
		lo, hi := (*[32]uint32)(unsafe.Add(row, k*256)), (*[32]uint32)(unsafe.Add(row, k*256+128))
		d := s.wide(r)
		for l := range d {
			d[l] = uint64(lo[l]) | uint64(hi[l])<<32
		}
	}
	if w.san != nil && (o.track() || o.poison() || s.poisoned) {
		c := w.start(a, o, san.Read, m)
		c.Base = off
		w.afterLoad(s, a, o, c)
	}
	return true
}

// addressPoison reports an address that depends on a value that nobody wrote.
func (w *worker) addressPoison(s *simdgroup, a *access, m uint32) {
	if bad := (*s.poison(a.su) | *s.poison(a.sv)) & m; bad != 0 {
		w.san.Uninitialized(s.index, a.pos, san.UseAddress, bad, 0)
	}
}

// usePoison reports a poisoned register where its value decides something.
func (w *worker) usePoison(s *simdgroup, pc int, reg, m uint32, use san.Use) {
	if bad := *s.poison(reg) & m; bad != 0 {
		w.san.Uninitialized(s.index, w.p.pos[pc], use, bad, 0)
	}
}

// place makes a tagged pointer comparable with pointers into other objects:
// windows of one buffer compare by their place in it.
func (w *worker) place(s *simdgroup, p uint64) uint64 {
	obj, off := untag(p)
	if obj < 0 || int(obj) >= len(w.objs) {
		obj = 0
	}
	o := &w.objs[obj]
	switch {
	case obj == 0:
		return uint64(off)
	case o.private:
		return 1<<62 + uint64(obj)<<tagShift + uint64(off)
	}
	return uint64(uintptr(o.ptr)) + uint64(off)
}
