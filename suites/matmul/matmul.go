// Package matmul is the suite of matrix products on the Metal path: every weight
// type in each of the three tiers, at the tails of every tile and at the sizes of
// real models.
package matmul

import (
	"minfer/engine/gguf"
	"minfer/harness"
	"minfer/suites"
	"minfer/suites/metalcase"
)

// Suite is the suite `matmul`.
type Suite struct{}

// Name is "matmul".
func (Suite) Name() string { return "matmul" }

// Ops are the ops whose dispatch-table entries the suite covers.
func (Suite) Ops() []string { return []string{"mul_mat"} }

// Cases lists the tier's cases; there are none for a device that is not Metal's.
func (s Suite) Cases(env *suites.Env) ([]harness.Case, error) {
	if env.Device.Open == nil {
		return nil, nil
	}
	return metalcase.Cases(env, s.Name(), s.Ops(), list(env.Tier)), nil
}

// budget is the most multiply-adds of one case. Shapes beyond it are left to the
// higher tiers, which take the pairs of values that need them.
func budget(tier suites.Tier) int64 {
	return [...]int64{1_300_000, 20_000_000, 20_000_000}[tier]
}

var types = []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K}

var (
	// Rows of weights: the tails of the gemm's 64, of the single tier's 2, 4 and 8 and
	// the multi tier's 2, 1, primes, and those from which the gemm takes two tokens.
	ms = []int{1, 2, 3, 7, 8, 9, 31, 63, 64, 65, 127, 896, 2048, 2053}
	// Tokens: the first tile of the gemm's 64, cut anywhere and whole, one more, and both
	// sides of its threshold. More tokens are among the cases below.
	ns = []int{1, 2, 8, 9, 15, 16, 31, 32, 33, 64, 65}
	// Lengths of the sums, in blocks, and of real models.
	blocks = []int{1, 2, 3, 5, 7}
	real   = []int{896, 1536, 3584, 4864, 18944}
	plain  = []int{1, 7, 31, 33, 77} // of types without blocks, instead
)

// length is choice i of a sum's length for a type, 0 where it is not whole blocks.
func length(t gguf.Type, i int) int {
	block := t.BlockSize()
	switch {
	case i >= len(blocks):
		if k := real[i-len(blocks)]; k%block == 0 {
			return k
		}
		return 0
	case block == 1:
		return plain[i]
	}
	return blocks[i] * block
}

// The factors of the covering array.
const (
	factorType = iota
	factorM
	factorN
	factorK
	factorBias
	factorGEMM
)

// gemmOff is the level of factorGEMM that takes the gemm out; the lower ones leave
// it, as most runs do.
const gemmOff = 2

