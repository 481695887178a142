package kernel

import (
	"encoding/binary"
	"math"
)

// Activation conversions (section 4). Inputs are finite; a non-finite value
// gives some bytes, and no panic.

func quantizeF32(dst []byte, src []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
	}
}

func quantizeF16(dst []byte, src []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], floatToHalf(v))
	}
}

func quantizeBF16(dst []byte, src []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], floatToBfloat(v))
	}
}

// roundInt rounds to the nearest int32, ties to even. What does not fit, NaN
// included, gives the smallest int32, as the vector conversion does.
func roundInt(v float32) int32 {
	if v > -0x1p22 && v < 0x1p22 {
		return int32(math.Float32bits(v+0x1.8p23)&0x7fffff) - 0x400000
	}
	if v >= -0x1p31 && v < 0x1p31 {
		return int32(math.RoundToEven(float64(v)))
	}
	return math.MinInt32
}

// saturate8 narrows to int8 as the pack instructions do.
func saturate8(q int32) byte { return byte(int8(max(-128, min(127, q)))) }

// block8 quantises 32 elements to bytes and returns the scale before its
// rounding to half, and the sum of the integers. Both divisions are true
// divisions: id is 127/amax, not 1/d.
func block8(q []byte, x []float32) (d float32, sum int32) {
	var amax float32
	for _, v := range x {
		amax = max(amax, math.Float32frombits(math.Float32bits(v)&0x7fffffff))
	}
	d = amax / 127
	var id float32
	if amax != 0 {
		id = 127 / amax
	}
	for i, v := range x {
		qi := roundInt(float32(v * id))
		sum += qi
		q[i] = saturate8(qi)
	}
	return d, sum
}

func quantizeQ8_0(dst []byte, src []float32) {
	for b := range len(src) / 32 {
		y := dst[34*b : 34*b+34]
		d, _ := block8(y[2:], src[32*b:32*b+32])
		binary.LittleEndian.PutUint16(y, floatToHalf(d))
	}
}

func quantizeQ8_1(dst []byte, src []float32) {
	for b := range len(src) / 32 {
		y := dst[36*b : 36*b+36]
		d, sum := block8(y[4:], src[32*b:32*b+32])
		binary.LittleEndian.PutUint16(y, floatToHalf(d))
		binary.LittleEndian.PutUint16(y[2:], floatToHalf(d*float32(sum)))
	}
}

// quantizeQ8_K writes zero sums for an all-zero block, where ggml leaves them
// unwritten: they are multiplied by zero.
func quantizeQ8_K(dst []byte, src []float32) {
	for b := range len(src) / 256 {
		y, x := dst[292*b:292*b+292], src[256*b:256*b+256]
		var amax, top float32
		for _, v := range x {
			if a := math.Float32frombits(math.Float32bits(v) & 0x7fffffff); a > amax {
				amax, top = a, v
			}
		}
		if amax == 0 {
			clear(y)
			continue
		}
		iscale := -127 / top
		for j := range 16 {
			var sum int32
			for i, v := range x[16*j : 16*j+16] {
				q := int32(math.Float32bits(float32(iscale*v)+0x1.8p23)&0x7fffff) - 0x400000
				q = int32(int8(min(127, q)))
				y[4+16*j+i] = byte(q)
				sum += q
			}
			binary.LittleEndian.PutUint16(y[260+2*j:], uint16(sum))
		}
		binary.LittleEndian.PutUint32(y, math.Float32bits(1/iscale))
	}
}
