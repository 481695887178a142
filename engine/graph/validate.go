package graph

import (
	"fmt"
	"math"
	"slices"

	"minfer/engine/gguf"
)

// Validate checks that g is in topological order and that every node's inputs,
// weights, attributes, type and shape are those of the table at [Node]. An
// error names the node and the tensor, with the numbers found and expected.
// What depends on the values of inputs (token ids, positions) is checked by
// each run instead.
func Validate(g *Graph) error {
	if g == nil || len(g.Nodes) == 0 {
		return fmt.Errorf("graph: no nodes")
	}
	names := map[string]bool{}
	stores := map[[2]int]bool{}
	for i, n := range g.Nodes {
		if n == nil {
			return fmt.Errorf("graph: node %d is nil", i)
		}
		if n.ID != i {
			return fmt.Errorf("graph: %s: ID is not its index %d", nodeName(n), i)
		}
		for k, x := range n.In {
			switch {
			case x == nil:
				return fmt.Errorf("graph: %s: input %d is nil", nodeName(n), k)
			case x.ID < 0 || x.ID >= i:
				return fmt.Errorf("graph: %s: input %d is node %d (%s), want an earlier node", nodeName(n), k, x.ID, x.Name)
			case g.Nodes[x.ID] != x:
				return fmt.Errorf("graph: %s: input %d (%s) is not a node of this graph", nodeName(n), k, x.Name)
			}
		}
		if n.Op == Input {
			if names[n.Name] {
				return fmt.Errorf("graph: %s: a second input of that name", nodeName(n))
			}
			names[n.Name] = true
		}
		for _, side := range storedSides(n) {
			key := [2]int{n.Layer, int(side)}
			if stores[key] {
				return fmt.Errorf("graph: %s: a second store of side %d of layer %d", nodeName(n), side, n.Layer)
			}
			stores[key] = true
		}
		if err := validateNode(n); err != nil {
			return fmt.Errorf("graph: %s: %w", nodeName(n), err)
		}
	}
	return validateOutput(g)
}

func validateOutput(g *Graph) error {
	o := g.Output
	if o == nil {
		return fmt.Errorf("graph: no output node")
	}
	if o.ID < 0 || o.ID >= len(g.Nodes) || g.Nodes[o.ID] != o {
		return fmt.Errorf("graph: the output %s is not a node of this graph", nodeName(o))
	}
	if o.Type != gguf.F32 || o.Op == Input || o.Op == KvcacheStore || o.Op == KvcacheLoad {
		return fmt.Errorf("graph: the output %s is of type %v, want a computed f32 value", nodeName(o), o.Type)
	}
	p := g.Params
	if (p.FuseQKV || p.FuseFFN) && (p.NTokens != 1 || !p.GPU) {
		return fmt.Errorf("graph: decode fusions are asked for with n_tokens = %d and gpu = %v, want 1 and true", p.NTokens, p.GPU)
	}
	if p.NTokens != 0 {
		if p.NTokens < 0 || p.NOut < 1 || p.NOut > p.NTokens {
			return fmt.Errorf("graph: n_out is %d, want 1 to n_tokens = %d", p.NOut, p.NTokens)
		}
		if o.Shape.Rows() != p.NOut {
			return fmt.Errorf("graph: the output %s has %d rows, want n_out = %d", nodeName(o), o.Shape.Rows(), p.NOut)
		}
	}
	return nil
}

// nodeName is how errors name a node.
func nodeName(n *Node) string {
	return fmt.Sprintf("node %d %q (%s)", n.ID, n.Name, n.Op)
}

// shapeText prints a shape without trailing ones.
func shapeText(s Shape) string {
	d := 4
	for d > 1 && s[d-1] == 1 {
		d--
	}
	return fmt.Sprint(s[:d])
}

// storedSides are the sides of its layer's cache that a node writes.
func storedSides(n *Node) []KVSide {
	switch n.Op {
	case KvcacheStore:
		return []KVSide{n.Attr.KV}
	case FusedQKV, FusedQkvNorm:
		return []KVSide{KVKey, KVValue}
	}
	return nil
}

