package lane

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

func bytePtr[T any](p *T) *byte { return (*byte)(unsafe.Pointer(p)) }

var avx512 = functions{
	name: "avx512", has: &hasAVX512,
	run: func(s *Step, base unsafe.Pointer) { runAVX512(bytePtr(s), (*byte)(base)) },
	addresses: func(r *Range, v *[32]int64, m uint32, stride int64) {
		addressesAVX512(bytePtr(r), v, m, stride)
	},
	load8:  func(d *[32]uint32, p unsafe.Pointer) { load8AVX512(d, (*byte)(p)) },
	load16: func(d *[32]uint32, p unsafe.Pointer) { load16AVX512(d, (*byte)(p)) },
	store8: func(p unsafe.Pointer, s *[32]uint32) { store8AVX512((*byte)(p), s) },
	store16: func(p unsafe.Pointer, s *[32]uint32) {
		store16AVX512((*byte)(p), s)
	},
	gather8:    func(d *[32]uint32, p unsafe.Pointer, v *[32]int64, m uint32) { gather8AVX512(d, (*byte)(p), v, m) },
	gather16:   func(d *[32]uint32, p unsafe.Pointer, v *[32]int64, m uint32) { gather16AVX512(d, (*byte)(p), v, m) },
	gather32:   func(d *[32]uint32, p unsafe.Pointer, v *[32]int64, m uint32) { gather32AVX512(d, (*byte)(p), v, m) },
	gather64:   func(d *[32]uint64, p unsafe.Pointer, v *[32]int64, m uint32) { gather64AVX512(d, (*byte)(p), v, m) },
	reduceFAdd: reduceFAddAVX512, reduceFMax: reduceFMaxAVX512, mma: mmaAVX512,
}

// avx2 leaves gathers and addresses to plain Go: the instructions for them gain
// nothing there.
var avx2 = functions{
	name: "avx2", has: &hasAVX2,
	run:       func(s *Step, base unsafe.Pointer) { runAVX2(bytePtr(s), (*byte)(base)) },
	addresses: plainAddresses,
	load8:     func(d *[32]uint32, p unsafe.Pointer) { load8AVX2(d, (*byte)(p)) },
	load16:    func(d *[32]uint32, p unsafe.Pointer) { load16AVX2(d, (*byte)(p)) },
	store8:    plainStore8,
	store16:   func(p unsafe.Pointer, s *[32]uint32) { store16AVX2((*byte)(p), s) },
	gather8:   plainGather8, gather16: plainGather16, gather32: plainGather32, gather64: plainGather64,
	reduceFAdd: reduceFAddAVX2, reduceFMax: reduceFMaxAVX2, mma: mmaAVX2,
}

// native gives the levels of assembly that the CPU has, best first.
func native() []*functions {
	var l []*functions
	x := &cpu.X86
	if x.HasAVX512F && x.HasAVX512CD && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasFMA && x.HasBMI1 {
		l = append(l, &avx512)
	}
	if x.HasAVX2 && x.HasFMA && x.HasBMI1 {
		// Every such processor has the half conversions too.
		l = append(l, &avx2)
	}
	return l
}
