// Package graphtest helps to test what is built on engine/graph: a slow, obvious
// float32 backend ([NewRef]), a wrapper that makes any backend refuse ops, work
// asynchronously, hide its memory and watch for misuse ([Wrap]), a small
// transformer-shaped model ([NewModel]) and random graphs ([Random]).
//
// It is about the mechanics of the graph (splits, lifetimes, copies). Whether
// kernels compute the right numbers is the business of refs and suites: Ref's
// arithmetic is straightforward and follows no contract.
//
// Nothing here is safe for concurrent use.
package graphtest

import (
	"encoding/binary"
	"fmt"
	"math"

	"minfer/engine/gguf"
	"minfer/engine/graph"
)

// Ref is a backend of simple loops over F32 weights and an F32 cache. It
// implements graph.Tapper for attention's "kq" and "kq_soft_max".
type Ref struct {
	name string
	tap  graph.Tap
}

// NewRef makes a Ref of that name.
func NewRef(name string) *Ref { return &Ref{name: name} }

// refBuffer is host memory.
type refBuffer struct {
	data  []byte
	freed bool
}

// Size is the buffer's bytes.
func (b *refBuffer) Size() int { return len(b.data) }

// Name implements graph.Backend.
func (r *Ref) Name() string { return r.name }

// SupportsOp implements graph.Backend: all but the fused decode ops, on F32 and
// on the I32 of ids and positions.
func (r *Ref) SupportsOp(op graph.Op, t graph.DType) bool {
	return op <= graph.Permute && (t == gguf.F32 || t == gguf.I32)
}

// SupportsFused implements graph.Backend.
func (r *Ref) SupportsFused(op graph.Op) bool {
	switch op {
	case graph.SwiGLU, graph.FusedQKV, graph.FusedQkvNorm, graph.FusedFFN:
		return true
	}
	return false
}

// AllocBuffer implements graph.Backend.
func (r *Ref) AllocBuffer(size int) (graph.Buffer, error) {
	if size < 0 {
		return nil, fmt.Errorf("%s: buffer of %d bytes", r.name, size)
	}
	return &refBuffer{data: make([]byte, size)}, nil
}

// AllocFresh implements graph.Backend.
func (r *Ref) AllocFresh(size int) (graph.Buffer, error) { return r.AllocBuffer(size) }

// FreeBuffer implements graph.Backend.
func (r *Ref) FreeBuffer(b graph.Buffer) {
	if rb, ok := b.(*refBuffer); ok {
		rb.freed = true
	}
}

// Synchronize implements graph.Backend: Ref computes at once.
func (r *Ref) Synchronize() error { return nil }

// SetTap implements graph.Tapper.
func (r *Ref) SetTap(t graph.Tap) { r.tap = t }

// ReadHost implements graph.Backend.
func (r *Ref) ReadHost(b graph.Buffer, off int, dst []byte) error {
	mem, err := r.window(b, off, len(dst))
	copy(dst, mem)
	return err
}

// WriteHost implements graph.Backend.
func (r *Ref) WriteHost(b graph.Buffer, off int, src []byte) error {
	mem, err := r.window(b, off, len(src))
	copy(mem, src)
	return err
}

// Map implements graph.Mapper.
func (r *Ref) Map(b graph.Buffer) ([]byte, error) { return r.window(b, 0, b.Size()) }

func (r *Ref) window(b graph.Buffer, off, n int) ([]byte, error) {
	rb, ok := b.(*refBuffer)
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: a buffer of another backend (%T)", r.name, b)
	case rb.freed:
		return nil, fmt.Errorf("%s: a freed buffer of %d bytes", r.name, len(rb.data))
	case off < 0 || n < 0 || off > len(rb.data) || n > len(rb.data)-off:
		return nil, fmt.Errorf("%s: window %d+%d of a buffer of %d bytes", r.name, off, n, len(rb.data))
	}
	return rb.data[off : off+n], nil
}

// vec is a window as little-endian float32 values, or as I32 through i32.
type vec []byte

func (v vec) at(i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(v[4*i:]))
}

func (v vec) set(i int, x float32) { binary.LittleEndian.PutUint32(v[4*i:], math.Float32bits(x)) }

