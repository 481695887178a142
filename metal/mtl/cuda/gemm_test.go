package cuda_test

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/metal/kernels"
	"minfer/metal/mtl"
	"minfer/metal/mtl/cuda"
)

var (
	gemmTypes  = flag.String("gemm-types", "q4_0,q4_k,q6_k,f16,f32", "weight types that TestGPUGEMM times")
	gemmTokens = flag.String("gemm-tokens", "2,4,8,16,32,64,128,512,2048", "numbers of tokens that TestGPUGEMM times")
	gemmShapes = flag.String("gemm-shapes", "18944x3584,3584x18944,3584x3584,512x3584,4864x896,896x4864,896x896", "outputs and lengths of sums that TestGPUGEMM times")
	attnFiles  = flag.String("attn-files", "", "files that TestGPUPrefillAttention takes one after the other in the place of attn_prefill_flash.metal")
	gemmFiles  = flag.String("gemm-files", "", "files that TestGPUGEMM takes one after the other in the place of mul_mm.metal")
)

func openDevice(t *testing.T) *cuda.Device {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	d, err := cuda.Open(cuda.DeviceOptions{Compiler: flag.Lookup("nvrtc").Value.String(), Cache: cache + "/minfer/cuda"})
	require.NoError(t, err)
	return d
}

