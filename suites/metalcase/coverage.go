package metalcase

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"minfer/harness"
	"minfer/metal"
)

// coverage counts the dispatch-table entries of a suite's ops that a passed case
// dispatched.
type coverage struct {
	suite  string
	ops    []string
	total  int // cases
	ran    int
	passed map[*metal.Entry]bool
}

func (c *coverage) count(res harness.Result, entries []*metal.Entry) {
	c.ran++
	if res.Outcome != harness.Pass {
		return
	}
	for _, e := range entries {
		c.passed[e] = true
	}
}

// judge is the case that comes last. It fails when an entry was dispatched by no
// passed case, and judges nothing when only some of the cases ran.
func (c *coverage) judge() harness.Case {
	id := harness.ID{Suite: c.suite, Op: "coverage", Params: []harness.Param{harness.P("ops", strings.Join(c.ops, ","))}}
	return harness.Case{ID: id, Work: 1, Run: func(context.Context) (harness.Result, error) {
		covered, missing := c.state()
		line := fmt.Sprintf("coverage: %d of %d dispatch-table entries", covered, covered+len(missing))
		reason := line
		if len(missing) > 0 {
			reason += "; missing: " + strings.Join(missing, ", ")
		}
		res := harness.Passed()
		switch {
		case c.ran < c.total:
			res = harness.Result{Outcome: harness.Skipped, Reason: fmt.Sprintf("%s; not judged: %d of %d cases ran", line, c.ran, c.total)}
		case len(missing) > 0:
			res = harness.Failed("%s", reason)
		}
		res.Note = fmt.Sprintf("%s (%s)", line, c.suite)
		return res, nil
	}}
}

// state gives the number of covered entries and the ids of the rest.
func (c *coverage) state() (covered int, missing []string) {
	for _, e := range metal.Table {
		if !slices.Contains(c.ops, e.Op) {
			continue
		}
		if c.passed[e] {
			covered++
		} else {
			missing = append(missing, e.ID())
		}
	}
	return covered, missing
}
