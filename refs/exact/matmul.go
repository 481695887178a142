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
	rows := len(x) / in
	acts := make([][]byte, rows)
	for r := range acts {
		if acts[r], err = Activation(actType, x[r*in:(r+1)*in]); err != nil {
			return nil, fmt.Errorf("mul_mat: %w", err)
		}
	}
	y := make([]float32, rows*out)
	if t.BlockSize() == 1 {
		multiplyFloat(l, t, y, w, acts, in, out)
		return y, nil
	}
	for o := range out {
		for r, act := range acts {
			if y[r*out+o], err = Dot(l, t, in, w[o*size:(o+1)*size], act); err != nil {
				return nil, fmt.Errorf("mul_mat: %w", err)
			}
		}
	}
	return y, nil
}

// multiplyFloat widens every row once; otherwise it is the same loop.
func multiplyFloat(l Level, t gguf.Type, y []float32, w []byte, acts [][]byte, in, out int) {
	columns := make([][]float32, len(acts))
	for r, act := range acts {
		columns[r] = widen(t, act)
	}
	size := t.RowBytes(in)
	for o := range out {
		row := widen(t, w[o*size:(o+1)*size])
		for r, column := range columns {
			y[r*out+o] = dotFloat(l, t, row, column)
		}
	}
}
