package llamacpp

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

var errClosed = errors.New("llama.cpp: used after Close")

// ModelOptions say how a model is loaded.
type ModelOptions struct {
	VocabOnly bool // tokenizer only, no weights
	Repack    bool // llama.cpp's own default: weights repacked for speed, other bits than docs/numerics.md
	GPULayers int  // layers on the GPU whose backend was loaded (Lib.LoadBackend); the zero value is none
}

// A Model is a loaded model file. Close comes after its last use; the other
// methods may run at the same time.
type Model struct {
	lib   *Lib
	path  string
	ptr   unsafe.Pointer
	vocab unsafe.Pointer
	o     ModelOptions

	nVocab, nLayer, nCtxTrain int
	offloaded, offloadable    int
	bos, eos                  int32

	mu       sync.Mutex
	contexts map[*Context]bool
}

// LoadModel loads a GGUF file (the first part of a multi-part one).
func (l *Lib) LoadModel(path string, o ModelOptions) (*Model, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	p := l.fn.LlamaModelDefaultParams()
	p.vocabOnly = cbool(o.VocabOnly)
	p.useExtraBufts = cbool(o.Repack)
	p.nGPULayers = int32(o.GPULayers)
	l.log.clear()
	ptr := l.fn.LlamaModelLoadFromFile(path, p)
	if ptr == nil {
		return nil, l.log.wrap(fmt.Errorf("llama.cpp can't load %s", path))
	}
	m := &Model{lib: l, path: path, ptr: ptr, vocab: l.fn.LlamaModelGetVocab(ptr), o: o, contexts: make(map[*Context]bool)}
	l.log.mu.Lock()
	m.offloaded, m.offloadable = l.log.offloaded, l.log.layers
	l.log.mu.Unlock()
	m.nVocab = int(l.fn.LlamaVocabNTokens(m.vocab))
	m.nLayer, m.nCtxTrain = int(l.fn.LlamaModelNLayer(ptr)), int(l.fn.LlamaModelNCtxTrain(ptr))
	m.bos, m.eos = l.fn.LlamaVocabBOS(m.vocab), l.fn.LlamaVocabEOS(m.vocab)
	l.models[m] = true
	return m, nil
}

func cbool(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// Close frees the model and its contexts. A second call does nothing.
func (m *Model) Close() {
	m.mu.Lock()
	contexts := m.contexts
	m.contexts = nil
	m.mu.Unlock()
	for c := range contexts {
		c.Close()
	}
	m.mu.Lock()
	ptr := m.ptr
	m.ptr = nil
	m.mu.Unlock()
	if ptr == nil {
		return
	}
	m.lib.fn.LlamaModelFree(ptr)
	m.lib.mu.Lock()
	delete(m.lib.models, m)
	m.lib.mu.Unlock()
}

// NVocab is the number of tokens.
func (m *Model) NVocab() int { return m.nVocab }

// NLayer is the number of layers.
func (m *Model) NLayer() int { return m.nLayer }

// Offloaded is how many of the model's layers, the output's among them, llama.cpp's log
// says to be on a GPU, and of how many; 0 of 0 where it has no GPU to say so of.
func (m *Model) Offloaded() (layers, of int) { return m.offloaded, m.offloadable }

// NCtxTrain is the context length that the model was trained with.
func (m *Model) NCtxTrain() int { return m.nCtxTrain }

// BOS is the beginning-of-sequence token; ok is false where the model has none.
func (m *Model) BOS() (id int32, ok bool) { return m.bos, m.bos >= 0 }

// EOS is the end-of-sequence token; ok is false where the model has none.
func (m *Model) EOS() (id int32, ok bool) { return m.eos, m.eos >= 0 }

// IsEOG reports whether generation ends at a token; false after Close.
func (m *Model) IsEOG(id int32) bool {
	return m.ptr != nil && id >= 0 && int(id) < m.nVocab && m.lib.fn.LlamaVocabIsEOG(m.vocab, id)
}

// Tokenize gives the token ids of a text. addSpecial adds BOS or EOS where the
// model wants them; parseSpecial reads the text of special tokens as these.
func (m *Model) Tokenize(text string, addSpecial, parseSpecial bool) ([]int32, error) {
	if m.ptr == nil {
		return nil, errClosed
	}
	// One byte more than the text, so that there is an address for an empty one.
	in := append([]byte(text), 0)
	out := make([]int32, len(text)+8)
	for range 2 {
		n := m.lib.fn.LlamaTokenize(m.vocab, &in[0], int32(len(text)), &out[0], int32(len(out)), addSpecial, parseSpecial)
		if n >= 0 {
			return out[:n], nil
		}
		out = make([]int32, -n)
	}
	return nil, fmt.Errorf("llama.cpp can't tokenize a text of %d bytes", len(text))
}

// TokenToPiece gives a token's bytes. Special tokens give their text with
// special, and nothing without.
func (m *Model) TokenToPiece(id int32, special bool) ([]byte, error) {
	if m.ptr == nil {
		return nil, errClosed
	}
	if id < 0 || int(id) >= m.NVocab() {
		return nil, fmt.Errorf("token %d: want 0 to %d", id, m.NVocab()-1)
	}
	buf := make([]byte, 64)
	for range 2 {
		n := m.lib.fn.LlamaTokenToPiece(m.vocab, id, &buf[0], int32(len(buf)), 0, special)
		if n >= 0 {
			return buf[:n], nil
		}
		buf = make([]byte, -n)
	}
	return nil, fmt.Errorf("llama.cpp has no piece for token %d", id)
}
