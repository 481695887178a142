package san

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/msl/ir"
)

// past is an access as the oracle keeps it: everything, for ever.
type past struct {
	kind     Kind
	sg, lane int
	lo, hi   int
	gen      int // barriers of the threadgroup before it
	sf       int // barriers of its simdgroup before it
}

// races says by definition whether two accesses are a race in mode strict: they
// touch a byte, one writes, not both are atomic, and nothing orders them.
func races(a, b past) bool {
	if a.lo >= b.hi || b.lo >= a.hi || !a.kind.writes() && !b.kind.writes() || a.kind.atomic() && b.kind.atomic() || a.gen != b.gen {
		return false
	}
	if a.sg != b.sg {
		return true
	}
	return a.lane != b.lane && a.sf == b.sf
}

// Random programs of four simdgroups on 16 bytes: the first race is found at the
// access that completes it, and there is none before.
func TestAgainstDefinition(t *testing.T) {
	found, clean := 0, 0
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		r := newRig(t, Strict, 1)
		o := r.run.Statics[0]
		flag := ir.MemThreadgroup
		if seed%2 == 1 {
			o, flag = r.run.Params[1], ir.MemDevice
		}
		withAtomics := seed%3 == 0
		space := 4 << rnd.IntN(3)
		var history []past
		gen := 0
		var sf [4]int
		sg := 0
		value := uint32(0)
		for step := range 40 {
			switch rnd.IntN(12) {
			case 0:
				gen++
				r.w.Barrier(flag | ir.MemFlags(rnd.IntN(4)))
				continue
			case 1, 2:
				sf[sg]++
				r.w.SgBarrier(sg, flag)
				continue
			case 3:
				r.w.Barrier(3 &^ flag)
				sg = rnd.IntN(4)
				continue
			case 4:
				sg = rnd.IntN(4)
				continue
			}
			kind := Kind(rnd.IntN(2))
			size := 1 << rnd.IntN(3)
			if withAtomics && rnd.IntN(2) == 0 {
				kind, size = kind+2, 4
			}
			// One to three lanes, which may meet.
			var offs [Lanes]int
			mask := uint32(0)
			for range 1 + rnd.IntN(3) {
				lane := rnd.IntN(4)
				mask |= 1 << lane
				offs[lane] = rnd.IntN(space/size) * size
			}
			expect := false
			for lane := range Lanes {
				if mask>>lane&1 == 0 {
					continue
				}
				now := past{kind, sg, lane, offs[lane], offs[lane] + size, gen, sf[sg]}
				for _, p := range history {
					expect = expect || races(p, now)
				}
				history = append(history, now)
			}
			r.access(kind, o, sg, mask, ir.Pos(step+1), size, func(l int) (int, uint32) {
				value++ // values never repeat in a byte: no write equals another
				return offs[l], value * 0x01010101
			})
			got := len(r.w.found) > 0
			if expect != got {
				t.Log(history)
			}
			require.Equal(t, expect, got, "seed %d, step %d: %v of %d bytes at %v by lanes %#x of simdgroup %d", seed, step, kind, size, offs[:4], mask, sg)
			if got {
				found++
				for _, k := range r.w.found {
					require.False(t, k.note)
				}
				break
			}
			clean++
		}
	}
	require.Greater(t, found, 1000)
	require.Greater(t, clean, 5000, "accesses without a race")
}

// The same with accesses of all lanes side by side, with one, two or four words
// each, among narrow ones: what rows take as a whole.
func TestRowsAgainstDefinition(t *testing.T) {
	found, clean := 0, 0
	for seed := range uint64(1500) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		r := newRig(t, Strict, 1)
		o, flag := r.run.Statics[0], ir.MemThreadgroup
		if seed%2 == 1 {
			o, flag = r.run.Params[1], ir.MemDevice
		}
		var history []past
		gen, sg, value := 0, 0, uint32(0)
		var sf [4]int
		for step := range 30 {
			switch rnd.IntN(10) {
			case 0, 1:
				gen++
				r.w.Barrier(flag)
				sg = rnd.IntN(4)
			case 2:
				sf[sg]++
				r.w.SgBarrier(sg, flag)
			}
			count := 1 << rnd.IntN(3)
			size, mask, base := 4*count, ^uint32(0), int64(rnd.IntN(3)*128)
			narrow := rnd.IntN(4) == 0
			if narrow {
				count, size, mask, base = 1, 1<<rnd.IntN(3), 1<<(8+rnd.IntN(24)), int64(4*rnd.IntN(8))
			}
			kind := Kind(rnd.IntN(2))
			expect := false
			var news []past
			// A matrix load: eight rows of eight words, by lanes that are not known.
			stride, matrix := int64(size), !narrow && seed%4 == 0 && rnd.IntN(2) == 0
			if matrix {
				kind, mask, count, size, stride, base = Read, 0xff, 8, 32, 64, int64(32*rnd.IntN(3))
				for row := range 8 {
					lo := int(base) + row*64
					news = append(news, past{kind, sg, -1, lo, lo + 32, gen, sf[sg]})
				}
			}
			for lane := range Lanes {
				if mask>>lane&1 == 0 || matrix {
					continue
				}
				lo := int(base) + lane*size
				news = append(news, past{kind, sg, lane, lo, lo + size, gen, sf[sg]})
			}
			for _, now := range news {
				for _, p := range history {
					expect = expect || races(p, now)
				}
			}
			history = append(history, news...)
			r.a = Access{Kind: kind, Obj: o, Pos: ir.Pos(step%3 + 1), Mask: mask, Base: base, Stride: stride, ElemSize: size / count, Count: count, Matrix: matrix}
			var vals [4][Lanes]uint32
			for e := range min(count, 4) {
				for l := range Lanes {
					value++ // never repeats in a byte
					vals[e][l] = value * 0x01010101
				}
				r.a.Val32[e] = &vals[e]
			}
			r.w.Access(sg, &r.a)
			got := len(r.w.found) > 0
			require.Equal(t, expect, got, "seed %d, step %d: %v of %d x %d bytes from %d by lanes %#x of simdgroup %d", seed, step, kind, count, size/count, base, mask, sg)
			if got {
				found++
				break
			}
			clean++
		}
	}
	require.Greater(t, found, 500)
	require.Greater(t, clean, 2000)
}

