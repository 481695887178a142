package metalcase

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/harness"
	"minfer/refs"
	"minfer/suites/onenode"
)

// Attention is n_tokens queries over a window of n_kv cells of a cache. Token i
// sits at position n_kv - spare - n_tokens + i; spare cells after the last
// position belong to the window and are seen by nobody. Every cell holds values,
// also those that a row must not see.
type Attention struct {
	HD, Heads, HeadsKV, NKV, Tokens int
	Type                            gguf.Type
	Spare                           int
	Shuffled                        bool // the positions in no order
	Before                          bool // the first token has a position below 0 and sees no cell
	Beyond                          bool // the last token is behind the window and sees all of it
	Peaks                           bool // scores beyond the range of exp, which only their differences make finite
	Levers                          Setting
	Bare                            bool // without edges, which take longest: to be measured, not judged
}

// ID implements [Case].
func (c *Attention) ID() (string, []harness.Param) {
	p := []harness.Param{harness.P("hd", c.HD), harness.P("n_head", c.Heads), harness.P("n_head_kv", c.HeadsKV),
		harness.P("n_kv", c.NKV), harness.P("n_tokens", c.Tokens), harness.P("kv_type", c.Type)}
	if c.Spare > 0 {
		p = append(p, harness.P("spare", c.Spare))
	}
	if c.Shuffled {
		p = append(p, harness.P("shuffled", true))
	}
	if c.Before {
		p = append(p, harness.P("before", true))
	}
	if c.Beyond {
		p = append(p, harness.P("beyond", true))
	}
	if c.Peaks {
		p = append(p, harness.P("peaks", true))
	}
	return "attention", append(p, c.Levers.Params()...)
}

// Work implements [Case].
func (c *Attention) Work() int64 { return product(2, c.HD, c.Heads, c.NKV, c.Tokens) }

// Setting implements [Case].
func (c *Attention) Setting() Setting { return c.Levers }

// Refusal implements [Case].
func (c *Attention) Refusal() string {
	switch width := c.HD * c.HeadsKV; {
	case c.Heads%c.HeadsKV != 0:
		return fmt.Sprint(c.Heads)
	case width%c.Type.BlockSize() != 0:
		return fmt.Sprint(width)
	}
	return ""
}

// tile is the number of cells at whose multiples KV tiles and chunks begin.
const tile = 32

// edgeCell says whether a cell lies at an edge of a tile, a chunk or the window.
func edgeCell(cell, cells int) bool {
	return cell%tile == 0 || cell%tile == tile-1 || cell == cells-1
}

// Build implements [Case].
func (c *Attention) Build(r *rand.Rand) (*Problem, error) {
	width, kvWidth := c.HD*c.Heads, c.HD*c.HeadsKV
	pos := make([]int32, c.Tokens)
	for i := range pos {
		pos[i] = int32(c.NKV - c.Spare - c.Tokens + i)
	}
	if c.Shuffled {
		r.Shuffle(len(pos), func(i, j int) { pos[i], pos[j] = pos[j], pos[i] })
	}
	if c.Beyond {
		pos[len(pos)-1] = int32(c.NKV - 1)
	}
	if c.Before {
		pos[0] = 0
	}
	given := slices.Clone(pos)
	if c.Beyond {
		given[len(pos)-1] += 5
	}
	if c.Before {
		given[0] = -3
	}
	scale := float32(1 / math.Sqrt(float64(c.HD)))
	q := spread(r, width*c.Tokens)
	keys := spread(r, kvWidth*c.NKV)
	if c.Refusal() == "" {
		c.plant(r, q, keys, pos)
	}
	round := func(x []float32) ([]byte, []float64, error) {
		for len(x)%c.Type.BlockSize() != 0 {
			x = append(x, 0) // only where the case is refused
		}
		return stored(c.Type, x)
	}
	kBytes, k, err := round(keys)
	if err != nil {
		return nil, err
	}
	vBytes, v, err := round(spread(r, kvWidth*c.NKV))
	if err != nil {
		return nil, err
	}

	a := graph.Attr{Scale: scale, HeadDim: c.HD, NHead: c.Heads, NHeadKV: c.HeadsKV, NKV: c.NKV}
	load := func(side graph.KVSide) *graph.Node {
		n := onenode.New(graph.KvcacheLoad, graph.Mat(kvWidth, c.NKV))
		n.Type, n.Attr = c.Type, a
		n.Attr.KV = side
		return n
	}
	n := onenode.New(graph.Attn, graph.Mat(width, c.Tokens), onenode.Input("q", gguf.F32, graph.Mat(width, c.Tokens)),
		load(graph.KVKey), load(graph.KVValue), onenode.Input("pos", gguf.I32, graph.Vec(c.Tokens)))
	n.Attr = a
	p := &Problem{Node: n, In: [][]byte{onenode.FloatBytes(q), nil, nil, onenode.IntBytes(given)}, Cache: &Cache{
		KV: graph.KV{Type: c.Type, Capacity: c.NKV, KWidth: kvWidth, VWidth: kvWidth}, K: kBytes, V: vBytes,
	}}
	if c.Refusal() != "" {
		return p, nil
	}
	query := refs.F64(q)
	parts, err := refs.Attention(query, k, v, pos, refs.Attn{HeadDim: c.HD, NHead: c.Heads, NHeadKV: c.HeadsKV, Scale: float64(scale)})
	if err != nil {
		return nil, err
	}
	p.Results = []Result{{Type: gguf.F32, Want: parts.Out, K: float64(c.NKV), Terms: []float64{parts.OutTerms}}}
	if c.Bare {
		if c.Before {
			clear(parts.Out[:width])
		}
		return p, nil
	}
	s := &attentionEdges{c: c, scale: float64(scale), q: query, k: k, v: v, pos: pos, parts: &parts}
	if c.Peaks { // most cells weigh nothing
		p.Edges = s.rows()
		return p, nil
	}
	p.Edges = s.list()
	if c.Before {
		// Cell 0, which the edges take the first row to see, must not show.
		p.Edges = slices.DeleteFunc(p.Edges, func(e Edge) bool { return e.At < width })
		at := largest(parts.Out[:width], 0, 1)
		p.Edges = append(p.Edges, Edge{What: "letting the first row see cell", At: at, By: parts.Out[at]})
		clear(parts.Out[:width])
	}
	return p, nil
}

