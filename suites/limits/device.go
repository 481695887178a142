package limits

import (
	"context"
	"fmt"
	"strings"
	"time"

	"minfer/metal/mtl"
)

// kernels read a buffer as wide as can be, and multiply in registers.
const kernels = `#include <metal_stdlib>
using namespace metal;

// Each simdgroup reads a run of its own, of n vectors, its lanes side by side.
kernel void read_all(device const float4 *x [[buffer(0)]],
                     device float *sum [[buffer(1)]],
                     constant uint &n [[buffer(2)]],
                     uint i [[thread_position_in_grid]],
                     uint lane [[thread_index_in_simdgroup]]) {
    device const float4 *run = x + i / 32 * n + lane;
    float4 a = float4(0);
    for (uint j = 0; j < n; j += 128) {
        a += (run[j] + run[j + 32]) + (run[j + 64] + run[j + 96]);
    }
    sum[i] = a.x + a.y + a.z + a.w;
}

// All threads side by side go through the buffer; n is of vectors to a thread.
kernel void read_across(device const float4 *x [[buffer(0)]],
                        device float *sum [[buffer(1)]],
                        constant uint &n [[buffer(2)]],
                        uint i [[thread_position_in_grid]],
                        uint all [[threads_per_grid]]) {
    float4 a = float4(0);
    for (uint j = 0; j < n; j += 4) {
        device const float4 *row = x + i + j * all;
        a += (row[0] + row[all]) + (row[2 * all] + row[3 * all]);
    }
    sum[i] = a.x + a.y + a.z + a.w;
}

kernel void multiply_add(device float *sum [[buffer(0)]],
                         constant uint &n [[buffer(1)]],
                         uint i [[thread_position_in_grid]]) {
    float4 a = float4(i), b = a + 1, c = a + 2, d = a + 3;
    float4 x = float4(0.999f), y = float4(0.001f);
    for (uint j = 0; j < n; j++) {
        a = fma(a, x, y);
        b = fma(b, x, y);
        c = fma(c, x, y);
        d = fma(d, x, y);
        a = fma(a, x, y);
        b = fma(b, x, y);
        c = fma(c, x, y);
        d = fma(d, x, y);
    }
    a += b + c + d;
    sum[i] = a.x + a.y + a.z + a.w;
}

// Each simdgroup keeps 4 x 4 sums in registers and all factors, which it finds where
// the sums go. A turn adds up many products, as turns have a price of their own.
kernel void multiply_matrices(device half *sum [[buffer(0)]],
                              constant uint &n [[buffer(1)]],
                              uint i [[thread_position_in_grid]]) {
    device half *from = sum + i / 32 * 2048;
    simdgroup_float8x8 c[16];
    simdgroup_half8x8 a[8], b[8];
#pragma unroll
    for (uint k = 0; k < 16; k++) {
        c[k] = make_filled_simdgroup_matrix<float, 8>(0.0f);
    }
#pragma unroll
    for (uint k = 0; k < 8; k++) {
        simdgroup_load(a[k], from + 64 * k, 8);
        simdgroup_load(b[k], from + 1024 + 64 * k, 8);
    }
    for (uint j = 0; j < n; j++) {
#pragma unroll
        for (uint k = 0; k < 128; k += 4) {
#pragma unroll
            for (uint x = 0; x < 4; x++) {
#pragma unroll
                for (uint y = 0; y < 4; y++) {
                    simdgroup_multiply_accumulate(c[4 * x + y], a[k % 8 + x], b[k % 8 + y], c[4 * x + y]);
                }
            }
        }
    }
    device float *to = (device float *)from;
#pragma unroll
    for (uint k = 0; k < 16; k++) {
        simdgroup_store(c[k], to + 64 * k, 8);
    }
}
`

const (
	group = 256 // threads of a threadgroup
	// perLoop is the multiply-adds of one turn of multiply_add's loop.
	perLoop = 8 * 4
	perRead = 4 * 16 // bytes of one turn of read_all's
	// perMatrices is the multiply-adds of one turn of multiply_matrices', a thread's share,
	// and matrixSums the floats that it stores.
	perMatrices = 32 * 16 * 8 * 8 * 8 / 32
	matrixSums  = 16 * 64 / 32
)

// groupCounts are the numbers of threadgroups that each kernel is timed with, the
// fastest of which counts: what fills a large GPU, with several for each of its cores,
// is many turns of work for a small one and for a software device.
var groupCounts = []int{64, 512, 2048, 8192}

// Device measures a Metal device: bytes read a second, of a buffer of at most that
// many bytes, and multiply-adds a second. Within that, each loop is made long enough
// to take the given time. A number of threadgroups that a turn each would read more
// with is left out. A device without room for the buffer gets one of half the size, down
// to the smallest.
func Device(ctx context.Context, dev mtl.Device, readBytes int, atLeast time.Duration) (read, multiplyAdds float64, err error) {
	lib, err := dev.Compile(ctx, mtl.Source{Name: "limits.metal", Text: kernels, FastMath: true})
	if err != nil {
		return 0, 0, err
	}
	defer lib.Release()
	for _, kernel := range []string{"read_all", "read_across"} { // which is faster depends on the memory
		rate, err := fastest(ctx, dev, lib, kernel, perRead, readBytes, atLeast)
		if err != nil {
			return 0, 0, err
		}
		read = max(read, rate)
	}
	multiplyAdds, err = fastest(ctx, dev, lib, "multiply_add", perLoop, readBytes, atLeast)
	return read, multiplyAdds, err
}

