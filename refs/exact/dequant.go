package exact

import (
	"fmt"

	"minfer/engine/gguf"
)

// Dequantize gives the float32 values of n stored elements as ggml computes
// them: products and sums round one by one, never as an FMA (section 3).
func Dequantize(t gguf.Type, data []byte, n int) ([]float32, error) {
	if err := checkRow(t, n, data); err != nil {
		return nil, fmt.Errorf("dequantize: %w", err)
	}
	if t == gguf.F32 || t == gguf.F16 || t == gguf.BF16 {
		return widen(t, data), nil
	}
	y := make([]float32, n)
	var b block
	size := t.BlockSize()
	for i := 0; i < n; i += size {
		if err := b.unpack(t, data[i/size*t.BlockBytes():]); err != nil {
			return nil, fmt.Errorf("dequantize: %w", err)
		}
		for e := range size {
			y[i+e] = b.value(t, e)
		}
	}
	return y, nil
}

// value is element e of a block of type t.
func (b *block) value(t gguf.Type, e int) float32 {
	q := b.q[e]
	switch t {
	case gguf.Q4_0:
		return float32(q-8) * b.d
	case gguf.Q5_0:
		return float32(q-16) * b.d
	case gguf.Q4_1, gguf.Q5_1:
		return float32(float32(q)*b.d) + b.m
	case gguf.Q4_K, gguf.Q5_K:
		d, m := b.d*float32(b.scale[e/32]), float32(b.m*float32(b.minimum[e/32]))
		return float32(d*float32(q)) - m
	case gguf.Q6_K:
		return float32(b.d*float32(b.scale[e/16])) * float32(q-32)
	}
	return float32(q) * b.d // Q8_0
}

// GetRows gives the rows of table [d, rows] with the given ids.
func GetRows(t gguf.Type, table []byte, d int, ids []int32) ([]float32, error) {
	if d <= 0 || t.BlockSize() == 0 || d%t.BlockSize() != 0 {
		return nil, fmt.Errorf("get_rows: rows of %d elements of %v: want a multiple of %d", d, t, t.BlockSize())
	}
	size := t.RowBytes(d)
	rows := len(table) / size
	var y []float32
	for _, id := range ids {
		if id < 0 || int(id) >= rows {
			return nil, fmt.Errorf("get_rows: id %d: want one of 0..%d", id, rows-1)
		}
		row, err := Dequantize(t, table[int(id)*size:(int(id)+1)*size], d)
		if err != nil {
			return nil, fmt.Errorf("get_rows: %w", err)
		}
		y = append(y, row...)
	}
	return y, nil
}
