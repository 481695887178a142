package cuda

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"minfer/metal/msl/ir"

	"github.com/stretchr/testify/require"
)

// What needs a GPU runs with -cuda and is skipped without; on a machine without
// a Go toolchain, from a binary of go test -c beside testdata:
//
//	./cuda.test -test.v -cuda -nvrtc /usr/local/cuda/lib64/libnvrtc.so.13 -results out.json
var (
	onGPU       = flag.Bool("cuda", false, "run kernels on the first GPU and compare with the software device")
	resultsPath = flag.String("results", "", "file for what -cuda measured, as JSON")
)

// difference is what a comparison of one result found.
type difference struct {
	Name string `json:"name"`
	// Elements were compared; Different have other bits, NaNs of any payload counting
	// as one; Payload are NaNs with other bits.
	Elements  int    `json:"elements"`
	Different int    `json:"different"`
	Payload   int    `json:"nan_payload"`
	MaxBits   uint64 `json:"max_bits_apart"`
	First     string `json:"first,omitempty"`
}

func get(b []byte, t ir.Type) uint64 {
	switch t.Size() {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

// compare holds outputs against each other, result by result.
func (c *launchCase) compare(wants, haves [][]byte) []difference {
	list := c.compareResults(wants, haves)
	which := c.written()
	for _, k := range which[:len(which)-1] {
		d := difference{Name: c.name + ": argument " + c.f.Params[k].Name, Elements: len(wants[k])}
		for i, x := range wants[k] {
			if y := haves[k][i]; x != y {
				d.Different++
				d.MaxBits = max(d.MaxBits, uint64(max(x, y)-min(x, y)))
				if d.First == "" {
					d.First = fmt.Sprintf("byte %d: GPU 0x%x, software 0x%x", i, y, x)
				}
			}
		}
		list = append(list, d)
	}
	return list
}

func (c *launchCase) compareResults(wants, haves [][]byte) []difference {
	which := c.written()
	want, have := wants[which[len(which)-1]], haves[which[len(which)-1]]
	n := len(want) / c.slot / len(c.outs)
	var list []difference
	for k, t := range c.outs {
		d := difference{Name: c.name, Elements: n}
		if c.names != nil {
			d.Name += ": " + c.names[k]
		}
		for i := range n {
			at := (k*n + i) * c.slot
			x, y := get(want[at:], t), get(have[at:], t)
			if x == y {
				continue
			}
			if t.IsFloat() {
				if f, g := t.Float(x), t.Float(y); f != f && g != g {
					d.Payload++
					continue
				}
			}
			d.Different++
			apart := max(x, y) - min(x, y)
			d.MaxBits = max(d.MaxBits, apart)
			if d.First == "" {
				d.First = fmt.Sprintf("element %d: GPU 0x%x, software 0x%x", i, y, x)
			}
		}
		list = append(list, d)
	}
	return list
}

// The cases themselves run on the software device and give something, the same
// each time, and the comparison sees one changed bit.
func TestCasesRun(t *testing.T) {
	for _, c := range allCases(t, true) {
		out, _ := c.soft(t)
		again, _ := c.soft(t)
		for _, d := range c.compare(out, again) {
			require.Zero(t, d.Different, d.Name)
		}
		for _, k := range c.written() {
			require.NotEqual(t, c.args[k], out[k], "%s: argument %d", c.name, k)
			again[k][0] ^= 1
		}
		different := 0
		for _, d := range c.compare(out, again) {
			different += d.Different
		}
		require.Equal(t, len(c.written()), different, c.name)
	}
}

type measured struct {
	Case      string  `json:"case"`
	Kernel    string  `json:"kernel"`
	CompileMS float64 `json:"compile_ms"`
	Registers int     `json:"registers"`
	Local     int     `json:"local_bytes"`
	GPUus     float64 `json:"gpu_us"`
	SoftMS    float64 `json:"soft_ms"`
	Bytes     int     `json:"argument_bytes"`
}

// gpu is what TestGPU runs on.
type gpu struct {
	d *Driver
	c *Compiler
}

// run compiles a text of a case's kernel, launches it and gives what its
// arguments hold then.
func (g gpu) run(t *testing.T, lc *launchCase, src *Source) ([][]byte, measured) {
	t.Helper()
	m := measured{Case: lc.name, Kernel: lc.f.Name}
	major, minor := g.d.Capability()
	start := time.Now()
	cubin, err := g.c.Compile(src, major, minor)
	require.NoError(t, err)
	m.CompileMS = float64(time.Since(start).Microseconds()) / 1e3
	k, err := g.d.Load(src, cubin)
	require.NoError(t, err)
	defer k.Unload()
	m.Registers, m.Local = k.Registers, k.LocalBytes
	l := Launch{Grid: lc.grid, Ragged: lc.ragged, Threadgroup: lc.tg, ThreadgroupBytes: lc.tgSize, Offsets: make([]int, len(lc.args))}
	for _, a := range lc.args {
		var x *Memory
		if a != nil {
			x, err = g.d.Alloc(len(a))
			require.NoError(t, err)
			defer x.Free()
			require.NoError(t, x.Write(0, a))
			m.Bytes += len(a)
		}
		l.Args = append(l.Args, x)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	took, err := k.Launch(ctx, l)
	require.NoError(t, err)
	if lc.repeat > 0 {
		l.Repeat = lc.repeat
		took, err = k.Launch(ctx, l)
		require.NoError(t, err)
		took /= time.Duration(lc.repeat)
	}
	m.GPUus = float64(took.Nanoseconds()) / 1e3
	have := make([][]byte, len(lc.args))
	for _, k := range lc.written() {
		have[k] = make([]byte, len(lc.args[k]))
		require.NoError(t, l.Args[k].Read(0, have[k]))
	}
	return have, m
}

func openGPU(t *testing.T) gpu {
	t.Helper()
	if !*onGPU {
		t.Skip("SKIPPED: nothing ran on a GPU; -cuda asks for it")
	}
	d, err := OpenDriver(0)
	require.NoError(t, err)
	c, err := OpenCompiler(*nvrtcPath)
	require.NoError(t, err)
	major, minor := d.Capability()
	t.Logf("GPU %s, %d multiprocessors, capability %d.%d, driver %s, compiler %s", d.Name(), d.attrs.multiprocessors, major, minor, d.Version(), c.Version())
	return gpu{d, c}
}

// TestGPU runs every case on the GPU and wants the software device's bits.
func TestGPU(t *testing.T) {
	g := openGPU(t)
	defer g.d.Close()
	var results struct {
		GPU, Driver, Compiler string
		Measured              []measured
		Compared              []difference
	}
	results.GPU, results.Driver, results.Compiler = g.d.Name(), g.d.Version(), g.c.Version()
	defer func() {
		if *resultsPath == "" {
			return
		}
		b, err := json.MarshalIndent(&results, "", " ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(*resultsPath, b, 0o644))
	}()
	for _, lc := range allCases(t, false) {
		t.Run(lc.name, func(t *testing.T) {
			src, err := Emit(lc.f, Options{})
			require.NoError(t, err)
			have, m := g.run(t, lc, src)
			want, soft := lc.soft(t)
			m.SoftMS = float64(soft.Microseconds()) / 1e3
			results.Measured = append(results.Measured, m)
			found := lc.compare(want, have)
			results.Compared = append(results.Compared, found...)
			elements, different, payload := 0, 0, 0
			for _, x := range found {
				elements += x.Elements
				different += x.Different
				payload += x.Payload
				if x.Different > 0 {
					t.Errorf("%s: %d of %d differ, up to %d apart as integers; %s", x.Name, x.Different, x.Elements, x.MaxBits, x.First)
				}
			}
			t.Logf("%d results, %d different, %d NaN payloads different; GPU %.1f us, software %.1f ms, compiled in %.0f ms, %d registers, %d bytes local",
				elements, different, payload, m.GPUus, m.SoftMS, m.CompileMS, m.Registers, m.Local)
		})
	}
}

// TestGPUStops launches kernels that never end and wants the launch to end at its
// deadline, the kernels to stop, and the GPU to go on.
func TestGPUStops(t *testing.T) {
	g := openGPU(t)
	defer g.d.Close()
	major, minor := g.d.Capability()
	for _, tg := range []int{1, 96, 1024} {
		f := specialize(t, "lanes.metal", "forever")
		src, err := Emit(f, Options{Poll: true})
		require.NoError(t, err)
		cubin, err := g.c.Compile(src, major, minor)
		require.NoError(t, err)
		k, err := g.d.Load(src, cubin)
		require.NoError(t, err)
		x, err := g.d.Alloc(8)
		require.NoError(t, err)
		require.NoError(t, x.Fill(0))
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		start := time.Now()
		_, err = k.Launch(ctx, Launch{Grid: [3]int{400, 1, 1}, Threadgroup: [3]int{tg, 1, 1}, Args: []*Memory{x}, Offsets: []int{0}, ThreadgroupBytes: []int{0}})
		cancel()
		took := time.Since(start)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "kernel forever")
		require.Less(t, took, 2*time.Second)
		t.Logf("%d threads: ended %.1f ms after the start", tg, took.Seconds()*1e3)
		// What the kernel waits for lets it end: the GPU works on.
		require.NoError(t, x.Write(0, words(1)))
		_, err = k.Launch(context.Background(), Launch{Grid: [3]int{1, 1, 1}, Threadgroup: [3]int{tg, 1, 1}, Args: []*Memory{x}, Offsets: []int{0}, ThreadgroupBytes: []int{0}})
		require.NoError(t, err)
		require.NoError(t, x.Free())
		require.NoError(t, k.Unload())
	}
}

// TestGPUCosts measures what polls cost, and an empty launch.
func TestGPUCosts(t *testing.T) {
	g := openGPU(t)
	defer g.d.Close()
	for _, lc := range append(mainCases(t, false), mainCases(t, true)[0]) {
		lc.tgSize = make([]int, len(lc.args))
		for _, o := range []Options{{}, {Poll: true}} {
			src, err := Emit(lc.f, o)
			require.NoError(t, err)
			lc.repeat = 200
			_, m := g.run(t, lc, src)
			t.Logf("%s: polls %v: %.2f us, %d registers", lc.name, o.Poll, m.GPUus, m.Registers)
		}
	}
}

// TestGPUPlanted puts one fault at a time into the emitted text and wants the
// comparison to see it.
func TestGPUPlanted(t *testing.T) {
	g := openGPU(t)
	defer g.d.Close()
	cases := map[string]*launchCase{}
	for _, lc := range allCases(t, true) {
		cases[lc.f.Name] = lc
	}
	for _, p := range []struct{ name, kernel, from, to string }{
		{"product rounded before the sum", "mul_mv_q4_0", "return __fmaf_rn(a, b, c);", "return __fadd_rn(__fmul_rn(a, b), c);"},
		{"reduction tree upside down", "simd_f32", "for (u32 s = 16; s > 0; s /= 2)", "for (u32 s = 1; s < 32; s *= 2)"},
		{"shuffle by another distance", "positions", "i + d >= (s32)group ? i : i + d", "i + d > (s32)group ? i : i + d"},
		{"half rounded toward zero", "arith_f16", "cvt.rn.f16.f32", "cvt.rz.f16.f32"},
		{"coefficient of a polynomial", "arith_f32", "1.0 / 720;", "1.0 / 721;"},
	} {
		t.Run(p.name, func(t *testing.T) {
			lc := cases[p.kernel]
			src, err := Emit(lc.f, Options{})
			require.NoError(t, err)
			bad := *src
			bad.Text = strings.Replace(src.Text, p.from, p.to, 1)
			require.NotEqual(t, src.Text, bad.Text)
			have, _ := g.run(t, lc, &bad)
			want, _ := lc.soft(t)
			different := 0
			for _, x := range lc.compare(want, have) {
				different += x.Different
			}
			require.NotZero(t, different)
			t.Logf("%d results differ", different)
		})
	}
}
