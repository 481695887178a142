package exact

import (
	"fmt"

	"minfer/engine/gguf"
)

// KVStore returns a copy of a cache region [width, cells] of type F32, F16 or
// Q8_0 with row r of x [width, len(pos)] converted and written to cell pos[r]
// (section 9). All other bytes stay; no rows at all is allowed.
func KVStore(t gguf.Type, region []byte, width int, x []float32, pos []int32) ([]byte, error) {
	if t != gguf.F32 && t != gguf.F16 && t != gguf.Q8_0 {
		return nil, fmt.Errorf("kv_store: cache type %v: want f32, f16 or q8_0", t)
	}
	if width <= 0 || width%t.BlockSize() != 0 {
		return nil, fmt.Errorf("kv_store: rows of %d elements of %v: want a multiple of %d", width, t, t.BlockSize())
	}
	size := t.RowBytes(width)
	want("kv_store", "bytes of the region modulo a row's", len(region)%size, 0)
	want("kv_store", "length of x", len(x), width*len(pos))
	y := append([]byte(nil), region...)
	for r, p := range pos {
		if p < 0 || int(p) >= len(region)/size {
			return nil, fmt.Errorf("kv_store: row %d at position %d: want one of the %d cells", r, p, len(region)/size)
		}
		row, err := Activation(t, x[r*width:(r+1)*width])
		if err != nil {
			return nil, fmt.Errorf("kv_store: %w", err)
		}
		copy(y[int(p)*size:], row)
	}
	return y, nil
}
