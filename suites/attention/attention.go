// Package attention is the suite of attention on the Metal path: all five
// variants, which the levers choose, over caches of every type.
package attention

import (
	"minfer/engine/gguf"
	"minfer/harness"
	"minfer/suites"
	"minfer/suites/metalcase"
)

// Suite is the suite `attention`.
type Suite struct{}

// Name is "attention".
func (Suite) Name() string { return "attention" }

// Ops are the ops whose dispatch-table entries the suite covers. A packed cache is
// unpacked on the way to the kernels that do not read it as it is.
func (Suite) Ops() []string { return []string{"attention", "kv_dequantize"} }

// Cases lists the tier's cases; there are none for a device that is not Metal's.
func (s Suite) Cases(env *suites.Env) ([]harness.Case, error) {
	if env.Device.Open == nil {
		return nil, nil
	}
	return metalcase.Cases(env, s.Name(), s.Ops(), metalcase.Distinct(list(env.Tier))), nil
}

// budget is the most multiply-adds of one case. Shapes beyond it are left to the
// higher tiers, which take the pairs of values that need them.
func budget(tier suites.Tier) int64 {
	return [...]int64{4_700_000, 40_000_000, 40_000_000}[tier]
}

var (
	// The levers that choose a variant: flash; split and parallel; classic.
	settings = []metalcase.Setting{
		nil,
		{"MINFER_NO_FLASH=1", "MINFER_NO_PREFILL_FLASH=1"},
		{"MINFER_NO_FLASH=1", "MINFER_NO_SPLIT_ATTN=1", "MINFER_NO_PREFILL_FLASH=1", "MINFER_NO_MATMUL_ATTN=1"},
	}
	hds    = []int{64, 128, 80}
	groups = []int{1, 2, 6, 7, 8} // query heads of a KV head
	nkvs   = []int{1, 31, 32, 33, 65, 511, 512, 513, 2049}
	nts    = []int{1, 2, 8, 9, 15, 16, 33, 64, 65}
	types  = []gguf.Type{gguf.F32, gguf.F16, gguf.Q8_0}
	spares = []int{0, 1, 40}
)

// The factors of the covering array.
const (
	factorSetting = iota
	factorHD
	factorGroup
	factorNKV
	factorNT
	factorType
	factorSpare
	factorHeadsKV
)

// shape is what a row of the covering array stands for; a factor without a value
// counts as its smallest.
func shape(row []int) *metalcase.Attention {
	pick := func(f int, values []int) int { return values[max(row[f], 0)] }
	c := &metalcase.Attention{HD: pick(factorHD, hds), HeadsKV: 1 + max(row[factorHeadsKV], 0), NKV: pick(factorNKV, nkvs), Tokens: pick(factorNT, nts), Type: types[max(row[factorType], 0)]}
	c.Heads = c.HeadsKV * pick(factorGroup, groups)
	if row[factorNKV] < 0 {
		c.NKV = nkvs[len(nkvs)-1]
	}
	// nkvs are cells that rows see; spare ones come on top.
	if s := pick(factorSpare, spares); s > 0 {
		c.Spare = s
		c.NKV += s
	}
	c.Levers = settings[max(row[factorSetting], 0)]
	return c
}

