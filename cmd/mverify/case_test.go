package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/harness"
	"minfer/suites/safety"
)

// Each outcome has its exit code; bad input is one line.
func TestExitCodes(t *testing.T) {
	page := "../../docs/examples/"
	code, _, _ := mverify(t, "case", page+"softmax-256-fixed.json")
	require.Equal(t, harness.ExitHeld, code)
	code, out, _ := mverify(t, "case", page+"softmax-256.json", page+"softmax-256-fixed.json")
	require.Equal(t, harness.ExitFailed, code)
	require.Contains(t, out, "1 of 2 cases held\n")
	code, _, _ = mverify(t, "case", "--mode", "mem", page+"softmax-256.json")
	require.Equal(t, harness.ExitHeld, code, "mode mem looks for no races")

	for _, c := range []struct{ args, want string }{
		{"case", "0 arguments, want 1 (see --help)"},
		{"case nosuch.json", "nosuch.json: no such file or directory"},
		{"case a.metal", "case: a.metal: found Metal source, want a launch case (mverify init a.metal writes one)"},
		{"case --mode fast x.json", `--mode: sanitizer mode: found "fast", want off, mem, race, strict or chaos`},
		{"case --format yaml x.json", `--format "yaml": want one of text, json, jsonl, junit, sarif, github`},
		{"case --threads 0 x.json", "--threads 0"},
		{"case --baseline nosuch.json " + page + "softmax-256.json", "--baseline: open nosuch.json"},
		{"init nosuch.metal", "nosuch.metal"},
		{"init " + page + "softmax.metal --kernel no --out -", `--kernel "no": want one of softmax_rows`},
	} {
		code, _, stderr := mverify(t, strings.Fields(c.args)...)
		require.Equal(t, harness.ExitBadInput, code, c.args)
		require.Contains(t, stderr, c.want)
		require.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %s", stderr)
	}
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.json")
	require.NoError(t, os.WriteFile(broken, []byte(`{"source": "a.metal", "dispatches": [], "buffers": {}}`), 0o644))
	code, _, stderr := mverify(t, "case", broken)
	require.Equal(t, harness.ExitBadInput, code)
	require.Equal(t, "mverify: "+broken+": dispatches: found a list of 0, want 1 to 4096 dispatches\n", stderr)
	// A source that does not compile is a case that does not hold.
	require.NoError(t, os.WriteFile(broken, []byte(`{"source": "a.metal", "buffers": {}, "dispatches": [{"kernel": "f", "threadgroups": [1], "threads_per_threadgroup": [1]}]}`), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.metal"), []byte("kernel void f() {\n    undeclared();\n}\n"), 0o644))
	code, out, _ = mverify(t, "case", broken)
	require.Equal(t, harness.ExitFailed, code)
	require.Contains(t, out, "compile-error at a.metal:2:5")
	// An existing file is left alone.
	code, _, stderr = mverify(t, "init", page+"softmax.metal", "--out", broken)
	require.Equal(t, harness.ExitBadInput, code)
	require.Contains(t, stderr, "a file that exists is left alone")
}

func TestCaseFormats(t *testing.T) {
	file := "../../docs/examples/softmax-256.json"
	code, out, _ := mverify(t, "case", "--format", "json", file)
	require.Equal(t, harness.ExitFailed, code)
	var report struct {
		Cases []struct {
			Case     string
			Held     bool
			Reason   string
			Findings []struct {
				ID, Kind, Severity, Between, Argument string
				Count                                 int
				Sides                                 []struct{ Line, Lane, Simdgroup int }
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Len(t, report.Cases, 1)
	f := report.Cases[0].Findings[0]
	require.Equal(t, []string{"threadgroup-race", "error", "simdgroups", "scratch"}, []string{f.Kind, f.Severity, f.Between, f.Argument})
	require.Len(t, f.Sides, 2)
	for _, format := range []string{"jsonl", "junit"} {
		code, out, _ := mverify(t, "case", "--mode", "race", "--format", format, file)
		require.Equal(t, harness.ExitFailed, code)
		require.Contains(t, out, "threadgroup-race")
		require.Contains(t, out, "mverify case --mode race "+file, "the command that repeats it")
		if format == "junit" {
			require.Contains(t, out, `<testcase name="`+file+`" classname="case" time="`)
		} else {
			require.Contains(t, out, `"command":"mverify case --mode race --format jsonl `+file)
		}
	}
	// What code hosts read has the kernel's file and line, from where the command ran.
	for _, format := range []string{"sarif", "github"} {
		code, out, _ := mverify(t, "case", "--format", format, file, "../../docs/examples/softmax-256-fixed.json")
		require.Equal(t, harness.ExitFailed, code)
		if format == "github" {
			abs, err := filepath.Abs("../../docs/examples/softmax.metal")
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(out, "::error file="+filepath.ToSlash(abs)+",line=26,col=24,title=threadgroup-race::write and read"), out)
			require.Equal(t, 1, strings.Count(out, "::error"), "the case that held is no annotation")
		} else {
			require.Contains(t, out, `"ruleId": "threadgroup-race"`)
			require.Contains(t, out, `"startLine": 34`, "the other side")
		}
	}
	t.Run("from the root", func(t *testing.T) {
		t.Chdir("../..")
		_, out, _ := mverify(t, "case", "--format", "github", "docs/examples/softmax-256.json")
		require.Contains(t, out, "::error file=docs/examples/softmax.metal,line=26,")
		// A fault that is expected and not found has the case's own file.
		_, out, _ = mverify(t, "case", "--format", "github", "--mode", "off", "suites/safety/testdata/cases/01-tile-reload.json")
		require.Contains(t, out, "::error file=suites/safety/testdata/cases/01-tile-reload.json,line=1,title=launch-case::")
	})
	path := filepath.Join(t.TempDir(), "report.txt")
	_, out, _ = mverify(t, "case", "--out", path, file)
	require.Empty(t, out)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(data), "0 of 1 cases held")
}

// The suite safety lists one case for each file of the collection.
func TestSafetySuite(t *testing.T) {
	code, out, _ := mverify(t, "--suite", "safety", "--list")
	require.Equal(t, harness.ExitHeld, code)
	cases, err := safety.Suite{}.Cases(nil)
	require.NoError(t, err)
	require.Equal(t, len(cases), strings.Count(out, "\n"))
	require.Contains(t, out, "safety/01-tile-reload mode=strict expect=threadgroup-race\n")
}
