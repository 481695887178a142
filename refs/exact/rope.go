package exact

import (
	"fmt"
	"math"
)

// Rope holds the parameters of a rotation, with ggml's names and meanings.
type Rope struct {
	Neox       bool // pairs (k, k+NDims/2); otherwise (2k, 2k+1)
	NDims      int  // rotated channels of each head; the rest is copied
	FreqBase   float32
	FreqScale  float32 // 1/factor of linear and YaRN scaling; 1 for none
	ExtFactor  float32 // YaRN mix; 0 for none
	AttnFactor float32 // 1 for none
	BetaFast   float32
	BetaSlow   float32
	NCtxOrig   int
	Factors    []float32 // divides the angle of pair k, [NDims/2]; nil for none
}

// check refuses what ggml would not run.
func (p Rope) check(headDim int) error {
	if p.NDims <= 0 || p.NDims%2 != 0 || p.NDims > headDim {
		return fmt.Errorf("rope: %d rotated channels of heads of %d: want an even number that fits", p.NDims, headDim)
	}
	if p.Factors != nil && len(p.Factors) != p.NDims/2 {
		return fmt.Errorf("rope: %d frequency factors for %d rotated channels: want %d", len(p.Factors), p.NDims, p.NDims/2)
	}
	if !(p.FreqBase > 0) {
		return fmt.Errorf("rope: frequency base %v: want a positive number", p.FreqBase)
	}
	return nil
}

// RoPE rotates every head of x [headDim*heads, len(pos)] (section 7).
func RoPE(x []float32, headDim int, pos []int32, p Rope) ([]float32, error) {
	if err := p.check(headDim); err != nil {
		return nil, err
	}
	y := append([]float32(nil), x...)
	if len(pos) == 0 {
		want("rope", "length of x", len(x), 0)
		return y, nil
	}
	want("rope", "length of x modulo the number of positions", len(x)%len(pos), 0)
	width := len(x) / len(pos)
	rowsOf("rope", width, headDim)
	for r := range pos {
		cos, sin := p.Rotations(pos[r])
		for k := range cos {
			a, b := 2*k, 2*k+1
			if p.Neox {
				a, b = k, k+p.NDims/2
			}
			for h := r * width; h < (r+1)*width; h += headDim {
				x0, x1 := x[h+a], x[h+b]
				y[h+a] = FMA(x0, cos[k], -float32(x1*sin[k]))
				y[h+b] = FMA(x0, sin[k], float32(x1*cos[k]))
			}
		}
	}
	return y, nil
}

// Rotations gives the scaled cosine and sine of every pair at a position. The
// angle is multiplied by the same ratio from pair to pair, with a rounding each
// time; scaling and factors apply to a copy of it.
func (p Rope) Rotations(pos int32) (cos, sin []float32) {
	ratio := Powf(p.FreqBase, float32(-2)/float32(p.NDims))
	low, high := float32(0), float32(0)
	if p.ExtFactor != 0 {
		low, high = p.Corrections()
	}
	theta := float32(pos)
	for k := range p.NDims / 2 {
		extrapolated := theta
		if p.Factors != nil {
			extrapolated = theta / p.Factors[k]
		}
		angle := extrapolated * p.FreqScale
		magnitude := p.AttnFactor
		if p.ExtFactor != 0 {
			mix := float32(ramp(low, high, k) * p.ExtFactor)
			angle = FMA(angle, 1-mix, float32(extrapolated*mix))
			magnitude = FMA(Logf(1/p.FreqScale), 0.1, 1) * p.AttnFactor
		}
		s, c := Sincosf(angle)
		cos, sin = append(cos, c*magnitude), append(sin, s*magnitude)
		theta *= ratio
	}
	return cos, sin
}

// Corrections are the pairs between which YaRN goes over from extrapolation to
// interpolation. ggml computes them in its base library, without FMA.
func (p Rope) Corrections() (low, high float32) {
	pair := func(rotations float32) float32 {
		wavelengths := float32(p.NCtxOrig) / float32((rotations+rotations)*math.Pi)
		log := Logf(p.FreqBase)
		return float32(float32(p.NDims)*Logf(wavelengths)) / (log + log)
	}
	low = float32(math.Floor(float64(pair(p.BetaFast))))
	high = float32(math.Ceil(float64(pair(p.BetaSlow))))
	return max(low, 0), min(high, float32(p.NDims-1))
}

// ramp is 1 up to low, 0 from high on, and falls between.
func ramp(low, high float32, k int) float32 {
	t := (float32(k) - low) / max(0.001, high-low)
	return 1 - min(1, max(0, t))
}
