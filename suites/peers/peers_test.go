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
	name        string
	pause       time.Duration
	late        int // the evaluation that takes far longer
	at          int
	evaluations int
	log         *[]string
}

func (f *fake) contender() contender {
	return contender{f.name, func() int { return f.at },
		func(pos int) error {
			*f.log = append(*f.log, fmt.Sprintf("%s back to %d", f.name, pos))
			f.at = pos
			return nil
		},
		func(tokens []int32) ([]float32, error) {
			*f.log = append(*f.log, fmt.Sprintf("%s %d at %d", f.name, len(tokens), f.at))
			f.at += len(tokens)
			f.evaluations++
			time.Sleep(f.pause)
			if f.late == f.evaluations {
				time.Sleep(5 * f.pause)
			}
			return []float32{float32(f.at), float32(f.evaluations)}, nil
		}}
}

// evaluate is the work of a test: n tokens at once.
func evaluate(_ context.Context, c contender, n int) ([]float32, error) {
	return c.eval(make([]int32, n))
}

// did is what an engine did, by the log.
func did(log []string, name string) (own []string) {
	for _, l := range log {
		if what, ok := strings.CutPrefix(l, name+" "); ok {
			own = append(own, what)
		}
	}
	return own
}

// Each round goes to the depth, filling the cache only once, and then does the work;
// a setting of llama.cpp that was slow in both of the first rounds takes no part in the
// others, of that test.
func TestMeasure(t *testing.T) {
	var log []string
	ours := &fake{name: Ours, log: &log, pause: 30 * time.Millisecond}
	theirs := &fake{name: "theirs", log: &log, pause: 4 * time.Millisecond}
	slow := &fake{name: "slow", log: &log, pause: 40 * time.Millisecond}
	sides := []contender{ours.contender(), theirs.contender(), slow.contender()}
	rec := &Record{Weights: 1000}
	o := Options{Rounds: 4, Seed: 1}
	read := limits.NewReadLoop(3, 1<<13)
	decode := test{name: "decode", tokens: 2, depth: 600, read: read, warm: []int{1}, drop: true, work: evaluate}
	ends, err := rec.measure(t.Context(), o, decode, sides)
	require.NoError(t, err)
	filled := []string{"512 at 0", "88 at 512", "1 at 600"}
	again := []string{"back to 600", "2 at 600"}
	require.Equal(t, slices.Concat(filled, again, again), did(log, "slow"))
	for _, name := range []string{Ours, "theirs"} {
		require.Equal(t, slices.Concat(filled, again, again, again, again), did(log, name))
	}
	// Of each side the logits of its own last round.
	require.Equal(t, [][]float32{{602, 7}, {602, 7}, {602, 5}}, ends)
	require.Len(t, rec.Rows, 3)
	for i, name := range []string{Ours, "theirs", "slow"} {
		row := rec.Rows[i]
		require.Equal(t, name, row.Side)
		require.Len(t, row.Samples, []int{4, 4, 2}[i])
		require.Positive(t, row.Rate)
		require.InEpsilon(t, row.Rate/rec.Rows[1].Rate, row.VsLlama, 1e-9)
		require.InEpsilon(t, row.Rate*1000/row.ReadRate, row.OfLimit, 1e-9)
		require.Zero(t, row.OfAdds)
	}

	// A test ends when its time is spent, but not before there is a median, and one
	// whose limit are multiply-adds has their share. What was slow before is there again.
	o.Rounds, o.Time = 50, time.Millisecond
	_, err = rec.measure(t.Context(), o, test{name: "prefill", tokens: 7, adds: 70, addRate: 1e6, drop: true, work: evaluate}, sides)
	require.NoError(t, err)
	require.Len(t, rec.Rows, 6)
	require.Len(t, rec.Rows[3].Samples, fewest)
	require.Len(t, rec.Rows[5].Samples, tries)
	require.Zero(t, rec.Rows[3].ReadRate)
	require.InEpsilon(t, rec.Rows[3].Rate*10/1e6, rec.Rows[3].OfAdds, 1e-9)
	require.EqualValues(t, 1e6, rec.Rows[4].AddRate)

	// An interrupt keeps whole rounds.
	ctx, cancel := context.WithCancel(t.Context())
	rounds := 0
	interrupted := test{name: "interrupted", tokens: 1, work: func(ctx context.Context, c contender, n int) ([]float32, error) {
		if rounds++; rounds == 6 {
			cancel()
		}
		return evaluate(ctx, c, n)
	}}
	ends, err = rec.measure(ctx, Options{Rounds: 50}, interrupted, sides[:2])
	require.ErrorIs(t, err, context.Canceled)
	require.NotNil(t, ends)
	require.Len(t, rec.Rows, 8)
	require.Len(t, rec.Rows[7].Samples, 3)
	ends, err = rec.measure(ctx, Options{Rounds: 50}, interrupted, sides)
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, ends)
	require.Len(t, rec.Rows, 8)
}

