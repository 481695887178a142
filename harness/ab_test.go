package harness

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// machine is a synthetic computer: rounds of a given length with relative noise,
// a slow drift, and now and then an interruption.
type machine struct {
	rng      *rand.Rand
	noise    float64
	drift    float64 // relative, over 100 measurements
	outliers float64 // share of measurements that take 1.5 to 4 times as long
	count    int
}

func (m *machine) side(base float64) ABSide {
	return func(context.Context) (time.Duration, error) {
		m.count++
		t := base * math.Exp(m.noise*m.rng.NormFloat64()) * (1 + m.drift*float64(m.count)/100)
		if m.rng.Float64() < m.outliers {
			t *= 1.5 + 2.5*m.rng.Float64()
		}
		return time.Duration(t * 1e9), nil
	}
}

// share is how often of n seeded runs the shipped rule claims a difference.
func share(t *testing.T, n int, slowdown float64, make func(rng *rand.Rand) *machine) float64 {
	claims := 0
	for seed := range n {
		m := make(rand.New(rand.NewPCG(uint64(seed), 7)))
		r, err := MeasureAB(context.Background(), m.side(0.01), m.side(0.01*slowdown), ABOptions{Seed: uint64(seed)})
		require.NoError(t, err)
		if r.Differs() {
			claims++
		}
	}
	return float64(claims) / float64(n)
}

// Two equal sides are told apart no more often than the level allows, with drift
// and outliers, through the stopping rule as it ships.
func TestEqualSidesStayEqual(t *testing.T) {
	got := share(t, 2000, 1, func(rng *rand.Rand) *machine {
		return &machine{rng: rng, noise: 0.01 + 0.05*rng.Float64(), drift: 0.2 * (rng.Float64() - 0.5), outliers: 0.1 * rng.Float64()}
	})
	t.Logf("%.2f %% of equal pairs called different", 100*got)
	require.LessOrEqual(t, got, 0.065)
	require.Greater(t, got, 0.01, "an interval that never errs is not one of 95 %")
}

// A slowdown of 5 % shows through 4 % of noise.
func TestPlantedSlowdownIsFound(t *testing.T) {
	got := share(t, 1000, 1.05, func(rng *rand.Rand) *machine {
		return &machine{rng: rng, noise: 0.04, drift: 0.05, outliers: 0.02}
	})
	t.Logf("%.2f %% of slowdowns found", 100*got)
	require.GreaterOrEqual(t, got, 0.95)
}

// fixed gives the same time whenever it is asked.
func fixed(d time.Duration) ABSide {
	return func(context.Context) (time.Duration, error) { return d, nil }
}

func TestABEnds(t *testing.T) {
	ctx := context.Background()
	r, err := MeasureAB(ctx, fixed(10*time.Millisecond), fixed(11*time.Millisecond), ABOptions{})
	require.NoError(t, err)
	require.Equal(t, "the interval is within 2.0 % of the ratio", r.Stop)
	require.Len(t, r.Rounds, 25, "20 rounds satisfy, a quarter more is run")
	require.Equal(t, "1.100 (1.100 to 1.100)", r.Verdict())
	require.InDelta(t, 0.010, r.MedianA, 1e-12)
	require.InDelta(t, 0.011, r.MedianB, 1e-12)

	same, err := MeasureAB(ctx, fixed(time.Second), fixed(time.Second), ABOptions{})
	require.NoError(t, err)
	require.Equal(t, "1.000 (1.000 to 1.000), no difference shown", same.Verdict())

	seed := uint64(0)
	noisy := func() ABSide {
		seed++
		m := &machine{rng: rand.New(rand.NewPCG(seed, 1)), noise: 0.5}
		return m.side(0.01)
	}
	r, err = MeasureAB(ctx, noisy(), noisy(), ABOptions{MaxRounds: 30})
	require.NoError(t, err)
	require.Equal(t, "30 rounds", r.Stop)
	require.NotEmpty(t, r.Warnings)
	require.Contains(t, strings.Join(r.Warnings, "\n"), "noise: the middle half of side A's rounds")

	r, err = MeasureAB(ctx, fixed(time.Second), noisy(), ABOptions{Budget: 21 * time.Second})
	require.NoError(t, err)
	require.Equal(t, "the budget of 21s", r.Stop)
	require.Len(t, r.Rounds, 20, "the least number of rounds is run even so")

	_, err = MeasureAB(ctx, fixed(0), fixed(time.Second), ABOptions{})
	require.EqualError(t, err, "a round took no time: want more work in a round")
}

