package synth

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"minfer/engine/gguf"
	"minfer/engine/quant"
)

// fillBlocks draws whole blocks of a type whose values have mean 0 and the
// standard deviation std. Quants are uniform over all values that they can
// have; block scales vary by half. docs/numerics.md section 3 has the layouts.
func fillBlocks(dst []byte, t gguf.Type, std float64, rng *rand.Rand) {
	draw := drawers[t]
	for size := t.BlockBytes(); len(dst) > 0; dst = dst[size:] {
		draw(dst[:size:size], std, rng)
	}
}

var drawers = map[gguf.Type]func(b []byte, std float64, rng *rand.Rand){
	gguf.F32: func(b []byte, std float64, rng *rand.Rand) {
		binary.LittleEndian.PutUint32(b, math.Float32bits(float32(std*normal(rng))))
	},
	gguf.F16: func(b []byte, std float64, rng *rand.Rand) {
		binary.LittleEndian.PutUint16(b, quant.F16(float32(std*normal(rng))))
	},
	gguf.BF16: func(b []byte, std float64, rng *rand.Rand) {
		binary.LittleEndian.PutUint16(b, quant.BF16(float32(std*normal(rng))))
	},
	// d, qs[16]: (q-8)*d. The mean quant is -1/2; the sign of d is random, so
	// that this doesn't add up over a row.
	gguf.Q4_0: func(b []byte, std float64, rng *rand.Rand) {
		putF16(b, signed(scale(std/uniformStd(16), rng), rng))
		random(b[2:], rng)
	},
	// d, m, qs[16]: q*d + m with m = -7.5 d.
	gguf.Q4_1: func(b []byte, std float64, rng *rand.Rand) {
		d := scale(std/uniformStd(16), rng)
		putF16(b, d)
		putF16(b[2:], -7.5*d)
		random(b[4:], rng)
	},
	// d, qh[4], qs[16]: (q-16)*d.
	gguf.Q5_0: func(b []byte, std float64, rng *rand.Rand) {
		putF16(b, signed(scale(std/uniformStd(32), rng), rng))
		random(b[2:], rng)
	},
	// d, m, qh[4], qs[16]: q*d + m with m = -15.5 d.
	gguf.Q5_1: func(b []byte, std float64, rng *rand.Rand) {
		d := scale(std/uniformStd(32), rng)
		putF16(b, d)
		putF16(b[2:], -15.5*d)
		random(b[4:], rng)
	},
	// d, q[32]: q*d, q of -128 to 127.
	gguf.Q8_0: func(b []byte, std float64, rng *rand.Rand) {
		putF16(b, signed(scale(std/uniformStd(256), rng), rng))
		random(b[2:], rng)
	},
	gguf.Q4_K: func(b []byte, std float64, rng *rand.Rand) {
		drawScaleMin(b, std/uniformStd(16), 7.5, rng)
		random(b[16:], rng)
	},
	gguf.Q5_K: func(b []byte, std float64, rng *rand.Rand) {
		drawScaleMin(b, std/uniformStd(32), 15.5, rng)
		random(b[16:], rng)
	},
	// ql[128], qh[64], scales[16] signed, d: d*sc*(q-32). The scales' signs are
	// random for the same reason as d's in Q4_0.
	gguf.Q6_K: func(b []byte, std float64, rng *rand.Rand) {
		random(b[:192], rng)
		for i := range 16 {
			b[192+i] = byte(int8(signed(float64(64+rng.IntN(64)), rng)))
		}
		putF16(b[208:], std/uniformStd(64)/95.5)
	},
}

// drawScaleMin draws the head of a Q4_K or Q5_K block: d, dmin and eight pairs
// of six bits. A group's values are d*sc*q - dmin*mn; with dmin = mean*d and
// mn = sc their mean is 0.
func drawScaleMin(b []byte, d, mean float64, rng *rand.Rand) {
	// sc is uniform over 32 to 63.
	d = scale(d/47.5, rng)
	putF16(b, d)
	putF16(b[2:], mean*d)
	s := b[4:16]
	clear(s)
	for g := range 8 {
		sc := byte(32 + rng.IntN(32))
		if g < 4 {
			s[g] |= sc
			s[g+4] |= sc
		} else {
			s[g+4] |= sc&15 | sc&15<<4
			s[g-4] |= sc >> 4 << 6
			s[g] |= sc >> 4 << 6
		}
	}
}

// uniformStd is the standard deviation of n equally likely consecutive
// integers.
func uniformStd(n float64) float64 { return math.Sqrt((n*n - 1) / 12) }

// scale varies d between half and one and a half of it.
func scale(d float64, rng *rand.Rand) float64 {
	return d * (0.5 + float64(rng.Uint64()>>40)/(1<<24))
}

// signed gives x a random sign.
func signed(x float64, rng *rand.Rand) float64 {
	if rng.Uint64()>>63 == 1 {
		return -x
	}
	return x
}

func putF16(b []byte, x float64) { binary.LittleEndian.PutUint16(b, quant.F16(float32(x))) }

// random fills b, whose length is even.
func random(b []byte, rng *rand.Rand) {
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, rng.Uint64())
		b = b[8:]
	}
	if len(b) > 0 {
		u := rng.Uint64()
		for i := range b {
			b[i] = byte(u >> (8 * i))
		}
	}
}
