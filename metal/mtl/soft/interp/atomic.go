package interp

import (
	"math"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl/soft/lane"
	"minfer/metal/mtl/soft/san"
)

// atomic executes an atomic operation, lanes in ascending order.
func (s *simdgroup) atomic(w *worker, in *instr, a *access, m uint32, pc int) {
	off := a.disp + int64(*s.u64(a.su))
	if s.poisoned {
		w.addressPoison(s, a, m)
		if in.a != 0 {
			w.usePoison(s, pc, in.a, m, san.UseAtomic)
		}
		if in.b != 0 {
			w.usePoison(s, pc, in.b, m, san.UseAtomic)
		}
		if in.dst != 0 {
			*s.poison(in.dst) = 0
		}
	}
	kind := san.AtomicRead
	if a.write {
		kind = san.AtomicWrite
	}
	s.eachObject(w, a, off, m, func(o *object, m uint32, offs *[32]int64) {
		if a.dev || a.obj < 0 && o.san != nil && o.san.Space <= ir.Constant {
			n := int64(a.size) * int64(bits.OnesCount32(m))
			if a.kind != ir.AtomicStore {
				w.cnt.DeviceRead += n
			}
			if a.write {
				w.cnt.DeviceWritten += n
			}
		}
		ok := inBounds(o, m, offs, int64(a.size))
		w.outOfBounds(s, a, o, kind, m&^ok, offs)
		// An atomic at an odd address does not exist: it is dropped.
		var aligned uint32
		for k := ok; k != 0; k &= k - 1 {
			if l := bits.TrailingZeros32(k); !o.private && (offs[l]+o.align)&int64(a.size-1) == 0 {
				aligned |= 1 << l
			}
		}
		if bad := ok &^ aligned; bad != 0 && w.san != nil && o.san != nil {
			w.san.Misaligned(s.index, w.withOffsets(w.start(a, o, kind, bad), offs), bad, a.size)
		}
		if w.san != nil && o.san != nil && aligned != 0 {
			c := w.withOffsets(w.start(a, o, kind, aligned), offs)
			if o.san.Track {
				c.Val32[0], c.Val64[0] = nil, nil
				w.san.Access(s.index, c)
			}
			if o.san.Poison && a.kind != ir.AtomicStore {
				if bad := w.san.LoadPoison(s.index, c, &w.poison); bad != 0 {
					w.san.Uninitialized(s.index, a.pos, san.UseAtomic, bad, 0)
				}
			}
			if o.san.Mark && a.write {
				w.san.StorePoison(s.index, c, nil)
			}
		}
		for k := m; k != 0; k &= k - 1 {
			l := bits.TrailingZeros32(k)
			var old uint64
			if aligned>>l&1 != 0 {
				old = s.atomicLane(in, a, unsafe.Add(o.ptr, offs[l]), l)
			}
			if in.dst != 0 {
				s.setLane(in.dst, a.elem, l, old)
			}
		}
	})
}

// atomicLane is one lane's operation on an aligned place of 4 or 8 bytes.
func (s *simdgroup) atomicLane(in *instr, a *access, p unsafe.Pointer, l int) uint64 {
	var x, y uint64
	if in.a != 0 {
		x = s.lane(in.a, a.elem, l)
	}
	if in.b != 0 {
		y = s.lane(in.b, a.elem, l)
	}
	if a.size == 8 {
		q := (*uint64)(p)
		switch a.kind {
		case ir.AtomicLoad:
			return atomic.LoadUint64(q)
		case ir.AtomicStore:
			atomic.StoreUint64(q, x)
			return 0
		}
		for {
			old := atomic.LoadUint64(q)
			next, swap := atomicNext(a, old, x, y)
			if !swap || atomic.CompareAndSwapUint64(q, old, next) {
				return old
			}
		}
	}
	q := (*uint32)(p)
	switch a.kind {
	case ir.AtomicLoad:
		return uint64(atomic.LoadUint32(q))
	case ir.AtomicStore:
		atomic.StoreUint32(q, uint32(x))
		return 0
	}
	for {
		old := atomic.LoadUint32(q)
		next, swap := atomicNext(a, uint64(old), x, y)
		if !swap || atomic.CompareAndSwapUint32(q, old, uint32(next)) {
			return uint64(old)
		}
	}
}

// atomicNext is the value that an atomic leaves, and whether it writes at all.
func atomicNext(a *access, old, x, y uint64) (uint64, bool) {
	if a.kind == ir.AtomicCAS {
		return y, old == x
	}
	so, sx := int64(old), int64(x)
	if a.size == 4 {
		so, sx = int64(int32(old)), int64(int32(x))
	}
	switch a.atomic {
	case ir.AtomicAdd:
		return old + x, true
	case ir.AtomicSub:
		return old - x, true
	case ir.AtomicAnd:
		return old & x, true
	case ir.AtomicOr:
		return old | x, true
	case ir.AtomicXor:
		return old ^ x, true
	case ir.AtomicSMin:
		if so < sx {
			return old, true
		}
		return x, true
	case ir.AtomicSMax:
		if so > sx {
			return old, true
		}
		return x, true
	case ir.AtomicUMin:
		return min(old, x), true
	case ir.AtomicUMax:
		return max(old, x), true
	case ir.AtomicFAdd:
		return lane.Scalar(lane.FAdd)(old, x, 0), true
	case ir.AtomicFSub:
		return uint64(math.Float32bits(math.Float32frombits(uint32(old)) - math.Float32frombits(uint32(x)))), true
	}
	return x, true // exchange
}

// orderMatters tells that device atomics of the function give results that
// depend on the order of threadgroups: all but integer updates whose old value
// nobody uses.
func orderMatters(f *ir.Func) bool {
	used := make([]bool, len(f.Types))
	ordered := false
	var candidates []ir.Value
	var walk func(r *ir.Region)
	walk = func(r *ir.Region) {
		for _, i := range r.Instrs {
			for _, v := range i.Args {
				used[v] = true
			}
			for _, b := range i.Body {
				walk(b)
			}
			if i.Mem == nil || i.Mem.Space == ir.Threadgroup || i.Mem.Space == ir.Thread {
				continue
			}
			switch i.Op {
			case ir.AtomicLoad, ir.AtomicStore, ir.AtomicCAS:
				ordered = true
			case ir.AtomicRMW:
				switch ir.AtomicOp(i.Imm) {
				case ir.AtomicExchange, ir.AtomicFAdd, ir.AtomicFSub:
					ordered = true
				}
				candidates = append(candidates, i.Res...)
			}
		}
	}
	walk(f.Body)
	for _, v := range candidates {
		ordered = ordered || used[v]
	}
	return ordered
}
