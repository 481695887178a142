package quant

// A Q6_K block: 256 values as q-32 times d*scale, one signed byte of scale for
// each 16 values. Layout: 128 bytes of low nibbles, 64 bytes of high bit
// pairs, 16 int8 scales, d f16. In each half h of 128 values, value 32r+i has
// its low four bits in byte 64h+32(r%2)+i (the high nibble for r of 2 and 3)
// and its high two bits in byte 32h+i, from bit 2r up.
const q6_KBytes = 210

// q6_KZero is the magnitude below which ggml takes a group's peak or a block's
// largest scale for zero.
const q6_KZero = 1e-15

// fitQ6Group is the search of docs/numerics.md, section 14, for the scale of
// one group of 16; l receives the levels, 0 to 63.
func fitQ6Group(l []uint8, x []float32) float32 {
	l, x = l[:16], x[:16]
	m, amax := peak(x)
	if amax < q6_KZero {
		clear(l)
		return 0
	}
	// measure gives the two sums for one inverse scale; their quotient is the
	// best scale for its levels, A*A/B what it gains.
	var cand [16]uint8
	measure := func(is float32) (a, b float32) {
		for i, v := range x {
			q := max(-32, min(31, nearest(is*v)))
			cand[i] = uint8(q + 32)
			w := float32(v * v)
			a += float32(float32(w*v) * float32(q))
			b += float32(float32(w*float32(q)) * float32(q))
		}
		return a, b
	}
	a, b := measure(-32 / m)
	copy(l, cand[:])
	var scale float32
	if b != 0 {
		scale = a / b
	}
	best := float32(scale * a)
	for t := -9; t <= 9; t++ {
		if t == 0 {
			continue
		}
		a, b := measure(-(32 + float32(0.1*float32(t))) / m)
		if b > 0 && float32(a*a) > float32(best*b) {
			copy(l, cand[:])
			scale = a / b
			best = float32(scale * a)
		}
	}
	return scale
}

func quantizeQ6_K(dst []byte, src []float32) {
	var l [256]uint8
	for ; len(src) > 0; src, dst = src[256:], dst[q6_KBytes:] {
		x, out := src[:256], dst[:q6_KBytes]
		var scales [16]float32
		for g := range 16 {
			scales[g] = fitQ6Group(l[16*g:], x[16*g:])
		}
		top, magnitude := peak(scales[:])
		if magnitude < q6_KZero {
			clear(out)
			continue
		}
		iscale := -128 / top
		putF16(out[208:], 1/iscale)
		d := getF16(out[208:])
		for g := range 16 {
			sc := int8(min(127, nearest(iscale*scales[g])))
			out[192+g] = byte(sc)
			ds := d * float32(sc)
			if ds == 0 {
				continue // the levels of the search stay
			}
			for i := 16 * g; i < 16*g+16; i++ {
				l[i] = uint8(max(-32, min(31, nearest(x[i]/ds))) + 32)
			}
		}
		for h := range 2 {
			ql, qh, v := out[64*h:64*h+64], out[128+32*h:160+32*h], l[128*h:128*h+128]
			for i := range 32 {
				ql[i] = v[i]&15 | v[64+i]<<4
				ql[32+i] = v[32+i]&15 | v[96+i]<<4
				qh[i] = v[i]>>4 | v[32+i]>>4<<2 | v[64+i]>>4<<4 | v[96+i]>>4<<6
			}
		}
	}
}

func dequantizeQ6_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[256:], src[q6_KBytes:] {
		d := getF16(src[208:])
		for e := range 256 {
			h, r, i := e/128, e%128/32, e%32
			q := src[64*h+32*(r&1)+i] >> (4 * (r >> 1)) & 15
			q |= src[128+32*h+i] >> (2 * r) & 3 << 4
			ds := float32(d * float32(int8(src[192+e/16])))
			dst[e] = ds * float32(int8(q)-32)
		}
	}
}
