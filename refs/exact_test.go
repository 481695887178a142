package refs_test

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/refs"
	"minfer/refs/exact"
	"minfer/refs/models"
)

const unit = 0x1p-24 // half an ulp of float32 at 1

func normal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func sumAbs(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += math.Abs(a[i] * b[i])
	}
	return sum
}

// near requires |got - expected| <= bound(i) for all elements, and that the
// bound is not so wide that it would accept zeros.
func near(t *testing.T, what string, got []float32, expected []float64, bound func(i int) float64) {
	t.Helper()
	require.Len(t, got, len(expected), what)
	wide := 0
	for i := range got {
		require.LessOrEqual(t, math.Abs(float64(got[i])-expected[i]), bound(i), "%s %d: %v, want %v", what, i, got[i], expected[i])
		if bound(i) > math.Abs(expected[i]) {
			wide++
		}
	}
	require.Less(t, wide, len(got)/2, "%s: bounds too wide", what)
}

// The dots against the float64 products of the same operands: activations as
// the exact side has rounded them, so that only the order of the float32 sums is
// left. A sum of n terms in any order is within n units of the sum of absolute
// terms; a dot has fewer float additions than elements.
func TestDotAgainstExact(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		t gguf.Type
		n int
	}{
		{gguf.F32, 1024}, {gguf.F32, 77}, {gguf.F16, 1000}, {gguf.F16, 5}, {gguf.BF16, 1024}, {gguf.BF16, 45},
		{gguf.Q4_0, 1024}, {gguf.Q5_0, 1024}, {gguf.Q8_0, 1024}, {gguf.Q4_1, 1024}, {gguf.Q5_1, 1024},
		{gguf.Q4_K, 1024}, {gguf.Q5_K, 1024}, {gguf.Q6_K, 1024},
	} {
		var w []byte
		var err error
		if c.t.BlockSize() == 1 {
			w, err = exact.Activation(c.t, normal(r, c.n))
		} else {
			w, err = os.ReadFile(filepath.Join("exact", "testdata", c.t.String()+".bin"))
		}
		require.NoError(t, err)
		actType, err := exact.ActType(c.t)
		require.NoError(t, err)
		act, err := exact.Activation(actType, normal(r, c.n))
		require.NoError(t, err)

		weights, err := refs.Dequantize(c.t, w, c.n)
		require.NoError(t, err)
		values := activationValues(t, actType, act, c.n)
		expected := 0.0
		for i := range weights {
			expected += weights[i] * values[i]
		}
		// Types with a minimum split each product into two large ones.
		terms := sumAbs(weights, values)
		if c.t == gguf.Q4_1 || c.t == gguf.Q5_1 || c.t == gguf.Q4_K || c.t == gguf.Q5_K || c.t == gguf.Q6_K {
			terms *= 4
		}
		bound := float64(c.n) * unit * terms
		if actType == gguf.Q8_1 {
			bound += sumRounding(weights, act) // the block's sum is stored as f16
		}
		for _, l := range []exact.Level{exact.H, exact.Z} {
			got, err := exact.Dot(l, c.t, c.n, w, act)
			require.NoError(t, err)
			require.InDelta(t, expected, float64(got), bound, "%v n=%d %v", c.t, c.n, l)
		}
		require.Less(t, bound, terms/20, "bound too wide for %v", c.t)
	}
}

// sumRounding bounds what rounding s = d*sum to f16 changes: half an ulp, 2^-11,
// of |s| times the minimum, of which the largest |weight| is more than the half
// for these rows.
func sumRounding(weights []float64, act []byte) float64 {
	largest := 0.0
	for _, w := range weights {
		largest = math.Max(largest, math.Abs(w))
	}
	bound := 0.0
	for b := 0; b < len(act); b += 36 {
		s := exact.F32FromF16(uint16(act[b+2]) | uint16(act[b+3])<<8)
		bound += math.Abs(float64(s)) * 0x1p-11 * 2 * largest
	}
	return bound
}

// activationValues are the numbers that a converted activation stands for.
func activationValues(t *testing.T, at gguf.Type, act []byte, n int) []float64 {
	t.Helper()
	switch at {
	case gguf.Q8_1, gguf.Q8_K:
		y := make([]float64, 0, n)
		size := at.BlockBytes()
		for b := 0; b < len(act); b += size {
			d, first := float64(exact.F32FromF16(uint16(act[b])|uint16(act[b+1])<<8)), 4
			if at == gguf.Q8_K {
				d = float64(exact.Floats(act[b : b+4])[0])
			}
			for i := range at.BlockSize() {
				y = append(y, d*float64(int8(act[b+first+i])))
			}
		}
		return y
	}
	y, err := refs.Dequantize(at, act, n)
	require.NoError(t, err)
	return y
}

