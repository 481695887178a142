package san

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/msl/ir"
)

// The decision table: two accesses to the same float and what lies between, in
// modes race and strict. Each is seen in both orders of kind.
func TestDecisions(t *testing.T) {
	type step func(r *rig, o *Object)
	at := func(kind Kind, sg, lane int, pos ir.Pos, val uint32) step {
		return func(r *rig, o *Object) { r.one(kind, o, sg, lane, 64, pos, val) }
	}
	tgBarrier := func(f ir.MemFlags) step { return func(r *rig, _ *Object) { r.w.Barrier(f) } }
	sgBarrier := func(sg int, f ir.MemFlags) step { return func(r *rig, _ *Object) { r.w.SgBarrier(sg, f) } }
	both := []struct {
		name         string
		between      func(own, other ir.MemFlags) step
		sg, lane     int // of the second access; the first is simdgroup 0, lane 3
		race, strict string
	}{
		{"another simdgroup", nil, 1, 3, "error", "error"},
		{"another simdgroup, another lane", nil, 1, 4, "error", "error"},
		{"barrier that names it", func(own, _ ir.MemFlags) step { return tgBarrier(own) }, 1, 3, "", ""},
		{"barrier that names both", func(own, o ir.MemFlags) step { return tgBarrier(own | o) }, 1, 3, "", ""},
		{"barrier that names the other memory", func(_, o ir.MemFlags) step { return tgBarrier(o) }, 1, 3, "error", "error"},
		{"barrier with mem_none", func(_, _ ir.MemFlags) step { return tgBarrier(0) }, 1, 3, "error", "error"},
		{"simdgroup barrier between simdgroups", func(own, _ ir.MemFlags) step { return sgBarrier(0, own) }, 1, 3, "error", "error"},
		{"the same lane", nil, 0, 3, "", ""},
		{"another lane", nil, 0, 4, "note", "error"},
		{"another lane, simdgroup barrier", func(own, _ ir.MemFlags) step { return sgBarrier(0, own) }, 0, 4, "", ""},
		{"another lane, another simdgroup's barrier", func(own, _ ir.MemFlags) step { return sgBarrier(1, own) }, 0, 4, "note", "error"},
		{"another lane, simdgroup barrier for the other memory", func(_, o ir.MemFlags) step { return sgBarrier(0, o) }, 0, 4, "note", "error"},
		{"another lane, simdgroup barrier with mem_none", func(_, _ ir.MemFlags) step { return sgBarrier(0, 0) }, 0, 4, "note", "error"},
		{"another lane, threadgroup barrier", func(own, _ ir.MemFlags) step { return tgBarrier(own) }, 0, 4, "", ""},
		{"another lane, threadgroup barrier with mem_none", func(_, _ ir.MemFlags) step { return tgBarrier(0) }, 0, 4, "note", "error"},
	}
	pairs := []struct {
		name   string
		a, b   Kind
		va, vb uint32
		soften bool // equal values: an error becomes a note
		never  bool
	}{
		{"write write", Write, Write, 1, 2, false, false},
		{"write equal write", Write, Write, 7, 7, true, false},
		{"write read", Write, Read, 1, 0, false, false},
		{"read write", Read, Write, 0, 1, false, false},
		{"read read", Read, Read, 0, 0, false, true},
		{"atomic atomic", AtomicWrite, AtomicWrite, 0, 0, false, true},
		{"atomic, atomic read", AtomicWrite, AtomicRead, 0, 0, false, true},
		{"atomic read, read", AtomicRead, Read, 0, 0, false, true},
		{"atomic write, read", AtomicWrite, Read, 0, 0, false, false},
		{"read, atomic write", Read, AtomicWrite, 0, 0, false, false},
		{"write, atomic write", Write, AtomicWrite, 0, 0, false, false},
		{"atomic write, write", AtomicWrite, Write, 0, 0, false, false},
		{"write, atomic read", Write, AtomicRead, 0, 0, false, false},
		{"atomic read, write", AtomicRead, Write, 0, 0, false, false},
	}
	for _, space := range []ir.Space{ir.Threadgroup, ir.Device} {
		for _, row := range both {
			for _, pair := range pairs {
				for _, mode := range []Mode{Mem, Race, Strict} {
					r := newRig(t, mode, 1)
					o, kind := r.run.Statics[0], KindThreadgroupRace
					own, other := ir.MemThreadgroup, ir.MemDevice
					if space == ir.Device {
						o, kind, own, other = r.run.Params[1], KindDeviceRace, ir.MemDevice, ir.MemThreadgroup
					}
					at(pair.a, 0, 3, 10, pair.va)(r, o)
					if row.between != nil {
						row.between(own, other)(r, o)
					}
					at(pair.b, row.sg, row.lane, 20, pair.vb)(r, o)
					want := []string{}
					severity := map[Mode]string{Race: row.race, Strict: row.strict}[mode]
					if severity != "" && pair.soften {
						severity = "note"
					}
					if severity != "" && !pair.never {
						want = append(want, severity+" "+kind+" 20 10")
					}
					require.Equal(t, want, r.found(), "%s, %s, %s, mode %s", kind, row.name, pair.name, mode)
				}
			}
		}
	}
}

