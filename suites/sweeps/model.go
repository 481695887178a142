package sweeps

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"time"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/engine/model"
	"minfer/engine/session"
	"minfer/engine/tokenizer"
	"minfer/harness"
	"minfer/metal"
	"minfer/refs"
	"minfer/suites"
)

// source is a model with its weights in a type.
type source struct {
	env   *Env
	model suites.Model
	types string // a mix of engine/quant, "" for the file's own
}

// typeName is the type as a list of scenarios shows it.
func (s *source) typeName() string {
	if s.types == "" {
		return "file"
	}
	return s.types
}

// sourceKey names what is loaded once.
type sourceKey struct {
	env   *Env
	name  string
	types string
}

// loaded is an open source.
type loaded struct {
	file  *gguf.File
	m     *model.Model
	tok   *tokenizer.Tokenizer
	hash  string // SHA-256 of the file's parts, one after another
	types string
	read  int64                  // bytes of weights that a token reads
	size  int64                  // elements of those
	wants map[string][][]float64 // by the cache that they go on from
}

func (l *loaded) close() { l.file.Close() }

// load opens a source, once.
func (r *Runner) load(s *source) (*loaded, error) {
	key := sourceKey{s.env, s.model.Name, s.types}
	if l, ok := r.sources[key]; ok {
		return l, nil
	}
	path, err := s.env.ModelFile(s.model, s.types)
	if err != nil {
		return nil, err
	}
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	l := &loaded{file: f, wants: map[string][][]float64{}}
	if err := l.derive(s); err != nil {
		f.Close()
		return nil, err
	}
	r.sources[key] = l
	return l, nil
}

// derive fills in what is derived from the file.
func (l *loaded) derive(s *source) error {
	var err error
	if l.m, err = model.Load(l.file); err != nil {
		return err
	}
	if l.tok, err = tokenizer.New(l.file); err != nil {
		return err
	}
	if s.env.metal() {
		l.m.Concatenate(true, true)
	}
	h := sha256.New()
	for _, p := range l.file.Parts {
		h.Write(p.Data)
	}
	l.hash = hex.EncodeToString(h.Sum(nil))
	bytes := map[gguf.Type]int{}
	for _, w := range l.m.Weights() {
		if w.Name == "token_embd.weight" && !l.m.Tied {
			continue
		}
		l.read += int64(len(w.Data))
		l.size += int64(w.Shape.Elements())
		if w.Shape.Rows() > 1 {
			bytes[w.Type] += len(w.Data)
		}
	}
	if l.types = s.types; l.types == "" {
		most := 0
		for t, n := range bytes {
			if n > most {
				most, l.types = n, t.String()
			}
		}
	}
	return nil
}

// How much of a model the reference runs.
const (
	checkPrompt = 12 // tokens in one pass
	checkDecode = 4  // tokens one by one
	// coreReference is the most multiply-adds of a float64 forward pass for each core:
	// some five seconds.
	coreReference = 10_000_000_000
	// logitsBound is how far logits on a Metal device may be from the reference, for
	// logits of size 1 or less; cpuLogits on the CPU, which rounds activations.
	logitsBound = 1e-3
	cpuLogits   = 0.15
)

// leastContext has more than one KV chunk in its window, so that their number can
// differ.
const leastContext = 64

// checkTokens are those that outputs are checked on.
func checkTokens(vocab int) []int32 {
	tokens := make([]int32, checkPrompt+checkDecode)
	for i := range tokens {
		tokens[i] = int32((i*7919 + 13) % (vocab - 1))
	}
	return tokens
}

// mostReference is how many multiply-adds the reference may take on this machine.
func mostReference() int64 { return coreReference * int64(runtime.GOMAXPROCS(0)) }

// affordable says whether a model is small enough for the float64 reference.
func (l *loaded) affordable() bool {
	return l.size*(checkPrompt+checkDecode) <= mostReference()
}

// reference gives the float64 logits of the last prompt token and of the decoded
// ones. Given what a side stored in its cache, it goes on from that where that is what
// a rounding makes (suites.Reference says why; the bound of the logits is that of keys
// and values too), else from what it rounds itself.
func (l *loaded) reference(kv gguf.Type, cache suites.KVBytes) ([][]float64, error) {
	h := sha256.New()
	for _, layer := range cache {
		for _, side := range layer {
			h.Write(side)
		}
	}
	key := kv.String() + string(h.Sum(nil))
	if rows, ok := l.wants[key]; ok {
		return rows, nil
	}
	rows, err := suites.ReferenceWithin(l.file, checkTokens(l.m.NVocab), kv, cache, logitsBound)
	if errors.Is(err, suites.ErrRounding) {
		return l.reference(kv, nil)
	}
	if err != nil {
		return nil, err
	}
	l.wants[key] = rows[checkPrompt-1:]
	return l.wants[key], nil
}

