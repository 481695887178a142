package metaltest

import (
	"context"
	"embed"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/metal/mtl"
)

//go:embed testdata
var files embed.FS

// params is the struct Params of small.metal.
type params struct {
	N      uint32
	Factor float32
}

func scaleLaunch(x, y []float32, factor float32) Launch {
	return Launch{
		File: "testdata/small.metal", Kernel: "scale", Constants: map[string]any{"negate": false},
		Threads: Size{X: len(x)}, ThreadsPerThreadgroup: Size{X: 32},
		Args: []Arg{In(x), Out(y, func(want []float32) {
			for i := range want {
				want[i] = 2 * x[i]
			}
		}), Value(params{uint32(len(x)), factor})},
	}
}

// recorder is a test that keeps what it is told instead of failing.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(f string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(f, args...))
}

func TestRun(t *testing.T) {
	x, y := []float32{1, 2, 3, 4, 5}, make([]float32, 5)
	Run(t, scaleLaunch(x, y, 2))
	require.Equal(t, []float32{2, 4, 6, 8, 10}, y, "what the kernel wrote")

	// A wrong value: one error, with the store that wrote it and the first element.
	red := &recorder{}
	l := scaleLaunch(x, y, 3)
	Run(red, l)
	require.Len(t, red.errors, 1)
	require.Contains(t, red.errors[0], `small.metal:15:9: error: mismatch: output "y": element 0 is 3, want 2 within 0`)
	require.Contains(t, red.errors[0], "y[i] = scaled(x[i], negate ? -p.factor : p.factor);")
	require.Equal(t, []float32{3, 6, 9, 12, 15}, y)
	l.Tolerance = 0.51 // 3 is within 0.51 times 2, relative
	Run(t, l)

	l = scaleLaunch(x, y, 2)
	l.Constants = map[string]any{"negate": true}
	require.ErrorContains(t, Check(l), "element 0 is -2, want 2")
	l.Mode = "off"
	require.ErrorContains(t, Check(l), `output "y": element 0 is -2, want 2 within 0`)
}

// Sources from an FS and from text.
func TestSources(t *testing.T) {
	x, y := []float32{1, 2, 3}, make([]float32, 3)
	l := scaleLaunch(x, y, 2)
	l.FS = files
	Run(t, l)
	data, err := os.ReadFile("../../docs/examples/softmax-fixed.metal")
	require.NoError(t, err)
	l = Launch{Text: string(data), Threadgroups: Size{X: 1}, ThreadsPerThreadgroup: Size{X: 32}, Args: []Arg{In(x), Out(y, nil), Value(int32(3)), Threadgroup(16)}}
	Run(t, l)
	require.InDelta(t, 1, float64(y[0]+y[1]+y[2]), 1e-6)
	l.Text = strings.Replace(l.Text, "constant int &cols", "constant int &cols, broken", 1)
	require.ErrorContains(t, Check(l), "kernel.metal:7:")
}

// What the sanitizer finds fails the test: a short buffer, an element that nobody
// wrote, a NaN.
func TestFindings(t *testing.T) {
	x, y := make([]float32, 40), make([]float32, 32)
	l := scaleLaunch(x, y, 2)
	err := Check(l)
	require.ErrorContains(t, err, "out-of-bounds")
	var failure *Failure
	require.ErrorAs(t, err, &failure)
	require.Equal(t, "scale", failure.Kernel)
	require.Positive(t, failure.Report.Errors())

	err = Check(Launch{File: "testdata/small.metal", Kernel: "nothing", Threads: Size{X: 4}, ThreadsPerThreadgroup: Size{X: 4},
		Args: []Arg{Out(make([]float32, 4), nil)}, Constants: map[string]any{"negate": false}})
	require.ErrorContains(t, err, "unwritten-output")
	require.ErrorContains(t, err, `nan: output "y": element 0 is NaN`)
	err = Check(Launch{File: "testdata/small.metal", Kernel: "nothing", Threads: Size{X: 4}, ThreadsPerThreadgroup: Size{X: 4},
		Args: []Arg{Out(make([]float32, 1), func(want []float32) { want[0] = float32(math.NaN()) })}})
	require.NoError(t, err, "the reference has a NaN there")
}

