package kernel

import (
	"encoding/binary"
)

// Dots of the 32-element block types (section 5): L_l is the integer sum of the
// products of elements 4l..4l+3, and lane l accumulates fma(d, L_l, acc_l) over
// the blocks in order, d being the exact product of the two block scales.

func scale16(b []byte) float32 { return halfToFloat(binary.LittleEndian.Uint16(b)) }

// block32 adds one block to the lanes: q are the 32 weight integers and y the 32
// activation bytes.
func block32(acc *[8]float32, d float32, q *[32]int8, y []byte) {
	y = y[:32]
	for l := range acc {
		i := 4 * l
		sum := int32(q[i])*int32(int8(y[i])) + int32(q[i+1])*int32(int8(y[i+1])) +
			int32(q[i+2])*int32(int8(y[i+2])) + int32(q[i+3])*int32(int8(y[i+3]))
		x, z := float32(sum), acc[l]
		if s := float64(d)*float64(x) + float64(z); !doubtful(s) {
			acc[l] = float32(s)
		} else {
			acc[l] = fma32Odd(d, x, z)
		}
	}
}

// nibbles unpacks 16 bytes: low nibbles are elements 0..15, high ones 16..31.
func nibbles(q *[32]int8, qs []byte, sub int8) {
	for i, b := range qs[:16] {
		q[i] = int8(b&15) - sub
		q[16+i] = int8(b>>4) - sub
	}
}

// nibbles5 is nibbles with a fifth bit from qh.
func nibbles5(q *[32]int8, qs []byte, qh uint32, sub int8) {
	for i, b := range qs[:16] {
		q[i] = int8(b&15|byte(qh>>i&1)<<4) - sub
		q[16+i] = int8(b>>4|byte(qh>>(16+i)&1)<<4) - sub
	}
}

func dotQ4_0(w, act []byte, n int) float32 {
	var acc [8]float32
	var q [32]int8
	for b := range n / 32 {
		x, y := w[18*b:18*b+18], act[34*b:34*b+34]
		nibbles(&q, x[2:], 8)
		block32(&acc, scale16(x)*scale16(y), &q, y[2:])
	}
	return hs8(&acc)
}

func dotQ5_0(w, act []byte, n int) float32 {
	var acc [8]float32
	var q [32]int8
	for b := range n / 32 {
		x, y := w[22*b:22*b+22], act[34*b:34*b+34]
		nibbles5(&q, x[6:], binary.LittleEndian.Uint32(x[2:]), 16)
		block32(&acc, scale16(x)*scale16(y), &q, y[2:])
	}
	return hs8(&acc)
}

func dotQ8_0(w, act []byte, n int) float32 {
	var acc [8]float32
	var q [32]int8
	for b := range n / 32 {
		x, y := w[34*b:34*b+34], act[34*b:34*b+34]
		for i := range q {
			q[i] = int8(x[2+i])
		}
		block32(&acc, scale16(x)*scale16(y), &q, y[2:])
	}
	return hs8(&acc)
}

func dotQ4_1(w, act []byte, n int) float32 {
	var acc [8]float32
	var q [32]int8
	var ms float32
	for b := range n / 32 {
		x, y := w[20*b:20*b+20], act[36*b:36*b+36]
		ms = fma32(scale16(x[2:]), scale16(y[2:]), ms)
		nibbles(&q, x[4:], 0)
		block32(&acc, scale16(x)*scale16(y), &q, y[4:])
	}
	return hs8(&acc) + ms
}

func dotQ5_1(w, act []byte, n int) float32 {
	var acc [8]float32
	var q [32]int8
	var ms float32
	for b := range n / 32 {
		x, y := w[24*b:24*b+24], act[36*b:36*b+36]
		ms = fma32(scale16(x[2:]), scale16(y[2:]), ms)
		nibbles5(&q, x[8:], binary.LittleEndian.Uint32(x[4:]), 0)
		block32(&acc, scale16(x)*scale16(y), &q, y[4:])
	}
	return hs8(&acc) + ms
}
