package graph

// projection is the way from the layer's input to a rotated q or k.
type projection struct {
	mul, norm, rope *Node // norm is nil where the architecture has none
}

// projected follows the inputs back from a rotation; ok is false where they are
// something else.
func projected(n *Node) (p projection, ok bool) {
	if n.Op != RoPE {
		return p, false
	}
	p.rope = n
	if n = n.In[0]; n.Op == QkNorm {
		p.norm, n = n, n.In[0]
	}
	p.mul = n
	return p, n.Op == MatMul
}

// nodes of the projection that have one reader each within the pattern.
func (p projection) nodes() []*Node {
	if p.norm == nil {
		return []*Node{p.mul, p.rope}
	}
	return []*Node{p.mul, p.norm, p.rope}
}

// qkv fuses what computes the inputs of an attention:
//
//	q: MatMul [QkNorm] RoPE
//	k: MatMul [QkNorm] RoPE KvcacheStore
//	v: MatMul KvcacheStore
//
// The fused node stands in the place of the first of them. Its inputs exist by
// then, and nothing reads the cells of its position before a load that follows
// both stores.
func (f *fuser) qkv(attn *Node) {
	ks, vs := attn.In[1].In[0], attn.In[2].In[0]
	if ks.Op != KvcacheStore || vs.Op != KvcacheStore {
		return
	}
	q, okQ := projected(attn.In[0])
	k, okK := projected(ks.In[0])
	v := vs.In[0]
	if !okQ || !okK || v.Op != MatMul || (q.norm == nil) != (k.norm == nil) {
		return
	}
	members := append(append(q.nodes(), k.nodes()...), v, ks, vs)
	first := members[0]
	for _, m := range members {
		if m.ID < first.ID {
			first = m
		}
	}
	x, pos, r := q.mul.In[0], q.rope.In[1], q.rope.Attr
	n := Node{
		Op: FusedQKV, Name: q.rope.Name, Layer: attn.Layer, Type: q.rope.Type, Shape: q.rope.Shape, In: []*Node{x, pos},
		Weight: concatenation(q.mul.Weight, k.mul.Weight, v.Weight), Factors: q.rope.Weight,
		Attr: Attr{HeadDim: r.HeadDim, NHead: r.NHead, NHeadKV: k.rope.Attr.NHead, Rope: r.Rope},
	}
	switch {
	case !f.only(members...),
		x.Shape.Rows() != 1,
		k.mul.In[0] != x || v.In[0] != x,
		k.rope.In[1] != pos || ks.In[1] != pos || vs.In[1] != pos,
		pos.ID > first.ID,
		k.rope.Weight != q.rope.Weight || k.rope.Attr.HeadDim != r.HeadDim || k.rope.Attr.Rope != r.Rope,
		n.Weight == nil:
		return
	}
	if q.mul.Bias != nil || k.mul.Bias != nil || v.Bias != nil {
		if n.Bias = concatenation(q.mul.Bias, k.mul.Bias, v.Bias); n.Bias == nil {
			return
		}
	}
	if q.norm != nil {
		n.Op, n.Attr.Eps = FusedQkvNorm, q.norm.Attr.Eps
		n.Norm = concatenation(q.norm.Weight, k.norm.Weight)
		if n.Norm == nil || k.norm.Attr.Eps != q.norm.Attr.Eps {
			return
		}
	}
	if f.takes(first, &n, ks.Type) {
		f.swallow(first, &fusion{n, []*Node{q.rope, ks, vs}}, members...)
	}
}

// ffn fuses the two projections of a gated product with it: silu(gate)*up. The
// fused node stands in the place of the product.
func (f *fuser) ffn(mul *Node) bool {
	s, up := f.gated(mul)
	if s == nil {
		return false
	}
	gate := s.In[0]
	if gate.Op != MatMul || up.Op != MatMul || gate.Bias != nil || up.Bias != nil {
		return false
	}
	x := gate.In[0]
	n := Node{
		Op: FusedFFN, Name: mul.Name, Layer: mul.Layer, Type: mul.Type, Shape: mul.Shape, In: []*Node{x},
		Weight: concatenation(gate.Weight, up.Weight),
	}
	if up.In[0] != x || x.Shape.Rows() != 1 || n.Weight == nil || !f.only(gate, up, s) || !f.takes(mul, &n, n.Type) {
		return false
	}
	f.swallow(mul, &fusion{n, []*Node{mul}}, gate, up, s)
	return true
}

// concatenation is the weight that consists of the given ones, in that order and
// without anything else; nil where there is none.
func concatenation(ws ...*Weight) *Weight {
	if ws[0] == nil || ws[0].Concat == nil {
		return nil
	}
	c := ws[0].Concat
	dim := 1 // along which the weights follow each other
	if c.Shape[1] == 1 {
		dim = 0
	}
	row := 0
	for _, w := range ws {
		if w == nil || w.Concat != c || w.Row != row || w.Type != c.Type || (dim == 1 && w.Shape[0] != c.Shape[0]) {
			return nil
		}
		row += w.Shape[dim]
	}
	if row != c.Shape[dim] {
		return nil
	}
	return c
}
