package quant_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/quant"
)

// recorded holds the SHA-256 over the data of all tensors, in file order
// without padding, of the two models of refs/models quantised by
// llama_model_quantize of llama.cpp v0.4.0 (libllama.v0.4.0.so of npm
// @node-llama-cpp/linux-x64 3.21.1, no importance matrix; ",pure" and the bare
// q4_K and q5_K with params.pure). The whole files were equal too.
var recorded = []struct{ model, mix, sum string }{
	{"qwen2", "f32", "e9ec16ed03740525cd810ea5d0bc788ccdb070ffa4cc725da51f6a58a209b0a8"},
	{"qwen2", "f16", "7a596eb3c3c9a81f6de03dbd691c4d132b782accdfce8877a3199e34e1102867"},
	{"qwen2", "bf16", "4304b45a710971d90f18f938478e4f6df2e906af7cee63549487c636914fdebf"},
	{"qwen2", "q4_0", "e03fc50b023a5480ba0c1671c74651dfe027867ad794d7b77d72c50c99a9083c"},
	{"qwen2", "q4_1", "dd7e5854f682af5a9d4ff700b46d50d4fc84590562a81c2807ec1e1e42001ede"},
	{"qwen2", "q5_0", "a092ee6fed740e5637a5bae45af2e7aaf78fcb5f7e670b111433d09ea0d0aecf"},
	{"qwen2", "q5_1", "dfc7b7bb1dc184515f1651b78e11dca2f1222c911920eedcc4c28a4c84c74b9e"},
	{"qwen2", "q8_0", "f8bb2059aeb5dde14ee3a3a60ca6c33ff74992fa1f2ef0d185516792200a4dfe"},
	{"qwen2", "q4_K_S", "4f41767c36c7b687c5f677c5fe1274153753f6febce595232e217efac6383ac2"},
	{"qwen2", "q4_K_M", "4c8b5cd71d8fdfe6eee4cb7a7d615e2c33ad0a0a1b6c8b4c17913ff5af27228c"},
	{"qwen2", "q5_K_S", "ddec7c0aa98eedcc092ca7c02855a3c8417eab35fa042f9e57fd5bf6b2fd8bce"},
	{"qwen2", "q5_K_M", "8f7d3dfd8d0cc1dfc3e9750212a0b6b3c7553f9d7611d7355b3727c33a1d7ea0"},
	{"qwen2", "q6_K", "3adc97e1a35065f750397c1edfc288cc53b1a9f7ca76aa119daf9d019660ed07"},
	{"qwen2", "q4_K", "0aff3fd5d8f8c188bf077cc90e13fd95eb25b0892d3a96ba3101e66c35a6b0c2"},
	{"qwen2", "q5_K", "4681bf661a7b0f235cfee0de200bb3587b3670b430dfeaa656e93899a8eef23b"},
	{"qwen2", "q4_0,pure", "b37eb24e21ad390ca72b08e541825ad0ca19eb45ea4e82ba30a04bf7202dc86c"},
	{"qwen3", "f16", "99540a66e6d27a7d1361e6b94cec6ad33b1935be8d00feb12c89f28f0a19cf17"},
	{"qwen3", "q4_0", "53e010c0153d41432feeb4d12632c5cec0376fdfe88fb98402f45fec5413bc04"},
	{"qwen3", "q5_1", "c0108711a6f36645c3223730867c0ce9ced2dfc410c2e492e4116f998ed3cf9c"},
	{"qwen3", "q8_0", "574c2323934b69e470186cad88a8d4b7ef62d9b75cd2d5b53501f1681214a821"},
	{"qwen3", "q4_K_S", "72b3ee35f663b804a7663a99e24c519aea6671a3dec560c4697f7b557f12c289"},
	{"qwen3", "q4_K_M", "b641be07d8dfe6e8d870aa8bcbf40aa301fa942116259860d7621d9f5ed984bd"},
	{"qwen3", "q5_K_M", "20a6d9bc02798bb7d57d6aa9b2cb2a40f51d490a263c34700aabb7132987e82a"},
}

