package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"minfer/cmd/internal/cli"
	"minfer/engine/lever"
	"minfer/harness"
	"minfer/metal"
	"minfer/metal/mtl/soft/san"
	"minfer/refs/dump/recorded"
	"minfer/refs/llamacpp"
	"minfer/suites"
	"minfer/suites/attention"
	"minfer/suites/dumps"
	"minfer/suites/fusion"
	"minfer/suites/graphs"
	"minfer/suites/greedy"
	"minfer/suites/kernels"
	"minfer/suites/kv"
	"minfer/suites/matmul"
	"minfer/suites/ops"
	"minfer/suites/safety"
	"minfer/suites/tokenizer"
)

// allSuites are the suites by their order in `--suite all`.
var allSuites = []suites.Suite{kernels.Suite{}, ops.Suite{}, matmul.Suite{}, attention.Suite{}, kv.Suite{}, fusion.Suite{}, graphs.Suite{}, tokenizer.Suite{}, dumps.Suite{}, greedy.Suite{}, safety.Suite{Open: softDevice(1)}}

const usage = `
mverify holds every execution path of the engine against its own reference.

usage: mverify --suite NAME[,NAME] [--device NAME[,NAME]] [flags]
       mverify --suite greedy --golden FILE [--update]
       mverify case FILE.json...      run launch cases under the sanitizer
       mverify init FILE.metal        write a launch-case skeleton
       mverify compile FILE.metal...  compile Metal source, list its kernels
       mverify record --llama DIR     record llama.cpp's node values again
       mverify merge FILE...          the reports of a run's shards in one
       mverify completion bash|zsh    a script that completes command lines

suites: ops (each kernel), graph (splits, batches, threads), tokenizer, dumps
(every node against llama.cpp), greedy (generated text), safety (launch cases
under the sanitizer), all; on a Metal device also kernels (every pipeline
compiles), matmul, attention, kv and fusion (every kernel against float64).
mutation plants faults in the kernels, on device soft, and counts those that the
suites notice; all leaves it out.
exit codes: 0 all held, 1 something did not, 2 bad usage or input, 3 nothing ran.
`

// flags are the command line of a verification.
type flags struct {
	suites, devices, tier, filter, shard string
	model, cases, format, out, mode      string
	llama, variant, hfVocab              string
	golden, prompts                      string
	tokens                               int
	update                               bool
	seed                                 uint64
	list, failFast, verbose, version     bool
}

func (f *flags) register(s cli.Streams) *pflag.FlagSet {
	set := cli.Flags(s, "mverify", usage)
	set.StringVar(&f.suites, "suite", "", "suites to run, separated by commas, or all")
	set.StringVar(&f.devices, "device", "cpu", "devices to verify, one after another, separated by commas: "+cli.DeviceHelp)
	set.StringVar(&f.mode, "mode", "", "sanitizer mode of device soft: off, mem, race, strict (without it) or chaos")
	set.StringVar(&f.tier, "tier", "quick", "how much: quick, full or exhaustive")
	set.StringVar(&f.filter, "filter", "", "run only cases whose identity matches this regular expression")
	set.StringVar(&f.model, "model", "", "verify with this GGUF file instead of the embedded models")
	set.Uint64Var(&f.seed, "seed", 1, "seed of all random data")
	set.StringVar(&f.cases, "cases", "", "op cases from this JSON Lines file instead of the suite's own")
	set.StringVar(&f.shard, "shard", "", "run part I of N, as I/N")
	set.StringVar(&f.format, "format", "text", "report format: "+strings.Join(harness.Formats, ", "))
	set.StringVar(&f.out, "out", "", "write the report to this file instead of stdout")
	set.BoolVar(&f.list, "list", false, "list the selected cases and run none")
	set.BoolVar(&f.failFast, "fail-fast", false, "stop at the first failure")
	set.BoolVarP(&f.verbose, "verbose", "v", false, "show passing cases too")
	set.StringVar(&f.llama, "llama", "", "directory of llama.cpp's shared libraries: a live oracle (also MINFER_LLAMA_LIB)")
	set.StringVar(&f.variant, "llama-variant", "haswell", "which libggml-cpu of that directory to load")
	set.StringVar(&f.hfVocab, "hf-vocab", "", "folder of a Hugging Face tokenizer.json for the suite tokenizer")
	set.StringVar(&f.golden, "golden", "", "suite greedy: the text must be that of this file, which --update writes")
	set.BoolVar(&f.update, "update", false, "with --golden: write the file again, for review")
	set.StringVar(&f.prompts, "prompts", "", "with --golden: prompts to continue, one a line; without it those of the file, or the suite's")
	set.IntVar(&f.tokens, "tokens", 0, "with --golden: tokens of each continuation; without it as many as in the file, or 64")
	set.BoolVar(&f.version, "version", false, "print the version")
	return set
}

