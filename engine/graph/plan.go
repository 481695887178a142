package graph

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"
	"unsafe"

	"minfer/engine/gguf"
)

// A Plan is one graph made ready to run: assigned, fused, with its buffers. Its
// slices are made once, so that a run allocates nothing for a node.
type Plan struct {
	Graph      *Graph // after fusion; its nodes are the plan's own
	Assignment *Assignment
	Allocation *Allocation

	exec    *Executor
	buffers []Buffer // by slot
	steps   []step   // by node ID
	inputs  []input
	scratch []byte // host side of a copy
	value   []float32
	busy    []bool   // by backend: work enqueued since its last Synchronize
	bound   *KVCache // whose regions the steps hold
	stamp   []int    // by position: the check that met it last
	checks  int
	runs    int
	closed  bool
	prof    *profile
}

// step is one call of ExecuteNode.
type step struct {
	node    *Node
	backend int
	skip    bool // Input and windows: nothing to execute
	in      []Operand
	out     Operand
	kv      *KV
	window  Operand // of View and Reshape, for the tap
}

// input is one Input node and what its values must be.
type input struct {
	node   *Node
	size   int
	feeds  []Feed
	checks []valueCheck
}

// valueCheck bounds the values of an input for one reader of it.
type valueCheck struct {
	reader   *Node
	limit    int // values are 0..limit-1
	capacity bool
	what     string // "token id", "position"
}

func newPlan(e *Executor, g *Graph, a *Assignment, al *Allocation) (*Plan, error) {
	p := &Plan{
		Graph: g, Assignment: a, Allocation: al, exec: e,
		steps: make([]step, len(g.Nodes)), busy: make([]bool, len(a.Backends)),
	}
	if err := al.checkSides(g, a); err != nil {
		return nil, err
	}
	for i, s := range al.Slots {
		b := a.Backends[s.Backend]
		alloc := b.AllocBuffer
		if s.Fresh {
			alloc = b.AllocFresh
		}
		buf, err := alloc(s.Size)
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("alloc: slot %d of %d: %d bytes on %s: %w", i, len(al.Slots), s.Size, b.Name(), err)
		}
		p.buffers = append(p.buffers, buf)
	}
	for id, n := range g.Nodes {
		s := step{node: n, backend: a.Of[id], skip: n.Op == Input || isAlias(n.Op)}
		if !s.skip {
			s.in = make([]Operand, len(n.In))
			for i := range n.In {
				s.in[i] = p.operand(al.In[id][i])
			}
			s.out = p.operand(al.Out[id])
		} else if n.Op != Input {
			s.window = p.operand(al.Out[id])
		}
		p.steps[id] = s
	}
	largest := 0
	for _, c := range al.Copies {
		largest = max(largest, c.To.Len)
	}
	p.scratch = make([]byte, largest)
	p.describeInputs()
	if e.opt.Profile != nil {
		p.prof = newProfile(len(g.Nodes))
	}
	return p, nil
}

// operand is the window of a slot; places in a KV region are filled by bindKV.
func (p *Plan) operand(pl Place) Operand {
	if pl.Slot < 0 {
		return Operand{}
	}
	return Operand{p.buffers[pl.Slot], pl.Off, pl.Len}
}

func (p *Plan) describeInputs() {
	for _, n := range p.Graph.Nodes {
		if n.Op != Input {
			continue
		}
		in := input{node: n, size: byteLen(n.Type, n.Shape)}
		for _, f := range p.Allocation.Feeds {
			if f.Node == n.ID {
				in.feeds = append(in.feeds, f)
			}
		}
		for _, r := range p.Graph.Nodes {
			for i, x := range r.In {
				if x != n {
					continue
				}
				switch {
				case r.Op == GetRows:
					in.checks = append(in.checks, valueCheck{reader: r, limit: r.Weight.Shape[1], what: "token id"})
				case (r.Op == RoPE || isFusedQKV(r.Op)) && i == 1:
					in.checks = append(in.checks, valueCheck{reader: r, limit: math.MaxInt32, what: "position"})
				case r.Op == Attn && i == 3:
					in.checks = append(in.checks, valueCheck{reader: r, limit: r.Attr.NKV, what: "position"})
				}
				if (r.Op == KvcacheStore || isFusedQKV(r.Op)) && i == 1 {
					in.checks = append(in.checks, valueCheck{reader: r, limit: 0, capacity: true, what: "position"})
				}
			}
		}
		// Every layer checks alike: keep the first of each limit.
		seen := map[valueCheck]bool{}
		in.checks = slices.DeleteFunc(in.checks, func(c valueCheck) bool {
			c.reader = nil
			dup := seen[c]
			seen[c] = true
			return dup
		})
		p.inputs = append(p.inputs, in)
	}
}

// Run executes the plan: in holds the bytes (little-endian) of every Input by
// node name, kv the cache (nil for a graph without KV nodes). It returns the
// output in a slice of the caller's own. After an error the cells of this run's
// positions are undefined.
func (p *Plan) Run(in map[string][]byte, kv *KVCache) ([]float32, error) {
	dst := make([]float32, p.Graph.Output.Shape.Elements())
	if err := p.RunInto(dst, in, kv); err != nil {
		return nil, err
	}
	return dst, nil
}

