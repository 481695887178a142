package graph

import (
	"fmt"
	"slices"
	"strings"
)

// An Assignment gives each node a backend.
type Assignment struct {
	Backends []Backend // highest priority first
	Of       []int     // by Node.ID: index in Backends
	Splits   []Split   // in order; together they are all nodes
}

// A Split is a run of consecutive nodes of one backend. An Input lives on the
// host and belongs to whichever split surrounds it.
type Split struct {
	Backend     int // index in Assignment.Backends
	First, Last int // node IDs, inclusive
}

// Assign gives each node the first backend that supports it; where that is
// another than the node before it had, a new split begins. The KV nodes and the
// attention of a layer go together to the first backend that supports all three
// for the cache's type, since a region has one owner.
//
// force names a backend for all nodes of an op, see ExecOptions.ForceOps. A
// node that no backend supports, or whose forced backend refuses it, is an
// error that names both.
func Assign(g *Graph, backends []Backend, force map[Op]string) (*Assignment, error) {
	if len(backends) == 0 {
		return nil, fmt.Errorf("assign: no backends")
	}
	for i, b := range backends {
		for _, c := range backends[:i] {
			if b.Name() == c.Name() {
				return nil, fmt.Errorf("assign: two backends of the name %s", b.Name())
			}
		}
	}
	forced := map[Op]int{}
	for op, name := range force {
		i := slices.IndexFunc(backends, func(b Backend) bool { return b.Name() == name })
		if i < 0 {
			return nil, fmt.Errorf("assign: op %s is forced to backend %q, want one of %s", op, name, backendNames(backends))
		}
		forced[op] = i
	}
	a := &Assignment{Backends: backends, Of: make([]int, len(g.Nodes))}
	layers := map[int]int{}
	for _, n := range g.Nodes {
		if n.Op == Input {
			continue
		}
		if isKV(n.Op) {
			if b, ok := layers[n.Layer]; ok {
				a.Of[n.ID] = b
				continue
			}
		}
		b, err := pick(n, backends, forced)
		if err != nil {
			return nil, err
		}
		a.Of[n.ID] = b
		if isKV(n.Op) {
			layers[n.Layer] = b
		}
	}
	a.place(g)
	return a, nil
}

// place moves each Input to its first reader's backend and cuts the splits.
func (a *Assignment) place(g *Graph) {
	seen := make([]bool, len(g.Nodes))
	for _, n := range g.Nodes {
		for _, x := range n.In {
			if x.Op == Input && !seen[x.ID] {
				seen[x.ID] = true
				a.Of[x.ID] = a.Of[n.ID]
			}
		}
	}
	a.Splits = nil
	open := false // the last split has a node other than Input
	for _, n := range g.Nodes {
		last := len(a.Splits) - 1
		switch {
		case last < 0:
			a.Splits = append(a.Splits, Split{a.Of[n.ID], n.ID, n.ID})
			open = n.Op != Input
		case n.Op == Input || a.Splits[last].Backend == a.Of[n.ID]:
			a.Splits[last].Last = n.ID
			open = open || n.Op != Input
		case !open: // only inputs so far: they join the first real split
			a.Splits[last] = Split{a.Of[n.ID], a.Splits[last].First, n.ID}
			open = true
		default:
			a.Splits = append(a.Splits, Split{a.Of[n.ID], n.ID, n.ID})
		}
	}
}

func isKV(op Op) bool { return op == KvcacheStore || op == KvcacheLoad || op == Attn }

// isFusedQKV: the op stores k and v besides its output. Fuse makes such nodes on
// the backend to which Assign pinned the layer's cache.
func isFusedQKV(op Op) bool { return op == FusedQKV || op == FusedQkvNorm }

// kvOps are pinned together.
var kvOps = []Op{KvcacheStore, KvcacheLoad, Attn}

// pick finds the backend of a node; for a KV op that of its whole layer.
func pick(n *Node, backends []Backend, forced map[Op]int) (int, error) {
	ops, t := []Op{n.Op}, n.Type
	if isKV(n.Op) {
		// The first KV node of a layer in topological order is a store, of the
		// cache's type.
		ops = kvOps
	}
	want := -1
	for _, op := range ops {
		f, ok := forced[op]
		if !ok {
			continue
		}
		if want >= 0 && want != f {
			return 0, fmt.Errorf("assign: %s: store, load and attention of layer %d are forced to both %s and %s, want one backend",
				nodeName(n), n.Layer, backends[want].Name(), backends[f].Name())
		}
		want = f
	}
	for i, b := range backends {
		if want >= 0 && i != want {
			continue
		}
		if !slices.ContainsFunc(ops, func(op Op) bool { return !b.SupportsOp(op, t) }) {
			return i, nil
		}
	}
	what := n.Op.String()
	if isKV(n.Op) {
		what = fmt.Sprintf("%s, %s and %s together", kvOps[0], kvOps[1], kvOps[2])
	}
	if want >= 0 {
		return 0, fmt.Errorf("assign: %s: forced to backend %s, which does not support %s on %v", nodeName(n), backends[want].Name(), what, t)
	}
	return 0, fmt.Errorf("assign: %s: no backend of %s supports %s on %v", nodeName(n), backendNames(backends), what, t)
}

func backendNames(backends []Backend) string {
	names := make([]string, len(backends))
	for i, b := range backends {
		names[i] = b.Name()
	}
	return strings.Join(names, ", ")
}
