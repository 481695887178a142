package model

import (
	"fmt"

	"minfer/engine/graph"
)

// Concatenate makes the weights that the decode fusions read: with qkv the rows
// of attn_q, attn_k and attn_v as one matrix, with their biases and the norms of
// the query and key heads; with ffn those of ffn_gate and ffn_up. Each is a copy
// in memory, so a run without a GPU has no use for it.
//
// A layer gets them only where they exist: one type and one row length, all three
// biases or none, no biases of ffn_gate and ffn_up. A file of mixed types, such
// as Q4_K_M, has layers without, which then stay unfused. What is there already
// is kept, so a second call adds what the first one left out.
//
// It changes the model's weights (Weight.Concat), and must come before the model
// is shared and before Hold.
func (m *Model) Concatenate(qkv, ffn bool) {
	for il := range m.layers {
		l := &m.layers[il]
		name := func(s string) string { return fmt.Sprintf("blk.%d.%s", il, s) }
		if qkv && l.q.Concat == nil && joins(l.q, l.k, l.v) && allOrNone(l.qBias, l.kBias, l.vBias) {
			m.joinRows(name("attn_qkv.weight"), l.q, l.k, l.v)
			if l.qBias != nil {
				m.joinVectors(name("attn_qkv.bias"), l.qBias, l.kBias, l.vBias)
			}
			if l.qNorm != nil {
				m.joinVectors(name("attn_qk_norm.weight"), l.qNorm, l.kNorm)
			}
		}
		if ffn && l.gate.Concat == nil && joins(l.gate, l.up) && l.gateBias == nil && l.upBias == nil {
			m.joinRows(name("ffn_gate_up.weight"), l.gate, l.up)
		}
	}
}

// Concatenations lists what Concatenate made, by layer.
func (m *Model) Concatenations() []*graph.Weight { return m.concats }

// Hold registers everything that a graph of the model can read with a backend: the
// parts of the file, the weights, the concatenations made so far. It comes before
// the first graph; see graph.Gate.
func (m *Model) Hold(h graph.WeightHolder) error {
	for _, p := range m.file.Parts {
		if err := h.HoldPart(p.Data); err != nil {
			return fmt.Errorf("model: %s: %w", p.Path, err)
		}
	}
	for _, list := range [][]*graph.Weight{m.weights, m.concats} {
		for _, w := range list {
			if err := h.HoldWeight(w); err != nil {
				return fmt.Errorf("model: tensor %s: %w", w.Name, err)
			}
		}
	}
	return nil
}

// joins: the rows of the matrices can follow each other in one.
func joins(ws ...*graph.Weight) bool {
	for _, w := range ws {
		if w.Type != ws[0].Type || w.Shape[0] != ws[0].Shape[0] {
			return false
		}
	}
	return true
}

func allOrNone(ws ...*graph.Weight) bool {
	for _, w := range ws {
		if (w == nil) != (ws[0] == nil) {
			return false
		}
	}
	return true
}

// joinRows makes the matrix of all rows, joinVectors the vector of all elements.
func (m *Model) joinRows(name string, ws ...*graph.Weight) {
	rows := 0
	for _, w := range ws {
		w.Row = rows
		rows += w.Shape[1]
	}
	m.join(name, graph.Mat(ws[0].Shape[0], rows), ws)
}

func (m *Model) joinVectors(name string, ws ...*graph.Weight) {
	n := 0
	for _, w := range ws {
		w.Row = n
		n += w.Shape[0]
	}
	m.join(name, graph.Vec(n), ws)
}

func (m *Model) join(name string, s graph.Shape, ws []*graph.Weight) {
	c := &graph.Weight{Name: name, Type: ws[0].Type, Shape: s}
	c.Data = make([]byte, 0, c.Type.RowBytes(s[0])*s.Rows())
	for _, w := range ws {
		c.Data = append(c.Data, w.Data...)
		w.Concat = c
	}
	m.concats = append(m.concats, c)
}