// arity is the number of inputs of each op that Validate knows; weightUse says
// which weights it takes.
var arity = map[Op]int{
	Input: 0, GetRows: 1, Add: 2, Mul: 2, Silu: 1, SwiGLU: 2, RmsNorm: 1, QkNorm: 1,
	MatMul: 1, RoPE: 2, KvcacheStore: 2, KvcacheLoad: 1, Attn: 4, Scale: 1, Softmax: 1,
	BatchMatMul: 2, View: 1, Reshape: 1, Permute: 1, FusedQKV: 2, FusedQkvNorm: 2, FusedFFN: 1,
}

func validateNode(n *Node) error {
	elems := 1
	for i, d := range n.Shape {
		// The product stays far below overflow: no value of a model comes near 2^48.
		if d < 1 || d > 1<<40 || elems > 1<<48/d {
			return fmt.Errorf("shape %v: dimension %d is %d, want at least 1 and a sane product", n.Shape, i, d)
		}
		elems *= d
	}
	if n.Type.BlockSize() == 0 || n.Shape[0]%n.Type.BlockSize() != 0 {
		return fmt.Errorf("rows of %d values of type %v, want whole blocks of a known type", n.Shape[0], n.Type)
	}
	want, known := arity[n.Op]
	if !known {
		// QkvBiasRopeStore and unknown numbers: Assign finds no backend for them.
		return nil
	}
	if len(n.In) != want {
		return fmt.Errorf("%d inputs, want %d", len(n.In), want)
	}
	fusedQKV := n.Op == FusedQKV || n.Op == FusedQkvNorm
	if n.Bias != nil && n.Op != MatMul && !fusedQKV {
		return fmt.Errorf("bias %q on an op that takes none", n.Bias.Name)
	}
	for _, w := range []*Weight{n.Norm, n.Factors} {
		if w != nil && !fusedQKV {
			return fmt.Errorf("norm or factors %q on an op that takes none", w.Name)
		}
	}
	for _, w := range []*Weight{n.Weight, n.Bias, n.Norm, n.Factors} {
		if w != nil {
			if err := validateWeight(w); err != nil {
				return err
			}
		}
	}
	switch n.Op {
	case GetRows, RmsNorm, QkNorm, MatMul, RoPE, FusedQKV, FusedQkvNorm, FusedFFN:
	default:
		if n.Weight != nil {
			return fmt.Errorf("weight %q on an op that takes none", n.Weight.Name)
		}
	}
	switch n.Op {
	case KvcacheStore, KvcacheLoad, Attn, FusedQKV, FusedQkvNorm:
		if n.Layer < 0 {
			return fmt.Errorf("layer is %d, want the layer of its cache", n.Layer)
		}
	}
	return validators[n.Op](n)
}

func validateWeight(w *Weight) error {
	bs := w.Type.BlockSize()
	if bs == 0 {
		return fmt.Errorf("weight %q has unknown type %v", w.Name, w.Type)
	}
	for i, d := range w.Shape {
		if d < 1 || d > 1<<31 {
			return fmt.Errorf("weight %q: dimension %d is %d, want at least 1", w.Name, i, d)
		}
	}
	if w.Shape[0]%bs != 0 {
		return fmt.Errorf("weight %q: rows of %d, want a multiple of %d for %v", w.Name, w.Shape[0], bs, w.Type)
	}
	if want := w.Type.RowBytes(w.Shape[0]) * w.Shape.Rows(); len(w.Data) != want {
		return fmt.Errorf("weight %q %s %v: %d bytes of data, want %d", w.Name, shapeText(w.Shape), w.Type, len(w.Data), want)
	}
	return nil
}

