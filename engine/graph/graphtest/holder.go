package graphtest

import (
	"fmt"
	"unsafe"

	"minfer/engine/graph"
)

// Holder is a Wrapped that plays a GPU: it implements graph.WeightHolder, and a
// node that reads a weight which was not registered is an error.
type Holder struct {
	*Wrapped
	Parts [][]byte // announced
	held  map[string]*graph.Weight
}

// Hold makes a Holder of w, with no weight registered.
func Hold(w *Wrapped) *Holder { return &Holder{Wrapped: w, held: map[string]*graph.Weight{}} }

// HoldPart implements graph.WeightHolder.
func (h *Holder) HoldPart(data []byte) error {
	h.Parts = append(h.Parts, data)
	return nil
}

// HoldWeight implements graph.WeightHolder.
func (h *Holder) HoldWeight(w *graph.Weight) error {
	if old := h.held[w.Name]; old != nil && !sameBytes(old, w) {
		return fmt.Errorf("%s: weight %s is registered with other bytes", h.Name(), w.Name)
	}
	h.held[w.Name] = w
	return nil
}

// Holds implements graph.WeightHolder.
func (h *Holder) Holds(w *graph.Weight) bool {
	old := h.held[w.Name]
	return old != nil && sameBytes(old, w)
}

// Drop takes a weight out again: a registration that is missing.
func (h *Holder) Drop(name string) { delete(h.held, name) }

// Held is the number of weights registered.
func (h *Holder) Held() int { return len(h.held) }

// ExecuteNode implements graph.Backend.
func (h *Holder) ExecuteNode(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	for _, w := range []*graph.Weight{n.Weight, n.Bias, n.Norm, n.Factors} {
		if w != nil && !h.Holds(w) {
			return fmt.Errorf("%s: %q (%s) reads %s, which is not registered", h.Name(), n.Name, n.Op, w.Name)
		}
	}
	return h.Wrapped.ExecuteNode(n, in, out, kv)
}

func sameBytes(a, b *graph.Weight) bool {
	return len(a.Data) == len(b.Data) && unsafe.SliceData(a.Data) == unsafe.SliceData(b.Data)
}