func open(t *testing.T, model string) *gguf.File {
	f, err := gguf.Open("../../refs/models/tiny-" + model + "-f16.gguf")
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func TestFileRecorded(t *testing.T) {
	dir := t.TempDir()
	for _, c := range recorded {
		src := open(t, c.model)
		name, pure := strings.CutSuffix(c.mix, ",pure")
		m, err := quant.ParseMix(name)
		require.NoError(t, err)
		m.Pure = m.Pure || pure
		path := filepath.Join(dir, "out.gguf")
		require.NoError(t, quant.File(path, src, m, quant.Options{}))
		out, err := gguf.Open(path)
		require.NoError(t, err)
		h := sha256.New()
		for _, x := range out.Tensors {
			h.Write(x.Data)
		}
		require.Equal(t, c.sum, hex.EncodeToString(h.Sum(nil)), "%s %s", c.model, c.mix)

		// The metadata: those of the source in order, two set anew at the end.
		var kept []gguf.KV
		for _, kv := range src.KVs {
			if kv.Key != "general.file_type" && kv.Key != "general.quantization_version" {
				kept = append(kept, kv)
			}
		}
		kept = append(kept, gguf.KV{Key: "general.quantization_version", Value: uint32(2)}, gguf.KV{Key: "general.file_type", Value: m.FileType})
		require.Equal(t, kept, out.KVs)
		require.NoError(t, out.Close())
	}
}

// data plans a conversion and returns the bytes of each tensor.
func data(t *testing.T, src *gguf.File, mix string, o quant.Options) [][]byte {
	m, err := quant.ParseMix(mix)
	require.NoError(t, err)
	model, err := quant.Plan(src, m, o)
	require.NoError(t, err)
	var all [][]byte
	for _, x := range model.Tensors {
		var b bytes.Buffer
		require.NoError(t, x.WriteTo(&b))
		n, err := x.Bytes()
		require.NoError(t, err)
		require.Equal(t, n, b.Len(), x.Name)
		all = append(all, b.Bytes())
	}
	return all
}

func TestWorkersDoNotMatter(t *testing.T) {
	src := open(t, "qwen3")
	one := data(t, src, "q4_0", quant.Options{Workers: 1})
	for _, workers := range []int{2, 3, 17} {
		require.Equal(t, one, data(t, src, "q4_0", quant.Options{Workers: workers}), "%d workers", workers)
	}
}

func TestProgress(t *testing.T) {
	src := open(t, "qwen2")
	var steps []quant.Step
	data(t, src, "q8_0", quant.Options{Progress: func(s quant.Step) error {
		steps = append(steps, s)
		return nil
	}})
	require.Len(t, steps, len(src.Tensors))
	for i, s := range steps {
		require.Equal(t, i, s.Index)
		require.Equal(t, len(src.Tensors), s.Count)
		x, ok := src.Tensor(s.Name)
		require.True(t, ok)
		require.Equal(t, x.Type, s.From)
	}
	require.Equal(t, quant.Step{Index: 1, Count: len(steps), Name: "token_embd.weight", From: gguf.F16, To: gguf.Q8_0}, steps[1])

	stop := errors.New("stop")
	m, err := quant.ParseMix("q8_0")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "out.gguf")
	err = quant.File(path, src, m, quant.Options{Progress: func(s quant.Step) error {
		if s.Index == 3 {
			return stop
		}
		return nil
	}})
	require.ErrorIs(t, err, stop)
	_, err = os.Stat(path)
	require.ErrorIs(t, err, os.ErrNotExist, "no half-made file stays")
}

