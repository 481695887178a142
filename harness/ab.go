package harness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// ABOptions bound a comparison. The zero value takes the defaults.
type ABOptions struct {
	Warmup    int           // rounds that are not kept; 2
	MinRounds int           // 20: an interval of fewer is not to be trusted
	MaxRounds int           // 400
	Width     float64       // stop when the interval is at most this far from the ratio on either side; 0.02
	Budget    time.Duration // of all measuring; 0 for none
	Level     float64       // of confidence; 0.95
	Seed      uint64        // of the order within rounds and of the resampling
}

func (o ABOptions) defaults() ABOptions {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&o.Warmup, 2)
	set(&o.MinRounds, 20)
	set(&o.MaxRounds, 400)
	if o.Width == 0 {
		o.Width = 0.02
	}
	if o.Level == 0 {
		o.Level = 0.95
	}
	return o
}

// AB is a measured comparison of two sides in matched rounds.
type AB struct {
	Rounds   [][2]float64 `json:"-"` // seconds of A and of B, by round; a Record has them by side
	MedianA  float64      `json:"median_a_s"`
	MedianB  float64      `json:"median_b_s"`
	Ratio    float64      `json:"ratio"` // time of B over time of A: the median of the rounds' ratios
	Lo       float64      `json:"ratio_lo"`
	Hi       float64      `json:"ratio_hi"`
	Level    float64      `json:"level"`
	Stop     string       `json:"stop"` // why no further round was run
	Warnings []string     `json:"warnings,omitempty"`
}

// Differs says whether the interval leaves out 1.
func (r *AB) Differs() bool { return r.Lo > 1 || r.Hi < 1 }

// Verdict is the result in words: "1.052 (1.031 to 1.070)" or "no difference
// shown".
func (r *AB) Verdict() string {
	interval := fmt.Sprintf("%.3f (%.3f to %.3f)", r.Ratio, r.Lo, r.Hi)
	if r.Differs() {
		return interval
	}
	return interval + ", no difference shown"
}

// ABSide runs one round of a side and says how long its work took: wall time, or
// the device's own where it has a timer.
type ABSide func(ctx context.Context) (time.Duration, error)

// MeasureAB runs both sides once a round, in random order, so that drift of the
// machine falls on both alike, and compares them by the median of the rounds'
// ratios, which an outlier in a few rounds does not move, with its bootstrap
// interval.
//
// It stops when the interval is narrow enough, never because of what the interval
// says. Rounds that happen to agree make an interval narrow too early, which would
// thin out the promised level: looks are few, each after a quarter more rounds, and
// after the one that satisfies a quarter more is run all the same. An interrupted
// measurement gives what there is, with the context's error.
func MeasureAB(ctx context.Context, a, b ABSide, o ABOptions) (*AB, error) {
	o = o.defaults()
	rng := rand.New(rand.NewPCG(o.Seed, 1))
	r := &AB{Level: o.Level}
	sides := [2]ABSide{a, b}
	var spent time.Duration
	look, last := o.MinRounds, o.MaxRounds
	for n := -o.Warmup; ; n++ {
		switch {
		case n >= last && n < o.MaxRounds:
			r.Stop = fmt.Sprintf("the interval is within %.1f %% of the ratio", 100*o.Width)
		case n >= o.MaxRounds:
			r.Stop = fmt.Sprintf("%d rounds", n)
		case n >= o.MinRounds && o.Budget > 0 && spent >= o.Budget:
			r.Stop = fmt.Sprintf("the budget of %v", o.Budget)
		case n >= look && last == o.MaxRounds:
			r.summarise(o)
			if max(r.Hi/r.Ratio-1, 1-r.Lo/r.Ratio) <= o.Width {
				last = min(n+(n+3)/4, o.MaxRounds)
			}
			look = n + (n+3)/4
		}
		if r.Stop != "" {
			r.summarise(o)
			return r, nil
		}
		var times [2]float64
		for _, side := range rng.Perm(2) {
			if err := ctx.Err(); err != nil {
				r.summarise(o)
				r.Stop = "interrupted"
				return r, err
			}
			d, err := sides[side](ctx)
			if err != nil {
				return r, err
			}
			if d <= 0 {
				return r, errors.New("a round took no time: want more work in a round")
			}
			times[side] = d.Seconds()
			spent += d
		}
		if n >= 0 {
			r.Rounds = append(r.Rounds, times)
		}
	}
}

// One is the measurement of a single side.
type One struct {
	Samples  []float64 // seconds by round
	Stop     string
	Warnings []string
}

