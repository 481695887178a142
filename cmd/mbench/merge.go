package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"minfer/cmd/internal/cli"
	"minfer/harness"
)

const mergeUsage = `
mbench merge joins the records that the shards of one sweep wrote as json or jsonl.
It refuses files of different commits, models, commands or devices, and a set with
a shard missing, unless told --force; a scenario that occurs twice is an error.

usage: mbench merge FILE... [flags]
`

// manyFiles bounds the arguments that are files.
const manyFiles = 1 << 16

func mergeCommand(_ context.Context, s cli.Streams, args []string) (int, error) {
	var format, out string
	var force bool
	set := cli.Flags(s, "mbench merge", mergeUsage)
	set.StringVar(&format, "format", "jsonl", "output: "+strings.Join(harness.RecordFormats, ", "))
	set.StringVar(&out, "out", "", "write to this file instead of stdout")
	set.BoolVar(&force, "force", false, "join files that are not of one run all the same, with a warning")
	if err := cli.Parse(set, args, 1, manyFiles); err != nil {
		return 0, err
	}
	if !slices.Contains(harness.RecordFormats, format) {
		return 0, fmt.Errorf("unknown format %q: want one of %s", format, strings.Join(harness.RecordFormats, ", "))
	}
	var files []harness.RecordFile
	for _, path := range set.Args() {
		records, err := readRecords(path)
		if err != nil {
			return 0, err
		}
		files = append(files, harness.RecordFile{Name: path, Records: records})
	}
	records, warnings, err := harness.MergeRecords(files, force)
	if err != nil {
		return 0, err
	}
	for _, w := range warnings {
		fmt.Fprintln(s.Stderr, "mbench: "+w)
	}
	err = writeTo(s.Stdout, out, func(w io.Writer) error { return harness.WriteRecords(w, format, records) })
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(s.Stderr, "mbench: %d records of %d files\n", len(records), len(files))
	return harness.ExitHeld, nil
}

// expand gives the files that a list of files and folders names: of a folder, its
// files of records.
func expand(paths []string) ([]string, error) {
	var files []string
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, p)
			continue
		}
		entries, err := os.ReadDir(p)
		if err != nil {
			return nil, err
		}
		n := len(files)
		for _, e := range entries {
			if name := e.Name(); !e.IsDir() && (strings.HasSuffix(name, ".jsonl") || strings.HasSuffix(name, ".json")) {
				files = append(files, p+string(os.PathSeparator)+name)
			}
		}
		if len(files) == n {
			return nil, fmt.Errorf("%s: no file of records in the folder: want .jsonl or .json", p)
		}
	}
	return files, nil
}
