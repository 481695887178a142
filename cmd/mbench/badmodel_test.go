package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cmd/internal/cli"
	"minfer/cpu"
	"minfer/engine/gguf"
	"minfer/engine/quant"
	"minfer/engine/synth"
	"minfer/harness"
)

// mbench runs the command in the process.
func mbench(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	s := cli.Streams{Stdout: &out, Stderr: &errs}
	code = cli.Run(context.Background(), "mbench", s, args, run)
	return code, out.String(), errs.String()
}

// content is a small model as the writer takes it, with its tensors in memory.
func content(t *testing.T, arch string) gguf.Model {
	mix, err := quant.ParseMix("q8_0")
	require.NoError(t, err)
	paths, err := synth.Write(filepath.Join(t.TempDir(), "base.gguf"), synth.Options{Arch: arch, Size: "tiny", Mix: mix, Seed: 1, Layers: 2})
	require.NoError(t, err)
	f, err := gguf.Open(paths[0])
	require.NoError(t, err)
	defer f.Close()
	m := gguf.Model{KVs: f.KVs}
	for _, x := range f.Tensors {
		m.Tensors = append(m.Tensors, spec(x.Name, x.Type, x.Dims, bytes.Clone(x.Data)))
	}
	return m
}

func spec(name string, typ gguf.Type, dims []int, data []byte) gguf.TensorSpec {
	return gguf.TensorSpec{Name: name, Type: typ, Dims: dims, WriteTo: func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}}
}

func f32s(n int, x float32) []byte {
	b := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(x))
	}
	return b
}

// withKey and withTensor give the model with one key or tensor replaced or left out.
func withKey(m gguf.Model, key string, v any) gguf.Model {
	kvs := []gguf.KV{}
	for _, kv := range m.KVs {
		if kv.Key != key {
			kvs = append(kvs, kv)
		}
	}
	if v != nil {
		kvs = append(kvs, gguf.KV{Key: key, Value: v})
	}
	m.KVs = kvs
	return m
}

func withTensor(m gguf.Model, name string, replace func(gguf.TensorSpec) []gguf.TensorSpec) gguf.Model {
	list := []gguf.TensorSpec{}
	for _, x := range m.Tensors {
		if x.Name == name {
			list = append(list, replace(x)...)
		} else {
			list = append(list, x)
		}
	}
	m.Tensors = list
	return m
}