// spread draws normal values.
func spread(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// plant makes peaks: the keys of edge cells, and of the cells on both sides of
// each row's mask edge, point along the query of one row and head that must see
// the fault.
func (c *Attention) plant(r *rand.Rand, q, keys []float32, pos []int32) {
	width, kvWidth, group := c.HD*c.Heads, c.HD*c.HeadsKV, c.Heads/c.HeadsKV
	aim := func(cell, row, head int, score float64) {
		query := q[row*width+head*c.HD : row*width+(head+1)*c.HD]
		norm := 0.0
		for _, v := range query {
			norm += float64(v * v)
		}
		if norm == 0 {
			return
		}
		key := keys[cell*kvWidth+head/group*c.HD:]
		step := float32(score * math.Sqrt(float64(c.HD)) / norm)
		for i, v := range query {
			key[i] += step * v
		}
	}
	if c.Peaks {
		row := len(pos) - 1
		// The largest rises, then falls; a tile begins with it, and no half holds it. It
		// rises again in the last of many parts, and behind what the row before sees.
		peaks := []struct {
			cell  int
			score float64
		}{{5, 95}, {tile, 70_000}, {2*tile + 5, 100}, {4096 + 2, 140_000}}
		if len(pos) > 3 {
			peaks[3].cell = int(pos[row])
		}
		for _, peak := range peaks {
			for head := 0; head < c.Heads; head += group {
				if peak.cell < c.NKV {
					aim(peak.cell, row, head, peak.score)
				}
			}
		}
		return
	}
	const score = 3
	last := slices.Max(pos)
	for cell := range c.NKV {
		if !edgeCell(cell, c.NKV) {
			continue
		}
		// A row that sees the cell, in turn; one that does not where none does.
		seeing := []int{}
		for row, p := range pos {
			if int(p) >= cell || cell > int(last) {
				seeing = append(seeing, row)
			}
		}
		aim(cell, seeing[r.IntN(len(seeing))], r.IntN(c.Heads), score)
	}
	for row, p := range pos {
		head := row % c.Heads
		aim(int(p), row, head, score)
		if int(p)+1 < c.NKV {
			aim(int(p)+1, row, head, score)
		}
	}
}

// attentionEdges computes what faults at edges do to the reference.
type attentionEdges struct {
	c       *Attention
	scale   float64
	q, k, v []float64
	pos     []int32
	parts   *refs.AttnParts
}

func (s *attentionEdges) list() []Edge {
	c := s.c
	var list []Edge
	sums := make([][]float64, len(s.pos)) // of exp(score - the row's largest), by row and head
	tops := make([][]float64, len(s.pos))
	for row := range s.pos {
		sums[row], tops[row] = make([]float64, c.Heads), make([]float64, c.Heads)
		for head := range c.Heads {
			scores := s.parts.Scores[row][head][:s.pos[row]+1]
			top := slices.Max(scores) * s.scale
			for _, x := range scores {
				sums[row][head] += math.Exp(x*s.scale - top)
			}
			tops[row][head] = top
		}
	}
	// shift moves an output when a cell's weight goes from p to p+by, of a sum of 1.
	shift := func(what string, n, row, head, cell int, by float64) {
		if 1+by <= 0 {
			by = -1 + 1e-9 // all that the row sees: nothing is left
		}
		at, most := 0, 0.0
		for i := range c.HD {
			o := (row*c.Heads+head)*c.HD + i
			value := s.v[cell*c.HD*c.HeadsKV+head/(c.Heads/c.HeadsKV)*c.HD+i]
			if d := math.Abs(by / (1 + by) * (value - s.parts.Out[o])); d >= most {
				at, most = o, d
			}
			if s.pos[row] == 0 && by < 0 { // the only cell: without it there is no value
				if d := math.Abs(s.parts.Out[o]); d >= most {
					at, most = o, d
				}
			}
		}
		list = append(list, Edge{What: what, N: n, At: at, By: most})
	}
	let := func(what string, n, row, head, cell int) {
		score := 0.0
		kv := head / (c.Heads / c.HeadsKV)
		for i := range c.HD {
			score += s.q[(row*c.Heads+head)*c.HD+i] * s.k[cell*c.HD*c.HeadsKV+kv*c.HD+i]
		}
		shift(what, n, row, head, cell, math.Exp(score*s.scale-tops[row][head])/sums[row][head])
	}
	for cell := range c.NKV {
		if !edgeCell(cell, c.NKV) {
			continue
		}
		for _, what := range []string{"leaving out cell", "doubling cell", "letting in cell"} {
			for row, p := range s.pos {
				for head := range c.Heads {
					seen := cell <= int(p)
					switch {
					case what == "leaving out cell" && seen && s.parts.Probs[row][head][cell] > 0 && p > 0:
						shift(what, cell, row, head, cell, -s.parts.Probs[row][head][cell])
					case what == "leaving out cell" && seen:
						shift(what, cell, row, head, cell, -1)
					case what == "doubling cell" && seen && p > 0: // of one cell, twice is as once
						shift(what, cell, row, head, cell, s.parts.Probs[row][head][cell])
					case what == "letting in cell" && !seen:
						let(what, cell, row, head, cell)
					}
				}
			}
		}
	}
	// Both sides of each row's mask edge.
	for row, p := range s.pos {
		for head := range c.Heads {
			by := -s.parts.Probs[row][head][p]
			shift("leaving out the last cell of row", row, row, head, int(p), by)
		}
		if int(p)+1 >= c.NKV {
			continue
		}
		for head := range c.Heads {
			let("letting in the cell after row", row, row, head, int(p)+1)
		}
	}
	// Whole tiles, of the row that sees most.
	row := 0
	for i, p := range s.pos {
		if p > s.pos[row] {
			row = i
		}
	}
	for t := 0; t <= int(s.pos[row]); t += tile {
		for head := range c.Heads {
			list = append(list, s.without("leaving out tile", t/tile, row, head, t, min(t+tile, int(s.pos[row])+1)))
		}
	}
	// Heads, and channels of their products.
	list = append(list, s.rows()...)
	for i := range c.HD {
		if !edge(i, c.HD) {
			continue
		}
		if int(s.pos[row]) > 0 {
			for head := range c.Heads {
				list = append(list, s.channel("leaving out channel", i, row, head))
			}
		}
		at := largest(s.parts.Out, i, c.HD)
		list = append(list, Edge{What: "leaving out value channel", N: i, At: at, By: s.parts.Out[at]})
	}
	return list
}

// rows leaves out each row of each head.
func (s *attentionEdges) rows() []Edge {
	c := s.c
	var list []Edge
	for row := range s.pos {
		for head := range c.Heads {
			o := (row*c.Heads + head) * c.HD
			at := o + largest(s.parts.Out[o:o+c.HD], 0, 1)
			list = append(list, Edge{What: fmt.Sprintf("leaving out row %d of head", row), N: head, At: at, By: s.parts.Out[at]})
		}
	}
	return list
}

// without is the output of a row and head from its weights outside of cells
// [from, to), against what it is.
func (s *attentionEdges) without(what string, n, row, head, from, to int) Edge {
	c := s.c
	left := 0.0
	out := make([]float64, c.HD)
	for cell, p := range s.parts.Probs[row][head][:s.pos[row]+1] {
		if cell >= from && cell < to {
			continue
		}
		left += p
		for i := range out {
			out[i] += p * s.v[cell*c.HD*c.HeadsKV+head/(c.Heads/c.HeadsKV)*c.HD+i]
		}
	}
	o := (row*c.Heads + head) * c.HD
	if left > 0 {
		for i := range out {
			out[i] /= left
		}
	}
	at, by := farthest(s.parts.Out[o:o+c.HD], out)
	return Edge{What: what, N: n, At: o + at, By: by}
}

// channel leaves channel i out of the scores of a row and head.
func (s *attentionEdges) channel(what string, i, row, head int) Edge {
	c := s.c
	kv := head / (c.Heads / c.HeadsKV)
	cells := int(s.pos[row]) + 1
	scores := make([]float64, cells)
	for cell := range scores {
		scores[cell] = s.parts.Scores[row][head][cell] - s.q[(row*c.Heads+head)*c.HD+i]*s.k[cell*c.HD*c.HeadsKV+kv*c.HD+i]
	}
	out := make([]float64, c.HD)
	for cell, p := range refs.SoftMax(scores, cells, s.scale, nil) {
		for j := range out {
			out[j] += p * s.v[cell*c.HD*c.HeadsKV+kv*c.HD+j]
		}
	}
	o := (row*c.Heads + head) * c.HD
	at, by := farthest(s.parts.Out[o:o+c.HD], out)
	return Edge{What: what, N: i, At: o + at, By: by}
}
