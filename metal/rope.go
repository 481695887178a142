package metal

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"

	"minfer/engine/graph"
	"minfer/metal/mtl"
)

// ropeHeads is the heads that a thread of kernel_rope rotates by one angle.
const ropeHeads = 8

// maxRopeDims is how many channels of a head can rotate: the frequencies of their
// pairs are inline constants of 8 bytes.
const maxRopeDims = mtl.MaxInlineBytes / 8 * 2

var ropeBound = Bound{C: 12, Why: "k is 1, terms are the magnitude times the length of the pair, sqrt(a*a + b*b), at any position: " +
	"angles are products of integers, in units of 2^-64 turns, so whole turns fall away exactly; cosine and sine are off by 3.7 units " +
	"(2.4 of an angle of at most an eighth of a turn, 1.3 of the power series) and 1 of the magnitude, times |a| + |b|; products and sum by 2.4"}

func ropeTable() []*Entry {
	return []*Entry{{Op: graph.RoPE.String(), Kernel: "kernel_rope", When: "always", Bound: ropeBound}}
}

// rotation is what the angles of pairs depend on.
type rotation struct {
	graph.Rope
	factors *graph.Weight
}

// magnitude multiplies the rotated channels.
func (r rotation) magnitude() float32 {
	m := float64(r.AttnFactor)
	if r.ExtFactor != 0 {
		m *= 1 - 0.1*math.Log(float64(r.FreqScale))
	}
	return float32(m)
}

// positive says whether x is a finite number above 0.
func positive(x float32) bool { return x > 0 && x-x == 0 }

// check is the guard of a rotation of heads.
func (r rotation) check(n *graph.Node, headDim int) error {
	switch {
	case headDim < 1 || r.NDims < 2 || r.NDims%2 != 0 || r.NDims > headDim:
		return refuse(n, "n_dims is %d, want an even number up to head_dim = %d", r.NDims, headDim)
	case r.NDims > maxRopeDims:
		return refuse(n, "n_dims is %d, want at most %d", r.NDims, maxRopeDims)
	case r.Mode > graph.RopeNeox:
		return refuse(n, "rope mode %d, want norm or neox", r.Mode)
	case !positive(r.FreqBase) || !positive(r.FreqScale):
		return refuse(n, "freq_base %v and freq_scale %v, want numbers above 0", r.FreqBase, r.FreqScale)
	case r.AttnFactor-r.AttnFactor != 0 || r.ExtFactor-r.ExtFactor != 0:
		return refuse(n, "attn_factor %v and ext_factor %v, want finite numbers", r.AttnFactor, r.ExtFactor)
	case r.ExtFactor != 0 && (!positive(r.BetaFast) || !positive(r.BetaSlow) || r.NCtxOrig < 1):
		return refuse(n, "ext_factor %v with beta_fast %v, beta_slow %v and n_ctx_orig %d, want numbers above 0", r.ExtFactor, r.BetaFast, r.BetaSlow, r.NCtxOrig)
	case r.factors == nil:
		return nil
	}
	if err := checkVector(n, r.factors, r.NDims/2); err != nil {
		return err
	}
	for k := range r.NDims / 2 {
		if f := r.factor(k); f == 0 || math.IsNaN(f) {
			return refuse(n, "factor %d of %s is %v, want one to divide by", k, r.factors.Name, f)
		}
	}
	return nil
}

func (r rotation) factor(k int) float64 {
	if r.factors == nil {
		return 1
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(r.factors.Data[4*k:])))
}

// frequency is the angle of pair k at position 1, in radians. YaRN mixes the plain
// angle with the scaled one, by a ramp over the pairs.
func (r rotation) frequency(k int) float64 {
	plain := math.Pow(float64(r.FreqBase), -2*float64(k)/float64(r.NDims)) / r.factor(k)
	scaled := plain * float64(r.FreqScale)
	if r.ExtFactor == 0 {
		return scaled
	}
	low := max(0, math.Floor(r.pairAt(r.BetaFast)))
	high := min(float64(r.NDims-1), math.Ceil(r.pairAt(r.BetaSlow)))
	slope := (float64(k) - low) / max(0.001, high-low)
	mix := (1 - min(1, max(0, slope))) * float64(r.ExtFactor)
	return scaled*(1-mix) + plain*mix
}

// pairAt is the pair that makes that many turns over the original context.
func (r rotation) pairAt(turns float32) float64 {
	length := 2 * math.Pi * float64(turns)
	return float64(r.NDims) * math.Log(float64(r.NCtxOrig)/length) / (2 * math.Log(float64(r.FreqBase)))
}

// turns is the frequencies as the kernels take them: fractions of a turn in units of
// 2^-64, the upper 32 bits first.
func (b *Backend) rotationTurns(index int, r rotation) mtl.Binding {
	data, ok := b.turns[r]
	if !ok {
		for k := range r.NDims / 2 {
			t := turnsOf(r.frequency(k))
			data = binary.LittleEndian.AppendUint32(data, uint32(t>>32))
			data = binary.LittleEndian.AppendUint32(data, uint32(t))
		}
		if b.turns == nil {
			b.turns = map[rotation][]byte{}
		}
		b.turns[r] = data
	}
	return mtl.Binding{Index: index, Bytes: data}
}

// twoPi is 2*pi to 140 bits, so that the quotient below has all of a float64's.
var twoPi, _, _ = big.ParseFloat("6.28318530717958647692528676655900576839433879875021", 10, 140, big.ToNearestEven)

// turnsOf is the fraction of a turn of an angle in units of 2^-64, modulo whole
// turns.
func turnsOf(radians float64) uint64 {
	x := new(big.Float).SetPrec(140).SetFloat64(radians)
	x.SetMantExp(x.Quo(x, twoPi), 64)
	half := big.NewFloat(0.5)
	if x.Sign() < 0 {
		half.Neg(half)
	}
	i, _ := x.Add(x, half).Int(nil)
	return i.And(i, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
}

// rope encodes a RoPE node. The output may be the window of the input.
func (b *Backend) rope(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	a := n.Attr
	r := rotation{a.Rope, n.Weight}
	if err := r.check(n, a.HeadDim); err != nil {
		return err
	}
	if a.NHead < 1 || n.Shape[0]%a.HeadDim != 0 || n.Shape[0]/a.HeadDim != a.NHead {
		return refuse(n, "rows of %d, want head_dim %d * n_head %d", n.Shape[0], a.HeadDim, a.NHead)
	}
	size, err := sameSize(n, in[:1], out)
	if err != nil || size == 0 {
		return err
	}
	rows := n.Shape.Rows()
	if in[1].Len != 4*rows {
		return fmt.Errorf("positions of %d bytes, want %d for %d rows", in[1].Len, 4*rows, rows)
	}
	width, groups := a.HeadDim-r.NDims/2, ceil(a.NHead, ropeHeads)
	threads := mtl.Size{X: min(width, 128)}
	threads.Y = min(groups, max(1, 256/threads.X))
	threads.Z = min(rows, max(1, 256/(threads.X*threads.Y)))
	return b.launch(Lookup(n.Op.String(), "", ""), n, []mtl.Binding{
		b.read(0, in[0], mtl.Float32), b.read(1, in[1], mtl.Int32), b.output(2, out, mtl.Float32),
		b.params(3, a.HeadDim, r.NDims, a.NHead, r.Mode == graph.RopeNeox, r.magnitude()),
		b.rotationTurns(4, r),
	}, grid{Grid: mtl.Size{X: width, Y: groups, Z: rows}, Threads: threads})
}
