package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"minfer/cmd/internal/cli"
	"minfer/cpu"
	"minfer/engine/gguf"
	"minfer/engine/lever"
	"minfer/engine/quant"
	"minfer/harness"
	"minfer/metal"
	"minfer/suites"
	"minfer/suites/sweeps"
)

// sweepFlags are the command line of a sweep.
type sweepFlags struct {
	sweeps, devices, model          string
	pp, tg, kv, types, cacheTypes   string
	gpu, filter, shard, format, out string
	reps, threads                   int
	budget                          time.Duration
	seed                            uint64
	list, version                   bool
	options                         sweeps.Options
	names, devs                     []string
	only                            *regexp.Regexp
	index, count                    int
}

func (f *sweepFlags) register(s cli.Streams) *pflag.FlagSet {
	set := cli.Flags(s, "mbench", usage)
	set.StringVar(&f.sweeps, "sweep", "", "what to measure: "+strings.Join(sweeps.Names(), ", ")+", several separated by commas, or all")
	set.StringVar(&f.devices, "device", "", "devices, separated by commas: "+cli.DeviceHelp+"; without it a Mac's GPU where there is one, else soft")
	set.StringVar(&f.model, "model", "", "GGUF file whose shapes, or which itself, is measured; the embedded models without it")
	set.StringVar(&f.pp, "pp", "", "tokens of a prompt: numbers and ranges such as 1,8,64 or 1-4 or 128-512*2")
	set.StringVar(&f.tg, "tg", "", "tokens to decode, likewise")
	set.StringVar(&f.kv, "kv", "", "cells in the KV cache, likewise")
	set.StringVar(&f.types, "types", "", "types of the weights, separated by commas: "+strings.Join(quant.MixNames(), ", "))
	set.StringVar(&f.cacheTypes, "cache-types", "", "types of the KV cache in the sweeps attention, kv and fusion: f32, f16, q8_0")
	set.IntVar(&f.reps, "reps", 0, "rounds of each scenario (also --rounds); 0 for as many as the interval needs")
	set.DurationVar(&f.budget, "budget", sweeps.DefaultBudget, "time for the rounds of a scenario, once there are 20")
	set.IntVar(&f.threads, "threads", 0, "threads of the CPU or of the software device; 0 is one per core")
	set.Uint64Var(&f.seed, "seed", 1, "seed of the data and of the order of the sides")
	set.StringVar(&f.gpu, "gpu", sweeps.GPUs[0].Name, "whose memory the software device's bytes are put beside: "+strings.Join(sweeps.GPUNames(), ", "))
	set.StringVar(&f.filter, "filter", "", "measure only scenarios whose identity matches this regular expression")
	set.StringVar(&f.shard, "shard", "", "measure part I of N, as I/N, cut by work")
	set.StringVar(&f.format, "format", "table", "output: table, "+strings.Join(harness.RecordFormats, ", "))
	set.StringVar(&f.out, "out", "", "write to this file instead of stdout")
	set.BoolVar(&f.list, "list", false, "list the scenarios and measure none")
	set.BoolVar(&f.version, "version", false, "print the version")
	set.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "rounds" {
			name = "reps"
		}
		return pflag.NormalizedName(name)
	})
	return set
}

