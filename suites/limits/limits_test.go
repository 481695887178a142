package limits

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/metal/mtl/soft/interp"
)

// Every loop reads every byte of its buffer, whatever the number of threads.
func TestReadLoop(t *testing.T) {
	for _, threads := range []int{1, 2, 3} {
		l := NewReadLoop(threads, 5000)
		require.Len(t, l.data, 5000/threads/512*512*threads)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range l.data {
			l.data[i] = byte(rng.Uint32())
		}
		want := uint64(0)
		for i := 0; i < len(l.data); i += 8 {
			want ^= binary.LittleEndian.Uint64(l.data[i:])
		}
		for i, loop := range append(l.loops, plainRead) {
			require.Equal(t, want, l.read(loop, 2), "loop %d, %d threads", i, threads)
		}
	}
	own := make([]byte, 3*2*turnBytes+turnBytes-1)
	own[len(own)-turnBytes] = 7 // in the last turn but one
	l := NewReadLoopOf(3, own)
	require.Len(t, l.data, 3*2*turnBytes)
	require.EqualValues(t, 7<<(8*((len(own)-turnBytes)%8)), l.read(plainRead, 1))
	require.Zero(t, NewReadLoopOf(2, own[:turnBytes]).read(plainRead, 1))
	l = NewReadLoop(1, 1000)
	require.Zero(t, l.Rate())
	l.loops, l.rates = []readLoop{plainRead, plainRead}, [][]float64{{3, 1, 2, 7}, {9, 1, 1, 1}}
	require.InDelta(t, 2.5, l.Rate(), 1e-9)
	l.Round(3)
	for _, rates := range l.rates {
		require.Len(t, rates, 5)
		require.Greater(t, rates[4], 1e3)
	}
	l.Forget()
	require.Zero(t, l.Rate())
	l.Round(1)
	require.Greater(t, l.Rate(), 1e3)
	require.Greater(t, Read(2, 1<<20), 1e6)
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
	var read, written, instructions []int64
	dev, err := soft.New(soft.Options{Counters: func(_ *mtl.Dispatch, c interp.Counters) {
		read, written, instructions = append(read, c.DeviceRead), append(written, c.DeviceWritten), append(instructions, c.Instructions)
	}})
	require.NoError(t, err)
	defer dev.Close()
	bytes, adds, err := Device(t.Context(), dev, 1<<21, time.Nanosecond)
	require.NoError(t, err)
	require.Greater(t, bytes, 1e6)
	require.Greater(t, adds, 1e6)
	require.Len(t, read, 3*rounds)
	const threads = 64 * group
	// One turn each: the buffer, and the parameter once a simdgroup.
	require.EqualValues(t, threads*perRead+4*threads/32, read[0])
	require.EqualValues(t, threads*perRead+4*threads/32, read[rounds], "of the other order too")
	require.Less(t, read[2*rounds], int64(1<<17), "multiply_add reads its parameter alone")
	require.Greater(t, instructions[2*rounds], int64(threads/32*8*4), "8 products of 4 floats a turn and simdgroup")

	// A simdgroup's share of a turn are 512 products of 8 x 8 matrices, stored in 4096 bytes.
	before := len(instructions)
	adds, err = Matrices(t.Context(), dev, 1<<21, time.Nanosecond)
	require.NoError(t, err)
	require.Greater(t, adds, 1e6)
	require.Len(t, instructions, before+rounds)
	require.Equal(t, 512*512, 32*perMatrices)
	require.Greater(t, instructions[before], int64(threads/32*512))
	require.EqualValues(t, threads/32*4096, written[before])
	_, err = Matrices(t.Context(), closed{dev}, 1<<21, time.Nanosecond)
	require.EqualError(t, err, "multiply_matrices: no more")

	_, _, err = Device(t.Context(), closed{dev}, 1<<21, time.Nanosecond)
	require.EqualError(t, err, "read_all: no more")
}

// A device without room for what is to be read has a limit too, of less.
func TestDeviceWithoutRoom(t *testing.T) {
	var read []int64
	dev, err := soft.New(soft.Options{Counters: func(_ *mtl.Dispatch, c interp.Counters) { read = append(read, c.DeviceRead) }})
	require.NoError(t, err)
	defer dev.Close()
	bytes, _, err := Device(t.Context(), full{dev}, 5<<20, time.Nanosecond)
	require.NoError(t, err)
	require.Greater(t, bytes, 1e6)
	const threads = 64 * group
	require.EqualValues(t, threads*perRead+4*threads/32, read[0])
	require.Len(t, read, 3*rounds, "no more threadgroups than the smaller buffer has work for")
}

// full has no room for buffers of more than 1.5 MiB.
type full struct{ mtl.Device }

func (d full) NewBuffer(n int, label string) (mtl.Buffer, error) {
	if n > 3<<19 {
		return nil, errors.New("no room")
	}
	return d.Device.NewBuffer(n, label)
}

// closed makes no buffers.
type closed struct{ mtl.Device }

func (closed) NewBuffer(int, string) (mtl.Buffer, error) { return nil, errors.New("no more") }
