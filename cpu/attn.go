package cpu

import (
	"fmt"

	"minfer/cpu/kernel"
	"minfer/engine/gguf"
	"minfer/engine/graph"
)

// rotation is the state of RoPE nodes. The angles of a batch are computed once
// and serve the queries and keys of all layers.
type rotation struct {
	table *kernel.Table
	fn    func(thread, chunk int)
	fill  func(thread, chunk int)

	angles  *kernel.RopeAngles // for params and factors
	params  graph.Rope
	factors *graph.Weight
	pos     []int32   // positions that cs is for
	cs      []float32 // cos, sin of each pair: [NDims, tokens]

	apply        func(dst, x []float32, headDim int, cs []float32)
	x, dst       []float32
	row, headDim int
}

func (r *rotation) init(t *kernel.Table) { r.table, r.fn, r.fill = t, r.chunk, r.fillChunk }

func (r *rotation) chunk(_, i int) {
	lo, hi, d := i*r.row, (i+1)*r.row, r.params.NDims
	r.apply(r.dst[lo:hi], r.x[lo:hi], r.headDim, r.cs[i*d:(i+1)*d])
}

func (r *rotation) fillChunk(_, i int) {
	d := r.params.NDims
	r.angles.Fill(r.cs[i*d:(i+1)*d], r.pos[i])
}

func (b *Backend) rotate(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	r, p := &b.rope, n.Attr.Rope
	r.headDim, r.row = n.Attr.HeadDim, n.Shape[0]
	rows := n.Shape.Rows()
	if n.In[0].Shape != n.Shape {
		return fmt.Errorf("input is %v, want %v", n.In[0].Shape, n.Shape)
	}
	if r.headDim < 1 || r.row%r.headDim != 0 || n.Attr.NHead != r.row/r.headDim {
		return fmt.Errorf("rows of %d, want head_dim %d * n_head %d", r.row, r.headDim, n.Attr.NHead)
	}
	if p.NDims < 2 || p.NDims%2 != 0 || p.NDims > r.headDim {
		return fmt.Errorf("n_dims is %d, want an even number up to head_dim = %d", p.NDims, r.headDim)
	}
	switch p.Mode {
	case graph.RopeNorm:
		r.apply = b.table.RopeNorm
	case graph.RopeNeox:
		r.apply = b.table.RopeNeox
	default:
		return unsupported("rope mode %d, want norm or neox", p.Mode)
	}
	if w := n.Weight; w != nil && (w.Type != gguf.F32 || len(w.Data) != 4*(p.NDims/2)) {
		return fmt.Errorf("factors %q: %d bytes of %v, want %d f32 values", w.Name, len(w.Data), w.Type, p.NDims/2)
	}
	var err error
	if r.x, err = b.floats("input", in[0], r.row*rows); err != nil {
		return err
	}
	if r.dst, err = b.floats("output", out, r.row*rows); err != nil {
		return err
	}
	if b.ints, err = b.indices(b.ints[:0], "position", in[1], rows, 1<<31-1); err != nil {
		return err
	}
	r.prepare(b, p, n.Weight)
	b.pool.run(rows, r.fn)
	return nil
}

// prepare makes cs hold the angles of the positions in b.ints.
func (r *rotation) prepare(b *Backend, p graph.Rope, factors *graph.Weight) {
	same := true
	if r.angles == nil || r.params != p || r.factors != factors {
		same = false
		k := kernel.RopeParams{
			NDims: p.NDims, FreqBase: p.FreqBase, FreqScale: p.FreqScale, ExtFactor: p.ExtFactor,
			AttnFactor: p.AttnFactor, BetaFast: p.BetaFast, BetaSlow: p.BetaSlow, NCtxOrig: p.NCtxOrig,
		}
		if factors != nil {
			k.Factors = asFloats(factors.Data)
		}
		r.angles, r.params, r.factors = kernel.NewRopeAngles(k), p, factors
	}
	if same && len(r.pos) == len(b.ints) {
		for i, pos := range b.ints {
			same = same && r.pos[i] == pos
		}
		if same {
			return
		}
	}
	r.pos = append(r.pos[:0], b.ints...)
	r.cs = grow(r.cs, len(r.pos)*p.NDims)
	b.pool.run(len(r.pos), r.fill)
}