// RunInto is Run into dst, of exactly Graph.Output.Shape.Elements() values.
// Without tap, profile and trace it allocates nothing, once the cache is bound.
func (p *Plan) RunInto(dst []float32, in map[string][]byte, kv *KVCache) error {
	if p.closed {
		return fmt.Errorf("graph: run of a closed plan")
	}
	if want := p.Graph.Output.Shape.Elements(); len(dst) != want {
		return fmt.Errorf("graph: room for %d output values, want %d", len(dst), want)
	}
	p.runs++
	if err := p.bindKV(kv); err != nil {
		return err
	}
	if err := p.feed(in, kv); err != nil {
		return err
	}
	trace, err := p.startTrace(in)
	if err != nil {
		return err
	}
	err = p.walk(in, trace)
	// Also after an error: buffers must not be freed under work that is pending.
	for b := range p.busy {
		if serr := p.synchronize(b); err == nil {
			err = serr
		}
	}
	if trace != nil {
		err = trace.close(err)
	}
	if err != nil {
		return err
	}
	out := p.Graph.Output
	o := p.place(p.Allocation.Out[out.ID])
	if err := p.backendOf(out).ReadHost(o.Buf, o.Off, floatBytes(dst)); err != nil {
		return fmt.Errorf("graph: read %s: %w", nodeName(out), err)
	}
	p.exec.stats.Runs++
	if p.prof != nil {
		p.prof.report(p.exec.opt.Profile, p)
	}
	return nil
}

// Close frees the plan's buffers. It is idempotent.
func (p *Plan) Close() {
	p.closed = true
	for i, b := range p.buffers {
		p.Assignment.Backends[p.Allocation.Slots[i].Backend].FreeBuffer(b)
	}
	p.buffers = nil
}

func (p *Plan) backendOf(n *Node) Backend { return p.Assignment.Backends[p.Assignment.Of[n.ID]] }

// bindKV puts the regions of the cache into the steps, and checks that they fit.
func (p *Plan) bindKV(c *KVCache) error {
	if c != nil && c == p.bound && !c.closed {
		return nil
	}
	p.bound = nil
	for i := range p.steps {
		s := &p.steps[i]
		n := s.node
		if !isKV(n.Op) && !isFusedQKV(n.Op) {
			continue
		}
		if c == nil {
			return fmt.Errorf("graph: %s: the run has no kv cache", nodeName(n))
		}
		kv, err := c.bind(n.Layer, p.Assignment.Backends[s.backend])
		if err != nil {
			return fmt.Errorf("graph: %s: %w", nodeName(n), err)
		}
		switch n.Op {
		case KvcacheStore, KvcacheLoad:
			if w := kv.width(n.Attr.KV); kv.Type != n.Type || w != n.Shape[0] {
				return fmt.Errorf("graph: %s: rows of %d %v, the cache has rows of %d %v", nodeName(n), n.Shape[0], n.Type, w, kv.Type)
			}
		case FusedQKV, FusedQkvNorm:
			if k, v := fusedWidth(n, KVKey), fusedWidth(n, KVValue); k != kv.KWidth || v != kv.VWidth {
				return fmt.Errorf("graph: %s: k and v rows of %d and %d, the cache has rows of %d and %d", nodeName(n), k, v, kv.KWidth, kv.VWidth)
			}
		}
		if n.Attr.NKV > kv.Capacity {
			return fmt.Errorf("graph: %s: n_kv = %d, the cache has a capacity of %d", nodeName(n), n.Attr.NKV, kv.Capacity)
		}
		s.kv = kv
	}
	if c == nil {
		return nil
	}
	p.bound = c
	for id := range p.steps {
		s := &p.steps[id]
		for i := range s.in {
			if pl := p.Allocation.In[id][i]; pl.Slot == KVRegion {
				s.in[i] = p.place(pl)
			}
		}
		if pl := p.Allocation.Out[id]; pl.Slot == KVRegion {
			if s.skip {
				s.window = p.place(pl)
			} else {
				s.out = p.place(pl)
			}
		}
	}
	if len(p.stamp) < c.Capacity() {
		p.stamp = make([]int, c.Capacity())
	}
	return nil
}

// place is the operand of any place, of the bound cache's regions too.
func (p *Plan) place(pl Place) Operand {
	if pl.Slot >= 0 {
		return p.operand(pl)
	}
	kv := &p.bound.layers[pl.Layer]
	if pl.Len == WholeRegion {
		return Operand{kv.region(pl.Side), pl.Off, kv.bytes(pl.Side)}
	}
	return Operand{kv.region(pl.Side), pl.Off, pl.Len}
}

