package peers

import (
	"context"
	"flag"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cpu"
	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/engine/model"
	"minfer/engine/quant"
	"minfer/engine/session"
	"minfer/engine/synth"
	"minfer/metal"
	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/refs/llamacpp"
	"minfer/suites"
	"minfer/suites/suitetest"
)

// With the library llama.cpp itself takes part, on its CPU backend:
//
//	go test ./suites/peers -llama DIR
var (
	llamaDir = flag.String("llama", "", "directory of the llama.cpp libraries")
	variant  = flag.String("variant", "haswell", "CPU variant")
)

// standIn is an engine in llama.cpp's place: the CPU backend, which rounds activations
// to 8 bits as llama.cpp does.
type standIn struct {
	m           *model.Model
	on, of      int
	backend     graph.Backend
	spoil       func(logits []float32)
	evaluations int
}

type standInContext struct {
	*session.Session
	from *standIn
}

func (s *standIn) NewContext(o llamacpp.ContextOptions) (peerContext, error) {
	ses, err := session.New(s.m, session.Options{Backends: []graph.Backend{s.backend}, NCtx: o.NCtx, KVType: o.KVType})
	return standInContext{ses, s}, err
}
func (s *standIn) Offloaded() (layers, of int) { return s.on, s.of }
func (s *standIn) Close()                      {}

func (c standInContext) Close() { c.Session.Close() }
func (c standInContext) EvalLast(tokens []int32) ([]float32, error) {
	logits, err := c.Session.Eval(tokens)
	c.from.evaluations++
	if c.from.spoil != nil && err == nil {
		c.from.spoil(logits)
	}
	return logits, err
}
func (c standInContext) Eval(tokens []int32) ([]float32, error) {
	rows, err := c.Session.EvalAll(tokens)
	logits := slices.Concat(rows...)
	c.from.evaluations++
	if c.from.spoil != nil && err == nil {
		c.from.spoil(logits)
	}
	return logits, err
}

// gpuCase runs a tiny model on the software device beside a stand-in. spoil changes
// our copy of the model.
type gpuCase struct {
	ctx       context.Context // nil: the test's
	other     standIn
	spoil     func(m *model.Model)
	o         func(o *GPUOptions)
	env       *suites.Env // of softEnv, for cases to share its compiled kernels
	metal     metal.Options
	reference func(f *gguf.File, first int, tokens []int32, kv gguf.Type, cache suites.KVBytes) ([][]float64, error)
}

func softEnv(t *testing.T) *suites.Env {
	env := &suites.Env{Device: suites.Device{
		Name: "soft",
		New:  func(threads int) (graph.Backend, error) { return cpu.New(cpu.Options{Threads: threads}) },
		Open: func(threads int) (mtl.Device, error) { return soft.New(soft.Options{Threads: threads}) },
	}}
	t.Cleanup(env.Close)
	return env
}

func tinyFile(t *testing.T) string {
	t.Helper()
	paths, err := synth.Write(filepath.Join(t.TempDir(), "m.gguf"), synth.Options{Arch: "qwen2", Size: "tiny", Mix: quant.Mix{Name: "q8_0"}, Seed: 3, Layers: 2})
	require.NoError(t, err)
	return paths[0]
}

func (c *gpuCase) options(t *testing.T, path string) GPUOptions {
	backends, err := c.env.Backends(2, c.metal)
	require.NoError(t, err)
	o := GPUOptions{
		Options: Options{Path: path, Prompts: []int{5}, Depths: []int{0, 3}, Generate: 2, Rounds: 3, Seed: 1},
		Hold: func(m *model.Model) (graph.Backend, gguf.Type, error) {
			if c.spoil != nil {
				c.spoil(m)
			}
			return backends[0], gguf.F16, m.Hold(backends[0].(*metal.Backend))
		},
		Read: 1e9, Layers: 99,
	}
	if c.o != nil {
		c.o(&o)
	}
	return o
}

func (c *gpuCase) run(t *testing.T, path string) (*Record, error) {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	c.other.m, err = model.Load(f)
	require.NoError(t, err)
	b, err := cpu.New(cpu.Options{Threads: 1})
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	c.other.backend = b
	if c.other.of == 0 {
		c.other.on, c.other.of = 3, 3
	}
	reference := c.reference
	if reference == nil {
		reference = suites.ReferenceFrom
	}
	ctx := c.ctx
	if ctx == nil {
		ctx = t.Context()
	}
	return runGPU(ctx, others{func(string, llamacpp.ModelOptions) (peerModel, error) { return &c.other, nil }, reference}, c.options(t, path))
}

