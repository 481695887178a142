package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"minfer/cmd/internal/cli"
	"minfer/harness"
	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/metal/mtl/soft/san"
	"minfer/suites/safety"
)

const caseUsage = `
mverify case runs launch cases on the software Metal device under its sanitizer:
a .metal file, how to launch it, and what must be found (nothing, unless the
case says otherwise). See docs/launch-cases.md.

usage: mverify case FILE.json... [flags]

exit codes: 0 every case held, 1 one did not, 2 bad usage or input.
`

// softDevice makes a software device for the cases of a command.
func softDevice(threads int) safety.Opener {
	return func(mode san.Mode, report func(*san.Report)) (mtl.Device, error) {
		return soft.New(soft.Options{Mode: mode, Threads: threads, Seed: 1, Report: func(_ string, r *san.Report) { report(r) }})
	}
}

// caseFlags are the command line of mverify case.
type caseFlags struct {
	mode, baseline, writeBaseline, format, out string
	threads                                    int
	deadline                                   time.Duration
	verbose                                    bool
	args                                       []string // as they were given
}

// caseResult is one case in the JSON report.
type caseResult struct {
	Case     string         `json:"case"`
	Held     bool           `json:"held"`
	Reason   string         `json:"reason,omitempty"`
	Mode     string         `json:"mode"`
	Findings []*san.Finding `json:"findings"`
	Known    []string       `json:"known,omitempty"` // ids that the baseline lists
	duration time.Duration
}

var caseFormats = []string{"text", "json", "jsonl", "junit", "sarif", "github"}

// runCases is the subcommand case.
func runCases(ctx context.Context, s cli.Streams, args []string) (int, error) {
	f := caseFlags{args: args}
	set := cli.Flags(s, "mverify case", caseUsage)
	set.StringVar(&f.mode, "mode", "", "sanitizer mode instead of the cases' own: mem, race, strict, chaos, off")
	set.StringVar(&f.baseline, "baseline", "", "file of known findings, which fail no case")
	set.StringVar(&f.writeBaseline, "write-baseline", "", "write all unexpected findings to this file, and fail none")
	set.StringVar(&f.format, "format", "text", "report format: "+strings.Join(caseFormats, ", "))
	set.StringVar(&f.out, "out", "", "write the report to this file instead of stdout")
	set.IntVar(&f.threads, "threads", runtime.NumCPU(), "threadgroups that run at a time; the findings do not depend on it")
	set.DurationVar(&f.deadline, "deadline", mtl.DefaultDeadline, "time that a case may run")
	set.BoolVarP(&f.verbose, "verbose", "v", false, "show cases that held, and notes")
	if err := cli.Parse(set, args, 1, 1<<20); err != nil {
		return 0, err
	}
	if !slices.Contains(caseFormats, f.format) {
		return 0, fmt.Errorf("case: --format %q: want one of %s", f.format, strings.Join(caseFormats, ", "))
	}
	if f.threads < 1 || f.deadline <= 0 {
		return 0, fmt.Errorf("case: --threads %d and --deadline %v: want both above 0", f.threads, f.deadline)
	}
	runner := &safety.Runner{Open: softDevice(f.threads), Deadline: f.deadline}
	if f.mode != "" {
		mode, err := san.ParseMode(f.mode)
		if err != nil {
			return 0, fmt.Errorf("case: --mode: %w", err)
		}
		runner.Mode = &mode
	}
	var base *safety.Baseline
	if f.baseline != "" {
		data, err := os.ReadFile(f.baseline)
		if err != nil {
			return 0, fmt.Errorf("case: --baseline: %w", err)
		}
		if base, err = safety.ParseBaseline(f.baseline, data); err != nil {
			return 0, err
		}
	}
	// All files are read before anything runs: bad input is bad input.
	var cases []*safety.Case
	var runners []*safety.Runner
	for _, name := range set.Args() {
		if filepath.Ext(name) == ".metal" {
			return 0, fmt.Errorf("case: %s: found Metal source, want a launch case (mverify init %s writes one)", name, harness.ShellQuote(name))
		}
		c, fsys, err := safety.LoadFile(name)
		if err != nil {
			return 0, err
		}
		own := *runner
		own.FS = fsys
		cases, runners = append(cases, c), append(runners, &own)
	}
	out, closeOut, err := openOut(s.Stdout, f.out)
	if err != nil {
		return 0, err
	}
	defer closeOut()

	results, err := f.runAll(ctx, s, cases, runners, base)
	if err != nil {
		return 0, err
	}
	if f.writeBaseline != "" {
		if err := writeBaseline(f.writeBaseline, base, cases, results); err != nil {
			return 0, err
		}
	}
	if err := errors.Join(f.write(out, s, results, cases), closeOut()); err != nil {
		return 0, err
	}
	f.staleEntries(s.Stderr, base, results)
	for _, r := range results {
		if !r.Held {
			return harness.ExitFailed, nil
		}
	}
	return harness.ExitHeld, nil
}

