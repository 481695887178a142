package cuda

import "minfer/metal/msl/ir"

// counted tells an innermost loop that counts in equal steps up to a bound that
// does not change in it: such a loop ends by itself, so it is not watched,
// which would part its iterations. (A bound within a step of the largest number is not
// told apart: past it the count starts again.)
func (e *emitter) counted(i *ir.Instr) bool {
	r := i.Body[0]
	if e.flow.sees[i] {
		return false
	}
	inside := definitions(r, map[ir.Value]*ir.Instr{})
	for _, x := range r.Args {
		inside[x] = i
	}
	// The first condition is that of the loop.
	var first *ir.Instr
	for _, in := range r.Instrs {
		if in.Op == ir.If {
			first = in
			break
		}
	}
	if first == nil {
		return false
	}
	cmp := e.defs[first.Args[0]]
	if cmp == nil || cmp.Op != ir.ICmp {
		return false
	}
	count, bound := cmp.Args[0], cmp.Args[1]
	switch ir.Pred(cmp.Imm) {
	case ir.ULt, ir.ULe, ir.SLt, ir.SLe:
	case ir.UGt, ir.UGe, ir.SGt, ir.SGe:
		count, bound = bound, count
	default:
		return false
	}
	if inside[bound] != nil {
		return false
	}
	if d := e.defs[count]; d != nil && d.Op == ir.Add { // of what lies ahead
		if _, ok := e.constant(d.Args[1]); ok {
			count = d.Args[0]
		}
	}
	leaves := first.Body[1].Instrs
	if last := leaves[len(leaves)-1]; last.Op != ir.Break || last.Target != i {
		return false
	}
	for k, x := range r.Args {
		if x == count {
			return e.steps(r, i, k, x)
		}
	}
	return false
}

// steps says that all iterations of a loop without loops in it go on with the
// k-th carried value, x, larger by a step that does not change.
func (e *emitter) steps(r *ir.Region, loop *ir.Instr, k int, x ir.Value) bool {
	for _, in := range r.Instrs {
		switch {
		case in.Op == ir.Loop:
			return false
		case in.Op == ir.Continue && in.Target == loop:
			d := e.defs[in.Args[k]]
			if d == nil || d.Op != ir.Add {
				return false
			}
			y, c := d.Args[0], d.Args[1]
			if y != x {
				y, c = c, y
			}
			if y != x || !e.positive(c) {
				return false
			}
		}
		for _, b := range in.Body {
			if !e.steps(b, loop, k, x) {
				return false
			}
		}
	}
	return true
}

// positive tells steps that are at least 1: small constants, and numbers of
// threads and of simdgroups.
func (e *emitter) positive(step ir.Value) bool {
	if n, ok := e.constant(step); ok {
		return n >= 1 && n <= 1<<20
	}
	d := e.defs[step]
	if d == nil || d.Op != ir.Grid {
		return false
	}
	switch ir.GridKind(d.Imm >> 2) {
	case ir.ThreadsPerGrid, ir.ThreadsPerThreadgroup, ir.DispatchThreadsPerThreadgroup, ir.ThreadgroupsPerGrid,
		ir.SimdgroupsPerThreadgroup, ir.DispatchSimdgroupsPerThreadgroup, ir.ThreadsPerSimdgroup:
		return true
	}
	return false
}
