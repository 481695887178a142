package graphs_test

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/harness"
	"minfer/metal/mtl"
	"minfer/suites"
	"minfer/suites/graphs"
	"minfer/suites/suitetest"
)

// metalEnv is a Metal environment with one model and a CPU backend beside.
func metalEnv(t *testing.T, kernels fs.FS) *suites.Env {
	env := suitetest.Metal(t, kernels)
	env.Models = suitetest.Models()[:1]
	env.Device.New = suitetest.Env(t, &suitetest.Backend{}).Device.New
	return env
}

// Without a fault every kind of case holds.
func TestMetal(t *testing.T) {
	env := metalEnv(t, nil)
	for _, filter := range []string{"one_split", "batches .*kv=f16 cut=3", "split .*on_cpu=(view|rope)", "split .*refused=every", "gate .*=(last|concat)", "weight_copy", "parts", "plan_reuse", "reset"} {
		report := suitetest.Run(t, graphs.Suite{}, env, filter)
		require.Equal(t, len(report.Results), report.Count(harness.Pass), "%s: %v", filter, report.Results)
	}
}

// limited is a device with other limits.
type limited struct {
	mtl.Device
	change func(*mtl.Limits)
}

func (d *limited) Limits() mtl.Limits {
	l := d.Device.Limits()
	d.change(&l)
	return l
}

// limit changes what the environment's devices say of themselves.
func limit(env *suites.Env, change func(*mtl.Limits)) {
	open := env.Device.Open
	env.Device.Open = func(threads int) (mtl.Device, error) {
		d, err := open(threads)
		return &limited{d, change}, err
	}
}

// A device that cannot read the host's memory has copies of all weights, and that is
// what the cases want of it.
func TestMetalWithoutWrapping(t *testing.T) {
	env := metalEnv(t, nil)
	limit(env, func(l *mtl.Limits) { l.NoCopy = false })
	report := suitetest.Run(t, graphs.Suite{}, env, "weight_copy|parts")
	require.Len(t, report.Results, 2)
	require.Equal(t, 2, report.Count(harness.Pass), "%v", report.Results)
}

// copying is a device that has a copy of what it should wrap.
type copying struct{ mtl.Device }

func (d copying) WrapNoCopy(data []byte, label string) (mtl.Buffer, error) {
	b, err := d.NewBuffer(len(data), label)
	if err != nil {
		return nil, err
	}
	return b, b.Write(0, data)
}

// Each fault breaks one promise, and the case of that promise goes red.
func TestMetalFaults(t *testing.T) {
	run := func(env *suites.Env, filter, want string) {
		t.Helper()
		results := suitetest.Run(t, graphs.Suite{}, env, filter).Results
		require.Len(t, results, 1)
		require.Equal(t, harness.Fail, results[0].Outcome)
		require.Contains(t, results[0].Reason, want)
	}
	// A kernel that is off by a little: the logits move past their bound.
	env := metalEnv(t, suitetest.Kernels(t, suitetest.Fault{File: "norm.metal", Old: "float(p.cols) + p.eps", New: "float(p.cols) + p.eps + 0.01f"},
		suitetest.Fault{File: "norm.metal", Old: "p.eps), p, tid, 256)", New: "p.eps + 0.01f), p, tid, 256)"}))
	run(env, "batches .*kv=f32 cut=11", "row 0 of the logits: ")

	// Weights are copied though the device could read them: file parts do not start on its
	// pages.
	env = metalEnv(t, nil)
	limit(env, func(l *mtl.Limits) { l.PageSize = 1 << 28 })
	run(env, "parts", " parts wrapped, ")
	// One that cuts file parts: each is more than one buffer, and a weight lies in none.
	env = metalEnv(t, nil)
	limit(env, func(l *mtl.Limits) { l.MaxBufferLength = 4 * l.PageSize })
	run(env, "weight_copy", "weights in place and ")
	// One that copies what it should wrap.
	env = metalEnv(t, nil)
	open := env.Device.Open
	env.Device.Open = func(threads int) (mtl.Device, error) {
		d, err := open(threads)
		return copying{d}, err
	}
	run(env, "weight_copy", "the device has a copy")
}
