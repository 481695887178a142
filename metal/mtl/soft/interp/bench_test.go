package interp

import (
	"context"
	"encoding/binary"
	"flag"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl/soft/lane"
	"minfer/metal/mtl/soft/mem"
	"minfer/metal/mtl/soft/san"

	"github.com/stretchr/testify/require"
)

// floats makes a buffer of seeded values in [-1, 1).
func floats(n int, seed uint64) *mem.Buffer {
	b := mem.New(4*n, "floats")
	r := rand.New(rand.NewPCG(seed, 3))
	for i := range n {
		binary.LittleEndian.PutUint32(b.Data[4*i:], math.Float32bits(r.Float32()*2-1))
	}
	return b
}

func float(b *mem.Buffer, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b.Data[4*i:]))
}

func all(bs ...*mem.Buffer) []mem.Window {
	var ws []mem.Window
	for _, b := range bs {
		ws = append(ws, mem.Window{Buffer: b, Length: len(b.Data), Name: b.Label})
	}
	return ws
}

func q4Blocks(rows, cols int) *mem.Buffer {
	n := rows * cols / 32
	b := mem.New(n*18, "weights")
	r := rand.New(rand.NewPCG(5, 5))
	for i := range n {
		binary.LittleEndian.PutUint16(b.Data[18*i:], lane.F16(r.Float32()*0.1))
		for j := range 16 {
			b.Data[18*i+2+j] = byte(r.Uint32())
		}
	}
	return b
}

// bench is one launch with what counts as its work.
type bench struct {
	name  string
	p     *Program
	l     Launch
	work  float64 // multiply-adds, or elements
	bufs  []*mem.Buffer
	check func(t testing.TB)
}

func decode(t testing.TB, f *ir.Func) *Program {
	require.NoError(t, ir.Verify(f))
	p, err := Decode(f)
	require.NoError(t, err)
	return p
}

func benchMatvec(t testing.TB, rows, cols int) *bench {
	w, y, dst := q4Blocks(rows, cols), floats(cols, 1), mem.New(4*rows, "dst")
	b := &bench{name: "q4_0_matvec", p: decode(t, q4Matvec(rows, cols)), work: float64(rows * cols), bufs: []*mem.Buffer{w, y, dst}}
	b.l = Launch{Grid: [3]int{(rows + 7) / 8, 1, 1}, Threadgroup: [3]int{64, 1, 1}, Windows: all(w, y, dst), ThreadgroupBytes: make([]int, 3), Threads: 1}
	b.check = func(t testing.TB) {
		for r := range rows {
			want, scale := 0.0, 0.0
			for c := range cols {
				blk := w.Data[(r*cols+c)/32*18:]
				d := float64(lane.FromF16(binary.LittleEndian.Uint16(blk)))
				q := int(blk[2+c%16] >> (4 * (c % 32 / 16)) & 15)
				x := d * float64(q-8) * float64(float(y, c))
				want, scale = want+x, scale+math.Abs(x)
			}
			require.InDelta(t, want, float(dst, r), scale*2e-6, "row %d", r)
		}
	}
	return b
}

func benchNorm(t testing.TB, rows, cols int) *bench {
	x, w, dst := floats(rows*cols, 1), floats(cols, 2), mem.New(4*rows*cols, "dst")
	b := &bench{name: "rms_norm", p: decode(t, rmsNorm(cols)), work: float64(rows * cols), bufs: []*mem.Buffer{x, w, dst}}
	b.l = Launch{Grid: [3]int{rows, 1, 1}, Threadgroup: [3]int{256, 1, 1}, Windows: all(x, w, dst), ThreadgroupBytes: make([]int, 3), Threads: 1}
	b.check = func(t testing.TB) {
		for r := range rows {
			sum := 0.0
			for c := range cols {
				v := float64(float(x, r*cols+c))
				sum += v * v
			}
			scale := 1 / math.Sqrt(sum/float64(cols)+1e-6)
			for c := range cols {
				require.InDelta(t, float64(float(x, r*cols+c))*scale*float64(float(w, c)), float(dst, r*cols+c), 2e-6, "row %d col %d", r, c)
			}
		}
	}
	return b
}