// validators check one op each, after the checks that all share.
var validators = map[Op]func(*Node) error{
	Input: func(n *Node) error {
		if n.Type != gguf.I32 && n.Type != gguf.F32 {
			return fmt.Errorf("type %v, want i32 (or f32 in a graph of single ops)", n.Type)
		}
		if n.Name == "" {
			return fmt.Errorf("no name: values are given by name")
		}
		return nil
	},
	GetRows: func(n *Node) error {
		if n.Weight == nil {
			return fmt.Errorf("no table")
		}
		if err := indexInput(n, 0, n.Shape.Rows()); err != nil {
			return err
		}
		return outF32(n, Mat(n.Weight.Shape[0], n.In[0].Shape[0]))
	},
	Add:    elementwise,
	Mul:    elementwise,
	Silu:   elementwise,
	SwiGLU: elementwise,
	Scale: func(n *Node) error {
		if !finite(n.Attr.Scale) {
			return fmt.Errorf("scale is %v, want a finite number", n.Attr.Scale)
		}
		return elementwise(n)
	},
	Softmax: func(n *Node) error {
		if !finite(n.Attr.Scale) {
			return fmt.Errorf("scale is %v, want a finite number", n.Attr.Scale)
		}
		return elementwise(n)
	},
	RmsNorm: func(n *Node) error {
		if err := normWeight(n, n.Shape[0]); err != nil {
			return err
		}
		return elementwise(n)
	},
	QkNorm: func(n *Node) error {
		hd := n.Attr.HeadDim
		if hd < 1 || n.Shape[0]%hd != 0 {
			return fmt.Errorf("rows of %d, want a multiple of head_dim = %d", n.Shape[0], hd)
		}
		if n.Weight == nil {
			return fmt.Errorf("no weight")
		}
		if err := normWeight(n, hd); err != nil {
			return err
		}
		return elementwise(n)
	},
	MatMul: func(n *Node) error {
		w, x := n.Weight, n.In[0]
		if w == nil {
			return fmt.Errorf("no weight")
		}
		if x.Type != gguf.F32 || x.Shape[0] != w.Shape[0] {
			return fmt.Errorf("input %q is %s %v, want rows of in_dim = %d f32 for weight %q %s",
				x.Name, shapeText(x.Shape), x.Type, w.Shape[0], w.Name, shapeText(w.Shape))
		}
		if w.Shape[2] != 1 || w.Shape[3] != 1 {
			return fmt.Errorf("weight %q is %s, want two dimensions", w.Name, shapeText(w.Shape))
		}
		if b := n.Bias; b != nil && (b.Type != gguf.F32 || b.Shape != Vec(w.Shape[1])) {
			return fmt.Errorf("bias %q is %s %v, want [%d] f32", b.Name, shapeText(b.Shape), b.Type, w.Shape[1])
		}
		out := x.Shape
		out[0] = w.Shape[1]
		return outF32(n, out)
	},
	RoPE: validateRope,
	KvcacheStore: func(n *Node) error {
		x := n.In[0]
		if x.Type != gguf.F32 || x.Shape[0] != n.Shape[0] {
			return fmt.Errorf("input %q is %s %v, want rows of %d f32", x.Name, shapeText(x.Shape), x.Type, n.Shape[0])
		}
		if !isKVType(n.Type) {
			return fmt.Errorf("cache type %v, want f32, f16 or q8_0", n.Type)
		}
		if n.Attr.KV > KVValue {
			return fmt.Errorf("side %d, want key or value", n.Attr.KV)
		}
		return indexInput(n, 1, x.Shape.Rows())
	},
	KvcacheLoad: func(n *Node) error {
		s := n.In[0]
		if s.Layer != n.Layer || !slices.Contains(storedSides(s), n.Attr.KV) {
			return fmt.Errorf("input is %s of layer %d, want the store of this side of layer %d", nodeName(s), s.Layer, n.Layer)
		}
		if s.Op != KvcacheStore {
			if want := Mat(fusedWidth(s, n.Attr.KV), n.Attr.NKV); !isKVType(n.Type) || n.Shape != want {
				return fmt.Errorf("is %s %v, want %s of f32, f16 or q8_0", shapeText(n.Shape), n.Type, shapeText(want))
			}
			return nil
		}
		if want := Mat(s.Shape[0], n.Attr.NKV); n.Type != s.Type || n.Shape != want {
			return fmt.Errorf("is %s %v, want %s %v", shapeText(n.Shape), n.Type, shapeText(want), s.Type)
		}
		return nil
	},
	Attn:         validateAttn,
	FusedQKV:     validateFusedQKV,
	FusedQkvNorm: validateFusedQKV,
	FusedFFN:     validateFusedFFN,
	BatchMatMul:  validateBatchMatMul,
	View: func(n *Node) error {
		x := n.In[0]
		if n.Type != x.Type || n.Shape[0] != x.Shape[0] {
			return fmt.Errorf("is %s %v, want rows of %q: %s %v", shapeText(n.Shape), n.Type, x.Name, shapeText(x.Shape), x.Type)
		}
		if o, r := n.Attr.Offset, n.Shape.Rows(); o < 0 || o > x.Shape.Rows() || r > x.Shape.Rows()-o {
			return fmt.Errorf("rows %d to %d of %q, which has %d", o, o+r, x.Name, x.Shape.Rows())
		}
		return nil
	},
	Reshape: func(n *Node) error {
		x := n.In[0]
		if n.Type != x.Type || n.Shape.Elements() != x.Shape.Elements() {
			return fmt.Errorf("is %s %v, want as many values as %q: %s %v", shapeText(n.Shape), n.Type, x.Name, shapeText(x.Shape), x.Type)
		}
		return nil
	},
	Permute: func(n *Node) error {
		x, want, seen := n.In[0], Shape{}, [4]bool{}
		for i, p := range n.Attr.Perm {
			if p < 0 || p > 3 || seen[p] {
				return fmt.Errorf("perm %v is not a permutation of 0..3", n.Attr.Perm)
			}
			seen[p] = true
			want[p] = x.Shape[i]
		}
		if x.Type != gguf.F32 {
			return fmt.Errorf("input %q is of type %v, want f32", x.Name, x.Type)
		}
		return outF32(n, want)
	},
}

