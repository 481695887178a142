package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

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
threads, interleaved in one run. llama.cpp takes part as it comes, with its fused
attention, and on the path whose bits this engine reproduces; the best of these is
what is compared with. Its threads spin while they wait for each other: on a machine
that is busy with other work, give it fewer --threads. The limit of decode is a plain
loop that reads the same mapped file with the same threads, the limit of prefill one
of multiply-adds.

Rates count only if the logits of 16 tokens are llama.cpp's, bit for bit. Where the library
that is measured has other bits than this engine's level, a second process compares with
the variant that has the same: haswell for level avx2, zen4 for avx512. --check makes that
comparison alone, with the variant as given. A setting of llama.cpp that is slow in two
rounds of a test takes no part in the others of that test.

With --device cuda both engines' logits are held against the float64 model instead, which
computes on the CPU's cores: those of 16 tokens, and those that the timed rounds of each
test end with. Of this engine's decodes each logit is held within the bound of mverify's
suite greedy; its prefills are held within 1e-3 in the mean square, also in their cache
beside that of a decode of the same tokens, which takes as long as a decode of the longest
--pp; llama.cpp's are near. It takes neither --check nor --threads, at least three rounds,
and one GPU.

On a processor with AMX llama.cpp's library is sapphirerapids, which multiplies matrices
with it; --llama-variant zen4 is the one for AVX-512 without AMX.

Several models, numbers of threads, prefills and depths make a test each. --records
keeps what each model and number of threads gave, and --show only shows what is there.

usage: mbench peers --llama DIR [--model FILE]... [flags]
       mbench peers --show --records DIR
