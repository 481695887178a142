// Package session runs a model over a growing sequence of tokens: the state
// between forward passes, which are the position and the KV cache.
//
// [New] makes a session over backends that the caller constructed (highest
// priority first). [Session.Eval] takes the next tokens of the sequence, a
// prompt in batches or one token, and returns the logits after the last;
// [Session.Generate] is the loop of evaluating and sampling. [Session.Reset]
// starts a new sequence. What a forward pass computes is engine/model's
// business, where it runs that of engine/graph.
//
// On a GPU, weights are registered before New (model.Concatenate, model.Hold),
// which asks the weights gate; passes of one token may then use the decode fusions.
//
// How a sequence is cut into calls and batches has no influence on the bits on
// a backend that is batch-invariant, as the CPU is. A limit is checked before
// any work is done; a pass that fails midway leaves the cache undefined, so
// the session refuses everything but Reset and Close after it.
//
// A Session is used by one goroutine at a time; so are its backends.
package session

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unsafe"

	"minfer/engine/graph"
	"minfer/engine/model"
	"minfer/engine/sampler"
)

// Defaults of Options.
const (
	DefaultBatch = 512
	// DefaultNCtx bounds the context where Options leave it open, since a
	// model's own may need more memory than there is.
	DefaultNCtx = 4096
)

// kvWindow is the step in which the attention's window grows. A graph is built
// for one window, so a larger step means fewer graphs; cells beyond a row's
// position add exact zeros, so the step moves no bits. 256 is llama.cpp's.
const kvWindow = 256

// maxNCtx keeps positions within an I32 with room to spare.
const maxNCtx = 1 << 30

// ErrClosed is returned by a session after Close.
var ErrClosed = errors.New("session: closed")

// Options configure a session.
type Options struct {
	Backends []graph.Backend // highest priority first; at least one
	NCtx     int             // positions; 0 is the model's context, at most DefaultNCtx
	KVType   graph.DType     // of the cache: F32 (the zero value), F16 or Q8_0, as far as the backends support it
	Batch    int             // most tokens in one forward pass; 0 is DefaultBatch
	Exec     graph.ExecOptions

	// FuseQKV and FuseFFN allow the decode fusions: in passes of one token, on a
	// GPU, in layers that have the concatenated weights (model.Concatenate).
	FuseQKV, FuseFFN bool
	// Notes receives one line where the weights gate is closed; nil for none.
	Notes io.Writer
}

// A Session is one sequence. Make one with New and Close it.
type Session struct {
	m     *model.Model
	o     Options
	exec  *graph.Executor
	cache *graph.KVCache
	pos   int
	gpu   bool // the weights gate is open
	// failed is why the cache is undefined, nil if it isn't.
	failed error
	closed bool
}

// New makes a session at position 0. The model and the backends stay the
// caller's, who closes them after the session.
//
// The weights gate (see graph.Gate) is asked here, once: weights are registered
// before. If it is closed, the backends that hold weights take no part in any
// pass, which Notes says with the first missing tensor; if no other backend is
// given, that is an error.
func New(m *model.Model, o Options) (*Session, error) {
	if len(o.Backends) == 0 {
		return nil, errors.New("session: no backend, want at least one")
	}
	if o.NCtx == 0 {
		o.NCtx = min(m.NCtxTrain, DefaultNCtx)
	}
	if o.NCtx < 1 || o.NCtx > maxNCtx {
		return nil, fmt.Errorf("session: a context of %d tokens, want 1 to %d", o.NCtx, maxNCtx)
	}
	if o.Batch == 0 {
		o.Batch = DefaultBatch
	}
	if o.Batch < 1 {
		return nil, fmt.Errorf("session: batches of %d tokens, want at least 1", o.Batch)
	}
	cache, err := graph.NewKVCache(m.NLayer, o.NCtx, m.KWidth(), m.VWidth(), o.KVType)
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	s := &Session{m: m, o: o, exec: graph.NewExecutor(o.Backends, o.Exec), cache: cache}
	if err := s.gate(); err != nil {
		return nil, err
	}
	return s, nil
}

// gate asks the weights gate and says so where it is closed.
func (s *Session) gate() error {
	missing, open := graph.Gate(s.o.Backends, slices.Concat(s.m.Weights(), s.m.Concatenations()))
	s.gpu = open
	if missing == nil {
		return nil
	}
	var names []string
	for _, b := range graph.Ungated(s.o.Backends) {
		names = append(names, b.Name())
	}
	if names == nil {
		return fmt.Errorf("session: weights gate closed: %s is not registered, and no other backend is given", missing.Name)
	}
	if s.o.Notes != nil {
		fmt.Fprintf(s.o.Notes, "MPS: weights gate closed: %s is not registered; the whole graph runs on %s\n", missing.Name, strings.Join(names, ", "))
	}
	return nil
}

