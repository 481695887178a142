package refs

import (
	"fmt"
	"runtime"
	"sync"

	"minfer/engine/gguf"
)

// A Matrix is a weight tensor of two dimensions, as a file holds it: Out rows of
// In elements.
type Matrix struct {
	Type    gguf.Type
	In, Out int
	Data    []byte
}

// Row dequantises row i.
func (m Matrix) Row(i int) ([]float64, error) {
	block := m.Type.BlockSize()
	if block == 0 || m.In <= 0 || m.In%block != 0 {
		return nil, fmt.Errorf("matrix of %v: rows of %d elements: want a multiple of %d", m.Type, m.In, block)
	}
	size := m.Type.RowBytes(m.In)
	if len(m.Data) != size*m.Out {
		return nil, fmt.Errorf("matrix of %v [%d, %d]: %d bytes, want %d", m.Type, m.In, m.Out, len(m.Data), size*m.Out)
	}
	if i < 0 || i >= m.Out {
		return nil, fmt.Errorf("matrix of %v [%d, %d]: row %d, want one of 0..%d", m.Type, m.In, m.Out, i, m.Out-1)
	}
	return Dequantize(m.Type, m.Data[i*size:(i+1)*size], m.In)
}

// MatMul gives [Out, rows] for x [In, rows]: y[r][o] = sum_i w[o][i] * x[r][i].
// Activations are not quantised, whatever the weight's type. Outputs are shared among
// the cores; each is one sum in order of i, whoever computes it.
func MatMul(w Matrix, x []float64) ([]float64, error) {
	rows := rowsOf("mul_mat", len(x), w.In)
	y := make([]float64, rows*w.Out)
	parts := min(runtime.GOMAXPROCS(0), w.Out/minPart+1)
	errs := make([]error, parts)
	var all sync.WaitGroup
	for p := range parts {
		all.Go(func() {
			for o := w.Out * p / parts; o < w.Out*(p+1)/parts; o++ {
				row, err := w.Row(o)
				if err != nil {
					errs[p] = fmt.Errorf("mul_mat: %w", err)
					return
				}
				r := 0
				for ; r+4 <= rows; r += 4 {
					y[r*w.Out+o], y[(r+1)*w.Out+o], y[(r+2)*w.Out+o], y[(r+3)*w.Out+o] =
						dots(row, x[r*w.In:(r+1)*w.In], x[(r+1)*w.In:(r+2)*w.In], x[(r+2)*w.In:(r+3)*w.In], x[(r+3)*w.In:(r+4)*w.In])
				}
				for ; r < rows; r++ {
					y[r*w.Out+o] = dot(row, x[r*w.In:(r+1)*w.In])
				}
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return y, nil
}

// minPart is the fewest outputs that another core is asked for.
const minPart = 64

// dots is dot of four rows at once, which do not wait for each other's additions.
func dots(w, a, b, c, d []float64) (p, q, r, s float64) {
	a, b, c, d = a[:len(w)], b[:len(w)], c[:len(w)], d[:len(w)]
	for i, v := range w {
		p += float64(v * a[i])
		q += float64(v * b[i])
		r += float64(v * c[i])
		s += float64(v * d[i])
	}
	return p, q, r, s
}

// MatMulTerms is the RMS of the products that MatMul adds up, over all outputs:
// RMS(terms) of a case's tolerance, with k = In.
func MatMulTerms(w Matrix, x []float64) (float64, error) {
	rows := rowsOf("mul_mat", len(x), w.In)
	// The mean square of w[o][i]*x[r][i] over o, r, i is a sum over i of column
	// energies, so no product has to be formed.
	column := make([]float64, w.In)
	for o := range w.Out {
		row, err := w.Row(o)
		if err != nil {
			return 0, fmt.Errorf("mul_mat terms: %w", err)
		}
		for i, v := range row {
			column[i] += v * v
		}
	}
	terms := make([]float64, 0, len(x))
	for r := range rows {
		for i := range w.In {
			terms = append(terms, x[r*w.In+i]*x[r*w.In+i]*column[i]/float64(w.Out))
		}
	}
	return rootMean(terms), nil
}

// GetRows gives the rows of table with the given ids, one after the other.
func GetRows(table Matrix, ids []int32) ([]float64, error) {
	var y []float64
	for _, id := range ids {
		row, err := table.Row(int(id))
		if err != nil {
			return nil, fmt.Errorf("get_rows: %w", err)
		}
		y = append(y, row...)
	}
	return y, nil
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i] * b[i])
	}
	return sum
}
