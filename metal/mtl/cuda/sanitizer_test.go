package cuda

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/metal/mtl/soft/san"
)

var (
	sanitizerPath = flag.String("sanitizer", "", "path of NVIDIA's compute-sanitizer, which has to find planted faults; with -cuda")
	plantedName   = flag.String("planted", "", "run the kernel with this fault on the GPU, as a process of TestGPUSanitizerFinds does")
)

// A planted fault is one edit of a kernel that has none.
type planted struct {
	name     string
	tool     string // of compute-sanitizer, that is for such faults
	from, to string
	soft     string // what the software device's sanitizer calls it
	gpu      string // what the tool says
}

// turnsWords turns 64 words around by way of threadgroup memory.
const turnsWords = `#include <metal_stdlib>
using namespace metal;
kernel void turns_words(device const uint *x [[buffer(0)]], device uint *y [[buffer(1)]], constant uint &n [[buffer(2)]],
                        uint i [[thread_position_in_threadgroup]]) {
    threadgroup uint t[64];
    t[i] = x[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = t[n - 1 - i];
}
`

const turnedWords = 64 // two simdgroups

// plantedFaults all end by themselves: the two simdgroups wait at a barrier each, and a
// GPU counts arrivals at any. (Lanes of one simdgroup at two barriers wait for each
// other without end, and of those that end before it synccheck says nothing.)
var plantedFaults = []planted{
	{"none", "", "", "", "", ""},
	{"bounds", "memcheck", "t[i] = x[i];", "t[i] = x[i + 1];",
		san.KindOutOfBounds, "Invalid __global__ read of size 4 bytes"},
	{"race", "racecheck", "    threadgroup_barrier(mem_flags::mem_threadgroup);\n", "",
		san.KindThreadgroupRace, "Race reported between"},
	{"divergence", "synccheck", "    threadgroup_barrier(mem_flags::mem_threadgroup);\n    y[i] = t[n - 1 - i];\n", `    if (i < n / 2) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[i] = t[n - 1 - i];
    } else {
        y[i] = 0;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[i] += t[n - 1 - i];
    }
`,
		san.KindBarrierDivergence, "Barrier error detected"},
}

// source is the kernel with the fault.
func (p *planted) source(t *testing.T) string {
	t.Helper()
	if p.from == "" {
		return turnsWords
	}
	require.Equal(t, 1, strings.Count(turnsWords, p.from), p.name)
	return strings.Replace(turnsWords, p.from, p.to, 1)
}

// launchTurns runs a text of the kernel, and gives what it wrote.
func launchTurns(t *testing.T, d mtl.Device, text string) ([]uint32, error) {
	t.Helper()
	lib, err := d.Compile(context.Background(), mtl.Source{Name: "planted.metal", Text: text, FastMath: true})
	require.NoError(t, err)
	defer lib.Release()
	p, err := lib.Pipeline("turns_words", nil)
	require.NoError(t, err)
	defer p.Release()
	const size = 4 * turnedWords
	x, err := d.NewBuffer(size, "x")
	require.NoError(t, err)
	defer x.Release()
	y, err := d.NewBuffer(size, "y")
	require.NoError(t, err)
	defer y.Release()
	in := make([]byte, size)
	for i := range turnedWords {
		binary.LittleEndian.PutUint32(in[4*i:], uint32(100+i))
	}
	require.NoError(t, x.Write(0, in))
	cb, err := d.NewCommandBuffer("planted")
	require.NoError(t, err)
	defer cb.Discard()
	require.NoError(t, cb.Dispatch(mtl.Dispatch{Label: "turns_words", Pipeline: p, Bindings: []mtl.Binding{
		{Index: 0, Buffer: x, Length: size}, {Index: 1, Buffer: y, Length: size, Access: mtl.Output}, {Index: 2, Bytes: []byte{turnedWords, 0, 0, 0}},
	}, Threadgroups: mtl.Size{X: 1, Y: 1, Z: 1}, ThreadsPerThreadgroup: mtl.Size{X: turnedWords, Y: 1, Z: 1}}))
	if _, err := cb.Submit(context.Background()); err != nil {
		return nil, err
	}
	out := make([]byte, size)
	require.NoError(t, y.Read(0, out))
	var words []uint32
	for i := range turnedWords {
		words = append(words, binary.LittleEndian.Uint32(out[4*i:]))
	}
	return words, nil
}

