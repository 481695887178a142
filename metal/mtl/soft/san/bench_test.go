package san

import (
	"testing"

	"minfer/metal/msl/ir"
)

// The access paths: ns per access of 32 lanes.
func BenchmarkAccess(b *testing.B) {
	for _, c := range []struct {
		name  string
		kind  Kind
		space ir.Space
		size  int
		at    func(l int) int // nil: contiguous
		mask  uint32
		other bool // a barrier and the other kind of access go before each
	}{
		{"threadgroup/read/contiguous", Read, ir.Threadgroup, 4, nil, ^uint32(0), false},
		{"threadgroup/write/contiguous", Write, ir.Threadgroup, 4, nil, ^uint32(0), false},
		{"threadgroup/write/half", Write, ir.Threadgroup, 2, nil, ^uint32(0), false},
		{"threadgroup/read/broadcast", Read, ir.Threadgroup, 4, func(int) int { return 64 }, ^uint32(0), false},
		{"threadgroup/read/two-rows", Read, ir.Threadgroup, 4, func(l int) int { return l / 16 * 64 }, ^uint32(0), false},
		{"threadgroup/read/scattered", Read, ir.Threadgroup, 4, func(l int) int { return l * 7 % 32 * 4 }, ^uint32(0), false},
		{"threadgroup/write/one-lane", Write, ir.Threadgroup, 4, nil, 1, false},
		{"threadgroup/write-barrier-read", Read, ir.Threadgroup, 4, nil, ^uint32(0), true},
		{"device/write/contiguous", Write, ir.Device, 4, nil, ^uint32(0), false},
		{"device/read/contiguous", Read, ir.Device, 4, nil, ^uint32(0), false},
		{"device/write/one-lane", Write, ir.Device, 4, nil, 1, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := newRig(nil, Race, 1)
			o := r.run.Statics[0]
			if c.space == ir.Device {
				o = r.run.Params[1]
			}
			a := &r.a
			*a = Access{Kind: c.kind, Obj: o, Pos: 3, Mask: c.mask, Stride: int64(c.size), ElemSize: c.size, Count: 1}
			a.Val32[0] = &r.vals
			if c.at != nil {
				for l := range r.offsets {
					r.offsets[l] = uint64(c.at(l))
				}
				a.Off = &r.offsets
			}
			b.ReportAllocs()
			for range b.N {
				if c.other {
					a.Kind = Write
					r.w.Access(0, a)
					r.w.Barrier(ir.MemThreadgroup)
					a.Kind = Read
				} else {
					r.w.SgBarrier(0, ir.MemThreadgroup|ir.MemDevice)
				}
				r.w.Access(0, a)
			}
			if len(r.w.found) != 0 {
				b.Fatal("a finding")
			}
		})
	}
}

func BenchmarkPoison(b *testing.B) {
	for _, space := range []ir.Space{ir.Threadgroup, ir.Thread, ir.Device} {
		b.Run(map[ir.Space]string{ir.Threadgroup: "threadgroup", ir.Thread: "thread", ir.Device: "device"}[space], func(b *testing.B) {
			r := newRig(nil, Mem, 1)
			r.bufs[1].Undefine(0, 4096)
			r.begin(1)
			o, stride := r.run.Statics[0], int64(4)
			switch space {
			case ir.Thread:
				o, stride = r.run.Allocas[0], 0
			case ir.Device:
				o = r.run.Params[1]
			}
			r.a = Access{Kind: Write, Obj: o, Mask: ^uint32(0), Stride: stride, ElemSize: 4, Count: 1}
			var out [MaxElems]uint32
			b.ReportAllocs()
			for range b.N {
				r.w.StorePoison(0, &r.a, nil)
				r.w.LoadPoison(0, &r.a, &out)
			}
		})
	}
}
