package kernel

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The hashes below are FNV-1a over the float32 results of glibc 2.36 (x86-64
// with FMA) on the inputs that the loops make, from a C program calling libm.

func TestSincosf(t *testing.T) {
	var out []float32
	for u := uint32(0x39000000); u < 0x48000000; u += 1237 {
		s, c := sincosf(math.Float32frombits(u))
		out = append(out, s, c)
	}
	require.Equal(t, uint64(0xb9e2d9cc932a3ea3), fnv64(floatBytes(out)))
	s, c := sincosf(-3)
	ps, pc := sincosf(3)
	require.Equal(t, []float32{-ps, pc}, []float32{s, c})
	s, c = sincosf(float32(math.Inf(1)))
	require.True(t, s != s && c != c)
}

func TestExpf(t *testing.T) {
	var out []float32
	for u := range 200000 {
		x := -float32(u) / 2000
		out = append(out, expf(x), expf(-x*0.88))
	}
	require.Equal(t, uint64(0x0a137e96f8f4bead), fnv64(floatBytes(out)))
	inf := float32(math.Inf(1))
	require.Equal(t, []float32{inf, inf, 0, 0}, []float32{expf(inf), expf(89), expf(-inf), expf(-104)})
}

func TestLogf(t *testing.T) {
	var out []float32
	for u := uint32(1); u < 0x7f800000; u += 9973 {
		out = append(out, logf(math.Float32frombits(u)))
	}
	require.Equal(t, uint64(0xd8d46c477038a8eb), fnv64(floatBytes(out)))
	require.Equal(t, float32(math.Inf(-1)), logf(0))
	require.True(t, math.IsNaN(float64(logf(-1))))
}

func TestPowf(t *testing.T) {
	var out []float32
	for d := 2; d <= 256; d += 2 {
		for b := 1000; b <= 20000000; b += b / 64 {
			out = append(out, powf(float32(b), float32(-2)/float32(d)))
		}
	}
	require.Equal(t, uint64(0x29afb6ed92f03848), fnv64(floatBytes(out)))
	out = out[:0]
	for u := range 100000 {
		out = append(out, powf(float32(u+1)/1000, float32(u%197-98)/9))
	}
	require.Equal(t, uint64(0x21ea2288113ef806), fnv64(floatBytes(out)))
}

// The hashes are FNV-1a over the result of ggml_rope_ext as computed by
// libggml-cpu-haswell.so (llama.cpp v0.4.0) on the x of section 15, one token a
// position.
func TestRopeModes(t *testing.T) {
	factors := make([]float32, 64)
	for k := range factors {
		factors[k] = 1 + float32(k%13)/4
	}
	for _, c := range []struct {
		name    string
		neox    bool
		headDim int
		pos     []int32
		p       RopeParams
		want    uint64
	}{
		{"neox", true, 128, []int32{1234}, RopeParams{NDims: 128, FreqBase: 1e6, FreqScale: 1, AttnFactor: 1}, 0x9acb3a4b3ed76a7a},
		{"norm", false, 128, []int32{0, 77, 4095}, RopeParams{NDims: 128, FreqBase: 1e4, FreqScale: 1, AttnFactor: 1}, 0x7414c7029af8936a},
		{"norm factors", false, 128, []int32{3, 1234, 131071}, RopeParams{NDims: 128, FreqBase: 500000, FreqScale: 1, AttnFactor: 1, Factors: factors}, 0x95f555f1bbd7ad99},
		{"neox linear", true, 128, []int32{5, 1234, 30000}, RopeParams{NDims: 128, FreqBase: 1e6, FreqScale: 0.25, AttnFactor: 1}, 0xb621c84dca398e32},
		{"neox yarn", true, 128, []int32{5, 1234, 100000}, RopeParams{NDims: 128, FreqBase: 1e6, FreqScale: 0.25, ExtFactor: 1, AttnFactor: 1, BetaFast: 32, BetaSlow: 1, NCtxOrig: 32768}, 0x6f124d8245f95557},
		{"norm yarn", false, 80, []int32{1, 999, 40000}, RopeParams{NDims: 80, FreqBase: 123457, FreqScale: float32(1) / 3, ExtFactor: 0.75, AttnFactor: 1.1, BetaFast: 24, BetaSlow: 2, NCtxOrig: 4096}, 0x42652b87c2d66eac},
		{"neox partial", true, 128, []int32{5, 1234, 30000}, RopeParams{NDims: 64, FreqBase: 1e6, FreqScale: 1, AttnFactor: 1}, 0xd5418416ffbed0ff},
		{"norm partial", false, 128, []int32{5, 1234, 30000}, RopeParams{NDims: 64, FreqBase: 1e4, FreqScale: 1, AttnFactor: 1}, 0x9f2e8427964d239c},
		{"norm tails", false, 70, []int32{5, 1234, 30000}, RopeParams{NDims: 70, FreqBase: 10460000, FreqScale: 1, AttnFactor: 1}, 0xb6474edc7f93e708},
	} {
		for _, tab := range levels(t) {
			row := 2 * c.headDim
			x, _ := goldenXY(row * len(c.pos))
			out := make([]float32, len(x))
			angles := NewRopeAngles(c.p)
			cs := make([]float32, c.p.NDims)
			for i, pos := range c.pos {
				angles.Fill(cs, pos)
				f := tab.RopeNorm
				if c.neox {
					f = tab.RopeNeox
				}
				f(out[i*row:(i+1)*row], x[i*row:(i+1)*row], c.headDim, cs)
			}
			require.Equalf(t, c.want, fnv64(floatBytes(out)), "%s %s", tab.Name, c.name)
		}
	}
}
