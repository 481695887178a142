package ops

import (
	"minfer/engine/graph"
	"minfer/harness"
	"minfer/suites"
	"minfer/suites/metalcase"
)

// metalOps are the ops whose dispatch-table entries the suite covers; the other
// suites have theirs.
var metalOps = []string{"get_rows", "rms_norm", "qk_norm", "rope", "add", "mul", "silu", "swiglu", "permute", "bias", "copy", "warm_up"}

// Ops are the ops whose dispatch-table entries the suite covers on a Metal device.
func (Suite) Ops() []string { return metalOps }

// onMetal is the list's cases for a Metal device, and the tier's further ones. The
// coverage of the table is judged only where the list is the suite's own.
func onMetal(env *suites.Env, list []opCase) []harness.Case {
	var cases []metalcase.Case
	for _, c := range list {
		cases = append(cases, c.metal())
	}
	if env.Lines != nil {
		return metalcase.Cases(env, "ops", nil, cases)
	}
	narrow := metalcase.Setting{"MINFER_NO_RMS_256=1"}
	for _, d := range lengths(env.Tier) {
		cases = append(cases, &metalcase.RmsNorm{D: d, Rows: 2, Eps: 1e-6, Levers: narrow})
	}
	for _, t := range weightTypes {
		cases = append(cases, &metalcase.GetRows{Type: t, D: 3 * t.BlockSize(), Rows: 5, IDs: 4, Outside: true})
	}
	for _, op := range []graph.Op{graph.Add, graph.Mul, graph.Silu, graph.SwiGLU} {
		// More threadgroups than one, where each must leave the others' elements alone.
		cases = append(cases, &metalcase.Elementwise{Op: op, D: 1025, Rows: 3, InPlace: 1})
	}
	for _, op := range []graph.Op{graph.Silu, graph.SwiGLU} {
		cases = append(cases, &metalcase.Elementwise{Op: op, D: 113, Rows: 2, Far: true})
	}
	for _, mode := range []graph.RopeMode{graph.RopeNeox, graph.RopeNorm} {
		// Heads beyond what two threads take.
		cases = append(cases, &metalcase.Rope{Mode: mode, HD: 32, Heads: 17, Tokens: 2, Dims: 32, PosBelow: 2048, Base: 1e6},
			&metalcase.Rope{Mode: mode, HD: 8, Heads: 65, Tokens: 1, Dims: 8, PosBelow: 2048, Base: 1e6})
	}
	cases = append(cases,
		&metalcase.RmsNorm{D: 113, Rows: 2, Eps: 1e-6, NoWeight: true, Levers: narrow},
		&metalcase.Rope{Mode: graph.RopeNeox, HD: 64, Heads: 16, Tokens: 2, Dims: 64, PosBelow: 2048, Base: 1e6},
		&metalcase.RmsNorm{D: 896, Rows: 3, Eps: 1e-6, NoWeight: true}, &metalcase.RmsNorm{D: 18944, Rows: 2, Eps: 1e-6},
		&metalcase.QkNorm{HD: 128, Heads: 3, Tokens: 2, Eps: 1e-6, Levers: narrow},
		&metalcase.QkNorm{HD: 290, Heads: 3, Tokens: 1, Eps: 1e-6},
		&metalcase.Elementwise{Op: graph.Add, D: 896, Rows: 3, InPlace: 1}, &metalcase.Elementwise{Op: graph.Mul, D: 1025, Rows: 1, InPlace: 2},
		&metalcase.Elementwise{Op: graph.Silu, D: 113, Rows: 2, InPlace: 1}, &metalcase.Elementwise{Op: graph.SwiGLU, D: 4864, Rows: 1, InPlace: 2},
		&metalcase.Rope{Mode: graph.RopeNeox, HD: 64, Heads: 9, Tokens: 3, Dims: 64, PosBelow: 2048, Base: 1e6, InPlace: 1},
		&metalcase.Rope{Mode: graph.RopeNorm, HD: 80, Heads: 2, Tokens: 5, Dims: 64, PosBelow: 2048, Base: 1e4, InPlace: 1},
		&metalcase.Permute{Shape: graph.Shape{7, 5, 3, 1}, Perm: [4]int{0, 2, 1, 3}},
		&metalcase.Permute{Shape: graph.Shape{33, 9, 2, 1}, Perm: [4]int{1, 0, 2, 3}},
		&metalcase.Permute{Shape: graph.Shape{4, 3, 5, 2}, Perm: [4]int{3, 2, 0, 1}},
		// A fourth dimension, that stays and that moves.
		&metalcase.Permute{Shape: graph.Shape{5, 3, 2, 4}, Perm: [4]int{1, 0, 2, 3}},
		&metalcase.Permute{Shape: graph.Shape{7, 3, 2, 3}, Perm: [4]int{2, 1, 0, 3}},
		&metalcase.Permute{Shape: graph.Shape{3, 5, 7, 2}, Perm: [4]int{3, 0, 1, 2}},
		&metalcase.WarmUp{Bytes: 4}, &metalcase.WarmUp{Bytes: 1 << 16}, &metalcase.WarmUp{Bytes: 37 << 10}, &metalcase.WarmUp{Bytes: 256 << 10},
	)
	return metalcase.Cases(env, "ops", metalOps, cases)
}

func (c *mulMat) metal() metalcase.Case {
	return &metalcase.MulMat{Type: c.t, M: c.m, N: c.n, K: c.k, Bias: c.bias}
}

func (c *batchMulMat) metal() metalcase.Case {
	return unsupported(c, metalcase.Node(graph.BatchMatMul, graph.Shape{c.m, c.n, c.b, 1}))
}

func (c *getRows) metal() metalcase.Case {
	return &metalcase.GetRows{Type: c.t, D: c.d, Rows: c.rows, IDs: c.ids}
}

func (c *kvStore) metal() metalcase.Case {
	return &metalcase.KvStore{Type: c.t, D: c.d, Rows: c.rows, N: c.n}
}

func (c *rmsNorm) metal() metalcase.Case {
	return &metalcase.RmsNorm{D: c.d, Rows: c.rows, Eps: c.eps}
}

func (c *qkNorm) metal() metalcase.Case {
	return &metalcase.QkNorm{HD: c.hd, Heads: c.heads, Tokens: c.tokens, Eps: c.eps}
}

func (c *elementwise) metal() metalcase.Case {
	return &metalcase.Elementwise{Op: c.op, D: c.d, Rows: c.rows}
}

func (c *scale) metal() metalcase.Case {
	return unsupported(c, metalcase.Node(graph.Scale, graph.Mat(c.d, c.rows)))
}

func (c *softMax) metal() metalcase.Case {
	return unsupported(c, metalcase.Node(graph.Softmax, graph.Mat(c.d, c.rows)))
}

func (c *attention) metal() metalcase.Case {
	return &metalcase.Attention{HD: c.hd, Heads: c.heads, HeadsKV: c.headsKV, NKV: c.nkv, Tokens: c.tokens, Type: c.t}
}

func (c *rope) metal() metalcase.Case {
	m := &metalcase.Rope{HD: c.hd, Heads: c.heads, Tokens: c.tokens, Dims: c.dims, PosBelow: c.posBelow, Base: c.base,
		Factors: c.factors, Scaling: c.scaling, Factor: c.factor, CtxOrig: c.ctxOrig}
	if c.mode == "neox" {
		m.Mode = graph.RopeNeox
	}
	return m
}

func unsupported(c opCase, n *graph.Node) metalcase.Case {
	name, params := c.id()
	return &metalcase.Unsupported{Name: name, Params: params, Node: n}
}