func run(ctx context.Context, s cli.Streams, args []string) (int, error) {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		switch args[0] {
		case "record":
			return record(ctx, s, args[1:])
		case "case":
			return runCases(ctx, s, args[1:])
		case "init":
			return initCase(ctx, s, args[1:])
		case "compile":
			return compile(ctx, s, args[1:])
		case "merge":
			return mergeCommand(ctx, s, args[1:])
		case "completion":
			return completion(ctx, s, args[1:])
		default:
			return 0, fmt.Errorf("unknown command %q: want case, compile, init, record, merge, or --suite NAME (see --help)", args[0])
		}
	}
	var f flags
	if err := cli.Parse(f.register(s), args, 0, 0); err != nil {
		return 0, err
	}
	if f.version {
		fmt.Fprintln(s.Stdout, cli.Version("mverify"))
		return harness.ExitHeld, nil
	}
	levers, err := lever.Parse(s.Environ)
	if err != nil {
		return 0, err
	}
	chosen, err := chooseSuites(f.suites)
	if err != nil {
		return 0, err
	}
	devices, err := f.deviceNames()
	if err != nil {
		return 0, err
	}
	if _, err := suites.ParseTier(f.tier); err != nil {
		return 0, err
	}
	if !slices.Contains(harness.Formats, f.format) {
		return 0, fmt.Errorf("unknown format %q: want one of %s", f.format, strings.Join(harness.Formats, ", "))
	}
	each, left, where := divide(chosen, devices)
	if len(left) > 0 {
		if f.suites != "all" {
			return 0, fmt.Errorf("--suite %s: %s on %s only, not on %q", f.suites, strings.Join(left, ", "), where, f.devices)
		}
		fmt.Fprintf(s.Stderr, "mverify: left out, on %s only: %s\n", where, strings.Join(left, ", "))
	}
	if f.cases != "" && (len(chosen) != 1 || chosen[0].Name() != ops.Suite{}.Name()) {
		return 0, fmt.Errorf("--cases %s: its lines are op cases: want --suite ops, not %q", f.cases, f.suites)
	}
	gate, err := f.gate(chosen, levers)
	if err != nil {
		return 0, err
	}
	if gate != nil {
		for i := range each {
			each[i] = []suites.Suite{gate}
		}
	}
	if f.list && f.format != "text" {
		return 0, fmt.Errorf("--format %q: --list prints identities, one to a line: want no --format", f.format)
	}
	runner := harness.Runner{FailFast: f.failFast, Observe: cli.Progress(s.Stderr, f.suites)}
	if runner.Filter, err = compileFilter(f.filter); err != nil {
		return 0, err
	}
	if runner.ShardIndex, runner.ShardCount, err = cli.ParseShard(f.shard); err != nil {
		return 0, err
	}
	runner.Rerun = func(c harness.Case) string { return settings(s.Environ) + f.rerun(c) }

	targets, oracle, err := f.environments(levers, devices)
	if err != nil {
		return 0, err
	}
	if f.devices != "cpu" && levers.DisableMPS {
		fmt.Fprintln(s.Stderr, metal.DisabledLine)
	}
	defer os.RemoveAll(targets[0].env.Temp)
	var names []string
	for i := range targets {
		targets[i].suites = each[i]
		names = append(names, targets[i].env.Device.Name)
		defer targets[i].env.Close()
	}
	ran := strings.Join(names, ", ")

	out, closeOut, err := openOut(s.Stdout, f.out)
	if err != nil {
		return 0, err
	}
	defer closeOut()

	all, err := cases(targets)
	if err != nil {
		return 0, err
	}
	if f.list {
		selected := runner.Select(all)
		for _, c := range selected {
			if c.Device != "" && len(targets) > 1 {
				fmt.Fprintf(out, "%s on %s\n", c.ID, c.Device)
				continue
			}
			fmt.Fprintln(out, c.ID)
		}
		if len(selected) == 0 {
			fmt.Fprintln(s.Stderr, "mverify: no case matches")
			return harness.ExitNothing, nil
		}
		return harness.ExitHeld, nil
	}
	start := time.Now()
	report, err := runner.Run(ctx, all)
	report.Provenance = cli.Provenance(s, "mverify", args, ran)
	report.Provenance.Oracle = oracle
	if f.model != "" {
		var unread error
		if report.Provenance.Model, unread = modelHash(f.model); unread != nil {
			return 0, unread
		}
	}
	if err == nil || len(report.Results) > 0 {
		if err := errors.Join(report.Write(out, f.format, f.verbose), closeOut()); err != nil {
			return 0, err
		}
	}
	if err != nil {
		return 0, err
	}
	if gate != nil && f.update {
		if report.Count(harness.Pass) < report.Selected || report.Selected == 0 {
			fmt.Fprintf(s.Stderr, "mverify: %s is as it was: not every continuation was made\n", f.golden)
		} else if err := f.writeGolden(s, gate); err != nil {
			return 0, err
		}
	}
	if report.Selected == 0 {
		fmt.Fprintln(s.Stderr, "mverify: no case was selected: nothing ran")
	}
	fmt.Fprintf(s.Stderr, "mverify: %s in %v on %s\n", report.Summary(), time.Since(start).Round(time.Millisecond), ran)
	return report.ExitCode(), nil
}

