package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"minfer/cmd/internal/cli"
	"minfer/engine/lever"
	"minfer/harness"
	"minfer/refs/llamacpp"
	"minfer/suites"
	"minfer/suites/dumps"
	"minfer/suites/greedy"
	"minfer/suites/tokenizer"
)

const recordUsage = `
mverify record evaluates the embedded and synthetic models with llama.cpp and
writes what the suites dumps, tokenizer and greedy compare with when the library
is not at hand. A file whose content would not change is left alone.

usage: mverify record --llama DIR [flags]
`

// record is the subcommand of that name.
func record(ctx context.Context, s cli.Streams, args []string) (int, error) {
	var llama, variant, dir, text, ids string
	var keep int
	set := cli.Flags(s, "mverify record", recordUsage)
	set.StringVar(&llama, "llama", "", "directory of llama.cpp's shared libraries (also MINFER_LLAMA_LIB)")
	set.StringVar(&variant, "llama-variant", "haswell", "which libggml-cpu of that directory to load")
	set.StringVar(&dir, "out", "refs/dump/recorded/data", "directory of the recorded runs")
	set.StringVar(&text, "greedy", "suites/greedy/golden.json", "file of the recorded greedy tokens")
	set.StringVar(&ids, "tokenizer", "suites/tokenizer/golden.json", "file of the recorded token ids")
	set.IntVar(&keep, "keep", 3, "positions with full values in the f16 runs; the others keep hashes")
	if err := cli.Parse(set, args, 0, 0); err != nil {
		return 0, err
	}
	if keep < 0 {
		return 0, fmt.Errorf("record: --keep %d: want at least 0", keep)
	}
	levers, err := lever.Parse(s.Environ)
	if err != nil {
		return 0, err
	}
	if llama == "" {
		llama = levers.LlamaLib
	}
	if llama == "" {
		return 0, errors.New("record: --llama DIR is needed: the directory of llama.cpp's shared libraries")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return 0, fmt.Errorf("record: --out %q is not a directory (run from the root of the checkout)", dir)
	}
	lib, err := llamacpp.Open(llama, variant)
	if err != nil {
		return 0, err
	}
	temp, err := os.MkdirTemp("", "mverify-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(temp)
	env := &suites.Env{Models: cli.Models(""), Oracle: lib, Temp: temp}
	report := func(file string, changed bool) {
		what := "unchanged"
		if changed {
			what = "written"
		}
		fmt.Fprintf(s.Stdout, "%-9s %s\n", what, file)
	}
	if err := dumps.Record(ctx, env, dir, "mverify record", keep, report); err != nil {
		return 0, err
	}
	if err := tokenizer.Record(ctx, env, ids, report); err != nil {
		return 0, err
	}
	if err := greedy.Record(ctx, env, text, report); err != nil {
		return 0, err
	}
	return harness.ExitHeld, nil
}