`

// peersCommand is the command `mbench peers`.
func peersCommand(ctx context.Context, s cli.Streams, args []string) (int, error) {
	var llama, variant, cache, format, folder, where string
	var paths []string
	var show, check bool
	o := peers.Options{}
	set := cli.Flags(s, "mbench peers", peersUsage)
	set.StringVar(&llama, "llama", "", "directory of llama.cpp's shared libraries (also MINFER_LLAMA_LIB)")
	set.StringVar(&variant, "llama-variant", "", "which libggml-cpu of that directory; without it the one that llama.cpp would choose for this processor")
	set.StringArrayVar(&paths, "model", nil, "GGUF file, also several times; the embedded model without it")
	set.StringVar(&where, "device", "cpu", "cpu, or cuda for an NVIDIA GPU, where llama.cpp has libggml-cuda.so and logits are near, not equal")
	set.StringVar(&cache, "cache-type", "f16", "KV cache type: f16 or f32")
	set.IntSliceVar(&o.Threads, "threads", []int{0}, "threads of both; 0 is one per core")
	set.IntSliceVar(&o.Prompts, "pp", []int{128}, "tokens of a prefill; 0 for none")
	set.IntVar(&o.Generate, "tg", 32, "tokens of a decode")
	set.IntSliceVar(&o.Depths, "depth", []int{0}, "cells in the cache before a decode; -1 for no decode")
	set.IntVar(&o.Rounds, "reps", 5, "rounds, at most")
	set.DurationVar(&o.Time, "time", 0, "time of a test after which no round starts, once there are three; 0 for no limit")
	set.Uint64Var(&o.Seed, "seed", 1, "seed of the order")
	set.StringVar(&format, "format", "table", "table, markdown or json")
	set.StringVar(&folder, "records", "", "folder for a file of each record, peers-MODEL-THREADSt-VARIANT.json, or peers-MODEL-cuda.json")
	set.BoolVar(&show, "show", false, "measure nothing: show the records of that folder")
	set.BoolVar(&check, "check", false, "measure nothing: compare the logits, and give the comparison as JSON")
	if err := cli.Parse(set, args, 0, 0); err != nil {
		return 0, err
	}
	if !slices.Contains([]string{"table", "markdown", "json"}, format) {
		return 0, fmt.Errorf("unknown format %q: want table, markdown or json", format)
	}
	if where != "cpu" && where != "cuda" {
		return 0, fmt.Errorf("--device %q: want cpu or cuda", where)
	}
	if show && check {
		return 0, errors.New("peers: --show and --check: want one of them")
	}
	if show {
		records, err := readPeers(folder)
		if err != nil {
			return 0, err
		}
		return harness.ExitHeld, writePeers(s.Stdout, format, records)
	}
	levers, err := lever.Parse(s.Environ)
	if err != nil {
		return 0, err
	}
	if llama == "" {
		llama = levers.LlamaLib
	}
	if llama == "" {
		return 0, errors.New("peers: --llama DIR is needed: the directory of llama.cpp's shared libraries")
	}
	if levers.CacheType != "" && !set.Changed("cache-type") {
		cache = levers.CacheType
	}
	if o.KVType, err = gguf.ParseType(cache); err != nil {
		return 0, fmt.Errorf("--cache-type %q: want f16 or f32", cache)
	}
	for i, n := range o.Threads {
		if n == 0 {
			o.Threads[i] = cli.DefaultThreads()
		}
	}
	o.Prompts = slices.DeleteFunc(o.Prompts, func(n int) bool { return n == 0 })
	o.Depths = slices.DeleteFunc(o.Depths, func(n int) bool { return n == -1 })
	if err := o.Check(); err != nil {
		return 0, fmt.Errorf("peers: %w", err)
	}
	if where != "cpu" {
		if err := gpuFlags(where, set.Changed, check, levers, &peers.GPUOptions{Options: o}); err != nil {
			return 0, fmt.Errorf("peers: %w", err)
		}
	}
	if len(o.Prompts)+len(o.Depths) == 0 {
		return 0, errors.New("peers: --pp 0 --depth -1: want a prefill or a decode")
	}
	if variant == "" {
		variant = bestVariant()
	}
	device, err := cli.Device("cpu", cli.DeviceOptions{Levers: levers})
	if err != nil {
		return 0, err
	}
	o.Backend = device.New
	if len(paths) == 0 {
		temp, err := os.MkdirTemp("", "mbench-")
		if err != nil {
			return 0, err
		}
		defer os.RemoveAll(temp)
		f, err := cli.OpenModel("")
		if err != nil {
			return 0, err
		}
		paths = []string{filepath.Join(temp, filepath.Base(f.Path))}
		if err := os.WriteFile(paths[0], f.Parts[0].Data, 0o644); err != nil {
			return 0, err
		}
	}
	if folder != "" {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return 0, err
		}
	}
	lib, err := llamacpp.Open(llama, variant)
	if err != nil {
		return 0, err
	}
	if where != "cpu" {
		return peersGPU(ctx, s, args, where, levers, lib, o, paths, folder, format)
	}
	if check {
		return checkPeers(s, lib, o, paths)
	}
	level, err := levelOf(o)
	if err != nil {
		return 0, err
	}
	if lib.Level() != level {
		o.Compare = func(ctx context.Context) (*harness.Comparison, string, error) {
			return checkApart(ctx, s, llama, variantOf[level], cache, o)
		}
	}
	all := &gathered{s: s, args: args, folder: folder, device: device.Describe()}
	var ended error
	for _, o.Path = range paths {
		ended = peers.Run(ctx, lib, o, func(rec *peers.Record) error {
			if err := all.add(rec, lib.Variant(), cli.Describe(lib)); err != nil || folder == "" {
				return err
			}
			fmt.Fprintf(s.Stderr, "mbench: %s, %d threads: done\n", rec.Model, rec.Threads)
			return nil
		})
		if ended != nil {
			break
		}
	}
	return all.end(format, ended)
}

// gathered are the records of a command so far.
type gathered struct {
	s              cli.Streams
	args           []string
	folder, device string
	records        []*peers.Record
}

// add completes a record with where it comes from, and keeps it.
func (g *gathered) add(rec *peers.Record, variant, oracle string) error {
	rec.Model, rec.Variant = filepath.Base(rec.Model), variant
	rec.Provenance = cli.Provenance(g.s, "mbench", append([]string{"peers"}, g.args...), g.device)
	rec.Provenance.Oracle = oracle
	g.records = append(g.records, rec)
	if g.folder == "" {
		return nil
	}
	return writeTo(g.s.Stdout, peersFile(g.folder, rec), func(w io.Writer) error { return writePeers(w, "json", []*peers.Record{rec}) })
}

// end shows the records, also those before an error, and says which do not count.
func (g *gathered) end(format string, ended error) (int, error) {
	if len(g.records) > 0 {
		ended = errors.Join(writePeers(g.s.Stdout, format, g.records), ended)
	}
	if ended != nil {
		return 0, ended
	}
	code := harness.ExitHeld
	for _, rec := range g.records {
		if rec.Agree {
			continue
		}
		code = harness.ExitFailed
		if len(rec.Held) > 0 {
			fmt.Fprintf(g.s.Stderr, "mbench: %s: the logits are not the model's: %s: the rates do not count\n", rec.Model, strings.Join(rec.Wrong, "; "))
			continue
		}
		fmt.Fprintf(g.s.Stderr, "mbench: %s: the logits differ from those of llama.cpp, %s: %s, NMSE %.2g: the rates do not count\n", rec.Model, rec.With, rec.Check, float64(rec.Check.NMSE))
	}
	return code, nil
}

// variantOf is the library of llama.cpp that has a level's bits.
var variantOf = map[string]string{"avx2": "haswell", "avx512": "zen4"}

// levelOf is the level whose bits are measured.
func levelOf(o peers.Options) (string, error) {
	b, err := o.Backend(o.Threads[0])
	if err != nil {
		return "", err
	}
	if c, ok := b.(io.Closer); ok {
		defer c.Close()
	}
	return peers.LevelOf(b), nil
}

// peersCheck is what --check gives of a file.
type peersCheck struct {
	Model string              `json:"model"`
	With  string              `json:"with"`
	Check *harness.Comparison `json:"check"`
}

// checkPeers compares the logits of files.
func checkPeers(s cli.Streams, lib *llamacpp.Lib, o peers.Options, paths []string) (int, error) {
	code := harness.ExitHeld
	for _, o.Path = range paths {
		c, with, err := peers.Compare(lib, o)
		if err != nil {
			return 0, err
		}
		if !c.OK() {
			code = harness.ExitFailed
		}
		if err := json.NewEncoder(s.Stdout).Encode(peersCheck{filepath.Base(o.Path), with, c}); err != nil {
			return 0, err
		}
	}
	return code, nil
}

// checkApart has a process of its own compare the logits of o.Path, with another
// variant: ggml takes one a process.
func checkApart(ctx context.Context, s cli.Streams, llama, variant, cache string, o peers.Options) (*harness.Comparison, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	cmd := exec.CommandContext(ctx, self, "peers", "--check", "--llama", llama, "--llama-variant", variant,
		"--model", o.Path, "--cache-type", cache, "--threads", strconv.Itoa(o.Threads[0]))
	var out, text bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = s.Environ, &out, &text
	err = cmd.Run()
	var c peersCheck
	if bad := json.Unmarshal(out.Bytes(), &c); bad != nil || c.Check == nil {
		return nil, "", fmt.Errorf("the check with variant %s: %w: %s", variant, cmp.Or(err, bad), strings.TrimPrefix(strings.TrimSpace(text.String()), "mbench: "))
	}
	return c.Check, c.With, nil
}

// peersFile is a record's file in a folder.
func peersFile(folder string, rec *peers.Record) string {
	name := strings.TrimSuffix(strings.TrimPrefix(rec.Model, "synth-"), ".gguf")
	if rec.Threads == 0 {
		return filepath.Join(folder, fmt.Sprintf("peers-%s-%s.json", name, rec.Variant))
	}
	return filepath.Join(folder, fmt.Sprintf("peers-%s-%dt-%s.json", name, rec.Threads, rec.Variant))
}

// readPeers reads the records of a folder.
func readPeers(folder string) ([]*peers.Record, error) {
	files, err := filepath.Glob(filepath.Join(folder, "peers-*.json"))
	if err != nil {
		return nil, err
	}
	if folder == "" || len(files) == 0 {
		return nil, fmt.Errorf("--records %q: no peers-*.json there to --show", folder)
	}
	var records []*peers.Record
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		rec, err := peers.Read(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		records = append(records, rec)
	}
	return records, nil
}

// writePeers writes records in a format.
func writePeers(w io.Writer, format string, records []*peers.Record) error {
	switch format {
	case "json":
		for _, rec := range records {
			enc := json.NewEncoder(w)
			enc.SetIndent("", "  ")
			if err := enc.Encode(rec); err != nil {
				return err
			}
		}
		return nil
	case "markdown":
		_, err := io.WriteString(w, peers.Markdown(records))
		return err
	}
	for _, rec := range records {
		if err := peersTable(w, rec); err != nil {
			return err
		}
	}
	return nil
}

// bestVariant is the one of llama.cpp's CPU libraries that it would choose itself for
// this processor: the one with the most instructions.
func bestVariant() string {
	if cpu.X86.HasAMXTile && cpu.X86.HasAMXInt8 && cpu.X86.HasAVX512BF16 {
		return "sapphirerapids"
	}
	if cpu.X86.HasAVX512VNNI && cpu.X86.HasAVX512BF16 {
		return "zen4"
	}
	return "haswell"
}

func peersTable(w io.Writer, rec *peers.Record) error {
	on := fmt.Sprintf("%d threads", rec.Threads)
	if rec.Threads == 0 {
		on = "a GPU"
	}
	fmt.Fprintf(w, "%s, %d bytes of weights a token, KV %s, %s\n%s; %s\n%s\n", rec.Model, rec.Weights, rec.KV, on,
		rec.Provenance.Host, rec.Provenance.Device, rec.Provenance.Oracle)
	table := tablewriter.NewTable(w, tablewriter.WithHeaderAutoFormat(tw.Off))
	table.Header("test", "side", "tokens/s", "spread", "of best llama.cpp", "of the limit", "n")
	for _, r := range rec.Rows {
		if err := table.Append(r.Test, r.Side, fmt.Sprintf("%.1f", r.Rate), fmt.Sprintf("%.0f %%", 100*r.Spread), fmt.Sprintf("%.2f x", r.VsLlama), r.Limit(), fmt.Sprint(len(r.Samples))); err != nil {
			return err
		}
	}
	if err := table.Render(); err != nil {
		return err
	}
	read, adds := 0.0, 0.0
	for _, r := range rec.Rows {
		read, adds = max(read, r.ReadRate), max(adds, r.AddRate)
	}
	if read > 0 {
		fmt.Fprintf(w, "a plain read loop with %s reads %.1f GB/s: the limit of decode\n", strings.Replace(on, fmt.Sprint(rec.Threads), "the same", 1), read/1e9)
	}
	if adds > 0 {
		fmt.Fprintf(w, "a plain loop with the same threads makes %.0f G multiply-adds/s: the limit of prefill\n", adds/1e9)
	}
	if len(rec.Held) > 0 {
		if err := heldTable(w, rec); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintf(w, "medians; logits against %s: %s\n", cmp.Or(rec.With, "llama.cpp"), rec.Check); err != nil {
		return err
	}
	if rec.Agree {
		return nil
	}
	wrong := strings.Join(rec.Wrong, "; ")
	if wrong != "" {
		wrong = ": " + wrong
	}
	_, err := fmt.Fprintf(w, "the rates do not count%s\n", wrong)
	return err
}

// heldTable says how the logits of a run on a GPU compare with the float64 model's.
func heldTable(w io.Writer, rec *peers.Record) error {
	if _, err := fmt.Fprintln(w, "medians; logits against the float64 model:"); err != nil {
		return err
	}
	for _, h := range rec.Held {
		how := fmt.Sprintf("%.2f of the bound", float64(h.Check.Share))
		if h.Limit > 0 {
			how = fmt.Sprintf("NMSE %.2g, at most %.2g", float64(h.Check.NMSE), h.Limit)
		}
		if !h.OK() {
			how += ": FAILS"
		}
		if _, err := fmt.Fprintf(w, "  %s, %s: %d values, %s\n", h.Side, h.What, h.Check.N, how); err != nil {
			return err
		}
	}
	return nil
}