func list(tier suites.Tier) []metalcase.Case {
	levels := []int{len(types), len(ms), len(ns), len(blocks) + len(real), 2, 3}
	least := func(row []int, f int, sizes []int) int {
		if row[f] >= 0 {
			return sizes[row[f]]
		}
		return 1
	}
	allowed := func(row []int) bool {
		k := 1
		if row[factorK] >= 0 {
			k = 0
			for i, t := range types {
				if row[factorType] < 0 || row[factorType] == i {
					if l := length(t, row[factorK]); l > 0 && (k == 0 || l < k) {
						k = l
					}
				}
			}
			if k == 0 {
				return false
			}
		} else if row[factorType] >= 0 {
			k = length(types[row[factorType]], 0)
		}
		return int64(least(row, factorM, ms))*int64(least(row, factorN, ns))*int64(k) <= budget(tier)
	}
	// Each type in each tier, whatever else.
	var seeds [][]int
	for t := range types {
		for bias := range 2 {
			for _, n := range []int{0, 1, 4} { // single, multi, gemm by its tokens
				seeds = append(seeds, []int{t, -1, n, -1, bias, 0})
			}
		}
		seeds = append(seeds, []int{t, 12, 1, -1, -1, 0}) // gemm by its outputs
	}
	if tier == suites.Exhaustive { // each type with all rows and tokens
		for t := range types {
			for m := range ms {
				for n := range ns {
					seeds = append(seeds, []int{t, m, n})
				}
			}
		}
	}
	var cases []metalcase.Case
	for _, row := range metalcase.Pairwise(levels, seeds, allowed) {
		c := &metalcase.MulMat{Type: types[row[factorType]], M: ms[row[factorM]], N: ns[row[factorN]],
			K: length(types[row[factorType]], row[factorK]), Bias: row[factorBias] == 1}
		if row[factorGEMM] == gemmOff {
			c.Levers = metalcase.Setting{"MINFER_GEMM=0"}
		}
		cases = append(cases, c)
	}
	// Each type's whole tiles and tails without a bias; rows of plain types whose length
	// is a multiple of what a load takes and not of what a step takes, or longer than a
	// step and no multiple of either; weights that only the types of a float's range have.
	for _, t := range types {
		k := t.BlockSize()
		if k == 1 {
			k = 36
			for _, k := range []int{100, 129, 164} {
				cases = append(cases, &metalcase.MulMat{Type: t, M: 9, N: 1, K: k}, &metalcase.MulMat{Type: t, M: 9, N: 3, K: k})
			}
			if t != gguf.F16 {
				for _, n := range []int{1, 3, 9} { // single, multi, gemm
					cases = append(cases, &metalcase.MulMat{Type: t, M: 9, N: n, K: 164, Large: true})
				}
			}
		}
		cases = append(cases, &metalcase.MulMat{Type: t, M: 66, N: 33, K: k}, &metalcase.MulMat{Type: t, M: 127, N: 33, K: k},
			&metalcase.MulMat{Type: t, M: 64, N: 63, K: k}, &metalcase.MulMat{Type: t, M: 64, N: 32, K: k, Bias: true},
			&metalcase.MulMat{Type: t, M: 128, N: 64, K: k}, &metalcase.MulMat{Type: t, M: 64, N: 128, K: k}, &metalcase.MulMat{Type: t, M: 66, N: 65, K: k})
	}
	// What no covering row has room for: outputs and tokens beyond any one batch of
	// threadgroups, with short sums; rows one block past a whole step of the single tier.
	noGEMM := metalcase.Setting{"MINFER_GEMM=0"}
	for _, t := range []gguf.Type{gguf.F32, gguf.Q8_0} {
		k := t.BlockSize()
		cases = append(cases,
			&metalcase.MulMat{Type: t, M: 16411, N: 1, K: k, Bias: true},
			&metalcase.MulMat{Type: t, M: 8257, N: 9, K: k},
			&metalcase.MulMat{Type: t, M: 3, N: 289, K: k, Bias: true, Levers: noGEMM},
			&metalcase.MulMat{Type: t, M: 9, N: 289, K: k})
	}
	for _, t := range types {
		if t.BlockSize() == 32 {
			cases = append(cases, &metalcase.MulMat{Type: t, M: 9, N: 1, K: 288}, &metalcase.MulMat{Type: t, M: 9, N: 3, K: 288, Levers: noGEMM})
		}
	}
	// Both variants of the types that have two for one token, past whole steps and whole
	// threadgroups, and with fewer rows than one.
	for _, t := range []gguf.Type{gguf.Q4_0, gguf.Q4_K} {
		k := max(576, 3*t.BlockSize())
		cases = append(cases, &metalcase.MulMat{Type: t, M: k + 3, N: 1, K: k, Bias: true},
			&metalcase.MulMat{Type: t, M: 11, N: 1, K: k + 512}, &metalcase.MulMat{Type: t, M: 3, N: 1, K: k + 512, Bias: true})
	}
	// More than one step of q4_0's pairs for a simdgroup takes as many rows.
	cases = append(cases, &metalcase.MulMat{Type: gguf.Q4_0, M: 10571, N: 1, K: 576})
	if tier > suites.Quick { // the vocabulary of real models, and a whole batch of tokens
		cases = append(cases, &metalcase.MulMat{Type: gguf.F16, M: 151936, N: 1, K: 3}, &metalcase.MulMat{Type: gguf.F16, M: 151936, N: 2, K: 3},
			&metalcase.MulMat{Type: gguf.Q4_0, M: 65, N: 513, K: 64}, &metalcase.MulMat{Type: gguf.Q4_0, M: 5, N: 513, K: 64, Levers: noGEMM})
	}
	return metalcase.Distinct(append(cases,
		&metalcase.MulMat{Type: gguf.Q4_K, M: 4, N: 1, K: 96}, // refused: not whole blocks
		&metalcase.MulMat{Type: gguf.Q8_0, M: 4, N: 3, K: 33},
		&metalcase.MulMat{Type: gguf.Q4_0, M: 33, N: 1, K: 64, Levers: metalcase.Setting{"MINFER_WEIGHT_COPY=1"}},
	))
}