func (v vec) i32(i int) int { return int(int32(binary.LittleEndian.Uint32(v[4*i:]))) }

func (v vec) len() int { return len(v) / 4 }

// ExecuteNode implements graph.Backend.
func (r *Ref) ExecuteNode(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	for _, w := range []*graph.Weight{n.Weight, n.Bias, n.Norm, n.Factors} {
		if w != nil && w.Type != gguf.F32 {
			return fmt.Errorf("%s: weight %q is %v, want f32", r.name, w.Name, w.Type)
		}
	}
	x := make([]vec, len(in))
	for i, o := range in {
		mem, err := r.window(o.Buf, o.Off, o.Len)
		if err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
		x[i] = mem
	}
	mem, err := r.window(out.Buf, out.Off, out.Len)
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	y, d := vec(mem), n.Shape[0]
	switch n.Op {
	case graph.GetRows:
		for i := range x[0].len() {
			copy(y[4*i*d:4*(i+1)*d], n.Weight.Data[4*x[0].i32(i)*d:])
		}
	case graph.Add:
		for i := range y.len() {
			y.set(i, x[0].at(i)+x[1].at(i))
		}
	case graph.Mul:
		for i := range y.len() {
			y.set(i, x[0].at(i)*x[1].at(i))
		}
	case graph.Silu:
		for i := range y.len() {
			y.set(i, silu(x[0].at(i)))
		}
	case graph.SwiGLU:
		for i := range y.len() {
			y.set(i, silu(x[0].at(i))*x[1].at(i))
		}
	case graph.Scale:
		for i := range y.len() {
			y.set(i, x[0].at(i)*n.Attr.Scale)
		}
	case graph.RmsNorm:
		norm(y, x[0], d, n.Attr.Eps, n.Weight)
	case graph.QkNorm:
		norm(y, x[0], n.Attr.HeadDim, n.Attr.Eps, n.Weight)
	case graph.Softmax:
		row := make([]float32, d)
		for i := 0; i < y.len(); i += d {
			for j := range row {
				row[j] = x[0].at(i+j) * n.Attr.Scale
			}
			softmax(row)
			for j := range row {
				y.set(i+j, row[j])
			}
		}
	case graph.MatMul:
		matMul(y, x[0], n)
	case graph.BatchMatMul:
		batchMatMul(y, x[0], x[1], n)
	case graph.RoPE:
		rope(y, x[0], x[1], n)
	case graph.KvcacheStore:
		for i := range x[1].len() {
			copy(y[4*x[1].i32(i)*d:], x[0][4*i*d:4*(i+1)*d])
		}
	case graph.Attn:
		r.attention(y, x, n, kv)
	case graph.FusedQKV, graph.FusedQkvNorm:
		return r.fusedQKV(y, x[0], x[1], n, kv)
	case graph.FusedFFN:
		both := make(vec, 2*len(y))
		matMul(both, x[0], n)
		for i := range y.len() {
			y.set(i, silu(both.at(i))*both.at(y.len()+i))
		}
	case graph.Permute:
		permute(y, x[0], n)
	default:
		return fmt.Errorf("%s: op %s", r.name, n.Op)
	}
	return nil
}

func silu(x float32) float32 { return x / (1 + float32(math.Exp(float64(-x)))) }

func norm(y, x vec, d int, eps float32, w *graph.Weight) {
	for i := 0; i < x.len(); i += d {
		var sum float64
		for j := range d {
			sum += float64(x.at(i+j)) * float64(x.at(i+j))
		}
		scale := float32(1 / math.Sqrt(sum/float64(d)+float64(eps)))
		for j := range d {
			v := x.at(i+j) * scale
			if w != nil {
				v *= vec(w.Data).at(j)
			}
			y.set(i+j, v)
		}
	}
}

// softmax works on the row itself.
func softmax(row []float32) {
	top := row[0]
	for _, v := range row {
		top = max(top, v)
	}
	var sum float32
	for j, v := range row {
		row[j] = float32(math.Exp(float64(v - top)))
		sum += row[j]
	}
	for j := range row {
		row[j] /= sum
	}
}

