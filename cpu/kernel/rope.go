package kernel

import "math"

// RopeParams describes a rotation with ggml's parameters.
type RopeParams struct {
	NDims      int // rotated channels of a head, even
	FreqBase   float32
	FreqScale  float32 // 1 for none
	ExtFactor  float32 // YaRN mix, 0 for none
	AttnFactor float32
	BetaFast   float32
	BetaSlow   float32
	NCtxOrig   int
	Factors    []float32 // NDims/2 divisors of the angles, or nil
}

// A RopeAngles computes the angles of a rotation; make one with NewRopeAngles and
// keep it while the parameters stay. It is immutable.
type RopeAngles struct {
	p          RopeParams
	thetaScale float32
	low, high  float32 // YaRN correction range, in pairs
	magnitude  float32
}

// NewRopeAngles does the part that does not depend on the position.
func NewRopeAngles(p RopeParams) *RopeAngles {
	a := &RopeAngles{p: p, magnitude: p.AttnFactor}
	a.thetaScale = powf(p.FreqBase, float32(-2)/float32(p.NDims))
	if p.ExtFactor != 0 {
		a.low = max(0, floorf(corrDim(p, p.BetaFast)))
		a.high = min(float32(p.NDims-1), ceilf(corrDim(p, p.BetaSlow)))
		a.magnitude *= fma32(logf(1/p.FreqScale), 0.1, 1)
	}
	return a
}

// corrDim is the channel that turns beta times over the original context.
func corrDim(p RopeParams, beta float32) float32 {
	turns := float32(p.NCtxOrig) / ((beta + beta) * 0x1.921fb6p+1)
	l := logf(p.FreqBase)
	return float32(logf(turns)*float32(p.NDims)) / (l + l)
}

func floorf(x float32) float32 { return float32(math.Floor(float64(x))) }
func ceilf(x float32) float32  { return float32(math.Ceil(float64(x))) }

// Fill sets cs[2k], cs[2k+1] to the cosine and sine of pair k at a position
// (sections 7 and 16); len(cs) is NDims. The angle of the next pair is the last
// one times a constant, iterated, and its products round as GCC contracted them.
func (a *RopeAngles) Fill(cs []float32, pos int32) {
	p := &a.p
	theta := float32(pos)
	for k := range len(cs) / 2 {
		extrapolated := theta
		if p.Factors != nil {
			extrapolated /= p.Factors[k]
		}
		t := p.FreqScale * extrapolated
		if p.ExtFactor != 0 {
			y := (float32(k) - a.low) / max(0.001, a.high-a.low)
			ramp := float32((1 - min(1, max(0, y))) * p.ExtFactor)
			t = fma32(t, 1-ramp, extrapolated*ramp)
		}
		s, c := sincosf(t)
		cs[2*k], cs[2*k+1] = c*a.magnitude, s*a.magnitude
		theta *= a.thetaScale
	}
}

// rotate turns one pair.
func rotate(x0, x1, c, s float32) (y0, y1 float32) {
	return fma32(x0, c, -float32(x1*s)), fma32(x0, s, float32(x1*c))
}

func ropeNeox(dst, x []float32, headDim int, cs []float32) {
	half := len(cs) / 2
	for h := 0; h+headDim <= len(x); h += headDim {
		in, out := x[h:h+headDim], dst[h:h+headDim]
		for k := range half {
			out[k], out[k+half] = rotate(in[k], in[k+half], cs[2*k], cs[2*k+1])
		}
		copy(out[len(cs):], in[len(cs):])
	}
}

func ropeNorm(dst, x []float32, headDim int, cs []float32) {
	for h := 0; h+headDim <= len(x); h += headDim {
		in, out := x[h:h+headDim], dst[h:h+headDim]
		for k := 0; k+1 < len(cs); k += 2 {
			out[k], out[k+1] = rotate(in[k], in[k+1], cs[k], cs[k+1])
		}
		copy(out[len(cs):], in[len(cs):])
	}
}
