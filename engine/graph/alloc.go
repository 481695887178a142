package graph

import (
	"fmt"
	"math"
	"math/bits"
)

// An Allocation says where each value lives. It holds no memory: a Plan makes
// one buffer for each Slot.
type Allocation struct {
	Slots  []Slot
	Out    []Place   // by Node.ID: the node's value; Slot is NoSlot for an Input
	In     [][]Place // by Node.ID and input: where the node reads
	Feeds  []Feed
	Copies []Copy // in order of Split
}

// A Slot is memory of one backend that values share one after the other.
type Slot struct {
	Backend int  // index in Assignment.Backends
	Size    int  // bytes, a size class
	Fresh   bool // a staging copy, from AllocFresh
}

// A Place is a window of a slot or of a region of the KV cache.
type Place struct {
	Slot     int    // index in Allocation.Slots, KVRegion or NoSlot
	Layer    int    // KVRegion: of the cache
	Side     KVSide // KVRegion
	Off, Len int    // bytes; Len of a whole region is WholeRegion
}

// The values of Place.Slot that are not an index.
const (
	KVRegion = -1
	NoSlot   = -2
)

// WholeRegion stands for the bytes of a region, which depend on the capacity of
// the cache that a run brings.
const WholeRegion = -1

// A Feed is the copy of an Input that one backend reads; each run writes it.
type Feed struct {
	Node int // the Input's ID
	Slot int
}

// A Copy carries a value to another backend at the start of a split.
type Copy struct {
	Split    int // index in Assignment.Splits
	Node     int // the value's ID
	From, To Place
}

// InPlace lists the inputs of a node over which Allocate may put its output:
// both have the same size, and a backend computes each output element (RoPE:
// each pair of channels) from the input elements of the same index only. RmsNorm
// and Softmax are not among them although a row at a time would do: a backend
// may split a row over threads.
func InPlace(op Op) []int {
	switch op {
	case Add, Mul, SwiGLU:
		return []int{0, 1}
	case Silu, Scale, RoPE:
		return []int{0}
	}
	return nil
}

// isAlias: the op's value is a window of its input's.
func isAlias(op Op) bool { return op == View || op == Reshape || op == KvcacheLoad }

// Allocate plans the memory of a fused graph by liveness. A slot is taken by a
// value when its node runs and is free again after the last node that reads the
// value, its views, or its copy to another backend; slots are shared only within
// a backend and a size class. An output takes over the slot of an input (see
// InPlace) only if the node is the input's sole reader and has the same
// backend. View, Reshape and KvcacheLoad are windows. Inputs, staging copies and
// the graph's output have a slot of their own until the end, and the KV regions
// are no slots at all.
//
// noReuse gives each value a slot of its own.
func Allocate(g *Graph, a *Assignment, noReuse bool) (*Allocation, error) {
	al := &allocator{
		Allocation: Allocation{Out: make([]Place, len(g.Nodes)), In: make([][]Place, len(g.Nodes))},
		g:          g, a: a,
		uses:   countUses(g),
		last:   lastUses(g, a),
		owner:  map[int]int{},
		free:   map[Slot][]int{},
		feeds:  map[remote]int{},
		copies: map[remote]Place{},
	}
	// dying[i] are the values read last by node i.
	dying := make([][]int, len(g.Nodes))
	for v, l := range al.last {
		if l < len(g.Nodes) {
			dying[l] = append(dying[l], v)
		}
	}
	for si, s := range a.Splits {
		for id := s.First; id <= s.Last; id++ {
			al.node(si, g.Nodes[id], noReuse)
			if noReuse {
				continue
			}
			for _, v := range dying[id] {
				if slot := al.Out[v].Slot; slot >= 0 && !isAlias(g.Nodes[v].Op) && al.owner[slot] == v {
					al.free[al.Slots[slot]] = append(al.free[al.Slots[slot]], slot)
				}
			}
		}
	}
	if err := al.Check(g, a); err != nil {
		return nil, err
	}
	return &al.Allocation, nil
}

// remote is a value as needed on a backend.
type remote struct{ node, backend int }

type allocator struct {
	Allocation
	g      *Graph
	a      *Assignment
	uses   []int
	last   []int
	owner  map[int]int    // slot to the value that holds it
	free   map[Slot][]int // by backend and size
	feeds  map[remote]int
	copies map[remote]Place
}

