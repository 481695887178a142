package metal

import (
	"encoding/binary"
	"fmt"
	"math"

	"minfer/metal/mtl"
)

// params is a constant struct of 4-byte fields as inline bytes, valid until the
// launch: int, uint32 and int32 are 32-bit integers, float32 is one, bool is a
// uint of 0 or 1.
func (b *Backend) params(index int, v ...any) mtl.Binding {
	start := len(b.bytes)
	for i, x := range v {
		var bits uint32
		switch x := x.(type) {
		case int:
			if x < math.MinInt32 || x > math.MaxUint32 {
				b.fail(fmt.Errorf("parameter %d of buffer index %d is %d: want 32 bits", i, index, x))
			}
			bits = uint32(x)
		case uint32:
			bits = x
		case int32:
			bits = uint32(x)
		case float32:
			bits = math.Float32bits(x)
		case bool:
			if x {
				bits = 1
			}
		default:
			b.fail(fmt.Errorf("parameter %d of buffer index %d is a %T: want int, uint32, int32, float32 or bool", i, index, x))
		}
		b.bytes = binary.LittleEndian.AppendUint32(b.bytes, bits)
	}
	return mtl.Binding{Index: index, Bytes: b.bytes[start:len(b.bytes):len(b.bytes)]}
}
