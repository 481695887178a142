package interp

import (
	"math"
	"math/bits"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl/soft/lane"
	"minfer/metal/mtl/soft/san"
)

// converged reports a simdgroup function that live lanes miss.
func (w *worker) converged(s *simdgroup, pc int, m uint32) {
	if m != s.live {
		w.san.NonuniformSimd(s.index, w.p.pos[pc], m, s.live, false)
	}
}

// lanes64 reads a value's lanes as 64-bit words, whatever its width.
func (s *simdgroup) lanes64(r uint32, t ir.Type, out *[32]uint64) {
	switch {
	case t == ir.I1:
		m := *s.u32(r)
		for l := range out {
			out[l] = uint64(m >> l & 1)
		}
	case t.Size() == 8:
		*out = *s.wide(r)
	default:
		for l, x := range s.vec(r) {
			out[l] = uint64(x)
		}
	}
}

func (s *simdgroup) setLanes64(r uint32, t ir.Type, in *[32]uint64) {
	switch {
	case t == ir.I1:
		var m uint64
		for l, x := range in {
			m |= (x & 1) << l
		}
		*s.u64(r) = m
	case t.Size() == 8:
		*s.wide(r) = *in
	default:
		d := s.vec(r)
		for l, x := range in {
			d[l] = uint32(x)
		}
	}
}

func (s *simdgroup) collective(w *worker, in *instr, c *collective, m uint32, pc int) {
	if w.san != nil {
		if in.op == opReduce || in.op == opReduceUniform || in.op == opScan || in.op == opShuffle || in.op == opVote {
			w.converged(s, pc, m)
			if s.poisoned {
				s.collectivePoison(w, in, c, m, pc)
			}
		}
	}
	switch in.op {
	case opReduceUniform:
		if c.typ == ir.F32 && ir.ReduceOp(c.op) == ir.ReduceAdd {
			*s.u64(in.dst) = uint64(math.Float32bits(lane.ReduceFAdd(s.vec(in.a), m)))
			return
		}
		if c.typ == ir.F32 && ir.ReduceOp(c.op) == ir.ReduceFMax {
			*s.u64(in.dst) = uint64(math.Float32bits(lane.ReduceFMax(s.vec(in.a), m)))
			return
		}
		var v [32]uint64
		s.lanes64(in.a, c.typ, &v)
		reduce(&v, m, c, 32)
		*s.u64(in.dst) = v[0]
	case opReduce: // quads
		var v [32]uint64
		s.lanes64(in.a, c.typ, &v)
		reduce(&v, m, c, 4)
		s.setLanes64(in.dst, c.typ, &v)
	case opScan:
		var v [32]uint64
		s.lanes64(in.a, c.typ, &v)
		scan(&v, m, c)
		s.setLanes64(in.dst, c.typ, &v)
	case opShuffle:
		s.shuffle(w, in, c, m, pc)
	case opVote:
		s.vote(in, c, m)
	case opFirst:
		var first uint32
		if c.quad {
			for q := 0; q < 32; q += 4 {
				g := m & (15 << q)
				first |= g & -g
			}
		} else {
			first = m & -m
		}
		*s.u64(in.dst) = uint64(first)
	case opActive:
		if !c.quad {
			*s.u64(in.dst) = uint64(m)
			return
		}
		d := s.wide(in.dst)
		for l := range d {
			d[l] = uint64(m >> (l &^ 3) & 15)
		}
	}
}

// collectivePoison reports undefined values that active lanes put in, and takes
// the result as defined, so that one fault is told once.
func (s *simdgroup) collectivePoison(w *worker, in *instr, c *collective, m uint32, pc int) {
	if in.op == opShuffle {
		// A shuffle is a copy between lanes: its poison moves along.
		return
	}
	w.usePoison(s, pc, in.a, m, san.UseCollective)
	*s.poison(in.dst) = 0
}

// identity is what an inactive lane contributes.
func identity(c *collective) uint64 {
	t := c.typ
	all := ^uint64(0)
	if t != ir.I64 {
		all = narrowMask(t)
	}
	one, inf := uint64(1), uint64(0)
	switch t {
	case ir.F32:
		one, inf = 0x3f800000, 0x7f800000
	case ir.F16:
		one, inf = 0x3c00, 0x7c00
	case ir.BF16:
		one, inf = 0x3f80, 0x7f80
	}
	switch ir.ReduceOp(c.op) {
	case ir.ReduceAdd:
		// -0 leaves every float as it is; +0 would turn a sum of -0 into +0.
		if t.IsFloat() {
			return all &^ (all >> 1)
		}
	case ir.ReduceMul:
		return one
	case ir.ReduceSMin:
		return all >> 1
	case ir.ReduceSMax:
		return all &^ (all >> 1)
	case ir.ReduceUMin, ir.ReduceAnd:
		return all
	case ir.ReduceFMin:
		return inf
	case ir.ReduceFMax:
		return inf | all&^(all>>1)
	}
	return 0
}

