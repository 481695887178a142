package model

import (
	"encoding/binary"
	"fmt"
	"math"

	"minfer/engine/graph"
)

// The kinds of rope scaling that are implemented, by rope.scaling.type.
const (
	scalingNone   = "none"
	scalingLinear = "linear"
	scalingYarn   = "yarn"
)

// readRope reads the parameters of the rotation as llama.cpp passes them to
// ggml's rope: its defaults, its order of float operations. The values were
// checked against the parameters of the ROPE node in llama.cpp's eval callback.
func readRope(k *keys, headDim, nCtxTrain int) (graph.Rope, error) {
	// beta_fast and beta_slow are constants of llama.cpp for these architectures.
	r := graph.Rope{Mode: k.arch.mode, FreqScale: 1, AttnFactor: 1, BetaFast: 32, BetaSlow: 1}
	var err error
	if r.NDims, err = k.countOr("rope.dimension_count", headDim); err != nil {
		return r, err
	}
	if r.NDims != headDim {
		return r, fmt.Errorf("%s is %d: not implemented, want the head dimension %d", k.name("rope.dimension_count"), r.NDims, headDim)
	}
	base := float32(10000)
	if r.FreqBase, err = k.positive("rope.freq_base", &base); err != nil {
		return r, err
	}
	if r.NCtxOrig, err = k.countOr("rope.scaling.original_context_length", nCtxTrain); err != nil {
		return r, err
	}
	factor, err := ropeFactor(k)
	if err != nil {
		return r, err
	}
	one := float32(1)
	attn, err := k.positive("rope.scaling.attn_factor", &one)
	if err != nil {
		return r, err
	}
	// A file with a factor and no type is scaled linearly.
	kind, err := k.str("rope.scaling.type", scalingLinear)
	if err != nil {
		return r, err
	}
	switch kind {
	case scalingNone:
	case scalingLinear:
		r.FreqScale = 1 / factor
	case scalingYarn:
		r.FreqScale = 1 / factor
		r.ExtFactor = 1
		r.AttnFactor = yarnAttnFactor(r.FreqScale)
	default:
		return r, fmt.Errorf("%s is %q: not implemented, want one of %s, %s, %s", k.name("rope.scaling.type"), kind, scalingNone, scalingLinear, scalingYarn)
	}
	if r.FreqScale == 0 || math.IsInf(float64(r.FreqScale), 0) {
		return r, fmt.Errorf("%s is %v, want a number whose inverse is finite and not 0", k.name("rope.scaling.factor"), factor)
	}
	r.AttnFactor *= attn
	return r, nil
}

// ropeFactor reads the context extension. 0 stands for unset, as some
// converters write it.
func ropeFactor(k *keys) (float32, error) {
	one := float32(1)
	for _, key := range []string{"rope.scaling.factor", "rope.scale_linear"} {
		v, ok := k.lookup(key)
		if !ok {
			continue
		}
		if n, err := number(v); err == nil && n == 0 {
			return 1, nil
		}
		return k.positive(key, &one)
	}
	return 1, nil
}

// yarnAttnFactor is the magnitude that llama.cpp hands to ggml for YaRN. ggml's
// rope multiplies by 1 + 0.1 ln(1/freq_scale) by itself, so llama.cpp divides
// by that first; what remains is 1 for most factors, one ulp less for some
// (12), and not 1 below a factor of 1. Every operation rounds to float32, as
// in docs/numerics.md for the parts built without FMA.
func yarnAttnFactor(freqScale float32) float32 {
	factor := 1 / freqScale
	// logf of glibc equals the rounded float64 logarithm for these arguments.
	ln := float32(math.Log(float64(factor)))
	mscale := float32(1)
	if factor > 1 {
		mscale = float32(0.1*ln) + 1
	}
	inv := 1 / (1 + float32(0.1*ln))
	return mscale * inv
}

// checkFactors refuses frequency factors that give no angle.
func checkFactors(w *graph.Weight) error {
	for i := 0; i+4 <= len(w.Data); i += 4 {
		if x := math.Float32frombits(binary.LittleEndian.Uint32(w.Data[i:])); !(x > 0) {
			return fmt.Errorf("tensor %s: value %d is %v, want a number above 0", w.Name, i/4, x)
		}
	}
	return nil
}
