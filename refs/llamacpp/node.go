package llamacpp

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"unsafe"

	"minfer/engine/gguf"
)

// A NodeValue is one node of the graph, as the eval callback saw it right after
// it was computed. VIEW, RESHAPE, PERMUTE and TRANSPOSE nodes, which hold no
// data of their own, are left out.
type NodeValue struct {
	Name     string // "Qcur-0", "cache_k_l0 (view)", "node_31"
	Op       string // ggml's name, "MUL_MAT", "SWIGLU"
	Type     gguf.Type
	Dims     [4]int    // innermost first, 1 where unused
	OpParams [16]int32 // ggml's op_params: the rope's base at index 5 as float bits, ...
	Data     []byte    // a contiguous copy, the caller's to keep
}

// Float32s is the value as float32: f32 as it is, f16 widened exactly; nil for
// another type.
func (v *NodeValue) Float32s() []float32 { return float32s(v.Type, v.Data) }

func float32s(t gguf.Type, data []byte) []float32 {
	switch t {
	case gguf.F32:
		out := make([]float32, len(data)/4)
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		return out
	case gguf.F16:
		out := make([]float32, len(data)/2)
		for i := range out {
			out[i] = halfToFloat(binary.LittleEndian.Uint16(data[2*i:]))
		}
		return out
	}
	return nil
}

// halfToFloat widens an IEEE half, exactly.
func halfToFloat(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10)&31, uint32(h)&1023
	switch exp {
	case 0:
		f := float32(frac) * 0x1p-24
		return math.Float32frombits(sign | math.Float32bits(f))
	case 31:
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// dims are the tensor's dimensions as ints.
func (t *tensor) dims() (d [4]int) {
	for i, n := range t.ne {
		d[i] = int(n)
	}
	return d
}

// cname is the tensor's name.
func (t *tensor) cname() string {
	n := slices.Index(t.name[:], 0)
	if n < 0 {
		n = len(t.name)
	}
	return string(t.name[:n])
}

// bytes copies the tensor's elements in order, whatever its strides are.
func (t *tensor) bytes() ([]byte, error) {
	typ := gguf.Type(t.typ)
	width := typ.BlockBytes()
	if typ == i64 {
		width = 8
	}
	if width == 0 || t.data == nil {
		return nil, fmt.Errorf("node %s has type %v and data %v: can't be read", t.cname(), typ, t.data)
	}
	block := max(typ.BlockSize(), 1)
	d := t.dims()
	blocks := d[0] / block
	out := make([]byte, 0, blocks*width*d[1]*d[2]*d[3])
	for i3 := range d[3] {
		for i2 := range d[2] {
			for i1 := range d[1] {
				row := unsafe.Add(t.data, uintptr(i1)*uintptr(t.nb[1])+uintptr(i2)*uintptr(t.nb[2])+uintptr(i3)*uintptr(t.nb[3]))
				if t.nb[0] == uint64(width) {
					out = append(out, unsafe.Slice((*byte)(row), blocks*width)...)
					continue
				}
				for i0 := range blocks {
					out = append(out, unsafe.Slice((*byte)(unsafe.Add(row, uintptr(i0)*uintptr(t.nb[0]))), width)...)
				}
			}
		}
	}
	return out, nil
}

// i64 is ggml's type of row indices, which no file of ours has.
const i64 gguf.Type = 27

// viewOps are the operations that compute nothing.
var viewOps = []string{"NONE", "VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE"}

// taps holds the contexts that listen to their nodes, by the number that they
// gave llama.cpp as user data: there is one C callback for the process.
var taps struct {
	sync.Mutex
	next uintptr
	m    map[uintptr]*tap
}

// A tap is one listening context.
type tap struct {
	lib *process
	fn  func(t *tensor, op string) error
	err error // the first error; evaluation stops there
}

func addTap(t *tap) uintptr {
	taps.Lock()
	defer taps.Unlock()
	if taps.m == nil {
		taps.m = make(map[uintptr]*tap)
	}
	taps.next++
	taps.m[taps.next] = t
	return taps.next
}

func removeTap(id uintptr) {
	taps.Lock()
	delete(taps.m, id)
	taps.Unlock()
}

// evalDispatch is llama.cpp's eval callback: with ask it says whether the node
// is wanted, otherwise the node has been computed. It returns false to leave a
// node out, or to stop the evaluation.
func evalDispatch(t *tensor, ask bool, user uintptr) (more bool) {
	taps.Lock()
	tp := taps.m[user]
	taps.Unlock()
	if tp == nil || tp.err != nil {
		return false
	}
	// A Go panic must not unwind through C frames.
	defer func() {
		if r := recover(); r != nil {
			tp.err = fmt.Errorf("tap of node %s: panic: %v", t.cname(), r)
			more = false
		}
	}()
	op := tp.lib.fn.GGMLOpDesc(t)
	if slices.Contains(viewOps, op) {
		return !ask
	}
	if ask {
		return true
	}
	if err := tp.fn(t, op); err != nil {
		tp.err = err
		return false
	}
	return true
}
