package soft

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl"
	"minfer/metal/mtl/soft/interp"
	"minfer/metal/mtl/soft/san"
)

// kernel builds a pipeline whose threads run body with x, the first of n buffer
// arguments of 32-bit numbers, and their position in the grid.
func kernel(t *testing.T, d *Device, n int, body func(b *ir.Builder, args []ir.Value, i ir.Value)) *Pipeline {
	t.Helper()
	b := ir.NewBuilder("k")
	names := []string{"x", "y", "z"}
	for i := range n {
		b.Param(ir.Param{Name: names[i], Index: i, Space: ir.Device, Elem: "uint", ElemSize: 4, Scalar: ir.I32})
	}
	b.SetPos(b.Position(ir.Position{File: "k.metal", Line: 2, Col: 5}))
	var args []ir.Value
	for i := range n {
		args = append(args, b.Op(ir.PtrParam, ir.Ptr, uint64(i)))
	}
	body(b, args, b.Grid(ir.ThreadPositionInGrid, 0))
	if !b.Terminated() {
		b.Return()
	}
	require.NoError(t, ir.Verify(b.Func()))
	p, err := d.newPipeline(b.Func(), func(file string, line int) string {
		if file == "k.metal" && line == 2 {
			return "    the text;"
		}
		return ""
	})
	require.NoError(t, err)
	return p
}

var word = ir.Mem{Elem: ir.I32, Count: 1, Align: 4, Space: ir.Device}

// at is the address of element i.
func at(b *ir.Builder, p, i ir.Value) ir.Value {
	return b.PtrAdd(p, b.Bin(ir.Mul, b.Conv(ir.ZExt, ir.I64, i), b.I64(4)))
}

// set stores i+1 in x[i].
func set(b *ir.Builder, args []ir.Value, i ir.Value) {
	b.Store(at(b, args[0], i), word, b.Bin(ir.Add, i, b.I32(1)))
}

// move stores x[i] in y[i].
func move(b *ir.Builder, args []ir.Value, i ir.Value) {
	b.Store(at(b, args[1], i), word, b.Load(at(b, args[0], i), word)...)
}

func device(t *testing.T, o Options) *Device {
	t.Helper()
	d, err := New(o)
	require.NoError(t, err)
	return d
}

func buffer(t *testing.T, d *Device, label string, size int) *Buffer {
	t.Helper()
	b, err := d.NewBuffer(size, label)
	require.NoError(t, err)
	return b.(*Buffer)
}

func commands(t *testing.T, d *Device) *CommandBuffer {
	t.Helper()
	cb, err := d.NewCommandBuffer("cb")
	require.NoError(t, err)
	return cb.(*CommandBuffer)
}

// on binds whole buffers to a grid of n threads.
func on(label string, p *Pipeline, n int, buffers ...*Buffer) mtl.Dispatch {
	d := mtl.Dispatch{Label: label, Pipeline: p, Threads: mtl.Size{X: n, Y: 1, Z: 1}, ThreadsPerThreadgroup: mtl.Size{X: 32, Y: 1, Z: 1}}
	for i, b := range buffers {
		d.Bindings = append(d.Bindings, mtl.Binding{Index: i, Buffer: b, Length: b.size, Access: mtl.ReadWrite})
	}
	return d
}

// found is what a submit reports, by kind.
func found(t *testing.T, cb *CommandBuffer) []string {
	t.Helper()
	_, err := cb.Submit(context.Background())
	if err == nil {
		return nil
	}
	var failed *mtl.SubmitError
	require.True(t, errors.As(err, &failed))
	var findings *FindingsError
	require.True(t, errors.As(err, &findings), "%v", err)
	require.Equal(t, findings.Error(), failed.Status)
	var kinds []string
	for _, f := range findings.Report.Findings {
		if f.Severity == san.Error {
			kinds = append(kinds, f.Kind)
		}
	}
	return kinds
}

func TestNames(t *testing.T) {
	require.Equal(t, "Software Metal device (1 thread)", device(t, Options{Threads: 1}).Name())
	require.Equal(t, "Software Metal device (3 threads, strict)", device(t, Options{Threads: 3, Mode: san.Strict}).Name())
	_, err := New(Options{Threads: -1})
	require.EqualError(t, err, "software Metal device: -1 threads: want 0 (all cores) or more")
	_, err = New(Options{Mode: san.Chaos + 1})
	require.ErrorContains(t, err, "want off, mem, race, strict or chaos")
}

