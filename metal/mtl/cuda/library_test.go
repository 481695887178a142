package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A library that is not there is an error that says which, in every build.
func TestAbsentLibrary(t *testing.T) {
	_, err := OpenCompiler("/nonexistent/libnvrtc.so.0")
	require.ErrorContains(t, err, "cuda: run-time compiler: ")
	require.Regexp(t, `/nonexistent/libnvrtc\.so\.0|cuda is not here`, err.Error())
	if _, err := OpenDriver(1 << 20); err != nil { // no machine has as many
		require.Regexp(t, `libcuda\.so\.1|cuda is not here|no GPU 1048576|NO_DEVICE`, err.Error())
	} else {
		t.Fatal("a driver of a GPU that is not there")
	}
}
