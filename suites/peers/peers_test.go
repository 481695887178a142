package peers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/model"
	"minfer/suites/limits"
)

// fake is an engine that logs what it does.
type fake struct {
	name  string
	pause time.Duration
	at    int
	log   *[]string
}

func (f *fake) contender() contender {
	return contender{f.name, func() int { return f.at },
		func(pos int) error {
			*f.log = append(*f.log, fmt.Sprintf("%s back to %d", f.name, pos))
			f.at = pos
			return nil
		},
		func(tokens []int32) error {
			*f.log = append(*f.log, fmt.Sprintf("%s %d at %d", f.name, len(tokens), f.at))
			f.at += len(tokens)
			time.Sleep(f.pause)
			return nil
		}}
}

// Each round goes to the depth, filling the cache only once, and then does the work;
// a setting of llama.cpp that was slow in the first round takes no part in the others.
func TestMeasure(t *testing.T) {
	var log []string
	ours := &fake{name: Ours, log: &log, pause: 30 * time.Millisecond}
	theirs := &fake{name: "theirs", log: &log, pause: time.Millisecond}
	slow := &fake{name: "slow", log: &log, pause: 40 * time.Millisecond}
	sides := []contender{ours.contender(), theirs.contender(), slow.contender()}
	one := func(c contender) error { return c.eval([]int32{1}) }
	rec := &Record{Weights: 1000}
	o := Options{Rounds: 4, Seed: 1}
	read := limits.NewReadLoop(3, 1<<13)
	left, err := rec.measure(t.Context(), o, test{name: "decode", tokens: 1, depth: 600, read: read}, sides, one)
	require.NoError(t, err)
	of := func(name string) (own []string) {
		for _, l := range log {
			if what, ok := strings.CutPrefix(l, name+" "); ok {
				own = append(own, what)
			}
		}
		return own
	}
	filled := []string{"512 at 0", "88 at 512", "1 at 600"}
	again := []string{"back to 600", "1 at 600"}
	require.Equal(t, filled, of("slow"))
	for _, name := range []string{Ours, "theirs"} {
		require.Equal(t, slices.Concat(filled, again, again, again, again), of(name))
	}
	require.Len(t, left, 2)
	require.Equal(t, "theirs", left[1].name)
	require.Len(t, rec.Rows, 3)
	for i, name := range []string{Ours, "theirs", "slow"} {
		row := rec.Rows[i]
		require.Equal(t, name, row.Side)
		require.Len(t, row.Samples, []int{4, 4, 1}[i])
		require.Positive(t, row.Rate)
		require.InEpsilon(t, row.Rate/rec.Rows[1].Rate, row.VsLlama, 1e-9)
		require.InEpsilon(t, row.Rate*1000/row.ReadRate, row.OfLimit, 1e-9)
		require.Zero(t, row.OfAdds)
	}

	// A test ends when its time is spent, but not before there is a median, and one
	// whose limit are multiply-adds has their share.
	o.Rounds, o.Time = 50, time.Millisecond
	_, err = rec.measure(t.Context(), o, test{name: "prefill", tokens: 7, adds: 70, addRate: 1e6}, left, one)
	require.NoError(t, err)
	require.Len(t, rec.Rows, 5)
	require.Len(t, rec.Rows[3].Samples, fewest)
	require.Zero(t, rec.Rows[3].ReadRate)
	require.InEpsilon(t, rec.Rows[3].Rate*10/1e6, rec.Rows[3].OfAdds, 1e-9)
	require.EqualValues(t, 1e6, rec.Rows[4].AddRate)

	// An interrupt keeps whole rounds.
	ctx, cancel := context.WithCancel(t.Context())
	rounds := 0
	_, err = rec.measure(ctx, Options{Rounds: 50}, test{name: "interrupted", tokens: 1}, left[:2], func(c contender) error {
		if rounds++; rounds == 8 {
			cancel()
		}
		return one(c)
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, rec.Rows, 7)
	require.Len(t, rec.Rows[6].Samples, 3)
	_, err = rec.measure(ctx, Options{Rounds: 50}, test{name: "nothing", tokens: 1}, left, one)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, rec.Rows, 7)
}

