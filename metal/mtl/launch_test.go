package mtl

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

type fakePipeline struct {
	Pipeline
	threads, static int
	args            []Argument
}

func (p *fakePipeline) Kernel() string                { return "k" }
func (p *fakePipeline) Arguments() []Argument         { return p.args }
func (p *fakePipeline) MaxThreadsPerThreadgroup() int { return p.threads }
func (p *fakePipeline) StaticThreadgroupMemory() int  { return p.static }

type fakeBuffer struct {
	Buffer
	label string
	size  int
}

func (b *fakeBuffer) Label() string { return b.label }
func (b *fakeBuffer) Size() int     { return b.size }

var fakeLimits = Limits{MaxThreadsPerThreadgroup: 1024, MaxThreadgroupMemory: 32768, MaxBuffers: 31}

// fakeDispatch is legal; the tests below break one thing each.
func fakeDispatch() *Dispatch {
	return &Dispatch{
		Label: "d",
		Pipeline: &fakePipeline{threads: 512, static: 1024, args: []Argument{
			{Name: "x", Index: 0, Elem: "float4", ElemSize: 16, Scalar: Float32, ReadOnly: true},
			{Name: "y", Index: 1, Elem: "float", ElemSize: 4, Scalar: Float32},
			{Name: "n", Index: 2, Elem: "uint", ElemSize: 4, Scalar: Uint32, ReadOnly: true, Ref: true},
			{Name: "s", Index: 1, Elem: "float4", ElemSize: 16, Scalar: Float32, Threadgroup: true},
		}},
		Bindings: []Binding{
			{Index: 0, Buffer: &fakeBuffer{label: "X", size: 64}, Offset: 16, Length: 48, Type: Float32},
			{Index: 1, Buffer: &fakeBuffer{label: "Y", size: 64}, Offset: 4, Length: 60, Access: Output},
			{Index: 2, Bytes: []byte{1, 0, 0, 0}, Type: Int32},
		},
		ThreadgroupMemory:     []int{0, 16},
		Threadgroups:          Size{2, 1, 1},
		ThreadsPerThreadgroup: Size{32, 16, 1},
	}
}

func TestCheckDispatch(t *testing.T) {
	require.NoError(t, CheckDispatch(fakeLimits, fakeDispatch()))
	ragged := fakeDispatch()
	ragged.Threadgroups, ragged.Threads = Size{}, Size{math.MaxUint32, 7, 1}
	require.NoError(t, CheckDispatch(fakeLimits, ragged))
	extra := fakeDispatch()
	extra.Bindings = append(extra.Bindings, Binding{Index: 30, Bytes: make([]byte, MaxInlineBytes)})
	extra.ThreadgroupMemory = []int{16, 16, 32768 - 1024 - 32}
	require.NoError(t, CheckDispatch(fakeLimits, extra))
}

