package refs

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
)

// f32Matrix makes a weight of F32 rows.
func f32Matrix(in int, values ...float32) Matrix {
	var data []byte
	for _, v := range values {
		b := math.Float32bits(v)
		data = append(data, byte(b), byte(b>>8), byte(b>>16), byte(b>>24))
	}
	return Matrix{Type: gguf.F32, In: in, Out: len(values) / in, Data: data}
}

func TestMatMul(t *testing.T) {
	w := f32Matrix(3, 1, 2, 3, -1, 0.5, 0)
	y, err := MatMul(w, []float64{1, 10, 100, 2, 0, -2})
	require.NoError(t, err)
	require.Equal(t, []float64{321, 4, -4, -2}, y)

	// The twelve products: 1, 20, 300, -1, 5, 0, 2, 0, -6, -2, 0, 0.
	terms, err := MatMulTerms(w, []float64{1, 10, 100, 2, 0, -2})
	require.NoError(t, err)
	require.InDelta(t, math.Sqrt((1+400+90000+1+25+4+36+4)/12.0), terms, 1e-12)

	_, err = MatMul(Matrix{Type: gguf.Q4_0, In: 48, Out: 1}, make([]float64, 48))
	require.EqualError(t, err, "mul_mat: matrix of q4_0: rows of 48 elements: want a multiple of 32")
	_, err = MatMul(Matrix{Type: gguf.F16, In: 2, Out: 2, Data: make([]byte, 6)}, make([]float64, 2))
	require.EqualError(t, err, "mul_mat: matrix of f16 [2, 2]: 6 bytes, want 8")
	require.PanicsWithValue(t, "refs: mul_mat: 4 values do not make rows of 3", func() { MatMul(w, make([]float64, 4)) })
}

func TestGetRows(t *testing.T) {
	table := f32Matrix(2, 1, 2, 3, 4, 5, 6)
	y, err := GetRows(table, []int32{2, 0, 2})
	require.NoError(t, err)
	require.Equal(t, []float64{5, 6, 1, 2, 5, 6}, y)
	_, err = GetRows(table, []int32{3})
	require.EqualError(t, err, "get_rows: matrix of f32 [2, 3]: row 3, want one of 0..2")
	_, err = GetRows(table, []int32{-1})
	require.Error(t, err)
}

func TestElementwise(t *testing.T) {
	require.Equal(t, []float64{11, 22, 13, 24}, Add([]float64{1, 2, 3, 4}, []float64{10, 20}))
	require.Equal(t, []float64{10, 40, 30, 80}, Mul([]float64{1, 2, 3, 4}, []float64{10, 20}))
	silu := Silu([]float64{0, math.Log(3), -math.Log(3), -1e4})
	require.InDeltaSlice(t, []float64{0, math.Log(3) * 0.75, -math.Log(3) * 0.25, 0}, silu, 1e-15)
	require.InDeltaSlice(t, []float64{-1.5 * math.Log(3)}, SwiGLU([]float64{math.Log(3)}, []float64{-2}), 1e-15)
}

func TestRmsNorm(t *testing.T) {
	// Mean square 12.5 + 3.5 = 16, and 0 + 4.
	y := RmsNorm([]float64{3, 4}, 2, 3.5, []float64{2, -1})
	require.Equal(t, []float64{1.5, -1}, y)
	require.Equal(t, []float64{0.75, 1, 0, 0}, RmsNorm([]float64{3, 4, 0, 0}, 2, 3.5, nil))
	require.Equal(t, []float64{0.75, 1}, QkNorm([]float64{3, 4}, 2, 3.5, nil))
}

func TestSoftMax(t *testing.T) {
	l2 := math.Log(2)
	inf := math.Inf(-1)
	y := SoftMax([]float64{0, 2 * l2, 4 * l2, 0, 0, 9}, 3, 0.5, []float64{0, 0, 0, 0, l2, inf})
	require.InDeltaSlice(t, []float64{1 / 7., 2 / 7., 4 / 7., 1 / 3., 2 / 3., 0}, y, 1e-15)
	// The row's largest value is taken out, so nothing overflows.
	require.InDeltaSlice(t, []float64{0.5, 0.5}, SoftMax([]float64{1e5, 1e5}, 2, 1, nil), 1e-15)
}

