// Package sampler chooses the next token from the logits: greedily, or drawn
// after top-k, top-p, min-p and temperature, in llama.cpp's default order, from
// a seeded generator.
//
// It knows nothing of text or of the model. The same options and the same
// logits give the same tokens on every machine: the exponential is the
// package's own and the generator is PCG, so neither the platform nor the
// number of threads has a say. A Sampler has state (its generator and scratch
// memory) and is not safe for concurrent use.
package sampler

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Options choose how tokens are drawn. The zero value is greedy.
type Options struct {
	Temperature float32 // divides the logits; 0 is greedy and the others have no effect
	TopK        int     // keep the k likeliest tokens; 0 keeps all
	TopP        float32 // of those, keep the likeliest up to this share of the probability; 0 (unset) and 1 keep all
	MinP        float32 // of those, drop what is less likely than this share of the likeliest; 0 drops none
	Seed        uint64
}

// check names the first option that is out of its range.
func (o Options) check() error {
	switch {
	case !(o.Temperature >= 0) || math.IsInf(float64(o.Temperature), 0):
		return fmt.Errorf("sampler: temperature is %v, want a finite number of at least 0", o.Temperature)
	case o.TopK < 0:
		return fmt.Errorf("sampler: top-k is %d, want at least 0", o.TopK)
	case !(o.TopP >= 0 && o.TopP <= 1):
		return fmt.Errorf("sampler: top-p is %v, want 0 to 1", o.TopP)
	case !(o.MinP >= 0 && o.MinP <= 1):
		return fmt.Errorf("sampler: min-p is %v, want 0 to 1", o.MinP)
	}
	return nil
}

// A Sampler draws tokens. Make one with New.
type Sampler struct {
	o    Options
	rng  *rand.Rand
	cand []candidate
	cum  []float64
}

// candidate is a token that is still in the running.
type candidate struct {
	id    int32
	logit float32
}

// byLogit sorts the likeliest first; the lower id wins a tie.
func byLogit(a, b candidate) int {
	if c := cmp.Compare(b.logit, a.logit); c != 0 {
		return c
	}
	return cmp.Compare(a.id, b.id)
}

// New checks the options and returns a sampler at the start of its stream.
func New(o Options) (*Sampler, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	return &Sampler{o: o, rng: rand.New(rand.NewPCG(o.Seed, 0))}, nil
}

// Sample draws the next token from the logits, one a token id, which it doesn't
// change. A NaN or a positive infinity among them is an error, and so is a
// vocabulary without a finite logit; negative infinity rules a token out.
func (s *Sampler) Sample(logits []float32) (int32, error) {
	best, err := Greedy(logits)
	if err != nil || s.o.Temperature == 0 {
		return best, err
	}
	s.cand = s.cand[:0]
	for id, l := range logits {
		if !math.IsInf(float64(l), -1) {
			s.cand = append(s.cand, candidate{int32(id), l})
		}
	}
	s.topK()
	s.topP()
	s.minP(logits[best])
	return s.draw(logits[best]), nil
}

// Greedy is the id of the largest logit, the lowest id of several, as
// llama.cpp's greedy sampler has it. Its errors are those of Sample.
func Greedy(logits []float32) (int32, error) {
	if id, ok := finiteGreedy(logits); ok {
		return id, nil
	}
	best := -1
	for id, l := range logits {
		if l != l || math.IsInf(float64(l), 1) {
			return 0, fmt.Errorf("sampler: the logit of token %d is %v, want a finite number", id, l)
		}
		if !math.IsInf(float64(l), -1) && (best < 0 || l > logits[best]) {
			best = id
		}
	}
	if best < 0 {
		return 0, fmt.Errorf("sampler: none of the %d logits is finite", len(logits))
	}
	return int32(best), nil
}

