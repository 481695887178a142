package interp

import (
	"math/bits"
	"unsafe"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl/soft/lane"
	"minfer/metal/mtl/soft/san"
)

// simdgroup is the whole state of one simdgroup: it can stop at any barrier, in
// any nesting, and go on.
type simdgroup struct {
	base unsafe.Pointer // the frame
	// poisons holds a mask of lanes for each 8 bytes of the frame: at half the
	// offset. It is all zero unless poisoned is set.
	poisons  unsafe.Pointer
	frame    []byte
	shadow   []byte
	private  []byte // private arrays, 32 lanes to a word
	pc       int
	mask     uint32 // active lanes
	live     uint32 // lanes that have not returned
	exists   uint32 // lanes of a partial simdgroup
	index    int
	state    state
	poisoned bool
	backs    uint32 // back-edges, for looking whether poison is gone
	one      [2]lane.Step
}

type state uint8

const (
	running state = iota
	atBarrier
	ended
	stopped // by the deadline
)

func (s *simdgroup) u64(off uint32) *uint64 { return (*uint64)(unsafe.Add(s.base, off)) }
func (s *simdgroup) u32(off uint32) *uint32 { return (*uint32)(unsafe.Add(s.base, off)) }
func (s *simdgroup) vec(off uint32) *[32]uint32 {
	return (*[32]uint32)(unsafe.Add(s.base, off))
}
func (s *simdgroup) wide(off uint32) *[32]uint64 {
	return (*[32]uint64)(unsafe.Add(s.base, off))
}
func (s *simdgroup) sg(off uint32) *[64]float32 {
	return (*[64]float32)(unsafe.Add(s.base, off))
}

// poison is the mask of a register's lanes that hold an undefined value.
func (s *simdgroup) poison(off uint32) *uint32 {
	return (*uint32)(unsafe.Add(s.poisons, off/2))
}

// run executes until the simdgroup ends, waits at a barrier, or is stopped.
func (s *simdgroup) run(w *worker) {
	p := w.p
	code := p.code
	base := s.base
	pc := s.pc
	m := s.mask
	for {
		in := &code[pc]
		pc++
		if in.op == opBatch && (!s.poisoned || s.clean(&p.batches[in.imm])) {
			*s.u64(scratchSlot) = uint64(m)
			lane.Run(&p.steps[in.x], base)
			if b := &p.batches[in.imm]; b.loads {
				w.cnt.DeviceRead += b.once + b.lanes*int64(bits.OnesCount32(m))
				if *s.u64(lane.Stopped) != 0 {
					s.resume(w, pc, m)
				}
			}
			pc += int(in.n) - 1
			continue
		}
		if s.poisoned {
			*s.u64(scratchSlot) = uint64(m)
			s.propagate(in)
		}
		switch in.op {
		case opBatch, opStep:
			// Something is poisoned: one step, for its poison must be known before the next.
			s.one[0] = p.steps[in.x]
			lane.Run(&s.one[0], base)
		case opSlow:
			in.fn(unsafe.Add(base, in.dst), unsafe.Add(base, in.a), unsafe.Add(base, in.b), unsafe.Add(base, in.c))
		case opSlowScalar:
			*s.u64(in.dst) = in.sfn(*s.u64(in.a), *s.u64(in.b), *s.u64(in.c))
		case opMergeSg:
			k := m
			if in.x != 0 {
				k = *s.u32(in.b)
			}
			d, a := s.sg(in.dst), s.sg(in.a)
			for ; k != 0; k &= k - 1 {
				e := sgIndex(bits.TrailingZeros32(k))
				d[e], d[e+1] = a[e], a[e+1]
			}
		case opCopySg:
			*s.sg(in.dst) = *s.sg(in.a)
		case opUndef:
			clear(unsafe.Slice((*byte)(unsafe.Add(base, in.dst)), in.imm))
			if w.san != nil {
				s.poisoned = true
				*s.poison(in.dst) = ^uint32(0)
			}

		case opCount:
			w.cnt.Instructions += int64(in.cnt)
		case opIf:
			w.cnt.Instructions += int64(in.cnt)
			if s.poisoned {
				w.usePoison(s, pc-1, in.a, m, san.Use(in.use))
			}
			t := m & *s.u32(in.a)
			rest := m &^ t
			if in.b != 0 {
				*s.u64(in.b) = uint64(rest)
				*s.u64(in.c) = 0
			} else {
				*s.u64(in.c) = uint64(rest)
			}
			m = t
			if t == 0 {
				pc = int(in.tgt)
			} else if rest != 0 {
				w.cnt.Divergent++
			}
		case opElse:
			w.cnt.Instructions += int64(in.cnt)
			*s.u32(in.c) |= m
			m = *s.u32(in.b)
			if m == 0 {
				pc = int(in.tgt)
			}
		case opEndIf:
			w.cnt.Instructions += int64(in.cnt)
			m |= *s.u32(in.a)
			if m == 0 {
				pc = int(in.tgt)
			}
		case opJump:
			w.cnt.Instructions += int64(in.cnt)
			pc = int(in.tgt)
		case opJumpFalse:
			w.cnt.Instructions += int64(in.cnt)
			if s.poisoned {
				w.usePoison(s, pc-1, in.a, m, san.Use(in.use))
			}
			if *s.u32(in.a) == 0 {
				pc = int(in.tgt)
			}
		case opBackEdge:
			w.cnt.Instructions += int64(in.cnt)
			pc = int(in.tgt)
			if w.stop.Load() {
				s.state = stopped
				return
			}
			if s.poisoned {
				s.lookForPoison()
			}
		case opLoopEnter:
			*s.u64(in.a) = 0
			*s.u64(in.b) = 0
		case opLoopNext:
			w.cnt.Instructions += int64(in.cnt)
			m = *s.u32(in.b)
			if m == 0 {
				m = *s.u32(in.a)
				break
			}
			*s.u64(in.b) = 0
			pc = int(in.tgt)
			if w.stop.Load() {
				s.state = stopped
				return
			}
			if s.poisoned {
				s.lookForPoison()
			}
		case opLeave:
			w.cnt.Instructions += int64(in.cnt)
			*s.u32(in.a) |= m
			m = 0
			pc = int(in.tgt)
		case opReturn:
			w.cnt.Instructions += int64(in.cnt)
			s.live &^= m
			m = 0
			pc = int(in.tgt)
		case opEnd:
			w.cnt.Instructions += int64(in.cnt)
			s.state = ended
			s.live = 0
			s.mask = 0
			s.pc = pc - 1
			return

		case opLoad:
			s.load(w, &p.acc[in.x], m)
		case opLoadUniform:
			s.loadUniform(w, &p.acc[in.x], m)
		case opStore:
			s.store(w, &p.acc[in.x], m)
		case opAtomic:
			s.atomic(w, in, &p.acc[in.x], m, pc-1)
		case opPtrCmp:
			if in.x == 1 {
				*s.u64(in.dst) = w.place(s, *s.u64(in.a))
				break
			}
			d, a := s.wide(in.dst), s.wide(in.a)
			for l := range d {
				d[l] = w.place(s, a[l])
			}
		case opGrid:
			w.gridLanes(s, in.imm, s.vec(in.dst))
		case opGridUniform:
			*s.u64(in.dst) = uint64(w.gridScalar(s, in.imm))
		case opReduce, opReduceUniform, opScan, opShuffle, opVote, opFirst, opActive:
			s.collective(w, in, &p.coll[in.x], m, pc-1)
		case opTgBarrier:
			w.cnt.Instructions += int64(in.cnt)
			w.cnt.Barriers++
			s.pc, s.mask = pc, m
			s.state = atBarrier
			return
		case opSgBarrier:
			if w.san != nil {
				w.converged(s, pc-1, m)
				w.san.SgBarrier(s.index, ir.MemFlags(in.x))
			}
		case opFence:
		case opSgFill, opSgDiag, opSgLoad, opSgStore, opSgMMA, opSgElem, opSgWith:
			s.matrix(w, in, m, pc-1)
		}
	}
}

