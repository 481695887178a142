package graphs_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"minfer/harness"
	"minfer/metal/kernels"
	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/metal/mtl/soft/san"
	"minfer/suites"
	"minfer/suites/graphs"
	"minfer/suites/suitetest"
)

// metalEnv is an environment with one model and a software device.
func metalEnv(t *testing.T) *suites.Env {
	env := suitetest.Env(t, &suitetest.Backend{})
	env.Models = env.Models[:1]
	env.Device.Name, env.Device.Checked = "soft (strict)", true
	env.Device.Open = func(threads int) (mtl.Device, error) {
		return soft.New(soft.Options{Mode: san.Strict, Threads: threads})
	}
	t.Cleanup(env.Close)
	return env
}

// Without a fault every kind of case holds.
func TestMetal(t *testing.T) {
	env := metalEnv(t)
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
	env := metalEnv(t)
	open := env.Device.Open
	env.Device.Open = func(threads int) (mtl.Device, error) {
		d, err := open(threads)
		return noWrap{d}, err
	}
	run(env, "weight_copy", "0 weights in place and ")
	run(env, "parts", "0 of 4 parts wrapped, 0 of ")

	// A kernel that is off by a little: every logit moves past its bound.
	env = metalEnv(t)
	sources := fstest.MapFS{}
	files, err := fs.Glob(kernels.FS, "*.*")
	require.NoError(t, err)
	changed := false
	for _, f := range files {
		text, err := fs.ReadFile(kernels.FS, f)
		require.NoError(t, err)
		if f == "norm.metal" {
			broken := strings.ReplaceAll(string(text), "p.eps", "(p.eps + 0.01f)")
			changed = broken != string(text)
			text = []byte(broken)
		}
		sources[f] = &fstest.MapFile{Data: text}
	}
	require.True(t, changed)
	env.Kernels = sources
	run(env, "batches .*kv=f32 cut=11", "row 0 of the logits: ")
}
