// Package lane computes on 32 lanes at a time: one call is one operation of a
// simdgroup. It knows no masks (inactive lanes compute garbage that nobody
// looks at) but those that are operands.
//
// A lane of up to 32 bits is an element of a [32]uint32 (8- and 16-bit integers
// zero-extended, half and bfloat as their 16 bits), a 64-bit one of a
// [32]uint64; a bool for each lane is a bit of a uint32. A scalar is a uint64,
// a bool in it all 32 bits. Destination and operands may be the same memory but
// must not overlap otherwise.
//
// Straight code is a list of [Step] that [Run] executes with the best that the
// CPU has (AVX-512, AVX2, or plain Go); [Func] and [Scalar] are the plain Go
// forms that define each operation. A [Memory] is a step that loads, from memory whose
// place and size are in the frame. All levels give the same bits, NaN payloads
// aside. All functions are pure and safe for concurrent use.
package lane

import "unsafe"

//go:generate go run ./gen/plain -out plain_gen.go

// Op is an operation on lanes.
type Op uint16

// Fn is the 32-lane form: d = op(a, b, c), operands that the operation lacks
// are ignored.
type Fn func(d, a, b, c unsafe.Pointer)

// ScalarFn is the form for a value that is the same in all lanes.
type ScalarFn func(a, b, c uint64) uint64

// Signature tells an operation's name and operand kinds: u uint32, i int32,
// U uint64, I int64, f float32, m a bool.
type Signature struct {
	Name   string
	Args   string
	Result byte
}

// Scalar gives the scalar form.
func Scalar(o Op) ScalarFn { return scalar[o] }

// SignatureOf tells the operands.
func SignatureOf(o Op) Signature { return signatures[o] }

// Func gives the 32-lane form in plain Go.
func Func(o Op) Fn { return plain[o] }

// F16 and the functions below convert one value, for callers outside the lanes.
func F16(x float32) uint16 { return uint16(ftof16(x)) }

// FromF16 gives a half's value.
func FromF16(h uint16) float32 { return f16tof(uint32(h)) }

// BF16 rounds to bfloat.
func BF16(x float32) uint16 { return uint16(ftobf16(x)) }

// FromBF16 gives a bfloat's value.
func FromBF16(h uint16) float32 { return bf16tof(uint32(h)) }

// FMA1 is x*y+z rounded once.
func FMA1(x, y, z float32) float32 { return fma(x, y, z) }

// Fill32 puts one value in all lanes.
func Fill32(d *[32]uint32, x uint32) {
	for l := range d {
		d[l] = x
	}
}

// Fill64 puts one value in all lanes.
func Fill64(d *[32]uint64, x uint64) {
	for l := range d {
		d[l] = x
	}
}
