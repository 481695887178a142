package exact

import "math"

// SoftMax is exp(scale*x + mask - max) over each row of d values, divided by the
// row's sum (section 8). mask has x's length or is nil.
//
// The sum is in float64, over the float32 sums of whole vectors in order; the
// last d modulo 8 (H) or 16 (Z) elements use libm's exp and are added singly.
func SoftMax(l Level, x []float32, d int, scale float32, mask []float32) []float32 {
	rows := rowsOf("soft_max", len(x), d)
	if mask != nil {
		want("soft_max", "length of mask", len(mask), len(x))
	}
	y := make([]float32, len(x))
	for r := range rows {
		row := y[r*d : (r+1)*d]
		largest := float32(math.Inf(-1))
		for i := range row {
			row[i] = float32(x[r*d+i] * scale)
			if mask != nil {
				row[i] += mask[r*d+i]
			}
			if !(largest > row[i]) {
				largest = row[i]
			}
		}
		softMaxRow(l, row, largest)
	}
	return y
}

func softMaxRow(l Level, row []float32, largest float32) {
	width := l.lanes()
	sum := 0.0
	i := 0
	for ; i+width <= len(row); i += width {
		group := row[i : i+width]
		for j, v := range group {
			group[j] = Exp(l, v-largest)
		}
		if l == Z {
			sum += float64(sumR16(group))
		} else {
			sum += float64(sumHS8(group))
		}
	}
	for ; i < len(row); i++ {
		row[i] = Expf(row[i] - largest)
		sum += float64(row[i])
	}
	inverse := float32(1 / sum)
	for i := range row {
		row[i] *= inverse
	}
}