// store is the state of one KvcacheStore node.
type store struct {
	table  *kernel.Table
	fn     func(thread, chunk int)
	region []byte
	x      []float32
	pos    []int32
	width  int
	typ    gguf.Type
}

func (s *store) init(t *kernel.Table) { s.table, s.fn = t, s.chunk }

func (s *store) chunk(_, i int) {
	row := s.typ.RowBytes(s.width)
	s.table.Quantize[s.typ](s.region[int(s.pos[i])*row:][:row], s.x[i*s.width:(i+1)*s.width])
}

// side checks a layer's cache and returns the region and width of one side.
func (b *Backend) side(kv *graph.KV, side graph.KVSide) (region []byte, width int, err error) {
	if kv == nil {
		return nil, 0, fmt.Errorf("no KV cache")
	}
	if kv.Type != gguf.F32 && kv.Type != gguf.F16 {
		return nil, 0, unsupported("KV cache of type %v, want f32 or f16", kv.Type)
	}
	buf, name := kv.K, "K region"
	width = kv.KWidth
	if side == graph.KVValue {
		buf, name, width = kv.V, "V region", kv.VWidth
	}
	if kv.Capacity < 0 || width < 1 {
		return nil, 0, fmt.Errorf("%s: capacity %d and width %d, want positive numbers", name, kv.Capacity, width)
	}
	if region, err = b.window(buf, 0, kv.Capacity*kv.Type.RowBytes(width)); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", name, err)
	}
	return region, width, nil
}

func (b *Backend) store(n *graph.Node, in []graph.Operand, kv *graph.KV) error {
	s := &b.kv
	var err error
	if s.region, s.width, err = b.side(kv, n.Attr.KV); err != nil {
		return err
	}
	s.typ = kv.Type
	x := n.In[0].Shape
	if x[0] != s.width {
		return fmt.Errorf("rows of %d, the cache has rows of %d", x[0], s.width)
	}
	rows := x.Rows()
	if b.ints, err = b.indices(b.ints[:0], "position", in[1], rows, kv.Capacity); err != nil {
		return err
	}
	s.pos = b.ints
	if s.x, err = b.floats("input", in[0], s.width*rows); err != nil {
		return err
	}
	b.pool.run(rows, s.fn)
	return nil
}

// load only checks: the output is the region itself.
func (b *Backend) load(n *graph.Node, kv *graph.KV) error {
	if _, _, err := b.side(kv, n.Attr.KV); err != nil {
		return err
	}
	if n.Attr.NKV < 0 || n.Attr.NKV > kv.Capacity {
		return fmt.Errorf("window of %d cells, the cache has %d", n.Attr.NKV, kv.Capacity)
	}
	return nil
}

// attention is the state of one Attn node.
type attention struct {
	table   *kernel.Table
	fn      func(thread, chunk int)
	threads []attnScratch

	half             bool // F16 cache
	mv               kernel.MatVecFunc
	av               func(dst []float32, v []byte, stride int, p []float32, n int, scratch []float32)
	k, v             []byte
	kStride, vStride int // bytes of a cell
	kHead, vHead     int // bytes of a head in a cell
	q, dst           []float32
	pos              []int32
	nHead, group     int // query heads; of each KV head
	hd, hdV          int
	scale            float32
}

// attnScratch is one thread's memory.
type attnScratch struct {
	q      []byte    // a query head as float16
	scores []float32 // of one head
	lanes  []float32 // of AttnV
}

func (a *attention) init(t *kernel.Table, threads int) {
	a.table, a.fn, a.threads = t, a.chunk, make([]attnScratch, threads)
}

// chunk computes one head of one token. The cells past its position would
// contribute exact zeros and are left out.
func (a *attention) chunk(thread, i int) {
	t, h := i/a.nHead, i%a.nHead
	s := &a.threads[thread]
	n := int(a.pos[t]) + 1
	a.scoreHead(s, t, h, n)
	a.softMaxHead(s, n)
	a.valueHead(s, t, h, n)
}

// scoreHead: the products of a query head with the keys of n cells.
func (a *attention) scoreHead(s *attnScratch, t, h, n int) {
	s.scores = grow(s.scores, (n+a.table.Lanes-1)/a.table.Lanes*a.table.Lanes)
	q := a.q[(t*a.nHead+h)*a.hd:][:a.hd]
	act := asBytes(q)
	if a.half {
		s.q = grow(s.q, 2*a.hd)
		a.table.Quantize[gguf.F16](s.q, q)
		act = s.q
	}
	a.mv(s.scores[:n], a.k[h/a.group*a.kHead:], a.kStride, act, a.hd)
}

