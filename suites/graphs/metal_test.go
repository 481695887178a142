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

// noWrap is a device that cannot wrap memory.
type noWrap struct{ mtl.Device }

func (d noWrap) Limits() mtl.Limits {
	l := d.Device.Limits()
	l.NoCopy = false
	return l
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
	env := metalEnv(t, nil)
	open := env.Device.Open
	env.Device.Open = func(threads int) (mtl.Device, error) {
		d, err := open(threads)
		return noWrap{d}, err
	}
	run(env, "weight_copy", "0 weights in place and ")
	run(env, "parts", "0 of 4 parts wrapped, 0 of ")

	// A kernel that is off by a little: the logits move past their bound.
	env = metalEnv(t, suitetest.Kernels(t, suitetest.Fault{File: "norm.metal", Old: "float(p.cols) + p.eps", New: "float(p.cols) + p.eps + 0.01f"},
		suitetest.Fault{File: "norm.metal", Old: "p.eps), p, tid, 256)", New: "p.eps + 0.01f), p, tid, 256)"}))
	run(env, "batches .*kv=f32 cut=11", "row 0 of the logits: ")
}