func TestRoPE(t *testing.T) {
	// Base 256, 4 dimensions: angles pos and pos/16.
	p := Rope{NDims: 4, FreqBase: 256, FreqScale: 1, AttnFactor: 1}
	x := []float64{1, 0, 0, 1, 7, 7}
	y := RoPE(x, 6, []int32{16}, p)
	require.InDeltaSlice(t, []float64{math.Cos(16), math.Sin(16), -math.Sin(1), math.Cos(1), 7, 7}, y, 1e-14)
	require.Equal(t, []float64{1, 0, 0, 1, 7, 7}, x, "the input changed")

	p.Neox = true // pairs (0, 2) and (1, 3)
	y = RoPE(x, 6, []int32{16}, p)
	require.InDeltaSlice(t, []float64{math.Cos(16), -math.Sin(1), math.Sin(16), math.Cos(1), 7, 7}, y, 1e-14)

	// Factors divide the angle, linear scaling multiplies it, the magnitude applies
	// to the rotated channels.
	p.Factors, p.FreqScale, p.AttnFactor = []float64{2, 4}, 0.5, 3
	y = RoPE(x, 6, []int32{16}, p)
	require.InDeltaSlice(t, []float64{3 * math.Cos(4), -3 * math.Sin(1/8.), 3 * math.Sin(4), 3 * math.Cos(1/8.), 7, 7}, y, 1e-14)
}

// YaRN at the values of Qwen2.5's documentation (128 dimensions, base 1e6, factor
// 4 over 32768 positions). Pair k makes 32768/(2 pi) * 1e6^(-k/64) rotations over
// the original context: 33.8 for k = 23 and 27.2 for k = 24, 1.06 for k = 39 and
// 0.92 for k = 40 bracket 32 and 1. So k <= 23 keeps its angle, k >= 40 takes a
// quarter of it.
func TestYaRN(t *testing.T) {
	p := Rope{Neox: true, NDims: 128, FreqBase: 1e6, FreqScale: 0.25, ExtFactor: 1, AttnFactor: 1,
		BetaFast: 32, BetaSlow: 1, NCtxOrig: 32768}
	low, high := p.Corrections()
	require.Equal(t, 23., low)
	require.Equal(t, 40., high)

	x := make([]float64, 128)
	for k := range 64 {
		x[k] = 1
	}
	magnitude := 1 + 0.1*math.Log(4)
	y := RoPE(x, 128, []int32{1000}, p)
	for k := range 64 {
		angle := 1000 * math.Pow(1e6, -float64(k)/64)
		kept := math.Min(1, math.Max(0, (40-float64(k))/17))
		angle *= kept + (1-kept)/4
		require.InDelta(t, magnitude*math.Cos(angle), y[k], 1e-11, k)
		require.InDelta(t, magnitude*math.Sin(angle), y[k+64], 1e-11, k)
	}
}

func TestAttention(t *testing.T) {
	// Two query heads share one KV head of two channels; three cells, of which the
	// first row sees one and the second two. Cell 2 must not matter.
	l3 := math.Log(3)
	q := []float64{5, 5, 1, 0 /* row 1: */, l3, 0, 0, 2 * l3}
	k := []float64{0, 0, 1, 1, math.NaN(), 9}
	v := []float64{1, 2, 3, 10, 99, 99}
	parts, err := Attention(q, k[:4], v[:4], []int32{0, 1}, Attn{NHead: 2, NHeadKV: 1, HeadDim: 2, Scale: 1})
	require.NoError(t, err)
	// Weights of row 1: head 0 (1, 3)/4, head 1 (1, 9)/10.
	require.InDeltaSlice(t, []float64{1, 2, 1, 2, 2.5, 8, 2.8, 9.2}, parts.Out, 1e-14)
	require.InDeltaSlice(t, []float64{0.25, 0.75}, parts.Probs[1][0], 1e-15)
	require.Equal(t, []float64{0, math.Inf(-1)}, parts.Scores[0][0])
	require.InDelta(t, 2*l3, parts.Scores[1][1][1], 1e-15)

	more, err := Attention(q, append(k[:4:4], 7, 9), v, []int32{0, 1}, Attn{NHead: 2, NHeadKV: 1, HeadDim: 2, Scale: 1})
	require.NoError(t, err)
	require.Equal(t, parts.Out, more.Out)

	_, err = Attention(q, k[:4], v[:4], []int32{0, 2}, Attn{NHead: 2, NHeadKV: 1, HeadDim: 2, Scale: 1})
	require.EqualError(t, err, "attention: row 1 at position 2: want one of the 2 cells")
	_, err = Attention(nil, nil, nil, nil, Attn{NHead: 3, NHeadKV: 2, HeadDim: 2})
	require.EqualError(t, err, "attention: 3 heads over 2 KV heads: want a multiple")
}

