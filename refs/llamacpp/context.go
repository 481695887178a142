package llamacpp

import (
	"fmt"
	"runtime"
	"unsafe"

	"minfer/engine/gguf"
)

// ContextOptions are the settings of one sequence. The zero value of each field
// but NCtx is the setting of docs/numerics.md.
type ContextOptions struct {
	NCtx      int       // most tokens of the sequence; llama.cpp rounds it up to a multiple of 256
	KVType    gguf.Type // F32 (the zero value) or F16, for K and V
	Threads   int       // 0 is 1; ggml's threads spin at every node, so more than there are idle cores is very slow
	UBatch    int       // tokens computed at a time, 0 is 1; more than 1 gives other bits
	FlashAttn bool      // other bits

	// Tap is given every node right after it is computed, in order; an error
	// stops the evaluation. It must not use the Context.
	Tap func(NodeValue) error
}

// batchTokens is the most tokens of one llama_decode call with logits for all.
const batchTokens = 512

// A Context is one sequence with its KV cache.
type Context struct {
	m      *Model
	ptr    unsafe.Pointer
	o      ContextOptions
	pos    int
	tap    *tap
	tapID  uintptr
	vocab  int
	failed bool
}

// NewContext makes an empty sequence.
func (m *Model) NewContext(o ContextOptions) (*Context, error) {
	var t *tap
	if o.Tap != nil {
		t = &tap{fn: func(t *tensor, op string) error {
			data, err := t.bytes()
			if err != nil {
				return err
			}
			return o.Tap(NodeValue{Name: t.cname(), Op: op, Type: gguf.Type(t.typ), Dims: t.dims(), OpParams: t.opParams, Data: data})
		}}
	}
	return m.newContext(o, t)
}

func (m *Model) newContext(o ContextOptions, t *tap) (*Context, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ptr == nil {
		return nil, errClosed
	}
	if m.o.VocabOnly {
		return nil, fmt.Errorf("%s was loaded with VocabOnly: it has no weights to evaluate", m.path)
	}
	if o.NCtx < 1 || o.NCtx > 1<<24 {
		return nil, fmt.Errorf("context of %d tokens: want 1 to %d", o.NCtx, 1<<24)
	}
	if o.KVType != gguf.F32 && o.KVType != gguf.F16 {
		return nil, fmt.Errorf("KV type %v: want f32 or f16", o.KVType)
	}
	o.Threads, o.UBatch = max(o.Threads, 1), max(o.UBatch, 1)
	f := &m.lib.fn
	p := f.LlamaContextDefaultParams()
	p.nCtx = uint32(o.NCtx)
	p.nBatch = uint32(max(batchTokens, o.UBatch))
	p.nUBatch = uint32(o.UBatch)
	p.nSeqMax = 1
	p.nThreads, p.nThreadsBatch = int32(o.Threads), int32(o.Threads)
	p.flashAttnType = 0
	if o.FlashAttn {
		p.flashAttnType = 1
	}
	p.typeK, p.typeV = int32(o.KVType), int32(o.KVType)
	c := &Context{m: m, o: o, tap: t, vocab: m.NVocab()}
	if t != nil {
		t.lib = m.lib.process
		c.tapID = addTap(t)
		p.cbEval, p.cbEvalUserData = m.lib.evalCallback, c.tapID
	}
	m.lib.log.clear()
	c.ptr = f.LlamaInitFromModel(m.ptr, p)
	if c.ptr == nil {
		removeTap(c.tapID)
		return nil, m.lib.log.wrap(fmt.Errorf("llama.cpp can't make a context of %d tokens for %s", o.NCtx, m.path))
	}
	m.contexts[c] = true
	if n, u, th := f.LlamaNCtx(c.ptr), f.LlamaNUBatch(c.ptr), f.LlamaNThreads(c.ptr); n < p.nCtx || u != p.nUBatch || th != p.nThreads {
		delete(m.contexts, c)
		c.free()
		return nil, fmt.Errorf("llama.cpp made a context of %d tokens, micro-batch %d, %d threads: asked for %d, %d, %d", n, u, th, p.nCtx, p.nUBatch, p.nThreads)
	}
	return c, nil
}

// Close frees the context. A second call does nothing.
func (c *Context) Close() {
	c.m.mu.Lock()
	delete(c.m.contexts, c)
	c.m.mu.Unlock()
	c.free()
}

func (c *Context) free() {
	if c.ptr != nil {
		c.m.lib.fn.LlamaFree(c.ptr)
		removeTap(c.tapID)
		c.ptr = nil
	}
}

// Pos is the number of tokens evaluated since the last Reset.
func (c *Context) Pos() int { return c.pos }

// Reset empties the sequence and zeroes its cache.
func (c *Context) Reset() {
	if c.ptr != nil {
		c.m.lib.fn.LlamaMemoryClear(c.m.lib.fn.LlamaGetMemory(c.ptr), true)
		c.pos, c.failed = 0, false
	}
}

