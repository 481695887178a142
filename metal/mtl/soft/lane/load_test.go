package lane

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestLoadSteps compares the loads with reads from Go: rows and scattered elements,
// any mask, up to the last byte of the object, and one byte further.
func TestLoadSteps(t *testing.T) {
	const (
		slotObject  = 32
		slotUniform = 48
		slotOnce    = 56
		varying     = 64
		result      = varying + 256
	)
	shapes := map[Memory]struct{ size, count int }{
		Read8: {1, 1}, Read16: {2, 1}, Read32: {4, 1}, Read64: {8, 1}, Read16x4: {2, 4}, Read32x2: {4, 2}, Read32x4: {4, 4},
		ReadOnce8: {1, 1}, ReadOnce16: {2, 1}, ReadOnce32: {4, 1}, ReadOnce64: {8, 1},
	}
	r := rand.New(rand.NewPCG(8, 8))
	data := make([]byte, 1024+16)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	read := func(off, size int) uint64 {
		var b [8]byte
		copy(b[:], data[off:off+size])
		return binary.LittleEndian.Uint64(b[:])
	}
	for _, lv := range levels {
		for m := Read8; m <= ReadOnce64; m++ {
			if lv.has == nil || !lv.has[m] {
				continue
			}
			done, not := 0, 0
			for round := range 400 {
				var f [result + 4*256 + 128]byte
				base := unsafe.Pointer(&f[-uintptr(unsafe.Pointer(&f))&63])
				put := func(at int, x uint64) { *(*uint64)(unsafe.Add(base, at)) = x }
				mask := r.Uint32()
				if mask == 0 || round%2 == 0 {
					mask = 0xffffffff
				}
				s, once := shapes[m], m >= ReadOnce8
				a := Access{Uniform: slotUniform, Varying: varying, Object: slotObject, Disp: int32(r.IntN(40) - 20), Bytes: uint32(s.size * s.count)}
				for k := range s.count {
					a.Results[k] = uint32(result + 256*k)
				}
				if s.count == 1 {
					a.Delta = uint32(r.IntN(4))
					a.Bytes += a.Delta
					if s.size < 4 && !once {
						a.Bytes += 4
					}
				}
				size := 600 + r.IntN(400)
				uniform := int64(r.IntN(100)) - int64(a.Disp)
				put(ActiveMask, uint64(mask))
				put(slotObject, uint64(uintptr(unsafe.Pointer(&data[0]))))
				put(slotObject+8, uint64(size))
				put(slotUniform, uint64(uniform))
				inside := true
				var at [32]int64
				for l := range at {
					v := int64(l * s.size * s.count)
					if round%4 >= 2 {
						v = int64(r.IntN(480))
					}
					if once {
						v = 0
					} else if round%5 == 0 && r.IntN(40) == 0 {
						v = int64(size) - uniform - int64(a.Disp) - int64(a.Bytes) + int64(r.IntN(2)) // the last bytes, or one further
					} else if mask>>l&1 == 0 || round%7 == 0 && r.IntN(60) == 0 {
						v = r.Int64() - r.Int64()
					}
					put(varying+8*l, uint64(v))
					at[l] = uniform + int64(a.Disp) + v
					if mask>>l&1 != 0 && (at[l] < 0 || at[l] > int64(size)-int64(a.Bytes)) {
						inside = false
					}
				}
				two := m.Steps(&a)
				steps := []Step{Once(Copy64, slotOnce, slotUniform, 0, 0), two[0], two[1], Once(Copy64, slotOnce, ActiveMask, 0, 0), End}
				lv.run(&steps[0], base)
				if !inside {
					n, stopped := Resume(&steps[0], base)
					require.True(t, stopped, "%s load %d round %d", lv.name, m, round)
					require.Equal(t, 1, n)
					require.EqualValues(t, uniform, *(*int64)(unsafe.Add(base, slotOnce)), "nothing behind it has run")
					require.Zero(t, *(*uint64)(unsafe.Add(base, result)), "nothing was written")
					not++
				} else {
					require.EqualValues(t, mask, *(*int64)(unsafe.Add(base, slotOnce)), "%s load %d round %d", lv.name, m, round)
					done++
				}
				_, stopped := Resume(&steps[0], base)
				require.False(t, stopped)
				for l := 0; inside && l < 32; l++ {
					for k := range s.count {
						p := unsafe.Add(base, result+256*k+4*l)
						var got uint64
						switch {
						case once && l > 0 || mask>>l&1 == 0:
							continue
						case once:
							got = *(*uint64)(p)
						case s.size == 8:
							got = *(*uint64)(unsafe.Add(p, 4*l))
						default:
							got = uint64(*(*uint32)(p))
						}
						require.Equal(t, read(int(at[l])+k*s.size+int(a.Delta), s.size), got, "%s load %d round %d lane %d element %d", lv.name, m, round, l, k)
					}
				}
			}
			require.Greater(t, done, 50, "%s load %d", lv.name, m)
			if m < ReadOnce8 {
				require.Greater(t, not, 10, "%s load %d", lv.name, m)
			}
		}
	}
}

func TestSumStep(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 8))
	for _, lv := range levels {
		if lv.has == nil || !lv.has[SumF] {
			continue
		}
		for range 100 {
			var f frame
			v := (*[32]uint32)(unsafe.Add(f.base(), slotA))
			for l := range v {
				v[l] = math.Float32bits(float32(r.NormFloat64()))
			}
			m := r.Uint32()
			*(*uint64)(unsafe.Add(f.base(), ActiveMask)) = uint64(m)
			two := SumF.Steps(&Access{Results: [4]uint32{slotD}, Varying: slotA})
			steps := []Step{two[0], two[1], Once(Copy64, slotB, slotD, 0, 0), End}
			lv.run(&steps[0], f.base())
			require.Equal(t, uint64(math.Float32bits(plainReduceFAdd(v, m))), *(*uint64)(unsafe.Add(f.base(), slotB)), lv.name)
		}
	}
}