// softMaxHead pads to whole groups of Lanes cells: the exact length would take the
// scalar tail, which llama.cpp's padded window never does (section 9).
func (a *attention) softMaxHead(s *attnScratch, n int) { a.table.SoftMax(s.scores, n, a.scale) }

func (a *attention) valueHead(s *attnScratch, t, h, n int) {
	s.lanes = grow(s.lanes, a.table.Lanes*a.hdV)
	dst := a.dst[(t*a.nHead+h)*a.hdV:][:a.hdV]
	a.av(dst, a.v[h/a.group*a.vHead:], a.vStride, s.scores, n, s.lanes)
}

func (b *Backend) attend(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	a, at := &b.attn, n.Attr
	var kWidth, vWidth int
	var err error
	if a.k, kWidth, err = b.side(kv, graph.KVKey); err != nil {
		return err
	}
	if a.v, vWidth, err = b.side(kv, graph.KVValue); err != nil {
		return err
	}
	if at.NHead < 1 || at.NHeadKV < 1 || at.NHead%at.NHeadKV != 0 {
		return fmt.Errorf("n_head %d and n_head_kv %d, want a positive multiple", at.NHead, at.NHeadKV)
	}
	a.hd, a.nHead, a.group, a.scale = at.HeadDim, at.NHead, at.NHead/at.NHeadKV, at.Scale
	a.hdV = vWidth / at.NHeadKV
	if a.hd < 1 || kWidth != at.NHeadKV*a.hd || vWidth%at.NHeadKV != 0 {
		return fmt.Errorf("cache rows of %d and %d, want n_head_kv %d * head_dim %d, and a multiple", kWidth, vWidth, at.NHeadKV, a.hd)
	}
	q, rows := n.In[0].Shape, n.In[0].Shape.Rows()
	if q[0] != a.nHead*a.hd || n.Shape[0] != a.nHead*a.hdV || n.Shape.Rows() != rows {
		return fmt.Errorf("q is %v and the output %v, want rows of %d and %d", q, n.Shape, a.nHead*a.hd, a.nHead*a.hdV)
	}
	if at.NKV < 0 || at.NKV > kv.Capacity {
		return fmt.Errorf("window of %d cells, the cache has %d", at.NKV, kv.Capacity)
	}
	if a.q, err = b.floats("q", in[0], q.Elements()); err != nil {
		return err
	}
	if b.ints, err = b.indices(b.ints[:0], "position", in[3], rows, at.NKV); err != nil {
		return err
	}
	a.pos = b.ints
	if a.dst, err = b.floats("output", out, n.Shape.Elements()); err != nil {
		return err
	}
	a.half = kv.Type == gguf.F16
	a.mv, a.av = b.table.Weights[kv.Type].MatVec, b.table.AttnVF32
	if a.half {
		a.av = b.table.AttnVF16
	}
	a.kStride, a.vStride = kv.Type.RowBytes(kWidth), kv.Type.RowBytes(vWidth)
	a.kHead, a.vHead = kv.Type.RowBytes(a.hd), kv.Type.RowBytes(a.hdV)
	if b.tap != nil {
		a.tapped(b.tap, n, rows)
		return nil
	}
	b.pool.run(rows*a.nHead, a.fn)
	return nil
}

// tapped is the same work on one thread, with every head's scores shown.
func (a *attention) tapped(tap graph.Tap, node *graph.Node, rows int) {
	s := &a.threads[0]
	for t := range rows {
		n := int(a.pos[t]) + 1
		kq, sm := make([]float32, n*a.nHead), make([]float32, n*a.nHead)
		for h := range a.nHead {
			a.scoreHead(s, t, h, n)
			copy(kq[h*n:], s.scores[:n])
			a.softMaxHead(s, n)
			copy(sm[h*n:], s.scores[:n])
			a.valueHead(s, t, h, n)
		}
		dims := graph.Mat(n, a.nHead)
		tap(graph.TapValue{Node: node, Part: "kq", Row: t, Data: kq, Dims: dims})
		tap(graph.TapValue{Node: node, Part: "kq_soft_max", Row: t, Data: sm, Dims: dims})
	}
}