// node places the inputs and the output of n.
func (al *allocator) node(split int, n *Node, noReuse bool) {
	al.Out[n.ID].Slot = NoSlot
	if n.Op == Input {
		return
	}
	b := al.a.Of[n.ID]
	in := make([]Place, len(n.In))
	for i, x := range n.In {
		in[i] = al.locate(split, x, b)
	}
	al.In[n.ID] = in
	switch {
	case n.Op == KvcacheStore:
		al.Out[n.ID] = Place{Slot: KVRegion, Layer: n.Layer, Side: n.Attr.KV, Len: WholeRegion}
	case n.Op == KvcacheLoad:
		// Its input is the store, or the fused node that stores.
		al.Out[n.ID] = Place{Slot: KVRegion, Layer: n.Layer, Side: n.Attr.KV, Len: byteLen(n.Type, n.Shape)}
	case isAlias(n.Op):
		p := in[0]
		p.Off += aliasOffset(n)
		p.Len = byteLen(n.Type, n.Shape)
		al.Out[n.ID] = p
	default:
		al.Out[n.ID] = al.output(n, b, in, noReuse)
	}
}

// aliasOffset is where the window begins within the input, in bytes.
func aliasOffset(n *Node) int {
	if n.Op == View {
		return n.Attr.Offset * n.Type.RowBytes(n.Shape[0])
	}
	return 0
}

// output finds the slot of a computed value.
func (al *allocator) output(n *Node, b int, in []Place, noReuse bool) Place {
	size := byteLen(n.Type, n.Shape)
	if !noReuse {
		for _, i := range InPlace(n.Op) {
			x := n.In[i]
			if computed(x) && al.uses[x.ID] == 1 && al.a.Of[x.ID] == b && in[i].Len == size {
				al.owner[in[i].Slot] = n.ID
				return in[i]
			}
		}
		key := Slot{Backend: b, Size: sizeClass(size)}
		if f := al.free[key]; len(f) > 0 {
			slot := f[len(f)-1]
			al.free[key] = f[:len(f)-1]
			al.owner[slot] = n.ID
			return Place{Slot: slot, Len: size}
		}
	}
	slot := al.newSlot(b, size, false)
	al.owner[slot] = n.ID
	return Place{Slot: slot, Len: size}
}

// computed: the value has a slot of its own.
func computed(x *Node) bool { return x.Op != Input && x.Op != KvcacheStore && !isAlias(x.Op) }

// locate is where backend b reads the value x in a split: its own place, the
// backend's feed of an Input, or a staging copy made when first needed.
func (al *allocator) locate(split int, x *Node, b int) Place {
	size := byteLen(x.Type, x.Shape)
	key := remote{x.ID, b}
	if x.Op == Input {
		slot, ok := al.feeds[key]
		if !ok {
			slot = al.newSlot(b, size, false)
			al.feeds[key] = slot
			al.Feeds = append(al.Feeds, Feed{x.ID, slot})
		}
		return Place{Slot: slot, Len: size}
	}
	if al.a.Of[x.ID] == b {
		return al.Out[x.ID]
	}
	p, ok := al.copies[key]
	if !ok {
		p = Place{Slot: al.newSlot(b, size, true), Len: size}
		al.copies[key] = p
		al.Copies = append(al.Copies, Copy{split, x.ID, al.Out[x.ID], p})
	}
	return p
}

func (al *allocator) newSlot(b, size int, fresh bool) int {
	al.Slots = append(al.Slots, Slot{b, sizeClass(size), fresh})
	return len(al.Slots) - 1
}

// sizeClass rounds up to a multiple of an eighth of the power of two below, at
// least 256 bytes: at most 1/8 is wasted, and values of nearly one size share.
func sizeClass(n int) int {
	if n <= 256 {
		return 256
	}
	step := 1 << (bits.Len(uint(n-1)) - 4)
	return (n + step - 1) / step * step
}

// lastUses gives, by node ID, the index of the last node after which the value
// at its own place is not needed: the last reader on its backend (of it or of
// its windows), or the first node of the split whose start copies it away. The
// output is needed past the end.
func lastUses(g *Graph, a *Assignment) []int {
	splitOf := make([]int, len(g.Nodes))
	for si, s := range a.Splits {
		for id := s.First; id <= s.Last; id++ {
			splitOf[id] = si
		}
	}
	last := make([]int, len(g.Nodes))
	for id := range last {
		last[id] = id
	}
	last[g.Output.ID] = math.MaxInt
	// Backwards, so that the end of a window is known before its input is met.
	for id := len(g.Nodes) - 1; id >= 0; id-- {
		n := g.Nodes[id]
		for _, x := range n.In {
			end := id
			if a.Of[x.ID] != a.Of[id] {
				end = a.Splits[splitOf[id]].First
			} else if isAlias(n.Op) {
				end = last[id]
			}
			last[x.ID] = max(last[x.ID], end)
		}
	}
	return last
}

