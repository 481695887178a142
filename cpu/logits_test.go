package cpu_test

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cpu"
	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/model"
	"minfer/engine/session"
)

// goldenTokens are those of docs/numerics.md section 15.
func goldenTokens(n int) []int32 {
	t := make([]int32, n)
	for i := range t {
		t[i] = int32((i*7919 + 13) % 4095)
	}
	return t
}

func openModel(t testing.TB, name string) *model.Model {
	f, err := gguf.Open("../refs/models/" + name)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	m, err := model.Load(f)
	require.NoError(t, err)
	return m
}

func newBackend(t testing.TB, o cpu.Options) *cpu.Backend {
	b, err := cpu.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// logitsHash evaluates tokens, cut at each call's end, and hashes all logits.
func logitsHash(t testing.TB, m *model.Model, o cpu.Options, kv graph.DType, tokens []int32, cut int) uint64 {
	s, err := session.New(m, session.Options{Backends: []graph.Backend{newBackend(t, o)}, NCtx: 512, KVType: kv})
	require.NoError(t, err)
	defer s.Close()
	h := fnv.New64a()
	for len(tokens) > 0 {
		n := min(cut, len(tokens))
		rows, err := s.EvalAll(tokens[:n])
		require.NoError(t, err)
		require.Len(t, rows, n)
		var b [4]byte
		for _, row := range rows {
			for _, v := range row {
				binary.LittleEndian.PutUint32(b[:], math.Float32bits(v))
				h.Write(b[:])
			}
		}
		tokens = tokens[n:]
	}
	return h.Sum64()
}

// The same at the AVX-512 level.
func TestGoldenLogitsZ(t *testing.T) {
	if !slices.Contains(cpu.Levels(), cpu.AVX512) {
		t.Skip("this CPU or architecture has no AVX-512 VNNI: its level is NOT tested here")
	}
	for _, g := range []struct {
		file     string
		kv       graph.DType
		h48, all uint64
	}{
		{"tiny-qwen2-f16.gguf", gguf.F32, 0x5fcab0552d824dcb, 0xb2657f5c94242e9e},
		{"tiny-qwen2-f16.gguf", gguf.F16, 0x96b929ec5d9f7652, 0xcf8fe640975d971f},
		{"tiny-qwen3-f16.gguf", gguf.F32, 0x82ac888d77ac7041, 0xa08fa37a6bfd6677},
		{"tiny-qwen3-f16.gguf", gguf.F16, 0x54b3287cca9b0141, 0x0d0178e35fd072fb},
	} {
		m := openModel(t, g.file)
		for _, cut := range []int{1, 7, 48} {
			got := logitsHash(t, m, cpu.Options{Threads: 2, Level: cpu.AVX512}, g.kv, goldenTokens(48), cut)
			require.Equal(t, g.h48, got, "%s kv=%v cut=%d: %016x, want %016x", g.file, g.kv, cut, got, g.h48)
		}
		got := logitsHash(t, m, cpu.Options{Threads: 2, Level: cpu.AVX512}, g.kv, goldenTokens(320), 100)
		require.Equal(t, g.all, got, "%s kv=%v: %016x, want %016x", g.file, g.kv, got, g.all)
	}
}

// The hashes of section 15 come from llama.cpp v0.4.0, one token a step. Here
// the prompt is cut in several ways and goes over several threads: each must
// give the same bits.
func TestGoldenLogits(t *testing.T) {
	golden := []struct {
		file     string
		kv       graph.DType
		h48, all uint64
	}{
		{"tiny-qwen2-f16.gguf", gguf.F32, 0xa22b4f33e59ac448, 0x28160003950f936b},
		{"tiny-qwen2-f16.gguf", gguf.F16, 0x2f91554f97e8e486, 0x6f0bb684983317a7},
		{"tiny-qwen3-f16.gguf", gguf.F32, 0x6067be113d6b1b49, 0xd460c551860b9337},
		{"tiny-qwen3-f16.gguf", gguf.F16, 0xabbb1f0e3a26f97a, 0xa3af3dbc29479c41},
	}
	cuts := []struct {
		cut int
		o   cpu.Options
	}{
		{1, cpu.Options{Threads: 1, Level: cpu.Generic}},
		{7, cpu.Options{Threads: 3}},
		{32, cpu.Options{Threads: 2}},
		{48, cpu.Options{Threads: 1}},
		{2, cpu.Options{Threads: 2}},
	}
	fast := len(cpu.Levels()) > 1
	for i, g := range golden {
		m := openModel(t, g.file)
		for k, c := range cuts {
			if !fast && k != i {
				continue // the plain Go kernels take a second a run: one cut for each hash
			}
			t.Run(fmt.Sprintf("%s/kv=%v/cut=%d/threads=%d", g.file, g.kv, c.cut, c.o.Threads), func(t *testing.T) {
				got := logitsHash(t, m, c.o, g.kv, goldenTokens(48), c.cut)
				require.Equal(t, g.h48, got, "%016x, want %016x", got, g.h48)
			})
		}
		if !fast {
			t.Log("320 tokens not run: too slow without a vector level")
			continue
		}
		t.Run(fmt.Sprintf("%s/kv=%v/320", g.file, g.kv), func(t *testing.T) {
			got := logitsHash(t, m, cpu.Options{}, g.kv, goldenTokens(320), 100)
			require.Equal(t, g.all, got, "%016x, want %016x", got, g.all)
		})
	}
}
