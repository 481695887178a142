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
	// id numbers the constructs from 1: a break's code is 2*id, a continue's 2*id+1.
	id map[*ir.Instr]int
}

// seesLanes tells the operations that need the mask.
func seesLanes(o ir.Op) bool {
	return o >= ir.SimdReduce && o <= ir.SimdActive || o == ir.SgBarrier || o == ir.SgMMA
}

func planFlow(f *ir.Func, u *pass.Uniformity) *flow {
	p := &flow{sees: map[*ir.Instr]bool{}, joined: map[*ir.Instr]bool{}, through: map[*ir.Instr]bool{}, voting: map[*ir.Instr]bool{}, id: map[*ir.Instr]int{}}
	p.masks = p.mark(f.Body)
	if p.masks {
		p.walk(f.Body, nil, u)
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

func (p *flow) walk(r *ir.Region, stack []*ir.Instr, u *pass.Uniformity) {
	for _, i := range r.Instrs {
		for _, b := range i.Body {
			p.walk(b, append(stack, i), u)
		}
		if i.Op != ir.Break && i.Op != ir.Continue && i.Op != ir.Return {
			continue
		}
		if i.Op != ir.Return && !p.sees[i.Target] {
			continue // behind the target all lanes are there again
		}
		// From the innermost construct where lanes part, outwards to the target.
		varying := false
		for k := len(stack) - 1; k >= 0 && stack[k] != i.Target; k-- {
			d := stack[k]
			if varying = varying || u.Control(d) == pass.Varying; varying {
				p.through[d] = true
				p.voting[d] = d.Op == ir.Loop
			}
		}
		if varying && i.Op != ir.Return {
			p.joined[i] = true
			p.coded = true
			if i.Target.Op == ir.Loop {
				p.voting[i.Target] = true
			}
		}
	}
}
