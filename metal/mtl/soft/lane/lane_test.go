package lane

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// interesting are values where operations have corners: as integers, floats and
// halves.
var interesting = []uint64{
	0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 127, 128, 255, 256, 0x3ff, 0x400, 0x7bff, 0x7c00, 0x7c01, 0x7e00, 0x7fff, 0x8000, 0x8001, 0xfc00, 0xffff, 0x10000,
	0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffc00001,
	0x00000001, 0x007fffff, 0x00800000, 0x4f000000, 0x4effffff, 0xcf000000, 0x4f800000, 0x5f000000, 0xdf000000, 0x5f800000, 0x477fe000, 0x477ff000, 0x477fefff,
	0x33000000, 0x33000001, 0x387fffff, 0x38800000, 0x3f000000, 0x3effffff, 0x4b000001, 0xcb000001, 0x3fc00000, 0x40200000,
	0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff, 0x100000000, 0xfffffffeffffffff,
}

func randomWord(r *rand.Rand) uint64 {
	switch r.IntN(4) {
	case 0:
		return interesting[r.IntN(len(interesting))]
	case 1: // a float of ordinary size
		return uint64(math.Float32bits(float32(r.NormFloat64() * math.Exp(r.NormFloat64()*5))))
	case 2:
		return r.Uint64() >> r.IntN(64)
	}
	return r.Uint64()
}

const (
	slotD = 64 + 256*iota
	slotA
	slotB
	slotC
	frameSize
)

type frame [frameSize + 64]byte

func (f *frame) base() unsafe.Pointer {
	p := unsafe.Pointer(f)
	return unsafe.Add(p, -uintptr(p)&63)
}

// sameResult compares but for the payload of a NaN.
func sameResult(sig Signature, x, y uint64) bool {
	if x == y {
		return true
	}
	nan := func(h uint64) bool { return false }
	switch {
	case sig.Result == 'f':
		nan = func(h uint64) bool { return h&0x7fffffff > 0x7f800000 }
	case sig.Name == "FToBF16":
		nan = func(h uint64) bool { return h&0x7fff > 0x7f80 }
	case sig.Name == "FToF16":
		nan = func(h uint64) bool { return h&0x7fff > 0x7c00 }
	}
	return nan(x) && nan(y)
}

// TestLevels compares every step of every level with the plain Go one, all lanes,
// on values with many corners, with the destination apart and in place of each
// operand.
func TestLevels(t *testing.T) {
	for _, lv := range levels {
		t.Run(lv.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for op := Op(1); op < NumOps; op++ {
				sig := SignatureOf(op)
				for _, scalarForm := range []bool{false, true} {
					st := Lanes(op, slotD, slotA, slotB, slotC)
					if scalarForm {
						st = Once(op, slotD, slotA, slotB, slotC)
					}
					if lv.has == nil || !lv.has[st.op] {
						continue
					}
					inPlace := []uint32{slotD}
					for i, k := range []byte(sig.Args) {
						if wideKind(k) == wideKind(sig.Result) && !strings.ContainsRune("mxX", rune(k)) && sig.Result != 'm' {
							inPlace = append(inPlace, []uint32{slotA, slotB, slotC}[i])
						}
					}
					for range 40 {
						var in frame
						for s := 0; s < frameSize; s += 8 {
							*(*uint64)(unsafe.Add(in.base(), s)) = randomWord(r)
						}
						narrow(sig, &in, scalarForm)
						for _, dst := range inPlace {
							checkStep(t, lv, sig, st, dst, scalarForm, &in)
						}
					}
				}
			}
		})
	}
}