// modelSide is one side of a whole model: prefill of tokens from an empty cache, or
// decode of tokens at a depth.
type modelSide struct {
	l       *loaded
	ses     *session.Session
	end     func()
	backend graph.Backend
	kv      gguf.Type
	cpu     bool

	tokens []int32 // of an execution
	depth  int     // tokens before them
	filled bool
	last   []float32
	out    output
}

// newModelSide opens a session. decode says whether the tokens are one by one.
func newModelSide(ctx context.Context, r *Runner, src *source, l lever.Levers, n, depth int, decode bool, notes *recorder) (_ subject, err error) {
	m, err := r.load(src)
	if err != nil {
		return nil, err
	}
	if most := m.m.NCtxTrain; n > most || depth > most-n {
		return nil, fmt.Errorf("%w: %d tokens at depth %d: the model's context has %d", ErrUnsupported, n, depth, most)
	}
	nCtx := max(n+depth, min(leastContext, m.m.NCtxTrain))
	ses, b, kv, end, err := newSession(r, src, m, l, nCtx, notes)
	if err != nil {
		return nil, err
	}
	s := &modelSide{l: m, ses: ses, end: end, backend: b, kv: kv, cpu: !src.env.metal(), depth: depth}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	for i := range n {
		s.tokens = append(s.tokens, int32(((depth+i)*7919+13)%(m.m.NVocab-1)))
	}
	if err := s.verify(); err != nil {
		return nil, err
	}
	if decode {
		return &decodeSide{s}, nil
	}
	return s, nil
}

// newSession makes a session with a side's levers.
func newSession(r *Runner, src *source, m *loaded, l lever.Levers, nCtx int, notes *recorder) (*session.Session, graph.Backend, gguf.Type, func(), error) {
	e := src.env
	c, err := e.Backend(r.o.Threads)
	if err != nil {
		return nil, nil, 0, nil, err
	}
	backends, first, end, kv := []graph.Backend{c}, c, func() {}, gguf.F16
	if e.metal() {
		if first, end, err = e.backend(r.o, l, notes, 0); err != nil {
			return nil, nil, 0, nil, err
		}
		backends = []graph.Backend{first, c}
		kv = metal.CacheType(m.m.NLayer, m.m.KWidth(), l)
		err = m.m.Hold(first.(*metal.Backend))
	} else if l.CacheType != "" {
		kv, err = gguf.ParseType(l.CacheType)
	}
	if err == nil && !first.SupportsOp(graph.Attn, kv) {
		err = fmt.Errorf("%w: %s has no KV cache of %s", ErrUnsupported, first.Name(), kv)
	}
	if err != nil {
		end()
		return nil, nil, 0, nil, err
	}
	ses, err := session.New(m.m, session.Options{Backends: backends, NCtx: nCtx, KVType: kv, FuseQKV: !l.NoFuseQKV, FuseFFN: !l.NoFuseFFN})
	if err != nil {
		end()
		return nil, nil, 0, nil, err
	}
	return ses, first, kv, end, nil
}

// verify holds logits against the reference: of a prompt's last token and of some
// that are decoded. It leaves the session empty.
func (s *modelSide) verify() error {
	if !s.l.affordable() {
		s.out.missing = fmt.Sprintf("no check: the model is too large for the float64 reference: %d weights x %d tokens, want at most %d on %d cores",
			s.l.size, checkPrompt+checkDecode, mostReference(), runtime.GOMAXPROCS(0))
		s.out.tolerance = logitsBound
		return nil
	}
	tokens := checkTokens(s.l.m.NVocab)
	var got []float32
	for i := range 1 + checkDecode {
		next := tokens[:checkPrompt]
		if i > 0 {
			next = tokens[checkPrompt+i-1:][:1]
		}
		logits, err := s.ses.Eval(next)
		if err != nil {
			return refused(err)
		}
		got = append(got, logits...)
	}
	var cache suites.KVBytes
	var err error
	if !s.cpu { // whose own activations are rounded too
		if cache, err = suites.ReadCache(s.ses, s.l.m.NLayer); err != nil {
			return err
		}
	}
	want, err := s.l.reference(s.kv, cache)
	if err != nil {
		return err
	}
	var all []float64
	for _, row := range want {
		all = append(all, row...)
	}
	bound := logitsBound
	if s.cpu {
		bound = cpuLogits
	}
	s.out.tolerance = bound * max(1, refs.RMS(all))
	if s.out.check, err = harness.Within(got, all, s.out.tolerance); err != nil {
		return err
	}
	return s.ses.Reset()
}