// Findings of a whole run are the same for any number of workers and any order of
// threadgroups.
func TestWorkersAgree(t *testing.T) {
	for seed := range uint64(40) {
		var first []string
		for _, workers := range []int{1, 2, 5} {
			for _, shuffle := range []uint64{0, 1} {
				r := newRig(t, Strict, workers)
				order := rand.New(rand.NewPCG(shuffle, 1)).Perm(12)
				for turn, g := range order {
					rnd := rand.New(rand.NewPCG(seed, uint64(g)))
					r.w = r.run.Worker(turn % workers)
					r.w.BeginGroup(g, 128, 4)
					for step := range 6 {
						size := 1 << rnd.IntN(3)
						base := rnd.IntN(60) * size
						if wide := rnd.IntN(3); wide > 0 { // whole rows, seldom the same ones
							r.a = Access{
								Kind: Kind(rnd.IntN(2)), Obj: r.run.Params[1], Pos: ir.Pos(step + 1), Mask: ^uint32(0),
								Base: int64(512 + rnd.IntN(16)*128), Stride: 4, ElemSize: 4, Count: 1,
							}
							for l := range r.vals {
								r.vals[l] = uint32(rnd.IntN(2))
							}
							r.a.Val32[0] = &r.vals
							r.w.Access(rnd.IntN(4), &r.a)
							continue
						}
						r.access(Kind(rnd.IntN(4)), r.run.Params[1+rnd.IntN(2)], rnd.IntN(4), 0x0f, ir.Pos(step+1), size, func(l int) (int, uint32) {
							return base + l*size, uint32(rnd.IntN(2))
						})
					}
				}
				got := r.found()
				if first == nil {
					first = got
				}
				require.Equal(t, first, got, "seed %d, %d workers", seed, workers)
			}
		}
	}
}

// The last store to each element of an output is the one by definition, for
// whole rows and single lanes, and for any number of workers.
func TestLastStores(t *testing.T) {
	for seed := range uint64(60) {
		for _, workers := range []int{1, 3} {
			r := newRig(t, Mem, workers)
			r.c.Output(r.bufs[1], 0, 4096, 4, "float")
			r.begin(workers)
			o := r.run.Params[1]
			rnd := rand.New(rand.NewPCG(seed, 5))
			type store struct{ tg, pos, lane int }
			want := map[int]store{} // by element
			for g := range 9 {
				r.w = r.run.Worker(g % workers)
				r.w.BeginGroup(g, 128, 4)
				for range 3 {
					pos := 1 + rnd.IntN(20)
					a := Access{Kind: Write, Obj: o, Pos: ir.Pos(pos), Mask: ^uint32(0), Base: int64(128 * rnd.IntN(4)), Stride: 4, ElemSize: 4, Count: 1}
					if rnd.IntN(3) == 0 {
						a.Mask, a.Base = rnd.Uint32(), int64(4*rnd.IntN(64))
					}
					r.w.StorePoison(2, &a, nil)
					for l := range Lanes {
						if a.Mask>>l&1 != 0 {
							want[int(a.Base)/4+l] = store{g, pos, l}
						}
					}
				}
			}
			r.run.End()
			x := r.c.outputs[0]
			for e := range 1024 {
				_, s, ok := x.lastStore(4 * e)
				w, written := want[e]
				require.Equal(t, written, ok, "seed %d, element %d", seed, e)
				if ok {
					require.Equal(t, w, store{int(s.tg) - 1, int(s.pos), int(s.who & laneMask)}, "seed %d, element %d", seed, e)
				}
			}
		}
	}
}
