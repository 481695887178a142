package pass

import "minfer/metal/msl/ir"

// Contraction of one operation, in the Imm of FAdd, FSub and FMul between
// lowering and [Finish]: with which operations it may be fused.
const (
	ContractAny  = 0 // fast math: across statements
	ContractNone = 1 // contract(off)
	// Greater numbers name a statement: fuse only with a product of that statement.
)

// Contract is the one place that decides which products and sums are fused:
// a sum or difference of two floats of one type, one operand of which is a product that
// has no other use, becomes an FMA. The left operand goes first if both are such
// products. a*b - c is fma(a, b, -c), c - a*b is fma(-a, b, c). Nothing is
// reassociated. Both operations must allow it (ContractAny and so on). A second
// run after other passes could fuse more; run it once.
func Contract(f *ir.Func) {
	uses := make([]int32, len(f.Types))
	def := defs(f)
	walk(f.Body, func(i *ir.Instr) {
		for _, a := range i.Args {
			uses[a]++
		}
	})
	c := &contractor{f: f, uses: uses, def: def}
	c.region(f.Body)
}

type contractor struct {
	f    *ir.Func
	uses []int32
	def  []*ir.Instr
}

func (c *contractor) region(r *ir.Region) {
	out := make([]*ir.Instr, 0, len(r.Instrs))
	for _, i := range r.Instrs {
		for _, b := range i.Body {
			c.region(b)
		}
		if i.Op == ir.FAdd || i.Op == ir.FSub {
			c.fuse(i, &out)
		}
		out = append(out, i)
	}
	r.Instrs = out
}

func (c *contractor) fuse(i *ir.Instr, out *[]*ir.Instr) {
	for k := range 2 {
		v := i.Args[k]
		m := c.def[v]
		if m == nil || m.Op != ir.FMul || c.uses[v] != 1 || i.Imm == ContractNone || m.Imm == ContractNone || i.Imm != m.Imm {
			continue
		}
		a, b, add := m.Args[0], m.Args[1], i.Args[1-k]
		if i.Op == ir.FSub {
			if k == 0 {
				add = c.neg(i, add, out)
			} else {
				a = c.neg(i, a, out)
			}
		}
		i.Op, i.Imm, i.Args = ir.FMA, 0, []ir.Value{a, b, add}
		return
	}
}

func (c *contractor) neg(at *ir.Instr, v ir.Value, out *[]*ir.Instr) ir.Value {
	n := c.f.NewValue(c.f.Types[v])
	i := &ir.Instr{Op: ir.FNeg, Args: []ir.Value{v}, Res: []ir.Value{n}, Pos: at.Pos}
	c.def = append(c.def, i)
	c.uses = append(c.uses, 1)
	*out = append(*out, i)
	return n
}
