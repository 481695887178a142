package llamacpp

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/refs/dump"
)

// These tests hold the library itself against docs/numerics.md section 15, and
// so this package's way of calling it. They need the library:
//
//	go test ./refs/llamacpp -llama DIR [-variant zen4]
var (
	llamaDir = flag.String("llama", "", "directory of the llama.cpp libraries")
	variant  = flag.String("variant", "haswell", "CPU variant, haswell or zen4")
)

func oracle(t *testing.T) *Lib {
	t.Helper()
	if *llamaDir == "" {
		t.Skip("LLAMA.CPP NOT GIVEN: the live oracle is not tested; run with -llama DIR")
	}
	l, err := Open(*llamaDir, *variant)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// pick chooses the golden value of the variant.
func pick[T any](h, z T) T {
	if *variant == "zen4" {
		return z
	}
	return h
}

func hashBytes(b []byte) string {
	h := fnv.New64a()
	h.Write(b)
	return fmt.Sprintf("%016x", h.Sum64())
}

func hashFloats(x []float32) string { return fmt.Sprintf("%016x", dump.Hash(x)) }

// goldenInputs are x and y of docs/numerics.md section 15.
func goldenInputs(n int) (x, y []float32) {
	for i := range n {
		x = append(x, float32((i*7919)%2001-1000)/1000)
		y = append(y, float32((i*104729)%1999-999)/500)
	}
	return x, y
}

func model(t *testing.T, name, sum string) string {
	t.Helper()
	path := filepath.Join("..", "models", name)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	got := sha256.Sum256(data)
	require.Equal(t, sum, hex.EncodeToString(got[:])[:16])
	return path
}

func qwen2(t *testing.T) string { return model(t, "tiny-qwen2-f16.gguf", "ff34ace75be3cb39") }
func qwen3(t *testing.T) string { return model(t, "tiny-qwen3-f16.gguf", "7b3cf51db48df40b") }

func goldenTokens(n int) (ids []int32) {
	for i := range n {
		ids = append(ids, int32((i*7919+13)%4095))
	}
	return ids
}

func TestOracleAbout(t *testing.T) {
	l := oracle(t)
	t.Logf("libllama %s, glibc %s, variant %s", l.Version(), l.Glibc(), l.Variant())
	require.Equal(t, "v0.4.0", l.Version())
	require.Regexp(t, `^2\.\d+$`, l.Glibc())
	require.Equal(t, pick("avx2", "avx512"), l.Level())
	_, err := Open(*llamaDir, pick("zen4", "haswell"))
	require.ErrorContains(t, err, "can't change to "+pick("zen4", "haswell"))
	again, err := Open(*llamaDir, *variant)
	require.NoError(t, err)
	require.NoError(t, again.Close())
	_, err = again.LoadModel("x.gguf", ModelOptions{})
	require.ErrorIs(t, err, errClosed)
	names, err := Variants(*llamaDir)
	require.NoError(t, err)
	require.Contains(t, names, *variant)
}

func TestOracleDots(t *testing.T) {
	l := oracle(t)
	x, y := goldenInputs(1024)
	for _, tc := range []struct {
		t    gguf.Type
		n    int
		h, z string
	}{
		{gguf.F32, 1024, "40d89cec", "40d89cee"}, {gguf.F32, 1000, "40cecb0d", "40cecb0f"}, {gguf.F32, 77, "403b7e13", "403b7e13"},
		{gguf.F32, 45, "40410930", "40410930"}, {gguf.F32, 7, "401da37f", "401da37e"},
		{gguf.F16, 1024, "40d8ad86", "40d8ad89"}, {gguf.F16, 1000, "40ced945", "40ced945"}, {gguf.F16, 77, "403b8772", "403b8772"},
		{gguf.F16, 45, "4040fc04", "4040fc04"}, {gguf.F16, 7, "401db0c1", "401db0c1"},
	} {
		w, act := floatBytes(x[:tc.n]), floatBytes(y[:tc.n])
		if tc.t == gguf.F16 {
			var err error
			w, err = l.FromFloat(tc.t, x[:tc.n])
			require.NoError(t, err)
			act, err = l.FromFloat(tc.t, y[:tc.n])
			require.NoError(t, err)
		}
		s, err := l.VecDot(tc.t, tc.n, w, act)
		require.NoError(t, err)
		require.Equal(t, pick(tc.h, tc.z), fmt.Sprintf("%08x", math.Float32bits(s)), "%v %d", tc.t, tc.n)
	}
	acts := map[gguf.Type]string{gguf.Q8_0: "5bc1c8ca648d850b", gguf.Q8_1: "88bc4f0f23e44ce2", gguf.Q8_K: "82d8b1aabe410d07"}
	for _, tc := range []struct {
		t, act                gguf.Type
		weights, floats, want string
	}{
		{gguf.Q4_0, gguf.Q8_0, "1335e536cdc2321b", "049ee3744864c4c0", "4100b638"},
		{gguf.Q4_1, gguf.Q8_1, "82e67bf549b4d746", "7a98eeb139ca00ca", "40f0e8fb"},
		{gguf.Q5_0, gguf.Q8_0, "d36109d1cf2ba687", "7b99e3038ae5f004", "40c2e67d"},
		{gguf.Q5_1, gguf.Q8_1, "8fc7b7d5c9cb853d", "0d10a83c5c765c26", "40e18db1"},
		{gguf.Q8_0, gguf.Q8_0, "fa0018271d1e37c7", "d5718ee182bcde4e", "40d97591"},
		{gguf.Q4_K, gguf.Q8_K, "61efdaba75cd2b31", "31d13a3d01f330f9", "40d46adc"},
		{gguf.Q5_K, gguf.Q8_K, "9f2f64145ddbda4c", "197225eb1515633a", "40d4a78f"},
		{gguf.Q6_K, gguf.Q8_K, "8c71fa1f16f9655c", "7500b85b5c535176", "40cff494"},
	} {
		at, err := l.VecDotType(tc.t)
		require.NoError(t, err)
		require.Equal(t, tc.act, at)
		w, err := l.QuantizeRef(tc.t, x)
		require.NoError(t, err)
		require.Equal(t, tc.weights, hashBytes(w), "%v", tc.t)
		f, err := l.Dequantize(tc.t, w, len(x))
		require.NoError(t, err)
		require.Equal(t, tc.floats, hashFloats(f), "%v", tc.t)
		act, err := l.FromFloat(at, y)
		require.NoError(t, err)
		require.Equal(t, acts[at], hashBytes(act))
		s, err := l.VecDot(tc.t, len(x), w, act)
		require.NoError(t, err)
		require.Equal(t, tc.want, fmt.Sprintf("%08x", math.Float32bits(s)), "%v", tc.t)
		// mul_mat makes the same dot, whatever the row and column.
		out, err := l.MulMat(tc.t, append(append([]byte(nil), w...), w...), len(x), 2, append(append([]float32(nil), x...), y...))
		require.NoError(t, err)
		require.Equal(t, []float32{s, s}, out[2:])
		// get_rows dequantises.
		rows, err := l.GetRows(tc.t, w, 256, 4, []int32{3, 0, 3})
		require.NoError(t, err)
		require.Equal(t, append(append(append([]float32(nil), f[768:]...), f[:256]...), f[768:]...), rows)
	}
	ref, err := l.QuantizeRef(gguf.Q8_K, y)
	require.NoError(t, err)
	require.Equal(t, acts[gguf.Q8_K], hashBytes(ref), "Q8_K has one quantiser")
}

func TestOracleOps(t *testing.T) {
	l := oracle(t)
	x, y := goldenInputs(1024)
	check := func(h, z string) func(out []float32, err error) {
		return func(out []float32, err error) {
			t.Helper()
			require.NoError(t, err)
			require.Equal(t, pick(h, z), hashFloats(out))
		}
	}
	norm, err := l.RMSNorm(x, 1024, 1e-6)
	require.NoError(t, err)
	check("802743e3245260b6", "802743e3245260b6")(l.Mul(norm, y, 1024))
	mask := make([]float32, 1024)
	for i := 701; i < 1024; i++ {
		mask[i] = negInf
	}
	check("12cf4e2ab36ae6b7", "d4896da655641d1f")(l.SoftMax(y, 1024, mask, 8))
	silu, err := l.Silu(y, 1024)
	require.NoError(t, err)
	require.Equal(t, pick("c17274a9262f5a54", "71864c90f3400808"), hashFloats(silu))
	check("a3ea40b6ed858971", "e9065a6ff07be532")(l.SwiGLU(y, x, 1024))
	check("9acb3a4b3ed76a7a", "9acb3a4b3ed76a7a")(l.Rope(x[:256], RopeArgs{Mode: RopeNeoX, HeadDim: 128, NHead: 2, NDims: 128, Pos: []int32{1234}, FreqBase: 1e6}))

	// Broadcast of one row, and rows each of their own.
	sum, err := l.Add([]float32{1, 2, 3, 4, 5, 6}, []float32{10, 20, 30}, 3)
	require.NoError(t, err)
	require.Equal(t, []float32{11, 22, 33, 14, 25, 36}, sum)
	twice, err := l.SoftMax(append(append([]float32(nil), y...), y...), 1024, append(append([]float32(nil), mask...), mask...), 8)
	require.NoError(t, err)
	one, err := l.SoftMax(append(append([]float32(nil), y...), y...), 1024, mask, 8)
	require.NoError(t, err)
	require.Equal(t, twice, one)
	require.Equal(t, twice[:1024], twice[1024:])

	// Norm mode pairs (2k, 2k+1): position 0 leaves all alone, position 1 of base
	// 1 turns every pair by one radian; frequency factor 0.5 turns it by two.
	for _, ff := range [][]float32{nil, {0.5, 0.5}} {
		r, err := l.Rope([]float32{1, 0, 0, 1, 1, 0, 0, 1}, RopeArgs{Mode: RopeNorm, HeadDim: 4, NHead: 1, NDims: 4, Pos: []int32{0, 1}, FreqBase: 1, FreqFactors: ff})
		require.NoError(t, err)
		require.Equal(t, []float32{1, 0, 0, 1}, r[:4])
		a := 1.0
		if ff != nil {
			a = 2
		}
		for i, want := range []float64{math.Cos(a), math.Sin(a), -math.Sin(a), math.Cos(a)} {
			require.InDelta(t, want, r[4+i], 1e-6)
		}
	}

	// Every scaling argument is where ggml expects it. Linear: half the angle.
	// YaRN: the first pair keeps its angle, the last has it scaled, and all grow
	// by AttnFactor * (1 + 0.1 ln(1/FreqScale)).
	ones := make([]float32, 128)
	for i := range ones {
		ones[i] = float32((i + 1) % 2)
	}
	pair := func(a RopeArgs, k int) (angle, size float64) {
		a.Mode, a.HeadDim, a.NHead, a.NDims, a.FreqBase, a.Pos = RopeNorm, 128, 1, 128, 1e4, []int32{3}
		r, err := l.Rope(ones, a)
		require.NoError(t, err)
		c, s := float64(r[2*k]), float64(r[2*k+1])
		return math.Atan2(s, c), math.Hypot(s, c)
	}
	angle, size := pair(RopeArgs{FreqScale: 0.5}, 0)
	require.InDelta(t, 1.5, angle, 1e-5)
	require.InDelta(t, 1, size, 1e-5)
	yarn := RopeArgs{FreqScale: 0.25, NCtxOrig: 4096, ExtFactor: 1, AttnFactor: 2}
	for k, scaled := range map[int]float64{0: 1, 63: 0.25} {
		angle, size = pair(yarn, k)
		want := 3 * scaled * math.Pow(1e4, -float64(k)/64)
		require.InEpsilon(t, want, angle, 1e-3, "pair %d", k)
		require.InEpsilon(t, 2*(1+0.1*math.Log(4)), size, 1e-5, "pair %d", k)
	}
	// With a tiny original context every pair is slow enough to be scaled.
	yarn.NCtxOrig = 8
	angle, _ = pair(yarn, 12)
	require.InEpsilon(t, 3*0.25*math.Pow(1e4, -12./64), angle, 1e-3)

	table, err := l.SetRows(gguf.F16, make([]byte, 3*2*2), 2, 3, []float32{1, -2, 0.5, 4}, []int64{2, 0})
	require.NoError(t, err)
	require.Equal(t, []float32{0.5, 4, 0, 0, 1, -2}, float32s(gguf.F16, table))
	same, err := l.SetRows(gguf.F16, table, 2, 3, nil, nil)
	require.NoError(t, err)
	require.Equal(t, table, same)
	q, err := l.SetRows(gguf.Q8_0, make([]byte, 2*34), 32, 2, x[:32], []int64{1})
	require.NoError(t, err)
	act, err := l.FromFloat(gguf.Q8_0, x[:32])
	require.NoError(t, err)
	require.Equal(t, act, q[34:])
}

func TestOracleOpErrors(t *testing.T) {
	l := oracle(t)
	x := make([]float32, 64)
	for _, err := range []error{
		second(l.MulMat(gguf.Q4_0, make([]byte, 18), 33, 1, x)),
		second(l.MulMat(gguf.Q4_0, make([]byte, 17), 32, 1, x)),
		second(l.MulMat(gguf.Q8_K, make([]byte, 292), 256, 1, make([]float32, 256))),
		second(l.GetRows(gguf.F32, make([]byte, 8), 1, 2, []int32{2})),
		second(l.GetRows(gguf.F32, make([]byte, 8), 1, 2, []int32{-1})),
		second(l.SetRows(gguf.F32, make([]byte, 8), 1, 2, []float32{1}, []int64{2})),
		second(l.SetRows(gguf.F32, make([]byte, 8), 1, 2, []float32{1}, nil)),
		second(l.RMSNorm(nil, 4, 1e-6)),
		second(l.RMSNorm(x, 0, 1e-6)),
		second(l.Add(x, x[:3], 4)),
		second(l.SwiGLU(x, x[:32], 32)),
		second(l.SoftMax(x, 32, x[:31], 1)),
		second(l.Rope(x, RopeArgs{Mode: RopeNeoX, HeadDim: 64, NHead: 1, NDims: 63, Pos: []int32{0}, FreqBase: 1})),
		second(l.Rope(x, RopeArgs{Mode: RopeNeoX, HeadDim: 64, NHead: 1, NDims: 64, Pos: []int32{0}})),
		second(l.VecDot(gguf.Q4_0, 32, make([]byte, 18), make([]byte, 33))),
		second(l.VecDot(gguf.Type(77), 32, nil, nil)),
		second(l.Dequantize(gguf.Q6_K, make([]byte, 209), 256)),
		second(l.QuantizeRef(gguf.Q4_K, x)),
		second(l.Attention(AttentionArgs{KVType: gguf.F32, HeadDim: 4, NHead: 3, NHeadKV: 2, NKV: 1})),
		second(l.LoadModel(filepath.Join(t.TempDir(), "absent.gguf"), ModelOptions{})),
		l.Quantize(filepath.Join(t.TempDir(), "absent.gguf"), filepath.Join(t.TempDir(), "out.gguf"), QuantizeOptions{FType: FTypeQ4_0}),
	} {
		require.Error(t, err)
		require.NotContains(t, err.Error(), "\n")
		t.Log(err)
	}
}

// sameBits compares as bits, and reports the first difference only.
func sameBits(t *testing.T, want, got []float32) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, math.Float32bits(want[i]), math.Float32bits(got[i]), "element %d: want %v, got %v", i, want[i], got[i])
	}
}

