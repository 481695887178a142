package gguf

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The values here were read from the two model files by a separate program
// (struct.unpack over the bytes, in Python), not by this package.
func TestOpenModels(t *testing.T) {
	for _, c := range []struct {
		name, arch string
		kvs        int
		tensors    []string // name, then the sha256 of its bytes
		dims       [][]int
		types      []Type
	}{
		{
			"tiny-qwen2-f16", "qwen2", 25,
			[]string{
				"token_embd.weight", "f652ee7f783e6023622be522f70d3acccdb6a7ed433ad3ea847c258e07f8c97a",
				"blk.0.attn_k.bias", "780ee3f0e38c052398b0b6af06f76885a3cd764953ebf78fe8cea6fbd44288b9",
				"blk.1.ffn_down.weight", "b393e0d29741555e5b0a77aa255b22865b9c1e633ddf97bea2f73b1699b8f679",
			},
			[][]int{{256, 4096}, {128}, {768, 256}},
			[]Type{F16, F32, F16},
		},
		{
			"tiny-qwen3-f16", "qwen3", 25,
			[]string{
				"token_embd.weight", "f50b6f491eec39e463ef09ef1225110b81f8e8d66d45afea72fcae31660c6729",
				"blk.0.attn_q_norm.weight", "9a2eb70e855abc22eed36b94fc85f163a9c5d24b8a0b2f65f77d18a3eb2a6dbb",
				"blk.2.attn_output.weight", "a53c16fb555d97c0032cdf251fadb34382174de13ad44512260ae65baf72c7e3",
			},
			[][]int{{256, 4096}, {128}, {512, 256}},
			[]Type{F16, F32, F16},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join("..", "..", "refs", "models", c.name+".gguf")
			f, err := Open(path)
			require.NoError(t, err)
			defer func() { require.NoError(t, f.Close()) }()

			require.Equal(t, path, f.Path)
			require.EqualValues(t, 3, f.Version)
			require.Equal(t, 32, f.Alignment)
			require.Len(t, f.Parts, 1)
			require.Len(t, f.KVs, c.kvs)
			require.Len(t, f.Tensors, map[string]int{"qwen2": 50, "qwen3": 35}[c.arch])
			require.Equal(t, KV{"general.architecture", c.arch}, f.KVs[0])

			for i := range c.dims {
				name := c.tensors[2*i]
				w, ok := f.Tensor(name)
				require.True(t, ok, name)
				require.Equal(t, c.dims[i], w.Dims, name)
				require.Equal(t, c.types[i], w.Type, name)
				sum := sha256.Sum256(w.Data)
				require.Equal(t, c.tensors[2*i+1], hex.EncodeToString(sum[:]), name)
			}
			_, ok := f.Tensor("output.weight")
			require.False(t, ok, "the embedding is tied")

			n, ok, err := Get[int](f, c.arch+".embedding_length")
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, 256, n)
			eps, _, err := Get[float32](f, c.arch+".attention.layer_norm_rms_epsilon")
			require.NoError(t, err)
			require.Equal(t, float32(1e-6), eps)
			tokens, _, err := Get[[]string](f, "tokenizer.ggml.tokens")
			require.NoError(t, err)
			require.Len(t, tokens, 4096)
			require.Equal(t, []string{"!", `"`, "#"}, tokens[:3])
			require.Equal(t, "<|im_end|>", tokens[4095])
			kinds, _, err := Get[[]int32](f, "tokenizer.ggml.token_type")
			require.NoError(t, err)
			require.Equal(t, []int32{1, 1, 1}, kinds[:3])
			require.Equal(t, int32(3), kinds[4095])
			merges, _, err := Get[[]string](f, "tokenizer.ggml.merges")
			require.NoError(t, err)
			require.Len(t, merges, 3837)
			require.Equal(t, "Ġsp ring", merges[3836])
			bos, _, err := Get[bool](f, "tokenizer.ggml.add_bos_token")
			require.NoError(t, err)
			require.False(t, bos)
		})
	}
}

func TestReadInMemoryEqualsOpen(t *testing.T) {
	path := filepath.Join("..", "..", "refs", "models", "tiny-qwen2-f16.gguf")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	mem, err := Read(path, b)
	require.NoError(t, err)
	file, err := Open(path)
	require.NoError(t, err)
	require.Equal(t, file.KVs, mem.KVs)
	require.Equal(t, file.Tensors, mem.Tensors)
	require.NoError(t, mem.Close())
	require.NotEmpty(t, mem.Tensors[0].Data, "a file in memory has nothing to release")

	require.NoError(t, file.Close())
	require.NoError(t, file.Close(), "twice")
	require.Nil(t, file.Tensors[0].Data)
	require.Nil(t, file.Parts[0].Data)
	require.Equal(t, "general.architecture", file.KVs[0].Key, "metadata stays")
}

func TestReadVersion2(t *testing.T) {
	f, err := Read("m", tiny().set32("version", 2).b)
	require.NoError(t, err)
	require.EqualValues(t, 2, f.Version)
	require.Equal(t, []KV{
		f.KVs[0], {"general.architecture", "none"}, {"n", uint32(7)}, {"yes", true}, {"words", []string{"ab", "c"}},
	}, f.KVs)
	require.Equal(t, []int{32, 2}, f.Tensors[1].Dims)
	require.Equal(t, Q4_0, f.Tensors[1].Type)
	require.Len(t, f.Tensors[1].Data, 36)
	require.Equal(t, byte(32), f.Tensors[1].Data[0], "data counts up")
	require.Equal(t, 36, cap(f.Tensors[1].Data), "nothing beyond the tensor can be reached")
}