// combine is the operation of a reduction on two lanes.
func combine(c *collective, x, y uint64) uint64 {
	f := func(o lane.Op) uint64 {
		switch c.typ {
		case ir.F16:
			return lane.Scalar(lane.FToF16)(lane.Scalar(o)(lane.Scalar(lane.F16ToF)(x, 0, 0), lane.Scalar(lane.F16ToF)(y, 0, 0), 0), 0, 0)
		case ir.BF16:
			return lane.Scalar(lane.FToBF16)(lane.Scalar(o)(lane.Scalar(lane.BF16ToF)(x, 0, 0), lane.Scalar(lane.BF16ToF)(y, 0, 0), 0), 0, 0)
		}
		return lane.Scalar(o)(x, y, 0)
	}
	all := ^uint64(0)
	shift := 0
	if c.typ != ir.I64 {
		all = narrowMask(c.typ)
		shift = 64 - c.typ.Bits()
	}
	sx, sy := int64(x<<shift), int64(y<<shift)
	switch ir.ReduceOp(c.op) {
	case ir.ReduceAdd:
		if c.typ.IsFloat() {
			return f(lane.FAdd)
		}
		return (x + y) & all
	case ir.ReduceMul:
		if c.typ.IsFloat() {
			return f(lane.FMul)
		}
		return x * y & all
	case ir.ReduceSMin:
		if sx < sy {
			return x
		}
		return y
	case ir.ReduceSMax:
		if sx > sy {
			return x
		}
		return y
	case ir.ReduceUMin:
		return min(x, y)
	case ir.ReduceUMax:
		return max(x, y)
	case ir.ReduceFMin:
		return f(lane.FMin)
	case ir.ReduceFMax:
		return f(lane.FMax)
	case ir.ReduceAnd:
		return x & y
	case ir.ReduceOr:
		return x | y
	}
	return x ^ y
}

// reduce combines lane i with i^16, i^8, ... i^1 (from i^2 on within quads): the
// order is the contract. Every lane ends with the result.
func reduce(v *[32]uint64, m uint32, c *collective, group int) {
	id := identity(c)
	for l := range v {
		if m>>l&1 == 0 {
			v[l] = id
		}
	}
	for step := group / 2; step > 0; step /= 2 {
		old := *v
		for l := range v {
			v[l] = combine(c, old[l], old[l^step])
		}
	}
}

// scan combines the active lanes below (and the lane itself, unless exclusive),
// in ascending order.
func scan(v *[32]uint64, m uint32, c *collective) {
	group := 32
	if c.quad {
		group = 4
	}
	for g := 0; g < 32; g += group {
		started := false
		var acc uint64
		start := scanIdentity(c)
		for l := g; l < g+group; l++ {
			if m>>l&1 == 0 {
				continue
			}
			x := v[l]
			next := x
			if started {
				next = combine(c, acc, x)
			}
			switch {
			case !c.excl:
				v[l] = next
			case started:
				v[l] = acc
			default:
				v[l] = start
			}
			acc, started = next, true
		}
	}
}

// scanIdentity is what the first lane of an exclusive scan gets: 0 for sums, 1
// for products.
func scanIdentity(c *collective) uint64 {
	if ir.ReduceOp(c.op) == ir.ReduceAdd {
		return 0
	}
	return identity(c)
}

// operand reads the lane number, delta or mask of a shuffle for a lane.
func (s *simdgroup) shuffleOperand(in *instr, c *collective, l int) uint32 {
	if c.uni {
		return *s.u32(in.b)
	}
	return s.vec(in.b)[l]
}