func checkStep(t *testing.T, lv *functions, sig Signature, st Step, dst uint32, scalarForm bool, in *frame) {
	st.D = dst
	var got, want frame
	for s := uint32(0); s < frameSize; s += 8 {
		*(*uint64)(unsafe.Add(got.base(), s)) = word(in, s, 0, 8)
		*(*uint64)(unsafe.Add(want.base(), s)) = word(in, s, 0, 8)
	}
	steps := [2]Step{st, End}
	lv.run(&steps[0], got.base())
	plainStep(&st, want.base())
	n, size := 32, 4
	if wideKind(sig.Result) {
		size = 8
	}
	if scalarForm || sig.Result == 'm' {
		n, size = 1, 8
	}
	for l := range n {
		x, y := word(&got, dst, l, size), word(&want, dst, l, size)
		require.True(t, sameResult(sig, x, y), "%s scalar=%v lane %d: %#x, %#x, %#x: got %#x, want %#x (result at %d)", sig.Name, scalarForm, l,
			word(in, slotA, l, size), word(in, slotB, l, size), word(in, slotC, l, size), x, y, dst)
	}
	// Nothing else is touched.
	for s := uint32(0); s < frameSize; s += 8 {
		if s < dst || s >= dst+uint32(n*size) {
			require.Equal(t, word(in, s, 0, 8), word(&got, s, 0, 8), "%s changed offset %d", sig.Name, s)
		}
	}
}

// narrow makes the operands what the decoder promises: halves are 16 bits, a
// scalar bool is all or nothing.
func narrow(sig Signature, f *frame, scalarForm bool) {
	for i, k := range sig.Args {
		slot := []int{slotA, slotB, slotC}[i]
		if k == 'm' && scalarForm {
			p := (*uint64)(unsafe.Add(f.base(), slot))
			*p = *p & 1 * 0xffffffff
		}
		if strings.HasPrefix(sig.Name, "F16To") || strings.HasPrefix(sig.Name, "BF16To") {
			for l := range 32 {
				*(*uint32)(unsafe.Add(f.base(), slot+4*l)) &= 0xffff
			}
		}
	}
}

func wideKind(k byte) bool { return k == 'U' || k == 'I' }

func word(f *frame, slot uint32, l, size int) uint64 {
	p := unsafe.Add(f.base(), int(slot)+l*size)
	if size == 4 {
		return uint64(*(*uint32)(p))
	}
	return *(*uint64)(p)
}

func TestStepsRunInOrder(t *testing.T) {
	for _, lv := range levels {
		var f frame
		b := f.base()
		*(*uint64)(unsafe.Add(b, slotA)) = 5
		steps := []Step{
			Once(Add64, slotB, slotA, slotA, 0),
			Once(Mul64, slotC, slotB, slotA, 0),
			Lanes(Bcast32, slotD, slotC, 0, 0),
			Lanes(Add32, slotD, slotD, slotD, 0),
			End,
		}
		lv.run(&steps[0], b)
		for l := range 32 {
			require.EqualValues(t, 100, word(&f, slotD, l, 4), "%s lane %d", lv.name, l)
		}
	}
}

func TestMemoryRoutines(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	data := make([]byte, 4096)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	p := unsafe.Pointer(&data[0])
	for _, lv := range levels {
		for round := range 200 {
			var v [32]int64
			stride := int64(r.IntN(17) - 8)
			m := r.Uint32()
			if m == 0 || round%3 == 0 {
				m = 0xffffffff
			}
			wild := false
			for l := range v {
				switch round % 4 {
				case 0:
					v[l] = int64(r.IntN(4088))
				case 1:
					v[l] = 1000 + int64(l)*stride
				case 2: // affine but for inactive lanes
					v[l] = 1000 + int64(l)*stride
					if m>>l&1 == 0 {
						v[l] = r.Int64()
						wild = true
					}
				default: // affine but for one
					v[l] = 1000 + int64(l)*stride
					if l == round%32 {
						v[l]++
					}
				}
			}
			var got, want Range
			lv.addresses(&got, &v, m, stride)
			plainAddresses(&want, &v, m, stride)
			require.Equal(t, want, got, "%s round %d mask %#x wild %v", lv.name, round, m, wild)
			check := func(name string, f, g func(d *[32]uint32)) {
				var x, y [32]uint32
				f(&x)
				g(&y)
				for l := range x {
					if m>>l&1 != 0 {
						require.Equal(t, y[l], x[l], "%s %s lane %d", lv.name, name, l)
					}
				}
			}
			check("gather8", func(d *[32]uint32) { lv.gather8(d, p, &v, m) }, func(d *[32]uint32) { plainGather8(d, p, &v, m) })
			check("gather16", func(d *[32]uint32) { lv.gather16(d, p, &v, m) }, func(d *[32]uint32) { plainGather16(d, p, &v, m) })
			check("gather32", func(d *[32]uint32) { lv.gather32(d, p, &v, m) }, func(d *[32]uint32) { plainGather32(d, p, &v, m) })
			var x, y [32]uint64
			lv.gather64(&x, p, &v, m)
			plainGather64(&y, p, &v, m)
			for l := range x {
				if m>>l&1 != 0 {
					require.Equal(t, y[l], x[l])
				}
			}
			m = 0xffffffff
			q := unsafe.Add(p, r.IntN(100))
			check("load8", func(d *[32]uint32) { lv.load8(d, q) }, func(d *[32]uint32) { plainLoad8(d, q) })
			check("load16", func(d *[32]uint32) { lv.load16(d, q) }, func(d *[32]uint32) { plainLoad16(d, q) })
			var lanes [32]uint32
			for l := range lanes {
				lanes[l] = r.Uint32()
			}
			var a, b [80]byte
			lv.store8(unsafe.Pointer(&a[3]), &lanes)
			plainStore8(unsafe.Pointer(&b[3]), &lanes)
			require.Equal(t, b, a)
			lv.store16(unsafe.Pointer(&a[3]), &lanes)
			plainStore16(unsafe.Pointer(&b[3]), &lanes)
			require.Equal(t, b, a)
		}
	}
}

