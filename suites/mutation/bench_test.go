package mutation

import (
	"context"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/harness"
	"minfer/metal/kernels"
	"minfer/suites"
	"minfer/suites/ops"
	"minfer/suites/suitetest"
)

// some is a part of the suite ops.
type some struct {
	suites.Suite
	filter string
}

func (s some) Cases(env *suites.Env) ([]harness.Case, error) {
	cases, err := s.Suite.Cases(env)
	runner := harness.Runner{Filter: regexp.MustCompile(s.filter)}
	return runner.Select(cases), err
}

// norms are cases of a norm by 256 threads and of its sibling by 32.
var norms = some{ops.Suite{}, "ops/rms_norm d=(113|1025) rows=(2|3 eps=1e-06$)"}

// newTestBench is a bench with those cases.
func newTestBench(t *testing.T, from suites.Suite) *bench {
	b, err := newBench(context.Background(), suitetest.Metal(t, nil), kernels.FS, []suites.Suite{from})
	require.NoError(t, err)
	t.Cleanup(b.close)
	return b
}

// edit is a mutant of one place of a kernel file.
func edit(t *testing.T, file, before, after string) *Mutant {
	data, err := fs.ReadFile(kernels.FS, file)
	require.NoError(t, err)
	text := string(data)
	at := strings.Index(text, before)
	require.GreaterOrEqual(t, at, 0, "the place is gone from %s", file)
	return &Mutant{Operator: "test", Edits: []Edit{{file, at, at + len(before), after}}, Units: []string{"norm.metal"}, before: text}
}

const normBarrier = "threadgroup_barrier(mem_flags::mem_threadgroup);"

func TestFates(t *testing.T) {
	b := newTestBench(t, norms)
	b.least = time.Second
	free, race := &Operator{Name: "test"}, &Operator{Name: "test", Race: true}
	for _, c := range []struct {
		name, file, before, after string
		op                        *Operator
		want                      fate
	}{
		{"it does not compile", "norm.metal", "rsqrt(sum", "rsqrt(summ", free, fate{uncompiled: true}},
		{"it has no pipeline", "norm.metal", "float part[8]", "float part[8200]", free, fate{uncompiled: true}},
		{"the code is the same", "norm.metal", "part[0] + part[1]", "part[1 - 1] + part[1]", free, fate{same: true}},
		{"a barrier that is left out is a race, whatever the values", "norm.metal", normBarrier, ";", race,
			fate{noticed: true, by: "race", family: "norm.metal", kernel: "kernel_rms_norm_256"}},
		{"a wrong value", "norm.metal", "(part[6] + part[7])", "(part[6] + part[6])", free,
			fate{noticed: true, by: "value", family: "norm.metal", kernel: "kernel_rms_norm_256"}},
		{"a finding", "norm.metal", "if (lane == 0) {\n        part[sg]", "if (lane == 0) {\n        part[sg + 1]", free,
			fate{noticed: true, by: "threadgroup-out-of-bounds", family: "norm.metal", kernel: "kernel_rms_norm_256"}},
		{"an endless loop", "norm.h", "for (; i < cols; i += stride) {", "for (; i < cols; i += 0) {", free,
			fate{noticed: true, by: "deadline", family: "norm.metal"}},
		{"no case has the shape", "norm.metal", "if (p.weighted != 0) {", "if (p.weighted != 0 && p.cols != 77) {", free,
			fate{family: "norm.metal"}},
		{"a wrong value is not a race", "norm.metal", "(part[6] + part[7])", "(part[6] + part[6])", race,
			fate{family: "norm.metal", kernel: "kernel_rms_norm_256"}},
		{"no case runs the entry point", "norm.metal", "group * 4 + sg", "group * 4", free,
			fate{family: "norm.metal", kernel: "kernel_qk_norm", why: "all 0 cases hold"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := b.try(context.Background(), edit(t, c.file, c.before, c.after), c.op, 1)
			require.NoError(t, err)
			if c.want.kernel == "" {
				got.kernel = ""
			}
			if c.want.why == "" {
				require.Equal(t, !got.noticed && !got.same && !got.uncompiled, got.why != "")
				got.why = ""
			}
			require.Equal(t, c.want, got)
		})
	}
	// Afterwards the kernels are the original's again.
	got, err := b.try(context.Background(), edit(t, "norm.metal", "float(p.cols) + p.eps", "float(p.cols) + p.eps * 1.0000001f"), free, 1)
	require.NoError(t, err)
	require.False(t, got.noticed)
}

