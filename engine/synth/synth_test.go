package synth_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/fnv"
	"io"
	"math"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/graph/graphtest"
	"minfer/engine/model"
	"minfer/engine/quant"
	"minfer/engine/sampler"
	"minfer/engine/session"
	"minfer/engine/synth"
	"minfer/engine/tokenizer"
)

func mix(t *testing.T, name string) quant.Mix {
	t.Helper()
	m, err := quant.ParseMix(name)
	require.NoError(t, err)
	return m
}

// write makes a file and opens it.
func write(t *testing.T, o synth.Options) *gguf.File {
	t.Helper()
	paths, err := synth.Write(filepath.Join(t.TempDir(), "m.gguf"), o)
	require.NoError(t, err)
	f, err := gguf.Open(paths[0])
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// hash is FNV-1a over all tensors' bytes in file order.
func hash(f *gguf.File) uint64 {
	h := fnv.New64a()
	for _, x := range f.Tensors {
		h.Write(x.Data)
	}
	return h.Sum64()
}

// Every architecture and type loads, is complete and has a usable tokenizer;
// and a seed means the same bytes in every release (recorded dumps of synthetic
// models depend on it).
func TestTiny(t *testing.T) {
	want := goldenHashes
	for _, arch := range model.Archs() {
		for _, name := range []string{"f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_K", "q5_K", "q6_K", "q4_K_M"} {
			f := write(t, synth.Options{Arch: arch, Size: "tiny", Mix: mix(t, name), Seed: 1})
			m, err := model.Load(f)
			require.NoError(t, err)
			shape, err := synth.Shape(arch, "tiny")
			require.NoError(t, err)
			require.Equal(t, shape.NVocab, m.NVocab)
			require.Equal(t, shape.NEmbd, m.NEmbd)
			require.Equal(t, mix(t, name).FileType, f.KVs[3].Value)
			tok, err := tokenizer.New(f)
			require.NoError(t, err)
			require.Equal(t, m.NVocab, tok.Size())
			text := "the Cat, 42 é\x00\n"
			require.Equal(t, text, string(tok.Decode(tok.Encode(text, tokenizer.Options{}))))
			require.Equal(t, want[arch+" "+name], hash(f), "%s %s", arch, name)
		}
	}
}

func TestDeterminism(t *testing.T) {
	o := synth.Options{Arch: "qwen2", Size: "tiny", Mix: mix(t, "q4_K_M"), Seed: 3}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	a := write(t, o)
	runtime.GOMAXPROCS(5)
	b := write(t, o)
	require.Equal(t, a.Parts[0].Data, b.Parts[0].Data, "any number of cores")
	o.Seed = 4
	require.NotEqual(t, hash(a), hash(write(t, o)))

	o.Seed, o.MaxPartBytes = 3, 200<<10
	parts := write(t, o)
	require.Greater(t, len(parts.Parts), 2)
	require.Equal(t, hash(a), hash(parts), "the same weights in parts")
	_, err := model.Load(parts)
	require.NoError(t, err)
}

// The sizes are those of the models that have these names: width, layers,
// heads, key heads, head width, feed-forward, vocabulary, from their
// config.json.
func TestShapes(t *testing.T) {
	for _, c := range []struct {
		arch, size string
		want       [7]int
		tied       bool
		total      float64 // parameters, in millions, as the model cards have it
	}{
		{"qwen2", "0.5b", [7]int{896, 24, 14, 2, 64, 4864, 151936}, true, 494},
		{"qwen2", "1.5b", [7]int{1536, 28, 12, 2, 128, 8960, 151936}, true, 1544},
		{"qwen2", "3b", [7]int{2048, 36, 16, 2, 128, 11008, 151936}, true, 3086},
		{"qwen2", "7b", [7]int{3584, 28, 28, 4, 128, 18944, 152064}, false, 7616},
		{"qwen3", "0.6b", [7]int{1024, 28, 16, 8, 128, 3072, 151936}, true, 596},
		{"qwen3", "1.7b", [7]int{2048, 28, 16, 8, 128, 6144, 151936}, true, 1721},
		{"qwen3", "4b", [7]int{2560, 36, 32, 8, 128, 9728, 151936}, true, 4022},
		{"qwen3", "8b", [7]int{4096, 36, 32, 8, 128, 12288, 151936}, false, 8191},
		{"llama", "1b", [7]int{2048, 16, 32, 8, 64, 8192, 128256}, true, 1236},
		{"llama", "3b", [7]int{3072, 28, 24, 8, 128, 8192, 128256}, true, 3213},
		{"llama", "8b", [7]int{4096, 32, 32, 8, 128, 14336, 128256}, false, 8030},
	} {
		h, err := synth.Shape(c.arch, c.size)
		require.NoError(t, err)
		require.Equal(t, c.want, [7]int{h.NEmbd, h.NLayer, h.NHead, h.NHeadKV, h.HeadDimK, h.NFF, h.NVocab}, c.size)
		require.Equal(t, c.tied, h.Tied)
		require.Contains(t, synth.Sizes(c.arch), c.size)
		g, err := synth.Model(synth.Options{Arch: c.arch, Size: c.size, Mix: mix(t, "q4_0")})
		require.NoError(t, err)
		n, names := 0, map[string]bool{}
		for _, x := range g.Tensors {
			require.False(t, names[x.Name])
			names[x.Name] = true
			k := 1
			for _, d := range x.Dims {
				k *= d
			}
			n += k
		}
		require.InDelta(t, c.total, float64(n)/1e6, 1, "%s %s", c.arch, c.size)
		require.Equal(t, c.arch == "llama", names["rope_freqs.weight"])
		tokens := map[string]bool{}
		for _, kv := range g.KVs {
			if kv.Key == "tokenizer.ggml.tokens" {
				require.Len(t, kv.Value, h.NVocab)
				for _, s := range kv.Value.([]string) {
					require.False(t, tokens[s], "token %q twice", s)
					tokens[s] = true
				}
			}
		}
		require.Len(t, tokens, h.NVocab)
	}
	require.Equal(t, []string{"tiny", "0.5b", "1.5b", "3b", "7b"}, synth.Sizes("qwen2"))
	require.Nil(t, synth.Sizes("gpt2"))
}

// Each type's values have the mean and the deviation that weights.go sets: here
// those of the embedding, 0 and 1, over 262,144 values.
func TestScale(t *testing.T) {
	for _, name := range []string{"f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_K", "q5_K", "q6_K"} {
		m := mix(t, name)
		m.Pure = true
		f := write(t, synth.Options{Arch: "qwen2", Size: "tiny", Mix: m, Seed: 2})
		x, ok := f.Tensor("token_embd.weight")
		require.True(t, ok)
		require.Equal(t, m.Type, x.Type)
		v := make([]float32, 256*1024)
		if x.Type == gguf.F32 {
			require.NoError(t, binary.Read(bytes.NewReader(x.Data), binary.LittleEndian, v))
		} else {
			require.NoError(t, quant.Dequantize(x.Type, v, x.Data))
		}
		var sum, sq float64
		for _, w := range v {
			sum += float64(w)
			sq += float64(w) * float64(w)
		}
		n := float64(len(v))
		require.InDelta(t, 0, sum/n, 0.02, name)
		require.InDelta(t, 1, math.Sqrt(sq/n), 0.06, name)
	}
}

func TestOptions(t *testing.T) {
	yes, no := true, false
	f := write(t, synth.Options{Arch: "llama", Size: "TINY", Mix: mix(t, "q4_0"), RopeFactors: &yes, Layers: 1,
		RopeScaling: "yarn", RopeFactor: 4, RopeNCtxOrig: 512})
	m, err := model.Load(f)
	require.NoError(t, err)
	require.Equal(t, 1, m.NLayer)
	require.Equal(t, float32(0.25), m.Rope.FreqScale)
	require.Equal(t, float32(1), m.Rope.ExtFactor)
	require.Equal(t, 512, m.Rope.NCtxOrig)
	x, ok := f.Tensor("rope_freqs.weight")
	require.True(t, ok)
	// Wavelengths of base 500000 over 64 channels: 2*pi*500000^(i/32). The first
	// above 2048 is i = 15 (2948), the last below 8192 is i = 17 (6695).
	v := make([]float32, 32)
	require.NoError(t, binary.Read(bytes.NewReader(x.Data), binary.LittleEndian, v))
	require.Equal(t, float32(1), v[0])
	require.Equal(t, float32(1), v[14])
	require.InDelta(t, 1.65133, v[15], 1e-5) // 1/((1-s)/32+s), s = (8192/2948.34-1)/3
	require.Greater(t, v[17], v[16])
	require.Less(t, v[17], float32(32))
	require.Equal(t, float32(32), v[18])
	require.Equal(t, float32(32), v[31])

	f = write(t, synth.Options{Arch: "llama", Size: "tiny", Mix: mix(t, "q4_0"), RopeFactors: &no})
	_, ok = f.Tensor("rope_freqs.weight")
	require.False(t, ok)

	for _, c := range []struct {
		o    synth.Options
		want string
	}{
		{synth.Options{Arch: "gpt2", Size: "tiny"}, `synth: unknown architecture "gpt2": want one of qwen2, qwen3, llama`},
		{synth.Options{Arch: "qwen3", Size: "0.5b"}, `synth: unknown size "0.5b" of qwen3: want one of tiny, 0.6b, 1.7b, 4b, 8b`},
		{synth.Options{Arch: "qwen3", Size: "tiny", Layers: -1}, "synth: -1 layers, want 1 to 1000, or 0 for the size's own number"},
		{synth.Options{Arch: "qwen3", Size: "tiny", RopeFactors: &yes}, "synth: rope factors for qwen3, want them for llama only"},
		{synth.Options{Arch: "qwen3", Size: "tiny", RopeScaling: "ntk"}, `synth: rope scaling "ntk", want none, linear or yarn`},
		{synth.Options{Arch: "qwen3", Size: "tiny", RopeFactor: -1}, "synth: rope factor -1, want a number above 0"},
		{synth.Options{Arch: "qwen3", Size: "tiny", RopeNCtxOrig: -1}, "synth: an original context of -1, want a number above 0"},
	} {
		_, err := synth.Write(filepath.Join(t.TempDir(), "m.gguf"), c.o)
		require.EqualError(t, err, c.want)
	}
}

// A failing writer ends the drawing.
func TestWriterError(t *testing.T) {
	g, err := synth.Model(synth.Options{Arch: "qwen2", Size: "tiny", Mix: mix(t, "q4_0")})
	require.NoError(t, err)
	r, w := io.Pipe()
	r.Close()
	require.ErrorIs(t, g.Tensors[0].WriteTo(w), io.ErrClosedPipe)
}

// Greedy text does not collapse: at least 8 distinct tokens of 16, from any
// start, where the output matrix is the embedding.
func TestGreedyVariety(t *testing.T) {
	for _, arch := range model.Archs() {
		f := write(t, synth.Options{Arch: arch, Size: "tiny", Mix: mix(t, "f32"), Seed: 7})
		m, err := model.Load(f)
		require.NoError(t, err)
		s, err := session.New(m, session.Options{Backends: []graph.Backend{graphtest.NewRef("ref")}, NCtx: 64})
		require.NoError(t, err)
		defer s.Close()
		sm, err := sampler.New(sampler.Options{})
		require.NoError(t, err)
		for _, prompt := range [][]int32{{5}, {300, 301}} {
			require.NoError(t, s.Reset())
			ids, err := s.Generate(context.Background(), prompt, 16, sm, nil, nil)
			require.NoError(t, err)
			distinct := map[int32]bool{}
			for _, id := range ids {
				distinct[id] = true
			}
			require.GreaterOrEqual(t, len(distinct), 8, "%s: %v", arch, ids)
		}
	}
}
