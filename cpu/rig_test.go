package cpu_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cpu"
	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/quant"
)

func f32Bytes(x []float32) []byte {
	b := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
	return b
}

func bytesF32(b []byte) []float32 {
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x
}

func i32Bytes(x ...int32) []byte {
	b := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(b[4*i:], uint32(v))
	}
	return b
}

func randFloats(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func weightOf(t testing.TB, name string, typ gguf.Type, s graph.Shape, x []float32) *graph.Weight {
	w := &graph.Weight{Name: name, Type: typ, Shape: s, Data: make([]byte, typ.RowBytes(s[0])*s.Rows())}
	require.NoError(t, quant.Quantize(typ, w.Data, x))
	return w
}

// value is an input node with its bytes.
type value struct {
	typ   gguf.Type
	shape graph.Shape
	data  []byte
}

func floats(s graph.Shape, x []float32) value { return value{gguf.F32, s, f32Bytes(x)} }
func ints(x ...int32) value                   { return value{gguf.I32, graph.Vec(len(x)), i32Bytes(x...)} }

// exec runs one node on fresh buffers whose surroundings must stay as they are,
// and returns its output.
func exec(t testing.TB, b *cpu.Backend, n graph.Node, kv *graph.KV, in ...value) ([]byte, error) {
	const zone = 64
	ops := make([]graph.Operand, len(in))
	for i, v := range in {
		n.In = append(n.In, &graph.Node{Op: graph.Input, Name: "in", Type: v.typ, Shape: v.shape})
		buf, err := b.AllocBuffer(len(v.data))
		require.NoError(t, err)
		defer b.FreeBuffer(buf)
		require.NoError(t, b.WriteHost(buf, 0, v.data))
		ops[i] = graph.Operand{Buf: buf, Len: len(v.data)}
	}
	if n.Type == 0 {
		n.Type = gguf.F32
	}
	size := n.Type.RowBytes(n.Shape[0]) * n.Shape.Rows()
	if kv != nil && n.Op != graph.Attn {
		size = 0
	}
	buf, err := b.AllocBuffer(size + 2*zone)
	require.NoError(t, err)
	defer b.FreeBuffer(buf)
	mem, err := b.Map(buf)
	require.NoError(t, err)
	for i := range mem {
		mem[i] = 0xa5
	}
	err = b.ExecuteNode(&n, ops, graph.Operand{Buf: buf, Off: zone, Len: size}, kv)
	for i := range zone {
		require.Equal(t, [2]byte{0xa5, 0xa5}, [2]byte{mem[i], mem[zone+size+i]}, "%s wrote outside its output", n.Op)
	}
	for i, v := range in {
		now := make([]byte, len(v.data))
		require.NoError(t, b.ReadHost(ops[i].Buf, 0, now))
		require.True(t, bytes.Equal(v.data, now), "%s changed input %d", n.Op, i)
	}
	out := make([]byte, size)
	copy(out, mem[zone:])
	return out, err
}

// newKV makes a zeroed cache of one layer.
func newKV(t testing.TB, b *cpu.Backend, typ gguf.Type, capacity, kWidth, vWidth int) *graph.KV {
	kv := &graph.KV{Type: typ, Capacity: capacity, KWidth: kWidth, VWidth: vWidth}
	for _, r := range []struct {
		buf   *graph.Buffer
		width int
	}{{&kv.K, kWidth}, {&kv.V, vWidth}} {
		n := capacity * typ.RowBytes(r.width)
		buf, err := b.AllocBuffer(n)
		require.NoError(t, err)
		require.NoError(t, b.WriteHost(buf, 0, make([]byte, n)))
		*r.buf = buf
	}
	return kv
}

func isUnsupported(err error) bool { return errors.Is(err, graph.ErrUnsupported) }