// GPU says whether the weights gate is open: a backend that holds all weights
// takes part.
func (s *Session) GPU() bool { return s.gpu }

// Cache is the session's KV cache, for inspection.
func (s *Session) Cache() *graph.KVCache { return s.cache }

// Stats counts the plans and passes so far.
func (s *Session) Stats() graph.Stats { return s.exec.Stats() }

// Pos is the number of tokens evaluated so far: the position of the next.
func (s *Session) Pos() int { return s.pos }

// NCtx is the number of positions that the session has.
func (s *Session) NCtx() int { return s.o.NCtx }

// SetTap sets or ends the observation of intermediate values; see
// graph.Executor.SetTap.
func (s *Session) SetTap(t graph.Tap) { s.exec.SetTap(t) }

// Reset starts a new sequence at position 0 with an empty cache.
func (s *Session) Reset() error {
	if s.closed {
		return ErrClosed
	}
	if err := s.cache.Clear(); err != nil {
		s.failed = err
		return fmt.Errorf("session: reset: %w", err)
	}
	s.pos, s.failed = 0, nil
	return nil
}

// Truncate goes back to an earlier position, as if what was evaluated from there on
// had not been: no row sees the cells of the cache behind its own position.
func (s *Session) Truncate(pos int) error {
	switch {
	case s.closed:
		return ErrClosed
	case s.failed != nil:
		return fmt.Errorf("session: an earlier pass failed, reset first: %w", s.failed)
	case pos < 0 || pos > s.pos:
		return fmt.Errorf("session: truncate to position %d: want 0 to %d", pos, s.pos)
	}
	s.pos = pos
	return nil
}

// Close frees the plan and the cache. It is idempotent.
func (s *Session) Close() {
	if s.closed {
		return
	}
	s.closed = true
	s.exec.Close()
	s.cache.Close()
}

// Eval evaluates the next tokens of the sequence and returns the logits after
// the last of them, [n_vocab], in a slice of the caller's own.
//
// No token, a token id outside the vocabulary, or more tokens than the context
// has room for is an error before any work. A logit that is not a finite
// number is an error too.
func (s *Session) Eval(tokens []int32) ([]float32, error) {
	return s.eval(context.Background(), tokens, nil)
}

// EvalAll is Eval with the logits after every token, one row each.
func (s *Session) EvalAll(tokens []int32) ([][]float32, error) {
	if err := s.check(tokens); err != nil {
		return nil, err
	}
	rows := make([][]float32, 0, len(tokens))
	for len(tokens) > 0 {
		n := min(len(tokens), s.o.Batch)
		out, err := s.pass(tokens[:n], n, nil)
		if err != nil {
			return nil, err
		}
		for i := range n {
			rows = append(rows, out[i*s.m.NVocab:(i+1)*s.m.NVocab:(i+1)*s.m.NVocab])
		}
		tokens = tokens[n:]
	}
	return rows, nil
}

// eval is Eval, with a look at ctx before each batch. The logits are in row, where it
// is not nil.
func (s *Session) eval(ctx context.Context, tokens []int32, row []float32) (logits []float32, err error) {
	if err := s.check(tokens); err != nil {
		return nil, err
	}
	for len(tokens) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := min(len(tokens), s.o.Batch)
		if logits, err = s.pass(tokens[:n], 1, row); err != nil {
			return nil, err
		}
		tokens = tokens[n:]
	}
	return logits, nil
}

// check is everything that can be refused before any work.
func (s *Session) check(tokens []int32) error {
	switch {
	case s.closed:
		return ErrClosed
	case s.failed != nil:
		return fmt.Errorf("session: an earlier pass failed, reset first: %w", s.failed)
	case len(tokens) == 0:
		return errors.New("session: no tokens to evaluate, want at least one")
	case len(tokens) > s.o.NCtx-s.pos:
		return fmt.Errorf("session: %d tokens at position %d: the context of %d tokens has room for %d", len(tokens), s.pos, s.o.NCtx, s.o.NCtx-s.pos)
	}
	for i, t := range tokens {
		if t < 0 || int(t) >= s.m.NVocab {
			return fmt.Errorf("session: token %d of %d has id %d, want 0 to %d", i, len(tokens), t, s.m.NVocab-1)
		}
	}
	return nil
}

