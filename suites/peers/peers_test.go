package peers

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/model"
	"minfer/suites/limits"
)

// Each round resets a side and fills its cache to the depth, then does the work.
func TestMeasure(t *testing.T) {
	var log []string
	side := func(name string) contender {
		return contender{name: name,
			reset: func() error { log = append(log, name+" reset"); return nil },
			eval: func(tokens []int32) error {
				if len(tokens) > 1 {
					log = append(log, name+" fill")
					require.Len(t, tokens, 5)
				} else {
					log = append(log, name+" token")
				}
				return nil
			}}
	}
	rec := &Record{Weights: 1000}
	limit := limits.NewReadLoop(3, 1<<13)
	o := Options{Rounds: 4, Seed: 1}
	require.NoError(t, rec.measure(context.Background(), o, "decode", 1, 5, []contender{side("ours"), side("theirs")}, limit, func(c contender) error {
		return c.eval([]int32{1})
	}))
	require.Len(t, log, 3*2*5) // two sides, four rounds and the warm-up
	for i := 0; i < len(log); i += 3 {
		name := log[i][:len(log[i])-len(" reset")]
		require.Equal(t, []string{name + " reset", name + " fill", name + " token"}, log[i:i+3])
	}
	require.Len(t, rec.Rows, 2)
	for i, name := range []string{"ours", "theirs"} {
		row := rec.Rows[i]
		require.Equal(t, name, row.Side)
		require.Len(t, row.Samples, 4)
		require.Positive(t, row.Rate)
		require.InEpsilon(t, row.Rate/rec.Rows[1].Rate, row.VsLlama, 1e-9)
		require.InEpsilon(t, row.Rate*1000/row.ReadRate, row.OfLimit, 1e-9)
	}

	// Without a limit, nothing is put beside the rates.
	require.NoError(t, rec.measure(context.Background(), o, "prefill", 7, 0, []contender{side("ours"), side("theirs")}, nil, func(contender) error { return nil }))
	require.Len(t, rec.Rows, 4)
	require.Zero(t, rec.Rows[2].ReadRate)
}

// A tied embedding is read once a token, as the output matrix.
func TestWeightBytes(t *testing.T) {
	f, err := gguf.Open("../../refs/models/tiny-qwen2-f16.gguf")
	require.NoError(t, err)
	defer f.Close()
	m, err := model.Load(f)
	require.NoError(t, err)
	require.True(t, m.Tied)
	var all int64
	for _, x := range f.Tensors {
		all += int64(len(x.Data))
	}
	require.Equal(t, all, weightBytes(m))
	m.Tied = false
	embedding, ok := f.Tensor("token_embd.weight")
	require.True(t, ok)
	require.Equal(t, all-int64(len(embedding.Data)), weightBytes(m))
}
