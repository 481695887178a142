package refs

import "math"

// Rope holds the parameters of a rotation, with ggml's names and meanings.
type Rope struct {
	Neox       bool // pairs (k, k+NDims/2) as Qwen does; otherwise (2k, 2k+1) as llama does
	NDims      int  // rotated channels of each head; the rest is copied
	FreqBase   float64
	FreqScale  float64   // 1/factor of linear and YaRN scaling; 1 for none
	ExtFactor  float64   // YaRN: how much of the ramp applies, 0 for none
	AttnFactor float64   // multiplies the rotated channels; 1 for none
	BetaFast   float64   // YaRN: rotations over NCtxOrig above which nothing is interpolated
	BetaSlow   float64   // YaRN: rotations below which everything is
	NCtxOrig   int       // YaRN: the context of the training
	Factors    []float64 // divides the angle of pair k, [NDims/2]; nil for none
}

// RoPE rotates every head of x [headDim*nHead, len(pos)].
func RoPE(x []float64, headDim int, pos []int32, p Rope) []float64 {
	rows := len(pos)
	y := append([]float64(nil), x...)
	if rows == 0 {
		want("rope", "length of x", len(x), 0)
		return y
	}
	want("rope", "length of x modulo the number of positions", len(x)%rows, 0)
	width := len(x) / rows
	rowsOf("rope", width, headDim)
	if p.Factors != nil {
		want("rope", "number of frequency factors", len(p.Factors), p.NDims/2)
	}
	for r := range rows {
		for k := range p.NDims / 2 {
			cos, sin := p.rotation(float64(pos[r]), k)
			a, b := 2*k, 2*k+1
			if p.Neox {
				a, b = k, k+p.NDims/2
			}
			for h := r * width; h < (r+1)*width; h += headDim {
				y[h+a] = x[h+a]*cos - x[h+b]*sin
				y[h+b] = x[h+a]*sin + x[h+b]*cos
			}
		}
	}
	return y
}

// rotation is the scaled cosine and sine of pair k at a position.
func (p Rope) rotation(pos float64, k int) (cos, sin float64) {
	angle := pos * math.Pow(p.FreqBase, -2*float64(k)/float64(p.NDims))
	if p.Factors != nil {
		angle /= p.Factors[k]
	}
	magnitude := p.AttnFactor
	theta := angle * p.FreqScale
	if p.ExtFactor != 0 {
		low, high := p.Corrections()
		mix := ramp(low, high, float64(k)) * p.ExtFactor
		theta = theta*(1-mix) + angle*mix
		magnitude *= 1 + 0.1*math.Log(1/p.FreqScale)
	}
	return math.Cos(theta) * magnitude, math.Sin(theta) * magnitude
}

// Corrections are the pairs between which YaRN goes over from extrapolation to
// interpolation.
func (p Rope) Corrections() (low, high float64) {
	// pair is where the wavelength makes the given number of rotations over the
	// original context.
	pair := func(rotations float64) float64 {
		return float64(p.NDims) * math.Log(float64(p.NCtxOrig)/(rotations*2*math.Pi)) / (2 * math.Log(p.FreqBase))
	}
	low = math.Max(0, math.Floor(pair(p.BetaFast)))
	high = math.Min(float64(p.NDims-1), math.Ceil(pair(p.BetaSlow)))
	return low, high
}

// ramp is 1 up to low, 0 from high on, linear between; ggml keeps the width of
// the slope at 0.001 or more.
func ramp(low, high, k float64) float64 {
	t := (k - low) / math.Max(0.001, high-low)
	return 1 - math.Min(1, math.Max(0, t))
}
