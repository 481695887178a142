package metalcase

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unsafe"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/metal"
	"minfer/refs"
	"minfer/suites"
	"minfer/suites/onenode"
)

// outcome is one run of a problem: the values of its results, or why there are
// none. A refusal is a guard's error, a fault anything else that the backend
// gets wrong.
type outcome struct {
	values  [][]float32
	entries []*metal.Entry
	refusal string
	fault   string
}

// kernels lists what was dispatched.
func (o outcome) kernels() string {
	var ids []string
	for _, e := range o.entries {
		if !slices.Contains(ids, e.ID()) {
			ids = append(ids, e.ID())
		}
	}
	return "dispatched: " + strings.Join(ids, ", ")
}

// runOn executes the problem's node once, on a backend of its own. An error means
// that the suite is broken.
func runOn(env *suites.Env, threads int, levers lever.Levers, p *Problem) (outcome, error) {
	var o outcome
	b, err := env.Metal(threads, metal.Options{Levers: levers, GEMMFrom: metal.GEMMByShape, Launched: func(e *metal.Entry) { o.entries = append(o.entries, e) }})
	if err != nil {
		return o, err
	}
	defer b.Close()
	n := p.Node
	t := n.Type
	if n.Op == graph.Attn {
		t = p.Cache.Type
	}
	if !b.SupportsOp(n.Op, t) {
		o.refusal = fmt.Sprintf("%s does not support %s of %s", b.Name(), n.Op, t)
		return o, nil
	}
	r := &runner{b: b}
	held, err := r.holdWeights(n)
	switch {
	case err != nil:
		o.fault = err.Error()
	default:
		err = r.run(p, held, &o)
	}
	return o, err
}

// runner is one run.
type runner struct {
	b    *metal.Backend
	held []onenode.Guarded
	part []byte // all weights, with gaps
	gaps []byte // the same before the run
}

// holdWeights puts the node's weights into one page-aligned part, as a mapped file
// has them, with gaps of guard bytes, and registers them. It returns the node with
// its weights there.
func (r *runner) holdWeights(n *graph.Node) (*graph.Node, error) {
	own := *n
	places := []**graph.Weight{&own.Weight, &own.Bias, &own.Norm, &own.Factors}
	const align = 32 // of tensors in a GGUF file
	size := 0
	for _, w := range places {
		if *w != nil {
			size += align + (len((*w).Data)+align-1)/align*align
		}
	}
	if size == 0 {
		return &own, nil
	}
	r.part = pages(size + align)
	for i := range r.part {
		r.part[i] = onenode.GuardByte
	}
	at := align
	for _, w := range places {
		if *w == nil {
			continue
		}
		moved := **w
		moved.Data = r.part[at : at+len((*w).Data) : at+len((*w).Data)]
		copy(moved.Data, (*w).Data)
		at += align + (len(moved.Data)+align-1)/align*align
		*w = &moved
	}
	r.gaps = bytes.Clone(r.part)
	if err := r.b.HoldPart(r.part); err != nil {
		return nil, err
	}
	for _, w := range places {
		if *w != nil {
			if err := r.b.HoldWeight(*w); err != nil {
				return nil, err
			}
		}
	}
	return &own, nil
}

// pages gives n bytes that start on a page boundary; the last page is whole.
func pages(n int) []byte {
	page := os.Getpagesize()
	all := make([]byte, (n+page-1)/page*page+page)
	off := int(-uintptr(unsafe.Pointer(unsafe.SliceData(all))) & uintptr(page-1))
	return all[off : off+n : off+(n+page-1)/page*page]
}

func (r *runner) hold(what string, content []byte, before int, fixed bool) (graph.Operand, error) {
	g, err := onenode.NewGuarded(r.b, what, content, before, fixed)
	if err != nil {
		return graph.Operand{}, err
	}
	r.held = append(r.held, g)
	return g.Operand, nil
}

// run executes the node, of which n is a copy with registered weights.
func (r *runner) run(p *Problem, n *graph.Node, o *outcome) error {
	b := r.b
	writes := map[Place]bool{}
	for i := range p.Results {
		writes[p.Results[i].Place] = true
	}
	operands := make([]graph.Operand, len(placeNames))
	var kv *graph.KV
	if p.Cache != nil {
		layer := p.Cache.KV
		var err error
		// Regions start at offset 0 of their buffers, as the graph has them.
		if operands[Keys], err = r.hold("K cache", p.Cache.K, 0, !writes[Keys]); err != nil {
			return err
		}
		if operands[Values], err = r.hold("V cache", p.Cache.V, 0, !writes[Values]); err != nil {
			return err
		}
		layer.K, layer.V = operands[Keys].Buf, operands[Values].Buf
		kv = &layer
	}
	in := make([]graph.Operand, len(p.In))
	for i, content := range p.In {
		if x := p.Node.In[i]; x.Op == graph.KvcacheLoad {
			region := operands[Keys]
			if x.Attr.KV == graph.KVValue {
				region = operands[Values]
			}
			// The first cells are the window. A row of no whole blocks is to be refused.
			t := p.Cache.Type
			region.Len = x.Attr.NKV * (x.Shape[0] / t.BlockSize() * t.BlockBytes())
			in[i] = region
			continue
		}
		var err error
		if in[i], err = r.hold(fmt.Sprintf("input %d", i), content, onenode.Guard, i != p.InPlace-1); err != nil {
			return err
		}
	}
	out := operands[Keys]
	switch {
	case n.Op == graph.KvcacheStore && n.Attr.KV == graph.KVValue:
		out = operands[Values]
	case p.InPlace > 0:
		out = in[p.InPlace-1]
		operands[Output] = out
	case n.Op != graph.KvcacheStore:
		var err error
		if out, err = r.hold("output", onenode.Poison(n.Shape.Elements()), onenode.Guard, false); err != nil {
			return err
		}
		operands[Output] = out
	}

	err := b.ExecuteNode(n, in, out, kv)
	if err == nil {
		err = b.Synchronize()
	}
	switch {
	case errors.Is(err, graph.ErrUnsupported):
		o.refusal = err.Error()
		return nil
	case err != nil:
		o.fault = oneLine(err.Error())
		return nil
	}
	for _, g := range r.held {
		if o.fault, err = g.Check(b); err != nil || o.fault != "" {
			return err
		}
	}
	if i := firstDifference(r.part, r.gaps); i >= 0 {
		o.fault = fmt.Sprintf("byte %d of the weights was changed", i)
		return nil
	}
	for i := range p.Results {
		result := &p.Results[i]
		window := operands[result.Place]
		data := make([]byte, window.Len)
		if err := b.ReadHost(window.Buf, window.Off, data); err != nil {
			return err
		}
		values, err := widen(result.Type, data)
		if err != nil {
			return err
		}
		o.values = append(o.values, values)
	}
	return nil
}

func oneLine(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ") }

func firstDifference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// widen reads stored values as float32, exactly: of packed types their products
// with the scale, which fit.
func widen(t gguf.Type, data []byte) ([]float32, error) {
	n := len(data) / t.BlockBytes() * t.BlockSize()
	values, err := refs.Dequantize(t, data, n)
	if err != nil {
		return nil, err
	}
	return refs.F32(values), nil
}