// turned is what the kernel gives without a fault.
func turned() []uint32 {
	var words []uint32
	for i := range turnedWords {
		words = append(words, uint32(100+turnedWords-1-i))
	}
	return words
}

// The faults are what they are called: the software device's sanitizer says so, and
// of the kernel without one it says nothing.
func TestPlantedFaultsAreFaults(t *testing.T) {
	for _, p := range plantedFaults {
		t.Run(p.name, func(t *testing.T) {
			d, err := soft.New(soft.Options{Threads: 1, Mode: san.Race})
			require.NoError(t, err)
			defer d.Close()
			words, err := launchTurns(t, d, p.source(t))
			if p.soft == "" {
				require.NoError(t, err)
				require.Equal(t, turned(), words)
				return
			}
			var found *soft.FindingsError
			require.True(t, errors.As(err, &found), "%v", err)
			var kinds []string
			for _, f := range found.Report.Findings {
				kinds = append(kinds, f.Kind)
			}
			require.Contains(t, kinds, p.soft)
		})
	}
}

// TestGPUPlantedFault runs the kernel with the fault that -planted names. It is the
// sanitizer that judges; it may end the kernel, and then the submit is an error.
func TestGPUPlantedFault(t *testing.T) {
	if *plantedName == "" {
		t.Skip("SKIPPED: -planted names no fault")
	}
	for _, p := range plantedFaults {
		if p.name != *plantedName {
			continue
		}
		d, err := Open(DeviceOptions{Compiler: *nvrtcPath, Deadline: 5 * time.Second})
		require.NoError(t, err)
		words, err := launchTurns(t, d, p.source(t))
		t.Logf("fault %s ran: %v", p.name, err)
		if p.tool == "" {
			require.NoError(t, err)
			require.Equal(t, turned(), words)
			require.NoError(t, d.Close())
		}
		return
	}
	t.Fatalf("no fault %q", *plantedName)
}

// TestGPUSanitizerFinds wants each tool of compute-sanitizer to find the planted fault
// that it is for, in the kernel that has it, and nothing where there is none: without
// that, no finding over the suites would say nothing. Each runs in a process of its own.
func TestGPUSanitizerFinds(t *testing.T) {
	if !*onGPU || *sanitizerPath == "" {
		t.Skip("SKIPPED: nothing ran under compute-sanitizer; -cuda and -sanitizer PATH ask for it")
	}
	under := func(t *testing.T, tool, fault string) string {
		ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, *sanitizerPath, "--tool", tool, "--target-processes", "all", os.Args[0],
			"-test.v", "-test.run=^TestGPUPlantedFault$", "-cuda", "-nvrtc="+*nvrtcPath, "-planted="+fault)
		cmd.WaitDelay = time.Second
		out, err := cmd.CombinedOutput()
		require.NoError(t, ctx.Err(), "%s: %s", tool, out)
		t.Logf("%s, fault %s: %v\n%s", tool, fault, err, out)
		require.Contains(t, string(out), "fault "+fault+" ran", "the kernel did not run")
		return string(out)
	}
	for _, p := range plantedFaults {
		if p.tool == "" {
			continue
		}
		t.Run(p.tool, func(t *testing.T) {
			t.Parallel()
			none := under(t, p.tool, "none")
			require.Contains(t, none, "--- PASS: TestGPUPlantedFault")
			require.Regexp(t, `(ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards displayed \(0 errors, 0 warnings\))`, none)
			found := under(t, p.tool, p.name)
			require.Contains(t, found, p.gpu)
			require.Contains(t, found, "turns_words")
			require.Regexp(t, `SUMMARY: [1-9]`, found)
		})
	}
}