func TestCheckDispatchRefuses(t *testing.T) {
	const at = `metal: dispatch "d" of kernel k`
	for _, c := range []struct {
		name   string
		kind   LaunchKind
		breaks func(*Dispatch)
		want   string
	}{
		{"no grid", InvalidLaunch, func(d *Dispatch) { d.Threadgroups = Size{} }, at + ": grid: threadgroups 0x0x0 and threads 0x0x0: want exactly one of the two"},
		{"two grids", InvalidLaunch, func(d *Dispatch) { d.Threads = Size{1, 1, 1} }, at + ": grid: threadgroups 2x1x1 and threads 1x1x1: want exactly one of the two"},
		{"empty grid", InvalidLaunch, func(d *Dispatch) { d.Threadgroups.Y = 0 }, at + ": threadgroups [2 0 1]: component 1 is 0: want at least 1"},
		{"negative threads", InvalidLaunch, func(d *Dispatch) { d.Threadgroups, d.Threads = Size{}, Size{5, -1, 1} }, at + ": threads [5 -1 1]: component 1 is -1: want at least 1"},
		{"grid of 2^32 threads", InvalidLaunch, func(d *Dispatch) { d.Threadgroups.X = 1 << 27 }, at + ": threadgroups [134217728 1 1]: component 0 is 134217728: want at most 4294967295 threads along an axis"},
		{"empty threadgroup", InvalidLaunch, func(d *Dispatch) { d.ThreadsPerThreadgroup.Z = 0 }, at + ": threads_per_threadgroup 32x16x0: component 2 is 0: want at least 1"},
		{"too many threads", InvalidLaunch, func(d *Dispatch) { d.ThreadsPerThreadgroup = Size{27, 19, 1} }, at + ": threads_per_threadgroup 27x19x1: 513 threads: want at most 512"},
		{"threads that overflow", InvalidLaunch, func(d *Dispatch) { d.ThreadsPerThreadgroup = Size{1 << 32, 1 << 32, 1} }, at + ": threads_per_threadgroup 4294967296x4294967296x1: component 0 is 4294967296: want at most 512"},
		{"index too high", InvalidLaunch, func(d *Dispatch) { d.Bindings[0].Index = 31 }, at + ": buffer index 31: want 0 to 30"},
		{"index negative", InvalidLaunch, func(d *Dispatch) { d.Bindings[0].Index = -1 }, at + ": buffer index -1: want 0 to 30"},
		{"index twice", InvalidLaunch, func(d *Dispatch) { d.Bindings[0].Index = 1 }, at + ": buffer index 1 is bound twice"},
		{"missing argument", InvalidLaunch, func(d *Dispatch) { d.Bindings = d.Bindings[:2] }, at + ", argument n: nothing is bound at buffer index 2: want uint"},
		{"nothing bound", InvalidLaunch, func(d *Dispatch) { d.Bindings[0].Buffer = nil }, at + ": buffer index 0: 0 inline bytes and no buffer: want a buffer or 1 to 4096 bytes"},
		{"inline too long", InvalidLaunch, func(d *Dispatch) { d.Bindings[2].Bytes = make([]byte, 4097) }, at + ": buffer index 2: 4097 inline bytes and no buffer: want a buffer or 1 to 4096 bytes"},
		{"both", InvalidLaunch, func(d *Dispatch) { d.Bindings[0].Bytes = []byte{1} }, at + `: buffer index 0: both buffer "X" and 1 inline bytes: want one of the two`},
		{"offset negative", InvalidLaunch, func(d *Dispatch) { d.Bindings[0].Offset = -4 }, at + `: buffer index 0: offset -4 and length 48: want a window of at least one byte within the 64 bytes of buffer "X"`},
		{"offset past the end", InvalidLaunch, func(d *Dispatch) { d.Bindings[0].Offset = 68 }, at + `: buffer index 0: offset 68 and length 48: want a window of at least one byte within the 64 bytes of buffer "X"`},
		{"length past the end", InvalidLaunch, func(d *Dispatch) { d.Bindings[0].Length = 49 }, at + `: buffer index 0: offset 16 and length 49: want a window of at least one byte within the 64 bytes of buffer "X"`},
		{"length that overflows", InvalidLaunch, func(d *Dispatch) { d.Bindings[0].Length = math.MaxInt }, at + `: buffer index 0: offset 16 and length 9223372036854775807: want a window of at least one byte within the 64 bytes of buffer "X"`},
		{"no length", InvalidLaunch, func(d *Dispatch) { d.Bindings[0].Length = 0 }, at + `: buffer index 0: offset 16 and length 0: want a window of at least one byte within the 64 bytes of buffer "X"`},
		{"offset between elements", InvalidLaunch, func(d *Dispatch) { d.Bindings[1].Offset, d.Bindings[1].Length = 6, 8 }, at + ", argument y: offset 6 at buffer index 1: want a multiple of the 4 bytes of float32"},
		{"inline to write", InvalidLaunch, func(d *Dispatch) { d.Bindings[1] = Binding{Index: 1, Bytes: make([]byte, 8)} }, at + ", argument y: inline bytes at buffer index 1: want a buffer, as the kernel may write float"},
		{"part of an element", TypeMismatch, func(d *Dispatch) { d.Bindings[0].Length = 12 }, at + ", argument x: 12 bytes at buffer index 0: want at least the 16 of one float4"},
		{"inline too wide", TypeMismatch, func(d *Dispatch) { d.Bindings[2].Bytes = make([]byte, 8) }, at + ", argument n: 8 bytes at buffer index 2: want the 4 of one uint"},
		{"inline too narrow", TypeMismatch, func(d *Dispatch) { d.Bindings[2].Bytes = make([]byte, 2) }, at + ", argument n: 2 bytes at buffer index 2: want the 4 of one uint"},
		{"float for an integer", TypeMismatch, func(d *Dispatch) { d.Bindings[2].Type = Float32 }, at + ", argument n: elements of float32 at buffer index 2: want uint"},
		{"half for a float", TypeMismatch, func(d *Dispatch) { d.Bindings[0].Type = Float16 }, at + ", argument x: elements of float16 at buffer index 0: want float4"},
		{"threadgroup memory ragged", InvalidLaunch, func(d *Dispatch) { d.ThreadgroupMemory[1] = 20 }, at + ": threadgroup memory 1: 20 bytes: want a multiple of 16"},
		{"threadgroup memory negative", InvalidLaunch, func(d *Dispatch) { d.ThreadgroupMemory[0] = -16 }, at + ": threadgroup memory 0: -16 bytes: want a multiple of 16"},
		{"threadgroup memory missing", InvalidLaunch, func(d *Dispatch) { d.ThreadgroupMemory = nil }, at + ", argument s: no length for threadgroup memory 1: want at least the 16 bytes of one float4"},
		{"threadgroup memory empty", InvalidLaunch, func(d *Dispatch) { d.ThreadgroupMemory[1] = 0 }, at + ", argument s: no length for threadgroup memory 1: want at least the 16 bytes of one float4"},
		{"threadgroup memory too large", InvalidLaunch, func(d *Dispatch) { d.ThreadgroupMemory[0] = 32768 - 1024 }, at + ": 32784 bytes of threadgroup memory (1024 of them static): want at most 32768"},
		{"threadgroup memory that overflows", InvalidLaunch, func(d *Dispatch) { d.ThreadgroupMemory[0] = math.MaxInt - 15 }, at + ": threadgroup memory 0: 9223372036854775792 bytes: want at most 32768"},
		{"threadgroup lengths too many", InvalidLaunch, func(d *Dispatch) { d.ThreadgroupMemory = append([]int{0, 16}, make([]int, 30)...) }, at + ": 32 lengths of threadgroup memory: want at most 31"},
	} {
		d := fakeDispatch()
		c.breaks(d)
		err := CheckDispatch(fakeLimits, d)
		var refused *LaunchError
		require.True(t, errors.As(err, &refused), c.name)
		require.Equal(t, c.want, err.Error(), c.name)
		require.Equal(t, c.kind, refused.Kind, c.name)
	}
}

