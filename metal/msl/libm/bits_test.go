package libm

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The bits of every function over a sweep of all exponents, recorded on x86-64
// without fused operations: another processor, or a compiler that fuses, must
// give the same. A bound of half an ulp would not notice one bit.
func TestRecordedBits(t *testing.T) {
	for name, c := range map[string]struct {
		f    func(float32) float32
		want uint64
	}{
		"sinh": {Sinh, 0xd44db83dbef36ea0}, "cosh": {Cosh, 0x197f1a662cf309bb}, "tanh": {Tanh, 0x3b08ed8acce7f369}, "erf": {Erf, 0x12661cd1fb96e4f5},
		"exp": {Exp, 0xd6838a6548b0e401}, "exp2": {Exp2, 0x46e69e22885970bf}, "exp10": {Exp10, 0xec5c79a2b412ca04},
		"log": {Log, 0xdc9e151f76cc0636}, "log2": {Log2, 0x4f228423bf8a7652}, "log10": {Log10, 0xc3730ce5a5bcde2f}, "rsqrt": {Rsqrt, 0x75a2e4603461be58},
		"sin": {Sin, 0xaeb93e01b71d18fe}, "cos": {Cos, 0xd8f0a85e77c194ce}, "tan": {Tan, 0x49a522cee4bbbf4c},
		"atan": {Atan, 0x3fb2e767ecdad424}, "asin": {Asin, 0x30c2c84c4a895284}, "acos": {Acos, 0xfa2743ff32c5f850},
		"pow 1.5":    {func(x float32) float32 { return Pow(x, 1.5) }, 0xede0ad4f017d32ea},
		"pow of 0.7": {func(x float32) float32 { return Pow(0.7, x) }, 0xe909887c4d84da00},
		"atan2":      {func(x float32) float32 { return Atan2(x, 0.3) }, 0xb9872bc1889b9357},
	} {
		h := fnv.New64a()
		var b [4]byte
		for i := uint64(0); i < 1<<32; i += 4099 {
			y := c.f(math.Float32frombits(uint32(i)))
			bits := math.Float32bits(y)
			if y != y {
				bits = 0x7fc00000 // a NaN's payload is not part of the contract
			}
			binary.LittleEndian.PutUint32(b[:], bits)
			h.Write(b[:])
		}
		assert.Equal(t, c.want, h.Sum64(), "%s: %#x", name, h.Sum64())
	}
}
