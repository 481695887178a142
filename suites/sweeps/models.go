package sweeps

import (
	"context"

	"minfer/harness"
)

// Sweeps of whole models.

// What is timed of a model.
const (
	opPrefill = "prefill"
	opDecode  = "decode"
	opHold    = "hold" // the registration of its weights
)

// sources gives the models in the types asked for; without any, embedded models in
// the given types and files as they are.
func (e *Env) sources(o Options, own ...string) []*source {
	var all []*source
	for _, m := range e.Models {
		types := o.Types
		if len(types) == 0 && m.Path == "" {
			types = own
		}
		if len(types) == 0 {
			types = []string{""}
		}
		for _, t := range types {
			all = append(all, &source{env: e, model: m, types: t})
		}
	}
	return all
}

// whole makes a scenario of a whole model: decode of tg tokens at a depth, or
// prefill of pp tokens.
func whole(e *Env, o Options, src *source, p *pair, tokens, depth int, decode bool) (Scenario, error) {
	s := Scenario{Op: opPrefill, Params: []harness.Param{harness.P("pp", tokens)}, model: src, weights: src.types}
	if decode {
		s.Op, s.Params = opDecode, []harness.Param{harness.P("tg", tokens), harness.P("kv", depth)}
	}
	size, err := src.elements()
	if err != nil {
		return s, err
	}
	s.once.MultiplyAdds = size * int64(tokens+depth/roundsWork) // the cache is filled once
	if p == nil || !e.metal() && p.lever != "MINFER_CACHE_TYPE" {
		s.Sides = []Setting{{Name: s.Op, Levers: o.Levers}}
	} else if err := p.apply(&s, o.Levers); err != nil {
		return s, err
	}
	s.open = func(ctx context.Context, r *Runner, side int, notes *recorder) (subject, error) {
		return newModelSide(ctx, r, src, s.Sides[side].Levers, tokens, depth, decode, notes)
	}
	return s, nil
}

// elements counts a model's weights, of the file as it is.
func (s *source) elements() (int64, error) {
	f, err := s.model.Open()
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var n int64
	for _, t := range f.Tensors {
		size := int64(1)
		for _, d := range t.Dims {
			size *= int64(d)
		}
		n += size
	}
	return n, nil
}

// embeddedTypes are those that the embedded models are measured in.
var embeddedTypes = []string{"f16", "q4_0"}

// listPrefill measures prompts of each length.
func listPrefill(e *Env, o Options) ([]Scenario, error) {
	var all []Scenario
	for _, src := range e.sources(o, embeddedTypes...) {
		for _, n := range list(o.PP, 16, 64) {
			s, err := whole(e, o, src, nil, n, 0, false)
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// listDecode measures generation at each depth of the cache.
func listDecode(e *Env, o Options) ([]Scenario, error) {
	var all []Scenario
	for _, src := range e.sources(o, embeddedTypes...) {
		for _, depth := range list(o.KV, 0, 128) {
			for _, n := range list(o.TG, 4) {
				s, err := whole(e, o, src, nil, n, depth, true)
				if err != nil {
					return nil, err
				}
				all = append(all, s)
			}
		}
	}
	return all, nil
}

// listWeights measures weights in place against copies of them: their registration,
// and decode. A device that copies them has nothing to compare, and says so.
func listWeights(e *Env, o Options) ([]Scenario, error) {
	if !e.metal() {
		return nil, nil // the CPU reads the mapped file
	}
	p := pairOf("MINFER_WEIGHT_COPY")
	var all []Scenario
	for _, src := range e.sources(o, "f16", "q4_0", "q8_0", "q4_K_M") {
		hold := Scenario{Op: opHold, model: src, weights: src.types}
		if err := p.apply(&hold, o.Levers); err != nil {
			return nil, err
		}
		if e.Device.CopiesWeights {
			hold.leftOut = copiesWeights
			all = append(all, hold)
			continue
		}
		size, err := src.elements()
		if err != nil {
			return nil, err
		}
		hold.once.Bytes = size
		hold.open = func(_ context.Context, r *Runner, side int, notes *recorder) (subject, error) {
			l, err := r.load(src)
			return &holdSide{r: r, src: src, l: l, lever: hold.Sides[side].Levers, notes: notes}, err
		}
		all = append(all, hold)
		for _, n := range list(o.TG, 4) {
			s, err := whole(e, o, src, &p, n, 0, true)
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
	}
	return all, nil
}

const copiesWeights = "the device has memory of its own and copies all weights into it"

// listLevers measures every lever on the first model, in a setting where it is live.
// On the CPU there is one, the cache's type.
func listLevers(e *Env, o Options) ([]Scenario, error) {
	if len(e.Models) == 0 {
		return nil, nil
	}
	shapes, err := e.shapes()
	if err != nil {
		return nil, err
	}
	var all []Scenario
	for _, src := range e.sources(o, "f16") {
		if src.model.Name != e.Models[0].Name {
			continue
		}
		for _, p := range pairs {
			if p.flash && !flashHead(shapes[0].HeadDimK) {
				continue // there is no kernel to choose
			}
			if !e.metal() {
				if p.lever != "MINFER_CACHE_TYPE" {
					continue
				}
				p.b = "f32"
			}
			tokens, depth := list(o.TG, 4)[0], list(o.KV, 48)[0]
			if p.tokens > 0 {
				tokens, depth = max(list(o.PP, 16)[0], p.tokens), 0
			}
			if p.lever == "MINFER_GEMM" { // enough for the widest product of a layer
				tokens = max(tokens, (e.Device.GEMMFrom+shapes[0].NFF-1)/shapes[0].NFF)
			}
			s, err := whole(e, o, src, &p, tokens, depth, p.tokens == 0)
			if err != nil {
				return nil, err
			}
			if p.lever == "MINFER_WEIGHT_COPY" && e.Device.CopiesWeights {
				s.leftOut, s.once = copiesWeights, harness.Work{}
			}
			all = append(all, s)
		}
	}
	return all, nil
}
