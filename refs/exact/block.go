package exact

import (
	"fmt"

	"minfer/engine/gguf"
)

// block is one block of a weight row, unpacked: the integers as stored (before
// any offset such as the -8 of Q4_0) and the scales (section 3).
type block struct {
	q       [256]int32
	d       float32   // the block's scale
	m       float32   // Q4_1, Q5_1: its minimum; Q4_K, Q5_K: the scale of the minimums
	scale   [16]int32 // Q4_K, Q5_K: of each 32; Q6_K: of each 16
	minimum [8]int32  // Q4_K, Q5_K: of each 32
}

// unpack reads one block of a quantised weight type.
func (b *block) unpack(t gguf.Type, data []byte) error {
	switch t {
	case gguf.Q4_0:
		b.d = f16(data)
		b.nibbles(data[2:])
	case gguf.Q4_1:
		b.d, b.m = f16(data), f16(data[2:])
		b.nibbles(data[4:])
	case gguf.Q5_0:
		b.d = f16(data)
		b.nibbles(data[6:])
		b.fifthBits(u32(data[2:]))
	case gguf.Q5_1:
		b.d, b.m = f16(data), f16(data[2:])
		b.nibbles(data[8:])
		b.fifthBits(u32(data[4:]))
	case gguf.Q8_0:
		b.d = f16(data)
		for i := range 32 {
			b.q[i] = int32(int8(data[2+i]))
		}
	case gguf.Q4_K:
		b.d, b.m = f16(data), f16(data[2:])
		b.scalesK(data[4:16])
		b.nibblesK(data[16:])
	case gguf.Q5_K:
		b.d, b.m = f16(data), f16(data[2:])
		b.scalesK(data[4:16])
		b.nibblesK(data[48:])
		for e := range 256 {
			b.q[e] += int32(data[16+e%32]>>(e/32)&1) << 4
		}
	case gguf.Q6_K:
		b.d = f16(data[208:])
		for j := range 16 {
			b.scale[j] = int32(int8(data[192+j]))
		}
		for e := range 256 {
			h, r, i := e/128, e%128/32, e%32
			low := data[64*h+32*(r%2)+i] >> (4 * (r / 2)) & 15
			high := data[128+32*h+i] >> (2 * r) & 3
			b.q[e] = int32(low) + int32(high)<<4
		}
	default:
		return fmt.Errorf("type %v: want a quantised weight type", t)
	}
	return nil
}

// nibbles: low halves hold elements 0..15 of the 32, high halves 16..31.
func (b *block) nibbles(qs []byte) {
	for i := range 16 {
		b.q[i], b.q[16+i] = int32(qs[i]&15), int32(qs[i]>>4)
	}
}

func (b *block) fifthBits(qh uint32) {
	for i := range 32 {
		b.q[i] += int32(qh>>i&1) << 4
	}
}

// nibblesK: pairs of groups of 32 share 32 bytes.
func (b *block) nibblesK(qs []byte) {
	for e := range 256 {
		g, i := e/32, e%32
		b.q[e] = int32(qs[32*(g/2)+i] >> (4 * (g % 2)) & 15)
	}
}

// scalesK unpacks the eight 6-bit pairs of Q4_K and Q5_K.
func (b *block) scalesK(s []byte) {
	for g := range 4 {
		b.scale[g], b.minimum[g] = int32(s[g]&63), int32(s[g+4]&63)
	}
	for g := 4; g < 8; g++ {
		b.scale[g] = int32(s[g+4]&15 | s[g-4]>>6<<4)
		b.minimum[g] = int32(s[g+4]>>4 | s[g]>>6<<4)
	}
}

// checkRow says whether data holds n elements of type t.
func checkRow(t gguf.Type, n int, data []byte) error {
	size := t.BlockSize()
	if size == 0 {
		return fmt.Errorf("type %v: want one that this project reads", t)
	}
	if n < 0 || n%size != 0 {
		return fmt.Errorf("a row of %d elements of %v: want a multiple of %d", n, t, size)
	}
	if len(data) != t.RowBytes(n) {
		return fmt.Errorf("%d bytes for %d elements of %v: want %d", len(data), n, t, t.RowBytes(n))
	}
	return nil
}
