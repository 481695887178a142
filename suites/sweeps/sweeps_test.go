package sweeps_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/cpu"
	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/harness"
	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/metal/mtl/soft/interp"
	"minfer/suites"
	"minfer/suites/suitetest"
	"minfer/suites/sweeps"
)

// small are the embedded models, as files.
func small() []suites.Model {
	var list []suites.Model
	for _, name := range []string{"tiny-qwen2-f16", "tiny-qwen3-f16"} {
		list = append(list, suites.Model{Name: name, Open: func() (*gguf.File, error) {
			return gguf.Open(filepath.Join("..", "..", "refs", "models", name+".gguf"))
		}})
	}
	return list
}

func onCPU(threads int) (graph.Backend, error) { return cpu.New(cpu.Options{Threads: threads}) }

// temp holds the files of shared.
var temp string

func TestMain(m *testing.M) {
	var err error
	if temp, err = os.MkdirTemp("", "sweeps-test-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(temp)
	os.Exit(code)
}

// shared is a software device with the project's kernels, compiled once.
var shared = sync.OnceValue(func() *sweeps.Env { return newSoft(temp, nil) })

// softEnv is a software device without checks.
func softEnv(testing.TB) *sweeps.Env { return shared() }

// newSoft is one with the kernels of fsys.
func newSoft(temp string, fsys fs.FS) *sweeps.Env {
	tally := &sweeps.Tally{}
	return &sweeps.Env{Small: small(), Tally: tally, Env: &suites.Env{Seed: 1, Models: small(), Temp: temp, Kernels: fsys, Device: suites.Device{
		Name: "soft (off)", New: onCPU, Open: func(threads int) (mtl.Device, error) {
			return soft.New(soft.Options{Threads: threads, Counters: func(_ *mtl.Dispatch, c interp.Counters) {
				tally.Add(harness.Counters{Dispatches: 1, BytesRead: c.DeviceRead, BytesWritten: c.DeviceWritten, Instructions: c.Instructions, Barriers: c.Barriers, Divergent: c.Divergent})
			}})
		},
	}}}
}

func cpuEnv(t testing.TB) *sweeps.Env {
	e := &sweeps.Env{Small: small(), Env: &suites.Env{Seed: 1, Models: small(), Temp: t.TempDir(), Device: suites.Device{Name: "cpu (avx2)", New: onCPU}}}
	t.Cleanup(e.Close)
	return e
}

// options are those of the tests: one round, and a read loop that needs no memory.
func options() sweeps.Options {
	return sweeps.Options{Levers: lever.Default(), Threads: 2, Reps: 1, Round: 1, ReadBytes: 1 << 20, Seed: 1}
}

func list(t *testing.T, e *sweeps.Env, o sweeps.Options, names ...string) []sweeps.Scenario {
	t.Helper()
	all, err := sweeps.List(e, names, o)
	require.NoError(t, err)
	return all
}

func ids(all []sweeps.Scenario) []string {
	var ids []string
	for i := range all {
		ids = append(ids, all[i].ID().String())
	}
	return ids
}

// The parts of a list are the whole, with no scenario twice, in the list's order, of
// nearly equal work.
func TestShards(t *testing.T) {
	whole := slices.Concat(list(t, softEnv(t), options(), sweeps.Names()...), list(t, cpuEnv(t), options(), sweeps.Names()...))
	want := ids(whole)
	require.Greater(t, len(want), 150)
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(want))), len(want), "an identity occurs once")
	for _, n := range []int{1, 2, 3, 7} {
		var got []string
		var work []int64
		var total int64
		for i := 1; i <= n; i++ {
			part := sweeps.Shard(whole, i, n)
			got = append(got, ids(part)...)
			at := -1
			var sum int64
			for j := range part {
				next := slices.Index(want, part[j].ID().String())
				require.Greater(t, next, at, "in the order of the list")
				at = next
				sum += part[j].Work
			}
			work, total = append(work, sum), total+sum
		}
		require.ElementsMatch(t, want, got, "%d shards", n)
		for i, w := range work {
			require.InEpsilon(t, float64(total)/float64(n), float64(w), 0.2, "shard %d/%d", i+1, n)
		}
	}
	require.Empty(t, sweeps.Shard(whole[:2], 3, 3), "more shards than scenarios")
}

