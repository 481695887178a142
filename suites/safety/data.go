package safety

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"minfer/engine/quant"
	"minfer/metal/mtl"
)

// floatBits rounds to the type once.
func floatBits(t mtl.Type, x float64) uint64 {
	bits, err := (mtl.Constant{Type: t, Count: 1}).Bits(x)
	if err != nil {
		return 0
	}
	return bits[0]
}

func appendBits(dst []byte, bits uint64, size int) []byte {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], bits)
	return append(dst, b[:size]...)
}

// data is what the buffer holds at the start; nil for poison.
func (b *Buffer) data() []byte {
	size := b.Type.Size()
	out := make([]byte, 0, b.Count*size)
	var next func(i int) uint64
	switch b.Init.How {
	case "poison":
		return nil
	case "zeros":
		return make([]byte, b.Count*size)
	case "fill":
		next = func(int) uint64 { return b.Init.Values[0] }
	case "values":
		next = func(i int) uint64 { return b.Init.Values[i] }
	default:
		r := rand.New(rand.NewPCG(b.Init.Seed, 0x6c61756e6368))
		next = func(int) uint64 { return randomBits(r, b.Type) }
	}
	for i := range b.Count {
		out = appendBits(out, next(i), size)
	}
	return out
}

// randomBits is uniform in [-1, 1) for floats, over the whole range for integers.
func randomBits(r *rand.Rand, t mtl.Type) uint64 {
	switch t {
	case mtl.Bool:
		return r.Uint64() & 1
	case mtl.Float32:
		return floatBits(t, float64(int32(r.Uint32())>>8)/(1<<23))
	case mtl.Float16:
		return floatBits(t, float64(int32(r.Uint32())>>21)/(1<<10))
	case mtl.BFloat16:
		return floatBits(t, float64(int32(r.Uint32())>>24)/(1<<7))
	}
	return r.Uint64() >> (64 - 8*t.Size())
}

// value reads element i.
func value(t mtl.Type, data []byte, i int) float64 {
	size := t.Size()
	var w [8]byte
	copy(w[:], data[i*size:(i+1)*size])
	bits := binary.LittleEndian.Uint64(w[:])
	switch t {
	case mtl.Float32:
		return float64(math.Float32frombits(uint32(bits)))
	case mtl.Float16:
		return float64(quant.F32FromF16(uint16(bits)))
	case mtl.BFloat16:
		return float64(math.Float32frombits(uint32(bits) << 16))
	}
	if signed(t) {
		shift := 64 - 8*size
		return float64(int64(bits<<shift) >> shift)
	}
	return float64(bits)
}

// near compares a value with its reference: the tolerance is relative above 1 and
// absolute below. Infinities must agree; a NaN is near only to a NaN.
func near(got, want, tolerance float64) bool {
	if got == want || math.IsNaN(got) && math.IsNaN(want) {
		return true
	}
	if math.IsInf(want, 0) || math.IsInf(got, 0) {
		return false
	}
	return math.Abs(got-want) <= tolerance*max(1, math.Abs(want))
}
