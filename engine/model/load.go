package model

import (
	"fmt"

	"minfer/engine/gguf"
	"minfer/engine/graph"
)

// Load reads and checks the model in f. Every error is one line that names the
// file, the key or the tensor, what it holds and what was expected.
func Load(f *gguf.File) (*Model, error) {
	m, err := LoadUnread(f)
	if err != nil {
		return nil, err
	}
	if err := m.CheckFinite(); err != nil {
		return nil, err
	}
	return m, nil
}

// LoadUnread is Load without a look at the values of the matrices, which are nearly
// all of the file. No result of the model may be shown before they were looked at,
// with CheckFinite, or during the first pass, with a Proof.
func LoadUnread(f *gguf.File) (*Model, error) {
	m, err := load(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return m, nil
}

// CheckFinite reads all matrices once, at memory speed, and names the first value that
// is NaN or infinite.
func (m *Model) CheckFinite() error { return m.checkFinite(m.matrices) }

func (m *Model) checkFinite(matrices []*graph.Weight) error {
	var list []*gguf.Tensor
	for _, w := range matrices {
		x, _ := m.file.Tensor(w.Name)
		list = append(list, x)
	}
	if err := checkFinite(list...); err != nil {
		return fmt.Errorf("%s: %w", m.file.Path, err)
	}
	return nil
}

func load(f *gguf.File) (*Model, error) {
	m := &Model{file: f}
	a, err := readArch(f)
	if err != nil {
		return nil, err
	}
	m.Arch = a.name
	k := &keys{f: f, arch: a}
	if err := k.refuseUnknown(); err != nil {
		return nil, err
	}
	if err := m.readHparams(k); err != nil {
		return nil, err
	}
	t := &tensors{f: f, used: map[string]bool{}}
	if err := m.readVocab(k, t); err != nil {
		return nil, err
	}
	if err := m.readTensors(a, t); err != nil {
		return nil, err
	}
	if err := t.refuseUnused(m.Arch); err != nil {
		return nil, err
	}
	m.weights, m.matrices = t.weights, t.matrices
	return m, nil
}

// readHparams reads everything but the vocabulary, and checks each number by
// itself and against the others.
func (m *Model) readHparams(k *keys) (err error) {
	for _, c := range []struct {
		dst *int
		key string
	}{
		{&m.NCtxTrain, "context_length"},
		{&m.NEmbd, "embedding_length"},
		{&m.NLayer, "block_count"},
		{&m.NFF, "feed_forward_length"},
		{&m.NHead, "attention.head_count"},
	} {
		if *c.dst, err = k.count(c.key); err != nil {
			return err
		}
	}
	if m.NHeadKV, err = k.countOr("attention.head_count_kv", m.NHead); err != nil {
		return err
	}
	if m.NHead%m.NHeadKV != 0 {
		return fmt.Errorf("%s is %d, want a divisor of %s = %d",
			k.name("attention.head_count_kv"), m.NHeadKV, k.name("attention.head_count"), m.NHead)
	}
	if err := m.readHeadDims(k); err != nil {
		return err
	}
	if m.RMSEps, err = k.positive("attention.layer_norm_rms_epsilon", nil); err != nil {
		return err
	}
	m.Rope, err = readRope(k, m.HeadDimK, m.NCtxTrain)
	return err
}

// readHeadDims reads the width of a head. The graphs of all three
// architectures rotate whole heads and concatenate values of the key's width,
// so the widths must all be the same even number.
func (m *Model) readHeadDims(k *keys) (err error) {
	def := m.NEmbd / m.NHead
	_, hasKey := k.lookup("attention.key_length")
	_, hasValue := k.lookup("attention.value_length")
	if m.NEmbd%m.NHead != 0 && !(hasKey && hasValue) {
		return fmt.Errorf("%s is %d, want a multiple of %s = %d where %s and %s are not given",
			k.name("embedding_length"), m.NEmbd, k.name("attention.head_count"), m.NHead,
			k.name("attention.key_length"), k.name("attention.value_length"))
	}
	if m.HeadDimK, err = k.countOr("attention.key_length", def); err != nil {
		return err
	}
	if m.HeadDimV, err = k.countOr("attention.value_length", def); err != nil {
		return err
	}
	if m.HeadDimK%2 != 0 {
		return fmt.Errorf("the head dimension (%s) is %d, want an even number", k.name("attention.key_length"), m.HeadDimK)
	}
	if m.HeadDimV != m.HeadDimK {
		return fmt.Errorf("%s is %d, want %s = %d", k.name("attention.value_length"), m.HeadDimV, k.name("attention.key_length"), m.HeadDimK)
	}
	return nil
}

// readVocab finds the embedding table and checks that the table, the output
// matrix, the token list and the vocab_size key agree.
func (m *Model) readVocab(k *keys, t *tensors) error {
	e, ok := t.f.Tensor("token_embd.weight")
	if !ok {
		return fmt.Errorf("tensor token_embd.weight is missing")
	}
	if len(e.Dims) != 2 {
		return fmt.Errorf("tensor token_embd.weight: shape %v, want [%d n_vocab]", e.Dims, m.NEmbd)
	}
	m.NVocab = e.Dims[1]
	if v, given := t.f.Lookup("tokenizer.ggml.tokens"); given {
		tokens, is := v.([]string)
		if !is {
			return fmt.Errorf("tokenizer.ggml.tokens is a %T, want an array of strings", v)
		}
		if len(tokens) != m.NVocab {
			return fmt.Errorf("tensor token_embd.weight has %d rows, want %d, the length of tokenizer.ggml.tokens", m.NVocab, len(tokens))
		}
	}
	n, err := k.countOr("vocab_size", m.NVocab)
	if err != nil {
		return err
	}
	if n != m.NVocab {
		return fmt.Errorf("%s is %d, want %d, the rows of token_embd.weight", k.name("vocab_size"), n, m.NVocab)
	}
	return nil
}

// readTensors finds every tensor of the architecture, in the order in which the
// graph reads them.
func (m *Model) readTensors(a arch, t *tensors) error {
	t.matrix(&m.embd, "token_embd.weight", m.NEmbd, m.NVocab)
	if a.ropeFactors {
		t.optVector(&m.ropeFactors, "rope_freqs.weight", m.Rope.NDims/2)
	}
	q, kv := m.NHead*m.HeadDimK, m.NHeadKV*m.HeadDimK
	for il := 0; il < m.NLayer && t.err == nil; il++ {
		var l layer
		b := func(s string) string { return fmt.Sprintf("blk.%d.%s", il, s) }
		t.vector(&l.attnNorm, b("attn_norm.weight"), m.NEmbd)
		t.matrix(&l.q, b("attn_q.weight"), m.NEmbd, q)
		t.optVector(&l.qBias, b("attn_q.bias"), q)
		t.matrix(&l.v, b("attn_v.weight"), m.NEmbd, kv)
		t.optVector(&l.vBias, b("attn_v.bias"), kv)
		t.matrix(&l.k, b("attn_k.weight"), m.NEmbd, kv)
		t.optVector(&l.kBias, b("attn_k.bias"), kv)
		if a.qkNorm {
			t.vector(&l.qNorm, b("attn_q_norm.weight"), m.HeadDimK)
			t.vector(&l.kNorm, b("attn_k_norm.weight"), m.HeadDimK)
		}
		t.matrix(&l.o, b("attn_output.weight"), q, m.NEmbd)
		if a.blockBias {
			t.optVector(&l.oBias, b("attn_output.bias"), m.NEmbd)
			t.optVector(&l.gateBias, b("ffn_gate.bias"), m.NFF)
			t.optVector(&l.upBias, b("ffn_up.bias"), m.NFF)
			t.optVector(&l.downBias, b("ffn_down.bias"), m.NEmbd)
		}
		t.vector(&l.ffnNorm, b("ffn_norm.weight"), m.NEmbd)
		t.matrix(&l.gate, b("ffn_gate.weight"), m.NEmbd, m.NFF)
		t.matrix(&l.up, b("ffn_up.weight"), m.NEmbd, m.NFF)
		t.matrix(&l.down, b("ffn_down.weight"), m.NFF, m.NEmbd)
		m.layers = append(m.layers, l)
	}
	t.vector(&m.norm, "output_norm.weight", m.NEmbd)
	if _, given := t.f.Tensor("output.weight"); given {
		t.matrix(&m.output, "output.weight", m.NEmbd, m.NVocab)
	} else {
		m.output, m.Tied = m.embd, true
	}
	if a.outputBias {
		t.optVector(&m.outputBias, "output.bias", m.NVocab)
	}
	if t.err == nil && m.ropeFactors != nil {
		t.err = checkFactors(m.ropeFactors)
	}
	return t.err
}