// Check follows the run on paper, with the value that each slot holds at each
// node, and so finds a node that would read another value than its input, a
// buffer on another backend than the node that uses it ("assignment/alloc
// mismatch"), and a window outside its slot.
func (al *Allocation) Check(g *Graph, a *Assignment) error {
	const none = -1
	holds := make([]int, len(al.Slots))
	for i := range holds {
		holds[i] = none
	}
	for _, f := range al.Feeds {
		holds[f.Slot] = f.Node
	}
	if err := al.checkSides(g, a); err != nil {
		return err
	}
	copies := al.Copies
	// staged: the value that a place holds is known by the node that wrote the
	// slot; a window is known by its innermost input.
	for si, s := range a.Splits {
		for len(copies) > 0 && copies[0].Split == si {
			c := copies[0]
			copies = copies[1:]
			if c.From.Slot >= 0 && holds[c.From.Slot] != origin(g, a, c.Node) {
				return al.stale(g, g.Nodes[s.First], g.Nodes[c.Node], c.From, holds)
			}
			holds[c.To.Slot] = c.Node
		}
		for id := s.First; id <= s.Last; id++ {
			n := g.Nodes[id]
			for i, x := range n.In {
				p := al.In[id][i]
				if p.Slot < 0 {
					continue
				}
				want := x.ID
				if a.Of[x.ID] == a.Of[id] {
					want = origin(g, a, x.ID)
				}
				if holds[p.Slot] != want {
					return al.stale(g, n, x, p, holds)
				}
			}
			if computed(n) {
				holds[al.Out[id].Slot] = id
			}
		}
	}
	if p := al.Out[g.Output.ID]; p.Slot >= 0 && holds[p.Slot] != origin(g, a, g.Output.ID) {
		return al.stale(g, g.Output, g.Output, p, holds)
	}
	return nil
}

// origin is the node that wrote the bytes of a value at its own place: behind
// windows the computed node, the Input, or the value that was copied here.
func origin(g *Graph, a *Assignment, id int) int {
	for n := g.Nodes[id]; isAlias(n.Op); n = g.Nodes[id] {
		x := n.In[0].ID
		if a.Of[x] != a.Of[id] {
			return x // the window is of a staging copy
		}
		id = x
	}
	return id
}

func (al *Allocation) stale(g *Graph, n, x *Node, p Place, holds []int) error {
	found := "nothing"
	if v := holds[p.Slot]; v >= 0 {
		found = nodeName(g.Nodes[v])
	}
	return fmt.Errorf("alloc: %s reads %q in slot %d, which holds %s", nodeName(n), x.Name, p.Slot, found)
}

// checkSides compares the backend of each place with that of its node's split.
func (al *Allocation) checkSides(g *Graph, a *Assignment) error {
	for id, n := range g.Nodes {
		if n.Op == Input {
			continue
		}
		if err := al.checkPlace(a, n, "output", n, al.Out[id]); err != nil {
			return err
		}
		for i, x := range n.In {
			if err := al.checkPlace(a, n, "input", x, al.In[id][i]); err != nil {
				return err
			}
		}
	}
	for _, c := range al.Copies {
		n := g.Nodes[a.Splits[c.Split].First]
		if b := al.Slots[c.To.Slot].Backend; b != a.Splits[c.Split].Backend {
			return mismatch(a, n, "copy", g.Nodes[c.Node], b, a.Splits[c.Split].Backend)
		}
		if c.From.Slot >= 0 && al.Slots[c.From.Slot].Backend != a.Of[c.Node] {
			return mismatch(a, n, "copied value", g.Nodes[c.Node], al.Slots[c.From.Slot].Backend, a.Of[c.Node])
		}
	}
	return nil
}

func (al *Allocation) checkPlace(a *Assignment, n *Node, role string, x *Node, p Place) error {
	if p.Slot == KVRegion {
		return nil // bound, and compared, when a run brings the cache
	}
	if p.Slot < 0 || p.Slot >= len(al.Slots) {
		return fmt.Errorf("alloc: %s: %s %q has slot %d of %d", nodeName(n), role, x.Name, p.Slot, len(al.Slots))
	}
	s := al.Slots[p.Slot]
	if s.Backend != a.Of[n.ID] {
		return mismatch(a, n, role, x, s.Backend, a.Of[n.ID])
	}
	if p.Off < 0 || p.Len != byteLen(x.Type, x.Shape) || p.Len > s.Size-p.Off {
		return fmt.Errorf("alloc: %s: %s %q is bytes %d+%d of slot %d, want %d within its %d bytes",
			nodeName(n), role, x.Name, p.Off, p.Len, p.Slot, byteLen(x.Type, x.Shape), s.Size)
	}
	return nil
}

func mismatch(a *Assignment, n *Node, role string, x *Node, found, want int) error {
	return fmt.Errorf("assignment/alloc mismatch: %s: %s %q lives on backend %s, its split runs on %s",
		nodeName(n), role, x.Name, a.Backends[found].Name(), a.Backends[want].Name())
}