func TestCounters(t *testing.T) {
	var label string
	var got interp.Counters
	d := device(t, Options{Counters: func(d *mtl.Dispatch, c interp.Counters) { label, got = d.Label, c }})
	x := buffer(t, d, "X", 400)
	cb := commands(t, d)
	require.NoError(t, cb.Dispatch(on("set", kernel(t, d, 1, set), 100, x)))
	require.Empty(t, found(t, cb))
	require.Equal(t, "set", label)
	require.EqualValues(t, 4, got.Threadgroups)
	require.EqualValues(t, 4, got.Simdgroups)
	require.EqualValues(t, 400, got.DeviceWritten)
	require.EqualValues(t, 0, got.DeviceRead)
}

func TestFindingsFailTheSubmit(t *testing.T) {
	var reported []*san.Report
	d := device(t, Options{Mode: san.Mem, Report: func(label string, r *san.Report) {
		require.Equal(t, "cb", label)
		reported = append(reported, r)
	}})
	x := buffer(t, d, "X", 4*40)
	cb := commands(t, d)
	require.NoError(t, cb.Dispatch(on("set", kernel(t, d, 1, set), 64, x)))
	_, err := cb.Submit(context.Background())
	require.ErrorContains(t, err, `metal: submit of "cb" failed: k.metal:2:5: out-of-bounds:`)
	require.ErrorContains(t, err, "; last dispatches: set")
	require.Len(t, reported, 1)
	f := reported[0].Findings[0]
	require.Equal(t, san.KindOutOfBounds, f.Kind)
	require.Equal(t, "k", f.Kernel)
	require.Equal(t, "x", f.Argument)
	require.Equal(t, "X", f.Buffer)
	require.Equal(t, "    the text;", f.Sides[0].Text)
	require.Equal(t, 24, f.Count)
	// The rest ran, and the host has its buffer back.
	data := make([]byte, 160)
	require.NoError(t, x.Read(0, data))
	require.Equal(t, byte(40), data[156])

	cb = commands(t, d)
	require.NoError(t, cb.Dispatch(on("set", kernel(t, d, 1, set), 40, x)))
	require.Empty(t, found(t, cb))
	require.Len(t, reported, 1, "nothing is reported where nothing is found")
}

func TestOffFindsNothing(t *testing.T) {
	d := device(t, Options{})
	x, y := buffer(t, d, "X", 160), buffer(t, d, "Y", 256)
	cb := commands(t, d)
	require.NoError(t, cb.Dispatch(on("set", kernel(t, d, 1, set), 64, x)))
	require.NoError(t, cb.Dispatch(on("move", kernel(t, d, 2, move), 64, x, y)))
	require.Empty(t, found(t, cb))
	data := make([]byte, 256)
	require.NoError(t, y.Read(0, data))
	require.Equal(t, byte(40), data[156])
	require.Equal(t, make([]byte, 96), data[160:], "reads out of bounds give 0")
}

func TestExtentNotAllocation(t *testing.T) {
	d := device(t, Options{Mode: san.Mem})
	x := buffer(t, d, "X", 4*64)
	require.NoError(t, x.Write(0, make([]byte, 256)))
	launch := on("set", kernel(t, d, 1, set), 32, x)
	launch.Bindings[0].Offset, launch.Bindings[0].Length, launch.Bindings[0].Name = 64, 4*31, "blk.3.ffn_down"
	cb := commands(t, d)
	require.NoError(t, cb.Dispatch(launch))
	var report *san.Report
	d.o.Report = func(_ string, r *san.Report) { report = r }
	require.Equal(t, []string{san.KindOutOfBounds}, found(t, cb))
	f := report.Findings[0]
	require.Equal(t, []any{"blk.3.ffn_down", "X", int64(124), int64(188)}, []any{f.Tensor, f.Buffer, f.Offset, f.BufferOffset})
	var text strings.Builder
	require.NoError(t, report.WriteText(&text, false))
	require.Contains(t, text.String(), `device memory x = tensor "blk.3.ffn_down" = buffer "X"`)
	data := make([]byte, 256)
	require.NoError(t, x.Read(0, data))
	require.Equal(t, byte(31), data[64+4*30])
	require.Equal(t, byte(0), data[64+4*31], "the write past the extent is dropped")
}