// Every lever has one scenario, both of whose sides are live, and differ in it alone.
func TestEveryLeverOnce(t *testing.T) {
	var want, got []string
	for _, v := range lever.All {
		if v.Kind == lever.KindLever {
			want = append(want, v.Name)
		}
	}
	for _, s := range list(t, softEnv(t), options(), "levers") {
		got = append(got, s.Lever)
		v, ok := lever.Find(s.Lever)
		require.True(t, ok)
		require.Len(t, s.Sides, 2)
		for _, side := range s.Sides {
			require.True(t, v.Live(side.Levers), "%s: %s", s.Lever, side.Name)
			value := v.Get(side.Levers)
			if value == "" {
				value = "auto"
			}
			require.Equal(t, s.Lever+"="+value, side.Name)
		}
		require.NotEqual(t, v.Get(s.Sides[0].Levers), v.Get(s.Sides[1].Levers))
		for _, other := range lever.All {
			if other.Name != s.Lever {
				require.Equal(t, other.Get(s.Sides[0].Levers), other.Get(s.Sides[1].Levers), "%s beside %s", other.Name, s.Lever)
			}
		}
		require.Equal(t, s.Differs == "", s.Kernels, s.Lever)
	}
	require.ElementsMatch(t, want, got)
}

// On a device with memory of its own nothing keeps weights in place, which is said, and
// the GEMM is live only from its threshold on.
func TestLeversOfADevice(t *testing.T) {
	e := newSoft(t.TempDir(), nil)
	t.Cleanup(e.Close)
	e.Device.CopiesWeights, e.Device.GEMMFrom = true, 50_000
	r := sweeps.NewRunner(options())
	defer r.Close()
	levers := list(t, e, options(), "levers")
	require.Len(t, levers, 11)
	weights := list(t, e, options(), "weights")
	require.NotEmpty(t, weights)
	for _, s := range slices.Concat(levers, weights) {
		if s.Lever == "MINFER_WEIGHT_COPY" {
			_, err := r.Run(t.Context(), s)
			require.ErrorIs(t, err, sweeps.ErrUnsupported)
			require.EqualError(t, err, s.ID().String()+": unsupported: the device has memory of its own and copies all weights into it")
		}
		if s.Lever == "MINFER_GEMM" {
			require.Contains(t, s.ID().String(), "pp=66 ", "768 outputs times 66 tokens") // 65 fall short
		}
	}
}

// A setting of the environment that takes a lever's effect away does not: what the
// lever needs is set for both sides.
func TestLeversStayLive(t *testing.T) {
	o := options()
	o.Levers.NoFlash, o.Levers.NoPrefillFlash, o.Levers.AttnChunks = true, true, 5
	o.PP = []int{3}
	for _, s := range list(t, softEnv(t), o, "levers") {
		v, _ := lever.Find(s.Lever)
		require.True(t, v.Live(s.Sides[1].Levers), s.Lever)
		if s.Lever == "MINFER_GEMM" {
			require.Equal(t, "9", s.Params[0].Value, "the tokens from which the GEMM is taken")
		}
	}
	o.Levers.DisableMPS = true
	_, err := sweeps.List(softEnv(t), []string{"levers"}, o)
	require.EqualError(t, err, "sweep levers: MINFER_NO_FLASH is not live here: it is on the Metal backend")
}

