package ops

import (
	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/suites"
)

// builtin lists the tier's cases. Shapes are odd on purpose: 1, primes, both
// sides of every tile, vector and block, and the real sizes of the models.
func builtin(tier suites.Tier) []opCase {
	var list []opCase
	add := func(c ...opCase) { list = append(list, c...) }

	for _, t := range weightTypes {
		for _, s := range mulMatShapes(tier, t.BlockSize()) {
			add(&mulMat{t: t, m: s[0], n: s[1], k: s[2]})
		}
		add(&mulMat{t: t, m: 7, n: 3, k: 2 * t.BlockSize(), bias: true})
		d := max(t.BlockSize(), 32)
		add(&getRows{t: t, d: d, rows: 1, ids: 1}, &getRows{t: t, d: 3 * d, rows: 101, ids: 7}, &getRows{t: t, d: 1024, rows: 64, ids: 33})
	}
	for _, t := range weightTypes[:3] { // rows without blocks have tails
		for _, k := range []int{1, 7, 31, 33, 45, 63, 65, 77, 127, 1000} {
			add(&mulMat{t: t, m: 5, n: 2, k: k})
		}
	}
	add(&mulMat{t: gguf.Q4_K, m: 4, n: 1, k: 96}) // refused: not whole blocks

	for _, d := range lengths(tier) {
		add(&rmsNorm{d: d, rows: 3, eps: 1e-6}, &elementwise{graph.Silu, d, 3}, &elementwise{graph.SwiGLU, d, 3},
			&elementwise{graph.Add, d, 4}, &elementwise{graph.Mul, d, 4}, &softMax{d: d, rows: 3, scale: 0.125})
	}
	add(&rmsNorm{d: 896, rows: 65, eps: 1e-5}, &rmsNorm{d: 64, rows: 1, eps: 0}, &softMax{d: 113, rows: 16, scale: 1},
		&scale{d: 113, rows: 3, factor: 0.3}, &scale{d: 1, rows: 1, factor: -2},
		&qkNorm{hd: 128, heads: 4, tokens: 5, eps: 1e-6}, &qkNorm{hd: 64, heads: 1, tokens: 1, eps: 1e-6}, &qkNorm{hd: 80, heads: 3, tokens: 2, eps: 1e-5},
		&batchMulMat{m: 5, n: 3, k: 64, b: 2}, &batchMulMat{m: 1, n: 1, k: 1, b: 1}, &batchMulMat{m: 33, n: 7, k: 77, b: 3})

	for _, mode := range []string{"neox", "norm"} {
		for _, c := range []rope{
			{hd: 128, heads: 4, tokens: 5, dims: 128, posBelow: 4096, base: 1e6},
			{hd: 64, heads: 14, tokens: 1, dims: 64, posBelow: 1, base: 1e6},
			{hd: 64, heads: 2, tokens: 33, dims: 64, posBelow: 131072, base: 1e4},
			{hd: 96, heads: 3, tokens: 2, dims: 64, posBelow: 32768, base: 5e6},
			{hd: 80, heads: 1, tokens: 7, dims: 80, posBelow: 2048, base: 1e7},
			{hd: 64, heads: 3, tokens: 4, dims: 64, posBelow: 8192, base: 5e5, factors: true},
			{hd: 128, heads: 2, tokens: 3, dims: 128, posBelow: 4096, base: 1e4, scaling: "linear", factor: 4},
			{hd: 128, heads: 2, tokens: 9, dims: 128, posBelow: 131072, base: 1e6, scaling: "yarn", factor: 4, ctxOrig: 32768},
			{hd: 64, heads: 2, tokens: 9, dims: 64, posBelow: 8192, base: 1e4, scaling: "yarn", factor: 2.5, ctxOrig: 2048, factors: true},
		} {
			c.mode = mode
			if c.scaling == "" {
				c.factor = 1
			}
			add(&c)
		}
	}

	for _, t := range []gguf.Type{gguf.F32, gguf.F16, gguf.Q8_0} {
		for _, s := range attentionShapes(tier) {
			add(&attention{hd: s[0], heads: s[1], headsKV: s[2], nkv: s[3], tokens: s[4], t: t})
		}
		add(&kvStore{t: t, d: 128, rows: 64, n: 3}, &kvStore{t: t, d: 128, rows: 64, n: 0}, &kvStore{t: t, d: 32, rows: 1, n: 1}, &kvStore{t: t, d: 96, rows: 33, n: 33})
	}
	return list
}

// mulMatShapes are m, n, k for a block size.
func mulMatShapes(tier suites.Tier, block int) [][3]int {
	b := max(block, 32)
	shapes := [][3]int{{1, 1, b}, {16, 9, 2 * b}, {17, 1, 3 * b}, {3, 5, 7 * b}, {33, 4, 1024}, {7, 2, 4864}, {896, 1, 256}}
	if tier >= suites.Full {
		for _, m := range []int{1, 2, 15, 64, 151} {
			for _, n := range []int{1, 3, 8, 33} {
				for _, k := range []int{b, 5 * b, 1536, 3584} {
					if k%b == 0 {
						shapes = append(shapes, [3]int{m, n, k})
					}
				}
			}
		}
	}
	if tier >= suites.Exhaustive {
		shapes = append(shapes, [3]int{4864, 2, 1024}, [3]int{896, 16, 4864}, [3]int{64, 3, 18944})
	}
	return dedupe(shapes)
}

// lengths are rows of elementwise ops and norms.
func lengths(tier suites.Tier) []int {
	d := []int{1, 7, 8, 9, 31, 113, 768, 1025}
	if tier >= suites.Full {
		d = append(d, 2, 3, 15, 16, 17, 63, 64, 65, 255, 256, 257, 896, 1536, 3584, 4864)
	}
	if tier >= suites.Exhaustive {
		for i := range 300 {
			d = append(d, i+1)
		}
	}
	return dedupe(d)
}

// attentionShapes are hd, n_head, n_head_kv, n_kv, n_tokens.
func attentionShapes(tier suites.Tier) [][5]int {
	shapes := [][5]int{{64, 14, 2, 113, 3}, {128, 4, 4, 1, 1}, {64, 2, 1, 33, 33}, {80, 6, 3, 31, 5}, {128, 8, 2, 257, 2}}
	if tier >= suites.Full {
		for _, nkv := range []int{2, 8, 32, 255, 511, 512, 513, 2049} {
			for _, tokens := range []int{1, 2, 9} {
				if tokens <= nkv {
					shapes = append(shapes, [5]int{64, 7, 1, nkv, tokens}, [5]int{128, 12, 2, nkv, tokens})
				}
			}
		}
	}
	if tier >= suites.Exhaustive {
		for _, hd := range []int{32, 48, 72, 96, 100, 112, 256} {
			shapes = append(shapes, [5]int{hd, 4, 2, 77, 7})
		}
	}
	return shapes
}

func dedupe[T comparable](list []T) []T {
	seen := map[T]bool{}
	out := list[:0]
	for _, d := range list {
		if !seen[d] {
			seen[d] = true
			out = append(out, d)
		}
	}
	return out
}
