package exact

import "math"

// RmsNorm scales each row of d values, and multiplies it by weight [d] unless
// that is nil (section 6). The squares round to float32 before they are added up
// in float64; the weight is a second rounding.
func RmsNorm(x []float32, d int, eps float32, weight []float32) []float32 {
	rows := rowsOf("rms_norm", len(x), d)
	if weight != nil {
		want("rms_norm", "length of weight", len(weight), d)
	}
	y := make([]float32, len(x))
	for r := range rows {
		row := x[r*d : (r+1)*d]
		sum := 0.0
		for _, v := range row {
			sum += float64(float32(v * v))
		}
		mean := float32(sum / float64(d))
		scale := 1 / sqrt(mean+eps)
		for i, v := range row {
			y[r*d+i] = v * scale
			if weight != nil {
				y[r*d+i] *= weight[i]
			}
		}
	}
	return y
}

// sqrt is the correctly rounded float32 root: that of float64 has more than
// twice the bits that would be needed.
func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }
