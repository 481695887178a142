package model

import (
	"encoding/binary"
	"fmt"
	"math"

	"minfer/engine/gguf"
	"minfer/engine/quant"
)

// scales lists where a block keeps its float16 scales.
var scales = map[gguf.Type][]int{
	gguf.Q4_0: {0}, gguf.Q4_1: {0, 2}, gguf.Q5_0: {0}, gguf.Q5_1: {0, 2}, gguf.Q8_0: {0},
	gguf.Q4_K: {0, 2}, gguf.Q5_K: {0, 2}, gguf.Q6_K: {208},
}

// checkFinite names the first weight of a matrix that is NaN or infinite. It has
// to be found here: the next product turns its activations into small integers,
// and what was a NaN becomes some number, so the logits look sound. llama.cpp
// runs such a file and prints nonsense.
//
// It reads the whole tensor once, at memory speed.
func checkFinite(x *gguf.Tensor) error {
	switch x.Type {
	case gguf.F32, gguf.F16, gguf.BF16:
		i := firstNonFinite(x.Type, x.Data)
		if i < 0 {
			return nil
		}
		return fmt.Errorf("tensor %s: value %d is %v, want a finite number", x.Name, i, plain(x.Type, x.Data, i))
	}
	size := x.Type.BlockBytes()
	at := scales[x.Type]
	first, last := at[0], at[len(at)-1]
	for b := 0; b+size <= len(x.Data); b += size {
		block := x.Data[b : b+size]
		d, m := binary.LittleEndian.Uint16(block[first:]), binary.LittleEndian.Uint16(block[last:])
		if d&0x7c00 == 0x7c00 || m&0x7c00 == 0x7c00 {
			bad := d
			if d&0x7c00 != 0x7c00 {
				bad = m
			}
			return fmt.Errorf("tensor %s: block %d has the scale %v, want a finite number", x.Name, b/size, quant.F32FromF16(bad))
		}
	}
	return nil
}

// firstNonFinite is the index of the first value whose exponent is all ones, -1
// without one.
func firstNonFinite(t gguf.Type, data []byte) int {
	// Two or four values a step: adding the exponent's lowest bit to an exponent of
	// all ones, and to no other, carries into the sign's place, which is masked out
	// before.
	var mask, one, sign uint64
	size := t.BlockBytes()
	switch t {
	case gguf.F32:
		mask, one, sign = 0x7f800000_7f800000, 0x00800000_00800000, 0x80000000_80000000
	case gguf.F16:
		mask, one, sign = 0x7c007c007c007c00, 0x0400040004000400, 0x8000800080008000
	case gguf.BF16:
		mask, one, sign = 0x7f807f807f807f80, 0x0080008000800080, 0x8000800080008000
	}
	i := 0
	for ; i+8 <= len(data); i += 8 {
		if (binary.LittleEndian.Uint64(data[i:])&mask+one)&sign != 0 {
			break
		}
	}
	for ; i+size <= len(data); i += size {
		if v := plain(t, data, i/size); v-v != 0 {
			return i / size
		}
	}
	return -1
}

// plain is one value of a type without blocks.
func plain(t gguf.Type, data []byte, i int) float32 {
	switch t {
	case gguf.F16:
		return quant.F32FromF16(binary.LittleEndian.Uint16(data[2*i:]))
	case gguf.BF16:
		return quant.F32FromBF16(binary.LittleEndian.Uint16(data[2*i:]))
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
}
