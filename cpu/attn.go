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