// elementwise: f32 inputs and output, all of one shape.
func elementwise(n *Node) error {
	for _, x := range n.In {
		if x.Type != gguf.F32 {
			return fmt.Errorf("input %q is of type %v, want f32", x.Name, x.Type)
		}
		if x.Shape != n.In[0].Shape {
			return fmt.Errorf("input %q is %s, want %s as %q", x.Name, shapeText(x.Shape), shapeText(n.In[0].Shape), n.In[0].Name)
		}
	}
	return outF32(n, n.In[0].Shape)
}

func outF32(n *Node, want Shape) error {
	if n.Type != gguf.F32 || n.Shape != want {
		return fmt.Errorf("output is %s %v, want %s f32", shapeText(n.Shape), n.Type, shapeText(want))
	}
	return nil
}

// indexInput: input k is an Input of rows I32 values (ids or positions). Only
// an Input, so that a run can check the values before anything executes.
func indexInput(n *Node, k, rows int) error {
	x := n.In[k]
	if x.Op != Input || x.Type != gguf.I32 || x.Shape != Vec(rows) {
		return fmt.Errorf("input %d is %s %s %v, want an input node of [%d] i32", k, nodeName(x), shapeText(x.Shape), x.Type, rows)
	}
	return nil
}

func normWeight(n *Node, d int) error {
	if w := n.Weight; w != nil && (w.Type != gguf.F32 || w.Shape != Vec(d)) {
		return fmt.Errorf("weight %q is %s %v, want [%d] f32", w.Name, shapeText(w.Shape), w.Type, d)
	}
	if e := n.Attr.Eps; !finite(e) || e < 0 {
		return fmt.Errorf("eps is %v, want a finite number that is not negative", e)
	}
	return nil
}

func validateRope(n *Node) error {
	a, x := n.Attr, n.In[0]
	if a.HeadDim < 1 || a.NHead < 1 || x.Shape[0]%a.HeadDim != 0 || x.Shape[0]/a.HeadDim != a.NHead {
		return fmt.Errorf("input %q has rows of %d, want head_dim %d * n_head %d", x.Name, x.Shape[0], a.HeadDim, a.NHead)
	}
	if err := checkRotation(a, n.Weight); err != nil {
		return err
	}
	if err := indexInput(n, 1, x.Shape.Rows()); err != nil {
		return err
	}
	if x.Type != gguf.F32 {
		return fmt.Errorf("input %q is of type %v, want f32", x.Name, x.Type)
	}
	return outF32(n, x.Shape)
}

