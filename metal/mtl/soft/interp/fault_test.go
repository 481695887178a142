package interp

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/msl/ir"
)

// A mistake of the decoder ends the launch, not the process, on whichever
// goroutine it shows.
func TestFaultIsAnError(t *testing.T) {
	b := ir.NewBuilder("k")
	b.Return()
	p, err := Decode(b.Func())
	require.NoError(t, err)
	p.code, p.fast = nil, nil // not even an end
	for _, threads := range []int{1, 3} {
		_, err = p.Run(context.Background(), &Launch{Grid: [3]int{9, 1, 1}, Threadgroup: [3]int{1, 1, 1}, Threads: threads})
		var fault *FaultError
		require.ErrorAs(t, err, &fault)
		require.Equal(t, "k", fault.Func)
		require.ErrorContains(t, err, "the interpreter failed in kernel k, threadgroup ")
	}
}
