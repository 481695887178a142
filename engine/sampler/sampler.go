// Package sampler chooses the next token from the logits: greedily, or by
// temperature, top-k, top-p and min-p in llama.cpp's default order, from a
// seeded generator.
//
// It knows nothing of text or of the model. The same options and the same
// logits give the same tokens on every machine and for every run. A Sampler
// has state (its generator and scratch memory) and is not safe for concurrent
// use.
package sampler

import "math/rand/v2"

// Options choose how tokens are drawn. The zero value is greedy.
type Options struct {
	Temperature float32 // 0 is greedy: the others have no effect then
	TopK        int     // keep the k likeliest tokens; 0 keeps all
	TopP        float32 // keep the likeliest tokens up to this mass; 1 keeps all, and so does 0 (unset)
	MinP        float32 // drop tokens less likely than this share of the likeliest; 0 keeps all
	Seed        uint64
}

// A Sampler draws tokens. Make one with New.
type Sampler struct {
	o    Options
	rng  *rand.Rand
	cand []candidate
}

// candidate is a token that is still in the running.
type candidate struct {
	id    int32
	logit float32
	p     float32
}

// New checks the options and returns a sampler at the start of its stream.
func New(o Options) (*Sampler, error) {
	return &Sampler{o: o, rng: rand.New(rand.NewPCG(o.Seed, 0))}, nil
}

// Sample draws the next token from the logits, which it doesn't change.
func (s *Sampler) Sample(logits []float32) (int32, error) { return 0, nil }