func TestGet(t *testing.T) {
	const big = uint64(1) << 63
	m := new(image).header(0, 9).
		str("u8").u32(kindUint8).raw(200).
		str("i32").u32(kindInt32).u32(0xffffffff).
		str("u64").u32(kindUint64).u64(big).
		str("f32").u32(kindFloat32).u32(0x3f000000).
		str("f64").u32(kindFloat64).u64(0x3fe0000000000000).
		str("str").u32(kindString).str("text").
		str("i16s").u32(kindArray).u32(kindInt16).u64(2).u16(5).u16(0xfffe).
		str("f32s").u32(kindArray).u32(kindFloat32).u64(1).u32(0x3f000000).
		str("none").u32(kindArray).u32(kindString).u64(0)
	f, err := Read("m", m.b)
	require.NoError(t, err)

	get(t, f, "u8", uint8(200), "")
	get(t, f, "u8", int(200), "")
	get(t, f, "u8", uint64(200), "")
	get(t, f, "u8", int8(0), `gguf: m: key "u8": found uint8 200, want a value that fits int8`)
	get(t, f, "i32", int64(-1), "")
	get(t, f, "i32", int8(-1), "")
	get(t, f, "i32", uint32(0), `gguf: m: key "i32": found int32 -1, want a value that fits uint32`)
	get(t, f, "i32", uint64(0), `gguf: m: key "i32": found int32 -1, want a value that fits uint64`)
	get(t, f, "u64", big, "")
	get(t, f, "u64", uint(big), "")
	get(t, f, "u64", int64(0), `gguf: m: key "u64": found uint64 9223372036854775808, want a value that fits int64`)
	get(t, f, "u64", uint32(0), `gguf: m: key "u64": found uint64 9223372036854775808, want a value that fits uint32`)
	get(t, f, "u64", float64(0), `gguf: m: key "u64": found uint64 9223372036854775808, want float64`)
	get(t, f, "f32", float32(0.5), "")
	get(t, f, "f32", float64(0.5), "")
	get(t, f, "f32", int(0), `gguf: m: key "f32": found float32 0.5, want int`)
	get(t, f, "f64", float64(0.5), "")
	get(t, f, "f64", float32(0), `gguf: m: key "f64": found float64 0.5, want float32`)
	get(t, f, "str", "text", "")
	get(t, f, "str", false, `gguf: m: key "str": found string "text", want bool`)
	get(t, f, "str", []string(nil), `gguf: m: key "str": found string "text", want []string`)
	get(t, f, "i16s", []int16{5, -2}, "")
	get(t, f, "i16s", []int32{5, -2}, "")
	get(t, f, "i16s", []uint32(nil), `gguf: m: key "i16s": found []int16 with element 1 = -2, want a value that fits []uint32`)
	get(t, f, "i16s", int16(0), `gguf: m: key "i16s": found []int16, want int16`)
	get(t, f, "f32s", []float32{0.5}, "")
	get(t, f, "f32s", []float64{0.5}, "")
	get(t, f, "none", []string{}, "")
	get(t, f, "none", []int32(nil), `gguf: m: key "none": found []string, want []int32`)

	_, ok, err := Get[int](f, "absent")
	require.NoError(t, err)
	require.False(t, ok)
}

func get[T any](t *testing.T, f *File, key string, want T, wantErr string) {
	t.Helper()
	v, ok, err := Get[T](f, key)
	require.Equal(t, want, v, key)
	require.Equal(t, wantErr == "", ok, key)
	if wantErr != "" {
		require.EqualError(t, err, wantErr)
		return
	}
	require.NoError(t, err)
}

func TestParseType(t *testing.T) {
	for typ, info := range types {
		got, err := ParseType(info.name)
		require.NoError(t, err)
		require.Equal(t, typ, got)
	}
	got, err := ParseType("Q4_k")
	require.NoError(t, err)
	require.Equal(t, Q4_K, got)
	_, err = ParseType("iq2_xs")
	require.ErrorContains(t, err, `unknown tensor type "iq2_xs"`)
	require.Equal(t, "type(16)", Type(16).String())
	require.Equal(t, 288, Q4_K.RowBytes(512))
	require.Panics(t, func() { Q4_K.RowBytes(255) })
}

// A list of strings takes its slice and one copy of its bytes, not an object a string:
// a vocabulary is hundreds of thousands of them, read at every start.
func TestReadAllocations(t *testing.T) {
	read := func(words int) float64 {
		m := new(image).header(0, 1).str("words").u32(kindArray).u32(kindString).u64(uint64(words))
		for i := range words {
			m.str("word"[:i%5])
		}
		return testing.AllocsPerRun(5, func() {
			f, err := Read("m", m.b)
			if err != nil || len(f.KVs[0].Value.([]string)) != words || f.KVs[0].Value.([]string)[words-1] != "word"[:(words-1)%5] {
				t.Error(err)
			}
		})
	}
	require.Equal(t, read(10), read(10_000))
}