func benchGemm(t testing.TB, m, n, k int) *bench {
	x, y, c := floats(m*k, 1), floats(k*n, 2), mem.New(4*m*n, "c")
	b := &bench{name: "gemm", p: decode(t, gemm(m, n, k)), work: float64(m * n * k), bufs: []*mem.Buffer{x, y, c}}
	b.l = Launch{Grid: [3]int{n / 32, m / 64, 1}, Threadgroup: [3]int{128, 1, 1}, Windows: all(x, y, c), ThreadgroupBytes: make([]int, 3), Threads: 1}
	b.check = func(t testing.TB) {
		for i := range m {
			for j := range n {
				want := float32(0)
				for l := range k {
					want = lane.FMA1(float(x, i*k+l), float(y, l*n+j), want)
				}
				require.Equal(t, want, float(c, i*n+j), "element %d, %d", i, j)
			}
		}
	}
	return b
}

// under makes a launch's run under the sanitizer.
func (b *bench) under(mode san.Mode) (*san.Checker, *san.Run) {
	c := san.New(mode, san.Options{})
	d := &san.Dispatch{Kernel: b.p.f, Threadgroups: b.l.Grid, Threads: b.l.Threadgroup, ThreadgroupBytes: []int{}}
	for i, buf := range b.bufs {
		buf.San = san.NewBuffer(buf.Label, len(buf.Data))
		if i != 2 {
			buf.San.Define(0, len(buf.Data))
		}
		d.Bindings = append(d.Bindings, san.Binding{Param: i, Buffer: buf.San, Length: len(buf.Data)})
	}
	c.BeginInterval([]*san.Dispatch{d})
	return c, c.Begin(d, b.l.Threads)
}

func (b *bench) run(t testing.TB, mode san.Mode) (Counters, *san.Report) {
	l := b.l
	var c *san.Checker
	if mode != san.Off {
		c, l.San = b.under(mode)
	}
	n, err := b.p.Run(context.Background(), &l)
	require.NoError(t, err)
	if c == nil {
		return n, nil
	}
	l.San.End()
	c.Finish()
	return n, c.Report()
}

func TestBenchKernels(t *testing.T) {
	for _, b := range []*bench{benchMatvec(t, 64, 896), benchMatvec(t, 16, 96), benchNorm(t, 3, 896), benchGemm(t, 128, 64, 96)} {
		for mode := san.Off; mode <= san.Strict; mode++ {
			t.Run(b.name+"/"+mode.String(), func(t *testing.T) {
				for i := range b.bufs[2].Data {
					b.bufs[2].Data[i] = 0xff
				}
				_, rep := b.run(t, mode)
				b.check(t)
				if rep != nil {
					require.Empty(t, rep.Findings)
				}
			})
		}
	}
}

var benchLevel = flag.String("level", lane.Level(), "instruction set of the benchmarks: "+strings.Join(lane.Levels(), ", "))

func BenchmarkKernels(b *testing.B) {
	defer lane.Use(lane.Use(*benchLevel))
	for _, k := range append(sourceBenches(b), benchMatvec(b, 4864, 896), benchNorm(b, 64, 896), benchGemm(b, 896, 64, 896)) {
		for _, mode := range []san.Mode{san.Off, san.Mem, san.Race, san.Strict} {
			for _, threads := range []int{1, 2} {
				if threads == 2 && mode != san.Off {
					continue
				}
				b.Run(k.name+"/"+mode.String()+"/"+string(rune('0'+threads)), func(b *testing.B) {
					k.l.Threads = threads
					var n Counters
					cpu := cpuTime()
					for b.Loop() {
						n, _ = k.run(b, mode)
					}
					sec := b.Elapsed().Seconds() / float64(b.N)
					b.ReportMetric(k.work/sec/1e6, "M/s")
					b.ReportMetric(sec*1e9/float64(n.Instructions), "ns/instr")
					sec = (cpuTime() - cpu).Seconds() / float64(b.N)
					b.ReportMetric(k.work/sec/1e6, "M/cpu-s")
				})
			}
		}
	}
}

// BenchmarkPoisoned is the matrix-vector product with an undefined value around.
func BenchmarkPoisoned(b *testing.B) {
	k := benchMatvec(b, 4864, 896)
	f := k.p.f
	undef := &ir.Instr{Op: ir.Undef, Res: []ir.Value{f.NewValue(ir.F32)}}
	f.Body.Instrs = append([]*ir.Instr{undef}, f.Body.Instrs...)
	k.p = decode(b, f)
	cpu := cpuTime()
	for b.Loop() {
		k.run(b, san.Mem)
	}
	b.ReportMetric(k.work*float64(b.N)/(cpuTime()-cpu).Seconds()/1e6, "M/cpu-s")
}
