package lane

import "unsafe"

// fast are the forms in assembly, nil where there is none.
var fast [NumOps]Fn

func bcast32(d *[32]uint32, x uint32) {
	for l := range d {
		d[l] = x
	}
}

func bcast64(d *[32]uint64, x uint64) {
	for l := range d {
		d[l] = x
	}
}

// Addresses describes the addresses in v of the lanes in m, which must not be 0,
// for a stride.
func Addresses(r *Range, v *[32]int64, m uint32, stride int64) { plainAddresses(r, v, m, stride) }

// Load8, Load16, Store8 and Store16 move 32 consecutive elements.
func Load8(d *[32]uint32, p unsafe.Pointer)   { plainLoad8(d, p) }
func Load16(d *[32]uint32, p unsafe.Pointer)  { plainLoad16(d, p) }
func Store8(p unsafe.Pointer, s *[32]uint32)  { plainStore8(p, s) }
func Store16(p unsafe.Pointer, s *[32]uint32) { plainStore16(p, s) }

// Gather8 and the others read one element for each lane in m from p + v[l].
func Gather8(d *[32]uint32, p unsafe.Pointer, v *[32]int64, m uint32)  { plainGather8(d, p, v, m) }
func Gather16(d *[32]uint32, p unsafe.Pointer, v *[32]int64, m uint32) { plainGather16(d, p, v, m) }
func Gather32(d *[32]uint32, p unsafe.Pointer, v *[32]int64, m uint32) { plainGather32(d, p, v, m) }
func Gather64(d *[32]uint64, p unsafe.Pointer, v *[32]int64, m uint32) { plainGather64(d, p, v, m) }

// ReduceFAdd sums the lanes in m in the fixed order.
func ReduceFAdd(v *[32]uint32, m uint32) float32 { return plainReduceFAdd(v, m) }

// ReduceFMax is the largest of the lanes in m.
func ReduceFMax(v *[32]uint32, m uint32) float32 { return plainReduceFMax(v, m) }

// MMA is d = a*b + c of 8x8 matrices.
func MMA(d, a, b, c *[64]float32) { plainMMA(d, a, b, c) }