// measured runs scenarios and checks what every record must have.
func measured(t *testing.T, r *sweeps.Runner, all []sweeps.Scenario) []*harness.Record {
	t.Helper()
	require.NotEmpty(t, all)
	var records []*harness.Record
	for _, s := range all {
		rec, err := r.Run(t.Context(), s)
		require.NoError(t, err)
		id := s.ID().String()
		onSoft := strings.HasSuffix(id, "device=soft")
		require.True(t, sweeps.Holds(rec), "%s: %v", id, rec.Warnings)
		if s.Op == "hold" {
			require.Empty(t, rec.Limits, id)
		} else if onSoft { // where matrices have a limit too
			require.Len(t, rec.Limits, 3, id)
		} else {
			require.Len(t, rec.Limits, 2, id)
		}
		for _, l := range rec.Limits {
			require.Positive(t, l.Rate, id)
		}
		for i := range rec.Sides {
			m := &rec.Sides[i]
			require.Len(t, m.Seconds, 1, id)
			require.Positive(t, m.Median, id)
			require.Positive(t, m.Inner, id)
			require.Positive(t, m.Work.Bytes, id)
			if s.Op != "hold" {
				require.NotNil(t, m.Check, id)
				require.Positive(t, m.Check.N, id)
				share, _ := rec.Share(i)
				require.Positive(t, share, id)
			}
			if !onSoft {
				require.Empty(t, m.Pipelines, id)
				require.Nil(t, m.Counters, id)
				continue
			}
			require.NotEmpty(t, m.Pipelines, id)
			require.GreaterOrEqual(t, m.Counters.Dispatches, int64(len(m.Pipelines)), id)
			require.Positive(t, m.Counters.Instructions, id)
			require.InEpsilon(t, float64(m.Counters.BytesRead+m.Counters.BytesWritten)/rec.GPU.Read, m.GPUSeconds, 1e-12, id)
		}
		if len(rec.Sides) == 2 {
			require.NotNil(t, rec.AB, id)
			require.Len(t, rec.AB.Rounds, 1, id)
			require.Regexp(t, "^[0-9a-f]{64}$", rec.Sides[0].Greedy, id)
			require.Regexp(t, "^[0-9a-f]{64}$", rec.Sides[1].Greedy, id)
			if s.Kernels {
				require.NotEqual(t, rec.Sides[0].Pipelines, rec.Sides[1].Pipelines, id)
				require.Equal(t, rec.Sides[0].Greedy, rec.Sides[1].Greedy, id)
				require.NotNil(t, rec.Check, id)
			} else {
				require.NotEmpty(t, rec.Differs, id)
			}
		}
		records = append(records, rec)
	}
	return records
}

// Every sweep runs on the software device, on small settings.
func TestSweepsOnSoft(t *testing.T) {
	e := softEnv(t)
	o := options()
	o.PP, o.TG, o.KV = []int{4}, []int{1}, []int{5}
	o.Types = []string{"q4_0"}
	r := sweeps.NewRunner(o)
	defer r.Close()
	seen := map[string][]*harness.Record{}
	for _, name := range sweeps.Names() {
		all := list(t, e, o, name)
		// Of the models' two head sizes, the smaller one.
		all = slices.DeleteFunc(all, func(s sweeps.Scenario) bool {
			id := s.ID().String()
			return strings.Contains(id, "hd=128") || strings.Contains(id, "qwen3") || strings.Contains(id, "m=4096") || strings.Contains(id, "d=4096")
		})
		seen[name] = measured(t, r, all)
	}

	// Attention has its five variants, decode and prefill.
	var kernels []string
	for _, rec := range seen["attention"] {
		for _, m := range rec.Sides {
			kernels = append(kernels, m.Pipelines...)
		}
	}
	for _, variant := range []string{"flash_decode_64", "split_64", "classic", "prefill_flash_64", "parallel_scores"} {
		require.Contains(t, kernels, "attention f16 "+variant)
	}

	// Weights: one file part read in place, or a copy of each.
	hold := seen["weights"][0]
	require.Equal(t, "hold", hold.Op)
	require.Regexp(t, `^memory that the weights lie in: A \d+ weights in place and \d+ copied \(\d+ bytes\), B 0 weights in place and \d+ copied`, hold.Differs)

	// Counters are the same in every run.
	again, err := r.Run(t.Context(), list(t, e, o, "attention")[0])
	require.NoError(t, err)
	for i := range again.Sides {
		require.Equal(t, seen["attention"][0].Sides[i].Counters, again.Sides[i].Counters)
	}
	require.Len(t, seen["levers"], 11)
	require.Equal(t, "q4_0", seen["decode"][0].Model.Type)
	// Held against float64 over what each side's own cache holds: a reference that rounds
	// by itself is further off where a value lies near a tie.
	at := slices.IndexFunc(seen["levers"], func(r *harness.Record) bool { return r.Lever == "MINFER_CACHE_TYPE" })
	for _, m := range seen["levers"][at].Sides {
		require.Less(t, float64(m.Check.NMSE), 1e-11, m.Name)
	}
	require.Regexp(t, "^[0-9a-f]{64}$", seen["decode"][0].Model.SHA256)
}

