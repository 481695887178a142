package metal_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/metal"
	"minfer/metal/kernels"
	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/metal/mtl/soft/san"
)

// strictDevice is one for all tests, with the kernels compiled.
var strictDevice = sync.OnceValues(func() (*soft.Device, *metal.Pipelines) {
	dev, err := soft.New(soft.Options{Mode: san.Strict})
	if err != nil {
		panic(err)
	}
	p, err := metal.Compile(dev, nil)
	if err != nil {
		panic(err)
	}
	return dev, p
})

// strict is a backend on a software device that checks everything.
func strict(t testing.TB, o metal.Options) *metal.Backend {
	t.Helper()
	dev, p := strictDevice()
	o.Poison, o.Pipelines = true, p
	b, err := metal.New(dev, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// counting is a device that counts what it is asked for. Its pipelines are the
// device's own.
type counting struct {
	mtl.Device
	commands, submits, dispatches, barriers int
	deadline                                time.Time // of the last submit
	limits                                  func(*mtl.Limits)
	first                                   []mtl.Binding // of each dispatch
}

func (d *counting) Limits() mtl.Limits {
	l := d.Device.Limits()
	if d.limits != nil {
		d.limits(&l)
	}
	return l
}

func (d *counting) NewCommandBuffer(label string) (mtl.CommandBuffer, error) {
	cb, err := d.Device.NewCommandBuffer(label)
	d.commands++
	return countingCommands{cb, d}, err
}

type countingCommands struct {
	mtl.CommandBuffer
	d *counting
}

func (c countingCommands) Dispatch(d mtl.Dispatch) error {
	c.d.dispatches++
	c.d.first = append(c.d.first, d.Bindings[0])
	return c.CommandBuffer.Dispatch(d)
}

func (c countingCommands) Barrier() {
	c.d.barriers++
	c.CommandBuffer.Barrier()
}

func (c countingCommands) Submit(ctx context.Context) (mtl.Timing, error) {
	c.d.submits++
	c.d.deadline, _ = ctx.Deadline()
	return c.CommandBuffer.Submit(ctx)
}

// countingDevice is one for all tests, with the kernels compiled.
var countingDevice = sync.OnceValues(func() (*counting, *metal.Pipelines) {
	dev, err := soft.New(soft.Options{Mode: san.Strict})
	if err != nil {
		panic(err)
	}
	d := &counting{Device: dev}
	p, err := metal.Compile(d, nil)
	if err != nil {
		panic(err)
	}
	return d, p
})

// counted is a backend on a counting device, whose limits f may change.
func counted(t *testing.T, o metal.Options, f func(*mtl.Limits)) (*metal.Backend, *counting) {
	t.Helper()
	d, p := countingDevice()
	*d = counting{Device: d.Device, limits: f}
	o.Pipelines = p
	b, err := metal.New(d, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b, d
}

// table is a weight [4, 3] of floats for GetRows, in memory that starts skip bytes
// past a page boundary of a part of its own.
func table(t *testing.T, name string, skip int) (w *graph.Weight, part []byte) {
	t.Helper()
	data := make([]float32, 12)
	for i := range data {
		data[i] = float32(i + 1)
	}
	raw := bytesOf(data)
	part = pages(skip + len(raw))
	copy(part[skip:], raw)
	return &graph.Weight{Name: name, Type: gguf.F32, Shape: graph.Mat(4, 3), Data: part[skip : skip+len(raw)]}, part
}

// rowsOf runs GetRows of a table of floats with 4 columns, without Synchronize.
func rowsOf(t *testing.T, b *metal.Backend, w *graph.Weight, ids ...byte) (out graph.Operand, err error) {
	t.Helper()
	raw := make([]byte, 4*len(ids))
	for i, id := range ids {
		raw[4*i] = id
	}
	in, err := b.AllocBuffer(len(raw))
	require.NoError(t, err)
	require.NoError(t, b.WriteHost(in, 0, raw))
	buf, err := b.AllocBuffer(16 * len(ids))
	require.NoError(t, err)
	out = graph.Operand{Buf: buf, Len: 16 * len(ids)}
	n := &graph.Node{
		ID: 7, Op: graph.GetRows, Name: "inp_embd", Layer: -1, Type: gguf.F32, Shape: graph.Mat(4, len(ids)), Weight: w,
		In: []*graph.Node{{Op: graph.Input, Type: gguf.I32, Shape: graph.Vec(len(ids))}},
	}
	return out, b.ExecuteNode(n, []graph.Operand{{Buf: in, Len: len(raw)}}, out, nil)
}

// pages is zeroed memory that starts and ends on page boundaries.
func pages(n int) []byte {
	const page = 1 << 16 // at least that of any machine
	n = (n + page - 1) / page * page
	raw := make([]byte, n+page)
	skip := 0
	for address(raw[skip:])%page != 0 {
		skip++
	}
	return raw[skip : skip+n : skip+n]
}

func TestStart(t *testing.T) {
	b := strict(t, metal.Options{Levers: lever.Default()})
	require.Equal(t, "Metal", b.Name())
	dev, p := strictDevice()
	require.Equal(t, mtl.Device(dev), b.Device())
	require.Regexp(t, `^MPS: using Metal on Software Metal device \(\d+ threads?, strict\) \(unified: yes\)$`, metal.StartLine(dev))
	require.Equal(t, "MPS: using Metal on Software Metal device (1 thread) (unified: no)", metal.StartLine(discrete{}))
	_, err := metal.New(dev, metal.Options{Deadline: -1})
	require.EqualError(t, err, "metal: a deadline of -1ns: want more than 0, or 0 for 10s")
	other, err := soft.New(soft.Options{Threads: 1})
	require.NoError(t, err)
	_, err = metal.New(other, metal.Options{Pipelines: p})
	require.ErrorContains(t, err, "want those of Software Metal device (1 thread)")
}

type discrete struct{ mtl.Device }

func (discrete) Name() string       { return "Software Metal device (1 thread)" }
func (discrete) Limits() mtl.Limits { return mtl.Limits{} }

// A kernel that is broken, missing, there twice, or needs a constant that nobody
// gives, is an error at start that names it.
func TestBrokenKernels(t *testing.T) {
	sources := func() fstest.MapFS {
		m := fstest.MapFS{}
		files, err := fs.Glob(kernels.FS, "*.*")
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, f := range files {
			data, err := fs.ReadFile(kernels.FS, f)
			require.NoError(t, err)
			m[f] = &fstest.MapFile{Data: data}
		}
		return m
	}
	dev, err := soft.New(soft.Options{})
	require.NoError(t, err)
	whole, err := metal.Compile(dev, sources())
	require.NoError(t, err)
	whole.Release()
	whole.Release() // once is enough

	rename := sources()
	rename["warm_up.metal"].Data = []byte(strings.Replace(string(rename["warm_up.metal"].Data), "kernel_warm_up", "kernel_cold", 1))
	_, err = metal.Compile(dev, rename)
	require.ErrorContains(t, err, "metal: warm_up: no kernel kernel_warm_up in any of ")

	broken := sources()
	broken["warm_up.metal"].Data = append(broken["warm_up.metal"].Data, "kernel void kernel_x(device uint *y [[buffer(0)]]) { y[0] = nothing; }\n"...)
	_, err = metal.Compile(dev, broken)
	require.ErrorContains(t, err, "warm_up.metal:")
	require.ErrorContains(t, err, "nothing")

	twice := sources()
	twice["zz.metal"] = twice["warm_up.metal"]
	_, err = metal.Compile(dev, twice)
	require.EqualError(t, err, "metal: kernel kernel_warm_up is in warm_up.metal and in zz.metal: want one")

	constant := sources()
	constant["warm_up.metal"].Data = []byte(strings.Replace(string(constant["warm_up.metal"].Data), "uint s = 0;", "uint s = offset;", 1))
	constant["warm_up.metal"].Data = []byte(strings.Replace(string(constant["warm_up.metal"].Data), "struct ", "constant uint offset [[function_constant(0)]];\nstruct ", 1))
	_, err = metal.Compile(dev, constant)
	require.ErrorContains(t, err, "metal: warm_up: ")
	require.ErrorContains(t, err, "offset")

	_, err = metal.Compile(dev, fstest.MapFS{})
	require.ErrorContains(t, err, "no kernel")

	// What is wrong with all files is said once.
	require.NoError(t, dev.Close())
	_, err = metal.Compile(dev, nil)
	require.EqualError(t, err, "metal: the software device is closed")
	_, err = metal.New(dev, metal.Options{Levers: lever.Default()})
	require.EqualError(t, err, "metal: the software device is closed")
}

// A backend whose pipelines were released under it says so.
func TestReleasedPipelines(t *testing.T) {
	dev, err := soft.New(soft.Options{})
	require.NoError(t, err)
	defer dev.Close()
	p, err := metal.Compile(dev, nil)
	require.NoError(t, err)
	b, err := metal.New(dev, metal.Options{Levers: lever.Default(), Pipelines: p})
	require.NoError(t, err)
	defer b.Close()
	w, _ := table(t, "token_embd.weight", 0)
	require.NoError(t, b.HoldWeight(w))
	p.Release()
	_, err = rowsOf(t, b, w, 1)
	require.ErrorContains(t, err, "get_rows f32: the pipelines were released, want them kept until the backend is closed")
	w, _ = table(t, "output.weight", 0)
	require.ErrorContains(t, b.HoldWeight(w), "warm_up: the pipelines were released, want them kept until the backend is closed")
}

// The table is what listings and coverage count: every row has a name of its own,
// says when it runs and why its bound holds, and no kernel is without a row.
func TestTable(t *testing.T) {
	name := regexp.MustCompile(`^kernel_[a-z0-9_]+$`)
	ids, used := map[string]bool{}, map[string]bool{}
	for _, e := range metal.Table {
		require.False(t, ids[e.ID()], e.ID())
		ids[e.ID()] = true
		used[e.Kernel] = true
		require.Regexp(t, name, e.Kernel, e.ID())
		require.NotEmpty(t, e.When, e.ID())
		require.NotEmpty(t, e.Bound.Why, e.ID())
		require.Equal(t, e, metal.Lookup(e.Op, e.Type, e.Variant), e.ID())
		require.GreaterOrEqual(t, min(e.Bound.C, e.Bound.Staging, e.Bound.Absolute), 0.0, e.ID())
		if e.Lever == "" {
			continue
		}
		for _, name := range strings.Split(e.Lever, ", ") {
			_, ok := lever.Find(name)
			require.True(t, ok, "%s: %s", e.ID(), name)
		}
	}
	require.Nil(t, metal.Lookup("warm_up", "q4_0", ""))
	require.NotNil(t, metal.Lookup("warm_up", "", ""))

	dev, err := soft.New(soft.Options{})
	require.NoError(t, err)
	files, err := fs.Glob(kernels.FS, "*.metal")
	require.NoError(t, err)
	for _, f := range files {
		text, err := fs.ReadFile(kernels.FS, f)
		require.NoError(t, err)
		lib, err := dev.Compile(t.Context(), mtl.Source{Name: path.Base(f), Text: string(text), Include: kernels.FS, FastMath: true})
		require.NoError(t, err)
		for _, k := range lib.Kernels() {
			require.True(t, used[k], "%s: kernel %s is in no row of the table", f, k)
		}
		lib.Release()
	}
}

func TestSupports(t *testing.T) {
	b := strict(t, metal.Options{Levers: lever.Default()})
	for _, op := range []graph.Op{graph.Scale, graph.Softmax, graph.BatchMatMul, graph.QkvBiasRopeStore} {
		require.False(t, b.SupportsOp(op, gguf.F32), op)
		require.False(t, b.SupportsFused(op), op)
	}
	for _, op := range []graph.Op{
		graph.GetRows, graph.Add, graph.Mul, graph.Silu, graph.SwiGLU, graph.RmsNorm, graph.QkNorm, graph.MatMul,
		graph.RoPE, graph.Permute, graph.FusedQKV, graph.FusedQkvNorm, graph.FusedFFN, graph.View, graph.Reshape,
	} {
		require.True(t, b.SupportsOp(op, gguf.F32), op)
		require.Equal(t, op == graph.View || op == graph.Reshape, b.SupportsOp(op, gguf.F16), op)
	}
	for _, op := range []graph.Op{graph.KvcacheStore, graph.KvcacheLoad, graph.Attn} {
		for _, kv := range []gguf.Type{gguf.F32, gguf.F16, gguf.Q8_0} {
			require.True(t, b.SupportsOp(op, kv), "%v %v", op, kv)
		}
		require.False(t, b.SupportsOp(op, gguf.BF16), op)
		require.False(t, b.SupportsOp(op, gguf.Q4_0), op)
	}
	require.True(t, b.SupportsFused(graph.SwiGLU))
	require.True(t, b.SupportsFused(graph.FusedQKV))
	require.True(t, b.SupportsFused(graph.FusedQkvNorm))
	require.True(t, b.SupportsFused(graph.FusedFFN))
	no := lever.Default()
	no.NoFuseQKV = true
	require.False(t, strict(t, metal.Options{Levers: no}).SupportsFused(graph.FusedQKV))
	require.False(t, strict(t, metal.Options{Levers: no}).SupportsFused(graph.FusedQkvNorm))
	require.True(t, strict(t, metal.Options{Levers: no}).SupportsFused(graph.FusedFFN))
	no.NoFuseFFN = true
	require.False(t, strict(t, metal.Options{Levers: no}).SupportsFused(graph.FusedFFN))

	wide := func(ff int, typ gguf.Type) *graph.Node {
		w := &graph.Weight{Name: "w", Type: typ, Shape: graph.Mat(256, 2*ff)}
		return &graph.Node{Op: graph.FusedFFN, Shape: graph.Mat(ff, 1), Weight: w}
	}
	require.True(t, b.SupportsFusedNode(wide(16384, gguf.Q4_0), gguf.F32))
	require.False(t, b.SupportsFusedNode(wide(16416, gguf.Q4_0), gguf.F32))
	require.False(t, b.SupportsFusedNode(wide(64, gguf.Q8_K), gguf.F32))
	require.False(t, b.SupportsFusedNode(&graph.Node{Op: graph.MatMul}, gguf.F32))
}

// What the core itself refuses, with its numbers. The families' guards are in
// their own tests.
func TestGuards(t *testing.T) {
	b := strict(t, metal.Options{Levers: lever.Default()})
	buf, err := b.AllocBuffer(64)
	require.NoError(t, err)
	x := graph.Operand{Buf: buf, Len: 64}
	in := &graph.Node{Op: graph.Input, Type: gguf.F32, Shape: graph.Vec(16)}
	run := func(op graph.Op, shape graph.Shape, in ...*graph.Node) error {
		ops := make([]graph.Operand, len(in))
		for i := range ops {
			ops[i] = x
		}
		return b.ExecuteNode(&graph.Node{ID: 3, Op: op, Name: "name", Type: gguf.F32, Shape: shape, In: in}, ops, x, nil)
	}
	for _, op := range []graph.Op{graph.Scale, graph.Softmax, graph.BatchMatMul, graph.QkvBiasRopeStore} {
		err := run(op, graph.Vec(16), in)
		require.ErrorIs(t, err, graph.ErrUnsupported)
		require.EqualError(t, err, fmt.Sprintf(`metal: node 3 "name" (%s): unsupported: this op has no kernel (force CPU with MINFER_DISABLE_MPS=1)`, op))
	}
	require.EqualError(t, run(graph.Add, graph.Vec(16), in), `metal: node 3 "name" (add): 1 operands for 1 inputs, want 2`)
	require.EqualError(t, run(graph.Silu, graph.Shape{16, -1, 1, 1}, in), `metal: node 3 "name" (silu): shape [16 -1 1 1], want no negative dimension`)

	// Memory that is not this backend's, freed, or too short.
	w, _ := table(t, "token_embd.weight", 0)
	_, err = rowsOf(t, b, w, 0)
	require.EqualError(t, err, `metal: node 7 "inp_embd" (get_rows): weight token_embd.weight is not registered`)
	require.NoError(t, b.HoldWeight(w))
	n := &graph.Node{
		ID: 7, Op: graph.GetRows, Name: "inp_embd", Type: gguf.F32, Shape: graph.Mat(4, 4), Weight: w,
		In: []*graph.Node{{Op: graph.Input, Type: gguf.I32, Shape: graph.Vec(4)}},
	}
	ids := graph.Operand{Buf: buf, Len: 16}
	freed, err := b.AllocBuffer(64)
	require.NoError(t, err)
	require.Equal(t, 64, freed.Size())
	b.FreeBuffer(freed)
	b.FreeBuffer(freed) // idempotent
	require.Zero(t, freed.Size())
	foreign, err := strict(t, metal.Options{}).AllocBuffer(64)
	require.NoError(t, err)
	for _, c := range []struct {
		out  graph.Operand
		want string
	}{
		{graph.Operand{Buf: freed, Len: 64}, "buffer index 2: buffer already freed"},
		{graph.Operand{Buf: foreign, Len: 64}, "buffer index 2: buffer of another Metal backend"},
		{graph.Operand{Len: 64}, "buffer index 2: buffer <nil>, want one of the Metal backend"},
		{graph.Operand{Buf: buf, Off: 16, Len: 64}, "buffer index 2: window of 64 bytes at 16, the buffer has 64"},
		{graph.Operand{Buf: buf, Off: -4, Len: 64}, "buffer index 2: window of 64 bytes at -4, the buffer has 64"},
	} {
		require.EqualError(t, b.ExecuteNode(n, []graph.Operand{ids}, c.out, nil), `metal: node 7 "inp_embd" (get_rows): `+c.want)
	}
	// An error of one launch is not the next one's.
	_, err = rowsOf(t, b, w, 1)
	require.NoError(t, err)
	require.NoError(t, b.Synchronize())

	_, err = b.AllocBuffer(-1)
	require.EqualError(t, err, "metal: a buffer of -1 bytes: want 0 to 8589934592")
	_, err = b.AllocFresh(1 << 40)
	require.EqualError(t, err, "metal: a buffer of 1099511627776 bytes: want 0 to 8589934592")
	require.EqualError(t, b.ReadHost(buf, 60, make([]byte, 8)), "metal: read: window of 8 bytes at 60, the buffer has 64")
	require.EqualError(t, b.WriteHost(freed, 0, make([]byte, 8)), "metal: write: buffer already freed")
	require.EqualError(t, b.ReadHost(foreign, 0, make([]byte, 8)), "metal: read: buffer of another Metal backend")
	_, err = b.Map(freed)
	require.EqualError(t, err, "metal: map: buffer already freed")
}

// The host cannot touch what pending work uses; once it is synchronized, it can.
func TestPendingWork(t *testing.T) {
	b := strict(t, metal.Options{Levers: lever.Default()})
	w, _ := table(t, "token_embd.weight", 0)
	require.NoError(t, b.HoldWeight(w))
	apart, err := b.AllocBuffer(16)
	require.NoError(t, err)
	require.NoError(t, b.WriteHost(apart, 0, make([]byte, 16)))

	out, err := rowsOf(t, b, w, 2, 0)
	require.NoError(t, err)
	data := make([]byte, out.Len)
	pending := `^metal: (read|write|map) of "buffer \d+": work on it is pending: synchronize first$`
	require.Regexp(t, pending, b.ReadHost(out.Buf, 0, data).Error())
	require.Regexp(t, pending, b.WriteHost(out.Buf, 0, data).Error())
	_, err = b.Map(out.Buf)
	require.Regexp(t, pending, err.Error())
	require.NoError(t, b.ReadHost(apart, 0, data[:16]), "no work is pending on this one")

	// Memory that is given out again while work on it is pending stays locked.
	next, err := rowsOf(t, b, w, 1)
	require.NoError(t, err)
	b.FreeBuffer(next.Buf)
	again, err := b.AllocBuffer(next.Len)
	require.NoError(t, err)
	require.Regexp(t, pending, b.ReadHost(again, 0, data[:16]).Error())
	require.Regexp(t, pending, b.WriteHost(again, 0, data[:16]).Error())
	_, err = b.Map(again)
	require.Regexp(t, pending, err.Error())

	require.NoError(t, b.Synchronize())
	_, err = b.Map(again)
	require.NoError(t, err)
	require.NoError(t, b.ReadHost(out.Buf, 0, data))
	require.Equal(t, bytesOf([]float32{9, 10, 11, 12, 1, 2, 3, 4}), data)
	mapped, err := b.Map(out.Buf)
	require.NoError(t, err)
	require.Equal(t, data, mapped)
	require.NoError(t, b.WriteHost(out.Buf, 0, data))
	require.NoError(t, b.Synchronize(), "nothing to do")
}

// One command buffer a split: made at the first node, submitted by Synchronize,
// with a barrier after each dispatch and a deadline.
func TestOneSubmit(t *testing.T) {
	b, d := counted(t, metal.Options{Levers: lever.Default(), Deadline: time.Minute}, nil)
	w, _ := table(t, "token_embd.weight", 0)
	require.NoError(t, b.HoldWeight(w))
	d.commands, d.submits, d.dispatches, d.barriers = 0, 0, 0, 0
	require.NoError(t, b.Synchronize())
	require.Zero(t, d.commands+d.submits)
	for range 5 {
		_, err := rowsOf(t, b, w, 1)
		require.NoError(t, err)
	}
	require.Equal(t, []int{1, 0, 5, 5}, []int{d.commands, d.submits, d.dispatches, d.barriers})
	require.NoError(t, b.Synchronize())
	require.InDelta(t, time.Minute.Seconds(), time.Until(d.deadline).Seconds(), 10)
	_, err := rowsOf(t, b, w, 1)
	require.NoError(t, err)
	require.Equal(t, []int{2, 1}, []int{d.commands, d.submits})
	require.NoError(t, b.Synchronize())
	require.Equal(t, []int{2, 2}, []int{d.commands, d.submits})
}

// A submit that takes too long is an error with the labels of what ran last.
func TestDeadline(t *testing.T) {
	b, _ := counted(t, metal.Options{Levers: lever.Default()}, nil)
	w, _ := table(t, "token_embd.weight", 0)
	require.NoError(t, b.HoldWeight(w))
	late, _ := counted(t, metal.Options{Levers: lever.Default(), Deadline: 1}, nil)
	err := late.HoldWeight(w)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.False(t, late.Holds(w), "a weight that could not be read is not registered")
	var failed *mtl.SubmitError
	require.True(t, errors.As(err, &failed))
	require.Equal(t, "warm-up token_embd.weight", failed.Label)

	// The work may still run: nothing of its memory is touched again.
	const refusal = `metal: an earlier submit missed its deadline of 1ns and may still run: metal: submit of "warm-up token_embd.weight" failed`
	_, err = late.AllocBuffer(4)
	require.ErrorContains(t, err, refusal)
	require.ErrorContains(t, late.HoldWeight(w), refusal)
	require.ErrorContains(t, late.ExecuteNode(&graph.Node{Op: graph.Add}, nil, graph.Operand{}, nil), refusal)
	require.ErrorContains(t, late.ReadHost(nil, 0, nil), refusal)
	require.ErrorContains(t, late.Synchronize(), refusal)
	require.ErrorContains(t, late.Synchronize(), refusal, "it stays so")
	require.NoError(t, late.Close())
	require.NoError(t, late.Synchronize(), "nothing is left to wait for")
}

// Close drops pending work, is idempotent, and everything fails after it.
func TestClose(t *testing.T) {
	b, d := counted(t, metal.Options{Levers: lever.Default()}, nil)
	w, part := table(t, "token_embd.weight", 0)
	require.NoError(t, b.HoldPart(part))
	require.NoError(t, b.HoldWeight(w))
	submits := d.submits
	out, err := rowsOf(t, b, w, 1)
	require.NoError(t, err)
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	require.Equal(t, submits, d.submits)
	const closed = "metal: the backend is closed"
	require.EqualError(t, b.ReadHost(out.Buf, 0, make([]byte, 4)), closed)
	require.EqualError(t, b.WriteHost(out.Buf, 0, make([]byte, 4)), closed)
	require.EqualError(t, b.ExecuteNode(&graph.Node{Op: graph.Add}, nil, out, nil), closed)
	require.EqualError(t, b.HoldPart(part), closed)
	require.EqualError(t, b.HoldWeight(w), closed)
	_, err = b.AllocBuffer(4)
	require.EqualError(t, err, closed)
	b.FreeBuffer(out.Buf)
	require.NoError(t, b.Synchronize())
	require.False(t, b.Holds(w))
}

// Memory comes back to later buffers of its size, but never from AllocFresh.
func TestRecycling(t *testing.T) {
	b := strict(t, metal.Options{})
	made := func(buf graph.Buffer, err error) graph.Buffer {
		require.NoError(t, err)
		return buf
	}
	write := func(buf graph.Buffer, v byte) { require.NoError(t, b.WriteHost(buf, 0, []byte{v, v, v, v})) }
	read := func(buf graph.Buffer) byte {
		got := make([]byte, 4)
		require.NoError(t, b.ReadHost(buf, 0, got))
		return got[0]
	}
	old := made(b.AllocBuffer(1000))
	write(old, 5)
	b.FreeBuffer(old)
	again := made(b.AllocBuffer(1001))
	require.Equal(t, byte(0xff), read(again), "recycled, and poisoned since a checker watches")
	write(again, 6)
	fresh := made(b.AllocFresh(1000))
	write(fresh, 7)
	require.Equal(t, byte(6), read(again))
	b.FreeBuffer(fresh)
	b.FreeBuffer(again)
	last := made(b.AllocFresh(1000))
	write(last, 8)
	require.Equal(t, byte(8), read(last))
	empty := made(b.AllocBuffer(0))
	require.Zero(t, empty.Size())
	require.NoError(t, b.ReadHost(empty, 0, nil))
	b.FreeBuffer(nil)
}

// Without a lever, f16 from 8192 channels of all layers on.
func TestCacheType(t *testing.T) {
	l := lever.Default()
	require.Equal(t, gguf.F32, metal.CacheType(24, 128, l), "Qwen2 0.5B: 3072")
	require.Equal(t, gguf.F32, metal.CacheType(63, 130, l), "8190")
	require.Equal(t, gguf.F16, metal.CacheType(64, 128, l), "8192")
	require.Equal(t, gguf.F16, metal.CacheType(28, 512, l), "Qwen2 7B: 14336")
	for name, want := range map[string]gguf.Type{"f16": gguf.F16, "f32": gguf.F32, "q8_0": gguf.Q8_0} {
		l.CacheType = name
		require.Equal(t, want, metal.CacheType(1, 1, l))
		require.Equal(t, want, metal.CacheType(100, 1024, l))
	}
}

// Every dispatch is announced as it is encoded.
func TestLaunched(t *testing.T) {
	var seen []string
	b := strict(t, metal.Options{Levers: lever.Default(), Launched: func(e *metal.Entry) { seen = append(seen, e.ID()) }})
	w, _ := table(t, "token_embd.weight", 0)
	require.NoError(t, b.HoldWeight(w))
	_, err := rowsOf(t, b, w, 1)
	require.NoError(t, err)
	require.Equal(t, []string{"warm_up", "get_rows f32"}, slices.Compact(seen))
	require.NoError(t, b.Synchronize())
}
