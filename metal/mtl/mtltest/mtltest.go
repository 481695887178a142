// Package mtltest is the conformance suite of metal/mtl: what every device must
// do, as checks over [mtl.Device] with small kernels of their own.
//
// A device's test is a few lines:
//
//	func TestConformance(t *testing.T) {
//		mtltest.Run(t, func(t testing.TB) mtl.Device { return open(t) })
//	}
//
// Each check gets a fresh device, so one that is left broken spoils no other.
// The checks use no float arithmetic whose rounding a device may choose, launch
// nothing that Metal leaves undefined but the kernel that never ends, and know
// nothing of sanitizers: a device with one must be silent on all of them.
package mtltest

import (
	"context"
	"embed"
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/metal/mtl"
)

//go:embed kernels/*.metal
var kernels embed.FS

// T is what a check needs of *testing.T, so that the suite can be tested with
// planted faults.
type T interface {
	require.TestingT
	Helper()
}

// Check is one property of a device.
type Check struct {
	Name string
	Run  func(t T, d mtl.Device)
}

// All gives the checks of every group.
func All() []Check {
	var all []Check
	for _, group := range [][]Check{
		Devices(), Libraries(), Constants(), Buffers(), NoCopy(), Copies(),
		Launches(), Bindings(), Grids(), ThreadgroupMemory(), Ordering(), Failures(), Lifetimes(),
	} {
		all = append(all, group...)
	}
	return all
}

// Run holds a device against the checks, all of them where none are given, each
// in a subtest on a device of its own.
func Run(t *testing.T, open func(t testing.TB) mtl.Device, checks ...Check) {
	if len(checks) == 0 {
		checks = All()
	}
	for _, c := range checks {
		t.Run(c.Name, func(t *testing.T) {
			d := open(t)
			c.Run(t, d)
			require.NoError(t, d.Close())
		})
	}
}

// patience bounds what should end at once, generously: it is no measurement.
const patience = 60 * time.Second

// kit is a check's hands: what must not fail fails the check.
type kit struct {
	T
	d mtl.Device
}

func (k kit) source(file string) mtl.Source {
	k.Helper()
	text, err := kernels.ReadFile("kernels/" + file)
	require.NoError(k, err)
	return mtl.Source{Name: file, Text: string(text)}
}

func (k kit) library(file string) mtl.Library {
	k.Helper()
	lib, err := k.d.Compile(context.Background(), k.source(file))
	require.NoError(k, err)
	return lib
}

func (k kit) pipeline(file, kernel string, constants map[string]any) mtl.Pipeline {
	k.Helper()
	lib := k.library(file)
	defer lib.Release()
	p, err := lib.Pipeline(kernel, constants)
	require.NoError(k, err)
	require.Equal(k, kernel, p.Kernel())
	return p
}

// empty is a buffer that nobody wrote.
func (k kit) empty(label string, size int) mtl.Buffer {
	k.Helper()
	b, err := k.d.NewBuffer(size, label)
	require.NoError(k, err)
	return b
}

// words is a buffer of 32-bit numbers.
func (k kit) words(label string, values ...uint32) mtl.Buffer {
	k.Helper()
	b := k.empty(label, 4*len(values))
	require.NoError(k, b.Write(0, bytesOf(values)))
	return b
}

// read gives a buffer's 32-bit numbers.
func (k kit) read(b mtl.Buffer) []uint32 {
	k.Helper()
	data := make([]byte, b.Size())
	require.NoError(k, b.Read(0, data))
	return wordsOf(data)
}

func (k kit) commands(label string) mtl.CommandBuffer {
	k.Helper()
	cb, err := k.d.NewCommandBuffer(label)
	require.NoError(k, err)
	return cb
}

func (k kit) dispatch(cb mtl.CommandBuffer, d mtl.Dispatch) {
	k.Helper()
	require.NoError(k, cb.Dispatch(d))
}

func (k kit) submit(cb mtl.CommandBuffer) {
	k.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := cb.Submit(ctx)
	require.NoError(k, err)
}

// run submits dispatches with barriers between.
func (k kit) run(ds ...mtl.Dispatch) {
	k.Helper()
	cb := k.commands("run")
	for i, d := range ds {
		if i > 0 {
			cb.Barrier()
		}
		k.dispatch(cb, d)
	}
	k.submit(cb)
}

// refused is the *mtl.LaunchError of a dispatch that must not be recorded.
func (k kit) refused(cb mtl.CommandBuffer, d mtl.Dispatch) *mtl.LaunchError {
	k.Helper()
	err := cb.Dispatch(d)
	var refused *mtl.LaunchError
	require.True(k, errors.As(err, &refused), "want a *mtl.LaunchError, found %v", err)
	require.Equal(k, d.Label, refused.Label)
	return refused
}

// whole binds all of a buffer.
func whole(index int, b mtl.Buffer, access mtl.Access) mtl.Binding {
	return mtl.Binding{Index: index, Buffer: b, Length: b.Size(), Access: access}
}

// inline binds 32-bit numbers as bytes.
func inline(index int, values ...uint32) mtl.Binding {
	return mtl.Binding{Index: index, Bytes: bytesOf(values)}
}

func bytesOf(values []uint32) []byte {
	data := make([]byte, 0, 4*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, v)
	}
	return data
}

func wordsOf(data []byte) []uint32 {
	values := make([]uint32, len(data)/4)
	for i := range values {
		values[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	return values
}

func floatsOf(words []uint32) []float32 {
	values := make([]float32, len(words))
	for i, w := range words {
		values[i] = math.Float32frombits(w)
	}
	return values
}

func bitsOf(values []float32) []uint32 {
	words := make([]uint32, len(values))
	for i, v := range values {
		words[i] = math.Float32bits(v)
	}
	return words
}

// count gives n numbers from first on, one apart.
func count(first uint32, n int) []uint32 {
	values := make([]uint32, n)
	for i := range values {
		values[i] = first + uint32(i)
	}
	return values
}

// times gives n equal numbers.
func times(n int, value uint32) []uint32 {
	values := make([]uint32, n)
	for i := range values {
		values[i] = value
	}
	return values
}

// line is a one-dimensional launch of n threads in threadgroups of per.
func line(label string, p mtl.Pipeline, n, per int, bindings ...mtl.Binding) mtl.Dispatch {
	return mtl.Dispatch{
		Label: label, Pipeline: p, Bindings: bindings,
		Threads: mtl.Size{X: n, Y: 1, Z: 1}, ThreadsPerThreadgroup: mtl.Size{X: per, Y: 1, Z: 1},
	}
}
