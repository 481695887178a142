package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"minfer/cmd/internal/cli"
	"minfer/cmd/mbench/internal/results"
	"minfer/harness"
)

const resultsUsage = `
mbench results writes the page of measured optimizations from the raw records that
are kept in results/records. With --check nothing is written, and a page that is not
what the records make is exit 1.

usage: mbench results [flags]      from the root of the checkout
`

func resultsCommand(_ context.Context, s cli.Streams, args []string) (int, error) {
	var records, items, out string
	var check bool
	set := cli.Flags(s, "mbench results", resultsUsage)
	set.StringVar(&records, "records", "results/records", "folder of the records")
	set.StringVar(&items, "items", "results/items.json", "file of what was done, is to be done and was decided against")
	set.StringVarP(&out, "out", "o", "results/METAL_OPTIMIZATIONS.md", "file of the page")
	set.BoolVar(&check, "check", false, "write nothing; exit 1 where the page is out of date")
	if err := cli.Parse(set, args, 0, 0); err != nil {
		return 0, err
	}
	page, err := resultsPage(records, items)
	if err != nil {
		return 0, err
	}
	if !check {
		if err := os.WriteFile(out, page, 0o644); err != nil {
			return 0, fmt.Errorf("--out: %w", err)
		}
		return harness.ExitHeld, nil
	}
	have, err := os.ReadFile(out)
	if err != nil {
		return 0, err
	}
	if !bytes.Equal(have, page) {
		fmt.Fprintf(s.Stderr, "mbench: %s is not what the records make: run mbench results\n", out)
		return harness.ExitFailed, nil
	}
	return harness.ExitHeld, nil
}

// resultsPage makes the page.
func resultsPage(records, items string) ([]byte, error) {
	all, err := readAll([]string{records})
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(items)
	if err != nil {
		return nil, err
	}
	list, err := results.ReadItems(items, data)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := results.Write(&b, "mbench results", all, list); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
