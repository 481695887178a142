package model

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"minfer/engine/gguf"
	"minfer/engine/graph"
)

// matrixTypes are the weight types that every backend's matmul knows.
var matrixTypes = []gguf.Type{
	gguf.F32, gguf.F16, gguf.BF16, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0,
	gguf.Q4_K, gguf.Q5_K, gguf.Q6_K,
}

// tensors hands out a file's tensors with their shape and type checked. The
// first error stays and later calls do nothing.
type tensors struct {
	f       *gguf.File
	used    map[string]bool
	weights []*graph.Weight
	// matrices are those whose values are not read here.
	matrices []*graph.Weight
	err      error
}

// matrix finds a tensor of rows of in values each.
func (t *tensors) matrix(dst **graph.Weight, name string, in, rows int) {
	x := t.find(name, []int{in, rows})
	if x == nil {
		return
	}
	if !slices.Contains(matrixTypes, x.Type) {
		t.err = fmt.Errorf("tensor %s: type %v, want one of %v", name, x.Type, matrixTypes)
		return
	}
	*dst = t.add(x, graph.Mat(in, rows))
	t.matrices = append(t.matrices, *dst)
}

// vector finds a norm, a bias or a factor list: n finite F32 values. (A norm in
// another type would have to be widened; llama.cpp doesn't run one either.)
func (t *tensors) vector(dst **graph.Weight, name string, n int) {
	x := t.find(name, []int{n})
	if x == nil {
		return
	}
	if x.Type != gguf.F32 {
		t.err = fmt.Errorf("tensor %s: type %v, want f32", name, x.Type)
		return
	}
	for i := range n {
		v := math.Float32frombits(binary.LittleEndian.Uint32(x.Data[4*i:]))
		if v-v != 0 { // NaN or infinite
			t.err = fmt.Errorf("tensor %s: value %d is %v, want a finite number", name, i, v)
			return
		}
	}
	*dst = t.add(x, graph.Vec(n))
}

// optVector is vector for a tensor that may be absent.
func (t *tensors) optVector(dst **graph.Weight, name string, n int) {
	if _, ok := t.f.Tensor(name); ok {
		t.vector(dst, name, n)
	}
}

func (t *tensors) find(name string, dims []int) *gguf.Tensor {
	if t.err != nil {
		return nil
	}
	x, ok := t.f.Tensor(name)
	if !ok {
		t.err = fmt.Errorf("tensor %s is missing", name)
		return nil
	}
	if !sameDims(x.Dims, dims) {
		t.err = fmt.Errorf("tensor %s: shape %v, want %v", name, x.Dims, dims)
		return nil
	}
	return x
}

// sameDims compares shapes up to trailing ones.
func sameDims(a, b []int) bool {
	for i := range max(len(a), len(b)) {
		x, y := 1, 1
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return false
		}
	}
	return true
}

func (t *tensors) add(x *gguf.Tensor, s graph.Shape) *graph.Weight {
	w := &graph.Weight{Name: x.Name, Type: x.Type, Shape: s, Data: x.Data}
	t.used[x.Name] = true
	t.weights = append(t.weights, w)
	return w
}

// refuseUnused names the first tensor that no node would read: it would change
// the result if it were.
func (t *tensors) refuseUnused(arch string) error {
	for i := range t.f.Tensors {
		if x := &t.f.Tensors[i]; !t.used[x.Name] {
			return fmt.Errorf("tensor %s %v %v is not implemented for %s", x.Name, x.Dims, x.Type, arch)
		}
	}
	return nil
}