// sweepCommand is the command `mbench --sweep`.
func sweepCommand(ctx context.Context, s cli.Streams, args []string) (int, error) {
	var f sweepFlags
	set := f.register(s)
	if err := cli.Parse(set, args, 0, 0); err != nil {
		return 0, err
	}
	if f.version {
		fmt.Fprintln(s.Stdout, cli.Version("mbench"))
		return harness.ExitHeld, nil
	}
	if f.sweeps == "" {
		return 0, errors.New(needed)
	}
	if err := f.check(s); err != nil {
		return 0, err
	}
	if f.devices == "" {
		if gpu := cli.GPU(f.options.Levers); gpu != "" {
			f.devs = []string{gpu}
		} else {
			f.devs = []string{"soft"}
			fmt.Fprintln(s.Stderr, "mbench: no GPU here: the software Metal device is measured")
		}
	}
	temp, err := cli.TempDir("mbench")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(temp)
	var list []sweeps.Scenario
	for _, name := range f.devs {
		env, err := f.environment(s, args, name, temp)
		if err != nil {
			return 0, err
		}
		defer env.Close()
		if f.options.Levers.DisableMPS && name != "cpu" {
			fmt.Fprintln(s.Stderr, metal.DisabledLine)
		}
		more, err := sweeps.List(env, f.names, f.options)
		if err != nil {
			return 0, err
		}
		list = append(list, more...)
	}
	list = slices.DeleteFunc(list, func(x sweeps.Scenario) bool { return f.only != nil && !f.only.MatchString(x.ID().String()) })
	list = sweeps.Shard(list, f.index, f.count)
	if len(list) == 0 {
		fmt.Fprintln(s.Stderr, "mbench: no scenario was selected: nothing ran")
		return harness.ExitNothing, nil
	}
	if f.list {
		return harness.ExitHeld, writeTo(s.Stdout, f.out, func(w io.Writer) error {
			for i := range list {
				if _, err := fmt.Fprintln(w, list[i].ID()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := writable(f.out); err != nil {
		return 0, err
	}
	return f.measure(ctx, s, list)
}

// writable says before minutes of measuring whether the output can be written. A file
// that is there keeps what it has.
func writable(path string) error {
	if path == "" {
		return nil
	}
	_, before := os.Stat(path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	if errors.Is(before, fs.ErrNotExist) {
		err = os.Remove(path)
	}
	return errors.Join(err, f.Close())
}

// measure runs the scenarios and prints what there is, also of an interrupted run.
func (f *sweepFlags) measure(ctx context.Context, s cli.Streams, list []sweeps.Scenario) (int, error) {
	runner := sweeps.NewRunner(f.options)
	defer runner.Close()
	observe := cli.Progress(s.Stderr, "mbench --sweep "+f.sweeps)
	fmt.Fprintf(s.Stderr, "mbench: %d scenarios\n", len(list))
	start := time.Now()
	var records []harness.Record
	var faults, left int
	var interrupted error
	for i := range list {
		rec, err := runner.Run(ctx, list[i])
		outcome := harness.Pass
		switch {
		case err != nil && ctx.Err() != nil:
			interrupted = ctx.Err()
		case errors.Is(err, sweeps.ErrUnsupported):
			left++
			outcome = harness.Unsupported
			fmt.Fprintf(s.Stderr, "mbench: left out: %v\n", err)
		case err != nil:
			faults++
			outcome = harness.Fail
			fmt.Fprintf(s.Stderr, "mbench: %v\n", err)
		default:
			if !sweeps.Holds(rec) {
				faults++
				outcome = harness.Fail
				fmt.Fprintf(s.Stderr, "mbench: %s: %s\n", list[i].ID(), strings.Join(rec.Warnings, "; "))
			}
			records = append(records, *rec)
		}
		if interrupted != nil {
			break
		}
		observe(i+1, len(list), harness.Result{Case: list[i].ID().String(), Outcome: outcome})
	}
	if len(records) > 0 {
		err := writeTo(s.Stdout, f.out, func(w io.Writer) error {
			if f.format != "table" {
				return harness.WriteRecords(w, f.format, records)
			}
			return sweepTable(w, records)
		})
		if err := errors.Join(err, interrupted); err != nil {
			return 0, err
		}
	}
	if interrupted != nil {
		return 0, interrupted
	}
	fmt.Fprintf(s.Stderr, "mbench: %d measured, %d left out, %d did not hold in %v\n", len(records), left, faults, time.Since(start).Round(time.Millisecond))
	switch {
	case faults > 0:
		return harness.ExitFailed, nil
	case len(records) == 0:
		return harness.ExitNothing, nil
	}
	return harness.ExitHeld, nil
}

// sweepTable prints records for a terminal: the table, then what holds for all of
// it.
func sweepTable(w io.Writer, records []harness.Record) error {
	p := records[0].Provenance
	if _, err := fmt.Fprintf(w, "%s; %s; commit %s\n", p.Date, p.Host, p.Commit); err != nil {
		return err
	}
	groups := harness.BySweep(records)
	for _, group := range groups {
		if len(groups) > 1 {
			if _, err := fmt.Fprintf(w, "%s\n", group[0].Sweep); err != nil {
				return err
			}
		}
		if err := renderTable(w, harness.NewTable(group)); err != nil {
			return err
		}
	}
	var lines []string
	add := func(format string, args ...any) {
		if line := fmt.Sprintf(format, args...); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	doubtful := 0
	for i := range records {
		r := &records[i]
		for _, l := range r.Limits {
			size := ""
			if l.Bytes > 0 {
				size = fmt.Sprintf(" over %d bytes", l.Bytes)
			}
			add("limit on %s: %s %s%s%s", r.Provenance.Device, l.Name, harness.Prefixed(l.Rate), strings.TrimPrefix(l.Unit, "1"), size)
		}
		if r.Lever != "" && r.Differs != "" {
			add("%s changes the %s", r.Lever, r.Differs)
		}
		if len(r.Warnings) > 0 {
			doubtful++
		}
	}
	if doubtful > 0 {
		add("%d of %d records have warnings, which --format json shows", doubtful, len(records))
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// maxTokens is the largest value of a list.
const maxTokens = 1 << 20

// check reads the flags.
func (f *sweepFlags) check(s cli.Streams) error {
	levers, err := lever.Parse(s.Environ)
	if err != nil {
		return err
	}
	if levers.Trace != "" {
		return fmt.Errorf("MINFER_TRACE=%s: a sweep writes no node values: unset it, or see mbench run", levers.Trace)
	}
	o := sweeps.Options{Levers: levers, Threads: f.threads, Reps: f.reps, Budget: f.budget, Seed: f.seed}
	if f.names, err = words("sweep", f.sweeps, sweeps.Names(), "all"); err != nil {
		return err
	}
	if f.devs, err = words("device", f.devices, nil, ""); err != nil {
		return err
	}
	if !slices.Contains(append([]string{"table"}, harness.RecordFormats...), f.format) {
		return fmt.Errorf("unknown format %q: want one of table, %s", f.format, strings.Join(harness.RecordFormats, ", "))
	}
	for _, l := range []struct {
		flag, value string
		lowest      int
		to          *[]int
	}{{"pp", f.pp, 1, &o.PP}, {"tg", f.tg, 1, &o.TG}, {"kv", f.kv, 0, &o.KV}} {
		if l.value == "" {
			continue
		}
		if *l.to, err = sweeps.ParseInts(l.value, l.lowest, maxTokens); err != nil {
			return fmt.Errorf("--%s %w", l.flag, err)
		}
	}
	if o.Types, err = words("types", f.types, quant.MixNames(), ""); err != nil {
		return err
	}
	names, err := words("cache-types", f.cacheTypes, []string{"f32", "f16", "q8_0"}, "")
	if err != nil {
		return err
	}
	for _, name := range names {
		t, err := gguf.ParseType(name)
		if err != nil {
			return fmt.Errorf("--cache-types %q: %w", name, err)
		}
		o.CacheTypes = append(o.CacheTypes, t)
	}
	switch {
	case f.reps < 0:
		return fmt.Errorf("--reps %d: want a number of rounds, or 0 for as many as the interval needs", f.reps)
	case f.budget <= 0:
		return fmt.Errorf("--budget %v: want more than 0", f.budget)
	case f.threads < 0:
		return fmt.Errorf("--threads %d: want at least 1, or 0 for one per core", f.threads)
	}
	b, err := cpu.New(cpu.Options{Threads: f.threads}) // what it refuses is bad input before anything runs
	if err != nil {
		return fmt.Errorf("--threads %d: %w", f.threads, err)
	}
	b.Close()
	if o.Threads == 0 {
		o.Threads = cli.DefaultThreads()
	}
	if o.GPU, err = sweeps.FindGPU(f.gpu); err != nil {
		return fmt.Errorf("--gpu: %w", err)
	}
	if f.filter != "" {
		if f.only, err = regexp.Compile(f.filter); err != nil {
			return fmt.Errorf("--filter %q: %w", f.filter, err)
		}
	}
	f.options = o
	f.index, f.count, err = cli.ParseShard(f.shard)
	return err
}

// words reads a list of names, each at most once; of known ones, where they are
// given. everything, if not "", stands for all.
func words(flag, list string, known []string, everything string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	if everything != "" && list == everything {
		return known, nil
	}
	var all []string
	for _, word := range strings.Split(list, ",") {
		word = strings.TrimSpace(word)
		if known != nil {
			i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, word) })
			if i < 0 {
				more := ""
				if everything != "" {
					more = ", or " + everything
				}
				return nil, fmt.Errorf("--%s %q: want one or more of %s%s", flag, word, strings.Join(known, ", "), more)
			}
			word = known[i]
		}
		if slices.Contains(all, word) {
			return nil, fmt.Errorf("--%s %q: %s is named twice", flag, list, word)
		}
		all = append(all, word)
	}
	return all, nil
}

// environment opens a device.
func (f *sweepFlags) environment(s cli.Streams, args []string, name, temp string) (*sweeps.Env, error) {
	tally := &sweeps.Tally{}
	device, err := cli.Device(name, cli.DeviceOptions{Levers: f.options.Levers, Counters: tally.Add})
	if err != nil {
		return nil, err
	}
	e := &sweeps.Env{
		Env:        &suites.Env{Seed: f.seed, Device: device, Models: cli.Models(f.model), Temp: temp},
		Small:      cli.Models(""),
		Provenance: cli.Provenance(s, "mbench", args, device.Name),
	}
	if device.Open != nil && name == "soft" { // the one that counts, and takes its time
		e.Tally = tally
	}
	if len(e.Small) == 0 {
		e.Small = e.Models // this program holds no models
	}
	if len(e.Models) == 0 {
		return nil, errors.New("this program holds no models: want --model FILE")
	}
	return e, nil
}
