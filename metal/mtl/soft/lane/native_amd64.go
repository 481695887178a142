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

// native gives the levels of assembly that the CPU has, best first.
func native() []*functions {
	var l []*functions
	x := &cpu.X86
	if x.HasAVX512F && x.HasAVX512CD && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasFMA && x.HasBMI1 {
		l = append(l, &avx512)
	}
	return l
}