func (f *caseFlags) runAll(ctx context.Context, s cli.Streams, cases []*safety.Case, runners []*safety.Runner, base *safety.Baseline) ([]caseResult, error) {
	var results []caseResult
	for i, c := range cases {
		start := time.Now()
		report, err := runners[i].Run(ctx, c)
		if err != nil {
			return nil, err
		}
		known := base.Known()
		if f.writeBaseline != "" {
			for _, x := range report.Findings {
				known[x.ID] = true
			}
		}
		v := safety.Judge(c, report, known)
		r := caseResult{Case: c.Path, Held: v.Held, Reason: v.Reason, Mode: report.Mode, Findings: report.Findings, duration: time.Since(start)}
		if r.Findings == nil {
			r.Findings = []*san.Finding{}
		}
		for _, x := range v.Known {
			r.Known = append(r.Known, x.ID)
		}
		results = append(results, r)
	}
	return results, nil
}

// write prints the results in the chosen format.
func (f *caseFlags) write(w io.Writer, s cli.Streams, results []caseResult, cases []*safety.Case) error {
	switch f.format {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(struct {
			Cases []caseResult `json:"cases"`
		}{results})
	case "jsonl", "junit", "sarif", "github":
		report := &harness.Report{Selected: len(results), Provenance: cli.Provenance(s, "mverify", append([]string{"case"}, f.args...), "soft")}
		for i, r := range results {
			out := harness.Passed()
			if !r.Held {
				out = harness.Failed("%s", r.Reason)
			}
			out.Case, out.Device, out.Duration = r.Case, "soft", r.duration
			if f.format != "jsonl" { // SUITE/NAME, as the suites' own cases
				out.Case = "case/" + r.Case
			}
			if !r.Held {
				out.Rerun = f.rerun(r.Case)
				out.Findings = sourceFindings(cases[i], r)
			}
			out.Details = lines(r, true)
			report.Results = append(report.Results, out)
		}
		return report.Write(w, f.format, f.verbose)
	}
	held := 0
	for i, r := range results {
		if r.Held {
			held++
			if !f.verbose {
				continue
			}
		}
		if r.Held {
			fmt.Fprintf(w, "held   %s: expected %s\n", r.Case, strings.Join(cases[i].Expect, " or "))
		} else {
			fmt.Fprintf(w, "FAILED %s: %s\n", r.Case, r.Reason)
		}
		for _, l := range lines(r, f.verbose) {
			fmt.Fprintf(w, "  %s\n", l)
		}
		if len(r.Known) > 0 {
			fmt.Fprintf(w, "  in the baseline: %s\n", strings.Join(r.Known, ", "))
		}
	}
	_, err := fmt.Fprintf(w, "%d of %d cases held\n", held, len(results))
	return err
}

// sourceFindings are the errors of a case that did not hold, in the files as the
// command line's folder sees them. What has no place of its own, such as a launch
// that Metal refuses or a fault that was expected and not found, is one of the case's
// file.
func sourceFindings(c *safety.Case, r caseResult) []harness.Finding {
	folder := sourceFolder(c)
	place := func(s *san.Side) harness.Place {
		what := s.What
		if t := s.Threadgroup; t != nil {
			what = fmt.Sprintf("%s by threadgroup (%d, %d, %d), simdgroup %d, lane %d", what, t[0], t[1], t[2], s.Simdgroup, s.Lane)
		}
		return harness.Place{File: path.Join(folder, s.File), Line: s.Line, Column: s.Column, What: what}
	}
	var list []harness.Finding
	for _, x := range r.Findings {
		if x.Severity != san.Error || slices.Contains(r.Known, x.ID) {
			continue
		}
		f := harness.Finding{Rule: x.Kind, Level: harness.LevelError, Message: x.Message, ID: x.ID, At: harness.Place{File: filepath.ToSlash(c.Path), Line: 1}}
		for i := range x.Sides {
			switch s := &x.Sides[i]; {
			case s.File == "":
			case i == 0:
				f.At = place(s)
			default:
				f.Related = append(f.Related, place(s))
			}
		}
		list = append(list, f)
	}
	if list == nil {
		list = []harness.Finding{{Rule: "launch-case", Level: harness.LevelError, Message: r.Reason, At: harness.Place{File: filepath.ToSlash(c.Path), Line: 1}}}
	}
	return list
}