// A warm test goes through the work once more before its rounds, outside of the clock,
// so that the cost of a first use is in no sample, and no side ends early.
func TestMeasureWarm(t *testing.T) {
	var log []string
	ours := &fake{name: Ours, log: &log}
	theirs := &fake{name: "theirs", log: &log}
	slow := &fake{name: "slow", log: &log, pause: 20 * time.Millisecond}
	used := map[string]bool{}
	rec := &Record{}
	left, err := rec.measure(t.Context(), Options{Rounds: 3, Seed: 1}, test{name: "decode", tokens: 2, depth: 5, warm: true},
		[]contender{ours.contender(), theirs.contender(), slow.contender()}, func(c contender) error {
			if !used[c.name] {
				used[c.name] = true
				time.Sleep(500 * time.Millisecond)
			}
			return c.eval([]int32{1, 2})
		})
	require.NoError(t, err)
	require.Len(t, left, 3)
	for i, name := range []string{Ours, "theirs", "slow"} {
		row := rec.Rows[i]
		require.Equal(t, name, row.Side)
		require.Len(t, row.Samples, 3)
		require.Less(t, slices.Max(row.Samples), 400*time.Millisecond)
		// Five times: to warm up, in the round that does not count, and in three.
		n := 0
		for _, l := range log {
			if l == name+" 2 at 5" {
				n++
			}
		}
		require.Equal(t, 5, n)
	}
}

func TestCheck(t *testing.T) {
	good := func() *Options {
		return &Options{Threads: []int{1, 2}, Prompts: []int{1}, Depths: []int{0}, Generate: 1, Rounds: 1}
	}
	require.NoError(t, good().Check())
	for want, spoil := range map[string]func(o *Options){
		"threads 0: want at least 1":      func(o *Options) { o.Threads[1] = 0 },
		"a prefill of 0: want at least 1": func(o *Options) { o.Prompts[0] = 0 },
		"a depth of -1: want at least 0":  func(o *Options) { o.Depths[0] = -1 },
		"a decode of 0: want at least 1":  func(o *Options) { o.Generate = 0 },
		"rounds 0: want at least 1":       func(o *Options) { o.Rounds = 0 },
	} {
		o := good()
		spoil(o)
		require.EqualError(t, o.Check(), want)
	}
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
	adds := int64(0)
	for _, x := range f.Tensors {
		if len(x.Dims) == 2 {
			adds += int64(x.Dims[0] * x.Dims[1])
		}
	}
	require.Equal(t, adds, multiplyAdds(m))
	require.False(t, quantised(m))
	m.Tied = false
	embedding, ok := f.Tensor("token_embd.weight")
	require.True(t, ok)
	require.Equal(t, all-int64(len(embedding.Data)), weightBytes(m))
	require.Equal(t, adds-int64(embedding.Dims[0]*embedding.Dims[1]), multiplyAdds(m))
}

func TestMarkdown(t *testing.T) {
	rec := &Record{Model: "synth-a.gguf", Variant: "zen4", Threads: 2, Agree: true, Rows: []Row{
		{Test: "decode 2 at depth 0", Side: Ours, Rate: 30, VsLlama: 1.5, OfLimit: 0.913},
		{Test: "decode 2 at depth 0", Side: "llama.cpp", Rate: 20, VsLlama: 1},
		{Test: "decode 2 at depth 0", Side: "llama.cpp, no repacking", Rate: 10, VsLlama: 0.5},
		{Test: "prefill 9", Side: Ours, Rate: 30, VsLlama: 0.75},
		{Test: "prefill 9", Side: "llama.cpp", Rate: 20, VsLlama: 1},
		{Test: "prefill 9", Side: "llama.cpp, no repacking", Rate: 40, VsLlama: 1},
	}}
	other := &Record{Model: "b.gguf", Threads: 1, Rows: rec.Rows[:2]}
	require.Equal(t, `| file | threads | llama.cpp's library | test | minfer | llama.cpp's best | minfer / best | of the limit |
| --- | --- | --- | --- | --- | --- | --- | --- |
| a | 2 | zen4 | decode 2 at depth 0 | 30.0 | 20.0 | 1.50 | 91 % |
| a | 2 | zen4 | prefill 9 | 30.0 | 40.0 (no repacking) | 0.75 |  |
| b (DIFFERS: does not count) | 1 |  | decode 2 at depth 0 | 30.0 | 20.0 | 1.50 | 91 % |
`, Markdown([]*Record{rec, other}))
}