// propagate computes the poison of an instruction's result. What loads and
// collectives leave is set by their own code.
func (s *simdgroup) propagate(in *instr) {
	switch in.op {
	case opBatch, opStep:
		x, y, z := *s.poison(in.a), *s.poison(in.b), *s.poison(in.c)
		switch in.poi {
		case poisonSelect:
			c := *s.u32(in.a)
			x |= y&c | z&^c
		case poisonAnd:
			x = x&y | x&*s.u32(in.b) | y&*s.u32(in.a)
		case poisonOr:
			x = x&y | x&^*s.u32(in.b) | y&^*s.u32(in.a)
		default:
			x |= y | z
		}
		*s.poison(in.dst) = x
	case opSlow, opSlowScalar, opCopySg, opSgMMA, opSgElem, opSgWith, opPtrCmp:
		*s.poison(in.dst) = *s.poison(in.a) | *s.poison(in.b) | *s.poison(in.c)
	case opMergeSg:
		*s.poison(in.dst) |= *s.poison(in.a)
	case opGrid, opGridUniform, opFirst, opActive:
		*s.poison(in.dst) = 0
	case opSgFill, opSgDiag:
		*s.poison(in.dst) = 0
		if *s.poison(in.a) != 0 {
			*s.poison(in.dst) = ^uint32(0)
		}
	}
}

// clean tells whether no operand of a row of steps is poisoned, and if so clears
// the poison of its results.
func (s *simdgroup) clean(b *batch) bool {
	var any uint32
	for _, r := range b.ins {
		any |= *s.poison(r)
	}
	if any != 0 {
		return false
	}
	for _, r := range b.outs {
		*s.poison(r) = 0
	}
	return true
}

// lookForPoison leaves the slow way now and then, when no register is poisoned.
func (s *simdgroup) lookForPoison() {
	if s.backs++; s.backs%16 != 0 {
		return
	}
	words := unsafe.Slice((*uint64)(s.poisons), len(s.shadow)/8)
	for _, x := range words {
		if x != 0 {
			return
		}
	}
	s.poisoned = false
}