// checkRotation checks the parameters of a rotation of heads.
func checkRotation(a Attr, factors *Weight) error {
	r := a.Rope
	if r.NDims < 2 || r.NDims%2 != 0 || r.NDims > a.HeadDim {
		return fmt.Errorf("n_dims is %d, want an even number up to head_dim = %d", r.NDims, a.HeadDim)
	}
	if r.Mode > RopeNeox {
		return fmt.Errorf("rope mode %d, want norm or neox", r.Mode)
	}
	if !finite(r.FreqBase) || r.FreqBase <= 0 || !finite(r.FreqScale) || r.FreqScale <= 0 {
		return fmt.Errorf("freq_base %v and freq_scale %v, want finite numbers above 0", r.FreqBase, r.FreqScale)
	}
	if !finite(r.ExtFactor) || !finite(r.AttnFactor) || !finite(r.BetaFast) || !finite(r.BetaSlow) {
		return fmt.Errorf("ext_factor %v, attn_factor %v, beta_fast %v, beta_slow %v, want finite numbers", r.ExtFactor, r.AttnFactor, r.BetaFast, r.BetaSlow)
	}
	if w := factors; w != nil && (w.Type != gguf.F32 || w.Shape != Vec(r.NDims/2)) {
		return fmt.Errorf("factors %q are %s %v, want [%d] f32", w.Name, shapeText(w.Shape), w.Type, r.NDims/2)
	}
	return nil
}

func validateAttn(n *Node) error {
	a := n.Attr
	q, k, v := n.In[0], n.In[1], n.In[2]
	if a.HeadDim < 1 || a.NHead < 1 || a.NHeadKV < 1 || a.NHead%a.NHeadKV != 0 {
		return fmt.Errorf("head_dim %d, n_head %d, n_head_kv %d, want positive numbers and n_head a multiple of n_head_kv", a.HeadDim, a.NHead, a.NHeadKV)
	}
	for i, l := range []*Node{k, v} {
		if l.Op != KvcacheLoad || l.Layer != n.Layer || l.Attr.KV != KVSide(i) {
			return fmt.Errorf("input %d is %s of layer %d, want the load of side %d of layer %d", i+1, nodeName(l), l.Layer, i, n.Layer)
		}
		if l.Shape[1] != a.NKV {
			return fmt.Errorf("input %d %q has %d cells, want n_kv = %d", i+1, l.Name, l.Shape[1], a.NKV)
		}
	}
	if k.Type != v.Type {
		return fmt.Errorf("keys are %v and values %v, want one type", k.Type, v.Type)
	}
	if q.Type != gguf.F32 || q.Shape[0]%a.HeadDim != 0 || q.Shape[0]/a.HeadDim != a.NHead {
		return fmt.Errorf("q %q is %s %v, want rows of head_dim %d * n_head %d f32", q.Name, shapeText(q.Shape), q.Type, a.HeadDim, a.NHead)
	}
	if k.Shape[0]%a.HeadDim != 0 || k.Shape[0]/a.HeadDim != a.NHeadKV {
		return fmt.Errorf("k %q has rows of %d, want head_dim %d * n_head_kv %d", k.Name, k.Shape[0], a.HeadDim, a.NHeadKV)
	}
	if v.Shape[0]%a.NHeadKV != 0 {
		return fmt.Errorf("v %q has rows of %d, want a multiple of n_head_kv %d", v.Name, v.Shape[0], a.NHeadKV)
	}
	if !finite(a.Scale) {
		return fmt.Errorf("scale is %v, want a finite number", a.Scale)
	}
	if err := indexInput(n, 3, q.Shape.Rows()); err != nil {
		return err
	}
	out := q.Shape
	out[0] = v.Shape[0] / a.NHeadKV * a.NHead
	return outF32(n, out)
}

func validateBatchMatMul(n *Node) error {
	a, b := n.In[0], n.In[1]
	if a.Type != gguf.F32 || b.Type != gguf.F32 || a.Shape[0] != b.Shape[0] || a.Shape[2] != b.Shape[2] || a.Shape[3] != b.Shape[3] {
		return fmt.Errorf("inputs %q %s %v and %q %s %v, want f32 [k,m,b] and [k,n,b]",
			a.Name, shapeText(a.Shape), a.Type, b.Name, shapeText(b.Shape), b.Type)
	}
	return outF32(n, Shape{a.Shape[1], b.Shape[1], b.Shape[2], b.Shape[3]})
}

func isKVType(t DType) bool { return t == gguf.F32 || t == gguf.F16 || t == gguf.Q8_0 }

func finite(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }

// byteLen is the size of a node's value.
func byteLen(t DType, s Shape) int { return t.RowBytes(s[0]) * s.Rows() }
