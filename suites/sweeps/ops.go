package sweeps

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/engine/model"
	"minfer/harness"
	"minfer/metal"
	"minfer/suites/metalcase"
)

// Sweeps of single ops: the shapes are those of the models, the data random. On the
// CPU, which has no levers here, each shape is one side.

// shapes gives the hyper-parameters of the models.
func (e *Env) shapes() ([]model.Hparams, error) {
	var list []model.Hparams
	for _, m := range e.Models {
		f, err := m.Open()
		if err != nil {
			return nil, err
		}
		loaded, err := model.Load(f)
		if err != nil {
			f.Close()
			return nil, err
		}
		list = append(list, loaded.Hparams)
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// matrixTypes are the weight types of ops where none are named.
var matrixTypes = []string{"f16", "q4_0", "q8_0", "q4_K"}

// types reads Options.Types as those of single matrices.
func (o Options) types() ([]gguf.Type, error) {
	names := o.Types
	if len(names) == 0 {
		names = matrixTypes
	}
	var list []gguf.Type
	for _, name := range names {
		t, err := gguf.ParseType(name)
		if err != nil {
			return nil, fmt.Errorf("--types %q: a single op takes one type of weights such as q4_0, no mix", name)
		}
		list = append(list, t)
	}
	return list, nil
}

// list is the given one, or what a sweep has by itself.
func list(given []int, own ...int) []int {
	if len(given) > 0 {
		return given
	}
	return own
}

// withOne is a list with 1 in front: a decoded token.
func withOne(list []int) []int {
	return append([]int{1}, slices.DeleteFunc(slices.Clone(list), func(n int) bool { return n == 1 })...)
}

// cacheTypes is the given ones, or a sweep's own; the CPU has none of q8_0.
func (e *Env) cacheTypes(o Options, own ...gguf.Type) []gguf.Type {
	if len(o.CacheTypes) > 0 {
		return o.CacheTypes
	}
	if !e.metal() {
		own = slices.DeleteFunc(slices.Clone(own), func(t gguf.Type) bool { return t == gguf.Q8_0 })
	}
	return own
}

// flashHead says whether the flash and split families have kernels for heads of
// this size.
func flashHead(hd int) bool { return hd == 64 || hd == 128 }

// op makes a scenario of one case, both sides over the same data.
func op(e *Env, o Options, c metalcase.Case, p *pair, w harness.Work, headDim int, parts ...func(*opSide, []graph.Operand) error) (Scenario, error) {
	name, params := c.ID()
	s := Scenario{Op: name, Params: params, headDim: headDim}
	s.once = w
	if p == nil || !e.metal() {
		s.Sides = []Setting{{Name: name, Levers: o.Levers}}
	} else if err := p.apply(&s, o.Levers); err != nil {
		return s, err
	}
	s.open = func(_ context.Context, r *Runner, side int, notes *recorder) (subject, error) {
		var f func(*opSide, []graph.Operand) error
		if side < len(parts) {
			f = parts[side]
		}
		return newOpSide(r, e, c, s.Sides[side].Levers, w, notes, f)
	}
	return s, nil
}

// Estimates behind Scenario.Work.
const (
	// scenarioWork is what a scenario takes besides its rounds: its data, calibration
	// and the texts.
	scenarioWork = 200_000_000
	roundsWork   = 25 // rounds of a scenario, warm-up and calibration included
	// processorGain is how many times faster a processor is than the software device.
	processorGain = 50
)

// estimate sets a scenario's work from one execution's.
func (s *Scenario) estimate() {
	s.Work = scenarioWork + int64(len(s.Sides)*roundsWork)*max(s.once.MultiplyAdds, s.once.Bytes/4)
	if !s.env.metal() {
		s.Work = max(s.Work/processorGain, 1)
	}
}

// withCache is the setting with a type of KV cache, so that texts have it too.
func withCache(o Options, t gguf.Type) (Options, error) {
	var err error
	o.Levers, err = with(o.Levers, "MINFER_CACHE_TYPE", strings.ToLower(t.String()))
	return o, err
}

// attentionWork counts one execution: the products of scores and outputs, and the
// window of the cache, which has to be read once.
func attentionWork(c *metalcase.Attention) harness.Work {
	var products int64
	for i := range c.Tokens {
		products += int64(c.NKV-c.Tokens+i+1) * int64(2*c.HD*c.Heads)
	}
	bytes := 2*c.NKV*c.Type.RowBytes(c.HD*c.HeadsKV) + 2*4*c.Tokens*c.HD*c.Heads
	return harness.Work{MultiplyAdds: products, Bytes: int64(bytes)}
}

// listAttention measures the five variants: of decode flash, two-pass split and
// classic, of prefill flash, three-pass parallel and classic, each against the next.
func listAttention(e *Env, o Options) ([]Scenario, error) {
	shapes, err := e.shapes()
	if err != nil {
		return nil, err
	}
	var all []Scenario
	seen := map[string]bool{}
	add := func(c *metalcase.Attention, names ...string) error {
		o, err := withCache(o, c.Type)
		if err != nil {
			return err
		}
		if !e.metal() {
			names = []string{""}
		}
		for _, name := range names {
			var p *pair
			if name != "" {
				found := pairOf(name)
				p = &found
			}
			s, err := op(e, o, c, p, attentionWork(c), c.HD)
			if err != nil {
				return err
			}
			if id := fmt.Sprint(s.Params, name); !seen[id] {
				seen[id] = true
				all = append(all, s)
			}
		}
		return nil
	}
	for _, h := range shapes {
		if h.HeadDimK != h.HeadDimV {
			continue // no kernel takes it
		}
		decode, prefill := []string{""}, []string{"MINFER_NO_MATMUL_ATTN"}
		if flashHead(h.HeadDimK) {
			decode, prefill = []string{"MINFER_NO_FLASH", "MINFER_NO_SPLIT_ATTN"}, []string{"MINFER_NO_PREFILL_FLASH", "MINFER_NO_MATMUL_ATTN"}
		}
		for _, t := range e.cacheTypes(o, gguf.F16) {
			for _, cells := range list(o.KV, 64, 256, 1024) {
				c := metalcase.Attention{HD: h.HeadDimK, Heads: h.NHead, HeadsKV: h.NHeadKV, NKV: cells, Tokens: 1, Type: t, Bare: true}
				if err := add(&c, decode...); err != nil {
					return nil, err
				}
			}
			for _, cells := range list(o.KV, 64, 256) {
				for _, tokens := range list(o.PP, 16) {
					if tokens < 2 || tokens > cells {
						continue
					}
					c := metalcase.Attention{HD: h.HeadDimK, Heads: h.NHead, HeadsKV: h.NHeadKV, NKV: cells, Tokens: tokens, Type: t, Bare: true}
					if err := add(&c, prefill...); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	return all, nil
}

// listMatMul measures the tiers of the product: for one token the single tier
// alone, for more the GEMM against the multi tier where it is chosen.
func listMatMul(e *Env, o Options) ([]Scenario, error) {
	shapes, err := e.shapes()
	if err != nil {
		return nil, err
	}
	types, err := o.types()
	if err != nil {
		return nil, err
	}
	var all []Scenario
	type matrix struct{ m, k int }
	var matrices []matrix
	for _, h := range shapes {
		for _, m := range []matrix{{h.NEmbd, h.NHead * h.HeadDimV}, {h.NFF, h.NEmbd}, {h.NEmbd, h.NFF}, {h.NVocab, h.NEmbd}} {
			if !slices.Contains(matrices, m) {
				matrices = append(matrices, m)
			}
		}
	}
	for _, m := range matrices {
		for _, t := range types {
			if m.k%t.BlockSize() != 0 {
				continue
			}
			for _, tokens := range withOne(list(o.PP, 16)) {
				c := &metalcase.MulMat{Type: t, M: m.m, K: m.k, N: tokens, Bare: true}
				bytes := t.RowBytes(m.k)*m.m + 4*tokens*(m.k+m.m)
				var p *pair
				if tokens > 1 && (tokens >= gemmTokens || m.m >= gemmRows) {
					found := pairOf("MINFER_GEMM")
					p = &found
				}
				s, err := op(e, o, c, p, harness.Work{MultiplyAdds: int64(m.m) * int64(m.k) * int64(tokens), Bytes: int64(bytes)}, 0)
				if err != nil {
					return nil, err
				}
				s.weights = t.String()
				all = append(all, s)
			}
		}
	}
	return all, nil
}

// From that many tokens, or outputs, the backend takes the GEMM.
const (
	gemmTokens = 9
	gemmRows   = 2048
)

// listRmsNorm measures rows of 256 threads against rows of 32.
func listRmsNorm(e *Env, o Options) ([]Scenario, error) {
	shapes, err := e.shapes()
	if err != nil {
		return nil, err
	}
	var widths []int
	for _, h := range shapes {
		widths = append(widths, h.NEmbd)
	}
	if len(e.Models) > 0 && e.Models[0].Path == "" {
		widths = append(widths, 896, 4096) // the embedded models are narrow
	}
	slices.Sort(widths)
	p := pairOf("MINFER_NO_RMS_256")
	var all []Scenario
	for _, d := range slices.Compact(widths) {
		for _, rows := range withOne(list(o.PP, 16)) {
			c := &metalcase.RmsNorm{D: d, Rows: rows, Eps: 1e-6}
			s, err := op(e, o, c, &p, harness.Work{Bytes: int64(4 * d * (2*rows + 1))}, 0)
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// listKV measures the KV cache by its type: the stores of rows, and attention that
// reads a window, natively or, without flash, through a dequantised stage.
func listKV(e *Env, o Options) ([]Scenario, error) {
	shapes, err := e.shapes()
	if err != nil {
		return nil, err
	}
	types := e.cacheTypes(o, gguf.F32, gguf.F16, gguf.Q8_0)
	var all []Scenario
	seen := map[string]bool{}
	// Each type against the first, with data of its own; on the CPU one by one.
	add := func(headDim int, base lever.Levers, cases []metalcase.Case, works []harness.Work) error {
		for i := range cases {
			if e.metal() && i == 0 && len(cases) > 1 {
				continue
			}
			sides := []int{i}
			if e.metal() && len(cases) > 1 {
				sides = []int{0, i}
			}
			name, params := cases[i].ID()
			s := Scenario{Op: name, headDim: headDim}
			s.Params = append(s.Params, params...) // the type is side B's
			if base.NoFlash {
				s.Params = append(s.Params, harness.P("flash", false))
			}
			s.once = works[i]
			for _, side := range sides {
				l, err := with(base, "MINFER_CACHE_TYPE", strings.ToLower(types[side].String()))
				if err != nil {
					return err
				}
				s.Sides = append(s.Sides, Setting{Name: "MINFER_CACHE_TYPE=" + types[side].String(), Levers: l})
			}
			if len(sides) > 1 {
				p := pairOf("MINFER_CACHE_TYPE")
				s.Lever, s.Differs, s.apart = p.lever, p.differs, true
			}
			s.open = func(_ context.Context, r *Runner, side int, notes *recorder) (subject, error) {
				at := sides[side]
				return newOpSide(r, e, cases[at], s.Sides[side].Levers, works[at], notes, nil)
			}
			id := fmt.Sprint(s.Op, s.Params, s.Sides[len(s.Sides)-1].Name)
			if !seen[id] {
				seen[id] = true
				all = append(all, s)
			}
		}
		return nil
	}
	flash, err := with(o.Levers, "MINFER_NO_FLASH", "0")
	if err != nil {
		return nil, err
	}
	staged, err := with(flash, "MINFER_NO_FLASH", "1")
	if err != nil {
		return nil, err
	}
	for _, h := range shapes {
		if h.HeadDimK != h.HeadDimV {
			continue
		}
		width := h.NHeadKV * h.HeadDimK
		for _, rows := range withOne(list(o.PP, 16)) {
			var cases []metalcase.Case
			var works []harness.Work
			for _, t := range types {
				cases = append(cases, &metalcase.KvStore{Type: t, D: width, Rows: max(256, rows), N: rows})
				works = append(works, harness.Work{Bytes: int64(rows * (4*width + t.RowBytes(width)))})
			}
			if err := add(h.HeadDimK, flash, cases, works); err != nil {
				return nil, err
			}
		}
		for _, cells := range list(o.KV, 256) {
			for _, base := range []lever.Levers{flash, staged} {
				var cases []metalcase.Case
				var works []harness.Work
				for _, t := range types {
					c := &metalcase.Attention{HD: h.HeadDimK, Heads: h.NHead, HeadsKV: h.NHeadKV, NKV: cells, Tokens: 1, Type: t, Bare: true}
					cases, works = append(cases, c), append(works, attentionWork(c))
				}
				if err := add(h.HeadDimK, base, cases, works); err != nil {
					return nil, err
				}
				if !e.metal() {
					break
				}
			}
		}
	}
	return all, nil
}

// listFusion measures the fused nodes of a decoded token against the nodes that
// they replace.
func listFusion(e *Env, o Options) ([]Scenario, error) {
	if !e.metal() {
		return nil, nil // the CPU has no fused decode node
	}
	shapes, err := e.shapes()
	if err != nil {
		return nil, err
	}
	types, err := o.types()
	if err != nil {
		return nil, err
	}
	var all []Scenario
	seen := map[string]bool{}
	add := func(c metalcase.Case, w harness.Work, headDim int, t gguf.Type, name string, single func(*opSide, []graph.Operand) error) error {
		p := pairOf(name)
		s, err := op(e, o, c, &p, w, headDim, nil, single)
		if err != nil {
			return err
		}
		s.weights = t.String()
		if id := fmt.Sprint(s.Op, s.Params); !seen[id] {
			seen[id] = true
			all = append(all, s)
		}
		return nil
	}
	for _, h := range shapes {
		for _, t := range types {
			if h.NEmbd%t.BlockSize() != 0 || h.HeadDimK != h.HeadDimV {
				continue
			}
			for _, cache := range e.cacheTypes(o, gguf.F16) {
				rows := h.HeadDimK * (h.NHead + 2*h.NHeadKV)
				c := &metalcase.FusedQKV{Type: t, K: h.NEmbd, HD: h.HeadDimK, Heads: h.NHead, HeadsKV: h.NHeadKV, Cache: cache,
					Cells: 64, Pos: 37, Bias: h.Arch == "qwen2", Norm: h.Arch == "qwen3", Mode: h.Rope.Mode}
				w := harness.Work{MultiplyAdds: int64(rows) * int64(h.NEmbd), Bytes: int64(t.RowBytes(h.NEmbd) * rows)}
				if err := add(c, w, h.HeadDimK, t, "MINFER_NO_FUSE_QKV", singleQKV); err != nil {
					return nil, err
				}
			}
			if h.NFF > metal.MaxFusedFF {
				continue
			}
			c := &metalcase.FusedFFN{Type: t, K: h.NEmbd, FF: h.NFF}
			w := harness.Work{MultiplyAdds: 2 * int64(h.NFF) * int64(h.NEmbd), Bytes: int64(t.RowBytes(h.NEmbd) * 2 * h.NFF)}
			if err := add(c, w, h.HeadDimK, t, "MINFER_NO_FUSE_FFN", singleFFN); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}
