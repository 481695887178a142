// Package mutation is the suite that verifies the verification: it plants faults
// in the kernels' source, one at a time, and counts how many of them the other
// suites notice.
//
// A mutant is one edit of the source text as one entry point sees it: every other
// kernel keeps its own text, and the cases that run are those of the other suites
// that dispatch the entry point, cheapest first, until one fails. So each entry
// point needs cases that see the fault, and a helper that many of them share is
// tried through one after another. The edits are the work of [Operators], which
// find their places in the syntax tree and in the checked types, in any Metal
// source; nothing is written down by line.
//
// A mutant counts when it compiles and its code differs from the original's after
// all passes of the compiler. It is noticed when a case fails: by a value out of
// tolerance, a finding of the sanitizer, bits that depend on the number of
// threads, or a submit that does not end. A barrier that is left out must be
// found as a race, whatever the values are.
//
// Each operator is a case, which fails where less than [Threshold] of its mutants
// are noticed; what survives is shown as a diff. Survivors that compute the same
// by another way, or whose difference lies below what any bound can see, are
// listed with their reason in equivalent.json, and count for nothing. The last
// case is the tally of the kernel families.
//
// Mutants run on devices with a sanitizer only: on a GPU one may write anywhere and
// never end.
//
// The sample depends on the seed alone. A run is bounded by the number of mutants
// and, for each, by the work of the cases that it runs.
package mutation

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"minfer/harness"
	"minfer/metal/kernels"
	"minfer/suites"
)

// Threshold is the share of its mutants that must be noticed of each operator, in
// per cent.
const Threshold = 95

// sample is the number of mutants of an operator that count, by tier; 0 is all.
var sample = [...]int{suites.Quick: 2, suites.Full: 28, suites.Exhaustive: 0}

// Suite is the suite `mutation`.
type Suite struct {
	// Suites are those whose cases must notice the mutants. Their cases for the tier
	// quick run, whatever the tier of this one: they are what a CI sees.
	Suites []suites.Suite
	// Sample replaces the tier's number of mutants of an operator; 0 keeps it.
	Sample int
}

// Name is "mutation".
func (Suite) Name() string { return "mutation" }

// Cases lists a case for each operator, and the tally of the families; there are
// none for a device that is not Metal's.
func (s Suite) Cases(env *suites.Env) ([]harness.Case, error) {
	if env.Device.Open == nil {
		return nil, nil
	}
	fsys := env.Kernels
	if fsys == nil {
		fsys = kernels.FS
	}
	known, err := parseKnown("equivalent.json", equivalentFile)
	if err != nil {
		return nil, err
	}
	r := &run{suite: s, env: env, fsys: fsys, known: known, families: map[string]*tally{}}
	count := sample[env.Tier]
	if s.Sample > 0 {
		count = s.Sample
	}
	var cases []harness.Case
	for i, op := range Operators {
		id := harness.ID{Suite: s.Name(), Op: op.Name}
		cases = append(cases, harness.Case{ID: id, Work: workOf(count), Run: func(ctx context.Context) (harness.Result, error) {
			return r.operator(ctx, i, count)
		}})
	}
	return append(cases, harness.Case{ID: harness.ID{Suite: s.Name(), Op: "families"}, Work: 1, Run: func(context.Context) (harness.Result, error) {
		return r.judgeFamilies(), nil
	}}), nil
}

// workOf is the work of one operator's mutants, in multiply-adds: about ten cases
// each.
func workOf(count int) int64 {
	if count == 0 {
		count = 300
	}
	return int64(count) * 10_000_000
}

// run is what the cases share.
type run struct {
	suite Suite
	env   *suites.Env
	fsys  fs.FS
	known []*Known

	prepare sync.Once
	err     error
	sources *Sources
	bench   *bench
	mutants map[string][]*Mutant // by operator, in the order of the text

	families map[string]*tally // by kernel file
	judged   int               // operators
}

// tally counts the fates of mutants.
type tally struct {
	noticed, survived            int
	equivalent, same, uncompiled int
}

// share is the noticed part in per cent of those that count.
func (t *tally) share() float64 {
	if t.noticed+t.survived == 0 {
		return 100
	}
	return 100 * float64(t.noticed) / float64(t.noticed+t.survived)
}

// ready parses the kernels and runs all cases without a mutant, once.
func (r *run) ready(ctx context.Context) error {
	r.prepare.Do(func() {
		if r.sources, r.err = Parse(r.fsys); r.err != nil {
			return
		}
		r.mutants = map[string][]*Mutant{}
		for _, m := range r.sources.Mutants() {
			r.mutants[m.Operator] = append(r.mutants[m.Operator], m)
		}
		if r.bench, r.err = newBench(ctx, r.env, r.fsys, r.suite.Suites); r.err == nil {
			r.env.OnClose(r.bench.close)
		}
	})
	return r.err
}