func TestUndefinedBytes(t *testing.T) {
	d := device(t, Options{Mode: san.Mem})
	p := kernel(t, d, 2, move)
	run := func(x, y *Buffer) []string {
		cb := commands(t, d)
		require.NoError(t, cb.Dispatch(on("move", p, 32, x, y)))
		return found(t, cb)
	}
	x, y := buffer(t, d, "X", 128), buffer(t, d, "Y", 128)
	require.Equal(t, []string{san.KindUninitialized}, run(x, y))
	require.NoError(t, x.Write(0, make([]byte, 124)))
	require.Equal(t, []string{san.KindUninitialized}, run(x, y))
	require.NoError(t, x.Write(124, make([]byte, 4)))
	require.Empty(t, run(x, y))
	require.NoError(t, x.Undefine(60, 4))
	require.Equal(t, []string{san.KindUninitialized}, run(x, y))
	require.NotNil(t, x.Mapped(), "the host may have written through it")
	require.Empty(t, run(x, y))
}

func TestCopiesCarryUndefinedBytes(t *testing.T) {
	d := device(t, Options{Mode: san.Race})
	p := kernel(t, d, 2, move)
	x, y, z := buffer(t, d, "X", 128), buffer(t, d, "Y", 128), buffer(t, d, "Z", 128)
	require.NoError(t, x.Write(0, make([]byte, 64)))
	require.NoError(t, y.Write(0, make([]byte, 128)))
	cb := commands(t, d)
	require.NoError(t, cb.Copy(y, 0, x, 0, 128))
	require.Empty(t, found(t, cb), "copying them is no fault")
	cb = commands(t, d)
	require.NoError(t, cb.Dispatch(on("move", p, 16, y, z)))
	require.Empty(t, found(t, cb))
	cb = commands(t, d)
	require.NoError(t, cb.Dispatch(on("move", p, 17, y, z)))
	require.Equal(t, []string{san.KindUninitialized}, found(t, cb))
}

func TestDispatchesRaceWithoutBarrier(t *testing.T) {
	for _, c := range []struct {
		name    string
		barrier bool
		record  func(cb *CommandBuffer, p, q *Pipeline, x, y *Buffer, between func()) error
	}{
		{"dispatches", false, func(cb *CommandBuffer, p, q *Pipeline, x, y *Buffer, between func()) error {
			err := cb.Dispatch(on("set", p, 32, x))
			between()
			return errors.Join(err, cb.Dispatch(on("move", q, 32, x, y)))
		}},
		{"copy after dispatch", false, func(cb *CommandBuffer, p, q *Pipeline, x, y *Buffer, between func()) error {
			err := cb.Dispatch(on("set", p, 32, x))
			between()
			return errors.Join(err, cb.Copy(y, 0, x, 64, 4))
		}},
		{"dispatch after copy", false, func(cb *CommandBuffer, p, q *Pipeline, x, y *Buffer, between func()) error {
			err := cb.Copy(x, 64, y, 0, 4)
			between()
			return errors.Join(err, cb.Dispatch(on("set", p, 32, x)))
		}},
	} {
		for _, mode := range []san.Mode{san.Mem, san.Race, san.Strict} {
			for _, barrier := range []bool{false, true} {
				d := device(t, Options{Mode: mode})
				x, y := buffer(t, d, "X", 128), buffer(t, d, "Y", 128)
				require.NoError(t, x.Write(0, make([]byte, 128)))
				require.NoError(t, y.Write(0, make([]byte, 128)))
				cb := commands(t, d)
				require.NoError(t, c.record(cb, kernel(t, d, 1, set), kernel(t, d, 2, move), x, y, func() {
					if barrier {
						cb.Barrier()
					}
				}))
				var want []string
				if !barrier && mode >= san.Race {
					want = []string{san.KindDispatchRace}
				}
				require.Equal(t, want, found(t, cb), "%s, mode %v, barrier %v", c.name, mode, barrier)
			}
		}
	}
}

