package cpu

import (
	"fmt"

	"minfer/cpu/kernel"
	"minfer/engine/gguf"
	"minfer/engine/graph"
)

// attention is the state of one Attn node.
type attention struct {
	table   *kernel.Table
	fn      func(thread, chunk int)
	threads []attnScratch

	fast             *kernel.Attention // nil: one head at a time
	group1           func(thread, chunk int)
	scorePart        func(thread, chunk int)
	softMaxPart      func(thread, chunk int)
	valuePart        func(thread, chunk int)
	shared           attnScratch // of one token's heads, when threads share them
	parts            int         // of a KV head's cells, or channels
	half             bool        // F16 cache
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
	query  []float32 // the query heads of one KV head, rounded to float16
	stride int       // between the heads' scores
	scores []float32 // of one head
	lanes  []float32 // of AttnV
}

func (a *attention) init(t *kernel.Table, threads int) {
	a.table, a.fn, a.threads = t, a.chunk, make([]attnScratch, threads)
	a.group1, a.scorePart, a.softMaxPart, a.valuePart = a.groupChunk, a.scoreChunk, a.softMaxChunk, a.valueChunk
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
	a.fast = b.table.Attention
	if a.fast != nil && (a.hd%a.fast.Step != 0 || a.hdV%a.fast.Channels != 0) {
		a.fast = nil
	}
	switch {
	case a.fast == nil:
		b.pool.run(rows*a.nHead, a.fn)
	case rows == 1 && b.pool.threads > 1 && int(a.pos[0]) >= sharedCells:
		a.share(b.pool)
	default:
		b.pool.run(rows*at.NHeadKV, a.group1)
	}
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

// sharedCells is the number of cells from which on all threads work on each KV head
// of a single token: below, waiting for each other between the parts costs more
// than an uneven number of heads.
const sharedCells = 1024

// scoreCells is how many cells of a KV head a thread scores at a time.
const scoreCells = 256

// prepare makes room for the query heads of groups KV heads of token t with n cells
// and rounds the queries, from KV head g on, as the cache is.
func (a *attention) prepare(s *attnScratch, t, g, groups, n int) {
	heads := groups * a.group
	s.stride = (n + a.table.Lanes - 1) / a.table.Lanes * a.table.Lanes
	s.scores = grow(s.scores, heads*s.stride)
	q := a.q[(t*a.nHead+g*a.group)*a.hd:][:heads*a.hd]
	s.query = grow(s.query, len(q))
	copy(s.query, q)
	if a.half {
		a.fast.Round(s.query)
	}
}

// scoreCellsOf scores cells lo..hi-1 for the heads of KV head g; h is the first of
// them in s.
func (a *attention) scoreCellsOf(s, mine *attnScratch, g, h, lo, hi int) {
	mine.lanes = grow(mine.lanes, a.fast.ScoreScratch(a.hd))
	a.fast.Scores(s.scores[h*s.stride+lo:], s.stride, s.query[h*a.hd:], a.group, a.k[g*a.kHead+lo*a.kStride:], a.kStride, a.half, a.hd, hi-lo, mine.lanes)
}

// softMaxOf does head h of s.
func (a *attention) softMaxOf(s *attnScratch, h, n int) {
	x := s.scores[h*s.stride : (h+1)*s.stride]
	a.table.SoftMax(x, n, a.scale)
	if a.half {
		a.fast.Round(x)
	}
}

// valuesOf sums part c of the channels of KV head g for token t.
func (a *attention) valuesOf(s, mine *attnScratch, t, g, h, c, n int) {
	mine.lanes = grow(mine.lanes, a.fast.ValueScratch(a.group))
	first := c * a.fast.Channels
	dst := a.dst[(t*a.nHead+g*a.group)*a.hdV+first:]
	a.fast.Values(dst, a.hdV, a.v[g*a.vHead+a.vHead/a.hdV*first:], a.vStride, a.half, s.scores[h*s.stride:], s.stride, a.group, n, mine.lanes)
}

// groupChunk computes the heads of one KV head of one token.
func (a *attention) groupChunk(thread, i int) {
	groups := a.nHead / a.group
	t, g := i/groups, i%groups
	s := &a.threads[thread]
	n := int(a.pos[t]) + 1
	a.prepare(s, t, g, 1, n)
	a.scoreCellsOf(s, s, g, 0, 0, n)
	for h := range a.group {
		a.softMaxOf(s, h, n)
	}
	for c := range a.hdV / a.fast.Channels {
		a.valuesOf(s, s, t, g, 0, c, n)
	}
}

// share computes all heads of a single token, the threads sharing each head.
func (a *attention) share(p *pool) {
	groups, n := a.nHead/a.group, int(a.pos[0])+1
	a.prepare(&a.shared, 0, 0, groups, n)
	a.parts = (n + scoreCells - 1) / scoreCells
	p.run(groups*a.parts, a.scorePart)
	p.run(a.nHead, a.softMaxPart)
	a.parts = a.hdV / a.fast.Channels
	p.run(groups*a.parts, a.valuePart)
}

func (a *attention) scoreChunk(thread, i int) {
	g, lo := i/a.parts, i%a.parts*scoreCells
	a.scoreCellsOf(&a.shared, &a.threads[thread], g, g*a.group, lo, min(lo+scoreCells, int(a.pos[0])+1))
}

func (a *attention) softMaxChunk(_, h int) { a.softMaxOf(&a.shared, h, int(a.pos[0])+1) }

func (a *attention) valueChunk(thread, i int) {
	g, c := i/a.parts, i%a.parts
	a.valuesOf(&a.shared, &a.threads[thread], 0, g, g*a.group, c, int(a.pos[0])+1)
}
