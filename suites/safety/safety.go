// Package safety runs launch cases: small kernels, how to launch them, and what
// a checker must find, each faulty one with a clean twin. It holds the form
// ([Parse], [Load]), the [Runner] that launches a case on a device with a
// sanitizer, [Judge], the [Baseline] of known findings and the [Skeleton] of a
// new case; and the suite of the project's own collection. docs/launch-cases.md
// is the user's page.
//
// Order of use: Load, Runner.Run, Judge. The package executes nothing itself and
// knows no device: an [Opener] makes one for each case. A Runner may be used by
// several goroutines at once.
package safety

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"minfer/harness"
	"minfer/metal/mtl/soft/san"
	"minfer/suites"
)

//go:embed testdata/cases testdata/own
var collection embed.FS

//go:embed schema.json
var schema []byte

// Schema is the JSON Schema of launch cases.
func Schema() []byte { return append([]byte(nil), schema...) }

// Collection is the project's own cases: folders cases and own.
func Collection() fs.FS {
	sub, err := fs.Sub(collection, "testdata")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	return sub
}

// endless is how long a case of the collection that must not end may run.
const endless = time.Second

// Suite is the suite safety: every case of the collection.
type Suite struct {
	Open Opener
}

// Name implements [suites.Suite].
func (Suite) Name() string { return "safety" }

// Cases implements [suites.Suite].
func (s Suite) Cases(*suites.Env) ([]harness.Case, error) {
	fsys := Collection()
	var out []harness.Case
	for _, folder := range []string{"cases", "own"} {
		names, err := fs.Glob(fsys, folder+"/*.json")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			c, err := Load(fsys, name, name)
			if err != nil {
				return nil, err
			}
			out = append(out, harness.Case{
				ID: harness.ID{Suite: "safety", Op: strings.TrimSuffix(path.Base(name), ".json"), Params: []harness.Param{
					harness.P("mode", c.Mode), harness.P("expect", strings.Join(c.Expect, "|")),
				}},
				Work: 1,
				Run: func(ctx context.Context) (harness.Result, error) {
					r := &Runner{Open: s.Open, FS: fsys}
					if slices.Contains(c.Expect, san.KindTimeout) {
						r.Deadline = endless
					}
					return Check(ctx, r, c, nil)
				},
			})
		}
	}
	return out, nil
}

// Check runs and judges a case; the result's details are the report's text.
func Check(ctx context.Context, r *Runner, c *Case, known map[string]bool) (harness.Result, error) {
	result, _, err := check(ctx, r, c, known)
	return result, err
}

func check(ctx context.Context, r *Runner, c *Case, known map[string]bool) (harness.Result, *san.Report, error) {
	report, err := r.Run(ctx, c)
	if err != nil {
		return harness.Result{}, nil, err
	}
	v := Judge(c, report, known)
	result := harness.Passed()
	if !v.Held {
		result = harness.Failed("%s", v.Reason)
	}
	var text strings.Builder
	if err := report.WriteText(&text, true); err != nil {
		return result, nil, err
	}
	for _, line := range strings.Split(strings.TrimRight(text.String(), "\n"), "\n") {
		if line != "" {
			result.Details = append(result.Details, line)
		}
	}
	if n := len(v.Known); n > 0 {
		result.Details = append(result.Details, fmt.Sprintf("%d finding(s) are in the baseline", n))
	}
	result.Counts = []harness.Count{{Name: "findings", N: int64(len(report.Findings))}, {Name: "errors", N: int64(report.Errors())}}
	return result, report, nil
}

// CheckReport is Check that also hands out the report.
func CheckReport(ctx context.Context, r *Runner, c *Case, known map[string]bool) (harness.Result, *san.Report, error) {
	return check(ctx, r, c, known)
}
