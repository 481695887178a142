package metaltest_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"minfer/metal/metaltest"
)

// softmax is the reference: each row of cols values on its own, in float64.
func softmax(x []float32, cols int) func(want []float32) {
	return func(want []float32) {
		for row := 0; row < len(x); row += cols {
			top, sum := math.Inf(-1), 0.0
			for _, v := range x[row : row+cols] {
				top = max(top, float64(v))
			}
			for _, v := range x[row : row+cols] {
				sum += math.Exp(float64(v) - top)
			}
			for i, v := range x[row : row+cols] {
				want[row+i] = float32(math.Exp(float64(v)-top) / sum)
			}
		}
	}
}

// softmaxLaunch is three rows of 300 values by eight simdgroups each.
func softmaxLaunch(file string) metaltest.Launch {
	const rows, cols = 3, 300
	x, y := make([]float32, rows*cols), make([]float32, rows*cols)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)))
	}
	return metaltest.Launch{
		File:                  file,
		Threadgroups:          metaltest.Size{X: rows},
		ThreadsPerThreadgroup: metaltest.Size{X: 256},
		Args: []metaltest.Arg{
			metaltest.In(x),
			metaltest.Out(y, softmax(x, cols)),
			metaltest.Value(int32(cols)),
			metaltest.Threadgroup(32),
		},
		Tolerance: 1e-6,
	}
}

// A user's own test: the kernel is clean, and near the reference.
func TestSoftmax(t *testing.T) {
	metaltest.Run(t, softmaxLaunch("../../docs/examples/softmax-fixed.metal"))
}

// The same kernel without one of its barriers: the race is found, whatever the order
// in which the simdgroups run, and in this order it shows in the values too. (Run
// prints the whole report, with both sides of the race.)
func ExampleCheck() {
	err := metaltest.Check(softmaxLaunch("../../docs/examples/softmax.metal"))
	var failure *metaltest.Failure
	if errors.As(err, &failure) {
		for _, f := range failure.Report.Findings {
			fmt.Println(f.Sides[0].Location, f.Kind)
		}
	}
	// Output:
	// softmax.metal:26:24 threadgroup-race
	// softmax.metal:42:9 mismatch
}
