package cpu

import (
	"fmt"

	"minfer/cpu/kernel"
	"minfer/engine/gguf"
	"minfer/engine/graph"
)

// weightTile is how many bytes of weights a chunk of a matrix product with a batch
// holds: they stay in a core's second-level cache while all tokens of the batch
// pass, so a batch reads the matrix from memory once.
const weightTile = 64 << 10

// The chunks of a product with a single token: each thread has a part of the rows,
// which it reads as one stream, and cuts a quarter off what is left of it again and
// again, so that there are few chunks, each of which makes the processor wait, and
// the last ones are short enough for all threads to end together.
const (
	streamShare   = 4
	shortestChunk = 8 << 10 // bytes of weights
)

// batchRows is how many rows of a product with tiles of tokens a chunk has at
// least: each chunk reads the activations of the whole batch.
const batchRows = 64

// inlineWork is the number of multiply-adds below which waking threads costs
// more than it saves.
const inlineWork = 1 << 15

// inlineSegments is up to how many segments of a row the caller quantises alone: that
// takes no longer than to hand them out.
const inlineSegments = 5

// matMul is the state of one MatMul node.
type matMul struct {
	table *kernel.Table
	fn    func(thread, chunk int)
	quant func(thread, chunk int)

	w         *kernel.Weight
	weights   []byte
	stride    int   // bytes of a weight row
	bounds    []int // the chunks' first weight rows, and the end
	starts    []int // the threads' first chunks, and the end
	k, m, n   int   // in_dim, out_dim, tokens
	x, bias   []float32
	dst       []float32
	act       []byte // activations, converted
	actStride int
	scratch   []byte
	segments  int // of a row, when quantising

	prep      *kernel.MatMul // nil: the kernels take activations as they are
	lay       func(thread, chunk int)
	laid      []byte   // activations, laid out for prep's kernels
	tiled     bool     // in tiles; else row by row
	unitBytes int      // of a tile or row of laid
	threads   [][]byte // scratch memory of each
}

func (mm *matMul) init(t *kernel.Table, threads int) {
	mm.table, mm.fn, mm.quant, mm.lay = t, mm.chunk, mm.quantise, mm.layOut
	mm.threads = make([][]byte, threads)
}

// segment is how many values of a row one chunk quantises: a multiple of every
// block size.
const segment = 1024

func (mm *matMul) quantise(_, i int) {
	row, lo := i/mm.segments, i%mm.segments*segment
	hi := min(lo+segment, mm.k)
	off := row*mm.actStride + mm.w.Act.RowBytes(lo)
	mm.table.Quantize[mm.w.Act](mm.act[off:off+mm.w.Act.RowBytes(hi-lo)], mm.x[row*mm.k+lo:row*mm.k+hi])
}

// layOut prepares one tile, or one row, of the converted activations.
func (mm *matMul) layOut(_, i int) {
	dst := mm.laid[i*mm.unitBytes : (i+1)*mm.unitBytes]
	if !mm.tiled {
		mm.prep.PrepareRow(dst, mm.act[i*mm.actStride:(i+1)*mm.actStride], mm.k)
		return
	}
	t := i * mm.prep.Tokens
	mm.prep.PrepareTile(dst, mm.act[t*mm.actStride:], mm.actStride, min(mm.prep.Tokens, mm.n-t), mm.k)
}

// chunk computes some weight rows for all tokens. Each output is one dot
// product, so neither the tile nor the grouping of tokens changes bits.
func (mm *matMul) chunk(thread, i int) {
	lo, hi := mm.bounds[i], mm.bounds[i+1]
	w := mm.weights[lo*mm.stride:]
	t := 0
	switch {
	case mm.prep != nil && mm.tiled:
		mm.prep.Mul(mm.dst[lo:], mm.m, w, mm.stride, hi-lo, mm.laid, mm.n, mm.k, mm.threads[thread])
		t = mm.n
	case mm.prep != nil:
		for ; t < mm.n; t++ {
			mm.prep.MulRow(mm.dst[t*mm.m+lo:t*mm.m+hi], w, mm.stride, mm.laid[t*mm.unitBytes:(t+1)*mm.unitBytes], mm.k)
		}
	case mm.w.MatVec4 != nil:
		for ; t+4 <= mm.n; t += 4 {
			mm.w.MatVec4(mm.dst[t*mm.m+lo:], mm.m, w, mm.stride, hi-lo, mm.act[t*mm.actStride:], mm.actStride, mm.k)
		}
	}
	for ; t < mm.n; t++ {
		mm.w.MatVec(mm.dst[t*mm.m+lo:t*mm.m+hi], w, mm.stride, mm.act[t*mm.actStride:(t+1)*mm.actStride], mm.k)
	}
	if mm.bias != nil {
		for t := range mm.n {
			d := mm.dst[t*mm.m+lo : t*mm.m+hi]
			mm.table.Add(d, d, mm.bias[lo:hi])
		}
	}
}

