package graph

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"minfer/engine/quant"
)

// writeTrace prints the splits and the census of a plan.
func writeTrace(w io.Writer, g *Graph, a *Assignment) {
	for i, s := range a.Splits {
		fmt.Fprintf(w, "split %d: %s nodes %d-%d\n", i, a.Backends[s.Backend].Name(), s.First, s.Last)
	}
	count := make([][numOps]int, len(a.Backends))
	for id, n := range g.Nodes {
		if n.Op != Input { // lives on the host
			count[a.Of[id]][n.Op]++
		}
	}
	for b, ops := range count {
		total, parts := 0, []string(nil)
		for op, k := range ops {
			if k > 0 {
				total += k
				parts = append(parts, fmt.Sprintf("%s %d", Op(op), k))
			}
		}
		if total > 0 {
			fmt.Fprintf(w, "census: %s %d nodes: %s\n", a.Backends[b].Name(), total, strings.Join(parts, ", "))
		}
	}
}

// show gives the values of a step to the tap.
func (p *Plan) show(s *step, in map[string][]byte) error {
	if err := p.synchronize(s.backend); err != nil {
		return err
	}
	err := p.observe(s, in, func(part string, data []float32, dims Shape) error {
		p.exec.tap(TapValue{Node: s.node, Part: part, Row: -1, Data: data, Dims: dims})
		return nil
	})
	if err != nil {
		return fmt.Errorf("graph: tap: %w", err)
	}
	return nil
}

// observe calls see with each value that a step has produced: the output, and of a
// node that stores the rows of the cache. Its backend is synchronized.
func (p *Plan) observe(s *step, in map[string][]byte, see func(part string, data []float32, dims Shape) error) error {
	n := s.node
	switch {
	case n.Op == KvcacheStore:
		return p.observeStored(s, in, n.Attr.KV, "", see)
	case n.Op == Input || n.Op == KvcacheLoad || !isF32(n):
		return nil
	}
	o := s.out
	if s.skip {
		o = s.window
	}
	data := p.values(n.Shape.Elements())
	if err := p.backendOf(n).ReadHost(o.Buf, o.Off, floatBytes(data)); err != nil {
		return fmt.Errorf("read %s: %w", nodeName(n), err)
	}
	if err := see("", data, n.Shape); err != nil {
		return err
	}
	if !isFusedQKV(n.Op) {
		return nil
	}
	if err := p.observeStored(s, in, KVKey, "k", see); err != nil {
		return err
	}
	return p.observeStored(s, in, KVValue, "v", see)
}

// observeStored reads back the rows that a step has stored on one side.
func (p *Plan) observeStored(s *step, in map[string][]byte, side KVSide, part string, see func(string, []float32, Shape) error) error {
	n := s.node
	width, rows := s.kv.width(side), n.In[0].Shape.Rows()
	rowBytes := s.kv.Type.RowBytes(width)
	raw := make([]byte, rowBytes)
	data := p.values(width * rows)
	pos := in[n.In[1].Name]
	for i := range rows {
		if err := p.backendOf(n).ReadHost(s.kv.region(side), index(pos, i)*rowBytes, raw); err != nil {
			return fmt.Errorf("read %s: %w", nodeName(n), err)
		}
		if err := quant.Dequantize(s.kv.Type, data[i*width:(i+1)*width], raw); err != nil {
			return fmt.Errorf("%s: %w", nodeName(n), err)
		}
	}
	return see(part, data, Mat(width, rows))
}

// values is scratch for a tap.
func (p *Plan) values(n int) []float32 {
	if cap(p.value) < n {
		p.value = make([]float32, n)
	}
	return p.value[:n]
}

// profile adds up where the time of one run goes.
type profile struct {
	nodes        []time.Duration // by node ID
	copies, wait time.Duration
	copiedBytes  int
	first        bool
}

func newProfile(nodes int) *profile {
	return &profile{nodes: make([]time.Duration, nodes), first: true}
}

func (f *profile) node(id int, d time.Duration)      { f.nodes[id] += d }
func (f *profile) copied(d time.Duration, bytes int) { f.copies += d; f.copiedBytes += bytes }
func (f *profile) waited(d time.Duration)            { f.wait += d }

// topNodes is the length of the table after the first run.
const topNodes = 20

// report prints one run and starts the next.
func (f *profile) report(w io.Writer, p *Plan) {
	var total time.Duration
	for _, d := range f.nodes {
		total += d
	}
	if f.first {
		f.first = false
		ids := make([]int, len(f.nodes))
		for i := range ids {
			ids[i] = i
		}
		slices.SortStableFunc(ids, func(a, b int) int { return int(f.nodes[b] - f.nodes[a]) })
		fmt.Fprintf(w, "profile: %d nodes in %v, the top %d:\n", len(ids), total, min(topNodes, len(ids)))
		for _, id := range ids[:min(topNodes, len(ids))] {
			n := p.Graph.Nodes[id]
			fmt.Fprintf(w, "profile: %10v %5.1f%% %-14s %s on %s\n",
				f.nodes[id], 100*float64(f.nodes[id])/float64(max(total, 1)), n.Op, n.Name, p.backendOf(n).Name())
		}
	}
	fmt.Fprintf(w, "profile: run %d: nodes %v, copies %v (%d bytes), waiting %v\n", p.runs, total, f.copies, f.copiedBytes, f.wait)
	clear(f.nodes)
	f.copies, f.wait, f.copiedBytes = 0, 0, 0
}
