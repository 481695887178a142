package cuda_test

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/metal"
	"minfer/metal/kernels"
	"minfer/metal/mtl"
	"minfer/metal/mtl/cuda"
)

var sweepPath = flag.String("sweep", "", "file of kernels v_TYPE_rROWS_ANYTHING, of ROWS rows to a threadgroup, that TestGPUBandwidth times instead of the backend's, with one to six simdgroups to a threadgroup")

// readKernel sums words, so that the memory is read and the result depends on it.
const readKernel = `#include <metal_stdlib>
using namespace metal;
kernel void read_all(device const uint4 *x [[buffer(0)]], device uint *y [[buffer(1)]], constant uint &n [[buffer(2)]],
                     uint i [[thread_position_in_grid]], uint all [[threads_per_grid]], uint lane [[thread_index_in_simdgroup]]) {
    uint4 s = 0;
    for (; i + 3 * all < n; i += 4 * all) {
        const uint4 a = x[i], b = x[i + all], c = x[i + 2 * all], d = x[i + 3 * all];
        s += (a ^ b) + (c ^ d);
    }
    for (; i < n; i += all) {
        s += x[i];
    }
    const uint t = simd_sum(s.x + s.y + s.z + s.w);
    if (lane == 0 && t == 12345) {
        y[0] = t;
    }
}
`

