package pass

import "minfer/metal/msl/ir"

// Hoist moves pure operations out of the loops in which their operands do not
// change, also out of conditionals inside: they cannot fail, so computing one in
// vain does no harm.
func Hoist(f *ir.Func) {
	h := &hoister{depth: make([]int32, len(f.Types))}
	h.region(f.Body)
}

type hoister struct {
	// depth is the number of loops around a value's definition.
	depth []int32
	loops [][]*ir.Instr // what moves in front of each loop around
}

func (h *hoister) region(r *ir.Region) {
	out := make([]*ir.Instr, 0, len(r.Instrs))
	for _, i := range r.Instrs {
		d := int32(len(h.loops))
		if i.Op == ir.Loop {
			h.loops = append(h.loops, nil)
			for _, a := range i.Body[0].Args {
				h.depth[a] = d + 1
			}
			h.region(i.Body[0])
			out = append(out, h.loops[d]...)
			h.loops = h.loops[:d]
		} else {
			for _, b := range i.Body {
				h.region(b)
			}
			if i.Op.Pure() && len(i.Res) == 1 && len(i.Args) > 0 {
				d = 0
				for _, a := range i.Args {
					d = max(d, h.depth[a])
				}
			}
		}
		for _, v := range i.Res {
			h.depth[v] = d
		}
		if int(d) < len(h.loops) {
			h.loops[d] = append(h.loops[d], i)
			continue
		}
		out = append(out, i)
	}
	r.Instrs = out
}