func second[T any](_ T, err error) error { return err }

// The logits of docs/numerics.md section 15, all in order.
func TestOracleLogits(t *testing.T) {
	l := oracle(t)
	for _, tc := range []struct {
		path string
		n    int
		kv   gguf.Type
		h, z string
	}{
		{qwen2(t), 48, gguf.F32, "a22b4f33e59ac448", "5fcab0552d824dcb"},
		{qwen2(t), 48, gguf.F16, "2f91554f97e8e486", "96b929ec5d9f7652"},
		{qwen2(t), 320, gguf.F32, "28160003950f936b", "b2657f5c94242e9e"},
		{qwen2(t), 320, gguf.F16, "6f0bb684983317a7", "cf8fe640975d971f"},
		{qwen3(t), 48, gguf.F32, "6067be113d6b1b49", "82ac888d77ac7041"},
		{qwen3(t), 48, gguf.F16, "abbb1f0e3a26f97a", "54b3287cca9b0141"},
		{qwen3(t), 320, gguf.F32, "d460c551860b9337", "a08fa37a6bfd6677"},
		{qwen3(t), 320, gguf.F16, "a3af3dbc29479c41", "0d0178e35fd072fb"},
	} {
		m, err := l.LoadModel(tc.path, ModelOptions{})
		require.NoError(t, err)
		c, err := m.NewContext(ContextOptions{NCtx: 320, KVType: tc.kv})
		require.NoError(t, err)
		logits, err := c.Eval(goldenTokens(tc.n))
		require.NoError(t, err)
		require.Equal(t, pick(tc.h, tc.z), hashFloats(logits), "%s %d %v", tc.path, tc.n, tc.kv)
		// Again from an empty cache, only the last row.
		c.Reset()
		require.Zero(t, c.Pos())
		last, err := c.EvalLast(goldenTokens(tc.n))
		require.NoError(t, err)
		require.Equal(t, logits[len(logits)-len(last):], last)
		// And after a step back.
		require.ErrorContains(t, c.Truncate(tc.n+1), "want 0 to")
		require.NoError(t, c.Truncate(tc.n/2))
		require.Equal(t, tc.n/2, c.Pos())
		again, err := c.EvalLast(goldenTokens(tc.n)[tc.n/2:])
		require.NoError(t, err)
		require.Equal(t, last, again)
		_, err = c.Eval(goldenTokens(321 - tc.n))
		require.ErrorContains(t, err, "the context has room for 320")
		_, err = c.EvalLast([]int32{4096})
		require.Error(t, err)
		m.Close()
	}
}

