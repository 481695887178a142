package exact

import (
	"fmt"

	"minfer/engine/gguf"
)

// dot32 is the dot of the types with blocks of 32, identical at both levels.
// Lane l sums the products of elements 4l..4l+3 of a block as an integer.
func dot32(t gguf.Type, n int, w, act []byte) (float32, error) {
	var offset int32 // of the stored integers
	var actSize, actQ int
	affine := false // Q8_1 activations, and a minimum
	switch t {
	case gguf.Q4_0:
		offset = 8
	case gguf.Q5_0:
		offset = 16
	case gguf.Q8_0:
	case gguf.Q4_1, gguf.Q5_1:
		affine = true
	default:
		return 0, fmt.Errorf("dot: type %v: want one with blocks of 32", t)
	}
	actSize, actQ = gguf.Q8_0.BlockBytes(), 2
	if affine {
		actSize, actQ = gguf.Q8_1.BlockBytes(), 4
	}

	var b block
	var acc [8]float32
	mins := float32(0)
	for i := range n / 32 {
		if err := b.unpack(t, w[i*t.BlockBytes():]); err != nil {
			return 0, fmt.Errorf("dot: %w", err)
		}
		y := act[i*actSize : (i+1)*actSize]
		d := b.d * f16(y) // exact: 11 bits times 11 bits
		for lane := range 8 {
			var sum int32
			for e := 4 * lane; e < 4*lane+4; e++ {
				sum += (b.q[e] - offset) * int32(int8(y[actQ+e]))
			}
			acc[lane] = FMA(d, float32(sum), acc[lane])
		}
		if affine {
			mins = FMA(b.m, f16(y[2:]), mins)
		}
	}
	if affine {
		return sumHS8(acc[:]) + mins, nil
	}
	return sumHS8(acc[:]), nil
}
