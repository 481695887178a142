package sweeps

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"minfer/engine/lever"
	"minfer/engine/model"
	"minfer/engine/sampler"
	"minfer/engine/tokenizer"
	"minfer/harness"
	"minfer/suites"
)

// The text that every side of a comparison generates: a speed-up that changes it is
// none.
const (
	greedyPrompt = "In the beginning God created the heaven and the earth. And the earth was"
	greedyTokens = 16
)

// textKey is what a text depends on.
type textKey struct {
	env    *Env
	model  string
	types  string
	levers lever.Levers
}

// text is a generated one.
type text struct {
	hash   string
	tokens []int32
}

// greedy adds the hash of the text that each side of a comparison generates.
func (r *Runner) greedy(ctx context.Context, s Scenario, rec *harness.Record) error {
	if len(s.env.Small) == 0 || len(s.Sides) < 2 && s.model == nil {
		return nil
	}
	small, err := s.small()
	if err != nil {
		return err
	}
	src := &source{env: s.env, model: small, types: s.weights}
	var texts []text
	for i, side := range s.Sides {
		t, err := r.text(ctx, src, side.Levers)
		if err != nil {
			return err
		}
		rec.Sides[i].Greedy = t.hash
		texts = append(texts, t)
	}
	if len(texts) == 2 && texts[0].hash != texts[1].hash {
		at := 0
		for at < len(texts[0].tokens) && at < len(texts[1].tokens) && texts[0].tokens[at] == texts[1].tokens[at] {
			at++
		}
		rec.Warnings = append(rec.Warnings, fmt.Sprintf("the greedy texts of the sides part at token %d", at))
	}
	return nil
}

// small is the model for a scenario's texts: the first with its head size, or the
// first.
func (s *Scenario) small() (suites.Model, error) {
	for _, m := range s.env.Small {
		if s.model != nil && m.Name == s.model.model.Name {
			return m, nil
		}
	}
	for _, m := range s.env.Small {
		f, err := m.Open()
		if err != nil {
			return m, err
		}
		loaded, err := model.Load(f)
		if err != nil {
			f.Close()
			return m, err
		}
		found := loaded.HeadDimK == s.headDim
		if err := f.Close(); err != nil {
			return m, err
		}
		if found {
			return m, nil
		}
	}
	return s.env.Small[0], nil
}

// text generates greedily under a setting, once.
func (r *Runner) text(ctx context.Context, src *source, l lever.Levers) (text, error) {
	key := textKey{src.env, src.model.Name, src.types, l}
	if t, ok := r.texts[key]; ok {
		return t, nil
	}
	m, err := r.load(src)
	if err != nil {
		return text{}, err
	}
	prompt := m.tok.Encode(greedyPrompt, tokenizer.Options{AddSpecial: true})
	if len(prompt) < gemmTokens {
		return text{}, fmt.Errorf("the prompt is %d tokens: want %d at least, so that all kernels of a prompt run", len(prompt), gemmTokens)
	}
	ses, _, _, end, err := newSession(r, src, m, l, len(prompt)+greedyTokens, &recorder{})
	if err != nil {
		return text{}, err
	}
	defer end()
	defer ses.Close()
	greedy, err := sampler.New(sampler.Options{})
	if err != nil {
		return text{}, err
	}
	tokens, err := ses.Generate(ctx, prompt, greedyTokens, greedy, nil, nil)
	if err != nil {
		return text{}, err
	}
	sum := sha256.Sum256(m.tok.Decode(slices.Clone(tokens)))
	t := text{hex.EncodeToString(sum[:]), tokens}
	r.texts[key] = t
	return t, nil
}
