package kernel

import "math"

func add(dst, a, b []float32) {
	for i, v := range a {
		dst[i] = v + b[i]
	}
}

func mul(dst, a, b []float32) {
	for i, v := range a {
		dst[i] = v * b[i]
	}
}

func scale(dst, x []float32, s float32) {
	for i, v := range x {
		dst[i] = v * s
	}
}

// rmsNorm: squares round to float32, their sum is sequential float64, the rest
// is float32 (section 6).
func rmsNorm(dst, x, w []float32, d int, eps float32) {
	for r := 0; r+d <= len(x) && d > 0; r += d {
		row, out := x[r:r+d], dst[r:r+d]
		var sum float64
		for _, v := range row {
			sum += float64(float32(v * v))
		}
		mean := float32(sum / float64(d))
		// A float64 square root of a float32, rounded, is the float32 square root.
		s := 1 / float32(math.Sqrt(float64(mean+eps)))
		if w == nil {
			for i, v := range row {
				out[i] = v * s
			}
			continue
		}
		for i, v := range row {
			out[i] = float32(v*s) * w[i]
		}
	}
}

// attnV accumulates into 32 rows of scratch, one per residue of the cell index,
// and combines them as the dot of section 5 does. A cell past n would add +0 to
// its lane, which only turns a -0 into +0: the sum of all lanes is -0 only if
// every lane is, so one such cell makes the sum +0.
func attnVF32(dst []float32, v []byte, stride int, p []float32, n int, scratch []float32) {
	d := len(dst)
	scratch = scratch[:32*d]
	clear(scratch)
	for j, pj := range p[:n] {
		row, cell := scratch[j%32*d:][:d], v[j*stride:]
		for c, a := range row {
			x := f32At(cell, c)
			if s := float64(x)*float64(pj) + float64(a); !doubtful(s) {
				row[c] = float32(s)
			} else {
				row[c] = fma32Odd(x, pj, a)
			}
		}
	}
	attnVCombine(dst, n, scratch)
}

func attnVF16(dst []float32, v []byte, stride int, p []float32, n int, scratch []float32) {
	d := len(dst)
	scratch = scratch[:32*d]
	clear(scratch)
	for j, pj := range p[:n] {
		pj = halfToFloat(floatToHalf(pj))
		row, cell := scratch[j%32*d:][:d], v[j*stride:]
		for c, a := range row {
			x := f16At(cell, c)
			if s := float64(x)*float64(pj) + float64(a); !doubtful(s) {
				row[c] = float32(s)
			} else {
				row[c] = fma32Odd(x, pj, a)
			}
		}
	}
	attnVCombine(dst, n, scratch)
}

func attnVCombine(dst []float32, n int, scratch []float32) {
	d := len(dst)
	for c := range dst {
		var acc [32]float32
		for l := range acc {
			acc[l] = scratch[l*d+c]
		}
		lanes := combine32(&acc)
		s := ha8(&lanes)
		if n%256 != 0 {
			s += 0
		}
		dst[c] = s
	}
}
