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

// GetRows dequantises n_ids rows of d elements out of table_rows.
type GetRows struct {
	Type         gguf.Type
	D, Rows, IDs int
	Outside      bool // the second and third id are outside of the table, whose rows are zeros
}

// ID implements [Case].
func (c *GetRows) ID() (string, []harness.Param) {
	p := []harness.Param{harness.P("type", c.Type), harness.P("d", c.D), harness.P("table_rows", c.Rows), harness.P("n_ids", c.IDs)}
	if c.Outside {
		p = append(p, harness.P("outside", true))
	}
	return "get_rows", p
}

// Work implements [Case].
func (c *GetRows) Work() int64 { return product(c.D, c.IDs) }

// Setting implements [Case].
func (c *GetRows) Setting() Setting { return nil }

// Refusal implements [Case].
func (c *GetRows) Refusal() string {
	if c.D%c.Type.BlockSize() != 0 {
		return fmt.Sprint(c.D)
	}
	return ""
}

// Build implements [Case].
func (c *GetRows) Build(r *rand.Rand) (*Problem, error) {
	d := (c.D + c.Type.BlockSize() - 1) / c.Type.BlockSize() * c.Type.BlockSize()
	data, err := weights(r, c.Type, d, c.Rows)
	if err != nil {
		return nil, err
	}
	ids := make([]int32, c.IDs)
	for i := range ids {
		ids[i] = int32(r.IntN(c.Rows))
	}
	ids[0], ids[c.IDs-1] = 0, int32(c.Rows-1)
	n := onenode.New(graph.GetRows, graph.Mat(c.D, c.IDs), onenode.Input("ids", gguf.I32, graph.Vec(c.IDs)))
	n.Weight = &graph.Weight{Name: "token_embd.weight", Type: c.Type, Shape: graph.Mat(c.D, c.Rows), Data: data}
	given := slices.Clone(ids)
	if c.Outside {
		given[1], given[2] = int32(c.Rows), -1
		ids[1], ids[2] = int32(c.Rows-1), 0 // the nearest of the table
	}
	p := &Problem{Node: n, In: [][]byte{onenode.IntBytes(given)}}
	if c.Refusal() != "" {
		return p, nil
	}
	table := refs.Matrix{Type: c.Type, In: c.D, Out: c.Rows, Data: data}
	want, err := refs.GetRows(table, ids)
	if err != nil {
		return nil, err
	}
	if c.Outside {
		for i := 1; i <= 2; i++ {
			row := want[i*c.D : (i+1)*c.D]
			at := largest(row, 0, 1)
			p.Edges = append(p.Edges, Edge{What: "the nearest row for id", N: i, At: i*c.D + at, By: row[at]})
			clear(row)
		}
	}
	p.Results = []Result{{Type: gguf.F32, Want: want, K: 1, Terms: eachSize(want)}}
	for e := range c.D {
		at := largest(want, e, c.D)
		p.Edges = append(p.Edges, Edge{What: "leaving out element", N: e, At: at, By: want[at]})
	}
	for i, id := range ids {
		if given[i] != id {
			continue
		}
		row := want[i*c.D : (i+1)*c.D]
		at := largest(row, 0, 1)
		p.Edges = append(p.Edges, Edge{What: "leaving out row", N: i, At: i*c.D + at, By: row[at]})
		for _, other := range []int{int(id) - 1, int(id) + 1} {
			if other < 0 || other >= c.Rows {
				continue
			}
			wrong, err := table.Row(other)
			if err != nil {
				return nil, err
			}
			at, by := farthest(row, wrong)
			p.Edges = append(p.Edges, Edge{What: "taking a neighbour of table row for id", N: i, At: i*c.D + at, By: by})
		}
	}
	return p, nil
}

// farthest is where two rows differ most.
func farthest(a, b []float64) (at int, by float64) {
	for i := range a {
		if d := math.Abs(a[i] - b[i]); d > by {
			at, by = i, d
		}
	}
	return at, by
}

// KvStore writes n_rows rows of d channels to their positions in a cache of
// table_rows; all other rows must keep their bits.
type KvStore struct {
	Type       gguf.Type
	D, Rows, N int
	Side       graph.KVSide
	Outside    bool // the first and the last row have positions outside of the cache and are left out
}

