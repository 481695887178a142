package metalcase

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/harness"
	"minfer/metal"
	"minfer/refs"
	"minfer/suites/onenode"
)

// FusedQKV is the decode fusion of the three projections of one token: q comes
// out rotated, k rotated and v go to the cache. With Norm the heads of q and k are
// normalised before they rotate.
type FusedQKV struct {
	Type               gguf.Type // of the weights
	K                  int       // in_dim
	HD, Heads, HeadsKV int
	Cache              gguf.Type
	Cells, Pos         int
	Bias, Norm         bool
	Mode               graph.RopeMode
	Factors            bool
	Yarn               bool    // positions scaled by 4, by YaRN, which stretches the vectors too
	Eps                float32 // of the norm; 0 is 1e-6
	ValueHD            int     // of a value head; 0 is HD
	Dims               int     // channels of a head that rotate; 0 is HD
}

// ID implements [Case].
func (c *FusedQKV) ID() (string, []harness.Param) {
	mode := "norm"
	if c.Mode == graph.RopeNeox {
		mode = "neox"
	}
	p := []harness.Param{harness.P("type", c.Type), harness.P("k", c.K), harness.P("hd", c.HD), harness.P("n_head", c.Heads), harness.P("n_head_kv", c.HeadsKV),
		harness.P("kv_type", c.Cache), harness.P("cells", c.Cells), harness.P("pos", c.Pos), harness.P("mode", mode)}
	if c.Bias {
		p = append(p, harness.P("bias", true))
	}
	if c.Factors {
		p = append(p, harness.P("freq_factors", true))
	}
	if c.Yarn {
		p = append(p, harness.P("scaling", "yarn"))
	}
	if c.Eps != 0 {
		p = append(p, harness.P("eps", c.Eps))
	}
	if c.ValueHD != 0 {
		p = append(p, harness.P("value_hd", c.ValueHD))
	}
	if c.Dims != 0 {
		p = append(p, harness.P("n_dims", c.Dims))
	}
	return c.op().String(), p
}

func (c *FusedQKV) eps() float32 { return cmp.Or(c.Eps, 1e-6) }

func (c *FusedQKV) valueHD() int { return cmp.Or(c.ValueHD, c.HD) }

func (c *FusedQKV) op() graph.Op {
	if c.Norm {
		return graph.FusedQkvNorm
	}
	return graph.FusedQKV
}

// Work implements [Case].
func (c *FusedQKV) Work() int64 { return product(c.K, c.HD, c.Heads+2*c.HeadsKV) }

// Setting implements [Case].
func (c *FusedQKV) Setting() Setting { return nil }

// Refusal implements [Case].
func (c *FusedQKV) Refusal() string {
	switch {
	case c.K%c.Type.BlockSize() != 0:
		return fmt.Sprint(c.K)
	case c.HD%c.Cache.BlockSize() != 0:
		return fmt.Sprint(c.HD)
	}
	return ""
}