func list(tier suites.Tier) []metalcase.Case {
	levels := []int{len(settings), len(hds), len(groups), len(nkvs), len(nts), len(types), len(spares), 2}
	allowed := func(row []int) bool {
		c := shape(row)
		if row[factorType] >= 0 && row[factorHD] >= 0 && types[row[factorType]] == gguf.Q8_0 && c.HD*c.HeadsKV%32 != 0 && row[factorHeadsKV] >= 0 {
			return false
		}
		if c.Tokens > c.NKV-c.Spare {
			return false // no position below 0
		}
		if row[factorNKV] < 0 {
			c.NKV = max(c.Tokens, 1)
		}
		return c.Work() <= budget(tier)
	}
	// Each variant and type, with each head size, for one token and for several.
	var seeds [][]int
	for s := range settings {
		for h := range hds {
			for t := range types {
				for _, nt := range []int{0, 3} { // 1 and 9
					seeds = append(seeds, []int{s, h, -1, -1, nt, t, -1, -1})
				}
			}
		}
	}
	if tier == suites.Exhaustive { // each variant and type with all windows and tokens
		for s := range settings {
			for t := range types {
				for kv := range nkvs {
					for nt := range nts {
						seeds = append(seeds, []int{s, -1, -1, kv, nt, t, -1, -1})
					}
				}
			}
		}
	}
	var cases []metalcase.Case
	for _, row := range metalcase.Pairwise(levels, seeds, allowed) {
		cases = append(cases, shape(row))
	}
	for _, chunks := range []string{"1", "3", "16"} {
		for _, t := range types {
			cases = append(cases, &metalcase.Attention{HD: 64, Heads: 7, HeadsKV: 1, NKV: 513, Tokens: 1, Type: t, Levers: metalcase.Setting{"MINFER_ATTN_CHUNKS=" + chunks}},
				&metalcase.Attention{HD: 128, Heads: 2, HeadsKV: 2, NKV: 33, Tokens: 1, Type: t, Levers: metalcase.Setting{"MINFER_ATTN_CHUNKS=" + chunks}})
		}
	}
	// Each kernel of each type over several tiles, whose largest scores rise and fall,
	// with tails, an odd number of heads of a KV head, and cells that no row sees.
	for _, hd := range []int{64, 128} {
		for _, t := range types {
			more := func(nkv, tokens int, s metalcase.Setting) {
				cases = append(cases, &metalcase.Attention{HD: hd, Heads: 6, HeadsKV: 2, NKV: nkv, Spare: 2, Tokens: tokens, Type: t, Levers: s})
			}
			// A cell more than the chunks have as whole tiles: of 2 for flash, and of the 2
			// parts of a wider window for split.
			cases = append(cases,
				&metalcase.Attention{HD: hd, Heads: 2, HeadsKV: 1, NKV: 65, Tokens: 1, Type: t, Levers: metalcase.Setting{"MINFER_ATTN_CHUNKS=2"}},
				&metalcase.Attention{HD: hd, Heads: 2, HeadsKV: 1, NKV: 65 + 70, Spare: 70, Tokens: 1, Type: t, Levers: settings[1]})
			more(235, 1, metalcase.Setting{"MINFER_ATTN_CHUNKS=1"})
			cases = append(cases,
				// A largest score of each simdgroup, which only that of the last makes finite.
				&metalcase.Attention{HD: hd, Heads: 2, HeadsKV: 1, NKV: 61, Tokens: 1, Type: t, Peaks: true, Levers: metalcase.Setting{"MINFER_ATTN_CHUNKS=1"}},
				// One that a simdgroup's later tiles are far below.
				&metalcase.Attention{HD: hd, Heads: 2, HeadsKV: 1, NKV: 175, Tokens: 1, Type: t, Peaks: true, Levers: metalcase.Setting{"MINFER_ATTN_CHUNKS=1"}},
				// Whole chunks, and whole parts, of which the last has no cell and a part of the window.
				&metalcase.Attention{HD: hd, Heads: 1, HeadsKV: 1, NKV: 1030, Spare: 6, Tokens: 1, Type: t, Levers: settings[1]},
				&metalcase.Attention{HD: hd, Heads: 2, HeadsKV: 1, NKV: 64, Tokens: 1, Type: t},
				&metalcase.Attention{HD: hd, Heads: 1, HeadsKV: 1, NKV: 256, Tokens: 1, Type: t, Levers: settings[1]},
				// One row beyond a whole tile of rows, of several KV heads.
				&metalcase.Attention{HD: hd, Heads: 2, HeadsKV: 2, NKV: 40, Tokens: 17, Type: t, Levers: settings[1]})
			for _, s := range settings[:2] {
				// A tile of rows none of which sees a cell.
				cases = append(cases, &metalcase.Attention{HD: hd, Heads: 32, HeadsKV: 1, NKV: 35, Tokens: 2, Type: t, Before: true, Levers: s})
			}
			more(235, 1, settings[1])
			more(99, 21, settings[0])
			more(99, 21, settings[1])
			more(235, 3, settings[2])
			for _, s := range settings {
				// Few cells of a window of many, and scores that only their differences make
				// finite.
				cases = append(cases, &metalcase.Attention{HD: hd, Heads: 2, HeadsKV: 2, NKV: 300, Spare: 205, Tokens: 1, Type: t, Levers: s},
					&metalcase.Attention{HD: hd, Heads: 2, HeadsKV: 1, NKV: 34, Spare: 33, Tokens: 1, Type: t, Levers: s},
					&metalcase.Attention{HD: hd, Heads: 2, HeadsKV: 1, NKV: 99, Tokens: 1, Type: t, Peaks: true, Levers: s},
					&metalcase.Attention{HD: hd, Heads: 4, HeadsKV: 2, NKV: 99, Tokens: 3, Type: t, Peaks: true, Levers: s},
					&metalcase.Attention{HD: hd, Heads: 4, HeadsKV: 2, NKV: 35, Tokens: 5, Type: t, Peaks: true, Levers: s}) // masked where it is largest
			}
			for i, s := range settings {
				// Positions that the window does not have.
				outside := &metalcase.Attention{HD: hd, Heads: 2, HeadsKV: 1, NKV: 35, Tokens: 1, Type: t, Levers: s}
				before, beyond, both := *outside, *outside, *outside
				before.Before, beyond.Beyond, both.Before, both.Beyond = true, true, true, true
				both.Tokens = 3 + i
				cases = append(cases, &before, &beyond, &both)
			}
		}
	}
	cases = append(cases, // more parts than a simdgroup has lanes
		&metalcase.Attention{HD: 64, Heads: 2, HeadsKV: 1, NKV: 4131, Spare: 1, Tokens: 1, Type: gguf.F32, Levers: settings[1]},
		&metalcase.Attention{HD: 64, Heads: 2, HeadsKV: 1, NKV: 4131, Spare: 1, Tokens: 1, Type: gguf.F32, Peaks: true, Levers: settings[1]},
		&metalcase.Attention{HD: 64, Heads: 2, HeadsKV: 1, NKV: 4098, Spare: 1, Tokens: 1, Type: gguf.F32, Peaks: true, Levers: settings[1]})
	for _, s := range settings {
		cases = append(cases,
			&metalcase.Attention{HD: 45, Heads: 3, HeadsKV: 3, NKV: 37, Tokens: 5, Type: gguf.F16, Levers: s},
			&metalcase.Attention{HD: 45, Heads: 4, HeadsKV: 2, NKV: 37, Tokens: 5, Type: gguf.F32, Levers: s},
			&metalcase.Attention{HD: 64, Heads: 2, HeadsKV: 1, NKV: 70, Tokens: 70, Type: gguf.F32, Levers: s},                  // starts at 0: tiles wholly masked
			&metalcase.Attention{HD: 128, Heads: 2, HeadsKV: 1, NKV: 99, Tokens: 33, Type: gguf.F16, Shuffled: true, Levers: s}, // rows in no order
			&metalcase.Attention{HD: 64, Heads: 7, HeadsKV: 2, NKV: 33, Tokens: 1, Type: gguf.F32, Levers: s},                   // refused: 2 does not divide 7
			&metalcase.Attention{HD: 64, Heads: 7, HeadsKV: 2, NKV: 33, Tokens: 3, Type: gguf.F32, Levers: s},
			&metalcase.Attention{HD: 45, Heads: 2, HeadsKV: 1, NKV: 33, Tokens: 1, Type: gguf.Q8_0, Levers: s}, // refused: no whole blocks
		)
	}
	return cases
}