// The other operators, each within its count of roundings.
func TestOpsAgainstExact(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const d = 773 // no multiple of anything
	x, z := normal(r, 2*d), normal(r, 2*d)
	x64, z64 := refs.F64(x), refs.F64(z)
	relative := func(expected []float64, units float64) func(int) float64 {
		return func(i int) float64 { return units*unit*math.Abs(expected[i]) + 0x1p-140 }
	}
	for _, l := range []exact.Level{exact.H, exact.Z} {
		// exp is good to about 1.5 units, and the sum of probabilities to as much.
		expected := refs.SoftMax(x64, d, 2, nil)
		// scale*x - max is rounded: an absolute error of the exponent, |w| < 16.
		near(t, "soft_max", exact.SoftMax(l, x, d, 2, nil), expected, relative(expected, 8+2*16))
		expected = refs.Silu(x64)
		near(t, "silu", exact.Silu(l, x, d), expected, relative(expected, 8))
		expected = refs.SwiGLU(x64, z64)
		near(t, "swiglu", exact.SwiGLU(l, x, z, d), expected, relative(expected, 10))
	}
	expected := refs.RmsNorm(x64, d, 1e-6, z64[:d])
	near(t, "rms_norm", exact.RmsNorm(x, d, 1e-6, z[:d]), expected, relative(expected, 8))
	expected = refs.Add(x64, z64)
	near(t, "add", exact.Add(x, z), expected, relative(expected, 1))
	expected = refs.Mul(x64, z64)
	near(t, "mul", exact.Mul(x, z), expected, relative(expected, 1))
}

// The iterated angle drifts by about one rounding a pair, and the ratio's own
// error multiplies up: 2k units of the angle of pair k.
func TestRoPEAgainstExact(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	factors := make([]float32, 32)
	for i := range factors {
		factors[i] = 1 + r.Float32()*7
	}
	for _, p := range []exact.Rope{
		{NDims: 64, FreqBase: 1e6, FreqScale: 1, AttnFactor: 1},
		{Neox: true, NDims: 64, FreqBase: 1e4, FreqScale: 0.25, AttnFactor: 1},
		{NDims: 64, FreqBase: 5e5, FreqScale: 1, AttnFactor: 1, Factors: factors},
		{Neox: true, NDims: 64, FreqBase: 1e6, FreqScale: 0.25, AttnFactor: 1, ExtFactor: 1, BetaFast: 32, BetaSlow: 1, NCtxOrig: 32768},
	} {
		reference := refs.Rope{Neox: p.Neox, NDims: p.NDims, FreqBase: float64(p.FreqBase), FreqScale: float64(p.FreqScale),
			ExtFactor: float64(p.ExtFactor), AttnFactor: float64(p.AttnFactor),
			BetaFast: float64(p.BetaFast), BetaSlow: float64(p.BetaSlow), NCtxOrig: p.NCtxOrig}
		if p.Factors != nil {
			reference.Factors = refs.F64(p.Factors)
		}
		const pos = 999
		x := normal(r, 80)
		got, err := exact.RoPE(x, 80, []int32{pos}, p)
		require.NoError(t, err)
		expected := refs.RoPE(refs.F64(x), 80, []int32{pos}, reference)
		near(t, "rope", got, expected, func(i int) float64 {
			k := i / 2
			if p.Neox {
				k = i % 32
			}
			if i >= 64 {
				return 0 // not rotated: a copy
			}
			angle := pos * math.Pow(float64(p.FreqBase), -float64(k)/32)
			// Both channels of the pair are below 4; the magnitude below 1.2.
			return 4 * 1.2 * math.Sqrt2 * unit * (4 + (2*float64(k)+4)*angle)
		})
	}
}

func TestAttentionAgainstExact(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	const heads, headsKV, dim, cells = 4, 2, 64, 113
	pos := []int32{0, 57, 112}
	q, k, v := normal(r, len(pos)*heads*dim), normal(r, cells*headsKV*dim), normal(r, cells*headsKV*dim)
	for _, kv := range []gguf.Type{gguf.F32, gguf.F16} {
		keys, err := exact.Activation(kv, k)
		require.NoError(t, err)
		values, err := exact.Activation(kv, v)
		require.NoError(t, err)
		k64, err := refs.Dequantize(kv, keys, len(k))
		require.NoError(t, err)
		v64, err := refs.Dequantize(kv, values, len(v))
		require.NoError(t, err)
		expected, err := refs.Attention(refs.F64(q), k64, v64, pos,
			refs.Attn{NHead: heads, NHeadKV: headsKV, HeadDim: dim, Scale: 0.125})
		require.NoError(t, err)
		// F32: rounding units through 64 products (|score| < 4 after scaling), exp
		// and 113 products. F16: the query and the probabilities are rounded to 11
		// bits, 2^-11 each, on terms that are RMS 1 and 64 or 113 deep.
		bound := 256 * unit * 4.
		if kv == gguf.F16 {
			bound = 8 * 0x1p-11
		}
		for _, l := range []exact.Level{exact.H, exact.Z} {
			got, err := exact.Attention(l, q, keys, values, pos,
				exact.Attn{NHead: heads, NHeadKV: headsKV, HeadDim: dim, Scale: exact.AttnScale(dim), KV: kv})
			require.NoError(t, err)
			near(t, "attention", got.Out, expected.Out, func(int) float64 { return bound })
			require.Len(t, got.Probs[1][3], cells)
			require.Zero(t, got.Probs[1][3][58])
		}
	}
}

