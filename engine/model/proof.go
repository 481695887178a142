package model

import (
	"slices"

	"minfer/engine/graph"
)

// A Proof shows that the matrices of a model are finite by what the first pass makes of
// them, which reads them anyway.
//
// In the product of a matrix with a vector, each value, or each scale of a block, is a
// factor of something that is added to its row's result. A NaN or an infinity stays
// one whatever it is multiplied with (an infinity times zero is NaN) and whatever is
// added, so a finite result says that everything in its row is finite. A result that is
// not may have other reasons: then the matrices are read.
//
// It holds for products in IEEE arithmetic that leave out nothing, as the CPU
// backend's are. A Proof is for one goroutine.
type Proof struct {
	m    *Model
	open map[*graph.Weight]bool
	err  error
}

// Prove begins a proof, of all matrices.
func (m *Model) Prove() *Proof {
	p := &Proof{m: m, open: map[*graph.Weight]bool{}}
	for _, w := range m.matrices {
		p.open[w] = true
	}
	return p
}

// Wants says whether a product of the weight is still to be shown to Product.
func (p *Proof) Wants(w *graph.Weight) bool { return p.open[w] }

// Product takes the results of the product of a matrix with one vector. The error is
// CheckFinite's, and stays.
func (p *Proof) Product(w *graph.Weight, y []float32) error {
	if p.err != nil || !p.open[w] || len(y) != w.Shape[1] {
		return p.err
	}
	for _, v := range y {
		if v-v != 0 { // NaN or infinite
			p.open, p.err = nil, p.m.CheckFinite()
			return p.err
		}
	}
	delete(p.open, w)
	return nil
}

// Finish reads the matrices of which no product was shown, such as an embedding table
// that is not the output matrix too. The error is CheckFinite's, and stays.
func (p *Proof) Finish() error {
	if p.err == nil && len(p.open) > 0 {
		rest := slices.DeleteFunc(slices.Clone(p.m.matrices), func(w *graph.Weight) bool { return !p.open[w] })
		p.open, p.err = nil, p.m.checkFinite(rest)
	}
	return p.err
}
