package harness

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Runner selects cases and runs them in order.
type Runner struct {
	Filter     *regexp.Regexp // on the printed identity; nil for all
	ShardIndex int            // 1..ShardCount
	ShardCount int            // 0 or 1 for all
	FailFast   bool
	// Rerun gives the command that repeats a case alone; nil for none.
	Rerun func(Case) string
	// Observe is called after every case, for progress; nil for none.
	Observe func(done, total int, r Result)
}

// Select gives the cases that the filter and the shard choose, in their order.
// Shards are cut by work, as [Shard] does.
func (r *Runner) Select(cases []Case) []Case {
	var chosen []Case
	for _, c := range cases {
		if r.Filter == nil || r.Filter.MatchString(c.ID.String()) {
			chosen = append(chosen, c)
		}
	}
	if r.ShardCount <= 1 {
		return chosen
	}
	work := make([]int64, len(chosen))
	for i, c := range chosen {
		work[i] = c.Work
	}
	var mine []Case
	for _, i := range Shard(work, r.ShardIndex, r.ShardCount) {
		mine = append(mine, chosen[i])
	}
	return mine
}

// Run runs the selected cases. Cancelling the context ends it after the current
// case, with the rest skipped and the report whole. The error is that of a case
// that could not be judged: bad input or a broken harness, not a failure.
func (r *Runner) Run(ctx context.Context, cases []Case) (*Report, error) {
	selected := r.Select(cases)
	report := &Report{Selected: len(selected)}
	stop := ""
	for i, c := range selected {
		res := Result{Outcome: Skipped, Reason: stop}
		if stop == "" && ctx.Err() != nil {
			stop = "interrupted"
			res.Reason = stop
		}
		if stop == "" {
			start := time.Now()
			var err error
			res, err = c.Run(ctx)
			if errors.Is(err, context.Canceled) && ctx.Err() != nil {
				stop = "interrupted"
				res = Result{Outcome: Skipped, Reason: stop}
			} else if err != nil {
				return report, fmt.Errorf("%s: %w", c.ID, err)
			}
			res.Duration = time.Since(start)
			if res.Outcome == Fail {
				if r.Rerun != nil {
					res.Rerun = r.Rerun(c)
				}
				if r.FailFast {
					stop = "an earlier case failed (--fail-fast)"
				}
			}
		}
		res.Case, res.Device = c.ID.String(), c.Device
		report.Results = append(report.Results, res)
		if r.Observe != nil {
			r.Observe(i+1, len(selected), res)
		}
	}
	report.Interrupted = ctx.Err() != nil
	return report, nil
}

// ExactFilter is the regular expression that selects one case alone.
func ExactFilter(id ID) string { return "^" + regexp.QuoteMeta(id.String()) + "$" }

// ShellQuote quotes an argument for a POSIX shell where it needs it.
func ShellQuote(arg string) string {
	if arg != "" && strings.IndexFunc(arg, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./=,:@%+", r))
	}) < 0 {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
