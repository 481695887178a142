// Package onenode is what a case of a single graph node is made of, on the CPU and on
// a Metal device alike: the node and its inputs, weights of every bit pattern, and
// values that lie between guard zones in a backend's buffers. The suites' own packages
// draw the data and judge the results.
package onenode

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/quant"
)

// Input is a node that stands for a value the case provides.
func Input(name string, t gguf.Type, shape graph.Shape) *graph.Node {
	return &graph.Node{Op: graph.Input, Name: name, Layer: -1, Type: t, Shape: shape}
}

// New makes a node under test, of F32, behind its inputs.
func New(op graph.Op, shape graph.Shape, in ...*graph.Node) *graph.Node {
	for i, n := range in {
		n.ID = i
	}
	return &graph.Node{ID: len(in), Op: op, Name: op.String(), Layer: 0, Type: gguf.F32, Shape: shape, In: in}
}

// scaleBytes says which bytes of a block hold its scales: the rest may take any
// value.
var scaleBytes = map[gguf.Type][2]int{
	gguf.Q4_0: {0, 2}, gguf.Q4_1: {0, 4}, gguf.Q5_0: {0, 2}, gguf.Q5_1: {0, 4}, gguf.Q8_0: {0, 2},
	gguf.Q4_K: {0, 4}, gguf.Q5_K: {0, 4}, gguf.Q6_K: {208, 210},
}

// Weights makes rows of d weights of a type from values that are drawn one by one.
// Every other row keeps what the quantiser made; in the rest of packed types all bytes
// but the scales are random, since a kernel must read every bit pattern and quantisers
// leave some out.
func Weights(r *rand.Rand, t gguf.Type, d, rows int, draw func(*rand.Rand) float32) ([]byte, error) {
	x := make([]float32, d*rows)
	for i := range x {
		x[i] = draw(r)
	}
	data := make([]byte, rows*t.RowBytes(d))
	if err := quant.Quantize(t, data, x); err != nil {
		return nil, err
	}
	keep, packed := scaleBytes[t]
	if !packed {
		return data, nil
	}
	rowBytes, block := t.RowBytes(d), t.BlockBytes()
	for row := 1; row < rows; row += 2 {
		for i := row * rowBytes; i < (row+1)*rowBytes; i++ {
			if at := i % rowBytes % block; at < keep[0] || at >= keep[1] {
				data[i] = byte(r.Uint32())
			}
		}
	}
	return data, nil
}

// FloatBytes is values as a buffer of F32 holds them.
func FloatBytes(x []float32) []byte {
	b := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
	return b
}

// IntBytes is numbers as a buffer of I32 holds them.
func IntBytes(x []int32) []byte {
	b := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(b[4*i:], uint32(v))
	}
	return b
}

const (
	// Guard is the size, in bytes, of the zone before and after each value.
	Guard = 64
	// GuardByte is what fills the zones.
	GuardByte = 0xa5
	poison    = 0x7fc0dead // a NaN
)

// Poison is n values of F32 that nobody has written: NaNs.
func Poison(n int) []byte {
	b := make([]byte, 4*n)
	for i := 0; i < len(b); i += 4 {
		binary.LittleEndian.PutUint32(b[i:], poison)
	}
	return b
}

// Guarded is a value between two guard zones.
type Guarded struct {
	Operand graph.Operand

	what    string
	content []byte
	fixed   bool
}

// NewGuarded allocates and fills a value with a zone of before bytes ahead of it. The
// node must not change one that is fixed.
func NewGuarded(b graph.Backend, what string, content []byte, before int, fixed bool) (Guarded, error) {
	buf, err := b.AllocBuffer(before + len(content) + Guard)
	if err != nil {
		return Guarded{}, err
	}
	g := Guarded{Operand: graph.Operand{Buf: buf, Off: before, Len: len(content)}, what: what, content: content, fixed: fixed}
	all := make([]byte, before+len(content)+Guard)
	for i := range all {
		all[i] = GuardByte
	}
	copy(all[before:], content)
	return g, b.WriteHost(buf, 0, all)
}

// Check looks at the guard zones and, where the value is fixed, at the content. It
// says what is wrong, "" for nothing.
func (g Guarded) Check(b graph.Backend) (string, error) {
	all := make([]byte, g.Operand.Off+g.Operand.Len+Guard)
	if err := b.ReadHost(g.Operand.Buf, 0, all); err != nil {
		return "", err
	}
	for i, c := range all {
		at := i - g.Operand.Off
		switch inside := at >= 0 && at < g.Operand.Len; {
		case !inside && c != GuardByte:
			return fmt.Sprintf("%s: byte %d, outside its %d bytes, was overwritten", g.what, at, g.Operand.Len), nil
		case inside && g.fixed && c != g.content[at]:
			return fmt.Sprintf("%s: byte %d was changed by the node that reads it", g.what, at), nil
		}
	}
	return "", nil
}