func elements(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// try runs a file of the model; every outcome but a run that ends well must be
// one line and exit 2 with nothing on stdout.
func try(t *testing.T, dir string, m gguf.Model) (stdout, line string) {
	path := filepath.Join(dir, "m.gguf")
	_, err := gguf.Write(path, m, gguf.WriteOptions{})
	require.NoError(t, err)
	code, out, errs := mbench(t, "run", "--device", "cpu", "--model", path, "--prompt", "Ab", "-n", "3", "--threads", "1", "--ignore-eos")
	if code == harness.ExitHeld {
		return out, ""
	}
	require.Equal(t, harness.ExitBadInput, code, errs)
	require.Equal(t, 1, strings.Count(errs, "\n"), errs)
	require.Empty(t, out, errs)
	return out, strings.ReplaceAll(strings.TrimSuffix(errs, "\n"), dir, "DIR")
}

// Each bad model is one line that says what is wrong.
func TestBadModels(t *testing.T) {
	m := content(t, "qwen2")
	dir := t.TempDir()
	nan := float32(math.NaN())
	key := func(k string, v any) gguf.Model { return withKey(m, k, v) }
	tensor := func(name string, typ gguf.Type, dims []int, data []byte) gguf.Model {
		return withTensor(m, name, func(gguf.TensorSpec) []gguf.TensorSpec { return []gguf.TensorSpec{spec(name, typ, dims, data)} })
	}
	without := func(name string) gguf.Model {
		return withTensor(m, name, func(gguf.TensorSpec) []gguf.TensorSpec { return nil })
	}
	oneNaN := f32s(256*128, 0.01)
	copy(oneNaN[4*777:], f32s(1, nan))
	nanScale := make([]byte, 34*8*128)
	copy(nanScale[34*9:], []byte{0x00, 0x7e})
	for _, c := range []struct {
		m    gguf.Model
		want string
	}{
		{key("general.architecture", "gpt9"), `DIR/m.gguf: general.architecture is "gpt9", want one of qwen2, qwen3, llama`},
		{key("general.architecture", nil), "DIR/m.gguf: key general.architecture is missing"},
		{key("qwen2.block_count", uint32(3)), "DIR/m.gguf: tensor blk.2.attn_norm.weight is missing"},
		{key("qwen2.block_count", uint32(1)), "DIR/m.gguf: tensor blk.1.attn_norm.weight [256] f32 is not implemented for qwen2"},
		{key("qwen2.attention.head_count", uint32(0)), "DIR/m.gguf: qwen2.attention.head_count is 0, want a whole number from 1 to 1048576"},
		{key("qwen2.attention.head_count_kv", int32(-1)), "DIR/m.gguf: qwen2.attention.head_count_kv is -1, want a whole number from 1 to 1048576"},
		{key("qwen2.attention.head_count_kv", uint32(3)), "DIR/m.gguf: qwen2.attention.head_count_kv is 3, want a divisor of qwen2.attention.head_count = 4"},
		{key("qwen2.context_length", uint64(math.MaxUint64)), "DIR/m.gguf: qwen2.context_length is 18446744073709551615, want a whole number from 1 to 1073741824"},
		{key("qwen2.rope.freq_base", float32(0)), "DIR/m.gguf: qwen2.rope.freq_base is 0, want a finite number above 0"},
		{key("qwen2.rope.freq_base", nan), "DIR/m.gguf: qwen2.rope.freq_base is NaN, want a finite number above 0"},
		{key("qwen2.attention.layer_norm_rms_epsilon", "x"), "DIR/m.gguf: qwen2.attention.layer_norm_rms_epsilon is a string, want a number"},
		{key("qwen2.attention.sliding_window", uint32(4096)), "DIR/m.gguf: key qwen2.attention.sliding_window is 4096: not implemented, want 0"},
		{key("qwen2.new_thing", uint32(1)), "DIR/m.gguf: key qwen2.new_thing is not implemented"},
		{key("tokenizer.ggml.pre", "other"), `tokenizer: DIR/m.gguf: tokenizer.ggml.pre: pre-tokenizer "other" is not supported: want one of qwen2, llama-bpe, smollm, gpt-2`},
		{key("tokenizer.ggml.model", "llama"), `tokenizer: DIR/m.gguf: tokenizer.ggml.model "llama" is not supported: want "gpt2"`},
		{without("blk.1.ffn_up.weight"), "DIR/m.gguf: tensor blk.1.ffn_up.weight is missing"},
		{tensor("blk.0.attn_v.weight", gguf.F32, []int{128, 256}, f32s(128*256, 0)), "DIR/m.gguf: tensor blk.0.attn_v.weight: shape [128 256], want [256 128]"},
		{tensor("blk.0.attn_v.weight", gguf.I32, []int{256, 128}, f32s(256*128, 0)),
			"DIR/m.gguf: tensor blk.0.attn_v.weight: type i32, want one of [f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 q4_K q5_K q6_K]"},
		{tensor("blk.0.attn_v.weight", gguf.F32, []int{256, 128}, oneNaN), "DIR/m.gguf: tensor blk.0.attn_v.weight: value 777 is NaN, want a finite number"},
		{tensor("blk.0.attn_v.weight", gguf.Q8_0, []int{256, 128}, nanScale), "DIR/m.gguf: tensor blk.0.attn_v.weight: block 9 has the scale NaN, want a finite number"},
		// Finite weights whose arithmetic is not.
		{tensor("output_norm.weight", gguf.F32, []int{256}, f32s(256, 1e38)),
			"session: position 0: the logit of token 0 after position 1 is NaN, want a finite number: the weights or the arithmetic are broken"},
	} {
		_, line := try(t, dir, c.m)
		require.Equal(t, "mbench: "+c.want, line)
	}
}

// Whatever value a key has and whatever is wrong with a tensor: it runs, or it
// is one line and exit 2. A tensor that is missing never runs, but a bias may be.
func TestHostileModels(t *testing.T) {
	m := content(t, "qwen2")
	dir := t.TempDir()
	base, line := try(t, dir, m)
	require.Empty(t, line)
	for _, kv := range m.KVs {
		for _, v := range []any{nil, uint32(0), uint32(math.MaxUint32), int32(-1), uint64(math.MaxUint64), float32(math.NaN()), "x", []uint32{1, 2}} {
			out, line := try(t, dir, withKey(m, kv.Key, v))
			if line == "" && strings.HasPrefix(kv.Key, "general.") {
				require.Equal(t, base, out, "%s = %v", kv.Key, v)
			}
		}
	}
	for _, x := range m.Tensors {
		n := elements(x.Dims)
		_, line := try(t, dir, withTensor(m, x.Name, func(gguf.TensorSpec) []gguf.TensorSpec { return nil }))
		if !strings.HasSuffix(x.Name, ".bias") {
			require.Equal(t, "mbench: DIR/m.gguf: tensor "+x.Name+" is missing", line)
		}
		if strings.HasPrefix(x.Name, "blk.1.") {
			continue
		}
		for _, v := range []float32{float32(math.NaN()), float32(math.Inf(-1))} {
			data := f32s(n, 0.01)
			copy(data[4*(n-1):], f32s(1, v))
			_, line := try(t, dir, withTensor(m, x.Name, func(gguf.TensorSpec) []gguf.TensorSpec {
				return []gguf.TensorSpec{spec(x.Name, gguf.F32, x.Dims, data)}
			}))
			require.Equal(t, fmt.Sprintf("mbench: DIR/m.gguf: tensor %s: value %d is %v, want a finite number", x.Name, n-1, v), line)
		}
	}
}

// The corpus of broken files ends in the reader's own line, at the command.
func TestBrokenFiles(t *testing.T) {
	const corpus = "../../engine/gguf/testdata/broken"
	paths, err := filepath.Glob(filepath.Join(corpus, "*.gguf"))
	require.NoError(t, err)
	require.Greater(t, len(paths), 80)
	for _, path := range paths {
		_, want := gguf.Open(path)
		if strings.Contains(path, "part-second-00001") { // sound, but for what it is the first part of
			continue
		}
		require.Error(t, want, path)
		code, out, errs := mbench(t, "run", "--device", "cpu", "--model", path, "--prompt", "Ab")
		require.Equal(t, harness.ExitBadInput, code, path)
		require.Empty(t, out, path)
		require.Equal(t, "mbench: "+want.Error()+"\n", errs)
		require.Less(t, len(errs), 400, errs)
	}
}

// The parts of a file are needed whole, each once and in its place.
func TestParts(t *testing.T) {
	m := content(t, "qwen2")
	write := func() []string {
		paths, err := gguf.Write(filepath.Join(t.TempDir(), "p.gguf"), m, gguf.WriteOptions{MaxPartBytes: 300 << 10})
		require.NoError(t, err)
		require.Greater(t, len(paths), 3)
		return paths
	}
	run := func(path string) string {
		code, _, errs := mbench(t, "run", "--device", "cpu", "--model", path, "--prompt", "Ab", "-n", "2")
		if code == harness.ExitHeld {
			return ""
		}
		require.Equal(t, harness.ExitBadInput, code)
		require.Equal(t, 1, strings.Count(errs, "\n"), errs)
		return strings.ReplaceAll(errs, filepath.Dir(path), "DIR")
	}
	paths := write()
	require.Empty(t, run(paths[0]))
	require.NoError(t, os.Remove(paths[2]))
	require.Equal(t, "mbench: gguf: DIR/p-00001-of-00006.gguf: part 3 of 6 is missing: want DIR/p-00003-of-00006.gguf\n", run(paths[0]))

	paths = write()
	require.NoError(t, os.Rename(paths[1], paths[1]+".x"))
	require.NoError(t, os.Rename(paths[2], paths[1]))
	require.NoError(t, os.Rename(paths[1]+".x", paths[2]))
	require.Contains(t, run(paths[0]), `key "split.no"`)

	paths = write()
	data, err := os.ReadFile(paths[1])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(paths[2], data, 0o644))
	require.Contains(t, run(paths[0]), `key "split.no"`)
}

