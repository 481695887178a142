package dump

import (
	"errors"
	"fmt"
	"slices"
)

// A Builder collects the values of one run, position by position.
type Builder struct {
	run      *Run
	keep     int // positions whose values are kept
	pos      int // position being collected
	node     int // nodes seen at it
	learning bool
}

// NewBuilder starts a run. h.Generated may be filled in by Finish. The values
// of the first keep positions are kept beside the hashes.
func NewBuilder(h Header, keep int) *Builder {
	return &Builder{
		run:      &Run{Header: h, index: make(map[nodeName]int)},
		keep:     max(keep, 0),
		learning: true,
	}
}

// Add takes the next value. Positions come in order from 0, each with the same
// nodes in the same order; an error names the value that broke this.
func (b *Builder) Add(v Value) error {
	r := b.run
	if v.Key.Pos == b.pos+1 {
		if err := b.endPosition(); err != nil {
			return err
		}
	}
	if v.Key.Pos != b.pos {
		return fmt.Errorf("%v: out of order, want position %d", v.Key, b.pos)
	}
	name := nodeName{v.Key.Name, v.Key.Op, v.Key.Occ}
	if b.learning {
		if err := b.learn(name, v); err != nil {
			return err
		}
	} else if b.node == len(r.Nodes) {
		return fmt.Errorf("%v: position 0 has only %d nodes", v.Key, len(r.Nodes))
	}
	n := &r.Nodes[b.node]
	if (nodeName{n.Name, n.Op, n.Occ}) != name {
		return fmt.Errorf("%v: want %v as at position 0", v.Key, r.Key(b.pos, b.node))
	}
	if b.pos == 1 && len(v.Dims) > 0 && n.Dims[0] == 1 && v.Dims[0] == 2 {
		n.Dims[0] = CellDim // grew with the position
	}
	want := slices.Clone(n.Dims)
	if want[0] == CellDim {
		want[0] = b.pos + 1
	}
	if !slices.Equal(v.Dims, want) || len(v.Data) != n.Size(b.pos) {
		return fmt.Errorf("%v: dims %v with %d elements, want %v", v.Key, v.Dims, len(v.Data), want)
	}
	r.hashes = append(r.hashes, Hash(v.Data))
	if b.pos < b.keep {
		r.values = append(r.values, slices.Clone(v.Data))
	}
	b.node++
	return nil
}

// learn takes a node of position 0 into the table.
func (b *Builder) learn(name nodeName, v Value) error {
	r := b.run
	if len(v.Dims) == 0 || len(v.Dims) > maxDims || slices.Min(v.Dims) < 1 {
		return fmt.Errorf("%v: dims %v, want 1 to %d positive ones", v.Key, v.Dims, maxDims)
	}
	if name.name == "" || name.op == "" || len(name.name) > maxString || len(name.op) > maxString || name.occ < 0 {
		return fmt.Errorf("%v: not a usable key", v.Key)
	}
	if _, twice := r.index[name]; twice {
		return fmt.Errorf("%v: seen twice at position 0", v.Key)
	}
	if len(r.Nodes) == maxNodes {
		return fmt.Errorf("%v: more than %d nodes", v.Key, maxNodes)
	}
	r.index[name] = len(r.Nodes)
	r.Nodes = append(r.Nodes, Node{Name: name.name, Op: name.op, Occ: name.occ, Dims: slices.Clone(v.Dims)})
	return nil
}

func (b *Builder) endPosition() error {
	if b.node != len(b.run.Nodes) || b.node == 0 {
		return fmt.Errorf("position %d: %d nodes, want %d", b.pos, b.node, len(b.run.Nodes))
	}
	b.pos++
	b.node = 0
	b.learning = false
	return nil
}

// Finish ends the run. generated is the greedy continuation; prompt and
// continuation must account for the positions added.
func (b *Builder) Finish(generated []int32) (*Run, error) {
	if err := b.endPosition(); err != nil {
		return nil, err
	}
	r := b.run
	r.Header.Generated = slices.Clone(generated)
	r.positions = b.pos
	if want := r.Header.Positions(); r.positions != want {
		return nil, fmt.Errorf("%d positions added, but %d prompt and %d generated tokens make %d",
			r.positions, len(r.Header.Prompt), len(generated), want)
	}
	if r.positions > maxPositions {
		return nil, errors.New("too many positions for a recorded run")
	}
	return r, nil
}
