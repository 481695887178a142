package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"minfer/cmd/internal/cli"
	"minfer/cmd/mbench/internal/page"
	"minfer/harness"
)

const reportUsage = `
mbench report makes one HTML page of recorded runs: what each lever does, rates
against the depth of the KV cache and the length of the prompt, kernels against
their limit, and how scenarios changed over the runs. The page is whole in itself:
it has no script and asks the network for nothing. A folder stands for its files.

usage: mbench report FILE... [-o report.html]
`

func reportCommand(_ context.Context, s cli.Streams, args []string) (int, error) {
	var out, title string
	set := cli.Flags(s, "mbench report", reportUsage)
	set.StringVarP(&out, "out", "o", "report.html", "file of the page; - for stdout")
	set.StringVar(&title, "title", "Measured with mbench", "heading of the page")
	if err := cli.Parse(set, args, 0, manyFiles); err != nil {
		return 0, err
	}
	if set.NArg() == 0 {
		return 0, errors.New("report: want files of records, or a folder of them")
	}
	records, err := readAll(set.Args())
	if err != nil {
		return 0, err
	}
	var b bytes.Buffer
	if err := page.Write(&b, title, records); err != nil {
		return 0, err
	}
	if out == "-" {
		_, err := s.Stdout.Write(b.Bytes())
		return harness.ExitHeld, err
	}
	if err := os.WriteFile(out, b.Bytes(), 0o644); err != nil {
		return 0, fmt.Errorf("--out: %w", err)
	}
	fmt.Fprintf(s.Stderr, "mbench: %d records in %s\n", len(records), out)
	return harness.ExitHeld, nil
}

// readAll reads the records of files, and of the files in folders.
func readAll(paths []string) ([]harness.Record, error) {
	files, err := expand(paths)
	if err != nil {
		return nil, err
	}
	var records []harness.Record
	for _, path := range files {
		more, err := readRecords(path)
		if err != nil {
			return nil, err
		}
		records = append(records, more...)
	}
	return records, nil
}
