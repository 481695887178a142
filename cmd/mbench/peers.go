package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"
	"golang.org/x/sys/cpu"

	"minfer/cmd/internal/cli"
	"minfer/engine/gguf"
	"minfer/engine/lever"
	"minfer/harness"
	"minfer/refs/llamacpp"
	"minfer/suites/peers"
)

const peersUsage = `
mbench peers measures llama.cpp and this engine on the same file with the same
threads, interleaved in one run. llama.cpp takes part as it comes, and on the
path whose bits this engine reproduces. Its threads spin while they wait for each
other: on a machine that is busy with other work, give it fewer --threads.

usage: mbench peers --llama DIR [--model FILE] [flags]
`

// peersCommand is the command `mbench peers`.
func peersCommand(ctx context.Context, s cli.Streams, args []string) (int, error) {
	var llama, variant, path, cache, format string
	o := peers.Options{}
	set := cli.Flags(s, "mbench peers", peersUsage)
	set.StringVar(&llama, "llama", "", "directory of llama.cpp's shared libraries (also MINFER_LLAMA_LIB)")
	set.StringVar(&variant, "llama-variant", "", "which libggml-cpu of that directory; the best for this processor without it")
	set.StringVar(&path, "model", "", "GGUF file; the embedded model without it")
	set.StringVar(&cache, "cache-type", "f16", "KV cache type: f16 or f32")
	set.IntVar(&o.Threads, "threads", 0, "threads of both; 0 is one per core")
	set.IntVar(&o.Prompt, "pp", 128, "tokens of a prefill")
	set.IntVar(&o.Generate, "tg", 32, "tokens of a decode")
	set.IntVar(&o.Depth, "depth", 0, "cells in the cache before the decode")
	set.IntVar(&o.Rounds, "reps", 5, "rounds")
	set.Uint64Var(&o.Seed, "seed", 1, "seed of the order")
	set.StringVar(&format, "format", "table", "table or json")
	if err := cli.Parse(set, args, 0, 0); err != nil {
		return 0, err
	}
	levers, err := lever.Parse(s.Environ)
	if err != nil {
		return 0, err
	}
	if llama == "" {
		llama = levers.LlamaLib
	}
	switch {
	case llama == "":
		return 0, errors.New("peers: --llama DIR is needed: the directory of llama.cpp's shared libraries")
	case o.Prompt < 1 || o.Generate < 1 || o.Depth < 0 || o.Rounds < 1:
		return 0, fmt.Errorf("peers: --pp %d --tg %d --depth %d --reps %d: want at least 1 (depth: 0)", o.Prompt, o.Generate, o.Depth, o.Rounds)
	case format != "table" && format != "json":
		return 0, fmt.Errorf("unknown format %q: want table or json", format)
	}
	if levers.CacheType != "" && !set.Changed("cache-type") {
		cache = levers.CacheType
	}
	if o.KVType, err = gguf.ParseType(cache); err != nil {
		return 0, fmt.Errorf("--cache-type %q: want f16 or f32", cache)
	}
	if o.Threads == 0 {
		o.Threads = cli.DefaultThreads()
	}
	if variant == "" {
		variant = bestVariant()
	}
	device, err := cli.Device("cpu", cli.DeviceOptions{Levers: levers})
	if err != nil {
		return 0, err
	}
	if o.Path = path; path == "" {
		temp, err := os.MkdirTemp("", "mbench-")
		if err != nil {
			return 0, err
		}
		defer os.RemoveAll(temp)
		f, err := cli.OpenModel("")
		if err != nil {
			return 0, err
		}
		o.Path = filepath.Join(temp, filepath.Base(f.Path))
		if err := os.WriteFile(o.Path, f.Parts[0].Data, 0o644); err != nil {
			return 0, err
		}
	}
	lib, err := llamacpp.Open(llama, variant)
	if err != nil {
		return 0, err
	}
	if o.Backend, err = device.New(o.Threads); err != nil {
		return 0, err
	}
	if c, ok := o.Backend.(io.Closer); ok {
		defer c.Close()
	}
	rec, interrupted := peers.Run(ctx, lib, o)
	if interrupted != nil && (!errors.Is(interrupted, context.Canceled) || rec == nil || len(rec.Rows) == 0) {
		return 0, interrupted
	}
	rec.Model = filepath.Base(o.Path)
	rec.Provenance = cli.Provenance(s, "mbench", append([]string{"peers"}, args...), device.Name)
	rec.Provenance.Oracle = cli.Describe(lib)
	if format == "json" {
		enc := json.NewEncoder(s.Stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(rec)
	} else {
		err = peersTable(s.Stdout, rec)
	}
	if err := errors.Join(err, interrupted); err != nil {
		return 0, err
	}
	if !rec.Agree {
		fmt.Fprintf(s.Stderr, "mbench: the logits differ from llama.cpp's: %s, NMSE %.2g: the rates do not count\n", rec.Check, float64(rec.Check.NMSE))
		return harness.ExitFailed, nil
	}
	return harness.ExitHeld, nil
}

// bestVariant is the fastest of llama.cpp's CPU libraries for this processor.
func bestVariant() string {
	if cpu.X86.HasAVX512VNNI && cpu.X86.HasAVX512BF16 {
		return "zen4"
	}
	return "haswell"
}

func peersTable(w io.Writer, rec *peers.Record) error {
	fmt.Fprintf(w, "%s, %d bytes of weights a token, KV %s, %d threads\n%s; %s\n%s\n", rec.Model, rec.Weights, rec.KV, rec.Threads,
		rec.Provenance.Host, rec.Provenance.Device, rec.Provenance.Oracle)
	table := tablewriter.NewTable(w, tablewriter.WithHeaderAutoFormat(tw.Off))
	table.Header("test", "side", "tokens/s", "spread", "of best llama.cpp", "of read rate", "n")
	for _, r := range rec.Rows {
		share := ""
		if r.OfLimit > 0 {
			share = fmt.Sprintf("%.0f %%", 100*r.OfLimit)
		}
		if err := table.Append(r.Test, r.Side, fmt.Sprintf("%.1f", r.Rate), fmt.Sprintf("%.0f %%", 100*r.Spread), fmt.Sprintf("%.2f x", r.VsLlama), share, fmt.Sprint(len(r.Samples))); err != nil {
			return err
		}
	}
	if err := table.Render(); err != nil {
		return err
	}
	last := rec.Rows[len(rec.Rows)-1]
	check := fmt.Sprintf("NMSE %.2g", float64(rec.Check.NMSE))
	if rec.Check.OK() {
		check = "all bits equal"
	}
	if last.ReadRate > 0 {
		fmt.Fprintf(w, "a plain read loop with the same threads reads %.1f GB/s\n", last.ReadRate/1e9)
	}
	_, err := fmt.Fprintf(w, "medians; %d logits against llama.cpp's: %s\n", rec.Check.N, check)
	return err
}
