package sampler

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func sampler(t *testing.T, o Options) *Sampler {
	t.Helper()
	s, err := New(o)
	require.NoError(t, err)
	return s
}

// logitsOf gives logits whose softmax at temperature 1 is p.
func logitsOf(p ...float64) []float32 {
	l := make([]float32, len(p))
	for i, x := range p {
		l[i] = float32(math.Log(x)) + 3 // a common shift changes nothing
	}
	return l
}

// support draws n tokens and returns how often each came.
func support(t *testing.T, o Options, logits []float32, n int) []int {
	t.Helper()
	s, counts := sampler(t, o), make([]int, len(logits))
	for range n {
		id, err := s.Sample(logits)
		require.NoError(t, err)
		counts[id]++
	}
	return counts
}

func TestGreedy(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		logits []float32
		want   int32
	}{
		{[]float32{-1}, 0},
		{[]float32{1, 3, 2}, 1},
		{[]float32{2, 7, 7, 1, 7}, 1}, // the lowest id of several
		{[]float32{-5, -inf, -4}, 2},
		{[]float32{-inf, -3e38}, 1},
	} {
		got, err := sampler(t, Options{}).Sample(c.logits)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%v", c.logits)
	}
}

// The largest wins wherever it lies, the first of several equal ones, and what is not
// a number is found wherever it lies.
func TestGreedyEverywhere(t *testing.T) {
	inf := float32(math.Inf(1))
	for n := 1; n <= 13; n++ {
		for at := range n {
			for again := range n {
				logits := make([]float32, n)
				for i := range logits {
					logits[i] = -2 - float32(i%3)
				}
				logits[at], logits[again] = -1, -1
				got, err := Greedy(logits)
				require.NoError(t, err)
				require.EqualValues(t, min(at, again), got, "%d logits", n)

				logits[again] = -inf
				if at != again {
					got, err = Greedy(logits)
					require.NoError(t, err)
					require.EqualValues(t, at, got, "%d logits, none of %d", n, again)
				}
				for _, bad := range []float32{inf, float32(math.NaN())} {
					logits[again] = bad
					_, err = Greedy(logits)
					require.EqualError(t, err, fmt.Sprintf("sampler: the logit of token %d is %v, want a finite number", again, bad))
				}
			}
		}
	}
}

func TestErrors(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, o := range []Options{{}, {Temperature: 1}} {
		s := sampler(t, o)
		for _, c := range []struct {
			logits []float32
			want   string
		}{
			{[]float32{1, nan, 3}, "sampler: the logit of token 1 is NaN, want a finite number"},
			{[]float32{1, 2, inf}, "sampler: the logit of token 2 is +Inf, want a finite number"},
			{[]float32{-inf, -inf}, "sampler: none of the 2 logits is finite"},
			{nil, "sampler: none of the 0 logits is finite"},
		} {
			_, err := s.Sample(c.logits)
			require.EqualError(t, err, c.want)
		}
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Temperature: -0.5}, "sampler: temperature is -0.5, want a finite number of at least 0"},
		{Options{Temperature: nan}, "sampler: temperature is NaN, want a finite number of at least 0"},
		{Options{Temperature: inf}, "sampler: temperature is +Inf, want a finite number of at least 0"},
		{Options{TopK: -1}, "sampler: top-k is -1, want at least 0"},
		{Options{TopP: 1.5}, "sampler: top-p is 1.5, want 0 to 1"},
		{Options{TopP: nan}, "sampler: top-p is NaN, want 0 to 1"},
		{Options{MinP: -1}, "sampler: min-p is -1, want 0 to 1"},
	} {
		_, err := New(c.o)
		require.EqualError(t, err, c.want)
	}
}

