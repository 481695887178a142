package session_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
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
	"minfer/refs"
)

// tiny makes and loads a synthetic F32 model of one layer: the test backend
// knows nothing else.
func tiny(t *testing.T, o synth.Options) (*model.Model, *gguf.File) {
	t.Helper()
	o.Size, o.Mix, o.Seed = "tiny", quant.Mix{Name: "f32"}, 5
	if o.Layers == 0 {
		o.Layers = 1
	}
	paths, err := synth.Write(filepath.Join(t.TempDir(), "m.gguf"), o)
	require.NoError(t, err)
	f, err := gguf.Open(paths[0])
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	m, err := model.Load(f)
	require.NoError(t, err)
	return m, f
}

func open(t *testing.T, m *model.Model, o session.Options) *session.Session {
	t.Helper()
	if o.Backends == nil {
		o.Backends = []graph.Backend{graphtest.NewRef("ref")}
	}
	s, err := session.New(m, o)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func greedy(t *testing.T) *sampler.Sampler {
	t.Helper()
	s, err := sampler.New(sampler.Options{})
	require.NoError(t, err)
	return s
}

// The whole path (model, graph, executor, session) against the float64 forward
// pass of refs, which shares no code with it.
func TestAgainstReference(t *testing.T) {
	yes := true
	for _, o := range []synth.Options{
		{Arch: "qwen2", Layers: 2},
		{Arch: "qwen3"},
		{Arch: "llama"},
		{Arch: "llama", RopeFactors: &yes},
		{Arch: "qwen2", RopeScaling: "linear", RopeFactor: 4},
	} {
		t.Run(fmt.Sprintf("%s %s factors=%v", o.Arch, o.RopeScaling, o.RopeFactors != nil), func(t *testing.T) {
			m, f := tiny(t, o)
			tokens := []int32{3, 1000, 7, 7, 512, 1}
			want, err := refs.Forward(f, tokens, refs.Options{})
			require.NoError(t, err)
			got, err := open(t, m, session.Options{Batch: 4}).EvalAll(tokens)
			require.NoError(t, err)
			require.Len(t, got, len(tokens))
			for i := range want {
				require.Len(t, got[i], m.NVocab)
				worst := 0.0
				for j := range want[i] {
					worst = max(worst, math.Abs(want[i][j]-float64(got[i][j])))
				}
				// Logits have a standard deviation of 4; float32 sums of 1024 terms
				// are good to about 1e-5 of that.
				require.Less(t, worst, 1e-3, "token %d", i)
				require.Greater(t, maxAbs(want[i]), 4.0, "the comparison sees something")
			}
		})
	}
}

func maxAbs(x []float64) (m float64) {
	for _, v := range x {
		m = max(m, math.Abs(v))
	}
	return m
}

func TestCutsAndPositions(t *testing.T) {
	m, _ := tiny(t, synth.Options{Arch: "qwen2"})
	tokens := []int32{9, 8, 7, 6, 5, 4, 3}
	whole := open(t, m, session.Options{})
	want, err := whole.EvalAll(tokens)
	require.NoError(t, err)
	require.Equal(t, 7, whole.Pos())
	last, err := open(t, m, session.Options{}).Eval(tokens)
	require.NoError(t, err)
	require.Equal(t, want[6], last, "the tail of the last layer is the same row")

	for _, batch := range []int{1, 2, 3, 100} {
		s := open(t, m, session.Options{Batch: batch})
		got, err := s.EvalAll(tokens)
		require.NoError(t, err)
		require.Equal(t, want, got, "batch %d", batch)
		require.Equal(t, (7+batch-1)/batch, s.Stats().Runs)
	}
	s := open(t, m, session.Options{})
	for i, tok := range tokens {
		require.Equal(t, i, s.Pos())
		got, err := s.Eval([]int32{tok})
		require.NoError(t, err)
		require.Equal(t, want[i], got, "token %d alone", i)
	}
	// One graph served all of them.
	require.Equal(t, graph.Stats{Builds: 1, Reuses: 6, Runs: 7}, s.Stats())

	// A new sequence does not see the old one.
	require.NoError(t, s.Reset())
	require.Zero(t, s.Pos())
	got, err := s.Eval(tokens[:1])
	require.NoError(t, err)
	require.Equal(t, want[0], got)
	other, err := s.Eval([]int32{1})
	require.NoError(t, err)
	require.NotEqual(t, want[1], other, "another token gives other logits")
}

// The window grows by 256 cells at a time and ends with the context.
func TestWindow(t *testing.T) {
	m, _ := tiny(t, synth.Options{Arch: "qwen2"})
	var windows []int
	s := open(t, m, session.Options{NCtx: 300, Batch: 64, Exec: graph.ExecOptions{Tap: func(v graph.TapValue) {
		if v.Node.Op == graph.Attn && v.Part == "" {
			windows = append(windows, v.Node.Attr.NKV)
		}
	}}})
	prompt := make([]int32, 255)
	_, err := s.Eval(prompt)
	require.NoError(t, err)
	for range 3 {
		_, err := s.Eval([]int32{1})
		require.NoError(t, err)
	}
	require.Equal(t, []int{256, 256, 256, 256, 256, 300, 300}, windows)
}

func TestErrors(t *testing.T) {
	m, _ := tiny(t, synth.Options{Arch: "qwen2"})
	ref := []graph.Backend{graphtest.NewRef("ref")}
	for _, c := range []struct {
		o    session.Options
		want string
	}{
		{session.Options{}, "session: no backend, want at least one"},
		{session.Options{Backends: ref, NCtx: -1}, "session: a context of -1 tokens, want 1 to 1073741824"},
		{session.Options{Backends: ref, NCtx: 1 << 40}, "session: a context of 1099511627776 tokens, want 1 to 1073741824"},
		{session.Options{Backends: ref, Batch: -2}, "session: batches of -2 tokens, want at least 1"},
		{session.Options{Backends: ref, KVType: gguf.Q4_0}, "session: kv cache: type q4_0, want f32, f16 or q8_0"},
	} {
		_, err := session.New(m, c.o)
		require.EqualError(t, err, c.want)
	}

	s := open(t, m, session.Options{NCtx: 8})
	require.Equal(t, 8, s.NCtx())
	_, err := s.Eval([]int32{1, 2, 3})
	require.NoError(t, err)
	for _, c := range []struct {
		tokens []int32
		want   string
	}{
		{nil, "session: no tokens to evaluate, want at least one"},
		{[]int32{1, 1024}, "session: token 1 of 2 has id 1024, want 0 to 1023"},
		{[]int32{-1}, "session: token 0 of 1 has id -1, want 0 to 1023"},
		{make([]int32, 6), "session: 6 tokens at position 3: the context of 8 tokens has room for 5"},
	} {
		_, err := s.Eval(c.tokens)
		require.EqualError(t, err, c.want)
		_, err = s.EvalAll(c.tokens)
		require.EqualError(t, err, c.want)
	}
	// Nothing was done: the sequence goes on, up to the last position.
	require.Equal(t, 3, s.Pos())
	require.Equal(t, 1, s.Stats().Runs)
	_, err = s.Eval(make([]int32, 5))
	require.NoError(t, err)
	_, err = s.Eval([]int32{1})
	require.EqualError(t, err, "session: 1 tokens at position 8: the context of 8 tokens has room for 0")

	s.Close()
	s.Close()
	_, err = s.Eval([]int32{1})
	require.ErrorIs(t, err, session.ErrClosed)
	require.ErrorIs(t, s.Reset(), session.ErrClosed)
}

// A model's own context is the default, up to a bound.
func TestDefaultContext(t *testing.T) {
	m, _ := tiny(t, synth.Options{Arch: "qwen2"})
	require.Equal(t, 2048, open(t, m, session.Options{}).NCtx())
	big := *m
	big.NCtxTrain = 1 << 20
	require.Equal(t, session.DefaultNCtx, open(t, &big, session.Options{}).NCtx())
}

// poison is a backend that breaks at one node: it fails, or it writes a NaN.
type poison struct {
	*graphtest.Ref
	at   string
	fail bool
}

func (p *poison) ExecuteNode(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	if n.Name != p.at {
		return p.Ref.ExecuteNode(n, in, out, kv)
	}
	if p.fail {
		return fmt.Errorf("broken")
	}
	if err := p.Ref.ExecuteNode(n, in, out, kv); err != nil {
		return err
	}
	return p.WriteHost(out.Buf, out.Off+4*17, []byte{0, 0, 0xc0, 0x7f})
}

func TestFailedPass(t *testing.T) {
	m, _ := tiny(t, synth.Options{Arch: "qwen2"})
	p := &poison{Ref: graphtest.NewRef("ref")}
	s := open(t, m, session.Options{Backends: []graph.Backend{p}})
	want, err := s.Eval([]int32{4, 5})
	require.NoError(t, err)

	// A NaN among the logits is an error, not a token.
	p.at = "result_output"
	_, err = s.Eval([]int32{6, 7})
	require.EqualError(t, err, "session: position 2: the logit of token 17 after position 3 is NaN, want a finite number: the weights or the arithmetic are broken")
	p.at = ""
	_, err = s.Eval([]int32{6})
	require.ErrorContains(t, err, "session: an earlier pass failed, reset first: the logit of token 17")
	require.Equal(t, 2, s.Pos())
	require.NoError(t, s.Reset())
	got, err := s.Eval([]int32{4, 5})
	require.NoError(t, err)
	require.Equal(t, want, got)

	// A NaN on the way reaches the logits of its row.
	p.at = "ffn_out-0"
	_, err = s.Eval([]int32{6})
	require.ErrorContains(t, err, "the logit of token 0 after position 2 is NaN")
	require.NoError(t, s.Reset())

	p.at, p.fail = "Kcur-0", true
	_, err = s.Eval([]int32{6})
	require.ErrorContains(t, err, "broken")
	require.NotContains(t, err.Error(), "\n")
	p.at = ""
	_, err = s.Eval([]int32{6})
	require.ErrorContains(t, err, "reset first")
}

// An op that no backend has is known before anything runs.
func TestRefusedOp(t *testing.T) {
	m, _ := tiny(t, synth.Options{Arch: "qwen2"})
	s := open(t, m, session.Options{Backends: []graph.Backend{
		graphtest.Wrap(graphtest.NewRef("ref"), graphtest.Options{Name: "partial", Refuse: []graph.Op{graph.RoPE}}),
	}})
	_, err := s.Eval([]int32{1})
	require.ErrorContains(t, err, "rope")
	require.NotContains(t, err.Error(), "\n")
}

func TestGenerate(t *testing.T) {
	m, _ := tiny(t, synth.Options{Arch: "qwen3"})
	prompt := []int32{11, 12, 13}
	s := open(t, m, session.Options{NCtx: 16})

	// By hand: the argmax of the logits, fed back.
	var want []int32
	next := prompt
	for range 6 {
		logits, err := s.Eval(next)
		require.NoError(t, err)
		id, err := sampler.Greedy(logits)
		require.NoError(t, err)
		want = append(want, id)
		next = want[len(want)-1:]
	}
	require.NoError(t, s.Reset())

	var seen []int32
	got, err := s.Generate(context.Background(), prompt, 6, greedy(t), nil, func(id int32) { seen = append(seen, id) })
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, want, seen)
	require.Equal(t, len(prompt)+5, s.Pos(), "the last token is not evaluated")

	// It stops before the stop token.
	require.NoError(t, s.Reset())
	got, err = s.Generate(context.Background(), prompt, 6, greedy(t), func(id int32) bool { return id == want[2] }, nil)
	require.NoError(t, err)
	require.Equal(t, want[:2], got)

	// It fills the context: 16 positions, 3 of them the prompt's, and one token more.
	require.NoError(t, s.Reset())
	got, err = s.Generate(context.Background(), prompt, -1, greedy(t), nil, nil)
	require.NoError(t, err)
	require.Len(t, got, 14)
	require.Equal(t, 16, s.Pos())

	// Too much is refused before any work.
	require.NoError(t, s.Reset())
	runs := s.Stats().Runs
	_, err = s.Generate(context.Background(), prompt, 15, greedy(t), nil, nil)
	require.EqualError(t, err, "session: 3 prompt tokens at position 0 and 15 new ones: the context of 16 tokens has room for 14 new ones")
	_, err = s.Generate(context.Background(), make([]int32, 17), 1, greedy(t), nil, nil)
	require.EqualError(t, err, "session: 17 tokens at position 0: the context of 16 tokens has room for 16")
	require.Equal(t, runs, s.Stats().Runs)

	// It ends when the context is done, with what it has.
	ctx, cancel := context.WithCancel(context.Background())
	got, err = s.Generate(ctx, prompt, 6, greedy(t), nil, func(id int32) {
		if id == want[1] {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, want[:2], got)
	require.NoError(t, s.Reset())
	_, err = s.Generate(ctx, prompt, 6, greedy(t), nil, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, s.Pos())
}

// A trace of the plan, to see that the options reach the executor.
func TestExecOptions(t *testing.T) {
	m, _ := tiny(t, synth.Options{Arch: "llama"})
	var trace strings.Builder
	s := open(t, m, session.Options{Exec: graph.ExecOptions{Trace: &trace}})
	_, err := s.Eval([]int32{1})
	require.NoError(t, err)
	require.Contains(t, trace.String(), "split 0: ref nodes 0-")
}
