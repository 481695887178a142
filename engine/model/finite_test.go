package model

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
)

// Every place of a tensor, in every type, with the values next to the limit.
func TestCheckFinite(t *testing.T) {
	for _, typ := range matrixTypes {
		block := typ.BlockSize()
		n := 19 * block // a tail after whole steps
		if block == 1 {
			n = 45
		}
		clean := func() *gguf.Tensor {
			return &gguf.Tensor{Name: "w", Type: typ, Dims: []int{n, 1}, Data: make([]byte, typ.RowBytes(n))}
		}
		x := clean()
		require.NoError(t, checkFinite(x))
		if block > 1 { // any quants are fine
			for i := range x.Data {
				x.Data[i] = 0xff
			}
			for b := 0; b < len(x.Data); b += typ.BlockBytes() {
				for _, at := range scales[typ] {
					binary.LittleEndian.PutUint16(x.Data[b+at:], 0xfbff) // -65504, the largest
				}
			}
			require.NoError(t, checkFinite(x), typ)
		}
		var largest, inf, nan uint32
		size, places, what := 2, scales[typ], "block %d has the scale %v"
		switch typ {
		case gguf.F32:
			largest, inf, nan, size = 0xff7fffff, 0xff800000, 0x7fc00001, 4
		case gguf.BF16:
			largest, inf, nan = 0xff7f, 0xff80, 0x7f81
		default:
			largest, inf, nan = 0xfbff, 0xfc00, 0x7c01
		}
		if block == 1 {
			places, what = []int{0}, "value %d is %v"
		}
		for i := range len(x.Data) / typ.BlockBytes() {
			for _, at := range places {
				for _, c := range []struct {
					bits uint32
					bad  float64
				}{{largest, 0}, {inf, math.Inf(-1)}, {nan, math.NaN()}} {
					x := clean()
					var b [4]byte
					binary.LittleEndian.PutUint32(b[:], c.bits)
					copy(x.Data[i*typ.BlockBytes()+at:], b[:size])
					if c.bad == 0 {
						require.NoError(t, checkFinite(x), typ)
						continue
					}
					require.EqualErrorf(t, checkFinite(x), "tensor w: "+fmt.Sprintf(what, i, float32(c.bad))+", want a finite number", "%v", typ)
				}
			}
		}
	}
}

// Of several tensors in several parts, the first bad value is named.
func TestCheckFiniteParts(t *testing.T) {
	const n = 3*finitePart/2 + 64
	list := []*gguf.Tensor{
		{Name: "a", Type: gguf.F16, Data: make([]byte, 2*n)},
		{Name: "b", Type: gguf.Q8_0, Data: make([]byte, gguf.Q8_0.RowBytes(n))},
		{Name: "empty", Type: gguf.F32},
		{Name: "c", Type: gguf.F16, Data: make([]byte, 2*n)},
	}
	require.NoError(t, checkFinite(list...))
	require.NoError(t, checkFinite())
	spoil := func(i, at int) { binary.LittleEndian.PutUint16(list[i].Data[at:], 0x7c00) }
	spoil(3, 2*(n-1))
	require.EqualError(t, checkFinite(list...), fmt.Sprintf("tensor c: value %d is +Inf, want a finite number", n-1))
	spoil(1, 34*(n/32-1))
	require.EqualError(t, checkFinite(list...), fmt.Sprintf("tensor b: block %d has the scale +Inf, want a finite number", n/32-1))
	spoil(0, 2*finitePart)
	spoil(0, 2*(n-1))
	require.EqualError(t, checkFinite(list...), fmt.Sprintf("tensor a: value %d is +Inf, want a finite number", finitePart))
}

func BenchmarkCheckFinite(b *testing.B) {
	for _, typ := range []gguf.Type{gguf.F32, gguf.F16, gguf.Q4_0, gguf.Q4_K} {
		b.Run(typ.String(), func(b *testing.B) {
			x := &gguf.Tensor{Name: "w", Type: typ, Data: make([]byte, typ.RowBytes(1<<22))}
			b.SetBytes(int64(len(x.Data)))
			for b.Loop() {
				if err := checkFinite(x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
