package refs

import (
	"encoding/binary"
	"fmt"
	"math"

	"minfer/engine/gguf"
)

// Dequantize gives the exact values of n elements stored as type t, in order.
// The layouts are those of docs/numerics.md section 3; the formulas are
// evaluated in float64, where they do not round (ggml's float32 products may).
func Dequantize(t gguf.Type, data []byte, n int) ([]float64, error) {
	block, size := t.BlockSize(), t.BlockBytes()
	if block == 0 {
		return nil, fmt.Errorf("dequantize: type %v: want a type that model files hold", t)
	}
	if n < 0 || n%block != 0 {
		return nil, fmt.Errorf("dequantize %v: %d elements: want a multiple of %d", t, n, block)
	}
	if len(data) != n/block*size {
		return nil, fmt.Errorf("dequantize %v: %d bytes for %d elements: want %d", t, len(data), n, n/block*size)
	}
	decode, ok := decoders[t]
	if !ok {
		return nil, fmt.Errorf("dequantize: type %v: want a type that model files hold", t)
	}
	y := make([]float64, n)
	for b := 0; b < n/block; b++ {
		decode(y[b*block:(b+1)*block], data[b*size:(b+1)*size])
	}
	return y, nil
}

// decoders decode one block of each type. Besides the file types there is Q8_0
// as a cache type, which has the same blocks.
var decoders = map[gguf.Type]func(y []float64, b []byte){
	gguf.F32:  decodeF32,
	gguf.F16:  decodeF16,
	gguf.BF16: decodeBF16,
	gguf.Q4_0: decodeQ4_0,
	gguf.Q4_1: decodeQ4_1,
	gguf.Q5_0: decodeQ5_0,
	gguf.Q5_1: decodeQ5_1,
	gguf.Q8_0: decodeQ8_0,
	gguf.Q4_K: decodeQ4_K,
	gguf.Q5_K: decodeQ5_K,
	gguf.Q6_K: decodeQ6_K,
}

func decodeF32(y []float64, b []byte) {
	y[0] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
}

func decodeF16(y []float64, b []byte) { y[0] = half(b) }

func decodeBF16(y []float64, b []byte) {
	y[0] = float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
}

// half is the value of an IEEE 754 binary16 number.
func half(b []byte) float64 {
	bits := binary.LittleEndian.Uint16(b)
	sign := 1.0
	if bits>>15 == 1 {
		sign = -1
	}
	exponent, fraction := int(bits>>10&31), float64(bits&1023)
	switch {
	case exponent == 31 && fraction != 0:
		return math.NaN()
	case exponent == 31:
		return math.Inf(int(sign))
	case exponent == 0:
		return sign * math.Ldexp(fraction, -24)
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// nibble is element i's 4 bits of a 32-element block: the low nibbles hold
// elements 0..15, the high ones 16..31.
func nibble(qs []byte, i int) int {
	if i < 16 {
		return int(qs[i] & 15)
	}
	return int(qs[i-16] >> 4)
}

func decodeQ4_0(y []float64, b []byte) {
	d := half(b)
	for i, q := range b[2:18] {
		y[i] = float64(int(q&15)-8) * d
		y[i+16] = float64(int(q>>4)-8) * d
	}
}

func decodeQ4_1(y []float64, b []byte) {
	d, m := half(b), half(b[2:])
	for i := range 32 {
		y[i] = float64(nibble(b[4:], i))*d + m
	}
}

// fifth is element i's high bit in the mask of Q5_0 and Q5_1, in place.
func fifth(qh []byte, i int) int { return int(binary.LittleEndian.Uint32(qh)>>i&1) << 4 }

func decodeQ5_0(y []float64, b []byte) {
	d := half(b)
	for i := range 32 {
		y[i] = float64(nibble(b[6:], i)+fifth(b[2:], i)-16) * d
	}
}

func decodeQ5_1(y []float64, b []byte) {
	d, m := half(b), half(b[2:])
	for i := range 32 {
		y[i] = float64(nibble(b[8:], i)+fifth(b[4:], i))*d + m
	}
}

func decodeQ8_0(y []float64, b []byte) {
	d := half(b)
	for i := range 32 {
		y[i] = float64(int8(b[2+i])) * d
	}
}

// scaleAndMin unpacks the 6-bit scale and minimum of group g of a Q4_K or Q5_K
// block from its 12 bytes.
func scaleAndMin(s []byte, g int) (scale, min float64) {
	if g < 4 {
		return float64(s[g] & 63), float64(s[g+4] & 63)
	}
	return float64(s[g+4]&15 | s[g-4]>>6<<4), float64(s[g+4]>>4 | s[g]>>6<<4)
}

func decodeQ4_K(y []float64, b []byte) {
	d, dmin, scales, qs := half(b), half(b[2:]), b[4:16], b[16:]
	for g := range 8 {
		scale, min := scaleAndMin(scales, g)
		scale, min = d*scale, dmin*min
		for i, q := range qs[32*(g/2):][:32] {
			y[32*g+i] = scale*float64(q>>(4*(g%2))&15) - min
		}
	}
}

func decodeQ5_K(y []float64, b []byte) {
	d, dmin, scales, qh, qs := half(b), half(b[2:]), b[4:16], b[16:48], b[48:]
	for e := range 256 {
		g, i := e/32, e%32
		scale, min := scaleAndMin(scales, g)
		q := qs[32*(g/2)+i]>>(4*(g%2))&15 + qh[i]>>g&1<<4
		y[e] = d*scale*float64(q) - dmin*min
	}
}

func decodeQ6_K(y []float64, b []byte) {
	ql, qh, scales, d := b[:128], b[128:192], b[192:208], half(b[208:])
	for g := range 16 { // of 16 values with one scale: a half h, a quarter r of it, from i on
		h, r, i := g/8, g%8/2, g%2*16
		scale := d * float64(int8(scales[g]))
		low, high := ql[64*h+32*(r%2)+i:][:16], qh[32*h+i:][:16]
		for k := range 16 {
			q := int(low[k]>>(4*(r/2))&15) + int(high[k]>>(2*r)&3)<<4
			y[16*g+k] = scale * float64(q-32)
		}
	}
}
