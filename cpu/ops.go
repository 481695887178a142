package cpu

import (
	"fmt"

	"minfer/cpu/kernel"
	"minfer/engine/gguf"
	"minfer/engine/graph"
)

// getRows is the state of one GetRows node.
type getRows struct {
	fn     func(thread, chunk int)
	w      *kernel.Weight
	data   []byte
	stride int
	ids    []int32
	d      int
	dst    []float32
}

func (g *getRows) init() { g.fn = g.chunk }

func (g *getRows) chunk(_, i int) {
	g.w.Dequantize(g.dst[i*g.d:(i+1)*g.d], g.data[int(g.ids[i])*g.stride:][:g.stride])
}

func (b *Backend) getRows(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	w, g := n.Weight, &b.rows
	if w == nil {
		return fmt.Errorf("no table")
	}
	if g.w = b.table.Weights[w.Type]; g.w == nil {
		return unsupported("table %q of type %v", w.Name, w.Type)
	}
	g.d = w.Shape[0]
	if bs := w.Type.BlockSize(); g.d < 1 || g.d%bs != 0 {
		return unsupported("table %q %v: rows of %d, want a multiple of %d", w.Name, w.Type, g.d, bs)
	}
	g.stride, g.data = w.Type.RowBytes(g.d), w.Data
	if len(w.Data) != g.stride*w.Shape.Rows() {
		return fmt.Errorf("table %q: %d bytes, want %d for %d rows of %d %v", w.Name, len(w.Data), g.stride*w.Shape.Rows(), w.Shape.Rows(), g.d, w.Type)
	}
	ids := n.In[0].Shape.Elements()
	if n.Shape[0] != g.d || n.Shape.Rows() != ids {
		return fmt.Errorf("output %v for %d rows of %d, want [%d, %d]", n.Shape, ids, g.d, g.d, ids)
	}
	var err error
	if b.ints, err = b.indices(b.ints[:0], "token id", in[0], ids, w.Shape.Rows()); err != nil {
		return err
	}
	g.ids = b.ints
	if g.dst, err = b.floats("output", out, g.d*ids); err != nil {
		return err
	}
	b.pool.run(ids, g.fn)
	return nil
}

// elementwise is the state of one Add, Mul, Silu, SwiGLU or Scale node.
type elementwise struct {
	table       *kernel.Table
	fn          func(thread, chunk int)
	op          graph.Op
	x, y, dst   []float32
	d, segments int
	scale       float32
}

func (e *elementwise) init(t *kernel.Table) { e.table, e.fn = t, e.chunk }

// elementSegment is how many values of a row one chunk computes: a multiple of
// a vector's lanes, so that only the end of a row takes Silu's scalar tail.
const elementSegment = 4096

func (e *elementwise) chunk(_, i int) {
	row, lo := i/e.segments*e.d, i%e.segments*elementSegment
	hi := min(lo+elementSegment, e.d)
	lo, hi = row+lo, row+hi
	dst, x := e.dst[lo:hi], e.x[lo:hi]
	switch e.op {
	case graph.Add:
		e.table.Add(dst, x, e.y[lo:hi])
	case graph.Mul:
		e.table.Mul(dst, x, e.y[lo:hi])
	case graph.Silu:
		e.table.Silu(dst, x)
	case graph.SwiGLU:
		e.table.SwiGLU(dst, x, e.y[lo:hi])
	case graph.Scale:
		e.table.Scale(dst, x, e.scale)
	}
}

func (b *Backend) elementwise(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	e := &b.elem
	e.op, e.scale, e.d = n.Op, n.Attr.Scale, n.Shape[0]
	for i, x := range n.In {
		if x.Shape != n.Shape {
			return fmt.Errorf("input %d %q is %v, want %v", i, x.Name, x.Shape, n.Shape)
		}
	}
	elems := n.Shape.Elements()
	var err error
	if e.x, err = b.floats("input 0", in[0], elems); err != nil {
		return err
	}
	if len(in) == 2 {
		if e.y, err = b.floats("input 1", in[1], elems); err != nil {
			return err
		}
	}
	if e.dst, err = b.floats("output", out, elems); err != nil {
		return err
	}
	if elems == 0 {
		return nil
	}
	rows := n.Shape.Rows()
	if e.op == graph.Add || e.op == graph.Mul || e.op == graph.Scale {
		e.d, rows = elems, 1 // no tails: rows don't matter
	}
	e.segments = (e.d + elementSegment - 1) / elementSegment
	b.pool.run(rows*e.segments, e.fn)
	return nil
}

// normalise is the state of one RmsNorm or QkNorm node.
type normalise struct {
	table     *kernel.Table
	fn        func(thread, chunk int)
	x, w, dst []float32
	d, tile   int // length of a row; rows of a chunk
	eps       float32
}

func (r *normalise) init(t *kernel.Table) { r.table, r.fn = t, r.chunk }

func (r *normalise) chunk(_, i int) {
	lo := i * r.tile * r.d
	hi := min(lo+r.tile*r.d, len(r.x))
	r.table.RmsNorm(r.dst[lo:hi], r.x[lo:hi], r.w, r.d, r.eps)
}