// TestGPUGEMM times products of many tokens in both tiers at the shapes of models
// of 7B and 0.5B parameters.
func TestGPUGEMM(t *testing.T) {
	if flag.Lookup("cuda").Value.String() != "true" {
		t.Skip("SKIPPED: nothing ran on a GPU; -cuda asks for it")
	}
	d := openDevice(t)
	defer d.Close()
	numbers := func(s, sep string) []int {
		var list []int
		for _, f := range strings.Split(s, sep) {
			n, err := strconv.Atoi(f)
			require.NoError(t, err)
			list = append(list, n)
		}
		return list
	}
	compile := func(name, text string) mtl.Library {
		lib, err := d.Compile(context.Background(), mtl.Source{Name: name, Text: text, Include: kernels.FS, FastMath: true, ProductError: 0x1p-15})
		require.NoError(t, err)
		return lib
	}
	source := func(name string) string {
		text, err := fs.ReadFile(kernels.FS, name)
		require.NoError(t, err)
		return string(text)
	}
	const total = 1 << 30
	buffer := func(n int) mtl.Buffer {
		b, err := d.NewBuffer(n, "b")
		require.NoError(t, err)
		return b
	}
	weights, out, values := buffer(total), buffer(4*2048*18944), buffer(4*2048*18944)
	r := rand.New(rand.NewPCG(1, 2))
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(r.Uint32()) & 0x3f // no float of these bytes is infinite
	}
	for off := 0; off < total; off += len(block) {
		require.NoError(t, weights.Write(off, block))
	}
	for i := 0; i < len(block); i += 4 {
		binary.LittleEndian.PutUint32(block[i:], math.Float32bits(float32(r.NormFloat64())))
	}
	for off := 0; off+len(block) <= 4*2048*18944; off += len(block) {
		require.NoError(t, values.Write(off, block))
	}
	u32 := func(v ...int) []byte {
		var b []byte
		for _, x := range v {
			b = binary.LittleEndian.AppendUint32(b, uint32(x))
		}
		return b
	}
	blocks := map[string][2]int{"q4_0": {32, 18}, "q4_1": {32, 20}, "q5_0": {32, 22}, "q5_1": {32, 24}, "q8_0": {32, 34},
		"q4_k": {256, 144}, "q5_k": {256, 176}, "q6_k": {256, 210}, "f16": {1, 2}, "bf16": {1, 2}, "f32": {1, 4}}
	constant := func(text, name string) int {
		m := regexp.MustCompile(`constant constexpr uint ` + name + ` = (\d+);`).FindStringSubmatch(text)
		require.NotNil(t, m, name)
		return numbers(m[1], ",")[0]
	}
	timed := func(kind, typ string, p *cuda.Pipeline, rows, tokens, threads int, grouped func(m, n int) mtl.Size) {
		b := blocks[typ]
		for _, s := range strings.Split(*gemmShapes, ",") {
			mk := numbers(s, "x")
			m, k := mk[0], mk[1]
			if k%b[0] != 0 {
				continue
			}
			line := ""
			for _, n := range numbers(*gemmTokens, ",") {
				if kind == "multi" && n > 128 {
					continue
				}
				size := m * k / b[0] * b[1]
				repeat := max(1, min(8, total/size, int(2e11/(float64(m)*float64(k)*float64(n)))))
				best := time.Hour
				for range 3 {
					cb, err := d.NewCommandBuffer("timed")
					require.NoError(t, err)
					for i := range repeat {
						require.NoError(t, cb.Dispatch(mtl.Dispatch{Label: kind, Pipeline: p, Bindings: []mtl.Binding{
							{Index: 0, Buffer: weights, Offset: (i * size) &^ 255, Length: size}, {Index: 1, Buffer: values, Length: 4 * k * n},
							{Index: 2, Buffer: values, Length: 4}, {Index: 3, Buffer: out, Length: 4 * m * n, Access: mtl.Output},
							{Index: 4, Bytes: u32(k, m, n, 0)},
						}, Threadgroups: grouped(m, n), ThreadsPerThreadgroup: mtl.Size{X: threads, Y: 1, Z: 1}}))
						cb.Barrier()
					}
					timing, err := cb.Submit(context.Background())
					require.NoError(t, err)
					best = min(best, timing.GPU)
				}
				us := best.Seconds() * 1e6 / float64(repeat)
				line += fmt.Sprintf(" %d: %.0f us %.2f TFLOP/s;", n, us, 2*float64(m)*float64(k)*float64(n)/us/1e6)
			}
			t.Logf("%-5s %-5s %6dx%-5d (%d registers, %d local)%s", typ, kind, m, k, p.Registers(), p.LocalBytes(), line)
		}
	}
	types := strings.Split(*gemmTypes, ",")
	pipeline := func(l mtl.Library, kernel string) *cuda.Pipeline {
		p, err := l.Pipeline(kernel, nil)
		require.NoError(t, err)
		return p.(*cuda.Pipeline)
	}
	for _, file := range strings.Split(*gemmFiles, ",") {
		text := source("mul_mm.metal")
		if file != "" {
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			text = string(b)
		}
		t.Logf("%s %s", file, text[:strings.Index(text, "\n")])
		rows, tokens := constant(text, "ROWS"), constant(text, "TOKENS")
		threads := constant(text, "THREADS")
		lib := compile("mul_mm.metal", text)
		for _, typ := range types {
			timed("gemm", typ, pipeline(lib, fmt.Sprintf("kernel_mul_mat_%s_gemm", typ)), rows, tokens, threads, func(m, n int) mtl.Size {
				return mtl.Size{X: (m + rows - 1) / rows, Y: (n + tokens - 1) / tokens, Z: 1}
			})
		}
	}
	lib := compile("mul_mat.metal", source("mul_mat.metal"))
	for _, typ := range types {
		timed("multi", typ, pipeline(lib, fmt.Sprintf("kernel_mul_mat_%s_multi", typ)), 2, 0, 64, func(m, n int) mtl.Size {
			return mtl.Size{X: (m + 1) / 2, Y: 1, Z: 1}
		})
	}
}