// The CPU has no levers but the cache's type, and refuses a q8_0 cache.
func TestSweepsOnCPU(t *testing.T) {
	e := cpuEnv(t)
	o := options()
	o.PP, o.TG, o.KV = []int{4}, []int{1}, []int{33}
	r := sweeps.NewRunner(o)
	defer r.Close()
	all := list(t, e, o, sweeps.Names()...)
	all = slices.DeleteFunc(all, func(s sweeps.Scenario) bool { return strings.Contains(s.ID().String(), "qwen3") })
	for _, rec := range measured(t, r, all) {
		require.Equal(t, rec.Sweep == "levers", len(rec.Sides) == 2, rec.Key())
	}
	o.CacheTypes = []gguf.Type{gguf.Q8_0}
	_, err := r.Run(t.Context(), list(t, e, o, "attention")[0])
	require.ErrorIs(t, err, sweeps.ErrUnsupported)
	require.EqualError(t, err, "attention/attention hd=64 n_head=4 n_head_kv=2 n_kv=33 n_tokens=1 kv_type=q8_0 device=cpu: unsupported: CPU has no attention of q8_0")
	o.CacheTypes, o.KV = nil, []int{4000}
	_, err = r.Run(t.Context(), list(t, e, o, "decode")[0])
	require.ErrorIs(t, err, sweeps.ErrUnsupported)
}

// A lever whose sides dispatch the same kernels is an error that names them.
func TestDeadLever(t *testing.T) {
	e := softEnv(t)
	o := options()
	s := list(t, e, o, "rmsnorm")[0]
	s.Sides[1].Levers = s.Sides[0].Levers
	r := sweeps.NewRunner(o)
	defer r.Close()
	_, err := r.Run(t.Context(), s)
	require.EqualError(t, err, "rmsnorm/rms_norm d=256 rows=1 eps=1e-06 lever=MINFER_NO_RMS_256 values=0|1 device=soft: "+
		"both sides dispatched rms_norm 256: want different kernels, or MINFER_NO_RMS_256 is not live here")
	for _, s := range list(t, e, o, "levers") {
		if s.Lever == "MINFER_ATTN_CHUNKS" {
			s.Sides[1].Levers = s.Sides[0].Levers
			_, err := r.Run(t.Context(), s)
			require.ErrorContains(t, err, "both sides counted the same: want another number of KV chunks, or MINFER_ATTN_CHUNKS is not live here")
		}
	}
	s = list(t, e, o, "weights")[0]
	s.Sides[1].Levers = s.Sides[0].Levers
	_, err = r.Run(t.Context(), s)
	require.ErrorContains(t, err, "both sides have 50 weights in place and 12 copied")
	require.ErrorContains(t, err, "want weights in place and copies")
}

// A kernel that computes something else is measured, but does not hold, against the
// reference and against the other side.
func TestWrongKernel(t *testing.T) {
	e := newSoft(t.TempDir(), suitetest.Kernels(t, suitetest.Fault{File: "norm.metal",
		Old: "rsqrt(sum / float(p.cols) + p.eps), p, lane, 32)", New: "1.01f * rsqrt(sum / float(p.cols) + p.eps), p, lane, 32)"}))
	defer e.Close()
	o := options()
	r := sweeps.NewRunner(o)
	defer r.Close()
	rec, err := r.Run(t.Context(), list(t, e, o, "rmsnorm")[0])
	require.NoError(t, err)
	require.False(t, sweeps.Holds(rec))
	require.True(t, rec.Sides[0].Check.OK())
	require.False(t, rec.Sides[1].Check.OK())
	require.False(t, rec.Check.OK())
	all := strings.Join(rec.Warnings, "\n")
	require.Contains(t, all, "the output of MINFER_NO_RMS_256=1 does not hold: ")
	require.Contains(t, all, "the sides' outputs differ: ")

	// In a whole model it shows in the logits.
	for _, s := range list(t, e, o, "levers") {
		if s.Lever == "MINFER_NO_RMS_256" {
			rec, err := r.Run(t.Context(), s)
			require.NoError(t, err)
			require.True(t, rec.Sides[0].Check.OK())
			require.False(t, rec.Sides[1].Check.OK())
		}
	}
}