func (b *Backend) normalise(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	r := &b.norm
	r.d, r.eps, r.w = n.Shape[0], n.Attr.Eps, nil
	if n.Op == graph.QkNorm {
		r.d = n.Attr.HeadDim
	}
	elems := n.Shape.Elements()
	if n.In[0].Shape != n.Shape || r.d < 1 || n.Shape[0]%r.d != 0 {
		return fmt.Errorf("input %v, output %v, rows of %d: want one shape of whole rows", n.In[0].Shape, n.Shape, r.d)
	}
	if w := n.Weight; w != nil {
		if w.Type != gguf.F32 {
			return unsupported("weight %q of type %v, want f32", w.Name, w.Type)
		}
		if len(w.Data) != 4*r.d {
			return fmt.Errorf("weight %q: %d bytes, want %d f32 values", w.Name, len(w.Data), r.d)
		}
		r.w = asFloats(w.Data)
	}
	var err error
	if r.x, err = b.floats("input", in[0], elems); err != nil {
		return err
	}
	if r.dst, err = b.floats("output", out, elems); err != nil {
		return err
	}
	if b.tap != nil && r.w != nil {
		b.scratch = grow(b.scratch, elems)
		r.table.RmsNorm(b.scratch, r.x, nil, r.d, r.eps)
		b.tap(graph.TapValue{Node: n, Part: "norm", Row: -1, Data: b.scratch, Dims: n.Shape})
	}
	rows := elems / r.d
	// Eight rows a chunk let their sequential sums overlap.
	r.tile = max(1, min(8, rows/b.pool.threads))
	if elems < 4096 {
		r.tile = max(1, rows)
	}
	b.pool.run((rows+r.tile-1)/r.tile, r.fn)
	return nil
}

// softMax is the state of one Softmax node.
type softMax struct {
	table  *kernel.Table
	fn     func(thread, chunk int)
	x, dst []float32
	d      int
	scale  float32
}

func (s *softMax) init(t *kernel.Table) { s.table, s.fn = t, s.chunk }

func (s *softMax) chunk(_, i int) {
	row := s.dst[i*s.d : (i+1)*s.d]
	copy(row, s.x[i*s.d:(i+1)*s.d])
	s.table.SoftMax(row, s.d, s.scale)
}

func (b *Backend) softMax(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	s := &b.smax
	s.d, s.scale = n.Shape[0], n.Attr.Scale
	if n.In[0].Shape != n.Shape {
		return fmt.Errorf("input is %v, want %v", n.In[0].Shape, n.Shape)
	}
	var err error
	if s.x, err = b.floats("input", in[0], n.Shape.Elements()); err != nil {
		return err
	}
	if s.dst, err = b.floats("output", out, n.Shape.Elements()); err != nil {
		return err
	}
	if s.d > 0 {
		b.pool.run(n.Shape.Rows(), s.fn)
	}
	return nil
}

// alias is View and Reshape: nothing to do where the output is the window of the
// input, a copy where it has memory of its own.
func (b *Backend) alias(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	x := n.In[0]
	if !n.Type.Known() || x.Type != n.Type || n.Shape[0]%n.Type.BlockSize() != 0 || x.Shape[0]%n.Type.BlockSize() != 0 {
		return fmt.Errorf("input %v %v, output %v %v, want whole blocks of one type", x.Shape, x.Type, n.Shape, n.Type)
	}
	off := 0
	if n.Op == graph.View {
		if x.Shape[0] != n.Shape[0] || n.Attr.Offset < 0 || n.Attr.Offset > x.Shape.Rows()-n.Shape.Rows() {
			return fmt.Errorf("%d rows of %d from row %d on, the input is %v", n.Shape.Rows(), n.Shape[0], n.Attr.Offset, x.Shape)
		}
		off = n.Attr.Offset * n.Type.RowBytes(n.Shape[0])
	} else if x.Shape.Elements() != n.Shape.Elements() {
		return fmt.Errorf("input %v, output %v, want as many values", x.Shape, n.Shape)
	}
	src, err := b.bytes("input", in[0], n.Type.RowBytes(x.Shape[0])*x.Shape.Rows())
	if err != nil {
		return err
	}
	dst, err := b.bytes("output", out, n.Type.RowBytes(n.Shape[0])*n.Shape.Rows())
	if err != nil {
		return err
	}
	copy(dst, src[off:])
	return nil
}

// permute copies: dimension i of the input becomes dimension Perm[i] of the
// output, as ggml has it.
func (b *Backend) permute(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	s := n.In[0].Shape
	var want graph.Shape
	var seen [4]bool
	for i, p := range n.Attr.Perm {
		if p < 0 || p > 3 || seen[p] {
			return fmt.Errorf("perm %v is not a permutation of 0..3", n.Attr.Perm)
		}
		seen[p] = true
		want[p] = s[i]
	}
	if n.Shape != want {
		return fmt.Errorf("output is %v, want %v: %v permuted by %v", n.Shape, want, s, n.Attr.Perm)
	}
	x, err := b.floats("input", in[0], s.Elements())
	if err != nil {
		return err
	}
	dst, err := b.floats("output", out, s.Elements())
	if err != nil {
		return err
	}
	var step [4]int // in dst, of each dimension of the input
	for i, p := range n.Attr.Perm {
		step[i] = 1
		for _, d := range want[:p] {
			step[i] *= d
		}
	}
	k := 0
	for i3 := range s[3] {
		for i2 := range s[2] {
			for i1 := range s[1] {
				o := i1*step[1] + i2*step[2] + i3*step[3]
				for i0 := range s[0] {
					dst[o+i0*step[0]] = x[k]
					k++
				}
			}
		}
	}
	return nil
}