func (b *Backend) matMul(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	w := n.Weight
	if w == nil {
		return fmt.Errorf("no weight")
	}
	mm := &b.mm
	mm.w = b.table.Weights[w.Type]
	if mm.w == nil {
		return unsupported("weight %q of type %v: want one of f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q4_K, q5_K, q6_K", w.Name, w.Type)
	}
	mm.k, mm.m, mm.n = w.Shape[0], w.Shape[1], n.In[0].Shape.Rows()
	if bs := w.Type.BlockSize(); mm.k < 1 || mm.k%bs != 0 {
		return unsupported("weight %q %v: in_dim is %d, want a multiple of %d", w.Name, w.Type, mm.k, bs)
	}
	mm.stride = w.Type.RowBytes(mm.k)
	if len(w.Data) != mm.stride*mm.m {
		return fmt.Errorf("weight %q: %d bytes, want %d for %d rows of %d %v", w.Name, len(w.Data), mm.stride*mm.m, mm.m, mm.k, w.Type)
	}
	mm.weights = w.Data
	if n.In[0].Shape[0] != mm.k || n.Shape[0] != mm.m || n.Shape.Rows() != mm.n {
		return fmt.Errorf("input %v and output %v for weight %q [%d, %d], want [%d, n] and [%d, n]",
			n.In[0].Shape, n.Shape, w.Name, mm.k, mm.m, mm.k, mm.m)
	}
	var err error
	if mm.x, err = b.floats("input", in[0], mm.k*mm.n); err != nil {
		return err
	}
	if mm.dst, err = b.floats("output", out, mm.m*mm.n); err != nil {
		return err
	}
	mm.bias = nil
	if bias := n.Bias; bias != nil {
		if bias.Type != gguf.F32 || len(bias.Data) != 4*mm.m {
			return fmt.Errorf("bias %q: %d bytes of %v, want %d f32 values", bias.Name, len(bias.Data), bias.Type, mm.m)
		}
		mm.bias = asFloats(bias.Data)
	}
	if mm.n == 0 || mm.m == 0 {
		return nil
	}
	mm.convert(b)
	bias := mm.bias
	if b.tap != nil && bias != nil {
		mm.bias = nil
	}
	if mm.n == 1 && mm.m*mm.k >= inlineWork {
		mm.cutStream(b.pool.threads)
		if b.pool.readsAhead() {
			b.pool.announce(b.order.after(w))
		}
		b.pool.runParts(mm.starts, mm.fn)
	} else {
		mm.cut(b.pool.threads)
		b.pool.run(len(mm.bounds)-1, mm.fn)
	}
	if b.tap != nil && bias != nil {
		b.tap(graph.TapValue{Node: n, Part: "mul_mat", Row: -1, Data: mm.dst, Dims: n.Shape})
		for t := range mm.n {
			d := mm.dst[t*mm.m : (t+1)*mm.m]
			b.table.Add(d, d, bias)
		}
	}
	return nil
}

// cut divides the weight rows into chunks, of a size for a batch.
func (mm *matMul) cut(threads int) {
	size := weightTile / mm.stride
	if mm.prep != nil && mm.tiled {
		size = max(size, batchRows)
	}
	size = max(1, min(size, (mm.m+4*threads-1)/(4*threads)))
	if size > 8 {
		size &^= 7 // kernels take rows in small groups
	}
	if mm.m*mm.n*mm.k < inlineWork {
		size = mm.m
	}
	mm.bounds = append(mm.bounds[:0], 0)
	for lo := 0; lo < mm.m; {
		lo = min(lo+size, mm.m)
		mm.bounds = append(mm.bounds, lo)
	}
}

