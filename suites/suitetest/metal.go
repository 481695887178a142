package suitetest

import (
	"bytes"
	"io/fs"
	"regexp"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"minfer/harness"
	"minfer/metal/kernels"
	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/metal/mtl/soft/san"
	"minfer/suites"
)

// Metal is an environment on the software Metal device under the sanitizer in mode
// strict, with the kernels of fsys; nil is the project's own.
func Metal(t testing.TB, fsys fs.FS) *suites.Env {
	env := &suites.Env{Seed: 1, Temp: t.TempDir(), Kernels: fsys, Device: suites.Device{
		Name: "soft (strict)", Checked: true,
		Open: func(threads int) (mtl.Device, error) {
			return soft.New(soft.Options{Mode: san.Strict, Threads: threads})
		},
	}}
	t.Cleanup(env.Close)
	return env
}

// Fault is a piece of a kernel file's text and what stands there instead.
type Fault struct{ File, Old, New string }

// Kernels are the project's kernels with faults, each put in the first place where
// its old text stands.
func Kernels(t testing.TB, faults ...Fault) fs.FS {
	edited := fstest.MapFS{}
	names, err := fs.Glob(kernels.FS, "*")
	require.NoError(t, err)
	for _, name := range names {
		text, err := fs.ReadFile(kernels.FS, name)
		require.NoError(t, err)
		for _, f := range faults {
			if f.File != name {
				continue
			}
			require.Contains(t, string(text), f.Old, "the fault's place is gone from %s", name)
			text = bytes.Replace(text, []byte(f.Old), []byte(f.New), 1)
		}
		edited[name] = &fstest.MapFile{Data: text}
	}
	return edited
}

// Planted is a fault in a kernel, the cases that must see it, and a part of what
// they must say.
type Planted struct {
	Name   string
	Faults []Fault
	Filter string
	Reason string // a part of every failure's reason
}

// atMost is how many cases of a fault run: a fault that is seen by one of them and
// not by the next is told apart from one that all see.
const atMost = 3

// Red runs the first cases that match each planted fault's filter: one at least
// must match, and all that are not refused by contract must fail for the reason
// given.
func Red(t *testing.T, s suites.Suite, list []Planted) {
	for _, p := range list {
		t.Run(p.Name, func(t *testing.T) {
			cases, err := s.Cases(Metal(t, Kernels(t, p.Faults...)))
			require.NoError(t, err)
			runner := harness.Runner{Filter: regexp.MustCompile(p.Filter)}
			chosen := runner.Select(cases)
			report, err := runner.Run(t.Context(), chosen[:min(atMost, len(chosen))])
			require.NoError(t, err)
			judged := 0
			for _, r := range report.Results {
				if r.Outcome == harness.Unsupported {
					continue
				}
				judged++
				require.Equal(t, harness.Fail, r.Outcome, "%s: %s", r.Case, r.Reason)
				require.Contains(t, r.Reason, p.Reason, r.Case)
			}
			require.NotZero(t, judged, "no case that is not refused matches %q", p.Filter)
		})
	}
}