// A mutant is seen by one entry point: the others keep the original's text.
func TestOneEntryPointAtATime(t *testing.T) {
	b := newTestBench(t, norms)
	seen := map[string]bool{}
	for seed := range uint64(6) {
		m := edit(t, "norm.h", "sum[j] += v * v;", "sum[j] += v;")
		m.Units = []string{"norm.metal", "epilogue.metal"}
		got, err := b.try(context.Background(), m, &Operator{}, seed)
		require.NoError(t, err)
		seen[got.kernel] = true
		require.Equal(t, strings.HasPrefix(got.kernel, "kernel_rms_norm"), got.noticed, got.kernel)
	}
	require.Greater(t, len(seen), 1)
}

// Cases that fail without a mutant are an error: nothing could be told.
func TestRedWithoutAMutant(t *testing.T) {
	fsys := suitetest.Kernels(t, suitetest.Fault{File: "norm.metal", Old: "(part[6] + part[7])", New: "(part[6] + part[6])"})
	_, err := newBench(context.Background(), suitetest.Metal(t, fsys), fsys, []suites.Suite{norms})
	require.ErrorContains(t, err, "without a mutant: ops/rms_norm d=")
	require.ErrorContains(t, err, "want green cases before a fault is planted")
}

// An operator of which too many survive fails, and the report shows each as a
// diff; one whose mutants are all noticed passes.
func TestSuite(t *testing.T) {
	env := suitetest.Metal(t, nil)
	report := suitetest.Run(t, Suite{Suites: []suites.Suite{norms}, Sample: 3}, env, "mutation/(drop_barrier|families)$")
	require.Len(t, report.Results, 2)
	res := report.Results[0]
	require.Equal(t, harness.Fail, res.Outcome)
	require.Contains(t, res.Reason, "of 3 mutants noticed")
	require.Contains(t, strings.Join(res.Details, "\n"), "survived: all 0 cases hold\n-")
	require.Equal(t, harness.Skipped, report.Results[1].Outcome)
	require.Contains(t, report.Results[1].Note, "noticed by family: ")

	cases, err := Suite{Suites: []suites.Suite{norms}}.Cases(env)
	require.NoError(t, err)
	require.Len(t, cases, len(Operators)+1)
	env.Device.Open = nil
	cases, err = Suite{}.Cases(env)
	require.NoError(t, err)
	require.Empty(t, cases)

	unchecked := suitetest.Metal(t, nil)
	unchecked.Device.Checked = false
	report = suitetest.Run(t, Suite{Suites: []suites.Suite{norms}}, unchecked, "mutation/drop_barrier$")
	require.Equal(t, harness.Skipped, report.Results[0].Outcome)
	require.Contains(t, report.Results[0].Reason, "want a device with a sanitizer")
}

// What is listed as equivalent counts for nothing.
func TestKnown(t *testing.T) {
	m := edit(t, "norm.metal", "(part[6] + part[7])", "(part[6] + part[6])")
	k := &Known{File: "norm.metal",
		Old: []string{"sum = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));"},
		New: []string{"sum = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[6]));"}, Why: "a test"}
	require.True(t, k.matches(m, "kernel_rms_norm_256"))
	r := &run{known: []*Known{k}}
	require.Equal(t, k, r.equivalent(m, "kernel_rms_norm_256"))
	for _, other := range []Known{{File: "norm.h", Old: k.Old, New: k.New}, {File: k.File, Old: k.New, New: k.New}, {File: k.File, Old: k.Old, New: k.Old},
		{File: k.File, Old: k.Old, New: k.New, Nth: 2}, {File: k.File, Old: k.Old, New: k.New, Kernel: "_32"}} {
		require.False(t, other.matches(m, "kernel_rms_norm_256"), "%v", other)
	}
}