// whole holds a record's rows: every side of every test has all rounds, and the decodes a
// share of the read rate.
func whole(t *testing.T, rec *Record) {
	t.Helper()
	require.Len(t, rec.Rows, 9)
	for i, row := range rec.Rows {
		require.Equal(t, []string{"decode 2 at depth 0", "decode 2 at depth 3", "prefill 5"}[i/3], row.Test)
		require.Equal(t, []string{Ours, "llama.cpp, flash attention", "llama.cpp"}[i%3], row.Side)
		require.Len(t, row.Samples, 3)
		require.Positive(t, row.Rate)
		if row.Tokens == 2 {
			require.InEpsilon(t, row.Rate*float64(rec.Weights)/1e9, row.OfLimit, 1e-9)
		}
	}
}

func TestRunGPU(t *testing.T) {
	path := tinyFile(t)
	rec, err := (&gpuCase{env: softEnv(t)}).run(t, path)
	require.NoError(t, err)
	whole(t, rec)
	require.True(t, rec.Agree, rec.Wrong)
	require.Equal(t, "3 of 3", rec.Offloaded)
	var names []string
	for _, h := range rec.Held {
		names = append(names, h.Side+", "+h.What)
	}
	last := func(test string) (list []string) {
		for _, side := range []string{Ours, "llama.cpp, flash attention", "llama.cpp"} {
			list = append(list, side+", "+test+", its last token")
		}
		return list
	}
	require.Regexp(t, "^minfer, prefill 5, its cache beside a decode's, (keys|values) of layer [01]$", names[2])
	require.Equal(t, slices.Concat([]string{"minfer, decode", "minfer, prefill", names[2],
		"llama.cpp, flash attention, decode", "llama.cpp, flash attention, prefill", "llama.cpp, decode", "llama.cpp, prefill"},
		last("decode 2 at depth 0"), last("decode 2 at depth 3"), last("prefill 5"),
		[]string{"minfer, decode, after the rounds", "minfer, prefill, after the rounds"}), names)
	require.Same(t, rec.Held[0].Check, rec.Check)
	n := rec.Check.N / checkTokens // logits of a token
	for i, want := range []int{16 * n, 16 * n, 0, 16 * n, 16 * n, 16 * n, 16 * n, n, n, n, n, n, n, n, n, n, 16 * n, 16 * n} {
		if i != 2 {
			require.Equal(t, want, rec.Held[i].Check.N, names[i])
		}
	}
	for i, each := range []int{0, 7, 10, 16} {
		require.True(t, rec.Held[each].Check.Each, i)
		require.Positive(t, float64(rec.Held[each].Check.Share))
	}
	require.Equal(t, prefillLimit, rec.Held[13].Limit)
	// The stand-in rounds activations, which is seen, and near.
	require.Positive(t, float64(rec.Held[3].Check.NMSE))
	require.InEpsilon(t, 4*9e-5*4, rec.Held[3].Limit, 1e-9)
}