// Build implements [Case].
func (c *FusedQKV) Build(r *rand.Rand) (*Problem, error) {
	qRows, kvRows := c.HD*c.Heads, c.HD*c.HeadsKV
	vRows := c.valueHD() * c.HeadsKV
	rows := qRows + kvRows + vRows
	inDim := (c.K + c.Type.BlockSize() - 1) / c.Type.BlockSize() * c.Type.BlockSize()
	data, err := weights(r, c.Type, inDim, rows)
	if err != nil {
		return nil, err
	}
	x := activations(r, c.K, 1)
	n := onenode.New(c.op(), graph.Mat(qRows, 1), onenode.Input("x", gguf.F32, graph.Mat(c.K, 1)), onenode.Input("pos", gguf.I32, graph.Vec(1)))
	n.Weight = &graph.Weight{Name: "blk.0.attn_qkv.weight", Type: c.Type, Shape: graph.Mat(c.K, rows), Data: data}
	rope := &Rope{Mode: c.Mode, HD: c.HD, Dims: cmp.Or(c.Dims, c.HD/2*2), Base: 1e6, Factors: c.Factors}
	if c.Yarn {
		rope.Scaling, rope.Factor, rope.CtxOrig = "yarn", 4, 32768
	}
	params, ref, factors := rope.params(r)
	n.Attr = graph.Attr{HeadDim: c.HD, NHead: c.Heads, NHeadKV: c.HeadsKV, Rope: params, Eps: c.eps()}
	if factors != nil {
		n.Factors = vector("rope_freqs.weight", factors)
	}
	whole := func(n int) int { return (n + c.Cache.BlockSize() - 1) / c.Cache.BlockSize() * c.Cache.BlockSize() }
	kBytes, kOld, err := stored(c.Cache, activations(r, whole(kvRows), c.Cells))
	if err != nil {
		return nil, err
	}
	vBytes, vOld, err := stored(c.Cache, activations(r, whole(vRows), c.Cells))
	if err != nil {
		return nil, err
	}
	p := &Problem{Node: n, In: [][]byte{onenode.FloatBytes(x), onenode.IntBytes([]int32{int32(c.Pos)})}, Cache: &Cache{
		KV: graph.KV{Type: c.Cache, Capacity: c.Cells, KWidth: kvRows, VWidth: vRows}, K: kBytes, V: vBytes}}
	var bias, norm []float32
	if c.Bias {
		bias = activations(r, rows, 1)
		n.Bias = vector("blk.0.attn_qkv.bias", bias)
	}
	if c.Norm {
		norm = activations(r, c.HD, 2)
		n.Norm = vector("blk.0.attn_qk_norm.weight", norm)
	}
	if c.Refusal() != "" {
		return p, nil
	}
	all, err := newProduct(refs.Matrix{Type: c.Type, In: c.K, Out: rows, Data: data}, refs.F64(x))
	if err != nil {
		return nil, err
	}
	f := &fusedReference{c: c, rope: ref, bias: refs.F64(bias), norm: refs.F64(norm)}
	q, k, v := f.forward(all.y)
	kRow, err := refs.RoundKV(c.Cache, k)
	if err != nil {
		return nil, err
	}
	vRow, err := refs.RoundKV(c.Cache, v)
	if err != nil {
		return nil, err
	}
	kAll, vAll := append([]float64(nil), kOld...), append([]float64(nil), vOld...)
	qTerms, kTerms := f.terms(all.terms)
	if c.Pos >= c.Cells { // nothing is stored
		p.Results = []Result{{Type: gguf.F32, Want: q, K: float64(c.K), Terms: qTerms},
			{Place: Keys, Type: c.Cache, Want: kAll, Exact: true}, {Place: Values, Type: c.Cache, Want: vAll, Exact: true}}
		p.Edges = c.edges(all, f, q, kAll, vAll, kOld, vOld)
		return p, nil
	}
	copy(kAll[c.Pos*kvRows:], kRow)
	copy(vAll[c.Pos*vRows:], vRow)
	at, vAt := c.Pos*kvRows, c.Pos*vRows
	kStored := make([]float64, len(kAll))
	copy(kStored[at:], kTerms)
	p.Results = []Result{
		{Type: gguf.F32, Want: q, K: float64(c.K), Terms: qTerms},
		{Place: Keys, Type: c.Cache, Want: kAll, K: float64(c.K), Terms: kStored, Rounding: storeRounding(c.Cache, kAll, k, at), From: at, To: at + kvRows},
		{Place: Values, Type: c.Cache, Want: vAll, K: float64(c.K), Terms: []float64{all.terms}, Rounding: storeRounding(c.Cache, vAll, v, vAt), From: vAt, To: vAt + vRows},
	}
	p.Edges = c.edges(all, f, q, kAll, vAll, kOld, vOld)
	return p, nil
}

// fusedReference is what follows the product.
type fusedReference struct {
	c          *FusedQKV
	rope       refs.Rope
	bias, norm []float64
	// The factors by which the norms stretch an error of the product, one for each
	// value of q and then of k.
	stretch []float64
}

// forward gives the rotated q and k, and v, of the product's rows.
func (f *fusedReference) forward(y []float64) (q, k, v []float64) {
	c := f.c
	if c.Bias {
		y = refs.Add(y, f.bias)
	}
	qRows, kvRows := c.HD*c.Heads, c.HD*c.HeadsKV
	q, k, v = y[:qRows], y[qRows:qRows+kvRows], y[qRows+kvRows:]
	f.stretch = make([]float64, qRows+kvRows)
	for i := range f.stretch {
		f.stretch[i] = 1
	}
	if c.Norm {
		eps := float64(c.eps())
		for h := range c.Heads + c.HeadsKV {
			weights := f.norm[:c.HD]
			if h >= c.Heads {
				weights = f.norm[c.HD:]
			}
			from := h * c.HD
			size := math.Sqrt(math.Pow(refs.RMS(y[from:from+c.HD]), 2) + eps)
			for i, w := range weights {
				f.stretch[from+i] = math.Abs(w) / size
			}
		}
		q = refs.QkNorm(q, c.HD, eps, f.norm[:c.HD])
		k = refs.QkNorm(k, c.HD, eps, f.norm[c.HD:])
	}
	pos := []int32{int32(c.Pos)}
	return refs.RoPE(q, c.HD, pos, f.rope), refs.RoPE(k, c.HD, pos, f.rope), v
}