// A conflict is found with the access that matters, not just with the last one.
func TestHistory(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(r *rig, o *Object)
		want []string
	}{
		{"readers of two simdgroups, one of them writes", func(r *rig, o *Object) {
			r.one(Read, o, 0, 0, 0, 10, 0)
			r.one(Read, o, 1, 0, 0, 11, 0)
			r.one(Write, o, 1, 0, 0, 20, 5)
		}, []string{"error threadgroup-race 20 10"}},
		{"readers of three simdgroups, a fourth writes", func(r *rig, o *Object) {
			r.one(Read, o, 0, 0, 0, 10, 0)
			r.one(Read, o, 1, 0, 0, 11, 0)
			r.one(Read, o, 2, 0, 0, 12, 0)
			r.one(Write, o, 3, 0, 0, 20, 5)
		}, []string{"error threadgroup-race 20 12", "error threadgroup-race 20 11"}},
		{"lanes that read at two places", func(r *rig, o *Object) {
			r.one(Read, o, 0, 4, 0, 10, 0)
			r.one(Read, o, 0, 5, 0, 11, 0)
			r.one(Write, o, 0, 5, 0, 20, 5)
		}, []string{"error threadgroup-race 20 10"}},
		{"a read before a simdgroup barrier still races with another simdgroup", func(r *rig, o *Object) {
			r.one(Read, o, 0, 4, 0, 10, 0)
			r.w.SgBarrier(0, ir.MemThreadgroup)
			r.one(Write, o, 1, 0, 0, 20, 5)
		}, []string{"error threadgroup-race 20 10"}},
		{"the next threadgroup has memory of its own", func(r *rig, o *Object) {
			r.one(Write, o, 0, 4, 0, 10, 0)
			r.w.BeginGroup(1, 128, 4)
			r.one(Write, o, 1, 0, 0, 20, 5)
		}, []string{}},
		{"neighbouring bytes", func(r *rig, o *Object) {
			for l := range 4 {
				r.access(Write, o, l, 1, 10, 1, func(int) (int, uint32) { return l, uint32(l) })
			}
		}, []string{}},
		{"neighbouring halves, then the word", func(r *rig, o *Object) {
			r.access(Write, o, 0, 1, 10, 2, func(int) (int, uint32) { return 0, 1 })
			r.access(Write, o, 1, 1, 11, 2, func(int) (int, uint32) { return 2, 2 })
			r.one(Read, o, 0, 0, 0, 20, 0)
		}, []string{"error threadgroup-race 20 11"}},
		{"a word, then a byte of it", func(r *rig, o *Object) {
			r.one(Write, o, 0, 0, 0, 10, 0x01020304)
			r.access(Write, o, 1, 1, 11, 1, func(int) (int, uint32) { return 2, 2 })
			r.access(Write, o, 1, 1, 12, 1, func(int) (int, uint32) { return 3, 9 })
		}, []string{"note threadgroup-race 11 10", "error threadgroup-race 12 10"}},
		{"all lanes store the same value", func(r *rig, o *Object) {
			r.access(Write, o, 0, ^uint32(0), 10, 4, func(int) (int, uint32) { return 8, 3 })
		}, []string{"note threadgroup-race 10 10"}},
		{"all lanes store their index", func(r *rig, o *Object) {
			r.access(Write, o, 0, ^uint32(0), 10, 4, func(l int) (int, uint32) { return 8, uint32(l) })
		}, []string{"error threadgroup-race 10 10"}},
		{"a broadcast load after a lane's store", func(r *rig, o *Object) {
			r.one(Write, o, 0, 7, 8, 10, 1)
			r.access(Read, o, 0, ^uint32(0), 20, 4, func(int) (int, uint32) { return 8, 0 })
		}, []string{"error threadgroup-race 20 10"}},
		{"a lane reads back its own store", func(r *rig, o *Object) {
			r.access(Write, o, 0, ^uint32(0), 10, 4, func(l int) (int, uint32) { return 4 * l, 1 })
			r.access(Read, o, 0, ^uint32(0), 20, 4, func(l int) (int, uint32) { return 4 * l, 0 })
		}, []string{}},
		{"a lane reads its neighbour's store", func(r *rig, o *Object) {
			r.access(Write, o, 0, ^uint32(0), 10, 4, func(l int) (int, uint32) { return 4 * l, 1 })
			r.access(Read, o, 0, ^uint32(0), 20, 4, func(l int) (int, uint32) { return 4 * (l ^ 1), 0 })
		}, []string{"error threadgroup-race 20 10"}},
		{"plain store, own atomic, another's atomic", func(r *rig, o *Object) {
			r.one(AtomicWrite, o, 0, 0, 0, 10, 0)
			r.one(AtomicWrite, o, 1, 0, 0, 11, 0)
			r.one(Write, o, 1, 0, 0, 20, 0)
		}, []string{"error threadgroup-race 20 10"}},
		{"objects do not meet", func(r *rig, o *Object) {
			r.one(Write, r.run.Params[3], 0, 0, 0, 10, 0)
			r.one(Write, o, 1, 0, 0, 11, 1)
		}, []string{}},
		{"across a page of the shadow", func(r *rig, o *Object) {
			r.a = Access{Kind: Write, Obj: o, Pos: 10, Mask: 1, Base: 1016, ElemSize: 4, Count: 4}
			r.w.Access(0, &r.a)
			r.one(Read, o, 1, 0, 1028, 20, 0)
		}, []string{"error threadgroup-race 20 10"}},
	} {
		r := newRig(t, Strict, 1)
		c.do(r, r.run.Statics[0])
		require.Equal(t, c.want, r.found(), c.name)
	}
}

// A store of a vector's component counts as a store of the vector.
func TestComponentStore(t *testing.T) {
	r := newRig(t, Race, 1)
	store := func(sg, component int, pos ir.Pos) {
		r.a = Access{Kind: Write, Obj: r.run.Statics[0], Pos: pos, Mask: 1, Base: int64(16 + 4*component), ElemSize: 4, Count: 1, Vector: 16, VectorOff: 4 * component}
		r.a.Val32[0] = &r.vals
		r.w.Access(sg, &r.a)
	}
	store(0, 0, 10)
	store(1, 2, 20)
	require.Equal(t, []string{"error threadgroup-race 20 10"}, r.found())
}

func TestGranules(t *testing.T) {
	p := newPage(true)
	p.allocate()
	p.cells[3] = cell{w: 9, val: 0x44332211, wpos: 5}
	p.sums[3].val = 0x44332211
	p.refine(0)
	require.Len(t, p.cells, pageBytes)
	for i, want := range []uint32{0x11, 0x22, 0x33, 0x44} {
		require.Equal(t, cell{w: 9, val: want, wpos: 5}, p.cells[12+i])
		require.Equal(t, want, p.sums[12+i].val)
	}
}
