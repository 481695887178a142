package lane

import (
	"math/bits"
	"unsafe"
)

// Range describes the addresses of the active lanes.
type Range struct {
	Lo, Hi int64 // smallest and largest
	Or     int64 // all bits of them together, for alignment
	// Base is the address of lane 0 where lane l's is Base + l*stride: Affine.
	Base   int64
	Affine bool
}

func plainAddresses(r *Range, v *[32]int64, m uint32, stride int64) {
	first := bits.TrailingZeros32(m)
	if first == 32 {
		*r = Range{}
		return
	}
	lo, hi, or := v[first], v[first], int64(0)
	base := v[first] - int64(first)*stride
	affine := true
	for k := m; k != 0; k &= k - 1 {
		l := bits.TrailingZeros32(k)
		x := v[l]
		lo, hi, or = min(lo, x), max(hi, x), or|x
		if x != base+int64(l)*stride {
			affine = false
		}
	}
	*r = Range{lo, hi, or, base, affine}
}

// The contiguous loads read 32 elements from p and widen them to lanes.

func plainLoad8(d *[32]uint32, p unsafe.Pointer) {
	for l, x := range (*[32]uint8)(p) {
		d[l] = uint32(x)
	}
}

func plainLoad16(d *[32]uint32, p unsafe.Pointer) {
	for l, x := range (*[32]uint16)(p) {
		d[l] = uint32(x)
	}
}

// The contiguous stores cut the lanes down and write 32 elements.

func plainStore8(p unsafe.Pointer, s *[32]uint32) {
	d := (*[32]uint8)(p)
	for l := range d {
		d[l] = uint8(s[l])
	}
}

func plainStore16(p unsafe.Pointer, s *[32]uint32) {
	d := (*[32]uint16)(p)
	for l := range d {
		d[l] = uint16(s[l])
	}
}

// The gathers read an element at p + v[l] for each active lane and leave the
// others alone.

func plainGather8(d *[32]uint32, p unsafe.Pointer, v *[32]int64, m uint32) {
	for ; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		d[l] = uint32(*(*uint8)(unsafe.Add(p, v[l])))
	}
}

func plainGather16(d *[32]uint32, p unsafe.Pointer, v *[32]int64, m uint32) {
	for ; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		d[l] = uint32(*(*uint16)(unsafe.Add(p, v[l])))
	}
}

func plainGather32(d *[32]uint32, p unsafe.Pointer, v *[32]int64, m uint32) {
	for ; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		d[l] = *(*uint32)(unsafe.Add(p, v[l]))
	}
}

func plainGather64(d *[32]uint64, p unsafe.Pointer, v *[32]int64, m uint32) {
	for ; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		d[l] = *(*uint64)(unsafe.Add(p, v[l]))
	}
}

// Gather8Exact and Gather16Exact never touch a byte beside the elements.
func Gather8Exact(d *[32]uint32, p unsafe.Pointer, v *[32]int64, m uint32) {
	plainGather8(d, p, v, m)
}

// Gather16Exact is described at Gather8Exact.
func Gather16Exact(d *[32]uint32, p unsafe.Pointer, v *[32]int64, m uint32) {
	plainGather16(d, p, v, m)
}
