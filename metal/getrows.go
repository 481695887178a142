package metal

import (
	"fmt"
	"strings"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/metal/mtl"
)

// rowReaders is the entries of GetRows by type.
var rowReaders = func() map[gguf.Type]*Entry {
	m := map[gguf.Type]*Entry{}
	for _, t := range weightTypes {
		bound := Bound{Why: "a copy, or the exact product of a scale and a quant"}
		switch t {
		case gguf.Q4_1, gguf.Q5_1, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K:
			bound = Bound{C: 1, Why: "k is 1, terms are the results: each is d*q + m in one rounding, d and m being exact products"}
		}
		m[t] = &Entry{
			Op: graph.GetRows.String(), Type: t.String(), Kernel: "kernel_get_rows_" + strings.ToLower(t.String()),
			When: "every call", Bound: bound,
		}
	}
	return m
}()

func getRowsTable() []*Entry {
	var table []*Entry
	for _, t := range weightTypes {
		table = append(table, rowReaders[t])
	}
	return table
}

// getRows is y [d, n]: the rows of the table [d, rows] that the ids [n] name. The
// kernel makes zeros of an id outside the table: the host never reads ids.
func (b *Backend) getRows(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	w, ids := n.Weight, n.Shape.Rows()
	if w == nil {
		return fmt.Errorf("no table")
	}
	e := rowReaders[w.Type]
	cols, rows := w.Shape[0], w.Shape[1]
	switch {
	case e == nil:
		return refuse(n, "table %s of type %v, want one of %v", w.Name, w.Type, weightTypes)
	case cols <= 0 || rows <= 0 || w.Shape[2] != 1 || w.Shape[3] != 1:
		return refuse(n, "table %s has shape %v, want a matrix", w.Name, w.Shape)
	case cols%w.Type.BlockSize() != 0:
		return refuse(n, "table %s of type %v has rows of %d, want a multiple of %d", w.Name, w.Type, cols, w.Type.BlockSize())
	case len(w.Data) != w.Type.RowBytes(cols)*rows:
		return refuse(n, "table %s of type %v %v has %d bytes, want %d", w.Name, w.Type, w.Shape, len(w.Data), w.Type.RowBytes(cols)*rows)
	case n.Shape[0] != cols || in[0].Len != 4*ids || out.Len != 4*cols*ids:
		return fmt.Errorf("ids of %d bytes and output of %d for shape %v of table %s %v, want %d and %d",
			in[0].Len, out.Len, n.Shape, w.Name, w.Shape, 4*ids, 4*cols*ids)
	case cols*ids > maxElements:
		return refuse(n, "%d rows of table %s %v, want at most %d values", ids, w.Name, w.Shape, maxElements)
	case ids == 0:
		return nil
	}
	table, err := b.weight(0, w)
	if err != nil {
		return err
	}
	threads := cols // to a row: one an element, or eight elements of a block
	if w.Type.BlockSize() > 1 {
		threads = cols / 8
	}
	bind := []mtl.Binding{table, b.read(1, in[0], mtl.Int32), b.output(2, out, mtl.Float32), b.params(3, cols, rows)}
	return b.launch(e, n, bind, grid{Grid: mtl.Size{X: threads, Y: ids}, Threads: mtl.Size{X: 64}})
}