// MeasureOne times one side in rounds until the interval of its median is narrow
// enough, by the rule of MeasureAB.
func MeasureOne(ctx context.Context, side ABSide, o ABOptions) (*One, error) {
	o = o.defaults()
	r := &One{}
	var spent time.Duration
	look, last := o.MinRounds, o.MaxRounds
	for n := -o.Warmup; ; n++ {
		switch {
		case n >= last && n < o.MaxRounds:
			r.Stop = fmt.Sprintf("the interval is within %.1f %% of the median", 100*o.Width)
		case n >= o.MaxRounds:
			r.Stop = fmt.Sprintf("%d rounds", n)
		case n >= o.MinRounds && o.Budget > 0 && spent >= o.Budget:
			r.Stop = fmt.Sprintf("the budget of %v", o.Budget)
		case n >= look && last == o.MaxRounds:
			lo, hi := medianInterval(r.Samples, o.Level)
			if m := median(r.Samples); max(hi-m, m-lo) <= o.Width*m {
				last = min(n+(n+3)/4, o.MaxRounds)
			}
			look = n + (n+3)/4
		}
		if r.Stop != "" {
			r.Warnings = doubts(r.Samples)
			return r, nil
		}
		if err := ctx.Err(); err != nil {
			r.Stop = "interrupted"
			return r, err
		}
		d, err := side(ctx)
		if err != nil {
			return r, err
		}
		if d <= 0 {
			return r, errors.New("a round took no time: want more work in a round")
		}
		spent += d
		if n >= 0 {
			r.Samples = append(r.Samples, d.Seconds())
		}
	}
}

// summarise computes everything from the rounds.
func (r *AB) summarise(o ABOptions) {
	n := len(r.Rounds)
	if n == 0 {
		return
	}
	var side [2][]float64
	logs := make([]float64, n)
	for i, t := range r.Rounds {
		side[0], side[1] = append(side[0], t[0]), append(side[1], t[1])
		logs[i] = math.Log(t[1] / t[0])
	}
	r.MedianA, r.MedianB = median(side[0]), median(side[1])
	r.Ratio = math.Exp(median(logs))
	lo, hi := medianInterval(logs, o.Level)
	r.Lo, r.Hi = math.Exp(lo), math.Exp(hi)
	r.Warnings = doubts(side[0], side[1])
	// The range of n values holds the median of what they are drawn from in all but
	// two of 2^n cases.
	if 1-math.Pow(2, float64(1-n)) < o.Level {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d rounds are too few for an interval of %.0f %%: it is their range", n, 100*o.Level))
	}
}

// medianInterval is the bootstrap's percentile interval of the median, without
// resampling: the ideal bootstrap's distribution of a median is known, the value
// that a Beta((n+1)/2, (n+1)/2) share of the sorted sample lies below (Maritz and
// Jarrett, "A note on estimating the variance of the sample median", 1978).
func medianInterval(x []float64, level float64) (lo, hi float64) {
	s := slices.Sorted(slices.Values(x))
	n := len(s)
	half := float64(n+1) / 2
	share := distuv.Beta{Alpha: half, Beta: half}.Quantile((1 - level) / 2)
	k := max(int(math.Ceil(share*float64(n))), 1)
	return s[k-1], s[n-k]
}

// doubts are what a reader should know of the samples: drift over the rounds, and
// a machine that was not quiet.
func doubts(sides ...[]float64) []string {
	var out []string
	for i, x := range sides {
		who, whose := "the side", "the"
		if len(sides) > 1 {
			who = "side " + string(rune('A'+i))
			whose = who + "'s"
		}
		third := len(x) / 3
		if third < 3 {
			continue
		}
		if first, last := median(x[:third]), median(x[len(x)-third:]); math.Abs(last/first-1) > 0.1 {
			out = append(out, fmt.Sprintf("drift: %s took %+.0f %% at the end of the run", who, 100*(last/first-1)))
		}
		s := slices.Sorted(slices.Values(x))
		if spread := (stat.Quantile(0.75, stat.LinInterp, s, nil) - stat.Quantile(0.25, stat.LinInterp, s, nil)) / median(x); spread > 0.1 {
			out = append(out, fmt.Sprintf("noise: the middle half of %s rounds spreads over %.0f %% of the median", whose, 100*spread))
		}
	}
	return out
}

// MedianOf is the middle of the values, the mean of the two middle ones for an even
// number; 0 for none.
func MedianOf(x []float64) float64 { return median(x) }

// median of values in any order; x is left as it is.
func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	n := len(s)
	if n == 0 {
		return 0
	}
	return (s[(n-1)/2] + s[n/2]) / 2
}

// Calibrate finds how many repetitions of a piece of work take at least the given
// time: run does n of them. It doubles from 1 and then scales, so that the result
// is near the target and not a power of two by accident of the clock.
func Calibrate(ctx context.Context, target time.Duration, run func(ctx context.Context, n int) (time.Duration, error)) (int, error) {
	const most = 1 << 30
	for n := 1; ; {
		d, err := run(ctx, n)
		if err != nil {
			return 0, err
		}
		if d >= target || n >= most {
			return n, nil
		}
		next := most
		if d > 0 {
			next = int(math.Ceil(1.1 * float64(n) * float64(target) / float64(d)))
		}
		n = min(max(next, n+1), 8*n, most)
	}
}