// feed checks the inputs' values and writes them to the backends that read them.
func (p *Plan) feed(in map[string][]byte, kv *KVCache) error {
	for i := range p.inputs {
		x := &p.inputs[i]
		data, ok := in[x.node.Name]
		if !ok {
			return fmt.Errorf("graph: no value for input %q", x.node.Name)
		}
		if len(data) != x.size {
			return fmt.Errorf("graph: input %q has %d bytes, want %d for %s %v", x.node.Name, len(data), x.size, shapeText(x.node.Shape), x.node.Type)
		}
		for k := range x.checks {
			if err := p.checkValues(x.node, data, &x.checks[k], kv); err != nil {
				return err
			}
		}
		for _, f := range x.feeds {
			b := p.Assignment.Backends[p.Allocation.Slots[f.Slot].Backend]
			if err := b.WriteHost(p.buffers[f.Slot], 0, data); err != nil {
				return fmt.Errorf("graph: write input %q to %s: %w", x.node.Name, b.Name(), err)
			}
		}
	}
	if len(in) != len(p.inputs) {
		for name := range in {
			if !slices.ContainsFunc(p.inputs, func(x input) bool { return x.node.Name == name }) {
				return fmt.Errorf("graph: a value for %q, which is no input", name)
			}
		}
	}
	return nil
}

func (p *Plan) checkValues(n *Node, data []byte, c *valueCheck, kv *KVCache) error {
	limit := c.limit
	if c.capacity {
		limit = kv.Capacity()
	}
	p.checks++
	for i := range len(data) / 4 {
		v := index(data, i)
		if v < 0 || v >= limit {
			return fmt.Errorf("graph: %s: %s %d in row %d of %q, want 0 to %d", nodeName(c.reader), c.what, v, i, n.Name, limit-1)
		}
		if c.capacity {
			if p.stamp[v] == p.checks {
				return fmt.Errorf("graph: %s: position %d in row %d of %q occurs twice", nodeName(c.reader), v, i, n.Name)
			}
			p.stamp[v] = p.checks
		}
	}
	return nil
}

// index reads value i of an I32 input.
func index(data []byte, i int) int { return int(int32(binary.LittleEndian.Uint32(data[4*i:]))) }

// walk runs the splits in order; trace may be nil.
func (p *Plan) walk(in map[string][]byte, trace *traceWriter) error {
	copies := p.Allocation.Copies
	for si := range p.Assignment.Splits {
		split := &p.Assignment.Splits[si]
		for len(copies) > 0 && copies[0].Split == si {
			if err := p.carry(&copies[0], si); err != nil {
				return err
			}
			copies = copies[1:]
		}
		for id := split.First; id <= split.Last; id++ {
			s := &p.steps[id]
			if !s.skip {
				if err := p.execute(s); err != nil {
					return err
				}
			}
			if p.exec.tap != nil {
				if err := p.show(s, in); err != nil {
					return err
				}
			}
		}
		if trace != nil {
			if err := p.traceSplit(trace, si, in); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Plan) execute(s *step) error {
	b := p.Assignment.Backends[s.backend]
	p.busy[s.backend] = true
	var start time.Time
	if p.prof != nil {
		start = time.Now()
	}
	if err := b.ExecuteNode(s.node, s.in, s.out, s.kv); err != nil {
		return fmt.Errorf("graph: %s on %s: %w", nodeName(s.node), b.Name(), err)
	}
	if p.prof != nil {
		p.prof.node(s.node.ID, time.Since(start))
	}
	return nil
}

// carry copies a value across to the backend of the split that begins. The
// staging buffer is the copy's own, so nothing pending can read it.
func (p *Plan) carry(c *Copy, split int) error {
	var start time.Time
	if p.prof != nil {
		start = time.Now()
	}
	n := p.Graph.Nodes[c.Node]
	src, dst := p.Assignment.Of[c.Node], p.Assignment.Splits[split].Backend
	if err := p.synchronize(src); err != nil {
		return err
	}
	from, to := p.place(c.From), p.place(c.To)
	host := p.scratch[:to.Len]
	if err := p.Assignment.Backends[src].ReadHost(from.Buf, from.Off, host); err != nil {
		return fmt.Errorf("graph: split %d: read %s from %s: %w", split, nodeName(n), p.Assignment.Backends[src].Name(), err)
	}
	if err := p.Assignment.Backends[dst].WriteHost(to.Buf, to.Off, host); err != nil {
		return fmt.Errorf("graph: split %d: write %s to %s: %w", split, nodeName(n), p.Assignment.Backends[dst].Name(), err)
	}
	if p.prof != nil {
		p.prof.copied(time.Since(start), to.Len)
	}
	return nil
}

// synchronize waits for a backend that has work.
func (p *Plan) synchronize(b int) error {
	if !p.busy[b] {
		return nil
	}
	p.busy[b] = false
	var start time.Time
	if p.prof != nil {
		start = time.Now()
	}
	if err := p.Assignment.Backends[b].Synchronize(); err != nil {
		return fmt.Errorf("graph: %s: %w", p.Assignment.Backends[b].Name(), err)
	}
	if p.prof != nil {
		p.prof.waited(time.Since(start))
	}
	return nil
}

// floatBytes is the memory of x. The engine is little-endian throughout, as the
// files that it maps are.
func floatBytes(x []float32) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
}

// isF32 says whether a tap can show the value as it is.
func isF32(n *Node) bool { return n.Type == gguf.F32 }
