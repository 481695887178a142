package soft_test

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/metal/mtl/soft/interp"
	"minfer/metal/mtl/soft/san"
)

//go:embed testdata/bench.metal
var benchSource string

// workload is a launch with its reference.
type workload struct {
	kernel  string
	a, b    []byte
	outputs int      // float32 elements
	sizes   []uint32 // inline arguments behind the output, as bits
	grid    mtl.Size
	threads int
	work    float64 // multiply-adds; elements for rms_norm
	want    func(i int) (value, tolerance float64)
}

func floats(n int, seed uint64) ([]byte, []float32) {
	r := rand.New(rand.NewPCG(seed, 1))
	values := make([]float32, n)
	var data []byte
	for i := range values {
		values[i] = r.Float32()*2 - 1
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(values[i]))
	}
	return data, values
}

// quantized makes rows of q4_0 blocks with scales that are powers of two.
func quantized(rows, cols int) ([]byte, func(row, col int) float64) {
	r := rand.New(rand.NewPCG(9, 1))
	data := make([]byte, rows*cols/32*18)
	scales := make([]float64, rows*cols/32)
	for i := range scales {
		e := r.IntN(4)
		scales[i] = math.Ldexp(1, -e-3)
		binary.LittleEndian.PutUint16(data[18*i:], uint16(15-e-3)<<10)
		for j := range 16 {
			data[18*i+2+j] = byte(r.Uint32())
		}
	}
	return data, func(row, col int) float64 {
		i := (row*cols + col) / 32
		q := data[18*i+2+col%16] >> (4 * (col % 32 / 16)) & 15
		return scales[i] * (float64(q) - 8)
	}
}

// sumOf is a sum of n terms and how far a float32 sum of them in any order may
// be from it: n roundings, each at most half a unit of the sum of magnitudes.
func sumOf(n int, term func(i int) float64) (sum, tolerance float64) {
	magnitude := 0.0
	for i := range n {
		sum += term(i)
		magnitude += math.Abs(term(i))
	}
	return sum, float64(n+8) * 0x1p-24 * magnitude
}

func matvec(rows, cols int) *workload {
	w, weight := quantized(rows, cols)
	x, xs := floats(cols, 1)
	return &workload{
		kernel: "mul_mv_q4_0", a: w, b: x, outputs: rows, sizes: []uint32{uint32(cols), uint32(rows)},
		grid: mtl.Size{X: (rows + 7) / 8, Y: 1, Z: 1}, threads: 64, work: float64(rows * cols),
		want: func(row int) (float64, float64) {
			// The kernel takes 8 off the sum: the terms' magnitudes are those of q and 8.
			sum, _ := sumOf(cols, func(i int) float64 { return weight(row, i) * float64(xs[i]) })
			_, tolerance := sumOf(cols, func(i int) float64 { return 23 * 0x1p-3 * float64(xs[i]) })
			return sum, tolerance
		},
	}
}

func norm(rows, cols int) *workload {
	x, xs := floats(rows*cols, 2)
	w, ws := floats(cols, 3)
	return &workload{
		kernel: "rms_norm", a: x, b: w, outputs: rows * cols, sizes: []uint32{uint32(cols), math.Float32bits(1e-6)},
		grid: mtl.Size{X: rows, Y: 1, Z: 1}, threads: 256, work: float64(rows * cols),
		want: func(i int) (float64, float64) {
			row := xs[i/cols*cols : (i/cols+1)*cols]
			sum, _ := sumOf(cols, func(j int) float64 { return float64(row[j]) * float64(row[j]) })
			v := float64(xs[i]) * float64(ws[i%cols]) / math.Sqrt(sum/float64(cols)+1e-6)
			// The sum of squares is off by at most cols roundings, its root by half of
			// that, and six more operations round.
			return v, (float64(cols)/2 + 6) * 0x1p-24 * math.Abs(v)
		},
	}
}

func matmul(m, n, k int) *workload {
	a, as := floats(m*k, 4)
	b, bs := floats(k*n, 5)
	return &workload{
		kernel: "mul_mm", a: a, b: b, outputs: m * n, sizes: []uint32{uint32(n), uint32(k)},
		grid: mtl.Size{X: n / 32, Y: m / 64, Z: 1}, threads: 128, work: float64(m * n * k),
		want: func(i int) (float64, float64) {
			return sumOf(k, func(l int) float64 { return float64(as[i/n*k+l]) * float64(bs[l*n+i%n]) })
		},
	}
}

