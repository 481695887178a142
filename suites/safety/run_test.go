package safety

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/harness"
	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/metal/mtl/soft/san"
)

func open(threads int) Opener {
	return func(mode san.Mode, report func(*san.Report)) (mtl.Device, error) {
		return soft.New(soft.Options{Mode: mode, Threads: threads, Seed: 1, Report: func(_ string, r *san.Report) { report(r) }})
	}
}

// Every case of the collection gets its verdict, and its report is the same, to
// the byte, for one and for three threads.
func TestCases(t *testing.T) {
	cases, err := Suite{Open: open(1)}.Cases(nil)
	require.NoError(t, err)
	fsys := Collection()
	for _, c := range cases {
		t.Run(c.ID.Op, func(t *testing.T) {
			folder := "cases"
			if c.ID.Op >= "1" && len(c.ID.Op) > 3 && c.ID.Op[3] == '-' {
				folder = "own"
			}
			name := folder + "/" + c.ID.Op + ".json"
			k, err := Load(fsys, name, name)
			require.NoError(t, err)
			var first string
			for _, threads := range []int{1, 3} {
				r := &Runner{Open: open(threads), FS: fsys, Deadline: 10 * time.Second}
				if k.Expect[0] == san.KindTimeout {
					r.Deadline = 200 * time.Millisecond
				}
				report, err := r.Run(context.Background(), k)
				require.NoError(t, err)
				v := Judge(k, report, nil)
				var b strings.Builder
				require.NoError(t, report.WriteText(&b, true))
				require.True(t, v.Held, "%s\n%s", v.Reason, b.String())
				b.Reset()
				require.NoError(t, report.WriteJSON(&b))
				if first == "" {
					first = b.String()
				}
				require.Equal(t, first, b.String(), "the report with %d threads", threads)
			}
		})
	}
}

// A case that expects what is not there fails, with its findings as details.
func TestCheck(t *testing.T) {
	fsys := Collection()
	c, err := Load(fsys, "cases/19-store-past-last-row.json", "19.json")
	require.NoError(t, err)
	r := &Runner{Open: open(1), FS: fsys}
	c.Expect, c.Where = []string{Clean}, nil
	result, report, err := CheckReport(context.Background(), r, c, nil)
	require.NoError(t, err)
	require.Equal(t, harness.Fail, result.Outcome)
	require.Equal(t, "expected clean, found out-of-bounds at 19-store-past-last-row.metal:21:13", result.Reason)
	require.Contains(t, strings.Join(result.Details, "\n"), "y[first + r] = acc;")
	result, _, err = CheckReport(context.Background(), r, c, map[string]bool{report.Findings[0].ID: true})
	require.NoError(t, err)
	require.Equal(t, harness.Pass, result.Outcome, "known")

	off := san.Off
	r.Mode = &off
	result, report, err = CheckReport(context.Background(), r, c, nil)
	require.NoError(t, err)
	require.Equal(t, harness.Pass, result.Outcome)
	require.Empty(t, report.Findings)

	c.Dispatches[0].Kernel = "five_row_product"
	_, err = r.Run(context.Background(), c)
	require.EqualError(t, err, `19.json: dispatches[0].kernel: found "five_row_product", want one of four_row_product`)
}

// Values are compared in mode off too.
func TestValuesWithoutSanitizer(t *testing.T) {
	fsys := Collection()
	off := san.Off
	r := &Runner{Open: open(1), FS: fsys, Mode: &off}
	for name, want := range map[string]int{"45-last-block-dropped": 1, "45-last-block-dropped-fixed": 0} {
		c, err := Load(fsys, "cases/"+name+".json", name)
		require.NoError(t, err)
		report, err := r.Run(context.Background(), c)
		require.NoError(t, err)
		require.Equal(t, want, min(1, report.Errors()), name)
	}
}

// The skeleton of every kernel of the collection is a case that parses, compiles
// and can be launched.
func TestSkeleton(t *testing.T) {
	fsys := Collection()
	device, err := open(1)(san.Off, func(*san.Report) {})
	require.NoError(t, err)
	defer device.Close()
	for _, name := range []string{"cases/06-epilogue-over-tiles", "cases/12-no-barrier-read-after-write", "own/309-optional-argument", "own/303-atomics", "own/101-helper-called-twice"} {
		c, err := Load(fsys, name+".json", name)
		require.NoError(t, err)
		lib, err := device.Compile(context.Background(), mtl.Source{Name: c.Source, Text: c.Text, FastMath: true})
		require.NoError(t, err)
		text, err := Skeleton("k.metal", lib, lib.Kernels())
		require.NoError(t, err)
		require.NoError(t, readSchema(t).check(decode(t, string(text))), string(text))
		s, err := Parse("k.json", text)
		require.NoError(t, err, string(text))
		require.Len(t, s.Dispatches, len(lib.Kernels()))
		s.Source, s.Text = c.Source, c.Text
		mem := san.Mem
		report, err := (&Runner{Open: open(1), Mode: &mem}).Run(context.Background(), s)
		require.NoError(t, err)
		for _, f := range report.Findings {
			require.NotContains(t, []string{san.KindInvalidLaunch, san.KindTypeMismatch, san.KindCompileError}, f.Kind, fmt.Sprint(f.Message))
		}
		lib.Release()
	}
}
