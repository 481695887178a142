package suites

import (
	"errors"
	"fmt"
	"math"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/session"
	"minfer/refs"
)

// KVBytes has the bytes of the keys and of the values that a cache holds, by layer.
type KVBytes [][2][]byte

// ReadCache copies what a session has stored so far.
func ReadCache(ses *session.Session, layers int) (KVBytes, error) {
	var all KVBytes
	for l := range layers {
		kv, b := ses.Cache().Layer(l)
		var sides [2][]byte
		for i, side := range []struct {
			buf   graph.Buffer
			width int
		}{{kv.K, kv.KWidth}, {kv.V, kv.VWidth}} {
			sides[i] = make([]byte, ses.Pos()*kv.Type.RowBytes(side.width))
			if err := b.ReadHost(side.buf, 0, sides[i]); err != nil {
				return nil, err
			}
		}
		all = append(all, sides)
	}
	return all, nil
}

// Reference gives the float64 model's logits after each of the tokens. Rounding to
// a cache's type is not continuous: a value that float32 arithmetic puts on the
// other side of a tie is stored a step away, and the logits then move by more than
// any arithmetic would. So, given a run's own cache, each stored value is held
// against the reference's own, within a rounding, and the reference goes on with
// what was stored; a value that no rounding makes is ErrRounding. Without a cache
// the reference rounds by itself.
func Reference(f *gguf.File, tokens []int32, kv gguf.Type, cache KVBytes) ([][]float64, error) {
	return ReferenceFrom(f, 0, tokens, kv, cache)
}

// ReferenceWithin is [Reference] where arithmetic may have moved what is stored by a
// share of the values' size that the caller names: a prompt's products of matrices by
// more than a single token's.
func ReferenceWithin(f *gguf.File, tokens []int32, kv gguf.Type, cache KVBytes, arithmetic float64) ([][]float64, error) {
	return reference(f, 0, tokens, kv, cache, arithmetic)
}

// tokenArithmetic is the share for single tokens.
const tokenArithmetic = 5e-5

// ReferenceFrom is [Reference] of tokens from the position first on. What the run's
// cache, which it then needs, holds of the tokens before is taken as given.
func ReferenceFrom(f *gguf.File, first int, tokens []int32, kv gguf.Type, cache KVBytes) ([][]float64, error) {
	return reference(f, first, tokens, kv, cache, tokenArithmetic)
}

func reference(f *gguf.File, first int, tokens []int32, kv gguf.Type, cache KVBytes, arithmetic float64) ([][]float64, error) {
	o := refs.Options{KV: kv, First: first}
	if cache != nil {
		o.Store = func(layer int, values bool, x []float64) ([]float64, error) {
			side := 0
			if values {
				side = 1
			}
			before := len(x) / len(tokens) * first
			stored, err := refs.Dequantize(kv, cache[layer][side], before+len(x))
			if err == nil {
				err = rounded(kv, stored[before:], x, arithmetic)
			}
			if err != nil {
				return nil, fmt.Errorf("the cache of layer %d, %s: %w", layer, [...]string{"keys", "values"}[side], err)
			}
			return stored, nil
		}
	}
	return refs.Forward(f, tokens, o)
}

// ErrRounding is wrapped where a cache holds what no rounding makes of the value.
var ErrRounding = errors.New("not the value rounded")

// rounded checks that a cache of type t may hold stored for x: within half a step,
// with arithmetic's share of the values' size. A step of f16 is 2^-10 of a value. One of
// q8_0 is the largest of its block over 127, and as that is itself stored as f16 a
// value may be off by 127 * 2^-11 of a step more.
func rounded(t gguf.Type, stored, x []float64, arithmetic float64) error {
	slack := arithmetic * refs.RMS(x)
	for i := range x {
		allowed := math.Abs(x[i])*0x1p-11 + 0x1p-25
		if t == gguf.Q8_0 {
			largest := 0.0
			for _, v := range x[i/32*32 : i/32*32+32] {
				largest = max(largest, math.Abs(v))
			}
			allowed = (0.5 + 127*0x1p-11) * largest / 127
		}
		if d := math.Abs(stored[i] - x[i]); !(d <= allowed+slack) {
			return fmt.Errorf("%w: element %d is %v, the reference's value %v: want it within %.3g", ErrRounding, i, stored[i], x[i], allowed+slack)
		}
	}
	return nil
}

// LogitsBound is how far a logit may be from the float64 model's, whose row of
// logits is given, as a share of their size: the worst of many thousand rows is near
// 7e-6, and 5e-5 allows for longer rows. (The contract of the Metal path is 1e-3.)
func LogitsBound(row []float64) float64 { return 5e-5 * max(1, refs.RMS(row)) }
