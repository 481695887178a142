package harness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"
)

// Side is one of several things that are measured against each other.
type Side struct {
	Name string
	// Setup prepares a round, outside of the clock; nil for nothing to do.
	Setup func(ctx context.Context) error
	// Round does one fixed piece of work.
	Round func(ctx context.Context) error
}

// Interleave measures sides in one process: each round runs every side once, in
// a random order, so that drift of the machine falls on all alike. warmup rounds
// come first and are not kept. The result is [side][round] in wall time.
func Interleave(ctx context.Context, warmup, rounds int, seed uint64, sides []Side) ([][]time.Duration, error) {
	rng := rand.New(rand.NewPCG(seed, 0))
	times := make([][]time.Duration, len(sides))
	for round := range warmup + rounds {
		for _, i := range rng.Perm(len(sides)) {
			if err := ctx.Err(); err != nil {
				return times, err
			}
			if setup := sides[i].Setup; setup != nil {
				if err := setup(ctx); err != nil {
					return times, fmt.Errorf("%s: %w", sides[i].Name, err)
				}
			}
			start := time.Now()
			err := sides[i].Round(ctx)
			elapsed := time.Since(start)
			if err != nil {
				return times, fmt.Errorf("%s: %w", sides[i].Name, err)
			}
			if round >= warmup {
				times[i] = append(times[i], elapsed)
			}
		}
	}
	return times, nil
}

// Median is the middle of the samples, the mean of the two middle ones for an
// even number; 0 for none.
func Median(samples []time.Duration) time.Duration {
	if len(samples) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(samples))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

// Spread is the distance of the quartiles over the median: how much the machine
// varied. It is 0 for fewer than three samples.
func Spread(samples []time.Duration) float64 {
	if len(samples) < 3 {
		return 0
	}
	x := make([]float64, len(samples))
	for i, s := range samples {
		x[i] = s.Seconds()
	}
	slices.Sort(x)
	return (stat.Quantile(0.75, stat.LinInterp, x, nil) - stat.Quantile(0.25, stat.LinInterp, x, nil)) / Median(samples).Seconds()
}