// Every node of a run, fed back through the single operators.
func TestOracleNodes(t *testing.T) {
	l := oracle(t)
	file, err := gguf.Open(qwen3(t))
	require.NoError(t, err)
	defer file.Close()
	base, ok, err := gguf.Get[float32](file, "qwen3.rope.freq_base")
	require.NoError(t, err)
	require.True(t, ok)
	for _, kv := range []gguf.Type{gguf.F32, gguf.F16} {
		m, err := l.LoadModel(qwen3(t), ModelOptions{})
		require.NoError(t, err)
		const hd, heads, headsKV, layers = 128, 4, 2, 3
		at := map[dump.Key][]float32{}
		count := 0
		prompt := goldenTokens(5)
		gen, err := m.Record(ContextOptions{KVType: kv}, prompt, 4, func(v dump.Value) error {
			at[v.Key] = v.Data
			count++
			return nil
		})
		require.NoError(t, err)
		require.Len(t, gen, 4)
		// docs/numerics.md section 12: one embedding, 26 nodes a layer, two row
		// selections in the last, three at the end.
		require.Equal(t, 8*(1+26*layers+2+3), count)

		c, err := m.NewContext(ContextOptions{NCtx: 64, KVType: kv})
		require.NoError(t, err)
		greedy, err := c.Greedy(prompt, 4)
		require.NoError(t, err)
		require.Equal(t, greedy, gen)

		var k, v []byte
		for pos := range 8 {
			get := func(name, op string) []float32 {
				x := at[dump.Key{Pos: pos, Name: name, Op: op}]
				require.NotEmpty(t, x, "%d %s %s", pos, name, op)
				return x
			}
			store := func(name string, x []float32) []byte {
				row, err := l.SetRows(kv, make([]byte, len(x)*kv.BlockBytes()), len(x), 1, x, []int64{0})
				require.NoError(t, err)
				sameBits(t, get(name, "SET_ROWS"), float32s(kv, row))
				return row
			}
			k = append(k, store("cache_k_l1", get("Kcur-1", "ROPE"))...)
			v = append(v, store("cache_v_l1", get("Vcur-1", "MUL_MAT"))...)
			a, err := l.Attention(AttentionArgs{KVType: kv, HeadDim: hd, NHead: heads, NHeadKV: headsKV, NKV: pos + 1, K: k, V: v, Q: get("Qcur-1", "ROPE"), Scale: float32(1 / math.Sqrt(hd))})
			require.NoError(t, err)
			sameBits(t, get("kq-1", "MUL_MAT"), a.KQ)
			sameBits(t, get("kq_soft_max-1", "SOFT_MAX"), a.SoftMax)
			sameBits(t, get("kqv-1", "MUL_MAT"), a.Out)
			sameBits(t, get("kqv_out-1", "CONT"), a.Out)
			ropes, err := l.Rope(get("Qcur_normed-1", "MUL"), RopeArgs{Mode: RopeNeoX, HeadDim: hd, NHead: heads, NDims: hd, Pos: []int32{int32(pos)}, FreqBase: base})
			require.NoError(t, err)
			sameBits(t, get("Qcur-1", "ROPE"), ropes)
			glu, err := l.SwiGLU(get("ffn_gate-1", "MUL_MAT"), get("ffn_up-1", "MUL_MAT"), 768)
			require.NoError(t, err)
			sameBits(t, get("ffn_swiglu-1", "SWIGLU"), glu)
			sum, err := l.Add(get("ffn_out-1", "MUL_MAT"), get("ffn_inp-1", "ADD"), 256)
			require.NoError(t, err)
			sameBits(t, get("l_out-1", "ADD"), sum)
			sameBits(t, get("l_out-1", "ADD"), get("layer_in-2", "GET_ROWS"))
			sameBits(t, get("attn_out-2", "MUL_MAT"), get("attn_out-2", "GET_ROWS"))
		}
		m.Close()
	}
}

