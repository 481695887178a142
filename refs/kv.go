package refs

import (
	"fmt"
	"math"

	"minfer/engine/gguf"
)

// RoundKV gives what a cache of type t holds of x: F32 and F16 round to nearest
// even, Q8_0 per block of 32 in order (so rows must be multiples of 32) with
// scale d = max|x|/127 stored as f16 and q = x*127/max|x| rounded to the nearest
// even integer. An implementation that computes x*127/max|x| in float32 may pick
// the other integer close to a tie: up to d away.
func RoundKV(t gguf.Type, x []float64) ([]float64, error) {
	y := make([]float64, len(x))
	switch t {
	case gguf.F32:
		for i, v := range x {
			y[i] = float64(float32(v))
		}
	case gguf.F16:
		for i, v := range x {
			y[i] = roundHalf(v)
		}
	case gguf.Q8_0:
		if len(x)%32 != 0 {
			return nil, fmt.Errorf("kv_store q8_0: %d values: want a multiple of 32", len(x))
		}
		for b := 0; b < len(x); b += 32 {
			largest := 0.0
			for _, v := range x[b : b+32] {
				largest = math.Max(largest, math.Abs(v))
			}
			if largest == 0 {
				continue
			}
			d := roundHalf(largest / 127)
			for i := b; i < b+32; i++ {
				y[i] = math.RoundToEven(x[i]*127/largest) * d
			}
		}
	default:
		return nil, fmt.Errorf("kv_store: cache type %v: want f32, f16 or q8_0", t)
	}
	return y, nil
}

// roundHalf rounds to the nearest value of IEEE 754 binary16, ties to even.
func roundHalf(v float64) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return v
	}
	_, exponent := math.Frexp(v) // |v| = f * 2^exponent, f in [0.5, 1)
	// 11 significant bits, and never finer than the subnormal step 2^-24.
	step := math.Ldexp(1, max(exponent-11, -24))
	r := math.RoundToEven(v/step) * step
	if math.Abs(r) > 65504 {
		return math.Inf(int(math.Copysign(1, v)))
	}
	return r
}

// KVStore returns a copy of cache [width, cells] with row r of x [width,
// len(pos)] rounded to type t and written to cell pos[r]. All other cells keep
// their values; no rows at all is allowed.
func KVStore(t gguf.Type, cache []float64, width int, x []float64, pos []int32) ([]float64, error) {
	cells := rowsOf("kv_store", len(cache), width)
	want("kv_store", "length of x", len(x), width*len(pos))
	y := append([]float64(nil), cache...)
	for r, p := range pos {
		if p < 0 || int(p) >= cells {
			return nil, fmt.Errorf("kv_store: row %d at position %d: want one of the %d cells", r, p, cells)
		}
		row, err := RoundKV(t, x[r*width:(r+1)*width])
		if err != nil {
			return nil, err
		}
		copy(y[int(p)*width:], row)
	}
	return y, nil
}