func TestReduceAndMMA(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, lv := range levels {
		for range 100 {
			var v [32]uint32
			for l := range v {
				v[l] = math.Float32bits(float32(r.NormFloat64()))
			}
			m := r.Uint32() | 1
			require.Equal(t, plainReduceFAdd(&v, m), lv.reduceFAdd(&v, m), lv.name)
			v[r.IntN(32)] = 0x7fc00000
			x, y := plainReduceFMax(&v, m), lv.reduceFMax(&v, m)
			require.Equal(t, math.Float32bits(x), math.Float32bits(y), lv.name)
			var a, b, c, d, e [64]float32
			for i := range a {
				a[i], b[i], c[i] = float32(r.NormFloat64()), float32(r.NormFloat64()), float32(r.NormFloat64())
			}
			plainMMA(&d, &a, &b, &c)
			lv.mma(&e, &a, &b, &c)
			require.Equal(t, d, e, lv.name)
			e = a
			lv.mma(&e, &e, &b, &c)
			require.Equal(t, d, e, lv.name)
			e = b
			lv.mma(&e, &a, &e, &c)
			require.Equal(t, d, e, lv.name)
		}
	}
}

func BenchmarkSteps(b *testing.B) {
	var f frame
	for _, lv := range levels {
		for _, op := range []Op{Add32, FMA, Mul64, U32ToF, Select32, F16ToF, Exp, Rsqrt} {
			st := Lanes(op, slotD, slotA, slotB, slotC)
			if lv.has != nil && !lv.has[st.op] {
				continue
			}
			steps := make([]Step, 101)
			for i := range 100 {
				steps[i] = st
			}
			b.Run(lv.name+"/"+SignatureOf(op).Name, func(b *testing.B) {
				for b.Loop() {
					lv.run(&steps[0], f.base())
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/step")
			})
		}
	}
}

// TestMathLevels samples all float32 for the functions of libm that a level has:
// they must be libm's bit for bit.
func TestMathLevels(t *testing.T) {
	for _, lv := range levels {
		for op := Rsqrt; op <= Erf; op++ {
			st := [2]Step{Lanes(op, slotD, slotA, slotB, slotC), End}
			if lv.has == nil || !lv.has[st[0].op] {
				continue
			}
			var f frame
			in, out := (*[32]uint32)(unsafe.Add(f.base(), slotA)), (*[32]uint32)(unsafe.Add(f.base(), slotD))
			for b := uint64(0); b < 1<<32; b += 32 * 1031 {
				for l := range in {
					in[l] = uint32(b) + uint32(l)*1031
				}
				lv.run(&st[0], f.base())
				for l, x := range in {
					want := uint32(scalar[op](uint64(x), 0, 0))
					if want != out[l] && !sameResult(signatures[op], uint64(want), uint64(out[l])) {
						t.Fatalf("%s %s(%#x): got %#x, want %#x", lv.name, signatures[op].Name, x, out[l], want)
					}
				}
			}
		}
	}
}