func matMul(y, x vec, n *graph.Node) {
	w, k, m := vec(n.Weight.Data), n.Weight.Shape[0], n.Weight.Shape[1]
	for t := range x.len() / k {
		for o := range m {
			var sum float32
			for j := range k {
				sum += float32(w.at(o*k+j) * x.at(t*k+j))
			}
			if n.Bias != nil {
				sum += vec(n.Bias.Data).at(o)
			}
			y.set(t*m+o, sum)
		}
	}
}

func batchMatMul(y, a, b vec, n *graph.Node) {
	k, rows, cols := n.In[0].Shape[0], n.Shape[0], n.Shape[1]
	for z := range n.Shape[2] * n.Shape[3] {
		for c := range cols {
			for o := range rows {
				var sum float32
				for j := range k {
					sum += float32(a.at((z*rows+o)*k+j) * b.at((z*cols+c)*k+j))
				}
				y.set((z*cols+c)*rows+o, sum)
			}
		}
	}
}

// rope rotates without YaRN; factors divide the frequency.
func rope(y, x, pos vec, n *graph.Node) {
	hd, p := n.Attr.HeadDim, n.Attr.Rope
	for row := range x.len() / hd {
		at := row * hd
		for j := range hd - p.NDims {
			y.set(at+p.NDims+j, x.at(at+p.NDims+j))
		}
		for j := range p.NDims / 2 {
			f := math.Pow(float64(p.FreqBase), -2*float64(j)/float64(p.NDims)) * float64(p.FreqScale)
			if n.Weight != nil {
				f /= float64(vec(n.Weight.Data).at(j))
			}
			sin, cos := math.Sincos(float64(pos.i32(row/n.Attr.NHead)) * f)
			a, b := at+2*j, at+2*j+1
			if p.Mode == graph.RopeNeox {
				a, b = at+j, at+j+p.NDims/2
			}
			u, v := x.at(a), x.at(b)
			y.set(a, float32(float64(u)*cos-float64(v)*sin))
			y.set(b, float32(float64(u)*sin+float64(v)*cos))
		}
	}
}

func (r *Ref) attention(y vec, x []vec, n *graph.Node, kv *graph.KV) {
	a := n.Attr
	q, k, v, pos := x[0], x[1], x[2], x[3]
	hd, hdv := a.HeadDim, kv.VWidth/a.NHeadKV
	for t := range pos.len() {
		cells := pos.i32(t) + 1
		scores := make([]float32, 0, cells*a.NHead)
		probs := make([]float32, 0, cells*a.NHead)
		for h := range a.NHead {
			g := h / (a.NHead / a.NHeadKV)
			row := make([]float32, cells)
			for c := range cells {
				for j := range hd {
					row[c] += float32(q.at((t*a.NHead+h)*hd+j) * k.at(c*kv.KWidth+g*hd+j))
				}
			}
			scores = append(scores, row...)
			for c := range row {
				row[c] *= a.Scale
			}
			softmax(row)
			probs = append(probs, row...)
			for j := range hdv {
				var sum float32
				for c := range cells {
					sum += float32(row[c] * v.at(c*kv.VWidth+g*hdv+j))
				}
				y.set((t*a.NHead+h)*hdv+j, sum)
			}
		}
		if r.tap != nil {
			dims := graph.Mat(cells, a.NHead)
			r.tap(graph.TapValue{Node: n, Part: "kq", Row: t, Data: scores, Dims: dims})
			r.tap(graph.TapValue{Node: n, Part: "kq_soft_max", Row: t, Data: probs, Dims: dims})
		}
	}
}

func permute(y, x vec, n *graph.Node) {
	s := n.In[0].Shape
	var c [4]int
	for i := range x.len() {
		rest := i
		for d := range c {
			c[d] = rest % s[d]
			rest /= s[d]
		}
		at, stride := 0, 1
		var to [4]int
		for d, p := range n.Attr.Perm {
			to[p] = c[d]
		}
		for d := range to {
			at += to[d] * stride
			stride *= n.Shape[d]
		}
		y.set(at, x.at(i))
	}
}