// operator judges the sampled mutants of one operator.
func (r *run) operator(ctx context.Context, index, count int) (harness.Result, error) {
	op := Operators[index]
	if !r.env.Device.Checked {
		return harness.Result{Outcome: harness.Skipped, Reason: fmt.Sprintf("mutants race and write anywhere: want a device with a sanitizer, not %s", r.env.Device.Name)}, nil
	}
	if err := r.ready(ctx); err != nil {
		return harness.Result{}, err
	}
	var all tally
	var details []string
	by := map[string]int{}
	order := spread(r.mutants[op.Name], r.env.Seed)
	for _, m := range order {
		if count > 0 && all.noticed+all.survived >= count {
			break
		}
		if err := ctx.Err(); err != nil {
			return harness.Result{}, err
		}
		fate, err := r.bench.try(ctx, m, op, r.env.Seed)
		if err != nil {
			return harness.Result{}, fmt.Errorf("%s: %w", m, err)
		}
		switch {
		case fate.uncompiled:
			all.uncompiled++
			continue
		case fate.same:
			all.same++
			continue
		}
		family := r.families[fate.family]
		if family == nil {
			family = &tally{}
			r.families[fate.family] = family
		}
		known := r.equivalent(m, fate.kernel)
		switch {
		case fate.noticed:
			all.noticed++
			family.noticed++
			by[fate.by]++
		case known != nil:
			all.equivalent++
			family.equivalent++
			details = append(details, m.Diff(fate.kernel, "equivalent: "+known.Why)...)
		default:
			all.survived++
			family.survived++
			details = append(details, m.Diff(fate.kernel, "survived: "+fate.why)...)
		}
	}
	r.judged++
	res := harness.Passed()
	if all.noticed+all.survived == 0 {
		res = harness.Failed("no mutant counts: %d do not compile, %d have the same code, of %d places", all.uncompiled, all.same, len(order))
	} else if all.share() < Threshold {
		res = harness.Failed("%d of %d mutants noticed, %.1f %%: want at least %d %%", all.noticed, all.noticed+all.survived, all.share(), Threshold)
	}
	res.Details = details
	res.Note = fmt.Sprintf("%-20s %3d of %3d mutants noticed, %5.1f %%%s", op.Name, all.noticed, all.noticed+all.survived, all.share(), ways(by))
	if all.equivalent > 0 {
		res.Note += fmt.Sprintf("; %d equivalent", all.equivalent)
	}
	res.Counts = []harness.Count{{Name: "mutants", N: int64(all.noticed + all.survived)}, {Name: "noticed", N: int64(all.noticed)},
		{Name: "survived", N: int64(all.survived)}, {Name: "equivalent", N: int64(all.equivalent)},
		{Name: "same code", N: int64(all.same)}, {Name: "not compiling", N: int64(all.uncompiled)}}
	return res, nil
}

// ways lists how mutants were noticed.
func ways(by map[string]int) string {
	var names []string
	for name := range by {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if by[a] != by[b] {
			return by[b] - by[a]
		}
		return strings.Compare(a, b)
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, by[name])
	}
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// judgeFamilies tells how many mutants of each kernel file were noticed. It fails
// where a whole run had none of one.
func (r *run) judgeFamilies() harness.Result {
	if r.judged == 0 {
		return harness.Result{Outcome: harness.Skipped, Reason: "no operator ran"}
	}
	names := r.sources.Files()
	var lines, missing []string
	for _, name := range names {
		t := r.families[name]
		if t == nil || t.noticed+t.survived == 0 {
			missing = append(missing, name)
			continue
		}
		lines = append(lines, fmt.Sprintf("%s %d of %d", strings.TrimSuffix(name, ".metal"), t.noticed, t.noticed+t.survived))
	}
	res := harness.Passed()
	if len(missing) > 0 {
		reason := "no mutant counts in " + strings.Join(missing, ", ")
		if r.judged < len(Operators) || r.env.Tier == suites.Quick {
			res = harness.Result{Outcome: harness.Skipped, Reason: reason + "; not judged: a sample"}
		} else {
			res = harness.Failed("%s", reason)
		}
	}
	res.Note = "noticed by family: " + strings.Join(lines, ", ")
	return res
}

func (r *run) equivalent(m *Mutant, kernel string) *Known {
	for _, k := range r.known {
		if k.matches(m, kernel) {
			return k
		}
	}
	return nil
}
