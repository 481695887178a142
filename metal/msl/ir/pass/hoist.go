package pass

import "minfer/metal/msl/ir"

// Hoist moves pure operations out of the loops in which their operands do not
// change, also out of conditionals inside: they cannot fail, so computing one in
// vain does no harm. Loads of a field of a constant argument that is bound by
// reference count as such: the element is there.
func Hoist(f *ir.Func) {
	h := &hoister{f: f, def: defs(f), depth: make([]int32, len(f.Types))}
	h.region(f.Body)
}

// movable tells what may be computed in vain.
func (h *hoister) movable(i *ir.Instr) bool {
	if i.Op.Pure() {
		return len(i.Res) == 1 && len(i.Args) > 0
	}
	if i.Op != ir.Load || i.Mem.Space != ir.Constant {
		return false
	}
	p := h.def[i.Args[0]]
	off := int64(0)
	if p != nil && p.Op == ir.PtrAdd {
		c := h.def[p.Args[1]]
		if c == nil || c.Op != ir.Const {
			return false
		}
		off, p = int64(c.Imm), h.def[p.Args[0]]
	}
	if p == nil || p.Op != ir.PtrParam {
		return false
	}
	a := h.f.Params[p.Imm]
	return a.Ref && off >= 0 && off+int64(i.Mem.Count*i.Mem.Elem.Size()) <= int64(a.ElemSize)
}

type hoister struct {
	f   *ir.Func
	def []*ir.Instr
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
			if h.movable(i) {
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