// Few rounds give an interval that holds less often than it says, which is said.
func TestFewRounds(t *testing.T) {
	ctx := context.Background()
	for rounds, few := range map[int]bool{1: true, 5: true, 6: false} {
		r, err := MeasureAB(ctx, fixed(time.Second), fixed(time.Second), ABOptions{MinRounds: rounds, MaxRounds: rounds})
		require.NoError(t, err)
		require.Len(t, r.Rounds, rounds)
		require.Equal(t, few, len(r.Warnings) == 1, "%d rounds: %v", rounds, r.Warnings)
		if few {
			require.Contains(t, r.Warnings[0], "rounds are too few for an interval of 95 %")
		}
	}
}

// One side alone stops by the same rule.
func TestMeasureOne(t *testing.T) {
	ctx := context.Background()
	r, err := MeasureOne(ctx, fixed(10*time.Millisecond), ABOptions{})
	require.NoError(t, err)
	require.Equal(t, "the interval is within 2.0 % of the median", r.Stop)
	require.Len(t, r.Samples, 25, "20 rounds satisfy, a quarter more is run")
	require.InDelta(t, 0.010, MedianOf(r.Samples), 1e-12)
	require.Empty(t, r.Warnings)

	noisy := &machine{rng: rand.New(rand.NewPCG(1, 1)), noise: 0.5}
	r, err = MeasureOne(ctx, noisy.side(0.01), ABOptions{MaxRounds: 30})
	require.NoError(t, err)
	require.Equal(t, "30 rounds", r.Stop)
	require.Contains(t, strings.Join(r.Warnings, "\n"), "noise: the middle half of the rounds spreads over ")

	r, err = MeasureOne(ctx, noisy.side(1), ABOptions{Budget: time.Second})
	require.NoError(t, err)
	require.Equal(t, "the budget of 1s", r.Stop)
	require.Len(t, r.Samples, 20)

	_, err = MeasureOne(ctx, fixed(0), ABOptions{})
	require.EqualError(t, err, "a round took no time: want more work in a round")
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	r, err = MeasureOne(stopped, fixed(time.Second), ABOptions{})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "interrupted", r.Stop)
}

func TestABIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	count := 0
	side := func(context.Context) (time.Duration, error) {
		if count++; count == 13 {
			cancel()
		}
		return time.Millisecond, nil
	}
	r, err := MeasureAB(ctx, side, side, ABOptions{})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "interrupted", r.Stop)
	require.Len(t, r.Rounds, 4, "whole rounds after the warm-up")
}

// Each side goes first in about half of the rounds.
func TestABOrderIsRandom(t *testing.T) {
	var order []byte
	note := func(name byte) ABSide {
		return func(context.Context) (time.Duration, error) {
			order = append(order, name)
			return time.Second, nil
		}
	}
	_, err := MeasureAB(context.Background(), note('A'), note('B'), ABOptions{MinRounds: 400, MaxRounds: 400})
	require.NoError(t, err)
	first := 0
	for i := 0; i < len(order); i += 2 {
		require.NotEqual(t, order[i], order[i+1], "one of each a round")
		if order[i] == 'A' {
			first++
		}
	}
	require.InDelta(t, 201, first, 60)
}

// Drift that takes both sides alike is said, and moves no verdict.
func TestABSaysDrift(t *testing.T) {
	m := &machine{rng: rand.New(rand.NewPCG(3, 3)), noise: 0.001, drift: 1}
	r, err := MeasureAB(context.Background(), m.side(0.01), m.side(0.01), ABOptions{MinRounds: 60, MaxRounds: 60})
	require.NoError(t, err)
	require.False(t, r.Differs())
	require.Contains(t, r.Warnings[0], "drift: side A took +")
}

// The interval of a median is that of the sign test where both are known: of 20
// sorted values the 6th and the 15th hold the median with 95.9 %.
func TestMedianInterval(t *testing.T) {
	x := make([]float64, 20)
	for i := range x {
		x[i] = float64((i*7)%20 + 1)
	}
	lo, hi := medianInterval(x, 0.95)
	require.Equal(t, 6.0, lo)
	require.Equal(t, 15.0, hi)
	lo, hi = medianInterval([]float64{3}, 0.95)
	require.Equal(t, 3.0, lo)
	require.Equal(t, 3.0, hi)
}

func TestCalibrate(t *testing.T) {
	runs := 0
	n, err := Calibrate(context.Background(), 10*time.Millisecond, func(_ context.Context, n int) (time.Duration, error) {
		runs++
		return time.Duration(n) * 37 * time.Microsecond, nil
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, n*37, 10000)
	require.Less(t, n*37, 12000, "not much more than asked for")
	require.Less(t, runs, 8)
	n, err = Calibrate(context.Background(), time.Second, func(_ context.Context, n int) (time.Duration, error) { return 2 * time.Second, nil })
	require.NoError(t, err)
	require.Equal(t, 1, n)
}