// ID implements [Case].
func (c *KvStore) ID() (string, []harness.Param) {
	p := []harness.Param{harness.P("type", c.Type), harness.P("d", c.D), harness.P("table_rows", c.Rows), harness.P("n_rows", c.N)}
	if c.Side == graph.KVValue {
		p = append(p, harness.P("side", "v"))
	}
	if c.Outside {
		p = append(p, harness.P("outside", true))
	}
	return "kv_store", p
}

// Work implements [Case].
func (c *KvStore) Work() int64 { return product(c.D, c.Rows) }

// Setting implements [Case].
func (c *KvStore) Setting() Setting { return nil }

// Refusal implements [Case].
func (c *KvStore) Refusal() string {
	if c.D%c.Type.BlockSize() != 0 {
		return fmt.Sprint(c.D)
	}
	return ""
}

// Build implements [Case].
func (c *KvStore) Build(r *rand.Rand) (*Problem, error) {
	width := c.D
	d := (c.D + c.Type.BlockSize() - 1) / c.Type.BlockSize() * c.Type.BlockSize()
	before, old, err := stored(c.Type, activations(r, d, c.Rows))
	if err != nil {
		return nil, err
	}
	other, _, err := stored(c.Type, activations(r, d, c.Rows))
	if err != nil {
		return nil, err
	}
	x := toStore(r, c.Type, c.D, c.N)
	pos := distinct(r, c.N, c.Rows)
	given, inside := slices.Clone(pos), x
	if c.Outside {
		given[0], given[c.N-1] = -1, int32(c.Rows)
		pos, inside = pos[1:c.N-1], x[c.D:(c.N-1)*c.D]
	}
	n := onenode.New(graph.KvcacheStore, graph.Mat(c.D, c.N), onenode.Input("x", gguf.F32, graph.Mat(c.D, c.N)), onenode.Input("pos", gguf.I32, graph.Vec(c.N)))
	n.Type, n.Attr.KV = c.Type, c.Side
	cache := &Cache{KV: graph.KV{Type: c.Type, Capacity: c.Rows, KWidth: width, VWidth: width}, K: before, V: other}
	place := Keys
	if c.Side == graph.KVValue {
		cache.K, cache.V = other, before
		place = Values
	}
	p := &Problem{Node: n, In: [][]byte{onenode.FloatBytes(x), onenode.IntBytes(given)}, Cache: cache}
	if c.Refusal() != "" {
		return p, nil
	}
	want, err := refs.KVStore(c.Type, old, width, refs.F64(inside), pos)
	if err != nil {
		return nil, err
	}
	p.Results = []Result{{Place: place, Type: c.Type, Want: want, Exact: true}}
	for e := range width {
		if !edge(e, width) {
			continue
		}
		for _, cell := range pos {
			at := int(cell)*width + e
			p.Edges = append(p.Edges, Edge{What: "leaving out channel", N: e, At: at, By: want[at] - old[at]})
		}
	}
	for i, cell := range pos {
		row := int(cell) * width
		j, by := farthest(want[row:row+width], old[row:row+width])
		p.Edges = append(p.Edges, Edge{What: "leaving out row", N: i, At: row + j, By: by})
	}
	if c.N == 0 { // nothing may change: a row that is written all the same shows
		p.Edges = []Edge{{What: "writing row", N: 0, At: 0, By: old[0]}}
	}
	return p, nil
}

// toStore draws rows of d values whose rounding to a packed type is beyond doubt:
// not near the middle between two steps, and their scale not near that of two
// halves, where float32 and float64 may go different ways.
func toStore(r *rand.Rand, t gguf.Type, d, rows int) []float32 {
	x := activations(r, d, rows)
	if t != gguf.Q8_0 {
		return x
	}
	for b := 0; b+32 <= len(x); b += 32 {
		block := x[b : b+32]
		for !settled(block) {
			for i := range block {
				block[i] *= 1 + float32(r.NormFloat64())/64
			}
		}
	}
	return x
}

// settled says whether every value of a Q8_0 block is clearly within its step.
func settled(block []float32) bool {
	size := 0.0
	for _, v := range block {
		size = math.Max(size, math.Abs(float64(v)))
	}
	const doubt = 1.0 / (1 << 12)
	scale := size / 127
	_, exponent := math.Frexp(scale)
	step := math.Ldexp(1, exponent-11)
	if steps := scale / step; math.Abs(steps-math.Floor(steps)-0.5) < doubt {
		return false
	}
	for _, v := range block {
		q := math.Abs(float64(v)) * 127 / size
		if math.Abs(q-math.Floor(q)-0.5) < doubt {
			return false
		}
	}
	return true
}