// terms is the product's for each value of q and k, as the norms stretch it and as
// the rotation gives either value of a pair a share of both.
func (f *fusedReference) terms(product float64) (q, k []float64) {
	all := make([]float64, len(f.stretch))
	for i, by := range f.stretch {
		all[i] = product * by
	}
	for from := 0; from < len(all); from += f.c.HD {
		for n := range f.rope.NDims / 2 {
			i, j := from+2*n, from+2*n+1
			if f.c.Mode == graph.RopeNeox {
				i, j = from+n, from+n+f.rope.NDims/2
			}
			both := math.Hypot(all[i], all[j])
			all[i], all[j] = both, both
		}
	}
	return all[:f.c.Heads*f.c.HD], all[f.c.Heads*f.c.HD:]
}

// storeRounding is what rounding to the cache's type may add to an error of the
// value in row, as it was before: one near the middle between two steps goes to
// the other one.
func storeRounding(t gguf.Type, region, row []float64, at int) []float64 {
	if t == gguf.F32 {
		return nil
	}
	all := make([]float64, len(region))
	for i, v := range row {
		switch t {
		case gguf.F16: // a unit in the last place, and the least half
			all[at+i] = math.Abs(v)/1024 + 1.0/(1<<24)
		case gguf.Q8_0: // a step of the block, and one of its scale, a half
			block := row[i/32*32 : i/32*32+32]
			scale := math.Abs(block[largest(block, 0, 1)]) / 127
			if scale == 0 {
				continue
			}
			steps := math.Abs(v) / scale
			if nearMiddle(steps) {
				all[at+i] = scale * (1 + 1.0/1024)
			}
			_, exponent := math.Frexp(scale)
			if step := math.Ldexp(1, exponent-11); nearMiddle(scale / step) {
				all[at+i] += steps * step
			}
		}
	}
	return all
}

// nearMiddle says whether a number lies so near the middle between two integers
// that an error within the bounds may move it to the other one.
func nearMiddle(x float64) bool { return math.Abs(x-math.Floor(x)-0.5) < 1.0/64 }

// edges leaves elements and blocks out of the product's sum, and rows, heads and
// the steps that follow out of the result.
func (c *FusedQKV) edges(all *matProduct, f *fusedReference, q, k, v, kOld, vOld []float64) []Edge {
	var list []Edge
	// moved compares a faulty product with the right one where it moves the output.
	moved := func(what string, n int, y []float64) {
		q2, _, _ := f.forward(y)
		i, by := farthest(q, q2)
		list = append(list, Edge{What: what, N: n, At: i, By: by})
	}
	row0 := all.rows[0]
	for e := range c.K {
		if !edge(e, c.K) {
			continue
		}
		y := append([]float64(nil), all.y...)
		y[0] -= row0[e] * all.x[e]
		y[1] -= all.rows[1][e] * all.x[e]
		moved("leaving out element", e, y)
	}
	for b := 0; b < c.K; b += 32 {
		y := append([]float64(nil), all.y...)
		y[0] -= all.part(0, 0, b)
		y[1] -= all.part(1, 0, b)
		moved("leaving out block", b/32, y)
	}
	for h := range c.Heads {
		i := h*c.HD + largest(q[h*c.HD:(h+1)*c.HD], 0, 1)
		list = append(list, Edge{What: "leaving out head", N: h, At: i, By: q[i]})
	}
	for h := range c.HeadsKV {
		for result, pair := range [][2][]float64{Keys: {k, kOld}, Values: {v, vOld}} {
			if result == 0 || c.Pos >= c.Cells {
				continue
			}
			hd := c.HD
			if Place(result) == Values {
				hd = c.valueHD()
			}
			from := c.Pos*hd*c.HeadsKV + h*hd
			i, by := farthest(pair[0][from:from+hd], pair[1][from:from+hd])
			list = append(list, Edge{What: "not storing " + placeNames[result] + " head", N: h, Result: result, At: from + i, By: by})
		}
	}
	// The steps after the product.
	plain := append([]float64(nil), all.y...)
	if c.Bias {
		moved("leaving out bias", 0, refs.Add(plain, scaled(f.bias, -1)))
	}
	if c.Pos > 0 {
		still := *f
		cc := *c
		cc.Pos = 0
		still.c = &cc
		q2, _, _ := still.forward(all.y)
		i, by := farthest(q, q2)
		list = append(list, Edge{What: "leaving out rotation", At: i, By: by})
	}
	if c.Norm {
		without := *f
		cc := *c
		cc.Norm = false
		without.c = &cc
		q2, _, _ := without.forward(all.y)
		i, by := farthest(q, q2)
		list = append(list, Edge{What: "leaving out norm", At: i, By: by})
	}
	return list
}