// TestGPUPrefillAttention times attention of whole prompts at the shapes of models
// of 7B and 0.5B parameters.
func TestGPUPrefillAttention(t *testing.T) {
	if flag.Lookup("cuda").Value.String() != "true" {
		t.Skip("SKIPPED: nothing ran on a GPU; -cuda asks for it")
	}
	d := openDevice(t)
	defer d.Close()
	text, err := fs.ReadFile(kernels.FS, "attn_prefill_flash.metal")
	require.NoError(t, err)
	for _, file := range strings.Split(*attnFiles, ",") {
		source := string(text)
		if file != "" {
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			source = string(b)
		}
		lib, err := d.Compile(context.Background(), mtl.Source{Name: "attn_prefill_flash.metal", Text: source, Include: kernels.FS, FastMath: true})
		require.NoError(t, err)
		rows := 32
		if m := regexp.MustCompile(`#define ROWS (\d+)`).FindStringSubmatch(source); m != nil {
			rows, err = strconv.Atoi(m[1])
			require.NoError(t, err)
		}
		for _, s := range []struct{ heads, kv, dim int }{{28, 4, 128}, {14, 2, 64}} {
			p, err := lib.Pipeline(fmt.Sprintf("kernel_attn_prefill_flash_f16_%d", s.dim), nil)
			require.NoError(t, err)
			for _, n := range []int{128, 512, 2048} {
				buffer := func(size int, fill func(i int) uint32) mtl.Buffer {
					b, err := d.NewBuffer(size, "b")
					require.NoError(t, err)
					data := make([]byte, size)
					for i := 0; i < size; i += 4 {
						binary.LittleEndian.PutUint32(data[i:], fill(i/4))
					}
					require.NoError(t, b.Write(0, data))
					return b
				}
				r := rand.New(rand.NewPCG(1, 2))
				q := buffer(4*n*s.heads*s.dim, func(int) uint32 { return math.Float32bits(float32(r.NormFloat64())) })
				k := buffer(2*n*s.kv*s.dim, func(int) uint32 { return r.Uint32() & 0xbbffbbff }) // halves below 1
				pos := buffer(4*n, func(i int) uint32 { return uint32(i) })
				out := buffer(4*n*s.heads*s.dim, func(int) uint32 { return 0 })
				params := binary.LittleEndian.AppendUint32(nil, uint32(n))
				for _, v := range []uint32{uint32(s.heads), uint32(s.kv), uint32(n), math.Float32bits(0.1)} {
					params = binary.LittleEndian.AppendUint32(params, v)
				}
				const repeat = 4
				best := time.Hour
				for range 3 {
					cb, err := d.NewCommandBuffer("timed")
					require.NoError(t, err)
					for range repeat {
						require.NoError(t, cb.Dispatch(mtl.Dispatch{Label: "attention", Pipeline: p, Bindings: []mtl.Binding{
							{Index: 0, Buffer: q, Length: q.Size()}, {Index: 1, Buffer: k, Length: k.Size()}, {Index: 2, Buffer: k, Length: k.Size()},
							{Index: 3, Buffer: pos, Length: pos.Size()}, {Index: 4, Buffer: out, Length: out.Size(), Access: mtl.Output}, {Index: 5, Bytes: params},
						}, Threadgroups: mtl.Size{X: (n*(s.heads/s.kv) + rows - 1) / rows, Y: s.kv, Z: 1}, ThreadsPerThreadgroup: mtl.Size{X: rows * 4, Y: 1, Z: 1}}))
						cb.Barrier()
					}
					timing, err := cb.Submit(context.Background())
					require.NoError(t, err)
					best = min(best, timing.GPU)
				}
				us := best.Seconds() * 1e6 / repeat
				t.Logf("%s attention %d heads of %d, %d tokens: %.0f us, %.2f TFLOP/s of those it needs (%d registers, %d local)", file, s.heads, s.dim, n, us,
					2*float64(n)*float64(n+1)*float64(s.heads*s.dim)/us/1e6, p.(*cuda.Pipeline).Registers(), p.(*cuda.Pipeline).LocalBytes())
				for _, b := range []mtl.Buffer{q, k, pos, out} {
					b.Release()
				}
			}
		}
	}
}
