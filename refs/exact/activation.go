package exact

import (
	"fmt"
	"math"

	"minfer/engine/gguf"
)

// ActType is the type that activations are converted to before a dot product
// with weights of type t (section 4).
func ActType(t gguf.Type) (gguf.Type, error) {
	switch t {
	case gguf.F32, gguf.F16, gguf.BF16:
		return t, nil
	case gguf.Q4_0, gguf.Q5_0, gguf.Q8_0:
		return gguf.Q8_0, nil
	case gguf.Q4_1, gguf.Q5_1:
		return gguf.Q8_1, nil
	case gguf.Q4_K, gguf.Q5_K, gguf.Q6_K:
		return gguf.Q8_K, nil
	}
	return 0, fmt.Errorf("weights of type %v have no dot product", t)
}

// Activation converts a row to an activation type: F32, F16, BF16, Q8_0, Q8_1 or
// Q8_K.
func Activation(t gguf.Type, x []float32) ([]byte, error) {
	size := t.BlockSize()
	if size == 0 || len(x)%size != 0 {
		return nil, fmt.Errorf("activation %v: a row of %d elements: want a multiple of %d", t, len(x), size)
	}
	y := make([]byte, t.RowBytes(len(x)))
	switch t {
	case gguf.F32:
		return Bytes(x), nil
	case gguf.F16:
		for i, v := range x {
			putU16(y[2*i:], F16(v))
		}
		return y, nil
	case gguf.BF16:
		for i, v := range x {
			putU16(y[2*i:], BF16(v))
		}
		return y, nil
	}
	var quantize func(y []byte, x []float32)
	switch t {
	case gguf.Q8_0:
		quantize = quantizeQ8_0
	case gguf.Q8_1:
		quantize = quantizeQ8_1
	case gguf.Q8_K:
		quantize = quantizeQ8_K
	default:
		return nil, fmt.Errorf("activation %v: want f32, f16, bf16, q8_0, q8_1 or q8_K", t)
	}
	for i := 0; i < len(x)/size; i++ {
		quantize(y[i*t.BlockBytes():(i+1)*t.BlockBytes()], x[i*size:(i+1)*size])
	}
	return y, nil
}

// roundQ8 gives q of each x for a block of 32 and returns the unrounded scale.
// Both the scale and its inverse are true divisions: id is not 1/d.
func roundQ8(q []byte, x []float32) (d float32, sum int32) {
	largest := float32(0)
	for _, v := range x {
		if a := float32(math.Abs(float64(v))); a > largest {
			largest = a
		}
	}
	d = largest / 127
	id := float32(0)
	if largest != 0 {
		id = 127 / largest
	}
	for i, v := range x {
		r := toInt8(v * id)
		q[i] = byte(r)
		sum += int32(r)
	}
	return d, sum
}

// toInt8 rounds to the nearest even integer. What does not fit (an infinite
// inverse scale of a nearly zero block, or NaN) becomes -128, as the conversion
// instruction's indefinite integer does after saturation.
func toInt8(v float32) int8 {
	r := roundEven(v)
	if !(r >= -128 && r <= 127) {
		return -128
	}
	return int8(r)
}

func quantizeQ8_0(y []byte, x []float32) {
	d, _ := roundQ8(y[2:], x)
	putU16(y, F16(d))
}

func quantizeQ8_1(y []byte, x []float32) {
	d, sum := roundQ8(y[4:], x)
	putU16(y, F16(d))
	putU16(y[2:], F16(d*float32(sum)))
}

// quantizeQ8_K: the block is zero where ggml leaves the bsums of a zero block
// unwritten, which nothing can observe: they are multiplied by 0.
func quantizeQ8_K(y []byte, x []float32) {
	extreme, largest := float32(0), float32(0)
	for _, v := range x {
		if a := float32(math.Abs(float64(v))); a > largest {
			largest, extreme = a, v
		}
	}
	if largest == 0 {
		return
	}
	inverse := -127 / extreme
	putF32(y, 1/inverse)
	var sums [16]int16
	for i, v := range x {
		q := min(127, roundMagic(inverse*v))
		y[4+i] = byte(int8(q))
		sums[i/16] += int16(q)
	}
	for j, s := range sums {
		putU16(y[260+2*j:], uint16(s))
	}
}

// roundMagic rounds to the nearest even integer for |v| < 2^22 by pushing the
// fraction out of the mantissa.
func roundMagic(v float32) int32 {
	bits := math.Float32bits(float32(v) + 12582912)
	return int32(bits&0x7fffff) - 0x400000
}
