package pass

import "minfer/metal/msl/ir"

// walk calls visit for each instruction of r and the regions inside, an
// instruction before its regions.
func walk(r *ir.Region, visit func(*ir.Instr)) {
	for _, i := range r.Instrs {
		visit(i)
		for _, b := range i.Body {
			walk(b, visit)
		}
	}
}

// leaves maps each Loop and Block to the Breaks and Continues that target it.
func leaves(f *ir.Func) map[*ir.Instr][]*ir.Instr {
	m := map[*ir.Instr][]*ir.Instr{}
	walk(f.Body, func(i *ir.Instr) {
		if i.Target != nil {
			m[i.Target] = append(m[i.Target], i)
		}
	})
	return m
}

// defs maps values to the instructions that define them (nil for carried ones).
func defs(f *ir.Func) []*ir.Instr {
	d := make([]*ir.Instr, len(f.Types))
	walk(f.Body, func(i *ir.Instr) {
		for _, v := range i.Res {
			d[v] = i
		}
	})
	return d
}

func terminator(r *ir.Region) *ir.Instr {
	if n := len(r.Instrs); n > 0 {
		return r.Instrs[n-1]
	}
	return nil
}

func size(r *ir.Region) int {
	n := 0
	walk(r, func(i *ir.Instr) {
		if i.Op != ir.Const && !i.Op.Terminator() {
			n++
		}
	})
	return n
}

func memSize(t ir.Type) int {
	if t.IsSg() {
		return 2 * t.SgElem().Size()
	}
	return t.Size()
}
