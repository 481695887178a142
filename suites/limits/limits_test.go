package limits

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/metal/mtl/soft/interp"
)

// The read loop reads every byte of its buffer, whatever the number of threads.
func TestReadLoop(t *testing.T) {
	for _, threads := range []int{1, 2, 3} {
		l := NewReadLoop(threads, 600)
		require.Equal(t, 600, l.Round(), "%d threads", threads)
		l.data[599] = 0 // the last byte is read too
		require.Equal(t, 599, l.Round(), "%d threads", threads)
	}
	l := NewReadLoop(1, 1000)
	require.InDelta(t, 500, l.Rate([]time.Duration{3 * time.Second, 2 * time.Second, 4 * time.Second}), 1e-9)
	require.Positive(t, Read(2, 1<<20))
}

// Every loop makes the number of multiply-adds that it says, which no machine does
// in no time, and more threads are no slower than half as many would be.
func TestPeak(t *testing.T) {
	for name, rate := range map[string]float64{"floats": MultiplyAdds(1, time.Millisecond), "bytes": ByteMultiplyAdds(1, time.Millisecond)} {
		t.Logf("%s: %.3g multiply-adds a second", name, rate)
		require.Greater(t, rate, 1e7, name)
		require.Less(t, rate, 1e13, name)
	}
	plainLoop(3)
	require.Equal(t, uint32(0), sink.Load())
}

// The kernels do the work that their rates are of: a software device counts it.
func TestDevice(t *testing.T) {
	var read, instructions []int64
	dev, err := soft.New(soft.Options{Counters: func(_ *mtl.Dispatch, c interp.Counters) {
		read, instructions = append(read, c.DeviceRead), append(instructions, c.Instructions)
	}})
	require.NoError(t, err)
	defer dev.Close()
	bytes, adds, err := Device(t.Context(), dev, 1<<21, time.Nanosecond)
	require.NoError(t, err)
	require.Greater(t, bytes, 1e6)
	require.Greater(t, adds, 1e6)
	require.Len(t, read, 2*rounds)
	const threads = 64 * group
	// One turn each: the buffer, and the parameter once a simdgroup.
	require.EqualValues(t, threads*perRead+4*threads/32, read[0])
	require.Less(t, read[rounds], int64(1<<17), "multiply_add reads its parameter alone")
	require.Greater(t, instructions[rounds], int64(threads/32*8*4), "8 products of 4 floats a turn and simdgroup")

	_, _, err = Device(t.Context(), closed{dev}, 1<<21, time.Nanosecond)
	require.EqualError(t, err, "read_all: no more")
}

// closed makes no buffers.
type closed struct{ mtl.Device }

func (closed) NewBuffer(int, string) (mtl.Buffer, error) { return nil, errors.New("no more") }
