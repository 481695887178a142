package refs

import (
	"fmt"

	"minfer/engine/gguf"
)

// hparams are the hyper-parameters of a model, read for this package alone: a
// mistake in the engine's reader must not hide itself in its reference.
type hparams struct {
	arch           string
	layers         int
	heads, headsKV int
	headDim        int // of q and k
	headDimV       int
	eps            float64
	rope           Rope
	biases, qkNorm bool // q, k, v biases (qwen2); q and k norms (qwen3)
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

// readHparams reads what a forward pass of this package needs. It refuses what
// it does not compute, but it is no validator: that is engine/model's part.
func readHparams(f *gguf.File) (hparams, error) {
	m := &metadata{file: f}
	h := hparams{arch: m.text("general.architecture", "")}
	switch h.arch {
	case "qwen2":
		h.biases, h.rope.Neox = true, true
	case "qwen3":
		h.qkNorm, h.rope.Neox = true, true
	case "llama":
	default:
		return h, fmt.Errorf("architecture %q: want qwen2, qwen3 or llama", h.arch)
	}
	key := func(name string) string { return h.arch + "." + name }

	h.layers = int(m.needed(key("block_count")))
	h.heads = int(m.needed(key("attention.head_count")))
	h.headsKV = int(m.number(key("attention.head_count_kv"), float64(h.heads)))
	width := m.needed(key("embedding_length"))
	perHead := float64(int(width) / h.heads)
	h.headDim = int(m.number(key("attention.key_length"), perHead))
	h.headDimV = int(m.number(key("attention.value_length"), perHead))
	h.eps = m.needed(key("attention.layer_norm_rms_epsilon"))

	h.rope.NDims = int(m.number(key("rope.dimension_count"), float64(h.headDim)))
	h.rope.FreqBase = m.number(key("rope.freq_base"), 10000)
	h.rope.FreqScale, h.rope.AttnFactor = 1, 1
	switch scaling := m.text(key("rope.scaling.type"), "none"); scaling {
	case "none", "":
		// Older files give a linear factor without naming the type.
		if factor := m.number(key("rope.scale_linear"), 0); factor != 0 {
			h.rope.FreqScale = 1 / factor
		}
	case "linear", "yarn":
		if factor := m.number(key("rope.scaling.factor"), 0); factor != 0 {
			h.rope.FreqScale = 1 / factor
		}
		h.rope.AttnFactor = m.number(key("rope.scaling.attn_factor"), 1)
		if scaling == "yarn" {
			h.rope.ExtFactor = m.number(key("rope.scaling.yarn_ext_factor"), 1)
			h.rope.BetaFast = m.number(key("rope.scaling.yarn_beta_fast"), 32)
			h.rope.BetaSlow = m.number(key("rope.scaling.yarn_beta_slow"), 1)
			h.rope.NCtxOrig = int(m.number(key("rope.scaling.original_context_length"), m.number(key("context_length"), 0)))
		}
	default:
		m.fail(fmt.Errorf("%s is %q: want none, linear or yarn", key("rope.scaling.type"), scaling))
	}
	return h, m.err
}
