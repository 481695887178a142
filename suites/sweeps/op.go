package sweeps

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/harness"
	"minfer/metal"
	"minfer/refs"
	"minfer/suites/metalcase"
)

// emulatedDeadline bounds a submit on a software device, which takes its time.
const emulatedDeadline = 10 * time.Minute

// backend gives a backend with a side's levers, and what ends it. gemmFrom is
// metal.Options'.
func (e *Env) backend(o Options, l lever.Levers, notes *recorder, gemmFrom int) (graph.Backend, func(), error) {
	if !e.metal() {
		b, err := e.Backend(o.Threads)
		return b, func() {}, err
	}
	options := metal.Options{Levers: l, GEMMFrom: gemmFrom, Launched: notes.launched, Timed: notes.timed}
	if e.Tally != nil {
		options.Deadline = emulatedDeadline
	}
	b, err := e.Metal(o.Threads, options)
	if err != nil {
		return nil, nil, err
	}
	return b, func() { b.Close() }, nil
}

// opSide is one side of a single op: a node, or the nodes that a fused one
// replaces, over the data of a case.
type opSide struct {
	b       graph.Backend
	end     func()
	p       *metalcase.Problem
	bound   func() metal.Bound
	cpu     bool
	w       harness.Work
	steps   []step
	others  [][]step // the same over copies of the weights: executions in a row take turns
	set     int64    // bytes of all these weights, 0 where there are no copies
	buffers []graph.Buffer
	places  map[metalcase.Place]graph.Operand
	kv      *graph.KV
}

// step is one node with its operands.
type step struct {
	n   *graph.Node
	in  []graph.Operand
	out graph.Operand
	kv  *graph.KV
}

