package msl_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"minfer/metal/msl"

	"github.com/stretchr/testify/require"
)

var kernelName = regexp.MustCompile(`kernel void (\w+)\(`)

// longLibrary is a library of about the given number of lines: copies of the
// golden kernels, each in a namespace.
func longLibrary(t testing.TB, lines int) (text string, kernels int) {
	var sb strings.Builder
	sb.WriteString("#include <metal_stdlib>\nusing namespace metal;\n")
	for n := 0; strings.Count(sb.String(), "\n") < lines; n++ {
		for _, name := range []string{"arrays", "control", "halves", "inline", "matrix", "sgmat", "structs", "threads", "vectors"} {
			data, err := os.ReadFile("lower/testdata/" + name + ".metal")
			require.NoError(t, err)
			_, body, _ := strings.Cut(string(data), "using namespace metal;\n")
			body = kernelName.ReplaceAllString(body, fmt.Sprintf("kernel void ${1}_%d(", n))
			fmt.Fprintf(&sb, "namespace n%d_%s {%s}\n", n, name, body)
			kernels++
		}
	}
	return sb.String(), kernels
}

func TestLongLibrary(t *testing.T) {
	text, kernels := longLibrary(t, 1000)
	lib, err := msl.Compile(fstest.MapFS{"k.metal": {Data: []byte(text)}}, "k.metal", msl.Options{})
	require.NoError(t, err)
	require.Len(t, lib.Kernels(), kernels)
	require.Empty(t, lib.Check(nil))
}

// BenchmarkLibrary compiles all kernels of a 5,000-line library: the budget is 2
// seconds.
func BenchmarkLibrary(b *testing.B) {
	text, kernels := longLibrary(b, 5000)
	for b.Loop() {
		lib, err := msl.Compile(fstest.MapFS{"k.metal": {Data: []byte(text)}}, "k.metal", msl.Options{})
		require.NoError(b, err)
		require.Empty(b, lib.Check(nil))
	}
	b.ReportMetric(float64(kernels), "kernels")
}