// Rates do not count with logits that are another model's, be they ours or llama.cpp's,
// or no numbers.
func TestRunGPUWrong(t *testing.T) {
	path, env := tinyFile(t), softEnv(t)
	matrix := func(m *model.Model, name string) *graph.Weight {
		for _, w := range m.Weights() {
			if w.Name == name {
				return w
			}
		}
		require.Fail(t, "no weight "+name)
		return nil
	}
	swap := func(name string) func(m *model.Model) {
		return func(m *model.Model) {
			a, b := matrix(m, "blk.0."+name), matrix(m, "blk.1."+name)
			a.Data, b.Data = b.Data, a.Data
		}
	}
	nan := func(n int) func(logits []float32) {
		return func(logits []float32) {
			if n--; n == 0 {
				logits[17] = float32(math.NaN())
			}
		}
	}
	for name, c := range map[string]struct {
		gpuCase
		wrong string
	}{
		"a swapped matrix":      {gpuCase{spoil: swap("attn_output.weight")}, "minfer, decode: "},
		"a swapped matrix of K": {gpuCase{spoil: swap("attn_k.weight")}, "the cache of a decode is not the model's"},
		"NaN in a decode":       {gpuCase{other: standIn{spoil: nan(4)}}, "llama.cpp, flash attention, decode: NMSE"},
		"NaN in a prefill":      {gpuCase{other: standIn{spoil: nan(1)}}, "llama.cpp, flash attention, prefill: NMSE"},
		"NaN without flash":     {gpuCase{other: standIn{spoil: nan(19)}}, "llama.cpp, decode: NMSE"},
		"llama.cpp a bit off": {gpuCase{other: standIn{spoil: func(logits []float32) {
			for i := range logits {
				logits[i] *= 1.05
			}
		}}}, "llama.cpp, decode: NMSE"},
	} {
		t.Run(name, func(t *testing.T) {
			c.env = env
			rec, err := c.run(t, path)
			require.NoError(t, err)
			whole(t, rec)
			require.False(t, rec.Agree)
			require.Contains(t, joined(rec.Wrong), c.wrong)
		})
	}

	// A NaN of ours, and what was right before the rounds and is not after them.
	rec := &Record{}
	want := [][]float64{{1, 2, 3}}
	right, wrong := [][]float32{{1, 2, 3}}, [][]float32{{1, float32(math.NaN()), 3}}
	require.NoError(t, rec.ours("", want, right, right))
	require.True(t, rec.Agree)
	require.NoError(t, rec.ours(", after the rounds", want, right, wrong))
	require.False(t, rec.Agree)
	require.Contains(t, joined(rec.Wrong), "minfer, prefill, after the rounds: ")
	require.NotContains(t, joined(rec.Wrong), "decode")

	// A decode has 5e-5 of the logits' size, 2.16 here, for each, a prefill 1e-3 for all.
	off := func(by float32) [][]float32 { return [][]float32{{1, 2 + by, 3}} }
	for _, c := range []struct {
		decode, prefill float32
		wrong           []string
	}{
		{1.0e-4, 3.6e-3, nil},
		{1.2e-4, 3.6e-3, []string{"minfer, decode: "}},
		{1.0e-4, 3.9e-3, []string{"minfer, prefill: NMSE"}},
	} {
		rec := &Record{}
		require.NoError(t, rec.ours("", want, off(c.decode), off(c.prefill)))
		require.Equal(t, len(c.wrong) == 0, rec.Agree)
		require.Len(t, rec.Wrong, len(c.wrong))
		for i, wrong := range c.wrong {
			require.Contains(t, rec.Wrong[i], wrong)
		}
	}
}

// Kernels that the check's 16 tokens never see, and a round does, are held too: what the
// rounds ended with.
func TestRunGPUTimed(t *testing.T) {
	path := tinyFile(t)
	for name, c := range map[string]struct {
		fault suitetest.Fault
		gpuCase
		wrong []string // the beginnings of all that is
	}{
		// Products of 512 outputs take the GEMM from 40 tokens on.
		"a tile of the GEMM": {
			suitetest.Fault{File: "mul_mm.metal", Old: "to + i * 8 * p.out_dim + 8 * j", New: "to + j * 8 * p.out_dim + 8 * i"},
			gpuCase{metal: metal.Options{Levers: lever.Levers{GEMM: true}, GEMMFrom: 20000}, o: func(o *GPUOptions) { o.Prompts, o.Depths = []int{64}, nil }},
			[]string{"minfer, prefill 64, its cache beside a decode's", "minfer, prefill 64, its last token"},
		},
		// A cache of more than 32 cells is cut into chunks.
		"the sum of chunks": {
			suitetest.Fault{File: "attn_flash_decode.metal", Old: "acc += weights[i] *", New: "acc += weights[0] *"},
			gpuCase{o: func(o *GPUOptions) { o.Prompts, o.Depths = nil, []int{150} }},
			[]string{"the cache of decode 2 at depth 150 is not the model's"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.env = softEnv(t)
			rec, err := c.run(t, path)
			require.NoError(t, err)
			require.True(t, rec.Agree, rec.Wrong)
			c.env = softEnv(t)
			c.env.Kernels = suitetest.Kernels(t, c.fault)
			rec, err = c.run(t, path)
			require.NoError(t, err)
			require.False(t, rec.Agree)
			require.Len(t, rec.Wrong, len(c.wrong), rec.Wrong)
			for i, wrong := range c.wrong {
				require.Contains(t, rec.Wrong[i], wrong)
			}
			require.True(t, rec.Check.OK())
		})
	}
}