// Truncate drops the cells from position pos on.
func (c *Context) Truncate(pos int) error {
	switch {
	case c.ptr == nil:
		return errClosed
	case c.failed:
		return fmt.Errorf("an evaluation of this context failed: Reset it first")
	case pos < 0 || pos > c.pos:
		return fmt.Errorf("truncate to position %d: want 0 to %d", pos, c.pos)
	}
	if pos < c.pos && !c.m.lib.fn.LlamaMemorySeqRm(c.m.lib.fn.LlamaGetMemory(c.ptr), 0, int32(pos), -1) {
		return fmt.Errorf("llama.cpp can't drop the positions from %d on", pos)
	}
	c.pos = pos
	return nil
}

// Eval appends tokens to the sequence and gives the logits of every one of
// them, [token][vocabulary].
func (c *Context) Eval(tokens []int32) ([]float32, error) {
	out := make([]float32, 0, len(tokens)*c.vocab)
	for len(tokens) > 0 {
		n := min(len(tokens), batchTokens)
		if err := c.decode(tokens[:n], true); err != nil {
			return nil, err
		}
		p := c.m.lib.fn.LlamaGetLogits(c.ptr)
		if p == nil {
			return nil, fmt.Errorf("llama.cpp gave no logits at position %d", c.pos-1)
		}
		out = append(out, unsafe.Slice(p, n*c.vocab)...)
		tokens = tokens[n:]
	}
	return out, nil
}

// EvalLast appends tokens and gives the logits of the last one only.
func (c *Context) EvalLast(tokens []int32) ([]float32, error) {
	if len(tokens) == 0 {
		return nil, fmt.Errorf("no tokens to evaluate at position %d", c.pos)
	}
	for len(tokens) > 0 {
		n := min(len(tokens), batchTokens)
		if err := c.decode(tokens[:n], false); err != nil {
			return nil, err
		}
		tokens = tokens[n:]
	}
	p := c.m.lib.fn.LlamaGetLogitsIth(c.ptr, -1)
	if p == nil {
		return nil, fmt.Errorf("llama.cpp gave no logits at position %d", c.pos-1)
	}
	return append([]float32(nil), unsafe.Slice(p, c.vocab)...), nil
}

// Greedy appends a prompt and then n tokens, each the one with the largest
// logit as llama.cpp's greedy sampler picks it; it does not stop at an
// end-of-generation token. The last of them is returned but not evaluated.
func (c *Context) Greedy(prompt []int32, n int) ([]int32, error) {
	return c.greedy(prompt, n, func(tokens []int32) error {
		for len(tokens) > 0 {
			k := min(len(tokens), batchTokens)
			if err := c.decode(tokens[:k], false); err != nil {
				return err
			}
			tokens = tokens[k:]
		}
		return nil
	})
}

func (c *Context) greedy(prompt []int32, n int, eval func([]int32) error) ([]int32, error) {
	if len(prompt) == 0 {
		return nil, fmt.Errorf("no prompt tokens")
	}
	if c.ptr == nil {
		return nil, errClosed
	}
	f := &c.m.lib.fn
	s := f.LlamaSamplerInitGreedy()
	if s == nil {
		return nil, fmt.Errorf("llama.cpp has no greedy sampler")
	}
	defer f.LlamaSamplerFree(s)
	if err := eval(prompt); err != nil {
		return nil, err
	}
	var out []int32
	for len(out) < n {
		id := f.LlamaSamplerSample(s, c.ptr, -1)
		out = append(out, id)
		if len(out) < n {
			if err := eval([]int32{id}); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// decode appends at most batchTokens tokens, with logits for all or for the
// last one.
func (c *Context) decode(tokens []int32, all bool) error {
	if c.ptr == nil {
		return errClosed
	}
	if c.failed {
		return fmt.Errorf("an evaluation of this context failed: Reset it first")
	}
	n := len(tokens)
	if c.pos+n > c.o.NCtx {
		return fmt.Errorf("%d tokens at position %d: the context has room for %d", n, c.pos, c.o.NCtx)
	}
	ids := make([]int32, n)
	pos := make([]int32, n)
	nSeq := make([]int32, n)
	seqs := make([]*int32, n)
	logits := make([]int8, n)
	seq := new(int32)
	for i, t := range tokens {
		if t < 0 || int(t) >= c.vocab {
			return fmt.Errorf("token %d at position %d: want 0 to %d", t, c.pos+i, c.vocab-1)
		}
		ids[i], pos[i], nSeq[i], seqs[i] = t, int32(c.pos+i), 1, seq
		if all || i == n-1 {
			logits[i] = 1
		}
	}
	b := batch{nTokens: int32(n), token: &ids[0], pos: &pos[0], nSeqID: &nSeq[0], seqID: &seqs[0], logits: &logits[0]}
	if c.tap != nil {
		c.tap.err = nil
	}
	c.m.lib.log.clear()
	status := c.m.lib.fn.LlamaDecode(c.ptr, b)
	runtime.KeepAlive(b)
	if c.tap != nil && c.tap.err != nil {
		c.failed = true
		return c.tap.err
	}
	if status != 0 {
		c.failed = true
		return c.m.lib.log.wrap(fmt.Errorf("llama_decode of %d tokens at position %d: status %d", n, c.pos, status))
	}
	c.pos += n
	return nil
}