func TestOracleTap(t *testing.T) {
	l := oracle(t)
	m, err := l.LoadModel(qwen2(t), ModelOptions{})
	require.NoError(t, err)
	names := map[string]int{}
	var base float32
	c, err := m.NewContext(ContextOptions{NCtx: 8, Tap: func(v NodeValue) error {
		names[v.Op]++
		if v.Op == "ROPE" {
			base = math.Float32frombits(uint32(v.OpParams[5]))
		}
		if v.Name == "result_output" {
			require.Equal(t, [4]int{4096, 1, 1, 1}, v.Dims)
			require.Len(t, v.Float32s(), 4096)
		}
		return nil
	}})
	require.NoError(t, err)
	_, err = c.Eval([]int32{1, 2})
	require.NoError(t, err)
	require.EqualValues(t, 10000, base)
	require.Equal(t, 2*4*2, names["ROPE"])
	require.Equal(t, 2*4, names["SWIGLU"])
	require.Zero(t, names["VIEW"])

	stop := fmt.Errorf("enough")
	c2, err := m.NewContext(ContextOptions{NCtx: 8, Tap: func(v NodeValue) error {
		if v.Op == "ROPE" {
			return stop
		}
		return nil
	}})
	require.NoError(t, err)
	_, err = c2.Eval([]int32{1})
	require.ErrorIs(t, err, stop)
	_, err = c2.Eval([]int32{1})
	require.ErrorContains(t, err, "Reset it first")
	c3, err := m.NewContext(ContextOptions{NCtx: 8, Tap: func(v NodeValue) error { panic("no") }})
	require.NoError(t, err)
	_, err = c3.Eval([]int32{1})
	require.ErrorContains(t, err, "panic: no")
	// A failed evaluation does not spoil another context.
	c.Reset()
	_, err = c.Eval([]int32{1, 2, 3})
	require.NoError(t, err)
}