// A round that takes long by chance, the first or another, drops nothing.
func TestMeasureKeepsLate(t *testing.T) {
	for late := 1; late <= 3; late++ {
		var log []string
		sides := []contender{(&fake{name: Ours, log: &log, pause: time.Millisecond}).contender(),
			(&fake{name: "a", log: &log, pause: 25 * time.Millisecond, late: late}).contender(),
			(&fake{name: "b", log: &log, pause: 25 * time.Millisecond}).contender()}
		rec := &Record{}
		_, err := rec.measure(t.Context(), Options{Rounds: 4, Seed: 1}, test{name: "prefill", tokens: 2, drop: true, warm: []int{1}, work: evaluate}, sides)
		require.NoError(t, err)
		for _, row := range rec.Rows {
			require.Len(t, row.Samples, 4, "%s with a late pass %d", row.Side, late)
		}
	}
}

// A test goes through the work as often as it warms up before its rounds, outside of the
// clock, so that the cost of a first use is in no sample.
func TestMeasureWarm(t *testing.T) {
	var log []string
	sides := []contender{(&fake{name: Ours, log: &log}).contender(), (&fake{name: "theirs", log: &log}).contender(),
		(&fake{name: "slow", log: &log, pause: 20 * time.Millisecond}).contender()}
	used := map[string]bool{}
	rec := &Record{}
	warm := test{name: "decode", tokens: 2, depth: 5, warm: []int{2, 2}, work: func(ctx context.Context, c contender, n int) ([]float32, error) {
		if !used[c.name] {
			used[c.name] = true
			time.Sleep(500 * time.Millisecond)
		}
		return evaluate(ctx, c, n)
	}}
	_, err := rec.measure(t.Context(), Options{Rounds: 3, Seed: 1}, warm, sides)
	require.NoError(t, err)
	for i, name := range []string{Ours, "theirs", "slow"} {
		row := rec.Rows[i]
		require.Equal(t, name, row.Side)
		require.Len(t, row.Samples, 3)
		require.Less(t, slices.Max(row.Samples), 400*time.Millisecond)
		again := []string{"back to 5", "2 at 5"}
		require.Equal(t, slices.Concat([]string{"5 at 0", "2 at 5"}, again, again, again, again), did(log, name))
	}
}

// A round starts when the threads of what ran before, the side's own filling of the cache
// too, have had the time to fall asleep.
func TestMeasureSettles(t *testing.T) {
	var log []string
	sides := []contender{(&fake{name: Ours, log: &log}).contender(), (&fake{name: "theirs", log: &log}).contender()}
	var end time.Time
	for i := range sides {
		eval, back := sides[i].eval, sides[i].back
		sides[i].eval = func(tokens []int32) ([]float32, error) { defer func() { end = time.Now() }(); return eval(tokens) }
		sides[i].back = func(pos int) error { defer func() { end = time.Now() }(); return back(pos) }
	}
	rounds := 0
	work := func(ctx context.Context, c contender, n int) ([]float32, error) {
		rounds++
		require.GreaterOrEqual(t, time.Since(end), 10*time.Millisecond, "round %d", rounds)
		return evaluate(ctx, c, n)
	}
	rec := &Record{}
	_, err := rec.measure(t.Context(), Options{Rounds: 3, Seed: 1}, test{name: "decode", tokens: 2, depth: 5, work: work}, sides)
	require.NoError(t, err)
	require.Equal(t, 6, rounds)
	for _, row := range rec.Rows { // and none of the wait is in a sample
		require.Less(t, slices.Min(row.Samples), 10*time.Millisecond)
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
