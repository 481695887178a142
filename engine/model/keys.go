package model

import (
	"fmt"
	"math"
	"strings"

	"minfer/engine/gguf"
)

// keys reads the metadata of one architecture: names here leave out the
// "<arch>." in front.
type keys struct {
	f    *gguf.File
	arch arch
}

// known lists the keys under "<arch>." that Load reads, and those that change
// nothing. Any other key there is refused, since it may change the arithmetic.
var known = map[string]bool{
	"context_length":                       true,
	"embedding_length":                     true,
	"block_count":                          true,
	"feed_forward_length":                  true,
	"vocab_size":                           true,
	"attention.head_count":                 true,
	"attention.head_count_kv":              true,
	"attention.key_length":                 true,
	"attention.value_length":               true,
	"attention.layer_norm_rms_epsilon":     true,
	"rope.dimension_count":                 true,
	"rope.freq_base":                       true,
	"rope.scale_linear":                    true, // the old name of rope.scaling.factor
	"rope.scaling.type":                    true,
	"rope.scaling.factor":                  true,
	"rope.scaling.original_context_length": true,
	"rope.scaling.attn_factor":             true,
	// A remark on the training; llama.cpp prints it.
	"rope.scaling.finetuned": true,
	// The layout of the permutation that a converter has applied already.
	"tensor_data_layout": true,
}

// onlyAs lists keys that would change the arithmetic, with the values that say
// what is computed anyway. llama.cpp itself reads the yarn_* keys for other
// architectures only and computes with the values below (seen in the ROPE
// node's parameters).
var onlyAs = map[string][]float64{
	"attention.causal":                 {1},
	"attention.clamp_kqv":              {0},
	"attention.max_alibi_bias":         {0},
	"attention.scale":                  {0},
	"attention.sliding_window":         {0},
	"attn_logit_softcapping":           {0},
	"final_logit_softcapping":          {0},
	"logit_scale":                      {0, 1},
	"embedding_scale":                  {0, 1},
	"residual_scale":                   {0, 1},
	"expert_count":                     {0},
	"expert_used_count":                {0},
	"expert_shared_count":              {0},
	"nextn_predict_layers":             {0},
	"pooling_type":                     {0},
	"rope.scaling.alpha":               {0},
	"rope.scaling.yarn_attn_factor":    {1},
	"rope.scaling.yarn_beta_fast":      {32},
	"rope.scaling.yarn_beta_slow":      {1},
	"rope.scaling.yarn_ext_factor":     {-1},
	"rope.scaling.yarn_log_multiplier": {0},
}

// refuseUnknown names the first key that Load would have to ignore.
func (k *keys) refuseUnknown() error {
	for _, kv := range k.f.KVs {
		if strings.HasPrefix(kv.Key, "adapter.") {
			return fmt.Errorf("key %s: adapters are not implemented", kv.Key)
		}
		name, ours := strings.CutPrefix(kv.Key, k.arch.name+".")
		if !ours || known[name] {
			continue
		}
		values, listed := onlyAs[name]
		if !listed {
			return fmt.Errorf("key %s is not implemented", kv.Key)
		}
		got, err := number(kv.Value)
		if err != nil {
			return fmt.Errorf("key %s %w", kv.Key, err)
		}
		matches := false
		for _, v := range values {
			matches = matches || v == got
		}
		if !matches {
			return fmt.Errorf("key %s is %v: not implemented, want %v", kv.Key, kv.Value, values[0])
		}
	}
	return nil
}

// number reads a scalar of any numeric type, and booleans as 0 and 1.
func number(v any) (float64, error) {
	switch x := v.(type) {
	case bool:
		if x {
			return 1, nil
		}
		return 0, nil
	case uint8:
		return float64(x), nil
	case int8:
		return float64(x), nil
	case uint16:
		return float64(x), nil
	case int16:
		return float64(x), nil
	case uint32:
		return float64(x), nil
	case int32:
		return float64(x), nil
	case uint64:
		return float64(x), nil
	case int64:
		return float64(x), nil
	case float32:
		return float64(x), nil
	case float64:
		return x, nil
	}
	return 0, fmt.Errorf("is a %T, want a number", v)
}

func (k *keys) name(key string) string { return k.arch.name + "." + key }

func (k *keys) lookup(key string) (any, bool) { return k.f.Lookup(k.name(key)) }

// maxCount bounds every hyper-parameter so that products of three of them
// cannot overflow. Real ones are far below.
const maxCount = 1 << 20

// maxVocab and the context may be larger than a width.
const maxLength = 1 << 30

// count reads a whole number of at least 1.
func (k *keys) count(key string) (int, error) {
	v, ok := k.lookup(key)
	if !ok {
		return 0, fmt.Errorf("key %s is missing", k.name(key))
	}
	// One value for all layers may be written as an array of equal ones.
	if list, is := asList(v); is {
		if len(list) == 0 {
			return 0, fmt.Errorf("%s is an empty array, want a number", k.name(key))
		}
		for i, x := range list {
			if x != list[0] {
				return 0, fmt.Errorf("%s is %v for layer 0 and %v for layer %d: not implemented, want one value for all layers", k.name(key), list[0], x, i)
			}
		}
		v = list[0]
	}
	n, err := number(v)
	if err != nil {
		return 0, fmt.Errorf("%s %w", k.name(key), err)
	}
	most := float64(maxCount)
	if key == "context_length" || key == "vocab_size" || key == "rope.scaling.original_context_length" {
		most = maxLength
	}
	if n != math.Trunc(n) || n < 1 || n > most {
		return 0, fmt.Errorf("%s is %v, want a whole number from 1 to %v", k.name(key), v, int(most))
	}
	return int(n), nil
}

// countOr is count for a key that may be absent.
func (k *keys) countOr(key string, def int) (int, error) {
	if _, ok := k.lookup(key); !ok {
		return def, nil
	}
	return k.count(key)
}

// asList gives the elements of an integer array.
func asList(v any) ([]any, bool) {
	switch x := v.(type) {
	case []uint32:
		return elements(x), true
	case []int32:
		return elements(x), true
	case []uint64:
		return elements(x), true
	case []int64:
		return elements(x), true
	}
	return nil, false
}

func elements[T any](x []T) []any {
	list := make([]any, len(x))
	for i, e := range x {
		list[i] = e
	}
	return list
}

// positive reads a finite float above 0. def is the value of an absent key; nil
// means that it must be there.
func (k *keys) positive(key string, def *float32) (float32, error) {
	v, ok := k.lookup(key)
	if !ok {
		if def == nil {
			return 0, fmt.Errorf("key %s is missing", k.name(key))
		}
		return *def, nil
	}
	n, err := number(v)
	if err != nil {
		return 0, fmt.Errorf("%s %w", k.name(key), err)
	}
	if x := float32(n); x > 0 && !math.IsInf(float64(x), 0) {
		return x, nil
	}
	return 0, fmt.Errorf("%s is %v, want a finite number above 0", k.name(key), v)
}

// str reads a string; an absent key gives def.
func (k *keys) str(key, def string) (string, error) {
	v, ok := k.lookup(key)
	if !ok {
		return def, nil
	}
	s, is := v.(string)
	if !is {
		return "", fmt.Errorf("%s is a %T, want a string", k.name(key), v)
	}
	return s, nil
}
