package refs

import "math"

// RmsNorm scales each row of d values by 1/sqrt(mean(x^2) + eps) and then by
// weight [d], which may be nil.
func RmsNorm(x []float64, d int, eps float64, weight []float64) []float64 {
	rows := rowsOf("rms_norm", len(x), d)
	if weight != nil {
		want("rms_norm", "length of weight", len(weight), d)
	}
	y := make([]float64, len(x))
	for r := range rows {
		row := x[r*d : (r+1)*d]
		mean := dot(row, row) / float64(d)
		for i, v := range row {
			y[r*d+i] = v / math.Sqrt(mean+eps)
			if weight != nil {
				y[r*d+i] *= weight[i]
			}
		}
	}
	return y
}

// QkNorm is RmsNorm of every head's row of headDim channels, with one weight for
// all heads.
func QkNorm(x []float64, headDim int, eps float64, weight []float64) []float64 {
	return RmsNorm(x, headDim, eps, weight)
}
