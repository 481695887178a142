package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"minfer/cmd/internal/cli"
	"minfer/harness"
)

const mergeUsage = `
mverify merge joins the reports that the shards of one run wrote as json or jsonl,
and exits as the whole run would have. It refuses files of different commits,
commands or devices, and a set with a shard missing, unless told --force; a case
that occurs twice is an error.

usage: mverify merge FILE... [flags]
`

// manyFiles bounds the arguments that are files.
const manyFiles = 1 << 16

func mergeCommand(_ context.Context, s cli.Streams, args []string) (int, error) {
	var format, out string
	var force, verbose bool
	set := cli.Flags(s, "mverify merge", mergeUsage)
	set.StringVar(&format, "format", "text", "report format: "+strings.Join(harness.Formats, ", "))
	set.StringVar(&out, "out", "", "write the report to this file instead of stdout")
	set.BoolVar(&force, "force", false, "join files that are not of one run all the same, with a warning")
	set.BoolVarP(&verbose, "verbose", "v", false, "show passing cases too")
	if err := cli.Parse(set, args, 1, manyFiles); err != nil {
		return 0, err
	}
	if !slices.Contains(harness.Formats, format) {
		return 0, fmt.Errorf("unknown format %q: want one of %s", format, strings.Join(harness.Formats, ", "))
	}
	var files []harness.ReportFile
	for _, path := range set.Args() {
		data, err := os.ReadFile(path)
		if err != nil {
			return 0, err
		}
		report, err := harness.ReadReport(path, data)
		if err != nil {
			return 0, err
		}
		files = append(files, harness.ReportFile{Name: path, Report: report})
	}
	report, warnings, err := harness.MergeReports(files, force)
	if err != nil {
		return 0, err
	}
	for _, w := range warnings {
		fmt.Fprintln(s.Stderr, "mverify: "+w)
	}
	w, closeOut, err := openOut(s.Stdout, out)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(report.Write(w, format, verbose), closeOut()); err != nil {
		return 0, err
	}
	fmt.Fprintf(s.Stderr, "mverify: %s of %d reports\n", report.Summary(), len(files))
	return report.ExitCode(), nil
}

// modelHash names a model file by content: "base.gguf" and its SHA-256.
func modelHash(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Sprintf("%s %x", strings.ReplaceAll(filepath.Base(path), " ", "_"), h.Sum(nil)), nil
}