func TestCheckCopy(t *testing.T) {
	a, b := &fakeBuffer{label: "A", size: 64}, &fakeBuffer{label: "B", size: 32}
	require.NoError(t, CheckCopy(a, 32, b, 0, 32))
	require.NoError(t, CheckCopy(a, 32, a, 0, 32))
	require.NoError(t, CheckCopy(a, 0, a, 32, 32))
	for _, c := range []struct {
		dst    Buffer
		dstOff int
		src    Buffer
		srcOff int
		n      int
		want   string
	}{
		{a, 36, b, 0, 32, `metal: buffer "A": offset 36 and length 32: want a window within its 64 bytes`},
		{a, 0, b, 4, 32, `metal: buffer "B": offset 4 and length 32: want a window within its 32 bytes`},
		{a, -4, b, 0, 4, `metal: buffer "A": offset -4 and length 4: want a window within its 64 bytes`},
		{a, 4, b, 0, math.MaxInt, `metal: buffer "A": offset 4 and length 9223372036854775807: want a window within its 64 bytes`},
		{a, 2, b, 0, 4, `metal: copy from "B" to "A": offset 2 in "A": want a multiple of 4`},
		{a, 0, b, 1, 4, `metal: copy from "B" to "A": offset 1 in "B": want a multiple of 4`},
		{a, 0, b, 0, 6, `metal: copy from "B" to "A": 6 bytes: want a positive multiple of 4`},
		{a, 0, b, 0, 0, `metal: copy from "B" to "A": 0 bytes: want a positive multiple of 4`},
		{a, 4, a, 0, 8, `metal: copy within "A": 8 bytes from offset 0 to 4 overlap: want disjoint windows`},
		{a, 0, a, 0, 4, `metal: copy within "A": 4 bytes from offset 0 to 0 overlap: want disjoint windows`},
	} {
		require.EqualError(t, CheckCopy(c.dst, c.dstOff, c.src, c.srcOff, c.n), c.want)
	}
}
