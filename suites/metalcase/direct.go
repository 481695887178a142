package metalcase

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math/rand/v2"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/harness"
	"minfer/metal"
	"minfer/metal/kernels"
	"minfer/metal/mtl"
	"minfer/suites"
	"minfer/suites/onenode"
)

// Node is a node of one op without a value of its own, for [Unsupported].
func Node(op graph.Op, shape graph.Shape) *graph.Node { return onenode.New(op, shape) }

// Unsupported is an op that the Metal backend has no kernel for, by contract: the
// scheduler must learn so from SupportsOp.
type Unsupported struct {
	Name   string
	Params []harness.Param
	Node   *graph.Node
}

// ID implements [Case].
func (c *Unsupported) ID() (string, []harness.Param) { return c.Name, c.Params }

// Work implements [Case].
func (c *Unsupported) Work() int64 { return 1 }

// Setting implements [Case].
func (c *Unsupported) Setting() Setting { return nil }

// Refusal implements [Case].
func (c *Unsupported) Refusal() string { return "does not support" }

// Build implements [Case].
func (c *Unsupported) Build(*rand.Rand) (*Problem, error) { return &Problem{Node: c.Node}, nil }

// WarmUp is the read of a weight that follows its registration: the backend must
// dispatch it, and the kernel, launched alone, must have read one word of every
// page, whose sum it gives.
type WarmUp struct{ Bytes int }

// ID implements [Case].
func (c *WarmUp) ID() (string, []harness.Param) {
	return "warm_up", []harness.Param{harness.P("bytes", c.Bytes)}
}

// Work implements [Case].
func (c *WarmUp) Work() int64 { return int64(c.Bytes) }

// Setting implements [Case].
func (c *WarmUp) Setting() Setting { return nil }

// Refusal implements [Case].
func (c *WarmUp) Refusal() string { return "" }

// Build implements [Case].
func (c *WarmUp) Build(*rand.Rand) (*Problem, error) {
	return nil, fmt.Errorf("the warm-up read is no node")
}

func (c *WarmUp) run(ctx context.Context, env *suites.Env) (harness.Result, []*metal.Entry, error) {
	op, params := c.ID()
	data := pages(c.Bytes)
	r := random(env.Seed, harness.ID{Op: op, Params: params}, 0)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	var launched []*metal.Entry
	b, err := env.Metal(1, metal.Options{Levers: lever.Default(), Launched: func(e *metal.Entry) { launched = append(launched, e) }})
	if err != nil {
		return harness.Result{}, nil, err
	}
	defer b.Close()
	w := &graph.Weight{Name: "token_embd.weight", Type: gguf.F32, Shape: graph.Vec(c.Bytes / 4), Data: data}
	if err := b.HoldWeight(w); err != nil {
		return harness.Failed("%v", err), nil, nil
	}
	e := metal.Lookup("warm_up", "", "")
	if len(launched) != 1 || launched[0] != e {
		return harness.Failed("registering a weight dispatched %d entries: want the warm-up read", len(launched)), nil, nil
	}
	page := b.Device().Limits().PageSize
	want := uint32(0)
	for at := 0; at < len(data); at += page {
		want += binary.LittleEndian.Uint32(data[at:])
	}
	got, err := c.launch(ctx, env, b.Device(), e, data, page)
	switch {
	case err != nil:
		return harness.Result{}, nil, err
	case got != want:
		return harness.Failed("the sum of one word of every page is %d: want %d", got, want), nil, nil
	}
	return harness.Passed(), launched, nil
}

// launch runs the kernel alone.
func (c *WarmUp) launch(ctx context.Context, env *suites.Env, dev mtl.Device, e *metal.Entry, data []byte, page int) (uint32, error) {
	fsys := env.Kernels
	if fsys == nil {
		fsys = kernels.FS
	}
	const file = "warm_up.metal"
	text, err := fs.ReadFile(fsys, file)
	if err != nil {
		return 0, err
	}
	lib, err := dev.Compile(ctx, mtl.Source{Name: file, Text: string(text), Include: fsys, FastMath: true})
	if err != nil {
		return 0, err
	}
	defer lib.Release()
	p, err := lib.Pipeline(e.Kernel, e.Constants)
	if err != nil {
		return 0, err
	}
	defer p.Release()
	weight, err := dev.NewBuffer(len(data), "weight")
	if err != nil {
		return 0, err
	}
	defer weight.Release()
	sum, err := dev.NewBuffer(4, "sum")
	if err != nil {
		return 0, err
	}
	defer sum.Release()
	if err := weight.Write(0, data); err != nil {
		return 0, err
	}
	cb, err := dev.NewCommandBuffer("warm-up")
	if err != nil {
		return 0, err
	}
	defer cb.Discard()
	parameters := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(len(data)/4)), uint32(page/4))
	if err := cb.Dispatch(mtl.Dispatch{Label: e.ID(), Pipeline: p, Bindings: []mtl.Binding{
		{Index: 0, Buffer: weight, Length: len(data), Access: mtl.Read},
		{Index: 1, Buffer: sum, Length: 4, Access: mtl.Output},
		{Index: 2, Bytes: parameters},
	}, Threadgroups: mtl.Size{X: 1, Y: 1, Z: 1}, ThreadsPerThreadgroup: mtl.Size{X: 32, Y: 1, Z: 1}}); err != nil {
		return 0, err
	}
	if _, err := cb.Submit(ctx); err != nil {
		return 0, err
	}
	word := make([]byte, 4)
	if err := sum.Read(0, word); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(word), nil
}