// finiteGreedy is Greedy of logits that are all finite numbers; ok says whether they
// are. Four searches run side by side: one waits for each comparison, which takes as
// long as a GPU needs for a third of a token.
func finiteGreedy(logits []float32) (best int32, ok bool) {
	if len(logits) < 4 {
		return 0, false
	}
	whole := len(logits) &^ 3
	id := [4]int{0, 1, 2, 3}
	top := [4]float32(logits)
	var sum [4]float32 // of zeros, or of NaNs
	for i := 0; i < whole; i += 4 {
		l := (*[4]float32)(logits[i:])
		sum[0] += l[0] - l[0]
		sum[1] += l[1] - l[1]
		sum[2] += l[2] - l[2]
		sum[3] += l[3] - l[3]
		if l[0] > top[0] {
			top[0], id[0] = l[0], i
		}
		if l[1] > top[1] {
			top[1], id[1] = l[1], i+1
		}
		if l[2] > top[2] {
			top[2], id[2] = l[2], i+2
		}
		if l[3] > top[3] {
			top[3], id[3] = l[3], i+3
		}
	}
	for i, l := range logits[whole:] {
		sum[0] += l - l
		if l > top[0] {
			top[0], id[0] = l, whole+i
		}
	}
	k := 0
	for n := 1; n < 4; n++ {
		if top[n] > top[k] || top[n] == top[k] && id[n] < id[k] {
			k = n
		}
	}
	return int32(id[k]), sum[0]+sum[1]+sum[2]+sum[3] == 0
}

// topK keeps the k likeliest, sorted.
func (s *Sampler) topK() {
	k := s.o.TopK
	if k == 0 || k >= len(s.cand) {
		return
	}
	// A heap of the k best so far, the worst of them on top: one pass over the
	// vocabulary instead of a sort of all of it.
	h := s.cand[:k]
	for i := k/2 - 1; i >= 0; i-- {
		sink(h, i)
	}
	for _, c := range s.cand[k:] {
		if byLogit(c, h[0]) < 0 {
			h[0] = c
			sink(h, 0)
		}
	}
	slices.SortFunc(h, byLogit)
	s.cand = h
}

// sink restores the heap below i.
func sink(h []candidate, i int) {
	for {
		worst := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h); c++ {
			if byLogit(h[c], h[worst]) > 0 {
				worst = c
			}
		}
		if worst == i {
			return
		}
		h[i], h[worst] = h[worst], h[i]
		i = worst
	}
}

// topP keeps the likeliest until their share of what is left reaches p: the
// token that crosses p stays. Temperature comes later in the order, so the
// probabilities here are those at temperature 1.
func (s *Sampler) topP() {
	p := s.o.TopP
	if p == 0 || p == 1 {
		return
	}
	slices.SortFunc(s.cand, byLogit)
	total := s.accumulate(s.cand[0].logit, 1)
	for i, c := range s.cum {
		if c >= float64(p)*total {
			s.cand = s.cand[:i+1]
			return
		}
	}
}

// minP drops tokens whose probability is below p times the largest.
func (s *Sampler) minP(best float32) {
	if s.o.MinP == 0 {
		return
	}
	s.cand = slices.DeleteFunc(s.cand, func(c candidate) bool {
		return exp(float64(c.logit)-float64(best)) < float64(s.o.MinP)
	})
}

// draw picks one candidate with the probability of its logit over the
// temperature.
func (s *Sampler) draw(best float32) int32 {
	x := s.rng.Float64() * s.accumulate(best, float64(s.o.Temperature))
	i, _ := slices.BinarySearch(s.cum, x)
	// cum[i] is the end of candidate i's interval, which doesn't belong to it.
	for i < len(s.cum)-1 && s.cum[i] <= x {
		i++
	}
	return s.cand[min(i, len(s.cand)-1)].id
}

// accumulate fills cum with the running sums of exp((logit-best)/t), and
// returns the last.
func (s *Sampler) accumulate(best float32, t float64) float64 {
	s.cum = s.cum[:0]
	sum := 0.0
	for _, c := range s.cand {
		sum += exp((float64(c.logit) - float64(best)) / t)
		s.cum = append(s.cum, sum)
	}
	return sum
}
