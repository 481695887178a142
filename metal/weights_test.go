package metal_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/metal"
	"minfer/metal/mtl"
)

func address(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }

// second reads row 1 of a table of floats.
func second(t *testing.T, b *metal.Backend, w *graph.Weight) []byte {
	t.Helper()
	out, err := rowsOf(t, b, w, 1)
	require.NoError(t, err)
	require.NoError(t, b.Synchronize())
	got := make([]byte, out.Len)
	require.NoError(t, b.ReadHost(out.Buf, 0, got))
	return got
}

// Weights of several parts are read where they lie: what is written there later
// shows. Those outside of every part are copied.
func TestWeightsInPlace(t *testing.T) {
	b := strict(t, metal.Options{Levers: lever.Default()})
	first, part1 := table(t, "a", 4096)
	other, part2 := table(t, "b", 0)
	lone, _ := table(t, "c", 0)
	require.NoError(t, b.HoldPart(part1))
	require.NoError(t, b.HoldPart(part2))
	require.NoError(t, b.HoldPart(part2)) // announced before
	for _, w := range []*graph.Weight{first, other, lone} {
		require.False(t, b.Holds(w))
		require.NoError(t, b.HoldWeight(w))
		require.NoError(t, b.HoldWeight(w)) // registered before
		require.True(t, b.Holds(w))
	}
	require.Equal(t, metal.WeightStats{InPlace: 2, InPlaceBytes: 96, Copied: 1, CopiedBytes: 48, Parts: 2}, b.WeightStats())
	before, after := bytesOf([]float32{5, 6, 7, 8}), bytesOf([]float32{-1, -2, -3, -4})
	for _, w := range []*graph.Weight{first, other, lone} {
		require.Equal(t, before, second(t, b, w), w.Name)
		copy(w.Data[16:], after)
	}
	require.Equal(t, after, second(t, b, first))
	require.Equal(t, after, second(t, b, other))
	require.Equal(t, before, second(t, b, lone))

	// The name and the bytes are the identity, not the value that describes them.
	again := *first
	require.True(t, b.Holds(&again))
	require.Equal(t, after, second(t, b, &again))
	again.Data = lone.Data
	require.False(t, b.Holds(&again))
	require.EqualError(t, b.HoldWeight(&again), "metal: weight a: 48 bytes at another address are registered under this name, these are 48")
	_, err := rowsOf(t, b, &again, 1)
	require.EqualError(t, err, `metal: node 7 "inp_embd" (get_rows): weight a: other bytes are registered under this name`)
	shorter := *first
	shorter.Data = first.Data[:32]
	require.False(t, b.Holds(&shorter))
	require.EqualError(t, b.HoldWeight(&graph.Weight{Name: "none"}), "metal: weight none has no bytes")
}

// MINFER_WEIGHT_COPY copies all, with the same values.
func TestWeightCopy(t *testing.T) {
	l := lever.Default()
	l.WeightCopy = true
	b := strict(t, metal.Options{Levers: l})
	w, part := table(t, "a", 4096)
	require.NoError(t, b.HoldPart(part))
	require.NoError(t, b.HoldWeight(w))
	require.Equal(t, metal.WeightStats{Copied: 1, CopiedBytes: 48}, b.WeightStats())
	before := bytesOf([]float32{5, 6, 7, 8})
	require.Equal(t, before, second(t, b, w))
	clear(w.Data)
	require.Equal(t, before, second(t, b, w))
}

// What the device or the memory does not let be wrapped is copied: a device
// without the means, a part that starts within a page, a weight that is aligned
// to less than the kernels' loads, one that straddles the longest buffer.
func TestWeightsNotInPlace(t *testing.T) {
	want := bytesOf([]float32{5, 6, 7, 8})
	w, part := table(t, "a", 0)
	b, _ := counted(t, metal.Options{Levers: lever.Default()}, func(l *mtl.Limits) { l.NoCopy = false })
	require.NoError(t, b.HoldPart(part))
	require.NoError(t, b.HoldWeight(w))
	require.Equal(t, 1, b.WeightStats().Copied)
	require.Equal(t, want, second(t, b, w))

	b = strict(t, metal.Options{Levers: lever.Default()})
	require.NoError(t, b.HoldPart(part[16:]))
	require.NoError(t, b.HoldPart(nil))
	require.NoError(t, b.HoldWeight(w))
	require.Equal(t, metal.WeightStats{Copied: 1, CopiedBytes: 48}, b.WeightStats())

	b = strict(t, metal.Options{Levers: lever.Default()})
	for i, skip := range []int{4, 8, 16, 32} {
		w, part := table(t, string(rune('a'+i)), skip)
		require.NoError(t, b.HoldPart(part))
		require.NoError(t, b.HoldWeight(w))
		require.Equal(t, want, second(t, b, w))
	}
	require.Equal(t, 2, b.WeightStats().InPlace)
	require.Equal(t, 2, b.WeightStats().Copied)

	// Three buffers of at most two pages for a part of five.
	const page = 4096
	b, _ = counted(t, metal.Options{Levers: lever.Default()}, func(l *mtl.Limits) { l.MaxBufferLength, l.PageSize = 2*page+100, page })
	w, part = table(t, "inside", 2*page)
	data := append([]byte(nil), w.Data...)
	straddles := *w
	straddles.Name, straddles.Data = "straddles", part[4*page-16:4*page+32]
	copy(straddles.Data, data)
	require.NoError(t, b.HoldPart(part[:5*page]))
	require.NoError(t, b.HoldWeight(w))
	require.NoError(t, b.HoldWeight(&straddles))
	require.Equal(t, metal.WeightStats{InPlace: 1, InPlaceBytes: 48, Copied: 1, CopiedBytes: 48, Parts: 3}, b.WeightStats())
	require.Equal(t, want, second(t, b, w))
	require.Equal(t, want, second(t, b, &straddles))
}
