// Package kv is the suite of KV cache stores on the Metal path: caches of every
// type, rows at any position, all other rows untouched.
package kv

import (
	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/harness"
	"minfer/suites"
	"minfer/suites/metalcase"
)

// Suite is the suite `kv`.
type Suite struct{}

// Name is "kv".
func (Suite) Name() string { return "kv" }

// Ops are the ops whose dispatch-table entries the suite covers.
func (Suite) Ops() []string { return []string{"kv_store"} }

// Cases lists the tier's cases; there are none for a device that is not Metal's.
func (s Suite) Cases(env *suites.Env) ([]harness.Case, error) {
	if env.Device.Open == nil {
		return nil, nil
	}
	return metalcase.Cases(env, s.Name(), s.Ops(), metalcase.Distinct(list(env.Tier))), nil
}

func list(tier suites.Tier) []metalcase.Case {
	// Channels of a row: of the small models, of real ones, tails of blocks of 32.
	widths := []int{32, 64, 96, 128, 224, 256, 1024}
	if tier > suites.Quick {
		widths = append(widths, 160, 512, 896, 2048)
	}
	rows := [][2]int{{1, 1}, {33, 33}, {64, 3}, {513, 9}, {100, 65}, {64, 0}}
	var cases []metalcase.Case
	i := 0
	for _, t := range []gguf.Type{gguf.F32, gguf.F16, gguf.Q8_0} {
		for _, d := range widths {
			for _, n := range rows {
				i++
				side := graph.KVKey
				if i%2 == 0 {
					side = graph.KVValue
				}
				if tier == suites.Quick && d > 256 && n[0] > 64 {
					continue
				}
				cases = append(cases, &metalcase.KvStore{Type: t, D: d, Rows: n[0], N: n[1], Side: side})
			}
		}
		cases = append(cases, &metalcase.KvStore{Type: t, D: 64, Rows: 9, N: 4, Outside: true})
		if t != gguf.Q8_0 {
			for _, d := range []int{1, 7, 45, 77, 257} { // rows of no round length
				cases = append(cases, &metalcase.KvStore{Type: t, D: d, Rows: 17, N: 5})
			}
		}
	}
	return append(cases, &metalcase.KvStore{Type: gguf.Q8_0, D: 45, Rows: 4, N: 1}) // refused: no whole blocks
}
