package suites

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cpu"
	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/model"
	"minfer/engine/quant"
	"minfer/engine/session"
	"minfer/engine/synth"
)

// What a cache may hold: either neighbour of a value near a tie, and no other.
func TestRounded(t *testing.T) {
	x := make([]float64, 32)
	x[0], x[1] = 127, 10.5001 // a step of q8_0 is 1
	hold := func(kv gguf.Type, v float64) error {
		stored := append([]float64{}, x...)
		stored[1] = v
		return rounded(kv, stored, x, tokenArithmetic)
	}
	require.NoError(t, hold(gguf.Q8_0, 11))
	require.NoError(t, hold(gguf.Q8_0, 10))
	require.ErrorIs(t, hold(gguf.Q8_0, 9), ErrRounding)
	require.ErrorIs(t, hold(gguf.Q8_0, 12), ErrRounding)
	require.ErrorIs(t, hold(gguf.Q8_0, math.NaN()), ErrRounding)
	require.NoError(t, hold(gguf.F16, 10.5))
	require.NoError(t, hold(gguf.F16, 10.50390625))
	require.EqualError(t, hold(gguf.F16, 10.515625), "not the value rounded: element 1 is 10.515625, the reference's value 10.5001: want it within 0.00625")
}

// From a run's cache on, the reference goes the same way as from the start.
func TestReferenceFrom(t *testing.T) {
	paths, err := synth.Write(filepath.Join(t.TempDir(), "m.gguf"), synth.Options{Arch: "qwen3", Size: "tiny", Mix: quant.Mix{Name: "f32"}, Seed: 5, Layers: 2})
	require.NoError(t, err)
	f, err := gguf.Open(paths[0])
	require.NoError(t, err)
	defer f.Close()
	m, err := model.Load(f)
	require.NoError(t, err)
	b, err := cpu.New(cpu.Options{Threads: 1})
	require.NoError(t, err)
	defer b.Close()
	s, err := session.New(m, session.Options{Backends: []graph.Backend{b}, NCtx: 8, KVType: gguf.F32})
	require.NoError(t, err)
	defer s.Close()
	tokens := []int32{7, 3, 300, 7, 41}
	_, err = s.Eval(tokens)
	require.NoError(t, err)
	cache, err := ReadCache(s, m.NLayer)
	require.NoError(t, err)
	want, err := Reference(f, tokens, gguf.F32, cache)
	require.NoError(t, err)
	for _, first := range []int{0, 2, 4} {
		got, err := ReferenceFrom(f, first, tokens[first:], gguf.F32, cache)
		require.NoError(t, err)
		require.Equal(t, want[first:], got)
	}
	_, err = ReferenceFrom(f, 4, tokens[4:], gguf.F32, nil)
	require.ErrorContains(t, err, "do not fit")

	// The cells before are taken as they are, those of the tokens are not.
	keys := cache[1][0]
	keys[3] ^= 1 // of the exponent
	got, err := ReferenceFrom(f, 4, tokens[4:], gguf.F32, cache)
	require.NoError(t, err)
	require.NotEqual(t, want[4:], got)
	keys[len(keys)-1] ^= 1
	_, err = ReferenceFrom(f, 4, tokens[4:], gguf.F32, cache)
	require.ErrorIs(t, err, ErrRounding)
}