// TestGPUBandwidth times the single-token products at the shapes of a model of 7B
// parameters, over more weights than the caches hold, beside a kernel that reads.
func TestGPUBandwidth(t *testing.T) {
	if flag.Lookup("cuda").Value.String() != "true" {
		t.Skip("SKIPPED: nothing ran on a GPU; -cuda asks for it")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	d, err := cuda.Open(cuda.DeviceOptions{Compiler: flag.Lookup("nvrtc").Value.String(), Cache: cache + "/minfer/cuda"})
	require.NoError(t, err)
	defer d.Close()
	compile := func(name, text string) mtl.Library {
		lib, err := d.Compile(context.Background(), mtl.Source{Name: name, Text: text, Include: kernels.FS, FastMath: true})
		require.NoError(t, err)
		return lib
	}
	pipeline := func(l mtl.Library, kernel string) *cuda.Pipeline {
		p, err := l.Pipeline(kernel, nil)
		require.NoError(t, err)
		return p.(*cuda.Pipeline)
	}
	buffer := func(n int) mtl.Buffer {
		b, err := d.NewBuffer(n, "b")
		require.NoError(t, err)
		return b
	}
	// run gives the GPU's time of a command buffer of eight launches or more, the best of
	// four: the first of all launches one by one and does not count; then they are one
	// graph, of launches that start before the one before ended, as decoded tokens are.
	const least = 8 // shorter command buffers are no graph
	run := func(record func(cb mtl.CommandBuffer)) time.Duration {
		best := time.Hour
		for k := range 5 {
			cb, err := d.NewCommandBuffer("timed")
			require.NoError(t, err)
			record(cb)
			timing, err := cb.Submit(context.Background())
			require.NoError(t, err)
			if k > 0 {
				best = min(best, timing.GPU)
			}
		}
		return best
	}
	t.Logf("times are of one graph of launches that may start early, as a decoded token's are, the best of four")
	const total = 2 << 30 // bytes read in turn: many times the L2
	weights := buffer(total)
	block := make([]byte, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range block {
		block[i] = byte(r.Uint32()) & 0x3f // no half of these bytes is infinite
	}
	for off := 0; off < total; off += len(block) {
		require.NoError(t, weights.Write(off, block))
	}
	out := buffer(4 << 20)
	u32 := func(v ...uint32) []byte {
		var b []byte
		for _, x := range v {
			b = binary.LittleEndian.AppendUint32(b, x)
		}
		return b
	}
	read := pipeline(compile("read.metal", readKernel), "read_all")
	best := 0.0
	for _, groups := range []int{132 * 4, 132 * 8, 132 * 16, 132 * 64} {
		took := run(func(cb mtl.CommandBuffer) {
			for range least {
				require.NoError(t, cb.Dispatch(mtl.Dispatch{Label: "read", Pipeline: read, Bindings: []mtl.Binding{
					{Index: 0, Buffer: weights, Length: total}, {Index: 1, Buffer: out, Length: 4, Access: mtl.Write}, {Index: 2, Bytes: u32(total / 16)},
				}, Threadgroups: mtl.Size{X: groups, Y: 1, Z: 1}, ThreadsPerThreadgroup: mtl.Size{X: 256, Y: 1, Z: 1}}))
			}
		}) / least
		rate := total / took.Seconds()
		best = max(best, rate)
		t.Logf("read of %d MiB by %d threadgroups: %.0f us, %.2f TB/s", total>>20, groups, took.Seconds()*1e6, rate/1e12)
	}
	empty := run(func(cb mtl.CommandBuffer) {
		for range 100 {
			require.NoError(t, cb.Dispatch(mtl.Dispatch{Label: "read", Pipeline: read, Bindings: []mtl.Binding{
				{Index: 0, Buffer: weights, Length: total}, {Index: 1, Buffer: out, Length: 4, Access: mtl.Write}, {Index: 2, Bytes: u32(0)},
			}, Threadgroups: mtl.Size{X: 132, Y: 1, Z: 1}, ThreadsPerThreadgroup: mtl.Size{X: 64, Y: 1, Z: 1}}))
		}
	})
	t.Logf("a launch that does nothing: %.2f us each of 100", empty.Seconds()*1e4)
	// multiply times products with as many matrices as the memory has, one after the other,
	// and again where these are few: together they are far more than the caches hold.
	multiply := func(name, typ string, p *cuda.Pipeline, rows, k, groups, simdgroups, ahead int) {
		w, err := gguf.ParseType(typ)
		require.NoError(t, err)
		if k%w.BlockSize() != 0 {
			return
		}
		bytes := rows * w.RowBytes(k)
		n := min(total/((bytes+255)&^255), 64)
		if n == 0 {
			return
		}
		launches := max(n, least)
		note := ""
		if ahead > 0 {
			note = fmt.Sprintf(", %d bytes of a row ahead", ahead)
		}
		took := run(func(cb mtl.CommandBuffer) {
			for i := range launches {
				off := i % n * ((bytes + 255) &^ 255)
				require.NoError(t, cb.Dispatch(mtl.Dispatch{Label: "matvec", Pipeline: p, Bindings: []mtl.Binding{
					{Index: 0, Buffer: weights, Offset: off, Length: bytes, Rows: rows, Ahead: ahead}, {Index: 1, Buffer: out, Length: 4 * k},
					{Index: 2, Buffer: out, Length: 4 * k}, {Index: 3, Buffer: out, Offset: 1 << 20, Length: 4 * rows, Access: mtl.Output}, {Index: 4, Bytes: u32(uint32(k), uint32(rows), 1, 0)},
				}, Threadgroups: mtl.Size{X: groups, Y: 1, Z: 1}, ThreadsPerThreadgroup: mtl.Size{X: 32 * simdgroups, Y: 1, Z: 1}}))
				cb.Barrier()
			}
		})
		rate := float64(launches*bytes) / took.Seconds()
		t.Logf("%-11s %6dx%-5d %3d matrices of %6.1f MB, %d simdgroups%s: %8.2f us each, %.2f TB/s, %2.0f %% of the read (%d registers, %d bytes local)",
			name, rows, k, n, float64(bytes)/1e6, simdgroups, note, took.Seconds()*1e6/float64(launches), rate/1e12, 100*rate/best, p.Registers(), p.LocalBytes())
	}
	shapes := [][2]int{{18944, 3584}, {3584, 18944}, {152064, 3584}, {37888, 3584}, {3584, 3584}, {4864, 896}, {9728, 896}, {896, 4864}, {896, 896}}
	if *sweepPath != "" {
		text, err := os.ReadFile(*sweepPath)
		require.NoError(t, err)
		lib := compile("sweep.metal", string(text))
		names := lib.Kernels()
		pipelines := make([]*cuda.Pipeline, len(names))
		var wait sync.WaitGroup
		for i, name := range names {
			wait.Go(func() { pipelines[i] = pipeline(lib, name) })
		}
		wait.Wait()
		for i, name := range names {
			m := regexp.MustCompile(`^v_(.*)_r(\d+)_`).FindStringSubmatch(name)
			require.NotNil(t, m, name)
			perGroup, err := strconv.Atoi(m[2])
			require.NoError(t, err)
			for _, s := range shapes {
				for _, simdgroups := range []int{1, 2, 3, 4, 5, 6} {
					multiply(name, m[1], pipelines[i], s[0], s[1], (s[0]+perGroup-1)/perGroup, simdgroups, 0)
				}
			}
		}
		return
	}
	text, err := fs.ReadFile(kernels.FS, "mul_mv.metal")
	require.NoError(t, err)
	lib := compile("mul_mv.metal", string(text))
	for _, typ := range []gguf.Type{gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K, gguf.F16, gguf.BF16, gguf.F32} {
		pipelines := map[string]*cuda.Pipeline{}
		for _, s := range shapes {
			if s[1]%typ.BlockSize() != 0 {
				continue
			}
			one := metal.SingleOf(typ, s[1], s[0])
			if pipelines[one.Variant] == nil {
				pipelines[one.Variant] = pipeline(lib, metal.Lookup("mul_mat", typ.String(), one.Variant).Kernel)
			}
			multiply(typ.String()+" "+one.Variant, typ.String(), pipelines[one.Variant], s[0], s[1], one.Groups, one.Simdgroups, one.Ahead)
		}
	}
}