// environments builds what the suites need, for each device. The string describes
// the oracle.
func (f *flags) environments(levers lever.Levers, devices []string) ([]target, string, error) {
	tier, err := suites.ParseTier(f.tier)
	if err != nil {
		return nil, "", err
	}
	if f.hfVocab != "" {
		if _, err := os.Stat(filepath.Join(f.hfVocab, "tokenizer.json")); err != nil {
			return nil, "", fmt.Errorf("--hf-vocab: %w", err)
		}
	}
	mode := san.Strict
	if f.golden != "" {
		mode = san.Off // what is compared is the text
	}
	if f.mode != "" {
		if !slices.Contains(devices, "soft") {
			return nil, "", fmt.Errorf("--mode %s: device %s has no sanitizer: want --device soft", f.mode, f.devices)
		}
		if mode, err = san.ParseMode(f.mode); err != nil {
			return nil, "", fmt.Errorf("--mode: %w", err)
		}
	}
	for _, v := range lever.All {
		if value := v.Get(levers); f.devices != "cpu" && f.golden == "" && v.Kind == lever.KindLever && value != v.Get(lever.Default()) {
			return nil, "", fmt.Errorf("%s=%s: on device %s the suites set the levers of each case themselves: unset it", v.Name, value, f.devices)
		}
	}
	if levers.Trace != "" {
		return nil, "", fmt.Errorf("MINFER_TRACE=%s: mverify writes no node values: unset it, or see mbench run", levers.Trace)
	}
	var opened []suites.Device
	for _, name := range devices {
		device, err := f.device(name, levers, mode)
		if err != nil {
			return nil, "", err
		}
		opened = append(opened, device)
	}
	env := &suites.Env{Tier: tier, Seed: f.seed, Device: opened[0], Models: cli.Models(f.model), Dumps: recorded.FS(), HFVocab: f.hfVocab}
	if f.model != "" { // a file that cannot be read is bad input, before anything runs
		file, err := env.Models[0].Open()
		if err != nil {
			return nil, "", err
		}
		file.Close()
	}
	if f.cases != "" {
		file, err := os.Open(f.cases)
		if err != nil {
			return nil, "", fmt.Errorf("--cases: %w", err)
		}
		defer file.Close()
		if env.Lines, err = harness.ReadLines(f.cases, file); err != nil {
			return nil, "", err
		}
		if len(env.Lines) == 0 {
			return nil, "", fmt.Errorf("--cases %s: no case in the file", f.cases)
		}
	}
	described := ""
	dir := f.llama
	if dir == "" {
		dir = levers.LlamaLib
	}
	if dir != "" {
		if env.Oracle, err = llamacpp.Open(dir, f.variant); err != nil {
			return nil, "", err
		}
		described = cli.Describe(env.Oracle)
	}
	if env.Temp, err = cli.TempDir("mverify"); err != nil {
		return nil, "", err
	}
	targets := []target{{name: devices[0], env: env}}
	for i, name := range devices[1:] {
		more := &suites.Env{Tier: tier, Seed: f.seed, Device: opened[i+1], Models: env.Models, Dumps: env.Dumps, HFVocab: f.hfVocab,
			Lines: env.Lines, Oracle: env.Oracle, Temp: env.Temp}
		targets = append(targets, target{name: name, env: more})
	}
	return targets, described, nil
}