// stopwatch is a device whose timers say that a submit took a second.
type stopwatch struct{ mtl.Device }

func (d stopwatch) NewCommandBuffer(label string) (mtl.CommandBuffer, error) {
	cb, err := d.Device.NewCommandBuffer(label)
	return stopped{cb}, err
}

type stopped struct{ mtl.CommandBuffer }

func (c stopped) Submit(ctx context.Context) (mtl.Timing, error) {
	_, err := c.CommandBuffer.Submit(ctx)
	return mtl.Timing{GPU: time.Second}, err
}

// A device's own times are beside the wall's, of one execution too.
func TestDeviceTimes(t *testing.T) {
	e := newSoft(t.TempDir(), nil)
	defer e.Close()
	open := e.Device.Open
	e.Device.Open = func(threads int) (mtl.Device, error) {
		d, err := open(threads)
		return stopwatch{d}, err
	}
	o := options()
	o.Reps, o.Round = 3, time.Millisecond
	r := sweeps.NewRunner(o)
	defer r.Close()
	for _, s := range list(t, e, o, "rmsnorm")[:1] {
		rec, err := r.Run(t.Context(), s)
		require.NoError(t, err)
		for _, m := range rec.Sides {
			require.Greater(t, m.Inner, 1)
			require.Len(t, m.DeviceS, 3)
			for _, d := range m.DeviceS {
				require.InEpsilon(t, 1/float64(m.Inner), d, 1e-9)
			}
		}
	}
}

// weightBytes is the size of the matrix of TestWeightsTakeTurns: 256 x 256 in blocks of
// 32 weights, 18 bytes each.
const weightBytes = 256 * 256 / 32 * 18

// watched is a device that notes from which buffers its dispatches read.
type watched struct {
	mtl.Device
	read map[mtl.Buffer]bool
}

func (d *watched) NewCommandBuffer(label string) (mtl.CommandBuffer, error) {
	cb, err := d.Device.NewCommandBuffer(label)
	return watching{cb, d}, err
}

type watching struct {
	mtl.CommandBuffer
	d *watched
}

func (c watching) Dispatch(d mtl.Dispatch) error {
	for _, b := range d.Bindings {
		if strings.Contains(d.Pipeline.Kernel(), "mul_mat") && b.Length == weightBytes {
			c.d.read[b.Buffer] = true
		}
	}
	return c.CommandBuffer.Dispatch(d)
}

// On a device with memory of its own a product goes over copies of its weights, until
// they are as many bytes as no cache holds; elsewhere over the one that it has.
func TestWeightsTakeTurns(t *testing.T) {
	for _, copies := range []bool{true, false} {
		e := newSoft(t.TempDir(), nil)
		defer e.Close()
		e.Device.CopiesWeights = copies
		w := &watched{read: map[mtl.Buffer]bool{}}
		open := e.Device.Open
		e.Device.Open = func(threads int) (mtl.Device, error) {
			var err error
			w.Device, err = open(threads)
			return w, err
		}
		o := options()
		o.Types, o.PP, o.Reps, o.Round = []string{"q4_0"}, []int{16}, 3, 5*time.Millisecond
		o.WeightBytes = 100_000
		r := sweeps.NewRunner(o)
		defer r.Close()
		all := list(t, e, o, "matmul")
		at := slices.IndexFunc(all, func(s sweeps.Scenario) bool { return strings.Contains(s.ID().String(), "m=256 n=1 k=256 ") })
		rec, err := r.Run(t.Context(), all[at])
		require.NoError(t, err)
		require.True(t, sweeps.Holds(rec), rec.Warnings)
		m := rec.Sides[0]
		if !copies {
			require.Zero(t, m.WeightSet)
			require.Len(t, w.read, 1)
			continue
		}
		require.Greater(t, m.Inner, 3)
		require.Len(t, w.read, 3, "twice the matrix are fewer than 100,000 bytes")
		require.EqualValues(t, 3*weightBytes, m.WeightSet)
		rec, err = r.Run(t.Context(), list(t, e, o, "rmsnorm")[0])
		require.NoError(t, err)
		require.Zero(t, rec.Sides[0].WeightSet, "a vector of weights is small")
	}
}

