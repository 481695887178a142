package exact

import (
	"fmt"

	"minfer/engine/gguf"
)

// MatMul multiplies the rows of x [in, rows] by a weight matrix of out rows of
// in elements: y [out, rows]. Every output is one [Dot]; the result does not
// depend on how many rows there are.
func MatMul(l Level, t gguf.Type, w []byte, in, out int, x []float32) ([]float32, error) {
	actType, err := ActType(t)
	if err != nil {
		return nil, fmt.Errorf("mul_mat: %w", err)
	}
	if in <= 0 || in%t.BlockSize() != 0 || len(x)%in != 0 {
		return nil, fmt.Errorf("mul_mat: rows of %d elements of %v, %d activations: want a multiple of %d and whole rows",
			in, t, len(x), t.BlockSize())
	}
	size := t.RowBytes(in)
	if out < 0 || len(w) != size*out {
		return nil, fmt.Errorf("mul_mat: %d bytes of weights for [%d, %d] of %v: want %d", len(w), in, out, t, size*out)
	}
	y := make([]float32, 0, len(x)/in*out)
	for r := range len(x) / in {
		act, err := Activation(actType, x[r*in:(r+1)*in])
		if err != nil {
			return nil, fmt.Errorf("mul_mat: %w", err)
		}
		for o := range out {
			v, err := Dot(l, t, in, w[o*size:(o+1)*size], act)
			if err != nil {
				return nil, fmt.Errorf("mul_mat: %w", err)
			}
			y = append(y, v)
		}
	}
	return y, nil
}