// Each query head reads the KV head of its group, not of its parity.
func TestAttentionGroups(t *testing.T) {
	parts, err := Attention(make([]float64, 4), []float64{0, 0}, []float64{1, 2}, []int32{0},
		Attn{NHead: 4, NHeadKV: 2, HeadDim: 1, Scale: 1})
	require.NoError(t, err)
	require.Equal(t, []float64{1, 1, 2, 2}, parts.Out)
}

func TestRoundKV(t *testing.T) {
	y, err := RoundKV(gguf.F32, []float64{1 + 0x1p-30, -0.1})
	require.NoError(t, err)
	require.Equal(t, []float64{1, float64(float32(-0.1))}, y)

	y, err = RoundKV(gguf.F16, []float64{
		1 + 0x1p-11, 1 + 3*0x1p-11, -0x1p-25, 3 * 0x1p-25, 65519, 65520, -1e9, 0x1.ffcp-15, math.Inf(1)})
	require.NoError(t, err)
	require.Equal(t, []float64{
		1, 1 + 0x1p-9, 0, 0x1p-23, 65504, math.Inf(1), math.Inf(-1), 0x1p-14, math.Inf(1)}, y)

	x := make([]float64, 64)
	x[0], x[1], x[2], x[3] = -127, 1.4, 2.5, 3.5 // the second block is zero
	y, err = RoundKV(gguf.Q8_0, x)
	require.NoError(t, err)
	expected := make([]float64, 64)
	expected[0], expected[1], expected[2], expected[3] = -127, 1, 2, 4
	require.Equal(t, expected, y)

	_, err = RoundKV(gguf.Q8_0, make([]float64, 33))
	require.EqualError(t, err, "kv_store q8_0: 33 values: want a multiple of 32")
	_, err = RoundKV(gguf.Q4_0, nil)
	require.EqualError(t, err, "kv_store: cache type q4_0: want f32, f16 or q8_0")
}

func TestKVStore(t *testing.T) {
	cache := []float64{1, 2, 3, 4, 5, 6}
	y, err := KVStore(gguf.F16, cache, 2, []float64{7, 1 + 0x1p-12}, []int32{1})
	require.NoError(t, err)
	require.Equal(t, []float64{1, 2, 7, 1, 5, 6}, y)
	require.Equal(t, []float64{1, 2, 3, 4, 5, 6}, cache)
	y, err = KVStore(gguf.F16, cache, 2, nil, nil)
	require.NoError(t, err)
	require.Equal(t, cache, y)
	_, err = KVStore(gguf.F16, cache, 2, []float64{7, 8}, []int32{3})
	require.EqualError(t, err, "kv_store: row 0 at position 3: want one of the 3 cells")
}

func TestRMS(t *testing.T) {
	require.Equal(t, 5/math.Sqrt2, RMS([]float64{3, -4}))
	require.Equal(t, 0., RMS(nil))
}

// Outputs and rows shared among the cores are the same sums, each in order.
func TestMatMulShared(t *testing.T) {
	const in, out, rows = 37, 501, 7
	w := Matrix{Type: gguf.F32, In: in, Out: out, Data: make([]byte, 4*in*out)}
	x := make([]float64, in*rows)
	for i := range x {
		x[i] = math.Sin(float64(i)) * 1e3
	}
	for i := range in * out {
		binary.LittleEndian.PutUint32(w.Data[4*i:], math.Float32bits(float32(math.Cos(float64(i*i)))))
	}
	got, err := MatMul(w, x)
	require.NoError(t, err)
	for r := range rows {
		for o := range out {
			sum := 0.0
			for i := range in {
				sum += float64(float64(math.Float32frombits(binary.LittleEndian.Uint32(w.Data[4*(o*in+i):]))) * x[r*in+i])
			}
			require.Equal(t, sum, got[r*out+o], "row %d, output %d", r, o)
		}
	}
}
