package exact

import (
	"fmt"

	"minfer/engine/gguf"
)

// actK is one block of a Q8_K activation.
type actK struct {
	d    float32
	q    [256]int32
	sums [16]int32 // of each 16
}

func (a *actK) unpack(data []byte) {
	a.d = f32(data)
	for e := range 256 {
		a.q[e] = int32(int8(data[4+e]))
	}
	for j := range 16 {
		a.sums[j] = int32(int16(u16(data[260+2*j:])))
	}
}

// lane is the sum of the products of elements 4l..4l+3 of group g of 32.
func lane(w *block, a *actK, g, l int) int32 {
	var sum int32
	for e := 32*g + 4*l; e < 32*g+4*l+4; e++ {
		sum += w.q[e] * a.q[e]
	}
	return sum
}

// superblocks calls f for each pair of blocks.
func superblocks(t gguf.Type, n int, w, act []byte, f func(w *block, a *actK)) error {
	var b block
	var a actK
	for i := range n / 256 {
		if err := b.unpack(t, w[i*t.BlockBytes():]); err != nil {
			return fmt.Errorf("dot: %w", err)
		}
		a.unpack(act[i*gguf.Q8_K.BlockBytes():])
		f(&b, &a)
	}
	return nil
}

// accumulateK adds a block of Q4_K or Q5_K to the eight lanes; the scales
// multiply the integers.
func accumulateK(acc *[8]float32, w *block, a *actK) {
	d := a.d * w.d
	for l := range 8 {
		var total int32
		for g := range 8 {
			total += w.scale[g] * lane(w, a, g, l)
		}
		acc[l] = FMA(d, float32(total), acc[l])
	}
}

// dotQ4_K keeps the minimums in four lanes of two groups each.
func dotQ4_K(n int, w, act []byte) (float32, error) {
	var acc [8]float32
	var mins [4]float32
	err := superblocks(gguf.Q4_K, n, w, act, func(w *block, a *actK) {
		accumulateK(&acc, w, a)
		dm := -a.d * w.m
		for l := range 4 {
			p := w.minimum[2*l]*(a.sums[4*l]+a.sums[4*l+1]) + w.minimum[2*l+1]*(a.sums[4*l+2]+a.sums[4*l+3])
			mins[l] = FMA(dm, float32(p), mins[l])
		}
	})
	return sumHS8(acc[:]) + ((mins[0] + mins[2]) + (mins[1] + mins[3])), err
}

// dotQ5_K keeps the minimums in one scalar.
func dotQ5_K(n int, w, act []byte) (float32, error) {
	var acc [8]float32
	mins := float32(0)
	err := superblocks(gguf.Q5_K, n, w, act, func(w *block, a *actK) {
		accumulateK(&acc, w, a)
		dm := -a.d * w.m
		var p int32
		for g := range 8 {
			p += w.minimum[g] * (a.sums[2*g] + a.sums[2*g+1])
		}
		mins = FMA(dm, float32(p), mins)
	})
	return sumHS8(acc[:]) + mins, err
}

// dotQ6_K multiplies the unsigned integers and takes their offset of 32 out of
// the lane sums: two of the sixteen activation sums in each lane.
func dotQ6_K(n int, w, act []byte) (float32, error) {
	var acc [8]float32
	err := superblocks(gguf.Q6_K, n, w, act, func(w *block, a *actK) {
		d := a.d * w.d
		for l := range 8 {
			var total int32
			for g := range 8 {
				total += w.scale[2*g+l/4] * lane(w, a, g, l)
			}
			total -= 32 * (a.sums[2*l]*w.scale[2*l] + a.sums[2*l+1]*w.scale[2*l+1])
			acc[l] = FMA(d, float32(total), acc[l])
		}
	})
	return sumHS8(acc[:]), err
}
