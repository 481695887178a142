package lane

import "unsafe"

//go:generate go run ./gen/asm -level AVX512 -out avx512_amd64.s -stubs avx512_amd64.go -pkg lane
//go:generate go run ./gen/asm -level AVX2 -out avx2_amd64.s -stubs avx2_amd64.go -pkg lane

// Step is one operation in a frame. Operands are byte offsets of the frame; those
// that the operation lacks are 0.
type Step struct {
	op         uint32
	D, A, B, C uint32
}

// End is the step behind the last.
var End Step

// Lanes makes the step that computes o for 32 lanes.
func Lanes(o Op, d, a, b, c uint32) Step { return Step{uint32(o), d, a, b, c} }

// Once makes the step that computes o's scalar form.
func Once(o Op, d, a, b, c uint32) Step { return Step{uint32(NumOps + o), d, a, b, c} }

// Fast tells whether Run has a form of the step that beats a call of Func or
// Scalar from Go.
func (s Step) Fast() bool {
	if level.has == nil {
		return s.op < 2*uint32(NumOps)
	}
	return level.has[s.op]
}

// Run executes steps up to the first End in the frame at base. Every step must be
// Fast.
func Run(steps *Step, base unsafe.Pointer) { level.run(steps, base) }

// plainRun is Run in plain Go.
func plainRun(s *Step, base unsafe.Pointer) {
	for s.op != 0 {
		plainStep(s, base)
		s = (*Step)(unsafe.Add(unsafe.Pointer(s), unsafe.Sizeof(*s)))
	}
}

func plainStep(s *Step, base unsafe.Pointer) {
	d, a, b, c := unsafe.Add(base, s.D), unsafe.Add(base, s.A), unsafe.Add(base, s.B), unsafe.Add(base, s.C)
	if s.op < uint32(NumOps) {
		plain[s.op](d, a, b, c)
		return
	}
	*(*uint64)(d) = scalar[s.op-uint32(NumOps)](*(*uint64)(a), *(*uint64)(b), *(*uint64)(c))
}

// functions are the forms of everything at one instruction set level.
type functions struct {
	name string
	run  func(steps *Step, base unsafe.Pointer)
	has  *[numSteps]bool // nil: all of Op

	addresses  func(r *Range, v *[32]int64, m uint32, stride int64)
	load8      func(d *[32]uint32, p unsafe.Pointer)
	load16     func(d *[32]uint32, p unsafe.Pointer)
	store8     func(p unsafe.Pointer, s *[32]uint32)
	store16    func(p unsafe.Pointer, s *[32]uint32)
	gather8    func(d *[32]uint32, p unsafe.Pointer, v *[32]int64, m uint32)
	gather16   func(d *[32]uint32, p unsafe.Pointer, v *[32]int64, m uint32)
	gather32   func(d *[32]uint32, p unsafe.Pointer, v *[32]int64, m uint32)
	gather64   func(d *[32]uint64, p unsafe.Pointer, v *[32]int64, m uint32)
	reduceFAdd func(v *[32]uint32, m uint32) float32
	reduceFMax func(v *[32]uint32, m uint32) float32
	mma        func(d, a, b, c *[64]float32)
}

var generic = functions{
	name: "generic", run: plainRun, addresses: plainAddresses,
	load8: plainLoad8, load16: plainLoad16, store8: plainStore8, store16: plainStore16,
	gather8: plainGather8, gather16: plainGather16, gather32: plainGather32, gather64: plainGather64,
	reduceFAdd: plainReduceFAdd, reduceFMax: plainReduceFMax, mma: plainMMA,
}

// level is the best that this CPU has; levels are all that it has, best first.
var (
	levels = append(native(), &generic)
	level  = levels[0]
)

// Level names the instruction set in use: avx512, avx2 or generic.
func Level() string { return level.name }

// Levels names all that this CPU has, best first.
func Levels() []string {
	var names []string
	for _, l := range levels {
		names = append(names, l.name)
	}
	return names
}

// Use sets the level for tests and measurements and gives the one before. Steps
// that were asked whether they are Fast at one level must not run at another, so
// nothing else may use the package meanwhile. An unknown name changes nothing.
func Use(name string) string {
	old := level.name
	for _, l := range levels {
		if l.name == name {
			level = l
		}
	}
	return old
}

// Merge32 is d = mask ? x : d.
func Merge32(d *[32]uint32, m uint32, x *[32]uint32) {
	for l := range d {
		if m>>l&1 != 0 {
			d[l] = x[l]
		}
	}
}

// Addresses describes the addresses in v of the lanes in m, which must not be 0,
// for a stride.
func Addresses(r *Range, v *[32]int64, m uint32, stride int64) { level.addresses(r, v, m, stride) }

// Load8 and Load16 widen 32 consecutive elements at p.
func Load8(d *[32]uint32, p unsafe.Pointer) { level.load8(d, p) }

// Load16 is described at Load8.
func Load16(d *[32]uint32, p unsafe.Pointer) { level.load16(d, p) }

// Store8 and Store16 write 32 consecutive elements at p.
func Store8(p unsafe.Pointer, s *[32]uint32) { level.store8(p, s) }

// Store16 is described at Store8.
func Store16(p unsafe.Pointer, s *[32]uint32) { level.store16(p, s) }

// Gather8, Gather16, Gather32 and Gather64 read one element at p + v[l] for each
// lane in m; the others get anything. The first two may read 4 bytes there.
func Gather8(d *[32]uint32, p unsafe.Pointer, v *[32]int64, m uint32) { level.gather8(d, p, v, m) }

// Gather16 is described at Gather8.
func Gather16(d *[32]uint32, p unsafe.Pointer, v *[32]int64, m uint32) { level.gather16(d, p, v, m) }

// Gather32 is described at Gather8.
func Gather32(d *[32]uint32, p unsafe.Pointer, v *[32]int64, m uint32) { level.gather32(d, p, v, m) }

// Gather64 is described at Gather8.
func Gather64(d *[32]uint64, p unsafe.Pointer, v *[32]int64, m uint32) { level.gather64(d, p, v, m) }

// ReduceFAdd sums the lanes in m: lane i with i^16, then i^8, i^4, i^2, i^1.
func ReduceFAdd(v *[32]uint32, m uint32) float32 { return level.reduceFAdd(v, m) }

// ReduceFMax is the largest of the lanes in m.
func ReduceFMax(v *[32]uint32, m uint32) float32 { return level.reduceFMax(v, m) }

// MMA is d = a*b + c of 8x8 matrices in rows: for each element one fused
// multiply-add after another, k = 0 to 7, on top of c. d may be any operand.
func MMA(d, a, b, c *[64]float32) { level.mma(d, a, b, c) }
