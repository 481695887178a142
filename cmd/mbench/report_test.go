package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/harness"
)

// A folder of records, and files, become one page.
func TestReport(t *testing.T) {
	a := recordFile(t, "a.jsonl", 3, nil)
	b := recordFile(t, "b.jsonl", 3, func(_ int, r *harness.Record) {
		r.Provenance.Date = "2026-12-01T03:00:00Z"
		r.Provenance.Commit = "4567def"
	})
	out := filepath.Join(t.TempDir(), "r.html")
	code, stdout, errs := mbench(t, "report", filepath.Dir(a), b, "-o", out, "--title", "A & B")
	require.Equal(t, harness.ExitHeld, code, errs)
	require.Empty(t, stdout)
	require.Equal(t, "mbench: 6 records in "+out+"\n", errs)
	page, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Contains(t, string(page), "<h1>A &amp; B</h1>")
	require.Contains(t, string(page), "26-12-01 4567def", "history over both")
	code, stdout, _ = mbench(t, "report", a, b, "-o", "-", "--title", "A & B")
	require.Equal(t, harness.ExitHeld, code)
	require.Equal(t, string(page), stdout)
}

// Wrong uses of the commands over records.
func TestRecordCommandsRefuse(t *testing.T) {
	a := recordFile(t, "a.jsonl", 1, nil)
	dir := t.TempDir()
	for args, want := range map[string]string{
		"compare A":                     "1 arguments, want 2 (see --help)",
		"compare A A A":                 `unexpected argument "A" (see --help)`,
		"compare A DIR/none":            "open DIR/none: no such file or directory",
		"compare A A --format html":     `unknown format "html": want one of table, md, csv, json`,
		"compare A A --level 1":         "--level 1: want more than 0 and less than 1",
		"compare A A --gate -1":         "--gate -1: want percent, at least 0",
		"compare A A --out DIR":         "--out: open DIR: is a directory",
		"merge":                         "0 arguments, want 1 (see --help)",
		"merge A --format table":        `unknown format "table": want one of ` + strings.Join(harness.RecordFormats, ", "),
		"report":                        "report: want files of records, or a folder of them",
		"report DIR":                    "DIR: no file of records in the folder: want .jsonl or .json",
		"report A -o DIR":               "--out: open DIR: is a directory",
		"results --records DIR":         "DIR: no file of records in the folder: want .jsonl or .json",
		"results --records A -o x y":    `unexpected argument "y" (see --help)`,
		"results --items DIR/none":      "open DIR/none: no such file or directory",
		"results --records A --items A": `A: json: cannot unmarshal object into Go value of type []results.Item`,
	} {
		words := strings.Fields(args)
		for i := range words {
			if words[i] == "A" {
				words[i] = a
			}
			words[i] = strings.Replace(words[i], "DIR", dir, 1)
		}
		if words[0] == "results" && !strings.Contains(args, "--records") {
			words = append(words, "--records", a)
		}
		code, stdout, errs := mbench(t, words...)
		require.Equal(t, harness.ExitBadInput, code, "%s: %s", args, errs)
		require.Empty(t, stdout, args)
		require.Equal(t, "mbench: "+want+"\n", strings.NewReplacer(dir, "DIR", a, "A").Replace(errs), args)
	}
}