// An input that is changed is a fault even where values are right; an InOut starts
// with its content.
func TestInOut(t *testing.T) {
	count := func(spoil bool, mode string) (error, []int32) {
		x, total := []int32{1, 2, 3}, []int32{10, 20, 30}
		return Check(Launch{File: "testdata/small.metal", Kernel: "count", Threads: Size{X: 3}, ThreadsPerThreadgroup: Size{X: 3}, Mode: mode,
			Args: []Arg{In(x), InOut(total, func(want []int32) {
				for i := range want {
					want[i] += x[i]
				}
			}), Value(spoil)}}), total
	}
	err, total := count(false, "")
	require.NoError(t, err)
	require.Equal(t, []int32{11, 22, 33}, total)
	for _, mode := range []string{"", "race", "mem", "off"} {
		err, _ = count(true, mode)
		require.ErrorContains(t, err, `input "x": element 2 was 3 and is now 7: want it unchanged`, mode)
	}
	// One slice twice is one buffer: x += x.
	x := []int32{1, 2, 3}
	require.NoError(t, Check(Launch{File: "testdata/small.metal", Kernel: "count", Threads: Size{X: 3}, ThreadsPerThreadgroup: Size{X: 3}, Mode: "race",
		Args: []Arg{InOut(x, nil), InOut(x, func(want []int32) {
			for i := range want {
				want[i] *= 2
			}
		}), Value(false)}}))
	require.Equal(t, []int32{2, 4, 6}, x)
	err = Check(Launch{File: "testdata/small.metal", Kernel: "count", Threads: Size{X: 3}, ThreadsPerThreadgroup: Size{X: 3},
		Args: []Arg{InOut(x, nil), InOut(x, func(want []int32) { want[1] = 99 }), Value(false)}})
	require.ErrorContains(t, err, `output "x": element 0 is 4, want 2 within 0`)
}

func TestElements(t *testing.T) {
	y := make([]float32, 3)
	Run(t, Launch{File: "testdata/small.metal", Kernel: "widen", Threads: Size{X: 3}, ThreadsPerThreadgroup: Size{X: 3},
		Args: []Arg{In(Halves([]float32{1, -0.5, 65504})), Out(y, func(want []float32) { copy(want, []float32{1, -0.5, 65504}) })}})
	wide := []uint64{1 << 63, 1<<53 + 1, math.MaxUint64 - 1}
	more := make([]uint64, 3)
	l := Launch{File: "testdata/small.metal", Kernel: "widest", Threads: Size{X: 3}, ThreadsPerThreadgroup: Size{X: 3},
		Args: []Arg{In(wide), Out(more, func(want []uint64) { copy(want, []uint64{1<<63 + 1, 1<<53 + 2, math.MaxUint64}) })}}
	Run(t, l)
	l.Args[1] = Out(more, func(want []uint64) { copy(want, []uint64{1<<63 + 1, 1<<53 + 3, math.MaxUint64}) })
	require.ErrorContains(t, Check(l), "element 1 is 9007199254740994, want 9007199254740995", "equal as float64")
	require.Equal(t, float32(1.5), Halves([]float32{1.5})[0].Float32())
	require.Equal(t, float32(1.5), BFloats([]float32{1.5})[0].Float32())
}

// What is wrong with the launch is said before or instead of a verdict.
func TestBadLaunch(t *testing.T) {
	x := []float32{1}
	small := func(kernel string, args ...Arg) Launch {
		return Launch{File: "testdata/small.metal", Kernel: kernel, Threads: Size{X: 1}, ThreadsPerThreadgroup: Size{X: 1}, Args: args, Constants: map[string]any{"negate": false}}
	}
	for want, l := range map[string]Launch{
		"want either File or Text":          {},
		"no such file or directory":         {File: "testdata/none.metal"},
		`found "fast", want off, mem, race`: {File: "testdata/small.metal", Mode: "fast"},
		"has the kernels count, endless, nothing, scale, widen, widest: want the name of one": {File: "testdata/small.metal"},
		"an int has no fixed size":                        small("scale", In(x), Out(x, nil), Value(3)),
		"string: want numbers, bools, or structs":         small("scale", In(x), Out(x, nil), Value("a")),
		"argument 0: an empty slice of float32":           small("nothing", Out([]float32{}, nil)),
		"elements of int32 at buffer index 0: want float": small("nothing", Out(make([]int32, 1), nil)),
		"nothing is bound at buffer index 2":              small("scale", In(x), Out(make([]float32, 1), nil)),
	} {
		err := Check(l)
		require.ErrorContains(t, err, want)
		var failure *Failure
		require.NotErrorAs(t, err, &failure)
	}
	both := []float32{1, 2} // the same memory with two lengths
	require.ErrorContains(t, Check(small("scale", In(both), Out(both[:1], nil), Value(params{1, 1}))), "want one length and type")
	var refused *mtl.LaunchError
	l := small("nothing", Out(make([]float32, 1), nil))
	l.ThreadsPerThreadgroup = Size{X: 2048}
	require.ErrorAs(t, Check(l), &refused)
	l = small("endless", Out(make([]float32, 1), nil))
	l.Deadline = 200 * time.Millisecond
	require.ErrorIs(t, Check(l), context.DeadlineExceeded)
}