// sourceFolder is where a case's source lies: below the current folder from there,
// elsewhere absolute. (The case has it from the root of the file system.)
func sourceFolder(c *safety.Case) string {
	abs, err := filepath.Abs(c.Path)
	if err != nil {
		return path.Dir(c.Source)
	}
	abs = filepath.VolumeName(abs) + string(filepath.Separator) + filepath.FromSlash(path.Dir(c.Source))
	if here, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(here, abs); err == nil && filepath.IsLocal(rel) {
			abs = rel
		}
	}
	return filepath.ToSlash(abs)
}

// rerun is the command that repeats one case.
func (f *caseFlags) rerun(file string) string {
	var b strings.Builder
	b.WriteString("mverify case")
	if f.mode != "" {
		b.WriteString(" --mode " + f.mode)
	}
	if f.baseline != "" {
		b.WriteString(" --baseline " + harness.ShellQuote(f.baseline))
	}
	if f.deadline != mtl.DefaultDeadline {
		b.WriteString(" --deadline " + f.deadline.String())
	}
	return b.String() + " " + harness.ShellQuote(file)
}

// lines is the text of a case's findings.
func lines(r caseResult, notes bool) []string {
	var b strings.Builder
	report := san.Report{Findings: r.Findings}
	if report.WriteText(&b, notes) != nil || b.Len() == 0 {
		return nil
	}
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

func writeBaseline(path string, base *safety.Baseline, cases []*safety.Case, results []caseResult) error {
	if base == nil {
		base = &safety.Baseline{Findings: []safety.BaselineEntry{}}
	}
	for i, r := range results {
		for _, x := range r.Findings {
			if slices.Contains(r.Known, x.ID) {
				base.Add(cases[i].Path, x)
			}
		}
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("case: --write-baseline: %w", err)
	}
	return errors.Join(base.Write(file), file.Close())
}

// staleEntries tells which entries of the baseline nothing needed.
func (f *caseFlags) staleEntries(w io.Writer, base *safety.Baseline, results []caseResult) {
	if base == nil || f.writeBaseline != "" {
		return
	}
	for _, e := range base.Findings {
		used := false
		for _, r := range results {
			used = used || slices.Contains(r.Known, e.ID)
		}
		if !used {
			fmt.Fprintf(w, "mverify: %s: %s was not found in these cases: if they are all, its entry can go\n", f.baseline, e.ID)
		}
	}
}

const initUsage = `
mverify init writes a launch-case skeleton for the kernels of a .metal file: every
argument with its type, and guesses for sizes and data. Correct them, say what
the outputs are, and run it with mverify case.

usage: mverify init FILE.metal [flags]
`

// initCase is the subcommand init.
func initCase(ctx context.Context, s cli.Streams, args []string) (int, error) {
	var out string
	var only []string
	set := cli.Flags(s, "mverify init", initUsage)
	set.StringVar(&out, "out", "", "file to write; the .metal file's name with .json if empty, - for stdout")
	set.StringSliceVar(&only, "kernel", nil, "kernels to launch; all of them if empty")
	if err := cli.Parse(set, args, 1, 1); err != nil {
		return 0, err
	}
	name := set.Arg(0)
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	device, err := softDevice(1)(san.Off, func(*san.Report) {})
	if err != nil {
		return 0, err
	}
	defer device.Close()
	lib, err := device.Compile(ctx, mtl.Source{Name: filepath.Base(name), Text: string(text), FastMath: true, Include: os.DirFS(filepath.Dir(name))})
	if err != nil {
		fmt.Fprintln(s.Stderr, err)
		return harness.ExitFailed, nil
	}
	defer lib.Release()
	kernels := lib.Kernels()
	for _, k := range only {
		if !slices.Contains(kernels, k) {
			return 0, fmt.Errorf("init: --kernel %q: want one of %s", k, strings.Join(kernels, ", "))
		}
	}
	if len(only) > 0 {
		kernels = only
	}
	if len(kernels) == 0 {
		return 0, fmt.Errorf("init: %s has no kernel", name)
	}
	skeleton, err := safety.Skeleton(filepath.Base(name), lib, kernels)
	if err != nil {
		return 0, fmt.Errorf("init: %s: %w", name, err)
	}
	if out == "-" {
		_, err := s.Stdout.Write(skeleton)
		return harness.ExitHeld, err
	}
	if out == "" {
		out = strings.TrimSuffix(name, filepath.Ext(name)) + ".json"
	}
	file, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return 0, fmt.Errorf("init: %w (a file that exists is left alone)", err)
	}
	_, err = file.Write(skeleton)
	if err := errors.Join(err, file.Close()); err != nil {
		return 0, fmt.Errorf("init: %s: %w", out, err)
	}
	fmt.Fprintf(s.Stdout, "wrote %s\n", out)
	return harness.ExitHeld, nil
}