func TestOutputs(t *testing.T) {
	d := device(t, Options{Mode: san.Mem})
	p := kernel(t, d, 1, set)
	x := buffer(t, d, "X", 256)
	launch := on("set", p, 32, x)
	launch.Bindings[0].Access = mtl.Output
	cb := commands(t, d)
	require.NoError(t, cb.Dispatch(launch))
	require.Equal(t, []string{san.KindUnwrittenOutput}, found(t, cb), "half of it is written")

	// Two dispatches write a half each.
	x = buffer(t, d, "X", 256)
	half := func(offset int) mtl.Dispatch {
		launch := on("half", p, 32, x)
		launch.Bindings[0].Offset, launch.Bindings[0].Length = offset, 128
		return launch
	}
	cb = commands(t, d)
	require.NoError(t, cb.Output(x, 0, 256, mtl.Uint32))
	require.NoError(t, cb.Dispatch(half(0)))
	require.NoError(t, cb.Dispatch(half(128)))
	require.Empty(t, found(t, cb))
	x = buffer(t, d, "X", 256)
	cb = commands(t, d)
	require.NoError(t, cb.Output(x, 0, 256, mtl.Uint32))
	require.NoError(t, cb.Dispatch(half(128)))
	require.Equal(t, []string{san.KindUnwrittenOutput}, found(t, cb))
}

func TestChaosFindsOrder(t *testing.T) {
	// Every threadgroup stores its number: the last one stays.
	last := func(b *ir.Builder, args []ir.Value, i ir.Value) {
		b.Store(args[0], word, b.Grid(ir.ThreadgroupPositionInGrid, 0))
	}
	// An exchange is no race, and its result depends on the order all the same.
	exchange := func(b *ir.Builder, args []ir.Value, i ir.Value) {
		m := word
		old := b.NewValue(ir.I32)
		b.Add(&ir.Instr{Op: ir.AtomicRMW, Res: []ir.Value{old}, Args: []ir.Value{args[0], b.Grid(ir.ThreadgroupPositionInGrid, 0)}, Imm: uint64(ir.AtomicExchange), Mem: &m})
	}
	run := func(mode san.Mode, body func(*ir.Builder, []ir.Value, ir.Value)) ([]string, uint32) {
		d := device(t, Options{Mode: mode, Threads: 2})
		x := buffer(t, d, "X", 4)
		require.NoError(t, x.Write(0, make([]byte, 4)))
		launch := on("last", kernel(t, d, 1, body), 7, x)
		launch.ThreadsPerThreadgroup.X = 1
		cb := commands(t, d)
		require.NoError(t, cb.Dispatch(launch))
		kinds := found(t, cb)
		data := make([]byte, 4)
		require.NoError(t, x.Read(0, data))
		return kinds, uint32(data[0])
	}
	kinds, _ := run(san.Chaos, last)
	require.Contains(t, kinds, san.KindOrderDependent)
	require.Contains(t, kinds, san.KindDeviceRace)
	kinds, v := run(san.Chaos, exchange)
	require.Equal(t, []string{san.KindOrderDependent}, kinds)
	require.EqualValues(t, 6, v, "the memory of the ascending order stays")
	kinds, v = run(san.Strict, exchange)
	require.Empty(t, kinds)
	require.EqualValues(t, 6, v)
}

func TestChaosOfDispatches(t *testing.T) {
	// Two unordered dispatches that do race, and a sound pair.
	d := device(t, Options{Mode: san.Chaos})
	p, q := kernel(t, d, 1, set), kernel(t, d, 2, move)
	x, y := buffer(t, d, "X", 128), buffer(t, d, "Y", 128)
	require.NoError(t, x.Write(0, make([]byte, 128)))
	cb := commands(t, d)
	require.NoError(t, cb.Dispatch(on("set", p, 32, x)))
	require.NoError(t, cb.Dispatch(on("move", q, 32, x, y)))
	kinds := found(t, cb)
	require.Contains(t, kinds, san.KindDispatchRace)
	require.Contains(t, kinds, san.KindOrderDependent)
	require.NoError(t, x.Write(0, make([]byte, 128)))
	cb = commands(t, d)
	require.NoError(t, cb.Dispatch(on("set", p, 32, x)))
	cb.Barrier()
	require.NoError(t, cb.Dispatch(on("move", q, 32, x, y)))
	require.Empty(t, found(t, cb))
}

func TestDeadlineOption(t *testing.T) {
	d := device(t, Options{Deadline: 100 * time.Millisecond, Mode: san.Strict})
	forever := kernel(t, d, 1, func(b *ir.Builder, args []ir.Value, i ir.Value) {
		b.Loop(nil, nil, func(l *ir.Instr, a []ir.Value) {
			v := b.Load(args[0], word)
			b.If(b.Cmp(ir.Eq, v[0], b.I32(1)), nil, func() []ir.Value { b.Break(l); return nil }, nil)
			b.Continue(l)
		})
	})
	x := buffer(t, d, "X", 4)
	require.NoError(t, x.Write(0, make([]byte, 4)))
	cb := commands(t, d)
	require.NoError(t, cb.Dispatch(on("forever", forever, 1, x)))
	start := time.Now()
	_, err := cb.Submit(context.Background())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.EqualError(t, err, `metal: submit of "cb" failed: the deadline passed; last dispatches: forever`)
	require.Less(t, time.Since(start), mtl.DefaultDeadline)
}

