package model

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"minfer/engine/gguf"
	"minfer/engine/quant"
)

// scales lists where a block keeps its float16 scales, two of them side by side.
var scales = map[gguf.Type][]int{
	gguf.Q4_0: {0}, gguf.Q4_1: {0, 2}, gguf.Q5_0: {0}, gguf.Q5_1: {0, 2}, gguf.Q8_0: {0},
	gguf.Q4_K: {0, 2}, gguf.Q5_K: {0, 2}, gguf.Q6_K: {208},
}

// checkFinite names the first weight of the first matrix that is NaN or infinite. It
// has to be found here: the next product turns its activations into small integers,
// and what was a NaN becomes some number, so the logits look sound. llama.cpp
// runs such a file and prints nonsense.
//
// It reads all tensors once, at memory speed.
func checkFinite(list ...*gguf.Tensor) error {
	// A part of a tensor, in values or blocks.
	type part struct{ tensor, lo, hi int }
	var parts []part
	for i, x := range list {
		size := x.Type.BlockBytes()
		n, step := len(x.Data)/size, finitePart/size
		for lo := 0; lo < n; lo += step {
			parts = append(parts, part{i, lo, min(lo+step, n)})
		}
	}
	bad := make([]int, len(parts)) // of each part, from its start; -1 for none
	for i := range bad {
		bad[i] = -1
	}
	var next atomic.Int64
	var found atomic.Bool
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(parts)) {
		wg.Go(func() {
			// Parts are taken in order, so all before one that is bad are looked at.
			for !found.Load() {
				i := int(next.Add(1)) - 1
				if i >= len(parts) {
					return
				}
				p := parts[i]
				x := list[p.tensor]
				size := x.Type.BlockBytes()
				data := x.Data[p.lo*size : p.hi*size]
				if bad[i] = firstBad(x.Type, data); bad[i] >= 0 {
					found.Store(true)
				}
			}
		})
	}
	wg.Wait()
	for i, p := range parts {
		if bad[i] >= 0 {
			return notFinite(list[p.tensor], p.lo+bad[i])
		}
	}
	return nil
}

// finitePart is how many bytes are checked at a time.
const finitePart = 1 << 20

// notFinite names one value or block.
func notFinite(x *gguf.Tensor, i int) error {
	at, blocks := scales[x.Type]
	if !blocks {
		return fmt.Errorf("tensor %s: value %d is %v, want a finite number", x.Name, i, plain(x.Type, x.Data, i))
	}
	block := x.Data[i*x.Type.BlockBytes():]
	bad := binary.LittleEndian.Uint16(block[at[0]:])
	if bad&0x7c00 != 0x7c00 {
		bad = binary.LittleEndian.Uint16(block[at[len(at)-1]:])
	}
	return fmt.Errorf("tensor %s: block %d has the scale %v, want a finite number", x.Name, i, quant.F32FromF16(bad))
}

// firstBad is the index of the first value, or block, that is not finite, -1 without
// one.
func firstBad(t gguf.Type, data []byte) int {
	size := t.BlockBytes()
	n := len(data) / size
	// Four places at a time, a quarter of the data apart: the processor then reads
	// ahead at each of them, which is nearly twice as fast as at one.
	q := n / 4 * size
	at, blocks := scales[t]
	var bad bool
	switch {
	case !blocks:
		q &^= 7
		bad = anyExponent(t, data[:q], data[q:2*q], data[2*q:3*q], data[3*q:4*q])
	case len(at) == 1:
		bad = anyScale(size, at[0], data[:q], data[q:2*q], data[2*q:3*q], data[3*q:4*q])
	default:
		bad = anyScales(size, at[0], data[:q], data[q:2*q], data[2*q:3*q], data[3*q:4*q])
	}
	i := 4 * q / size
	if bad {
		i = 0
	}
	for ; i < n; i++ { // to find it, and what the quarters leave
		block := data[i*size : (i+1)*size]
		if !blocks {
			if v := plain(t, block, 0); v-v != 0 {
				return i
			}
			continue
		}
		for _, a := range at {
			if binary.LittleEndian.Uint16(block[a:])&0x7c00 == 0x7c00 {
				return i
			}
		}
	}
	return -1
}

// The loops below add the exponent's lowest bit to exponents. From one of all ones,
// and from no other, that carries into the sign's place, which is masked out before.
// The four slices have the same length.

// anyScale says whether the float16 at that offset of any block is not finite.
func anyScale(size, at int, a, b, c, d []byte) bool {
	const mask, one, sign = 0x7c00, 0x0400, 0x8000
	x := uint16(0)
	for i := at; i < len(a); i += size {
		x |= binary.LittleEndian.Uint16(a[i:])&mask + one
		x |= binary.LittleEndian.Uint16(b[i:])&mask + one
		x |= binary.LittleEndian.Uint16(c[i:])&mask + one
		x |= binary.LittleEndian.Uint16(d[i:])&mask + one
	}
	return x&sign != 0
}

// anyScales is anyScale for two of them side by side.
func anyScales(size, at int, a, b, c, d []byte) bool {
	const mask, one, sign = 0x7c007c00, 0x04000400, 0x80008000
	x := uint32(0)
	for i := at; i < len(a); i += size {
		x |= binary.LittleEndian.Uint32(a[i:])&mask + one
		x |= binary.LittleEndian.Uint32(b[i:])&mask + one
		x |= binary.LittleEndian.Uint32(c[i:])&mask + one
		x |= binary.LittleEndian.Uint32(d[i:])&mask + one
	}
	return x&sign != 0
}

// anyExponent says whether any of the values, two or four of 8 bytes, is not finite.
// The lengths are multiples of 8.
func anyExponent(t gguf.Type, a, b, c, d []byte) bool {
	var mask, one, sign uint64
	switch t {
	case gguf.F32:
		mask, one, sign = 0x7f800000_7f800000, 0x00800000_00800000, 0x80000000_80000000
	case gguf.F16:
		mask, one, sign = 0x7c007c007c007c00, 0x0400040004000400, 0x8000800080008000
	case gguf.BF16:
		mask, one, sign = 0x7f807f807f807f80, 0x0080008000800080, 0x8000800080008000
	}
	x := uint64(0)
	for i := 0; i < len(a); i += 8 {
		x |= binary.LittleEndian.Uint64(a[i:])&mask + one
		x |= binary.LittleEndian.Uint64(b[i:])&mask + one
		x |= binary.LittleEndian.Uint64(c[i:])&mask + one
		x |= binary.LittleEndian.Uint64(d[i:])&mask + one
	}
	return x&sign != 0
}

// plain is one value of a type without blocks.
func plain(t gguf.Type, data []byte, i int) float32 {
	switch t {
	case gguf.F16:
		return quant.F32FromF16(binary.LittleEndian.Uint16(data[2*i:]))
	case gguf.BF16:
		return quant.F32FromBF16(binary.LittleEndian.Uint16(data[2*i:]))
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
}