// newOpSide puts a case's data on a backend. parts gives the nodes, nil for the
// case's own.
func newOpSide(r *Runner, e *Env, c metalcase.Case, l lever.Levers, w harness.Work, notes *recorder, parts func(*opSide, []graph.Operand) error) (_ subject, err error) {
	p, err := r.build(c)
	if err != nil {
		return nil, err
	}
	b, end, err := e.backend(r.o, l, notes, metal.GEMMByShape)
	if err != nil {
		return nil, err
	}
	s := &opSide{b: b, end: end, p: p, w: w, cpu: !e.metal(), places: map[metalcase.Place]graph.Operand{}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	op := p.Node.Op
	s.bound = func() metal.Bound { return metalcase.Bound(op.String(), notes.entries) }
	t := p.Node.Type
	if op == graph.Attn {
		t = p.Cache.Type
	}
	if !b.SupportsOp(op, t) && parts == nil {
		return nil, fmt.Errorf("%w: %s has no %s of %s", ErrUnsupported, b.Name(), op, t)
	}
	in, err := s.operands()
	if err != nil {
		return nil, err
	}
	if parts == nil {
		parts = (*opSide).whole
	}
	if err := parts(s, in); err != nil {
		return nil, err
	}
	if e.metal() && e.Device.CopiesWeights {
		return s, s.turns(r.o.WeightBytes)
	}
	return s, nil
}

// turns registers copies of the steps' matrices until there are that many bytes, so that
// no execution finds its weights in a cache of the device, as none does in a model.
func (s *opSide) turns(total int) error {
	size := 0
	matrix := func(w *graph.Weight) bool { return w != nil && w.Shape.Rows() > 1 }
	for _, x := range s.steps {
		if matrix(x.n.Weight) {
			size += len(x.n.Weight.Data)
		}
	}
	if size == 0 || size >= total {
		return nil
	}
	steps := s.steps
	defer func() { s.steps = steps }()
	for have := size; have < total; have += size {
		s.steps = nil
		for _, x := range steps {
			n := *x.n
			if matrix(n.Weight) {
				w := *n.Weight
				w.Name = fmt.Sprintf("%s copy %d", w.Name, len(s.others)+1)
				n.Weight = &w
			}
			if err := s.add(&n, x.in, x.out); err != nil {
				return err
			}
		}
		s.others = append(s.others, s.steps)
	}
	s.set = int64(size) * int64(1+len(s.others))
	return nil
}

// turn is the steps of an execution.
func (s *opSide) turn(i int) []step {
	if i %= 1 + len(s.others); i > 0 {
		return s.others[i-1]
	}
	return s.steps
}

// build draws a case's data and computes its reference; the last one is kept.
func (r *Runner) build(c metalcase.Case) (*metalcase.Problem, error) {
	op, params := c.ID()
	id := harness.ID{Suite: "sweep", Op: op, Params: params}.String()
	if r.last == id {
		return r.problem, nil
	}
	p, err := c.Build(rand.New(rand.NewPCG(r.o.Seed, 1)))
	if err != nil {
		return nil, err
	}
	if refusal := c.Refusal(); refusal != "" {
		return nil, fmt.Errorf("%w: %s is no shape that the kernels take", ErrUnsupported, refusal)
	}
	r.last, r.problem = id, p
	return p, nil
}

// operands makes the cache, the output and the inputs of the case's node.
func (s *opSide) operands() ([]graph.Operand, error) {
	p := s.p
	if p.Cache != nil {
		for _, side := range []struct {
			place metalcase.Place
			data  []byte
		}{{metalcase.Keys, p.Cache.K}, {metalcase.Values, p.Cache.V}} {
			o, err := s.buffer(len(side.data), side.data)
			if err != nil {
				return nil, err
			}
			s.places[side.place] = o
		}
		kv := p.Cache.KV
		kv.K, kv.V = s.places[metalcase.Keys].Buf, s.places[metalcase.Values].Buf
		s.kv = &kv
	}
	in := make([]graph.Operand, len(p.In))
	for i, content := range p.In {
		if x := p.Node.In[i]; x.Op == graph.KvcacheLoad {
			in[i] = s.places[metalcase.Keys]
			if x.Attr.KV == graph.KVValue {
				in[i] = s.places[metalcase.Values]
			}
			in[i].Len = x.Attr.NKV * s.kv.Type.RowBytes(x.Shape[0])
			continue
		}
		var err error
		if in[i], err = s.buffer(len(content), content); err != nil {
			return nil, err
		}
	}
	if p.Node.Op == graph.KvcacheStore {
		return in, nil
	}
	out, err := s.buffer(4*p.Node.Shape.Elements(), nil)
	s.places[metalcase.Output] = out
	return in, err
}

// buffer makes an operand, with content where there is some.
func (s *opSide) buffer(size int, content []byte) (graph.Operand, error) {
	b, err := s.b.AllocBuffer(size)
	if err != nil {
		return graph.Operand{}, err
	}
	s.buffers = append(s.buffers, b)
	if content == nil {
		content = make([]byte, size)
	}
	return graph.Operand{Buf: b, Len: size}, s.b.WriteHost(b, 0, content)
}

// whole is the case's own node.
func (s *opSide) whole(in []graph.Operand) error {
	out := s.places[metalcase.Output]
	if n := s.p.Node; n.Op == graph.KvcacheStore {
		out = s.places[metalcase.Keys]
		if n.Attr.KV == graph.KVValue {
			out = s.places[metalcase.Values]
		}
	}
	return s.add(s.p.Node, in, out)
}

// add registers a node's weights and makes it the next step.
func (s *opSide) add(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	if h, ok := s.b.(graph.WeightHolder); ok {
		for _, w := range []*graph.Weight{n.Weight, n.Bias, n.Norm, n.Factors} {
			if w == nil {
				continue
			}
			if err := h.HoldWeight(w); err != nil {
				return err
			}
		}
	}
	s.steps = append(s.steps, step{n, in, out, s.kv})
	return nil
}

func (s *opSide) prepare(context.Context) error { return nil }

// run encodes all executions into one command buffer.
func (s *opSide) run(ctx context.Context, n int) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	start := time.Now()
	for i := range n {
		for _, x := range s.turn(i) {
			if err := s.b.ExecuteNode(x.n, x.in, x.out, x.kv); err != nil {
				if errors.Is(err, graph.ErrUnsupported) {
					err = fmt.Errorf("%w: %w", ErrUnsupported, err)
				}
				return 0, err
			}
		}
	}
	if err := s.b.Synchronize(); err != nil {
		return 0, err
	}
	return max(time.Since(start), 1), nil
}

func (s *opSide) output() (output, error) {
	var stored [][]byte
	for i := range s.p.Results {
		place := s.places[s.p.Results[i].Place]
		data := make([]byte, place.Len)
		if err := s.b.ReadHost(place.Buf, place.Off, data); err != nil {
			return output{}, err
		}
		stored = append(stored, data)
	}
	first := &s.p.Results[0]
	values, err := metalcase.Floats(first.Type, stored[0])
	if err != nil {
		return output{}, err
	}
	out := output{values: values}
	if s.cpu {
		out.tolerance = cpuTolerance(s.p)
		out.check, err = harness.Within(values, first.Want, out.tolerance)
		return out, err
	}
	out.tolerance = first.Widest(s.bound())
	out.check, err = s.p.Compare(s.bound(), stored)
	return out, err
}

// cpuTolerance is how far the CPU's result may be from the reference: it rounds
// activations to the partner of the weights' type, of which a value's step is a
// 127th of its block's largest, or that of a half.
func cpuTolerance(p *metalcase.Problem) float64 {
	r := &p.Results[0]
	if r.Exact {
		return 0
	}
	staging := 1e-5
	switch w := p.Node.Weight; {
	case p.Node.Op == graph.Attn && p.Cache.Type != gguf.F32:
		staging = 1.0 / 64 // of scores, whose error is the weight's
	case p.Node.Op != graph.MatMul || w.Type == gguf.F32:
	case w.Type == gguf.F16:
		staging = 1.0 / 256
	default:
		staging = 1.0 / 16
	}
	terms := 0.0
	for _, t := range r.Terms {
		terms = max(terms, t)
	}
	return staging*math.Sqrt(r.K)*terms + 1e-3*min(1, refs.RMS(r.Want))
}