// What was measured before an interrupt is kept, with all its checks.
func TestRunGPUInterrupted(t *testing.T) {
	path, env := tinyFile(t), softEnv(t)
	run := func(evaluations int) (*Record, error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		return (&gpuCase{env: env, ctx: ctx, other: standIn{spoil: func([]float32) {
			if n++; n == evaluations {
				cancel()
			}
		}}}).run(t, path)
	}
	// Of each setting 17 evaluations for the check; then four of a decode to warm up, and
	// two a round.
	rec, err := run(2*17 + 2*4 + 2*2 + 1)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, rec.Rows, 3)
	for _, row := range rec.Rows {
		require.Len(t, row.Samples, 1)
	}
	require.True(t, rec.Agree, rec.Wrong)
	require.Equal(t, "decode 2 at depth 0, its last token", rec.Held[9].What)
	require.Equal(t, "prefill, after the rounds", rec.Held[len(rec.Held)-1].What)
	rec.Provenance.Date = "2026-11-30T07:00:00Z"
	require.NoError(t, rec.valid())

	rec, err = run(2*17 + 2)
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, rec)
}

// An interrupt does not wait for the float64 model, which goes on reading the file.
func TestRunGPUInterruptedWait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	release, done := make(chan struct{}), make(chan error, 1)
	c := &gpuCase{env: softEnv(t), ctx: ctx, reference: func(f *gguf.File, first int, tokens []int32, kv gguf.Type, cache suites.KVBytes) ([][]float64, error) {
		cancel()
		<-release
		rows, err := suites.ReferenceFrom(f, first, tokens, kv, cache)
		done <- err
		return rows, err
	}}
	rec, err := c.run(t, tinyFile(t))
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, rec)
	close(release)
	require.NoError(t, <-done)
}

func joined(all []string) (s string) {
	for _, one := range all {
		s += one + "\n"
	}
	return s
}

// What is no comparison is an error.
func TestRunGPURefused(t *testing.T) {
	path, env := tinyFile(t), softEnv(t)
	for want, c := range map[string]*gpuCase{
		"llama.cpp put 2 of 3 layers on the GPU: want all of 2 and the output":                                 {other: standIn{on: 2, of: 3}},
		"llama.cpp put 2 of 2 layers on the GPU: want all of 2 and the output":                                 {other: standIn{on: 2, of: 2}},
		"llama.cpp put 0 of -1 layers on the GPU: want all of 2 and the output":                                {other: standIn{of: -1}},
		"rounds 2: want at least 3 on a GPU":                                                                   {o: func(o *GPUOptions) { o.Rounds = 2 }},
		"a decode of 0: want at least 1":                                                                       {o: func(o *GPUOptions) { o.Generate = 0 }},
		"prefills of [5] tokens and decodes of 2 at depths [1000000]: want them within the model's context of": {o: func(o *GPUOptions) { o.Depths = []int{1e6} }},
		"want one that llama.cpp's runs have too, f32 or f16": {o: func(o *GPUOptions) {
			hold := o.Hold
			o.Hold = func(m *model.Model) (graph.Backend, gguf.Type, error) {
				b, _, err := hold(m)
				return b, gguf.Q8_0, err
			}
		}},
	} {
		c.env = env
		_, err := c.run(t, path)
		require.ErrorContains(t, err, want)
		require.Zero(t, c.other.evaluations)
	}
}

// llama.cpp itself, on its CPU backend: near as it is, not with layers that it says
// nothing of.
func TestRunGPULlama(t *testing.T) {
	if *llamaDir == "" {
		t.Skip("LLAMA.CPP NOT GIVEN: the live engine is not tested; run with -llama DIR")
	}
	lib, err := llamacpp.Open(*llamaDir, *variant)
	require.NoError(t, err)
	defer lib.Close()
	path := tinyFile(t)
	c := &gpuCase{env: softEnv(t)}
	rec, err := RunGPU(t.Context(), lib, c.options(t, path))
	require.ErrorContains(t, err, "llama.cpp put 0 of 0 layers on the GPU: want all of 2 and the output")
	require.Nil(t, rec)
	c.o = func(o *GPUOptions) { o.Layers = 0 }
	rec, err = RunGPU(t.Context(), lib, c.options(t, path))
	require.NoError(t, err)
	whole(t, rec)
	require.True(t, rec.Agree, rec.Wrong)
	require.Empty(t, rec.Offloaded)
}
