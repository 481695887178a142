// Package fusion is the suite of the decode fusions on the Metal path: the three
// projections with what follows them up to the cache, with and without norms, and
// the feed-forward layer's gate.
package fusion

import (
	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/harness"
	"minfer/suites"
	"minfer/suites/metalcase"
)

// Suite is the suite `fusion`.
type Suite struct{}

// Name is "fusion".
func (Suite) Name() string { return "fusion" }

// Ops are the ops whose dispatch-table entries the suite covers.
func (Suite) Ops() []string { return []string{"fused_qkv", "fused_qkv_norm", "fused_ffn"} }

// Cases lists the tier's cases; there are none for a device that is not Metal's.
func (s Suite) Cases(env *suites.Env) ([]harness.Case, error) {
	if env.Device.Open == nil {
		return nil, nil
	}
	return metalcase.Cases(env, s.Name(), s.Ops(), metalcase.Distinct(list(env.Tier))), nil
}

var types = []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K}

// heads are hd, n_head, n_head_kv: of the small models and real ones.
var heads = [][3]int{{64, 4, 2}, {128, 2, 1}, {64, 14, 2}, {64, 7, 1}, {80, 3, 3}, {128, 8, 1}}

func list(tier suites.Tier) []metalcase.Case {
	caches := []gguf.Type{gguf.F32, gguf.F16, gguf.Q8_0}
	ks := []int{256, 512, 768, 1536}
	levels := []int{len(types), len(heads), len(caches), len(ks), 2, 2, 2, 2}
	most := [...]int64{500_000, 4_000_000, 64_000_000}[tier]
	allowed := func(row []int) bool {
		h := heads[max(row[1], 0)]
		if row[1] >= 0 && row[2] >= 0 && caches[row[2]] == gguf.Q8_0 && h[0]%32 != 0 {
			return false
		}
		return int64(h[0]*(h[1]+2*h[2]))*int64(ks[max(row[3], 0)]) <= most
	}
	var cases []metalcase.Case
	for i, row := range metalcase.Pairwise(levels, nil, allowed) {
		h := heads[row[1]]
		c := &metalcase.FusedQKV{Type: types[row[0]], HD: h[0], Heads: h[1], HeadsKV: h[2], Cache: caches[row[2]], K: ks[row[3]],
			Bias: row[4] == 1, Norm: row[5] == 1, Factors: row[6] == 1, Mode: graph.RopeMode(row[7]), Cells: 33, Pos: []int{0, 31, 32, 7}[i%4]}
		cases = append(cases, c)
	}
	// The small models' widths, which K-quants do not take.
	cases = append(cases, &metalcase.FusedQKV{Type: gguf.Q4_0, HD: 64, Heads: 4, HeadsKV: 2, Cache: gguf.F16, K: 896, Bias: true, Mode: graph.RopeNeox, Cells: 5, Pos: 4},
		&metalcase.FusedQKV{Type: gguf.Q8_0, HD: 80, Heads: 2, HeadsKV: 2, Cache: gguf.Q8_0, K: 64, Cells: 5, Pos: 4}) // refused: heads of no whole blocks

	// What the embedded models do not have: a norm that eps shows in, scaled rotations,
	// heads of no round size.
	for i, cache := range caches {
		hd := []int{104, 112, 96}[i]
		cases = append(cases,
			&metalcase.FusedQKV{Type: gguf.Q4_0, HD: hd, Heads: 3, HeadsKV: 1, Cache: cache, K: 64, Norm: true, Eps: 0.25, Mode: graph.RopeNeox, Cells: 7, Pos: 6},
			&metalcase.FusedQKV{Type: gguf.F16, HD: 64, Heads: 2, HeadsKV: 1, Cache: cache, K: 64, Cells: 7, Pos: 7}, // a cell that the cache does not have
			&metalcase.FusedQKV{Type: gguf.Q5_1, HD: 96, ValueHD: 64, Heads: 3, HeadsKV: 2, Cache: cache, K: 64, Bias: true, Cells: 7, Pos: 5},
			&metalcase.FusedQKV{Type: gguf.F16, HD: hd, Heads: 2, HeadsKV: 2, Cache: cache, K: 64, Bias: true, Yarn: true, Cells: 2100, Pos: 2011},
			// Heads that a simdgroup's first steps do not square whole; a part that rotates.
			&metalcase.FusedQKV{Type: gguf.F16, HD: 992, Heads: 1, HeadsKV: 1, Cache: cache, K: 32, Norm: true, Mode: graph.RopeNeox, Cells: 7, Pos: 6},
			&metalcase.FusedQKV{Type: gguf.F16, HD: 96, Heads: 2, HeadsKV: 1, Cache: cache, K: 32, Dims: 64, Mode: graph.RopeMode(i % 2), Cells: 40, Pos: 37})
	}

	for i, t := range types {
		b := max(t.BlockSize(), 32)
		cases = append(cases,
			&metalcase.FusedFFN{Type: t, K: 2 * b, FF: 33 + i},
			&metalcase.FusedFFN{Type: t, K: 1536, FF: 65})
		if tier > suites.Quick {
			cases = append(cases, &metalcase.FusedFFN{Type: t, K: 1024, FF: 4864}, &metalcase.FusedFFN{Type: t, K: 3584, FF: 1024})
		}
	}
	return append(cases, &metalcase.FusedFFN{Type: gguf.Q4_0, K: 32, FF: 4864}, &metalcase.FusedFFN{Type: gguf.Q8_0, K: 896, FF: 1},
		&metalcase.FusedFFN{Type: gguf.F32, K: 1, FF: 16384}, &metalcase.FusedFFN{Type: gguf.F32, K: 1, FF: 16385}) // refused: too wide
}