// Which tokens survive each filter, by hand. The probabilities at temperature 1
// are .4 .25 .15 .1 .06 .04, ids shuffled.
func TestFilters(t *testing.T) {
	logits := logitsOf(.1, .4, .04, .25, .06, .15)
	for _, c := range []struct {
		name string
		o    Options
		keep []int32
	}{
		{"all", Options{}, []int32{0, 1, 2, 3, 4, 5}},
		{"top-k 1", Options{TopK: 1}, []int32{1}},
		{"top-k 3", Options{TopK: 3}, []int32{1, 3, 5}},
		{"top-k of all", Options{TopK: 6}, []int32{0, 1, 2, 3, 4, 5}},
		{"top-k of more", Options{TopK: 100}, []int32{0, 1, 2, 3, 4, 5}},
		{"top-p below the first", Options{TopP: .3}, []int32{1}},
		{"top-p crossed by the second", Options{TopP: .6}, []int32{1, 3}},
		{"top-p crossed by the fourth", Options{TopP: .85}, []int32{0, 1, 3, 5}},
		{"min-p .2", Options{MinP: .2}, []int32{0, 1, 3, 5}}, // .08 and more
		{"min-p 1", Options{MinP: 1}, []int32{1}},
		// Of the top three (.5, .3125, .1875 of what is left) two reach .6.
		{"top-k then top-p", Options{TopK: 3, TopP: .6}, []int32{1, 3}},
		// Without the renormalisation after top-k, .82 would need all three of .4 .25 .15.
		{"top-p counts what top-k left", Options{TopK: 3, TopP: .81}, []int32{1, 3}},
		// The temperature comes last: it must not widen top-p or min-p.
		{"hot top-p", Options{Temperature: 5, TopP: .6}, []int32{1, 3}},
		{"hot min-p", Options{Temperature: 5, MinP: .2}, []int32{0, 1, 3, 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.o.Temperature == 0 {
				c.o.Temperature = 1
			}
			var got []int32
			for id, n := range support(t, c.o, logits, 2000) {
				if n > 0 {
					got = append(got, int32(id))
				}
			}
			require.Equal(t, c.keep, got)
		})
	}
}

func TestTopKTies(t *testing.T) {
	// Four equal logits compete for two places: the lowest ids win.
	counts := support(t, Options{Temperature: 1, TopK: 3}, []float32{0, 1, 5, 1, 1, 1}, 3000)
	require.Zero(t, counts[0]+counts[4]+counts[5])
	require.NotZero(t, counts[1])
	require.NotZero(t, counts[2])
	require.NotZero(t, counts[3])
}

// The frequencies against the probabilities, by chi-square. The limits are the
// 99.9 % quantiles of the distribution; the seed is fixed, so the test is not
// a matter of luck.
func TestFrequencies(t *testing.T) {
	const n = 20000
	p := []float64{.1, .4, .04, .25, .06, .15}
	chi := func(want []float64, o Options) float64 {
		sum := 0.0
		for i, c := range support(t, o, logitsOf(p...), n) {
			if want[i] > 0 {
				sum += math.Pow(float64(c)-n*want[i], 2) / (n * want[i])
			} else {
				require.Zero(t, c)
			}
		}
		return sum
	}
	require.Less(t, chi(p, Options{Temperature: 1, Seed: 1}), 20.52) // 5 degrees of freedom
	// Temperature .5 squares: .01 .16 .0016 .0625 .0036 .0225, sum .2602.
	sq := []float64{.01, .16, .0016, .0625, .0036, .0225}
	for i := range sq {
		sq[i] /= .2602
	}
	require.Less(t, chi(sq, Options{Temperature: .5, Seed: 2}), 20.52)
	// Top-k 3 leaves .4 .25 .15 of .8: 2 degrees of freedom.
	require.Less(t, chi([]float64{0, .5, 0, .3125, 0, .1875}, Options{Temperature: 1, TopK: 3, Seed: 3}), 13.82)
	// A wrong distribution is seen.
	require.Greater(t, chi(p, Options{Temperature: 1.3, Seed: 4}), 100.0)
}

func TestSeed(t *testing.T) {
	logits := logitsOf(.2, .2, .2, .2, .2)
	draw := func(seed uint64) (ids []int32) {
		s := sampler(t, Options{Temperature: 1, Seed: seed})
		for range 12 {
			id, err := s.Sample(logits)
			require.NoError(t, err)
			ids = append(ids, id)
		}
		return ids
	}
	require.Equal(t, draw(7), draw(7))
	require.NotEqual(t, draw(7), draw(8))
	// Recorded: the stream must be the same on every machine and in every release.
	require.Equal(t, []int32{1, 2, 0, 1, 3, 0, 0, 3, 0, 1, 4, 2}, draw(42))
}

func TestSampleLeavesLogitsAlone(t *testing.T) {
	logits := logitsOf(.1, .4, .04, .25, .06, .15)
	before := append([]float32(nil), logits...)
	support(t, Options{Temperature: .8, TopK: 4, TopP: .9, MinP: .1}, logits, 10)
	require.Equal(t, before, logits)
}

func TestExp(t *testing.T) {
	require.Equal(t, 1.0, exp(0))
	require.Zero(t, exp(-800))
	for x := 0.0; x > -700; x -= 0.37 {
		require.InEpsilon(t, math.Exp(x), exp(x), 2e-15, "%v", x)
	}
}