// chooseSuites reads --suite.
func chooseSuites(names string) ([]suites.Suite, error) {
	var known []string
	for _, s := range slices.Concat(allSuites, moreSuites) {
		known = append(known, s.Name())
	}
	if names == "" {
		return nil, fmt.Errorf("--suite is needed: want one or more of %s, or all", strings.Join(known, ", "))
	}
	if names == "all" {
		return allSuites, nil
	}
	var chosen []suites.Suite
	for _, name := range strings.Split(names, ",") {
		found := false
		for _, s := range slices.Concat(allSuites, moreSuites) {
			if s.Name() == strings.TrimSpace(name) {
				if slices.ContainsFunc(chosen, func(c suites.Suite) bool { return c.Name() == s.Name() }) {
					return nil, fmt.Errorf("--suite %q: %s is named twice", names, s.Name())
				}
				chosen = append(chosen, s)
				found = true
			}
		}
		if !found {
			return nil, fmt.Errorf("unknown suite %q: want one or more of %s, or all", name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

func compileFilter(expr string) (*regexp.Regexp, error) {
	if expr == "" {
		return nil, nil
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, fmt.Errorf("--filter %q: %w", expr, err)
	}
	return re, nil
}

// rerun is the command that repeats one case, on its device alone.
func (f *flags) rerun(c harness.Case) string {
	words := []string{"mverify", "--suite", c.ID.Suite, "--filter", harness.ExactFilter(c.ID)}
	add := func(flag, value, unless string) {
		if value != unless {
			words = append(words, flag, value)
		}
	}
	if c.Device != "" && c.Device != "cpu" {
		words = append(words, "--device", c.Device)
		add("--mode", f.mode, "")
	}
	add("--tier", f.tier, "quick")
	add("--model", f.model, "")
	add("--seed", strconv.FormatUint(f.seed, 10), "1")
	add("--cases", f.cases, "")
	add("--golden", f.golden, "")
	add("--prompts", f.prompts, "")
	add("--llama", f.llama, "")
	add("--llama-variant", f.variant, "haswell")
	add("--hf-vocab", f.hfVocab, "")
	for i, w := range words {
		words[i] = harness.ShellQuote(w)
	}
	return strings.Join(words, " ")
}

// openOut gives the report's destination. Closing twice is fine.
func openOut(stdout io.Writer, path string) (io.Writer, func() error, error) {
	if path == "" {
		return stdout, func() error { return nil }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, nil, fmt.Errorf("--out: %w", err)
	}
	closed := false
	return f, func() error {
		if closed {
			return nil
		}
		closed = true
		return f.Close()
	}, nil
}