// An interrupt ends a scenario soon, without a record.
func TestInterrupt(t *testing.T) {
	o := options()
	r := sweeps.NewRunner(o)
	defer r.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, name := range []string{"attention", "weights", "prefill", "decode"} {
		rec, err := r.Run(ctx, list(t, softEnv(t), o, name)[0])
		require.ErrorIs(t, err, context.Canceled, name)
		require.Nil(t, rec, name)
	}
}

func TestLists(t *testing.T) {
	for s, want := range map[string][]int{
		"1": {1}, "1,8,64": {1, 8, 64}, "1-4": {1, 2, 3, 4}, "128-512*2": {128, 256, 512}, "64-256+64": {64, 128, 192, 256},
		"5-5": {5}, "3,1-4": {3, 1, 2, 4}, "1-9*3,9": {1, 3, 9}, " 2, 4 ": {2, 4}, "100-250*2": {100, 200},
	} {
		got, err := sweeps.ParseInts(s, 0, 1000)
		require.NoError(t, err, s)
		require.Equal(t, want, got, s)
	}
	const want = "want numbers and ranges such as 1,8,64 or 1-4 or 128-512*2"
	for s, text := range map[string]string{
		"":               `"": "": ` + want,
		"a":              `"a": "a": ` + want,
		"1,":             `"1,": "": ` + want,
		"-1":             `"-1": "-1": ` + want,
		"1-":             `"1-": "1-": ` + want,
		"1-9*1":          `"1-9*1": "1-9*1": ` + want,
		"0-9*2":          `"0-9*2": "0-9*2": ` + want,
		"1-9+0":          `"1-9+0": "1-9+0": ` + want,
		"1-9*x":          `"1-9*x": "1-9*x": ` + want,
		"9-1":            `"9-1": "9-1": the range ends below its start`,
		"0,3":            `"0,3": 0: want 1 to 1000`,
		"1-1000+500,2e3": `"1-1000+500,2e3": "2e3": ` + want,
		"1001":           `"1001": 1001: want 1 to 1000`,
		"1-99999999":     `"1-99999999": "1-99999999": more than 1000 numbers`,
	} {
		_, err := sweeps.ParseInts(s, 1, 1000)
		require.EqualError(t, err, text)
	}
	// The last step does not run past the largest integer.
	got, err := sweeps.ParseInts(fmt.Sprintf("4611686018427387904-%d*2", 1<<63-1), 1, 1<<63-1)
	require.NoError(t, err)
	require.Equal(t, []int{1 << 62}, got)
}

func TestGPUs(t *testing.T) {
	g, err := sweeps.FindGPU("H100")
	require.NoError(t, err)
	require.Equal(t, harness.GPU{Name: "h100", Read: 3.35e12}, g)
	_, err = sweeps.FindGPU("voodoo")
	require.EqualError(t, err, `unknown GPU "voodoo": want one of `+strings.Join(sweeps.GPUNames(), ", "))
}

func TestUnknownSweep(t *testing.T) {
	_, err := sweeps.List(cpuEnv(t), []string{"attn"}, options())
	require.EqualError(t, err, `unknown sweep "attn": want one or more of attention, matmul, rmsnorm, kv, fusion, weights, levers, prefill, decode, or all`)
	o := options()
	o.Types = []string{"q4_K_M"}
	_, err = sweeps.List(cpuEnv(t), []string{"matmul"}, o)
	require.EqualError(t, err, `sweep matmul: --types "q4_K_M": a single op takes one type of weights such as q4_0, no mix`)
}

func FuzzParseInts(f *testing.F) {
	for _, s := range []string{"1,8,64", "128-512*2", "1-4", "9-1", "1-99999999", "--", "9223372036854775807-9223372036854775807"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := sweeps.ParseInts(s, 1, 1<<20)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.NotEmpty(t, got)
		require.LessOrEqual(t, len(got), 1000)
		for i, n := range got {
			require.True(t, n >= 1 && n <= 1<<20)
			require.NotContains(t, got[:i], n)
		}
	})
}
