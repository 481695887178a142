package cuda

import (
	"minfer/metal/msl/ir"
	"minfer/metal/msl/ir/pass"
)

// flow is the plan of where the mask of active lanes changes.
//
// A construct (If, Loop, Block) that some of the active lanes leave early is a
// join: all lanes that entered it, those that leave too, meet at its end and vote
// on who goes on. A leaving lane carries a code (q) for what it wants and is
// handed from join to join until its target. A Return ends the thread, which
// later votes take as absent.
type flow struct {
	masks bool // the function has operations that see other lanes
	coded bool // some leave carries a code
	// sees tells the constructs with such an operation inside.
	sees map[*ir.Instr]bool
	// joined tells the Breaks and Continues that go through joins.
	joined map[*ir.Instr]bool
	// through tells the constructs behind which fewer lanes may be active than
	// before.
	through map[*ir.Instr]bool
	// voting tells the loops whose iterations end with a vote.
	voting map[*ir.Instr]bool
	// held tells the constructs at whose join, for a loop at the end of an iteration,
	// lanes with a code may wait for the others. Whoever leaves such a construct has
	// to pass the join, even if all lanes that are still active leave together.
	held map[*ir.Instr]bool
	// id numbers the constructs from 1: a break's code is 2*id, a continue's 2*id+1.
	id map[*ir.Instr]int
}

// seesLanes tells the operations that need the mask.
func seesLanes(o ir.Op) bool {
	return o >= ir.SimdReduce && o <= ir.SimdActive || o == ir.SgBarrier || o == ir.SgMMA
}

func planFlow(f *ir.Func, u *pass.Uniformity) *flow {
	p := &flow{sees: map[*ir.Instr]bool{}, joined: map[*ir.Instr]bool{}, through: map[*ir.Instr]bool{}, voting: map[*ir.Instr]bool{}, held: map[*ir.Instr]bool{}, id: map[*ir.Instr]int{}}
	p.masks = p.mark(f.Body)
	if p.masks {
		for p.walk(f.Body, nil, u) {
		}
	}
	return p
}

func (p *flow) mark(r *ir.Region) bool {
	any := false
	for _, i := range r.Instrs {
		s := seesLanes(i.Op)
		for _, b := range i.Body {
			s = p.mark(b) || s
		}
		if len(i.Body) > 0 {
			p.id[i] = len(p.id) + 1
			p.sees[i] = s
		}
		any = any || s
	}
	return any
}

// walk plans each leave once; it is true when that changed what other leaves
// have to pass.
func (p *flow) walk(r *ir.Region, stack []*ir.Instr, u *pass.Uniformity) bool {
	changed := false
	for _, i := range r.Instrs {
		for _, b := range i.Body {
			changed = p.walk(b, append(stack, i), u) || changed
		}
		switch {
		case i.Op == ir.Return:
			// The thread ends: nobody waits for it.
			p.outwards(stack, nil, u, func(d *ir.Instr) {
				p.through[d] = true
				p.voting[d] = d.Op == ir.Loop && p.sees[d]
			})
		case (i.Op == ir.Break || i.Op == ir.Continue) && !p.joined[i] && p.sees[i.Target]:
			hold := func(d *ir.Instr) {
				p.joined[i], p.coded, changed = true, true, true
				p.held[d] = true
				p.voting[d] = d.Op == ir.Loop && p.sees[d]
			}
			if p.outwards(stack, i.Target, u, func(d *ir.Instr) { hold(d); p.through[d] = true }) || i.Op == ir.Break && i.Target.Op == ir.Loop && p.held[i.Target] {
				hold(i.Target)
			}
		}
	}
	return changed
}

// outwards calls f for the constructs from the innermost one where lanes part, or
// wait, out to the target, and tells whether there is one. Constructs inside of
// one that sees no lanes are passed over: nobody votes in there, and lanes meet
// behind all of it.
func (p *flow) outwards(stack []*ir.Instr, target *ir.Instr, u *pass.Uniformity, f func(*ir.Instr)) bool {
	parted := false
	for k := len(stack) - 1; k >= 0 && stack[k] != target; k-- {
		d := stack[k]
		parted = parted || p.held[d] || u.Control(d) == pass.Varying
		if parted && (k == 0 || p.sees[stack[k-1]]) {
			f(d)
		}
	}
	return parted
}