func (s *simdgroup) shuffle(w *worker, in *instr, c *collective, m uint32, pc int) {
	var v, out [32]uint64
	s.lanes64(in.a, c.typ, &v)
	first := bits.TrailingZeros32(m)
	op := ir.ShuffleOp(c.op)
	group := 32
	if c.quad {
		group = 4
	}
	uniform := op != ir.ShuffleLane && op != ir.ShuffleBroadcastFirst
	delta := 0
	if uniform && c.args > 1 {
		delta = int(int32(s.shuffleOperand(in, c, first)))
		if w.san != nil && !c.uni {
			for k := m; k != 0; k &= k - 1 {
				if int(int32(s.vec(in.b)[bits.TrailingZeros32(k)])) != delta {
					w.san.NonuniformSimd(s.index, w.p.pos[pc], m, s.live, true)
					break
				}
			}
		}
	}
	var fill [32]uint64
	modulo := group
	if op == ir.ShuffleFillUp || op == ir.ShuffleFillDown {
		s.lanes64(in.c, c.typ, &fill)
		if n := int(int32(*s.u32(c.mod))); n > 0 && n <= group {
			modulo = n
		}
	}
	var inactive uint32 // lanes that read one that is not there
	var poison uint32
	for k := m; k != 0; k &= k - 1 {
		l := bits.TrailingZeros32(k)
		g, i := l&^(group-1), l&(group-1)
		src := i
		filled := -1
		switch op {
		case ir.ShuffleLane:
			src = int(int32(s.shuffleOperand(in, c, l)))
		case ir.ShuffleBroadcast:
			src = delta
		case ir.ShuffleBroadcastFirst:
			src = bits.TrailingZeros32(m>>g) & (group - 1)
		case ir.ShuffleUp:
			if src = i - delta; src < 0 {
				src = i
			}
		case ir.ShuffleDown:
			if src = i + delta; src >= group {
				src = i
			}
		case ir.ShuffleXor:
			src = i ^ delta
		case ir.ShuffleRotateUp:
			src = (i - delta) & (group - 1)
		case ir.ShuffleRotateDown:
			src = (i + delta) & (group - 1)
		case ir.ShuffleFillUp:
			base := i / modulo * modulo
			if src = i - delta; src < base {
				// The last lanes of fill's group come in from below.
				filled = g + base + (src-base)%modulo + modulo
				if filled >= g+base+modulo {
					filled -= modulo
				}
			}
		case ir.ShuffleFillDown:
			base := i / modulo * modulo
			if src = i + delta; src >= base+modulo {
				filled = g + base + (src-base)%modulo
			}
		}
		from := &v
		reg := in.a
		if filled >= 0 {
			src, from, reg = filled, &fill, in.c
		} else {
			if src < 0 || src >= group {
				inactive |= 1 << l
				continue
			}
			src += g
		}
		if m>>src&1 == 0 {
			inactive |= 1 << l
			continue
		}
		out[l] = from[src]
		if s.poisoned {
			poison |= *s.poison(reg) >> src & 1 << l
		}
	}
	if inactive != 0 && w.san != nil && m == s.live {
		// With fewer active lanes than live ones it has been reported already.
		w.san.NonuniformSimd(s.index, w.p.pos[pc], m, s.live|inactive, true)
	}
	if s.poisoned {
		if c.args > 1 {
			w.usePoison(s, pc, in.b, m, san.UseCollective)
		}
		if in.op == opShuffle && s.isScalar(c, op) && poison != 0 {
			poison = ^uint32(0)
		}
		*s.poison(in.dst) = poison
	}
	if s.isScalar(c, op) {
		*s.u64(in.dst) = out[first]
		if c.typ == ir.I1 && out[first] != 0 {
			*s.u64(in.dst) = 0xffffffff
		}
		return
	}
	s.setLanes64(in.dst, c.typ, &out)
}

// isScalar tells the shuffles whose result is the same in all lanes and lives in
// a scalar.
func (s *simdgroup) isScalar(c *collective, op ir.ShuffleOp) bool {
	return !c.quad && (op == ir.ShuffleBroadcast || op == ir.ShuffleBroadcastFirst)
}

func (s *simdgroup) vote(in *instr, c *collective, m uint32) {
	x := *s.u32(in.a) & m
	if !c.quad {
		switch ir.VoteOp(c.op) {
		case ir.VoteAny:
			*s.u64(in.dst) = mask64(x != 0)
		case ir.VoteAll:
			*s.u64(in.dst) = mask64(x == m)
		default:
			*s.u64(in.dst) = uint64(x)
		}
		return
	}
	if ir.VoteOp(c.op) == ir.VoteBallot {
		d := s.wide(in.dst)
		for l := range d {
			d[l] = uint64(x >> (l &^ 3) & 15)
		}
		return
	}
	var out uint32
	for q := 0; q < 32; q += 4 {
		g := x >> q & 15
		if ir.VoteOp(c.op) == ir.VoteAny && g != 0 || ir.VoteOp(c.op) == ir.VoteAll && g == m>>q&15 {
			out |= 15 << q
		}
	}
	*s.u64(in.dst) = uint64(out)
}

func mask64(b bool) uint64 {
	if b {
		return 0xffffffff
	}
	return 0
}