// Matrices measures the multiply-adds a second that a Metal device makes of simdgroup
// matrices of halves, summed in float: the most that it has for matrices in registers.
// The halves are zeros, which cost a GPU less power than weights do: one that slows down
// under load cannot reach this with any product.
// readBytes bounds the threadgroups as it does for Device.
func Matrices(ctx context.Context, dev mtl.Device, readBytes int, atLeast time.Duration) (multiplyAdds float64, err error) {
	lib, err := dev.Compile(ctx, mtl.Source{Name: "limits.metal", Text: kernels, FastMath: true})
	if err != nil {
		return 0, err
	}
	defer lib.Release()
	return fastest(ctx, dev, lib, "multiply_matrices", perMatrices, readBytes, atLeast)
}

// fastest is the best rate of one kernel over the numbers of threadgroups; unit is the
// work of a thread's turn.
func fastest(ctx context.Context, dev mtl.Device, lib mtl.Library, kernel string, unit, readBytes int, atLeast time.Duration) (float64, error) {
	p, err := lib.Pipeline(kernel, nil)
	if err != nil {
		return 0, err
	}
	defer p.Release()
	var x mtl.Buffer // that is read
	if strings.HasPrefix(kernel, "read_") {
		const least = 1 << 20 // what the first of groupCounts read in a turn
		for x, err = zeros(dev, max(readBytes, least), "limits read"); err != nil && readBytes > least; {
			readBytes = max(readBytes/2, least)
			x, err = zeros(dev, readBytes, "limits read")
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", kernel, err)
		}
		defer x.Release()
	}
	best := 0.0
	for n, groups := range groupCounts {
		turns := readBytes / (groups * group * perRead)
		if n > 0 && turns == 0 {
			break
		}
		if x == nil {
			turns = 1 << 24
		}
		rate, err := device(ctx, dev, p, x, groups, unit, max(turns, 1), atLeast)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", kernel, err)
		}
		best = max(best, rate)
	}
	return best, nil
}

// zeros is a buffer whose memory is there.
func zeros(dev mtl.Device, size int, label string) (mtl.Buffer, error) {
	b, err := dev.NewBuffer(size, label)
	if err != nil {
		return nil, err
	}
	piece := make([]byte, min(size, 1<<26))
	for at := 0; at < size; at += len(piece) {
		if err := b.Write(at, piece[:min(len(piece), size-at)]); err != nil {
			b.Release()
			return nil, err
		}
	}
	return b, nil
}

// device times one kernel, whose threads each make so many turns, and gives units a
// second. x is what it reads, nil for nothing.
func device(ctx context.Context, dev mtl.Device, p mtl.Pipeline, x mtl.Buffer, groups, unit, most int, atLeast time.Duration) (float64, error) {
	threads := groups * group
	stored := 1
	if p.Kernel() == "multiply_matrices" {
		stored = matrixSums
	}
	sum, err := zeros(dev, 4*threads*stored, "limits sum")
	if err != nil {
		return 0, err
	}
	defer sum.Release()
	best := 0.0
	var spent time.Duration // by rounds, for a GPU that has to get going
	for turns, timed := 1, 0; timed < rounds || spent < rounds*atLeast; {
		d, err := turn(ctx, dev, p, x, sum, groups, turns)
		if err != nil {
			return 0, err
		}
		if d < atLeast && turns < most {
			turns = min(2*turns, most)
			continue
		}
		timed++
		spent += d
		best = max(best, float64(threads)*float64(turns)*float64(unit)/d.Seconds())
	}
	return best, nil
}

// turn is the time of one dispatch: the device's own where it has timers, else with
// what it costs to ask for it.
func turn(ctx context.Context, dev mtl.Device, p mtl.Pipeline, x, sum mtl.Buffer, groups, turns int) (time.Duration, error) {
	cb, err := dev.NewCommandBuffer("limits")
	if err != nil {
		return 0, err
	}
	defer cb.Discard()
	d := mtl.Dispatch{Label: p.Kernel(), Pipeline: p,
		Threadgroups: mtl.Size{X: groups, Y: 1, Z: 1}, ThreadsPerThreadgroup: mtl.Size{X: group, Y: 1, Z: 1}}
	out := mtl.Binding{Buffer: sum, Length: sum.Size(), Access: mtl.Output}
	n := uint32(turns)
	if p.Kernel() == "multiply_matrices" {
		out.Access = mtl.ReadWrite
	}
	if x != nil {
		size := groups * group * turns * perRead
		per := 1 // threads that go through a run together
		if p.Kernel() == "read_all" {
			per = 32
		}
		out.Index, n = 1, uint32(size/16/(groups*group/per))
		d.Bindings = append(d.Bindings, mtl.Binding{Buffer: x, Length: size, Access: mtl.Read})
	}
	d.Bindings = append(d.Bindings, out, mtl.Binding{Index: out.Index + 1, Bytes: []byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}})
	if err := cb.Dispatch(d); err != nil {
		return 0, err
	}
	start := time.Now()
	timing, err := cb.Submit(ctx)
	if err != nil {
		return 0, err
	}
	if timing.GPU > 0 {
		return timing.GPU, nil
	}
	return max(time.Since(start), 1), nil
}