func TestOracleTokenizer(t *testing.T) {
	l := oracle(t)
	m, err := l.LoadModel(qwen2(t), ModelOptions{VocabOnly: true})
	require.NoError(t, err)
	require.Equal(t, 4096, m.NVocab())
	for _, text := range []string{"", "a", "Once upon a time, there was", " 漢字 👩‍👩‍👧 é\n\n\t x = 1234;"} {
		ids, err := m.Tokenize(text, false, false)
		require.NoError(t, err)
		var back []byte
		for _, id := range ids {
			p, err := m.TokenToPiece(id, false)
			require.NoError(t, err)
			back = append(back, p...)
		}
		require.Equal(t, text, string(back))
	}
	eos, ok := m.EOS()
	require.True(t, ok)
	require.EqualValues(t, 4095, eos)
	require.True(t, m.IsEOG(eos))
	p, err := m.TokenToPiece(eos, true)
	require.NoError(t, err)
	ids, err := m.Tokenize(string(p), false, true)
	require.NoError(t, err)
	require.Equal(t, []int32{eos}, ids)
	ids, err = m.Tokenize(string(p), false, false)
	require.NoError(t, err)
	require.Greater(t, len(ids), 1)
	_, err = m.NewContext(ContextOptions{NCtx: 8})
	require.ErrorContains(t, err, "VocabOnly")
	_, err = m.TokenToPiece(4096, true)
	require.EqualError(t, err, "token 4096: want 0 to 4095")
}