// A submit that waits for another one keeps its own deadline, and none of its
// dispatches began.
func TestDeadlineWhileWaiting(t *testing.T) {
	d := device(t, Options{})
	forever := kernel(t, d, 1, func(b *ir.Builder, args []ir.Value, i ir.Value) {
		b.Loop(nil, nil, func(l *ir.Instr, a []ir.Value) {
			b.If(b.Cmp(ir.Eq, b.Load(args[0], word)[0], b.I32(1)), nil, func() []ir.Value { b.Break(l); return nil }, nil)
			b.Continue(l)
		})
	})
	x, y := buffer(t, d, "X", 4), buffer(t, d, "Y", 128)
	require.NoError(t, x.Write(0, make([]byte, 4)))
	first, second := commands(t, d), commands(t, d)
	require.NoError(t, first.Dispatch(on("forever", forever, 1, x)))
	require.NoError(t, second.Dispatch(on("set", kernel(t, d, 1, set), 32, y)))
	running, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := first.Submit(running)
		done <- err
	}()
	for len(d.queue) == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := second.Submit(ctx)
	require.EqualError(t, err, `metal: submit of "cb" failed: the deadline passed; no dispatch`)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	stop()
	require.ErrorIs(t, <-done, context.Canceled)
}

func TestTooManyThreadgroups(t *testing.T) {
	d := device(t, Options{})
	x := buffer(t, d, "X", 128)
	p := kernel(t, d, 1, set)
	for _, c := range []struct {
		groups, threads mtl.Size
		per             int
		refused         bool
	}{
		{mtl.Size{X: 1 << 16, Y: 1 << 16, Z: 1}, mtl.Size{}, 1, true},
		{mtl.Size{X: 1<<32 - 1, Y: 1, Z: 1}, mtl.Size{}, 1, true},
		{mtl.Size{X: 1<<32 - 2, Y: 1, Z: 1}, mtl.Size{}, 1, false},
		{mtl.Size{X: 1<<32 - 1, Y: 1<<32 - 1, Z: 1<<32 - 1}, mtl.Size{}, 1, true},
		{mtl.Size{}, mtl.Size{X: 1<<32 - 1, Y: 33, Z: 1}, 32, true},
		{mtl.Size{}, mtl.Size{X: 1<<32 - 1, Y: 31, Z: 1}, 32, false},
		{mtl.Size{}, mtl.Size{X: 1<<32 - 1, Y: 32, Z: 1}, 32, true},
	} {
		launch := on("many", p, 1, x)
		launch.Threadgroups, launch.Threads, launch.ThreadsPerThreadgroup.X = c.groups, c.threads, c.per
		cb := commands(t, d)
		err := cb.Dispatch(launch)
		cb.Discard()
		if !c.refused {
			require.NoError(t, err, "%v", c)
			continue
		}
		var refused *mtl.LaunchError
		require.ErrorAs(t, err, &refused, "%v", c)
		require.Equal(t, mtl.InvalidLaunch, refused.Kind)
		require.ErrorContains(t, err, "want at most 4294967294 threadgroups on this device")
	}
}

func TestPipelineLimits(t *testing.T) {
	d := device(t, Options{})
	b := ir.NewBuilder("large")
	b.Static(ir.Static{Name: "a", Size: 32768, Align: 4})
	b.Static(ir.Static{Name: "b", Size: 4, Align: 4})
	b.Return()
	_, err := d.newPipeline(b.Func(), nil)
	require.ErrorContains(t, err, "kernel large: 32772 bytes of threadgroup variables: want at most 32768")
	b = ir.NewBuilder("many")
	b.Param(ir.Param{Name: "far", Index: 31, Space: ir.Device, Elem: "uint", ElemSize: 4, Scalar: ir.I32})
	b.Return()
	_, err = d.newPipeline(b.Func(), nil)
	require.EqualError(t, err, "kernel many: argument far has index 31: want 0 to 30")
}
