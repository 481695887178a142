package irtest

import "minfer/metal/msl/ir"

// matrix runs the operations of simdgroup matrices, for the simdgroup as a whole;
// SgElem and SgWith are those of lane 0, which has row 0, columns 0 and 1.
func (m *machine) matrix(i *ir.Instr, t ir.Type) error {
	out := &matrix{}
	switch i.Op {
	case ir.SgFill, ir.SgDiag:
		x := t.SgElem().Float(m.vals[i.Args[0]])
		for k := range out {
			if i.Op == ir.SgFill || k%9 == 0 {
				out[k] = x
			}
		}
	case ir.SgLoad, ir.SgStore:
		a := i.Args
		if i.Op == ir.SgStore {
			out = m.mats[a[0]]
			a = a[1:]
		}
		stride, col, row := int64(m.vals[a[1]]), int64(m.vals[a[2]]), int64(m.vals[a[3]])
		elem := i.Mem.Elem
		for k := range out {
			r, c := int64(k/8), int64(k%8)
			if m.vals[a[4]] != 0 {
				r, c = c, r
			}
			p := m.ptrs[a[0]]
			p.off += ((row+r)*stride + col + c) * int64(elem.Size())
			if i.Op == ir.SgStore {
				if err := m.write(p, elem.Size(), elem.FloatBits(out[k])); err != nil {
					return err
				}
				continue
			}
			x, err := m.read(p, elem.Size())
			if err != nil {
				return err
			}
			out[k] = elem.Float(x)
		}
		if i.Op == ir.SgStore {
			return nil
		}
	case ir.SgMMA:
		a, b, c := m.mats[i.Args[0]], m.mats[i.Args[1]], m.mats[i.Args[2]]
		elem := t.SgElem()
		for k := range out {
			sum := ir.F32.FloatBits(c[k])
			for n := range 8 {
				sum = fma(ir.F32, ir.F32.FloatBits(a[k/8*8+n]), ir.F32.FloatBits(b[n*8+k%8]), sum)
			}
			out[k] = elem.Float(elem.FloatBits(ir.F32.Float(sum)))
		}
	case ir.SgElem:
		m.vals[i.Res[0]] = t.FloatBits(m.mats[i.Args[0]][i.Imm])
		return nil
	case ir.SgWith:
		*out = *m.mats[i.Args[0]]
		out[i.Imm] = t.SgElem().Float(m.vals[i.Args[1]])
	}
	m.mats[i.Res[0]] = out
	return nil
}