// launcher runs a workload again and again.
type launcher struct {
	d      *soft.Device
	launch mtl.Dispatch
	out    mtl.Buffer
	count  interp.Counters
}

func (w *workload) on(t testing.TB, mode san.Mode, threads int) *launcher {
	t.Helper()
	l := &launcher{}
	var err error
	l.d, err = soft.New(soft.Options{Mode: mode, Threads: threads, Deadline: time.Minute, Counters: func(_ *mtl.Dispatch, c interp.Counters) { l.count = c }})
	require.NoError(t, err)
	lib, err := l.d.Compile(context.Background(), mtl.Source{Name: "bench.metal", Text: benchSource, FastMath: true})
	require.NoError(t, err)
	p, err := lib.Pipeline(w.kernel, nil)
	require.NoError(t, err)
	buffer := func(label string, size int, data []byte) mtl.Buffer {
		b, err := l.d.NewBuffer(size, label)
		require.NoError(t, err)
		if data != nil {
			require.NoError(t, b.Write(0, data))
		}
		return b
	}
	a, b := buffer("a", len(w.a), w.a), buffer("b", len(w.b), w.b)
	l.out = buffer("out", 4*w.outputs, nil)
	l.launch = mtl.Dispatch{
		Label: w.kernel, Pipeline: p, Threadgroups: w.grid, ThreadsPerThreadgroup: mtl.Size{X: w.threads, Y: 1, Z: 1},
		Bindings: []mtl.Binding{
			{Index: 0, Buffer: a, Length: a.Size()}, {Index: 1, Buffer: b, Length: b.Size()},
			{Index: 2, Buffer: l.out, Length: l.out.Size(), Access: mtl.Output},
		},
	}
	for i, v := range w.sizes {
		l.launch.Bindings = append(l.launch.Bindings, mtl.Binding{Index: 3 + i, Bytes: binary.LittleEndian.AppendUint32(nil, v)})
	}
	return l
}

func (l *launcher) run(t testing.TB) {
	cb, err := l.d.NewCommandBuffer("bench")
	require.NoError(t, err)
	require.NoError(t, cb.Dispatch(l.launch))
	_, err = cb.Submit(context.Background())
	require.NoError(t, err)
}

func (l *launcher) result(t testing.TB) []byte {
	data := make([]byte, l.out.Size())
	require.NoError(t, l.out.Read(0, data))
	return data
}

// The kernels compute what they should, in every mode and for any number of
// threads the same bits and counters, and the sanitizer is silent.
func TestWorkloads(t *testing.T) {
	for _, w := range []*workload{matvec(64, 896), matvec(24, 96), norm(3, 896), norm(2, 77), matmul(128, 64, 48)} {
		var bits []byte
		var count interp.Counters
		for _, mode := range []san.Mode{san.Off, san.Mem, san.Race, san.Strict, san.Chaos} {
			for _, threads := range []int{1, 2, 5} {
				l := w.on(t, mode, threads)
				l.run(t)
				got := l.result(t)
				if bits == nil {
					bits, count = got, l.count
					for i := range w.outputs {
						want, tolerance := w.want(i)
						require.InDelta(t, want, math.Float32frombits(binary.LittleEndian.Uint32(got[4*i:])), tolerance, "%s, element %d", w.kernel, i)
					}
				}
				require.Equal(t, bits, got, "%s, mode %v, %d threads", w.kernel, mode, threads)
				require.Equal(t, count, l.count, "%s, mode %v, %d threads", w.kernel, mode, threads)
			}
		}
	}
}

// BenchmarkKernels states the speed of the whole device, from Metal text on.
// M/s counts multiply-adds (elements for rms_norm), ns/instr is the time of one
// instruction of one simdgroup.
func BenchmarkKernels(b *testing.B) {
	for _, w := range []*workload{matvec(4864, 896), norm(64, 896), matmul(896, 64, 896)} {
		for _, c := range []struct {
			mode    san.Mode
			threads int
		}{{san.Off, 1}, {san.Off, 2}, {san.Mem, 1}, {san.Race, 1}, {san.Strict, 1}} {
			b.Run(fmt.Sprintf("%s/%v/%d", w.kernel, c.mode, c.threads), func(b *testing.B) {
				l := w.on(b, c.mode, c.threads)
				l.run(b)
				for b.Loop() {
					l.run(b)
				}
				seconds := b.Elapsed().Seconds() / float64(b.N)
				b.ReportMetric(w.work/seconds/1e6, "M/s")
				b.ReportMetric(seconds*1e9/float64(l.count.Instructions), "ns/instr")
			})
		}
	}
}