// llama_model_quantize gives the reference rows, of the type itself with Pure.
func TestOracleQuantize(t *testing.T) {
	l := oracle(t)
	in, err := gguf.Open(qwen2(t))
	require.NoError(t, err)
	defer in.Close()
	out := filepath.Join(t.TempDir(), "q.gguf")
	require.NoError(t, l.Quantize(qwen2(t), out, QuantizeOptions{FType: FTypeQ4KM, Pure: true}))
	q, err := gguf.Open(out)
	require.NoError(t, err)
	defer q.Close()
	for _, x := range q.Tensors {
		src, ok := in.Tensor(x.Name)
		require.True(t, ok)
		if len(x.Dims) == 1 {
			require.Equal(t, gguf.F32, x.Type)
			require.Equal(t, src.Data, x.Data)
			continue
		}
		require.Equal(t, gguf.Q4_K, x.Type, x.Name)
		want, err := l.QuantizeRef(gguf.Q4_K, float32s(gguf.F16, src.Data))
		require.NoError(t, err)
		require.Equal(t, hashBytes(want), hashBytes(x.Data), x.Name)
	}
	// The mix: with tied embeddings token_embd becomes Q6_K.
	require.NoError(t, l.Quantize(qwen2(t), out+"2", QuantizeOptions{FType: FTypeQ4KM}))
	mix, err := gguf.Open(out + "2")
	require.NoError(t, err)
	defer mix.Close()
	embd, ok := mix.Tensor("token_embd.weight")
	require.True(t, ok)
	require.Equal(t, gguf.Q6_K, embd.Type)
	m, err := l.LoadModel(out, ModelOptions{})
	require.NoError(t, err)
	c, err := m.NewContext(ContextOptions{NCtx: 16})
	require.NoError(t, err)
	_, err = c.Greedy(goldenTokens(3), 3)
	require.NoError(t, err)
}

