package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"minfer/cmd/internal/cli"
	"minfer/harness"
	"minfer/metal/msl"
	"minfer/metal/msl/ir"
	"minfer/metal/msl/source"
)

const compileUsage = `
mverify compile takes Metal source down to verified IR and lists its kernels with
their arguments. Each kernel is compiled with its bool function constants all false and
all true, so that both sides of what they decide are seen; the other constants
are 1.

The last line says how many of the file's entry points (kernels, counted in its
preprocessed text) compiled; one that does not says why.

usage: mverify compile FILE.metal... [-I DIR] [-D X=Y] [--min-share PERCENT]

exit codes: 0 enough compiled, 1 it did not, 2 bad usage or input, 3 no kernel.
`

// compile is the subcommand of that name.
func compile(ctx context.Context, s cli.Streams, args []string) (int, error) {
	var o msl.Options
	var dirs []string
	minShare := 100.0
	var quiet, warnings bool
	set := cli.Flags(s, "mverify compile", compileUsage)
	set.StringArrayVarP(&dirs, "include", "I", nil, "look for included files here too; may be repeated")
	set.StringArrayVarP(&o.Defines, "define", "D", nil, "define a macro, as X or X=value; may be repeated")
	set.Float64Var(&minShare, "min-share", 100, "percentage of all entry points that must compile")
	set.IntVar(&o.Version, "metal-version", 0, "value of __METAL_VERSION__ (default 320)")
	set.BoolVar(&o.Safe, "no-fast-math", false, "fuse products and sums only inside a statement")
	set.BoolVarP(&quiet, "quiet", "q", false, "list no kernels, only what does not compile and the share")
	set.BoolVarP(&warnings, "warnings", "w", false, "show warnings too")
	if err := cli.Parse(set, args, 1, 1<<20); err != nil {
		return 0, err
	}
	if minShare < 0 || minShare > 100 {
		return 0, fmt.Errorf("--min-share %v: want 0 to 100", minShare)
	}
	sources, err := cli.OpenSources(set.Args(), dirs)
	if err != nil {
		return 0, err
	}
	o.IncludeDirs = sources.Dirs
	var all share
	for _, file := range sources.Files {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		lib, err := msl.Compile(sources.FS, file, o)
		c := &compilation{w: s.Stdout, show: sources.Show, quiet: quiet, printed: map[string]bool{}}
		c.file(sources.Path(file), lib, err, warnings)
		all.add(c.share)
	}
	if len(sources.Files) > 1 {
		fmt.Fprintf(s.Stdout, "%d files: %v\n", len(sources.Files), all)
	}
	all.reasons(s.Stdout)
	if all.entries == 0 && !all.broken {
		fmt.Fprintln(s.Stderr, "mverify: no kernel in the text: nothing was compiled")
		return harness.ExitNothing, nil
	}
	if all.broken && minShare == 100 || all.percent() < minShare {
		return harness.ExitFailed, nil
	}
	return harness.ExitHeld, nil
}

// share counts entry points.
type share struct {
	entries, compiled int
	broken            bool // an error outside of kernels
	missing           map[string]int
}

func (a *share) add(b share) {
	a.entries += b.entries
	a.compiled += b.compiled
	a.broken = a.broken || b.broken
	for reason, n := range b.missing {
		a.miss(reason, n)
	}
}

func (a *share) miss(reason string, n int) {
	if a.missing == nil {
		a.missing = map[string]int{}
	}
	a.missing[reason] += n
}

func (a share) percent() float64 {
	if a.entries == 0 {
		return 0
	}
	return 100 * float64(a.compiled) / float64(a.entries)
}

// String is "3 of 4 entry points compiled (75.0 %)".
func (a share) String() string {
	if a.entries == 0 {
		return "no entry points"
	}
	return fmt.Sprintf("%d of %d entry points compiled (%.1f %%)", a.compiled, a.entries, a.percent())
}

