package graph

import (
	"fmt"

	"minfer/engine/gguf"
)

// fusedWidth is the channels of a row that a FusedQKV or FusedQkvNorm stores: its
// weight has the rows of q, then those of k, then those of v.
func fusedWidth(n *Node, s KVSide) int {
	a := n.Attr
	k := a.NHeadKV * a.HeadDim
	if s == KVKey || n.Weight == nil {
		return k
	}
	return n.Weight.Shape[1] - a.NHead*a.HeadDim - k
}

func validateFusedQKV(n *Node) error {
	a := n.Attr
	if a.HeadDim < 1 || a.NHead < 1 || a.NHeadKV < 1 {
		return fmt.Errorf("head_dim %d, n_head %d, n_head_kv %d, want positive numbers", a.HeadDim, a.NHead, a.NHeadKV)
	}
	if err := fusedWeight(n); err != nil {
		return err
	}
	w := n.Weight
	if v := fusedWidth(n, KVValue); v < 1 || v%a.NHeadKV != 0 {
		return fmt.Errorf("weight %q has %d rows, want (n_head %d + n_head_kv %d) * head_dim %d and a multiple of n_head_kv more",
			w.Name, w.Shape[1], a.NHead, a.NHeadKV, a.HeadDim)
	}
	if b := n.Bias; b != nil && (b.Type != gguf.F32 || b.Shape != Vec(w.Shape[1])) {
		return fmt.Errorf("bias %q is %s %v, want [%d] f32", b.Name, shapeText(b.Shape), b.Type, w.Shape[1])
	}
	switch m := n.Norm; {
	case (m != nil) != (n.Op == FusedQkvNorm):
		return fmt.Errorf("norm weight given: %v, want %v", m != nil, n.Op == FusedQkvNorm)
	case m == nil:
	case m.Type != gguf.F32 || m.Shape != Vec(2*a.HeadDim):
		return fmt.Errorf("norm %q is %s %v, want [%d] f32", m.Name, shapeText(m.Shape), m.Type, 2*a.HeadDim)
	case !finite(a.Eps) || a.Eps < 0:
		return fmt.Errorf("eps is %v, want a finite number that is not negative", a.Eps)
	}
	if err := checkRotation(a, n.Factors); err != nil {
		return err
	}
	if err := indexInput(n, 1, 1); err != nil {
		return err
	}
	return outF32(n, Mat(a.NHead*a.HeadDim, 1))
}

func validateFusedFFN(n *Node) error {
	if err := fusedWeight(n); err != nil {
		return err
	}
	if w := n.Weight; w.Shape[1]%2 != 0 {
		return fmt.Errorf("weight %q has %d rows, want an even number: gate and up", w.Name, w.Shape[1])
	}
	return outF32(n, Mat(n.Weight.Shape[1]/2, 1))
}

// fusedWeight checks the concatenation and the one row that it multiplies.
func fusedWeight(n *Node) error {
	w, x := n.Weight, n.In[0]
	if w == nil {
		return fmt.Errorf("no weight")
	}
	if w.Shape[2] != 1 || w.Shape[3] != 1 {
		return fmt.Errorf("weight %q is %s, want two dimensions", w.Name, shapeText(w.Shape))
	}
	if x.Type != gguf.F32 || x.Shape != Mat(w.Shape[0], 1) {
		return fmt.Errorf("input %q is %s %v, want one row of in_dim = %d f32 for weight %q %s",
			x.Name, shapeText(x.Shape), x.Type, w.Shape[0], w.Name, shapeText(w.Shape))
	}
	return nil
}