// The benchmark settings run: other bits, the same size.
func TestOracleFastSettings(t *testing.T) {
	l := oracle(t)
	out := filepath.Join(t.TempDir(), "q.gguf")
	require.NoError(t, l.Quantize(qwen2(t), out, QuantizeOptions{FType: FTypeQ4_0}))
	m, err := l.LoadModel(out, ModelOptions{Repack: true})
	require.NoError(t, err)
	for _, flash := range []bool{false, true} {
		c, err := m.NewContext(ContextOptions{NCtx: 512, KVType: gguf.F16, UBatch: 512, FlashAttn: flash})
		require.NoError(t, err)
		logits, err := c.EvalLast(goldenTokens(300))
		require.NoError(t, err)
		require.Len(t, logits, 4096)
		for _, x := range logits {
			require.False(t, math.IsNaN(float64(x)))
		}
	}
	_, err = m.Record(ContextOptions{}, goldenTokens(2), 1, func(dump.Value) error { return nil })
	require.ErrorContains(t, err, "repacking true")
}

// A library without a GPU is no backend for one, and layers meant for it stay on the CPU.
func TestNoGPU(t *testing.T) {
	l := oracle(t)
	gpus, err := l.LoadBackend("cpu-" + *variant)
	require.ErrorContains(t, err, "libggml-cpu-"+*variant+".so finds no GPU")
	require.Empty(t, gpus)
	m, err := l.LoadModel(qwen2(t), ModelOptions{GPULayers: 99})
	require.NoError(t, err)
	on, of := m.Offloaded()
	require.Zero(t, on)
	require.Zero(t, of)
}
