package llamacpp

import (
	"fmt"
)

// RopeMode is ggml's rope mode.
type RopeMode int32

// The modes of the models here.
const (
	RopeNorm RopeMode = 0 // pairs (2k, 2k+1)
	RopeNeoX RopeMode = 2 // pairs (k, k + NDims/2)
)

// RopeArgs are the arguments of rope. A zero FreqScale or AttnFactor is 1, a
// zero BetaFast 32, a zero BetaSlow 1: llama.cpp's own defaults.
type RopeArgs struct {
	Mode           RopeMode
	HeadDim, NHead int       // x is [token][NHead][HeadDim]
	NDims          int       // elements of a head that are rotated, even
	Pos            []int32   // one per token
	FreqFactors    []float32 // nil, or NDims/2 divisors of the angles
	FreqBase       float32
	FreqScale      float32 // 1/factor of linear scaling
	NCtxOrig       int     // original context length, for YaRN
	ExtFactor      float32 // 1 switches YaRN on
	AttnFactor     float32
	BetaFast       float32
	BetaSlow       float32
}

// Rope rotates x.
func (l *Lib) Rope(x []float32, a RopeArgs) ([]float32, error) {
	n := len(a.Pos)
	switch {
	case a.Mode != RopeNorm && a.Mode != RopeNeoX:
		return nil, fmt.Errorf("rope: mode %d: want %d (norm) or %d (neox)", a.Mode, RopeNorm, RopeNeoX)
	case a.HeadDim <= 0 || a.NHead <= 0 || n == 0 || len(x) != n*a.NHead*a.HeadDim:
		return nil, fmt.Errorf("rope: %d elements for %d tokens of %d heads of %d", len(x), n, a.NHead, a.HeadDim)
	case a.NDims <= 0 || a.NDims%2 != 0 || a.NDims > a.HeadDim || a.HeadDim%2 != 0:
		return nil, fmt.Errorf("rope: %d dims of a head of %d: want an even number, at most that", a.NDims, a.HeadDim)
	case a.FreqFactors != nil && len(a.FreqFactors) != a.NDims/2:
		return nil, fmt.Errorf("rope: %d frequency factors for %d dims: want %d", len(a.FreqFactors), a.NDims, a.NDims/2)
	case !(a.FreqBase > 0):
		return nil, fmt.Errorf("rope: base %v: want a positive number", a.FreqBase)
	}
	or := func(v, def float32) float32 {
		if v == 0 {
			return def
		}
		return v
	}
	return l.run1(8*len(x)+4*n+4*len(a.FreqFactors), func(g *opGraph) *tensor {
		var ff *tensor
		if a.FreqFactors != nil {
			ff = g.floats(a.FreqFactors, len(a.FreqFactors))
		}
		return l.fn.GGMLRopeExt(g.ctx, g.floats(x, a.HeadDim, a.NHead, n), g.ints(a.Pos), ff,
			int32(a.NDims), int32(a.Mode), int32(a.NCtxOrig),
			a.FreqBase, or(a.FreqScale, 1), a.ExtFactor, or(a.AttnFactor, 1), or(a.BetaFast, 32), or(a.BetaSlow, 1))
	})
}