// The two whole-model passes pick the same tokens wherever the float64 one leads
// by a margin that the other's roundings cannot turn: F16 weights round the
// activations to 11 bits. Measured over 48 tokens: logits differ by at most 0.017
// (RMS 0.003, of logits with RMS 6.4), the smallest lead is 0.021.
func TestForwardAgainstExact(t *testing.T) {
	tokens := make([]int32, 24)
	for i := range tokens {
		tokens[i] = int32((i*7919 + 13) % 4095)
	}
	for _, name := range models.Names() {
		f, err := models.Open(name)
		require.NoError(t, err)
		expected, err := refs.Forward(f, tokens, refs.Options{KV: gguf.F16})
		require.NoError(t, err)
		got, err := exact.Forward(f, tokens, exact.Options{KV: gguf.F16})
		require.NoError(t, err)
		require.Len(t, expected, len(tokens))
		require.Len(t, got, len(tokens))
		for i := range tokens {
			best, second := 0, -1
			for j, v := range expected[i] {
				require.InDelta(t, v, float64(got[i][j]), 0.02, "%s token %d logit %d", name, i, j)
				switch {
				case v > expected[i][best]:
					best, second = j, best
				case j != best && (second < 0 || v > expected[i][second]):
					second = j
				}
			}
			if expected[i][best]-expected[i][second] < 0.04 {
				continue // two tolerances: a tie for this comparison
			}
			for j := range got[i] {
				require.LessOrEqual(t, got[i][j], got[i][best], "%s token %d", name, i)
			}
		}
	}
}

func TestForwardErrors(t *testing.T) {
	f, err := models.Open(models.Default)
	require.NoError(t, err)
	_, err = refs.Forward(f, []int32{5000}, refs.Options{})
	require.ErrorContains(t, err, "get_rows: matrix of f16 [256, 4096]: row 5000, want one of 0..4095")
	_, err = refs.Forward(f, []int32{1}, refs.Options{KV: gguf.Q6_K})
	require.ErrorContains(t, err, "kv_store: cache type q6_K: want f32, f16 or q8_0")

	var broken gguf.File
	broken.KVs = append(broken.KVs, gguf.KV{Key: "general.architecture", Value: "gpt2"})
	_, err = refs.Forward(&broken, []int32{1}, refs.Options{})
	require.ErrorContains(t, err, `architecture "gpt2": want qwen2, qwen3 or llama`)
}

// The two K types whose float32 values ggml rounds more than once, against those
// values (whose hash refs/exact's tests pin): two products and a difference, each
// term below the block's largest value and minimum together.
func TestDequantizeAgainstExact(t *testing.T) {
	for _, kind := range []gguf.Type{gguf.Q4_K, gguf.Q5_K} {
		data, err := os.ReadFile(filepath.Join("exact", "testdata", kind.String()+".bin"))
		require.NoError(t, err)
		got, err := exact.Dequantize(kind, data, 1024)
		require.NoError(t, err)
		expected, err := refs.Dequantize(kind, data, 1024)
		require.NoError(t, err)
		// The row is within [-1, 1], so terms are below 1 + 2.
		near(t, kind.String(), got, expected, func(int) float64 { return 3 * 3 * unit })
	}
}

// A bias of the output matrix, which some qwen2 files have, moves each logit by its
// element.
func TestForwardAddsTheOutputBias(t *testing.T) {
	f, err := models.Open("tiny-qwen2-f16")
	require.NoError(t, err)
	plain, err := refs.Forward(f, []int32{7, 300}, refs.Options{})
	require.NoError(t, err)
	bias := make([]float32, 4096)
	for i := range bias {
		bias[i] = float32(i%17) / 8
	}
	biased := gguf.File{Path: f.Path, KVs: f.KVs, Tensors: append(append([]gguf.Tensor(nil), f.Tensors...),
		gguf.Tensor{Name: "output.bias", Type: gguf.F32, Dims: []int{4096}, Data: exact.Bytes(bias)})}
	got, err := refs.Forward(&biased, []int32{7, 300}, refs.Options{})
	require.NoError(t, err)
	for r := range plain {
		for i, v := range plain[r] {
			require.Equal(t, v+float64(bias[i]), got[r][i])
		}
	}
}