// A value that is not finite is found in any matrix of any type at every level, with
// the same line whether the first pass shows it (a short prompt), the weights are read
// first (a long one), or no token is asked for.
func TestNotFiniteIsFound(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.gguf")
	run := func(environ []string, args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		s := cli.Streams{Stdout: &out, Stderr: &errs, Environ: environ}
		code := cli.Run(context.Background(), "mbench", s, append([]string{"run", "--device", "cpu", "--model", path, "--ignore-eos"}, args...), run)
		return code, out.String(), errs.String()
	}
	for _, c := range []struct {
		arch, tensor string
		typ          gguf.Type
		at           int
		bits         []byte
		want         string
	}{
		{"qwen2", "token_embd.weight", gguf.Q8_0, 34 * 8 * 100, []byte{0, 0x7c}, "block 800 has the scale +Inf"},
		{"llama", "output.weight", gguf.Q8_0, 34 * 8 * 77, []byte{0, 0xfc}, "block 616 has the scale -Inf"},
		{"llama", "token_embd.weight", gguf.F16, 2 * 256 * 200, []byte{1, 0x7e}, "value 51200 is NaN"}, // of a token that does not occur
		{"qwen3", "blk.1.attn_output.weight", gguf.Q4_K, 144 * 5, []byte{0, 0, 0, 0x7c}, "block 5 has the scale +Inf"},
		{"qwen2", "blk.1.ffn_down.weight", gguf.Q6_K, 210*3 + 208, []byte{0, 0x7e}, "block 3 has the scale NaN"},
		{"qwen2", "blk.0.attn_k.weight", gguf.BF16, 2 * 1000, []byte{0x80, 0x7f}, "value 1000 is +Inf"},
	} {
		m := content(t, c.arch)
		if c.arch == "llama" { // with an output matrix of its own
			embd := m.Tensors[slices.IndexFunc(m.Tensors, func(x gguf.TensorSpec) bool { return x.Name == "token_embd.weight" })]
			m.Tensors = append(m.Tensors, spec("output.weight", gguf.F32, embd.Dims, f32s(elements(embd.Dims), 0.01)))
		}
		name := ""
		m = withTensor(m, c.tensor, func(x gguf.TensorSpec) []gguf.TensorSpec {
			data := make([]byte, c.typ.RowBytes(x.Dims[0])*x.Dims[1])
			copy(data[c.at:], c.bits)
			name = x.Name
			return []gguf.TensorSpec{spec(x.Name, c.typ, x.Dims, data)}
		})
		require.Equal(t, c.tensor, name, c.arch)
		_, err := gguf.Write(path, m, gguf.WriteOptions{})
		require.NoError(t, err)
		want := fmt.Sprintf("mbench: %s: tensor %s: %s, want a finite number\n", path, c.tensor, c.want)
		for _, args := range [][]string{
			{"--prompt", "A", "-n", "1"}, {"--prompt", "Abc abc abc abc abc", "-n", "3"}, {"--prompt", "Abc abc", "--batch", "2"}, {"--prompt", "A", "-n", "0"},
			{"--prompt", strings.Repeat("abc ", shortPrompt/4+1), "-n", "1"}, {"--prompt", "A", "--temp", "1"},
		} {
			for _, level := range cpu.Levels() {
				code, out, errs := run([]string{"MINFER_CPU_LEVEL=" + level.String()}, args...)
				require.Equal(t, want, errs, "%v %v", args, level)
				require.Equal(t, harness.ExitBadInput, code)
				require.Empty(t, out)
			}
			code, out, errs := run(nil, args...)
			require.Equal(t, want, errs, args)
			require.Equal(t, harness.ExitBadInput, code)
			require.Empty(t, out)
		}
		for _, environ := range [][]string{nil, {"MINFER_DISABLE_MPS=1"}} { // what a start says comes after
			code, out, errs := run(environ, "--device=", "--prompt", "A", "-n", "1")
			require.Equal(t, want, errs, environ)
			require.Equal(t, harness.ExitBadInput, code)
			require.Empty(t, out)
		}
		code, out, errs := run([]string{"MINFER_TRACE=" + filepath.Join(dir, "trace")}, "--prompt", "A")
		require.Equal(t, want, errs)
		require.Equal(t, harness.ExitBadInput, code)
		require.Empty(t, out)
	}
	left, err := filepath.Glob(filepath.Join(dir, "trace", "*"))
	require.NoError(t, err)
	require.Empty(t, left, "no trace of weights that are not sound")
}