// small writes and opens a model of one layer whose matrix holds x as type typ.
func small(t *testing.T, typ gguf.Type, rows int, x []float32, extra ...gguf.KV) *gguf.File {
	b := make([]byte, typ.RowBytes(len(x)))
	require.NoError(t, quant.Quantize(typ, b, x))
	path := filepath.Join(t.TempDir(), "small.gguf")
	_, err := gguf.Write(path, gguf.Model{
		KVs: append([]gguf.KV{
			{Key: "general.architecture", Value: "qwen2"},
			{Key: "qwen2.block_count", Value: uint32(1)},
		}, extra...),
		Tensors: []gguf.TensorSpec{gguf.BytesSpec("blk.0.attn_q.weight", typ, []int{len(x) / rows, rows}, b)},
	}, gguf.WriteOptions{})
	require.NoError(t, err)
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func TestFileErrors(t *testing.T) {
	dst := filepath.Join(t.TempDir(), "out.gguf")
	file := func(src *gguf.File, mix string) error {
		m, err := quant.ParseMix(mix)
		require.NoError(t, err)
		return quant.File(dst, src, m, quant.Options{Workers: 2})
	}
	x := make([]float32, 4*64)
	x[3*64+5] = float32(math.NaN())
	require.EqualError(t, file(small(t, gguf.F32, 4, x), "q4_0"),
		"gguf: "+dst+`: tensor "blk.0.attn_q.weight": value NaN at row 3, column 5: want a finite number`)
	require.EqualError(t, file(small(t, gguf.F32, 4, x), "f32"),
		"gguf: "+dst+`: tensor "blk.0.attn_q.weight": a value that is not finite in block 197 of f32: want finite numbers`)
	x[3*64+5] = 70000
	require.EqualError(t, file(small(t, gguf.F32, 4, x), "f16"),
		"gguf: "+dst+`: tensor "blk.0.attn_q.weight": magnitude 70000 at row 3, from column 5: too large for f16`)
	require.NoError(t, file(small(t, gguf.F32, 4, x), "bf16"))
	require.NoError(t, file(small(t, gguf.F32, 4, x), "q8_0"))
	x[3*64+5] = -0x1p30
	require.EqualError(t, file(small(t, gguf.BF16, 4, x), "q8_0"),
		"gguf: "+dst+`: tensor "blk.0.attn_q.weight": magnitude 1.0737418e+09 at row 3, from column 0: too large for q8_0`)

	q := small(t, gguf.Q8_0, 4, make([]float32, 4*64))
	require.EqualError(t, file(q, "q4_0"), q.Path+": tensor blk.0.attn_q.weight is q8_0 already: want a source of f32, f16 or bf16 weights")
	require.NoError(t, file(q, "q8_0"), "nothing to requantise")

	src := small(t, gguf.F32, 4, make([]float32, 4*64))
	m, err := quant.ParseMix("q8_0")
	require.NoError(t, err)
	require.EqualError(t, quant.File(src.Path, src, m, quant.Options{}), src.Path+": the output is the input file: want another path")
	require.ErrorIs(t, quant.File(filepath.Join(t.TempDir(), "none", "out.gguf"), src, m, quant.Options{}), os.ErrNotExist)
}

func TestShapeOf(t *testing.T) {
	x := make([]float32, 64)
	s, err := quant.ShapeOf(small(t, gguf.F32, 2, x,
		gguf.KV{Key: "qwen2.attention.head_count", Value: []int32{8, 4}},
		gguf.KV{Key: "qwen2.attention.head_count_kv", Value: uint32(2)},
		gguf.KV{Key: "qwen2.expert_count", Value: uint32(4)}))
	require.NoError(t, err)
	require.Equal(t, quant.Shape{Arch: "qwen2", Layers: 1, Heads: 8, HeadsKV: 2, Experts: 4}, s)

	s, err = quant.ShapeOf(small(t, gguf.F32, 2, x, gguf.KV{Key: "qwen2.attention.head_count", Value: uint32(8)}))
	require.NoError(t, err)
	require.Equal(t, 8, s.HeadsKV, "as many as query heads when absent")

	for _, c := range []struct{ kv, want string }{
		{"", ": no key general.architecture: want the model's architecture"},
		{"llama", ": key llama.block_count is 0: want the number of layers"},
	} {
		path := filepath.Join(t.TempDir(), "x.gguf")
		model := gguf.Model{Tensors: []gguf.TensorSpec{gguf.BytesSpec("a", gguf.F32, []int{1}, make([]byte, 4))}}
		if c.kv != "" {
			model.KVs = []gguf.KV{{Key: "general.architecture", Value: c.kv}}
		}
		_, err := gguf.Write(path, model, gguf.WriteOptions{})
		require.NoError(t, err)
		g, err := gguf.Open(path)
		require.NoError(t, err)
		_, err = quant.ShapeOf(g)
		require.EqualError(t, err, path+c.want)
		require.NoError(t, g.Close())
	}
}

// TestParts: a source in several parts gives the same single file, without the
// keys of the split.
func TestParts(t *testing.T) {
	dir := t.TempDir()
	src := open(t, "qwen3")
	parts, err := gguf.Write(filepath.Join(dir, "split.gguf"), src.Model(), gguf.WriteOptions{MaxPartBytes: 2 << 20})
	require.NoError(t, err)
	require.Greater(t, len(parts), 2)
	split, err := gguf.Open(parts[0])
	require.NoError(t, err)
	defer split.Close()
	m, err := quant.ParseMix("q4_0")
	require.NoError(t, err)
	one, many := filepath.Join(dir, "one"), filepath.Join(dir, "many")
	require.NoError(t, quant.File(one, src, m, quant.Options{}))
	require.NoError(t, quant.File(many, split, m, quant.Options{}))
	a, err := os.ReadFile(one)
	require.NoError(t, err)
	b, err := os.ReadFile(many)
	require.NoError(t, err)
	require.True(t, bytes.Equal(a, b))
	require.EqualError(t, quant.File(parts[1], split, m, quant.Options{}), parts[1]+": the output is the input file: want another path")
}

// TestRequantize: a source of blocks is read by way of its values.
func TestRequantize(t *testing.T) {
	x := make([]float32, 256*3)
	for i := range x {
		x[i] = noise(i)
	}
	src := small(t, gguf.Q8_0, 3, x)
	got := data(t, src, "q4_1", quant.Options{Requantize: true})[0]
	require.NoError(t, quant.Dequantize(gguf.Q8_0, x, src.Tensors[0].Data))
	want := make([]byte, gguf.Q4_1.RowBytes(len(x)))
	require.NoError(t, quant.Quantize(gguf.Q4_1, want, x))
	require.Equal(t, want, got)
}

// TestWriteFails: an error of the writer comes back from a conversion.
func TestWriteFails(t *testing.T) {
	m, err := quant.ParseMix("q8_0")
	require.NoError(t, err)
	model, err := quant.Plan(open(t, "qwen2"), m, quant.Options{})
	require.NoError(t, err)
	r, w := io.Pipe()
	require.NoError(t, r.Close())
	require.ErrorIs(t, model.Tensors[1].WriteTo(w), io.ErrClosedPipe)
}