func scaled(x []float64, by float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = v * by
	}
	return y
}

// FusedFFN is the decode fusion of gate, up and their product for one token.
type FusedFFN struct {
	Type gguf.Type
	K    int // in_dim
	FF   int // n_ff
}

// ID implements [Case].
func (c *FusedFFN) ID() (string, []harness.Param) {
	return graph.FusedFFN.String(), []harness.Param{harness.P("type", c.Type), harness.P("k", c.K), harness.P("n_ff", c.FF)}
}

// Work implements [Case].
func (c *FusedFFN) Work() int64 { return product(2, c.K, c.FF) }

// Setting implements [Case].
func (c *FusedFFN) Setting() Setting { return nil }

// maxFusedFF is metal.MaxFusedFF, restated: the limit is part of the design.
const maxFusedFF = 16384

// Refusal implements [Case].
func (c *FusedFFN) Refusal() string {
	switch {
	case c.FF > maxFusedFF:
		return fmt.Sprint(c.FF)
	case c.K%c.Type.BlockSize() != 0:
		return fmt.Sprint(c.K)
	}
	return ""
}

// Build implements [Case].
func (c *FusedFFN) Build(r *rand.Rand) (*Problem, error) {
	inDim := (c.K + c.Type.BlockSize() - 1) / c.Type.BlockSize() * c.Type.BlockSize()
	data, err := weights(r, c.Type, inDim, 2*c.FF)
	if err != nil {
		return nil, err
	}
	x := activations(r, c.K, 1)
	n := onenode.New(graph.FusedFFN, graph.Mat(c.FF, 1), onenode.Input("x", gguf.F32, graph.Mat(c.K, 1)))
	n.Weight = &graph.Weight{Name: "blk.0.ffn_gate_up.weight", Type: c.Type, Shape: graph.Mat(c.K, 2*c.FF), Data: data}
	p := &Problem{Node: n, In: [][]byte{onenode.FloatBytes(x)}}
	if c.Refusal() != "" {
		return p, nil
	}
	all, err := newProduct(refs.Matrix{Type: c.Type, In: c.K, Out: 2 * c.FF, Data: data}, refs.F64(x))
	if err != nil {
		return nil, err
	}
	gate, up := all.y[:c.FF], all.y[c.FF:]
	want := refs.SwiGLU(gate, up)
	silu := func(v float64) float64 { return v / (1 + math.Exp(-v)) }
	// What an error of gate and one of up make of a value, and the roundings of the
	// kernel that follows, as those of swiglu.
	terms, rounding := make([]float64, c.FF), siluTerms(gate, want)
	swiglu := metal.Lookup(graph.SwiGLU.String(), "", "").Bound
	for i := range terms {
		terms[i] = all.terms * (1.1*math.Abs(up[i]) + math.Abs(silu(gate[i])))
		rounding[i] = swiglu.C*unit*rounding[i] + swiglu.Absolute
	}
	p.Results = []Result{{Type: gguf.F32, Want: want, K: float64(c.K), Terms: terms, Rounding: rounding}}

	// Elements and blocks of the product's sum show where the results are largest.
	best := make([]int, c.FF)
	for i := range best {
		best[i] = i
	}
	slices.SortStableFunc(best, func(a, b int) int { return cmp.Compare(math.Abs(want[b]), math.Abs(want[a])) })
	best = best[:min(8, c.FF)]
	weights := make([][2][]float64, len(best))
	for i, o := range best {
		for j := range 2 {
			if weights[i][j], err = all.m.Row(j*c.FF + o); err != nil {
				return nil, err
			}
		}
	}
	without := func(what string, n, from, to int) {
		for i, o := range best {
			dg, du := 0.0, 0.0
			for e := from; e < min(to, c.K); e++ {
				dg += weights[i][0][e] * all.x[e]
				du += weights[i][1][e] * all.x[e]
			}
			p.Edges = append(p.Edges, Edge{What: what, N: n, At: o, By: silu(gate[o]-dg)*(up[o]-du) - want[o]})
		}
	}
	for e := range c.K {
		if edge(e, c.K) {
			without("leaving out element", e, e, e+1)
		}
	}
	for b := 0; b < c.K; b += 32 {
		without("leaving out block", b/32, b, b+32)
	}
	for o := range c.FF {
		if o%tile == 0 || o%tile == tile-1 || o == c.FF-1 {
			// A row's result is near zero where its gate is far below; the tile's largest shows.
			from := o / tile * tile
			at := from + largest(want[from:min(from+tile, c.FF)], 0, 1)
			p.Edges = append(p.Edges, Edge{What: "leaving out tile of rows", N: o / tile, At: at, By: want[at]})
		}
	}
	return p, nil
}