// pass is one forward pass with the logits of the last nOut tokens, in dst or, where
// that is nil, in a slice of the caller's own.
func (s *Session) pass(tokens []int32, nOut int, dst []float32) ([]float32, error) {
	decode := s.gpu && len(tokens) == 1
	p := graph.Params{
		NTokens: len(tokens), NOut: nOut, NKV: s.window(len(tokens)), KVType: s.o.KVType, GPU: s.gpu,
		FuseQKV: decode && s.o.FuseQKV, FuseFFN: decode && s.o.FuseFFN,
	}
	plan, err := s.exec.Plan(func() (*graph.Graph, error) { return s.m.Build(p) }, p)
	if err != nil {
		// Nothing ran: the cache is as it was.
		return nil, fmt.Errorf("session: %w", err)
	}
	ids, pos := make([]byte, 4*len(tokens)), make([]byte, 4*len(tokens))
	for i, t := range tokens {
		binary.LittleEndian.PutUint32(ids[4*i:], uint32(t))
		binary.LittleEndian.PutUint32(pos[4*i:], uint32(s.pos+i))
	}
	logits := dst
	if logits == nil {
		logits = make([]float32, nOut*s.m.NVocab)
	}
	err = plan.RunInto(logits, map[string][]byte{model.InputTokens: ids, model.InputPositions: pos}, s.cache)
	if err == nil {
		err = s.checkLogits(logits, len(tokens)-nOut)
	}
	if err != nil {
		s.failed = err
		return nil, fmt.Errorf("session: position %d: %w", s.pos, err)
	}
	s.pos += len(tokens)
	return logits, nil
}

// window is the number of cache cells that a pass of n tokens attends over.
func (s *Session) window(n int) int {
	used := s.pos + n
	return min((used+kvWindow-1)/kvWindow*kvWindow, s.o.NCtx)
}

// checkLogits refuses what no sampler could use. first is the batch's row of
// the first logits.
func (s *Session) checkLogits(logits []float32, first int) error {
	if finite(logits) {
		return nil
	}
	for i, l := range logits {
		if l-l != 0 { // NaN or infinite
			return fmt.Errorf("the logit of token %d after position %d is %v, want a finite number: the weights or the arithmetic are broken",
				i%s.m.NVocab, s.pos+first+i/s.m.NVocab, l)
		}
	}
	return nil
}

// finite says whether all are finite numbers: none has an exponent of ones. It looks at
// two at a time, as integers: adding one to the exponents of a pair makes a carry into
// the sign of each that is not.
func finite(x []float32) bool {
	const (
		exponents = 0x7f800000_7f800000
		ones      = 0x00800000_00800000
		signs     = 0x80000000_80000000
	)
	carries := uint64(0)
	for ; len(x) >= 8; x = x[8:] {
		p := (*[4]uint64)(unsafe.Pointer(&x[0]))
		carries |= (p[0]&exponents + ones) | (p[1]&exponents + ones) | (p[2]&exponents + ones) | (p[3]&exponents + ones)
	}
	for _, l := range x {
		carries |= uint64(math.Float32bits(l))&exponents + ones
	}
	return carries&signs == 0
}

// Generate evaluates the prompt and then draws up to n tokens, each evaluated
// before the next; n below 0 draws as many as the context allows, and 0 does
// nothing. It ends early at a token for which stop is true, which is neither
// emitted nor returned, and when ctx is done, with its error and what was drawn
// so far. emit sees each token as it is drawn. stop and emit may be nil.
//
// The prompt and n tokens must fit into the context together: it is an error
// before any work otherwise. The last token drawn is not evaluated: a
// conversation goes on with it at the head of the next prompt.
func (s *Session) Generate(ctx context.Context, prompt []int32, n int, sm *sampler.Sampler, stop func(int32) bool, emit func(int32)) ([]int32, error) {
	if err := s.check(prompt); err != nil {
		return nil, err
	}
	// The last token needs no position.
	room := s.o.NCtx - s.pos - len(prompt) + 1
	if n > room {
		return nil, fmt.Errorf("session: %d prompt tokens at position %d and %d new ones: the context of %d tokens has room for %d new ones",
			len(prompt), s.pos, n, s.o.NCtx, room)
	}
	if n < 0 {
		n = room
	}
	var drawn []int32
	next := prompt
	row := make([]float32, s.m.NVocab) // one for all: new memory costs more than what is copied to it
	for len(drawn) < n {
		logits, err := s.eval(ctx, next, row)
		if err != nil {
			return drawn, err
		}
		id, err := sm.Sample(logits)
		if err != nil {
			return drawn, fmt.Errorf("session: position %d: %w", s.pos-1, err)
		}
		if stop != nil && stop(id) {
			break
		}
		drawn = append(drawn, id)
		if emit != nil {
			emit(id)
		}
		next = drawn[len(drawn)-1:]
	}
	return drawn, nil
}