// reasons lists why kernels did not compile, the commonest first.
func (a share) reasons(w io.Writer) {
	var list []string
	for r := range a.missing {
		list = append(list, r)
	}
	sort.Slice(list, func(i, j int) bool {
		if a.missing[list[i]] != a.missing[list[j]] {
			return a.missing[list[i]] > a.missing[list[j]]
		}
		return list[i] < list[j]
	})
	for _, r := range list {
		fmt.Fprintf(w, "%6d  %s\n", a.missing[r], r)
	}
}

// compilation reports on one file.
type compilation struct {
	w     io.Writer
	show  func(string) string
	quiet bool
	share share
	// printed has the diagnostics that were shown.
	printed map[string]bool
}

func (c *compilation) file(path string, lib *msl.Library, err error, warnings bool) {
	entries := lib.EntryPoints()
	c.share.entries = len(entries)
	wrong := err
	if wrong == nil {
		wrong = lib.Err()
	}
	c.share.broken = wrong != nil
	if wrong != nil {
		fmt.Fprintln(c.w, c.show(wrong.Error()))
	} else if warnings {
		fmt.Fprint(c.w, c.show(lib.Diagnostics()))
	}
	errs := map[string]error{}
	if err == nil {
		errs = lower(lib)
	}
	listed := map[string]bool{}
	for _, k := range lib.Kernels() {
		listed[k.Name] = true
		if err != nil {
			errs[k.Name] = err
		}
		// What the checker found is printed already.
		c.kernel(k, errs[k.Name], k.Err == nil && err == nil)
	}
	// The count in the text decides: a kernel that the parser did not see is one
	// that did not compile.
	for _, e := range entries {
		switch {
		case !listed[e.Name] && err != nil:
			c.share.miss(reason(err), 1)
		case !listed[e.Name]:
			fmt.Fprintf(c.w, "kernel %s: the parser found no such kernel\n", e.Name)
			c.share.miss("the parser found no such kernel", 1)
		case errs[e.Name] != nil:
			c.share.miss(reason(errs[e.Name]), 1)
		default:
			c.share.compiled++
		}
	}
	fmt.Fprintf(c.w, "%s: %v\n", path, c.share)
}

// lower takes all kernels down to verified IR, with the function constants that
// are bool all false and, if there are any, once more with them all true.
func lower(lib *msl.Library) map[string]error {
	errs := lib.Check(nil)
	on := map[string]any{}
	for _, k := range lib.Constants() {
		if k.Type == "bool" {
			on[k.Name] = true
		}
	}
	if len(on) > 0 {
		for name, err := range lib.Check(on) {
			if errs[name] == nil {
				errs[name] = err
			}
		}
	}
	return errs
}

// kernel shows a kernel and its arguments, or why it does not compile.
func (c *compilation) kernel(k msl.KernelInfo, err error, fresh bool) {
	if err != nil {
		fmt.Fprintf(c.w, "kernel %s does not compile\n", k.Name)
		if text := c.show(err.Error()); fresh && !c.printed[text] {
			// Instances of one template often fail alike.
			c.printed[text] = true
			fmt.Fprintln(c.w, text)
		}
	} else if !c.quiet {
		fmt.Fprintf(c.w, "kernel %s\n", k.Name)
	}
	if c.quiet {
		return
	}
	for _, a := range k.Params {
		kind := "buffer"
		if a.Kind == ir.ThreadgroupParam {
			kind = "threadgroup"
		}
		gate := ""
		if a.Gate != "" {
			gate = "  where " + a.Gate
		}
		fmt.Fprintf(c.w, "    %s(%d)  %s%s%s\n", kind, a.Index, a.Type, a.Name, gate)
	}
}

// reason is the first error's message without its place, so that equal causes
// count together.
func reason(err error) string {
	var e *msl.Error
	if errors.As(err, &e) {
		for _, d := range e.Diags {
			if d.Severity == source.Error {
				return d.Msg
			}
		}
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}
