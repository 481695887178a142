// Package hparams reads the hyper-parameters that a forward pass of the
// references needs. It exists so that a mistake in the engine's reader cannot
// hide itself in its reference; it is no validator, which is engine/model's
// part. [Read] refuses what the references do not compute.
package hparams

import (
	"fmt"

	"minfer/engine/gguf"
)

// Hparams are a model's hyper-parameters, as stored or as absent keys default.
type Hparams struct {
	Arch           string // qwen2, qwen3 or llama
	Layers         int
	Heads, HeadsKV int
	HeadDim        int // of q and k
	HeadDimV       int
	Eps            float64
	QkNorm         bool // q and k are normed by head
	Rope           Rope
}

// Rope holds the rotation's parameters.
type Rope struct {
	Neox       bool
	NDims      int
	FreqBase   float64
	Factor     float64 // of linear and YaRN scaling; 1 for none
	AttnFactor float64 // as the file has it, 1 if not
	ExtFactor  float64 // 0 without YaRN
	BetaFast   float64
	BetaSlow   float64
	NCtxOrig   int
}

// metadata looks values up in a file, keeping the first failure.
type metadata struct {
	file *gguf.File
	err  error
}

func (m *metadata) value(key string) (any, bool) {
	for _, kv := range m.file.KVs {
		if kv.Key == key {
			return kv.Value, true
		}
	}
	return nil, false
}

// number is a numeric value as float64, or absent when there is no such key.
func (m *metadata) number(key string, absent float64) float64 {
	value, ok := m.value(key)
	if !ok {
		return absent
	}
	switch v := value.(type) {
	case uint8:
		return float64(v)
	case int8:
		return float64(v)
	case uint16:
		return float64(v)
	case int16:
		return float64(v)
	case uint32:
		return float64(v)
	case int32:
		return float64(v)
	case uint64:
		return float64(v)
	case int64:
		return float64(v)
	case float32:
		return float64(v)
	case float64:
		return v
	}
	m.fail(fmt.Errorf("%s is a %T: want a number", key, value))
	return absent
}

// needed is number for a key that must exist and be positive.
func (m *metadata) needed(key string) float64 {
	v := m.number(key, 0)
	if v <= 0 {
		m.fail(fmt.Errorf("%s is %v or absent: want a positive number", key, v))
		return 1
	}
	return v
}

func (m *metadata) text(key, absent string) string {
	value, ok := m.value(key)
	if !ok {
		return absent
	}
	s, ok := value.(string)
	if !ok {
		m.fail(fmt.Errorf("%s is a %T: want a string", key, value))
	}
	return s
}

func (m *metadata) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

// Read reads the metadata; the error names the key.
func Read(f *gguf.File) (Hparams, error) {
	m := &metadata{file: f}
	h := Hparams{Arch: m.text("general.architecture", "")}
	switch h.Arch {
	case "qwen2":
		h.Rope.Neox = true
	case "qwen3":
		h.QkNorm, h.Rope.Neox = true, true
	case "llama":
	default:
		return h, fmt.Errorf("architecture %q: want qwen2, qwen3 or llama", h.Arch)
	}
	key := func(name string) string { return h.Arch + "." + name }

	h.Layers = int(m.needed(key("block_count")))
	h.Heads = int(m.needed(key("attention.head_count")))
	h.HeadsKV = int(m.number(key("attention.head_count_kv"), float64(h.Heads)))
	width := m.needed(key("embedding_length"))
	perHead := float64(int(width) / h.Heads)
	h.HeadDim = int(m.number(key("attention.key_length"), perHead))
	h.HeadDimV = int(m.number(key("attention.value_length"), perHead))
	h.Eps = m.needed(key("attention.layer_norm_rms_epsilon"))

	h.Rope.NDims = int(m.number(key("rope.dimension_count"), float64(h.HeadDim)))
	h.Rope.FreqBase = m.number(key("rope.freq_base"), 10000)
	h.Rope.Factor = 1
	h.Rope.AttnFactor = m.number(key("rope.scaling.attn_factor"), 1) // whatever the type
	// A factor without a type is linear; older files have it under another key.
	factor := m.number(key("rope.scaling.factor"), m.number(key("rope.scale_linear"), 0))
	if factor != 0 {
		h.Rope.Factor = factor
	}
	switch scaling := m.text(key("rope.scaling.type"), "linear"); scaling {
	case "none":
		h.Rope.Factor = 1
	case "linear":
	case "yarn":
		if v := m.number(key("rope.scaling.yarn_log_multiplier"), 0); v != 0 {
			m.fail(fmt.Errorf("%s is %v: want none", key("rope.scaling.yarn_log_multiplier"), v))
		}
		// llama.cpp reads keys for these three with other architectures only.
		h.Rope.ExtFactor, h.Rope.BetaFast, h.Rope.BetaSlow = 1, 32, 1
		h.Rope.NCtxOrig = int(m.number(key("rope.scaling.original_context_length"), m.number(key("context_length"), 0)))
	default:
		m.fail(fmt.Errorf("%s is %q: want none, linear or yarn", key("rope.scaling.type"), scaling))
	}
	return h, m.err
}
