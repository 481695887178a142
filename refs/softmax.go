package refs

import "math"

// SoftMax gives exp(scale*x + mask) over each row of d values, divided by the
// row's sum. mask has x's length, or is nil; -Inf leaves an element out. A row
// with every element left out is NaN, as the quotient is.
func SoftMax(x []float64, d int, scale float64, mask []float64) []float64 {
	rows := rowsOf("soft_max", len(x), d)
	if mask != nil {
		want("soft_max", "length of mask", len(mask), len(x))
	}
	y := make([]float64, len(x))
	for r := range rows {
		row := y[r*d : (r+1)*d]
		largest := math.Inf(-1)
		for i := range row {
			row[i] = x[r*d+i] * scale
			if mask != nil {
				row[i] += mask[r*d+i]
			}
			largest = math.Max(largest, row[i])
		}
		sum := 0.0
		for i, v := range row {
			row[i] = math.Exp(v - largest)
			sum += row[i]
		}
		for i := range row {
			row[i] /= sum
		}
	}
	return y
}