// cutStream divides the weight rows into a part for each thread, and that into chunks.
func (mm *matMul) cutStream(threads int) {
	mm.bounds, mm.starts = append(mm.bounds[:0], 0), append(mm.starts[:0], 0)
	least := max(8, shortestChunk/mm.stride&^7) // kernels take rows in small groups
	lo := 0
	for t := range threads {
		end := firstRow(mm.m, t+1, threads)
		for lo < end {
			lo = min(lo+max(least, (end-lo)/streamShare&^7), end)
			mm.bounds = append(mm.bounds, lo)
		}
		mm.starts = append(mm.starts, len(mm.bounds)-1)
	}
}

// tileFrom is the number of tokens from which on tiles, in part empty, are faster
// than one row after the other.
const tileFrom = 3

// convert brings the batch's activations to the weight's activation type, and to
// the layout of its kernels, once for all weight rows.
func (mm *matMul) convert(b *Backend) {
	mm.actStride = mm.w.Act.RowBytes(mm.k)
	if mm.w.Act == gguf.F32 {
		mm.act = asBytes(mm.x)
	} else {
		mm.scratch = grow(mm.scratch, mm.actStride*mm.n)
		mm.act = mm.scratch
		mm.segments = (mm.k + segment - 1) / segment
		if mm.n == 1 && mm.segments <= inlineSegments {
			for i := range mm.segments {
				mm.quantise(0, i)
			}
		} else {
			b.pool.run(mm.segments*mm.n, mm.quant)
		}
	}
	if mm.prep = mm.w.MatMul; mm.prep == nil || mm.k%mm.prep.Step != 0 {
		mm.prep = nil
		return
	}
	mm.tiled = mm.n >= tileFrom
	units := mm.n
	mm.unitBytes = mm.prep.RowBytes(mm.k)
	if mm.tiled {
		units, mm.unitBytes = (mm.n+mm.prep.Tokens-1)/mm.prep.Tokens, mm.prep.TileBytes(mm.k)
		for i := range mm.threads {
			mm.threads[i] = growAligned(mm.threads[i], mm.prep.ScratchBytes(mm.k))
		}
	}
	mm.laid = growAligned(mm.laid, units*mm.unitBytes)
	b.pool.run(units, mm.lay)
}

// batchMatMul is the state of one BatchMatMul node.
type batchMatMul struct {
	mv      kernel.MatVecFunc
	fn      func(thread, chunk int)
	a, b    []float32
	dst     []float32
	k, m, n int
}

func (bm *batchMatMul) init(t *kernel.Table) { bm.mv, bm.fn = t.Weights[gguf.F32].MatVec, bm.chunk }

// chunk computes the m outputs of one row of b.
func (bm *batchMatMul) chunk(_, i int) {
	a := bm.a[i/bm.n*bm.m*bm.k:]
	bm.mv(bm.dst[i*bm.m:(i+1)*bm.m], asBytes(a), 4*bm.k, asBytes(bm.b[i*bm.k:(i+1)*bm.k]), bm.k)
}

func (b *Backend) batchMatMul(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	x, y, bm := n.In[0].Shape, n.In[1].Shape, &b.bmm
	if want := (graph.Shape{x[1], y[1], x[2], x[3]}); x[0] != y[0] || x[2] != y[2] || x[3] != y[3] || n.Shape != want {
		return fmt.Errorf("inputs %v and %v, output %v, want [k,m,b], [k,n,b] and [m,n,b]", x, y, n.Shape)
	}
	bm.k, bm.m, bm.n = x[0], x[1], y[1]
	var err error
	if bm.a, err = b.floats("input 0", in[0], x.Elements()); err != nil {
		return err
	}
	if bm.b, err = b.floats("input 1", in[1], y.Elements()); err != nil {
		return err
	}
	if bm.dst, err = b.floats("output", out, n.Shape.Elements()); err != nil {
		return err
	}
	if bm.m == 0 || bm.k == 0 {
		clear(bm.dst)
		return nil
	}
	b.pool.run(y.Rows(), bm.fn)
	return nil
}
