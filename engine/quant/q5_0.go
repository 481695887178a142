package quant

import "encoding/binary"

// A Q5_0 block: 32 values as q-16 times a half scale d. Layout: d f16, a
// uint32 whose bit i is the fifth bit of element i, then 16 bytes of nibbles
// as in Q4_0.
const q5_0Bytes = 22

func quantizeQ5_0(dst []byte, src []float32) {
	for ; len(src) > 0; src, dst = src[32:], dst[q5_0Bytes:] {
		m, _ := peak(src[:32])
		d := m / -16
		id := inverse(d)
		putF16(dst, d)
		var high uint32
		for i := range 16 {
			lo := byte(min(31, int8(truncate(float32(src[i]*id)+16.5))))
			hi := byte(min(31, int8(truncate(float32(src[i+16]*id)+16.5))))
			dst[6+i] = lo&15 | hi<<4
			high |= uint32(lo>>4&1)<<i | uint32(hi>>4&1)<<(i+16)
		}
		binary.LittleEndian.PutUint32(dst[2:], high)
	}
}

func dequantizeQ5_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[q5_0Bytes:] {
		d := getF16(src)
		high := binary.LittleEndian.Uint32(src[2:])
		for i := range 16 {
			q := uint32(src[6+i])
			dst[i] = float32(int32(q&15|high>>i&1<<4)-16) * d
			dst[i+16] = float32(int32(q>>4|high>>(i+16)&1<<4)-16) * d
		}
	}
}
