package record

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/mtl"
)

// buffer is one of 16 bytes of a device.
type buffer struct {
	device int
	mem    *Memory
}

func (b *buffer) Label() string           { return "x" }
func (b *buffer) Size() int               { return 16 }
func (b *buffer) Read(int, []byte) error  { return nil }
func (b *buffer) Write(int, []byte) error { return nil }
func (b *buffer) Mapped() []byte          { return nil }
func (b *buffer) Release()                { b.mem.Release() }

func TestMemory(t *testing.T) {
	freed, touched := 0, 0
	b := &buffer{}
	b.mem = NewMemory("x", func() { freed++ })
	touch := func(off, n int) error { return b.mem.Host(b, "read", off, n, func() { touched++ }) }
	require.NoError(t, touch(8, 8))
	require.EqualError(t, touch(8, 9), `metal: buffer "x": offset 8 and length 9: want a window within its 16 bytes`)
	require.NoError(t, b.mem.Retain())
	require.NoError(t, b.mem.Retain())
	require.EqualError(t, touch(0, 1), `metal: read of buffer "x": recorded or submitted work on it is pending: submit or discard it first`)
	b.mem.Done()
	b.Release()
	b.Release()
	require.True(t, b.mem.Released())
	require.EqualError(t, touch(0, 1), `metal: read of buffer "x": it was released`)
	require.EqualError(t, b.mem.Retain(), `metal: buffer "x" was released`)
	b.mem.Live(func() { touched++ })
	require.Zero(t, freed, "work holds it")
	b.mem.Done()
	require.Equal(t, 1, freed)
	require.Equal(t, 1, touched)

	idle := NewMemory("y", func() { freed++ })
	idle.Live(func() { touched++ })
	idle.Release()
	idle.Release()
	require.Equal(t, 2, freed)
	require.Equal(t, 2, touched)
}

func TestCommands(t *testing.T) {
	freed := 0
	live, gone := NewMemory("live", func() { freed++ }), NewMemory("gone", func() { freed++ })
	gone.Release()
	require.Equal(t, 1, freed)
	c := NewCommands("split 0")
	require.NoError(t, c.Open())
	require.EqualError(t, c.Hold(live, gone), `metal: buffer "gone" was released`)
	live.Release()
	require.Equal(t, 2, freed, "all or none")

	live = NewMemory("live", func() { freed++ })
	require.NoError(t, c.Hold(live, live))
	live.Release()
	require.True(t, c.Recording())
	c.Submit()
	require.False(t, c.Recording())
	require.EqualError(t, c.Open(), `metal: command buffer "split 0" was submitted: want a new one`)
	require.False(t, c.Discard())
	let := c.Take()
	c.Let()
	require.Equal(t, 2, freed, "in the caller's hands")
	let()
	require.Equal(t, 3, freed)

	c = NewCommands("split 1")
	require.True(t, c.Discard())
	require.False(t, c.Discard())
	require.EqualError(t, c.Open(), `metal: command buffer "split 1" was discarded: want a new one`)
}

func TestOwn(t *testing.T) {
	first := func(b mtl.Buffer) (*buffer, error) {
		return Own(b, "the first", func(b *buffer) bool { return b.device == 1 })
	}
	one, two := &buffer{device: 1}, &buffer{device: 2}
	got, err := first(one)
	require.NoError(t, err)
	require.Same(t, one, got)
	var none *buffer
	for _, c := range []struct {
		b    mtl.Buffer
		want string
	}{
		{nil, "metal: no buffer: want one of the first"},
		{none, "metal: no buffer: want one of the first"},
		{two, `metal: buffer "x": it belongs to another device than the first`},
		{struct{ mtl.Buffer }{one}, `metal: buffer "x": it belongs to another device than the first`},
	} {
		_, err := first(c.b)
		require.EqualError(t, err, c.want)
	}

	all, err := Buffers(&mtl.Dispatch{Label: "d", Bindings: []mtl.Binding{{Buffer: one}, {Bytes: []byte{1}}, {Buffer: one}}}, first)
	require.NoError(t, err)
	require.Equal(t, []*buffer{one, one}, all)
	_, err = Buffers(&mtl.Dispatch{Label: "d", Bindings: []mtl.Binding{{Buffer: one}, {Index: 7, Buffer: two}}}, first)
	require.EqualError(t, err, `metal: dispatch "d", buffer index 7: metal: buffer "x": it belongs to another device than the first`)

	to, from, err := Copied(one, one, first)
	require.NoError(t, err)
	require.Equal(t, []*buffer{one, one}, []*buffer{to, from})
	_, _, err = Copied(two, one, first)
	require.EqualError(t, err, `metal: copy: destination: metal: buffer "x": it belongs to another device than the first`)
	_, _, err = Copied(one, nil, first)
	require.EqualError(t, err, `metal: copy: source: metal: no buffer: want one of the first`)
}