func (s *opSide) work() harness.Work { return s.w }

func (s *opSide) weightSet() int64 { return s.set }

func (s *opSide) close() {
	for _, b := range s.buffers {
		s.b.FreeBuffer(b)
	}
	s.end()
}

// rowsOf is a window of a concatenation's rows, or of a vector's values, under a
// name of its own.
func rowsOf(w *graph.Weight, name string, from, n int) *graph.Weight {
	if w == nil {
		return nil
	}
	part := &graph.Weight{Name: name, Type: w.Type}
	size := w.Type.RowBytes(w.Shape[0])
	if w.Shape.Rows() == 1 { // a vector
		part.Shape, size = graph.Vec(n), w.Type.RowBytes(1)
	} else {
		part.Shape = graph.Mat(w.Shape[0], n)
	}
	part.Data = w.Data[from*size : (from+n)*size]
	return part
}

// node makes a step's node.
func node(op graph.Op, name string, shape graph.Shape, a graph.Attr, in ...*graph.Node) *graph.Node {
	return &graph.Node{Op: op, Name: name, Layer: -1, Type: gguf.F32, Shape: shape, In: in, Attr: a}
}

// singleQKV is what FusedQKV and FusedQkvNorm replace: three products, the norms
// and rotations of q and k, two stores.
func singleQKV(s *opSide, in []graph.Operand) error {
	f := s.p.Node
	a := f.Attr
	q, kv := a.HeadDim*a.NHead, a.HeadDim*a.NHeadKV
	row := 0
	for _, part := range []struct {
		name  string
		width int
		heads int
		place metalcase.Place
	}{{"q", q, a.NHead, metalcase.Output}, {"k", kv, a.NHeadKV, metalcase.Keys}, {"v", kv, 0, metalcase.Values}} {
		shape := graph.Mat(part.width, 1)
		value := func() (graph.Operand, error) { return s.buffer(4*part.width, nil) }
		product := node(graph.MatMul, part.name, shape, graph.Attr{}, f.In[0])
		product.Weight = rowsOf(f.Weight, "blk.0.attn_"+part.name+".weight", row, part.width)
		product.Bias = rowsOf(f.Bias, "blk.0.attn_"+part.name+".bias", row, part.width)
		row += part.width
		x, err := value()
		if err != nil {
			return err
		}
		if err := s.add(product, in[:1], x); err != nil {
			return err
		}
		last := product
		if part.heads > 0 {
			at := graph.Attr{HeadDim: a.HeadDim, NHead: part.heads, Rope: a.Rope, Eps: a.Eps}
			if f.Norm != nil {
				norm := node(graph.QkNorm, part.name+" norm", shape, at, last)
				from := 0
				if part.name == "k" {
					from = a.HeadDim
				}
				norm.Weight = rowsOf(f.Norm, "blk.0.attn_"+part.name+"_norm.weight", from, a.HeadDim)
				y, err := value()
				if err != nil {
					return err
				}
				if err := s.add(norm, []graph.Operand{x}, y); err != nil {
					return err
				}
				x, last = y, norm
			}
			turned := node(graph.RoPE, part.name+" rope", shape, at, last, f.In[1])
			turned.Weight = f.Factors
			y := s.places[metalcase.Output]
			if part.place != metalcase.Output {
				if y, err = value(); err != nil {
					return err
				}
			}
			if err := s.add(turned, []graph.Operand{x, in[1]}, y); err != nil {
				return err
			}
			x, last = y, turned
		}
		if part.place == metalcase.Output {
			continue
		}
		store := node(graph.KvcacheStore, part.name+" store", shape, graph.Attr{}, last, f.In[1])
		store.Type = s.kv.Type
		if part.place == metalcase.Values {
			store.Attr.KV = graph.KVValue
		}
		if err := s.add(store, []graph.Operand{x, in[1]}, s.places[part.place]); err != nil {
			return err
		}
	}
	return nil
}

// singleFFN is what FusedFFN replaces: two products and SwiGLU.
func singleFFN(s *opSide, in []graph.Operand) error {
	f := s.p.Node
	ff := f.Shape[0]
	var nodes []*graph.Node
	var values []graph.Operand
	for i, name := range []string{"gate", "up"} {
		n := node(graph.MatMul, name, graph.Mat(ff, 1), graph.Attr{}, f.In[0])
		n.Weight = rowsOf(f.Weight, "blk.0.ffn_"+name+".weight", i*ff, ff)
		x, err := s.buffer(4*ff, nil)
		if err != nil {
			return err
		}
		if err := s.add(n, in[:1], x); err != nil {
			return err
		}
		nodes, values = append(nodes, n), append(values, x)
	}
	return s.add(node(graph.SwiGLU, "swiglu", graph.Mat(ff, 1), graph.Attr{}, nodes...), values, s.places[metalcase.Output])
}
