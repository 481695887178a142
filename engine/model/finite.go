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
				if bad[i] = firstBad(x.Type, x.Data[p.lo*size:p.hi*size]); bad[i] >= 0 {
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
	at, blocks := scales[t]
	if !blocks {
		return firstNonFinite(t, data)
	}
	// Adding the exponent's lowest bit to an exponent of all ones, and to no other,
	// carries into the sign's place, in one scale or two side by side.
	const exponent = 0x7c00
	mask, one, sign := uint32(exponent), uint32(0x0400), uint32(0x8000)
	size := t.BlockBytes()
	first, last := at[0], at[len(at)-1]
	if last > first {
		mask, one, sign = mask*0x10001, one*0x10001, sign*0x10001
	}
	b := 0
	for ; b+3*size+first+4 <= len(data); b += 4 * size {
		x := binary.LittleEndian.Uint32(data[b+first:])&mask + one
		x |= binary.LittleEndian.Uint32(data[b+size+first:])&mask + one
		x |= binary.LittleEndian.Uint32(data[b+2*size+first:])&mask + one
		x |= binary.LittleEndian.Uint32(data[b+3*size+first:])&mask + one
		if x&sign != 0 {
			break
		}
	}
	for ; b+size <= len(data); b += size {
		d, m := binary.LittleEndian.Uint16(data[b+first:]), binary.LittleEndian.Uint16(data[b+last:])
		if d&exponent == exponent || m&exponent == exponent {
			return b / size
		}
	}
	return -1
}

// firstNonFinite is the index of the first value whose exponent is all ones, -1
// without one.
func firstNonFinite(t gguf.Type, data []byte) int {
	// Two or four values a step: adding the exponent's lowest bit to an exponent of
	// all ones, and to no other, carries into the sign's place, which is masked out
	// before.
	var mask, one, sign uint64
	size := t.BlockBytes()
	switch t {
	case gguf.F32:
		mask, one, sign = 0x7f800000_7f800000, 0x00800000_00800000, 0x80000000_80000000
	case gguf.F16:
		mask, one, sign = 0x7c007c007c007c00, 0x0400040004000400, 0x8000800080008000
	case gguf.BF16:
		mask, one, sign = 0x7f807f807f807f80, 0x0080008000800080, 0x8000800080008000
	}
	i := 0
	for ; i+32 <= len(data); i += 32 {
		d := data[i : i+32]
		x := binary.LittleEndian.Uint64(d)&mask + one
		x |= binary.LittleEndian.Uint64(d[8:])&mask + one
		x |= binary.LittleEndian.Uint64(d[16:])&mask + one
		x |= binary.LittleEndian.Uint64(d[24:])&mask + one
		if x&sign != 0 {
			break
		}
	}
	for ; i+size <= len(data); i += size {
		if v := plain(t, data, i/size); v-v != 0 {
			return i / size
		}
	}
	return -1
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
