package kernel

import "encoding/binary"

// Dots of the 256-element K types with a Q8_K activation (section 5): d float32
// at 0, 256 int8 at 4, 16 int16 sums of 16 at 260.

func bsum(y []byte, j int) int32 {
	return int32(int16(binary.LittleEndian.Uint16(y[260+2*j:])))
}

// scales6 unpacks the eight 6-bit scales and mins of a Q4_K or Q5_K block.
func scales6(s []byte) (sc, mn [8]int32) {
	s = s[:12]
	for g := range 4 {
		sc[g], mn[g] = int32(s[g]&63), int32(s[g+4]&63)
		sc[g+4] = int32(s[g+8]&15 | s[g]>>6<<4)
		mn[g+4] = int32(s[g+8]>>4 | s[g+4]>>6<<4)
	}
	return sc, mn
}

// lanes32 adds scale * L_l of one group of 32 elements to the eight lane sums.
func lanes32(t *[8]int32, scale int32, q *[32]uint8, y []byte) {
	y = y[:32]
	for l := range t {
		i := 4 * l
		t[l] += scale * (int32(q[i])*int32(int8(y[i])) + int32(q[i+1])*int32(int8(y[i+1])) +
			int32(q[i+2])*int32(int8(y[i+2])) + int32(q[i+3])*int32(int8(y[i+3])))
	}
}

func dotQ4_K(w, act []byte, n int) float32 {
	var acc [8]float32
	var am [4]float32
	var q [32]uint8
	for b := range n / 256 {
		x, y := w[144*b:144*b+144], act[292*b:292*b+292]
		yd := f32At(y, 0)
		d, dm := yd*scale16(x), -yd*scale16(x[2:])
		sc, mn := scales6(x[4:])
		var t [8]int32
		for g := range 8 {
			for i, v := range x[16+32*(g/2):][:32] {
				q[i] = v >> (4 * (g & 1)) & 15
			}
			lanes32(&t, sc[g], &q, y[4+32*g:])
		}
		for l := range acc {
			acc[l] = fma32(d, float32(t[l]), acc[l])
		}
		for l := range am {
			p := mn[2*l]*(bsum(y, 4*l)+bsum(y, 4*l+1)) + mn[2*l+1]*(bsum(y, 4*l+2)+bsum(y, 4*l+3))
			am[l] = fma32(dm, float32(p), am[l])
		}
	}
	return hs8(&acc) + ((am[0] + am[2]) + (am[1] + am[3]))
}

func dotQ5_K(w, act []byte, n int) float32 {
	var acc [8]float32
	var sm float32
	var q [32]uint8
	for b := range n / 256 {
		x, y := w[176*b:176*b+176], act[292*b:292*b+292]
		yd := f32At(y, 0)
		d, dm := yd*scale16(x), -yd*scale16(x[2:])
		sc, mn := scales6(x[4:])
		qh := x[16:48]
		var t [8]int32
		var p int32
		for g := range 8 {
			for i, v := range x[48+32*(g/2):][:32] {
				q[i] = v>>(4*(g&1))&15 | qh[i]>>g&1<<4
			}
			lanes32(&t, sc[g], &q, y[4+32*g:])
			p += mn[g] * (bsum(y, 2*g) + bsum(y, 2*g+1))
		}
		for l := range acc {
			acc[l] = fma32(d, float32(t[l]), acc[l])
		}
		sm = fma32(dm, float32(p), sm)
	}
	return hs8(&acc) + sm
}

// dotQ6_K multiplies the unsigned integers 0..63 and corrects by 32 times the
// block sums; the lane that each correction falls into is part of the contract.
func dotQ6_K(w, act []byte, n int) float32 {
	var acc [8]float32
	var q [32]uint8
	for b := range n / 256 {
		x, y := w[210*b:210*b+210], act[292*b:292*b+292]
		ql, qh, sc := x[:128], x[128:192], x[192:208]
		d := f32At(y, 0) * scale16(x[208:])
		var t [8]int32
		for g := range 8 {
			h, r := g/4, g%4
			low, high := ql[64*h+32*(r&1):][:32], qh[32*h:][:32]
			for i := range q {
				q[i] = low[i]>>(4*(r>>1))&15 | high[i]>>(2*r)&3<<4
			}
			var lg [8]int32
			lanes32(&lg, 1, &q, y[4+32*g:])
			s0, s1 := int32(int8(sc[2*g])), int32(int8(sc[2*g+1]))
			for l := range 4 {
				t[l] += s0 * lg[l]
				t[4+l] += s1 * lg[4+l]
			}
		}
		for l := range acc {
			t[l] -= 32 * (bsum(y, 2*l)*int32(int8(sc[2*l])) + bsum(y, 2*l+1)*int32(int8(sc[2*l+1])))
			acc[l] = fma32(d, float32(t[l]), acc[l])
		}
	}
	return hs8(&acc)
}