// refused marks what the device does not take by contract.
func refused(err error) error {
	if errors.Is(err, graph.ErrUnsupported) {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return err
}

func (s *modelSide) prepare(context.Context) error { return nil }

// run is prefill: each execution starts from an empty cache.
func (s *modelSide) run(ctx context.Context, n int) (time.Duration, error) {
	var spent time.Duration
	for range n {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := s.ses.Truncate(0); err != nil {
			return 0, err
		}
		start := time.Now()
		logits, err := s.ses.Eval(s.tokens)
		if err != nil {
			return 0, refused(err)
		}
		spent += time.Since(start)
		s.last = logits
	}
	return max(spent, 1), nil
}

func (s *modelSide) output() (output, error) {
	s.out.values = s.last
	if b, ok := s.backend.(*metal.Backend); ok {
		w := b.WeightStats()
		s.out.differs = fmt.Sprintf("%d weights in place and %d copied (%d bytes)", w.InPlace, w.Copied, w.CopiedBytes)
	}
	return s.out, nil
}

func (s *modelSide) work() harness.Work { return modelWork(s.l, s.kv, len(s.tokens), s.depth, 1) }

func (s *modelSide) weightSet() int64 { return 0 }

func (s *modelSide) close() {
	s.ses.Close()
	s.end()
}

// decodeSide decodes the tokens one by one, each execution from the same depth.
type decodeSide struct{ *modelSide }

// prepare fills the cache to the depth.
func (s *decodeSide) prepare(ctx context.Context) error {
	if s.filled || s.depth == 0 {
		return nil
	}
	tokens := make([]int32, s.depth)
	for i := range tokens {
		tokens[i] = int32((i*7919 + 13) % (s.l.m.NVocab - 1))
	}
	// In pieces, so that an interrupt ends it soon.
	for len(tokens) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(len(tokens), 64)
		if _, err := s.ses.Eval(tokens[:n]); err != nil {
			return refused(err)
		}
		tokens = tokens[n:]
	}
	s.filled = true
	return nil
}

func (s *decodeSide) run(ctx context.Context, n int) (time.Duration, error) {
	var spent time.Duration
	for range n {
		if err := s.ses.Truncate(s.depth); err != nil {
			return 0, err
		}
		start := time.Now()
		for i := range s.tokens {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			logits, err := s.ses.Eval(s.tokens[i:][:1])
			if err != nil {
				return 0, refused(err)
			}
			s.last = logits
		}
		spent += time.Since(start)
	}
	return max(spent, 1), nil
}

func (s *decodeSide) work() harness.Work {
	return modelWork(s.l, s.kv, len(s.tokens), s.depth, len(s.tokens))
}

// modelWork counts an execution: every weight and two products a cell, and in each
// of the passes the weights and the cache, which have to be read.
func modelWork(l *loaded, kv gguf.Type, tokens, depth, passes int) harness.Work {
	m := l.m
	var cells int64
	for i := range tokens {
		cells += int64(depth + i + 1)
	}
	perCell := int64(m.NHead*(m.HeadDimK+m.HeadDimV)) * int64(m.NLayer)
	cache := int64(kv.RowBytes(m.KWidth())+kv.RowBytes(m.VWidth())) * int64(m.NLayer)
	read := cells // of the cache: each pass its window
	if passes == 1 {
		read = int64(depth + tokens)
	}
	// The last layer's rows but one, and the output matrix, are for one token alone.
	return harness.Work{
		Tokens:       int64(tokens),
		MultiplyAdds: l.size*int64(tokens) + cells*perCell - int64(tokens-passes)*int64(m.NVocab*m.NEmbd),
		Bytes:        l.read*int64(passes) + read*cache,
	}
}

// holdSide registers a model's weights with a backend made for it.
type holdSide struct {
	r     *Runner
	src   *source
	l     *loaded
	lever lever.Levers
	notes *recorder
	stats metal.WeightStats
}

func (s *holdSide) prepare(context.Context) error { return nil }

func (s *holdSide) run(ctx context.Context, n int) (time.Duration, error) {
	var spent time.Duration
	for range n {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		b, end, err := s.src.env.backend(s.r.o, s.lever, s.notes, 0)
		if err != nil {
			return 0, err
		}
		start := time.Now()
		err = s.l.m.Hold(b.(*metal.Backend))
		spent += time.Since(start)
		s.stats = b.(*metal.Backend).WeightStats()
		end()
		if err != nil {
			return 0, err
		}
	}
	return max(spent, 1), nil
}

func (s *holdSide) output() (output, error) {
	return output{differs: fmt.Sprintf("%d weights in place and %d copied (%d bytes)", s.stats.InPlace, s.stats.Copied, s.stats.CopiedBytes)}, nil
}

// work is what has to be copied: of weights in place, the concatenations alone.
func (s *holdSide) work() harness.Work { return harness.Work{Bytes: int64(s.stats.CopiedBytes)} }

func (s *holdSide) weightSet() int64 { return 0 }

func (s *holdSide) close() {}
