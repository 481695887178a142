package ops

import (
	"fmt"
	"math/rand/v2"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/harness"
	"minfer/refs/exact"
	"minfer/refs/llamacpp"
	"minfer/suites/onenode"
)

// getRows dequantises n_ids rows of d elements out of table_rows.
type getRows struct {
	t            gguf.Type
	d, rows, ids int
}

func parseGetRows(l *harness.Line) (opCase, error) {
	c := &getRows{}
	var err error
	if c.t, err = weightType(l); err != nil {
		return nil, err
	}
	if err := ints(l, map[string]*int{"d": &c.d, "table_rows": &c.rows, "n_ids": &c.ids}, maxDim); err != nil {
		return nil, err
	}
	return bounded(l, c, product(c.d, c.rows), product(c.d, c.ids))
}

func (c *getRows) id() (string, []harness.Param) {
	return "get_rows", []harness.Param{harness.P("type", c.t), harness.P("d", c.d), harness.P("table_rows", c.rows), harness.P("n_ids", c.ids)}
}

func (c *getRows) work() int64     { return product(c.d, c.ids+c.rows) }
func (c *getRows) refusal() string { return wholeBlocks(c.t, c.d) }

func (c *getRows) build(r *rand.Rand, level exact.Level) (*problem, error) {
	table, err := weights(r, c.t, c.d, c.rows)
	if err != nil {
		return nil, err
	}
	ids := positions(r, c.ids, c.rows)
	ids[0], ids[len(ids)-1] = 0, int32(c.rows-1)
	n := onenode.New(graph.GetRows, graph.Mat(c.d, c.ids), onenode.Input("ids", gguf.I32, graph.Vec(c.ids)))
	n.Weight = &graph.Weight{Name: "table", Type: c.t, Shape: graph.Mat(c.d, c.rows), Data: table}
	want, err := exact.GetRows(c.t, table, c.d, ids)
	if err != nil {
		return nil, err
	}
	return &problem{node: n, in: [][]byte{onenode.IntBytes(ids)}, want: want, oracle: func(lib *llamacpp.Lib) ([]float32, error) {
		return lib.GetRows(c.t, table, c.d, c.rows, ids)
	}}, nil
}

// kvStore writes n_rows rows of d channels to their positions in a cache of
// table_rows; all other rows must keep their bits.
type kvStore struct {
	t          gguf.Type
	d, rows, n int
}

// cacheType reads a key as the type of a KV cache.
func cacheType(l *harness.Line, key string) (gguf.Type, error) {
	name, err := l.Text(key)
	if err != nil {
		return 0, err
	}
	t, err := gguf.ParseType(name)
	if err != nil || t != gguf.F32 && t != gguf.F16 && t != gguf.Q8_0 {
		return 0, l.Errorf("key %q is %q: want a cache type (f32, f16, q8_0)", key, name)
	}
	return t, nil
}

func parseKvStore(l *harness.Line) (opCase, error) {
	c := &kvStore{}
	var err error
	if c.t, err = cacheType(l, "type"); err != nil {
		return nil, err
	}
	if err := ints(l, map[string]*int{"d": &c.d, "table_rows": &c.rows}, maxDim); err != nil {
		return nil, err
	}
	if c.n, err = l.Int("n_rows", 0, c.rows); err != nil {
		return nil, err
	}
	return bounded(l, c, c.work())
}

func (c *kvStore) id() (string, []harness.Param) {
	return "kv_store", []harness.Param{harness.P("type", c.t), harness.P("d", c.d), harness.P("table_rows", c.rows), harness.P("n_rows", c.n)}
}

func (c *kvStore) work() int64     { return product(c.d, c.rows) }
func (c *kvStore) refusal() string { return wholeBlocks(c.t, c.d) }

func (c *kvStore) build(r *rand.Rand, level exact.Level) (*problem, error) {
	before, err := cache(r, c.t, c.d, c.rows)
	if err != nil {
		return nil, err
	}
	x := floats(r, c.n*c.d, c.d)
	pos := make([]int32, c.n)
	for i, p := range r.Perm(c.rows)[:c.n] {
		pos[i] = int32(p)
	}
	n := onenode.New(graph.KvcacheStore, graph.Mat(c.d, c.rows), onenode.Input("x", gguf.F32, graph.Mat(c.d, c.n)), onenode.Input("pos", gguf.I32, graph.Vec(c.n)))
	n.Type, n.Attr.KV = c.t, graph.KVKey
	p := &problem{node: n, in: [][]byte{onenode.FloatBytes(x), onenode.IntBytes(pos)}, kv: &kvProblem{
		KV: graph.KV{Type: c.t, Capacity: c.rows, KWidth: c.d, VWidth: c.d}, k: before, v: before, result: true,
	}}
	if c.t == gguf.Q8_0 {
		return p, nil // only backends that refuse it exist
	}
	after, err := exact.KVStore(c.t, before, c.d, x, pos)
	if err != nil {
		return nil, err
	}
	if p.want, err = widen(c.t, after); err != nil || c.n == 0 {
		return p, err
	}
	p.oracle = func(lib *llamacpp.Lib) ([]float32, error) {
		ids := make([]int64, len(pos))
		for i, v := range pos {
			ids[i] = int64(v)
		}
		after, err := lib.SetRows(c.t, before, c.d, c.rows, x, ids)
		if err != nil {
			return nil, err
		}
		return widen(c.t, after)
	}
	return p, nil
}

// cache draws the content of a KV region.
func cache(r *rand.Rand, t gguf.Type, width, rows int) ([]byte, error) {
	x := floats(r, width*rows, width)
	b, err := exact.KVStore(t, make([]byte, rows*t.RowBytes(width)), width, x, upTo(rows))
	if err != nil {
		return nil, fmt.Errorf("cache of %s: %w", t, err)
	}
	return b, nil
}

func upTo(n int) []int32 {
	p := make([]int32, n)
	for i := range p {
		p[i] = int32(i)
	}
	return p
}
