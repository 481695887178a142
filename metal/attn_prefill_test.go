package metal_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/engine/quant"
	"minfer/metal"
	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/refs"
)

// prompt is an attention of several rows with its data and reference. Cells that
// no row sees hold NaN on the device.
type prompt struct {
	typ            gguf.Type
	nHead, nHeadKV int
	hd, nKV        int
	pos            []int32
	q, k, v        []float32
	ref            refs.AttnParts
}

func (p *prompt) String() string {
	return fmt.Sprintf("kv=%v,n_head=%d,n_head_kv=%d,hd=%d,n_kv=%d,nt=%d,pos=%d..%d",
		p.typ, p.nHead, p.nHeadKV, p.hd, p.nKV, len(p.pos), slices.Min(p.pos), slices.Max(p.pos))
}

// promptFrom is n positions from first on.
func promptFrom(first, n int) []int32 {
	pos := make([]int32, n)
	for i := range pos {
		pos[i] = int32(first + i)
	}
	return pos
}

// promptScattered is n distinct positions below nKV in no order, the first and the last
// cell among them: rows of one tile see cells far apart.
func promptScattered(n, nKV int) []int32 {
	r := rand.New(rand.NewPCG(uint64(n), uint64(nKV)))
	pos := []int32{int32(nKV - 1), 0}
	for _, p := range r.Perm(nKV - 2)[:n-2] {
		pos = append(pos, int32(p+1))
	}
	return pos
}

// fill makes the data and the reference. Some cells at the edges of tiles and of
// what rows see get keys along a query, so that they weigh much.
func (p *prompt) fill(t *testing.T) *prompt {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(p.hd), uint64(len(p.pos)*p.nKV)))
	random := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = r.Float32()*4 - 2
		}
		return x
	}
	width, kvWidth := p.nHead*p.hd, p.nHeadKV*p.hd
	p.q, p.k, p.v = random(len(p.pos)*width), random(p.nKV*kvWidth), random(p.nKV*kvWidth)
	seen := int(slices.Max(p.pos)) + 1
	for i, c := range []int{0, 31, 32, 63, 64, seen - 1, int(p.pos[0]), int(p.pos[len(p.pos)-1])} {
		if c >= seen {
			continue
		}
		for kv := range p.nHeadKV {
			row, head := i*7%len(p.pos), kv*(p.nHead/p.nHeadKV)
			for d := range p.hd {
				p.k[c*kvWidth+kv*p.hd+d] += p.q[row*width+head*p.hd+d]
			}
		}
	}
	k, err := refs.RoundKV(p.typ, refs.F64(p.k[:seen*kvWidth]))
	require.NoError(t, err)
	v, err := refs.RoundKV(p.typ, refs.F64(p.v[:seen*kvWidth]))
	require.NoError(t, err)
	p.ref, err = refs.Attention(refs.F64(p.q), k, v, p.pos,
		refs.Attn{NHead: p.nHead, NHeadKV: p.nHeadKV, HeadDim: p.hd, Scale: float64(p.scale())})
	require.NoError(t, err)
	for i := seen * kvWidth; i < p.nKV*kvWidth; i++ {
		p.k[i], p.v[i] = float32(math.NaN()), float32(math.NaN())
	}
	return p
}

func (p *prompt) scale() float32 { return float32(1 / math.Sqrt(float64(p.hd))) }

func (p *prompt) cache(x []float32) []byte {
	var data []byte
	for _, v := range x {
		if p.typ == gguf.F16 {
			data = binary.LittleEndian.AppendUint16(data, quant.F16(v))
		} else {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
	}
	return data
}

// encode encodes the node.
func (p *prompt) encode(t *testing.T, b *metal.Backend) (out graph.Operand, err error) {
	t.Helper()
	put := func(data []byte) graph.Operand {
		buf, err := b.AllocBuffer(len(data))
		require.NoError(t, err)
		require.NoError(t, b.WriteHost(buf, 0, data))
		return graph.Operand{Buf: buf, Len: len(data)}
	}
	var q, pos []byte
	for _, v := range p.q {
		q = binary.LittleEndian.AppendUint32(q, math.Float32bits(v))
	}
	for _, v := range p.pos {
		pos = binary.LittleEndian.AppendUint32(pos, uint32(v))
	}
	mem, err := b.AllocBuffer(len(q))
	require.NoError(t, err)
	out = graph.Operand{Buf: mem, Len: len(q)}
	in := []graph.Operand{put(q), put(p.cache(p.k)), put(p.cache(p.v)), put(pos)}
	shape, kvWidth := graph.Mat(p.nHead*p.hd, len(p.pos)), p.nHeadKV*p.hd
	kv := &graph.KV{Type: p.typ, Capacity: p.nKV, KWidth: kvWidth, VWidth: kvWidth, K: in[1].Buf, V: in[2].Buf}
	window := graph.Mat(kvWidth, p.nKV)
	n := &graph.Node{
		ID: 1, Op: graph.Attn, Name: "kqv_out-0", Type: gguf.F32, Shape: shape,
		In: []*graph.Node{
			{Op: graph.Input, Type: gguf.F32, Shape: shape},
			{Op: graph.KvcacheLoad, Type: p.typ, Shape: window}, {Op: graph.KvcacheLoad, Type: p.typ, Shape: window},
			{Op: graph.Input, Type: gguf.I32, Shape: graph.Vec(len(p.pos))},
		},
		Attr: graph.Attr{Scale: p.scale(), HeadDim: p.hd, NHead: p.nHead, NHeadKV: p.nHeadKV, NKV: p.nKV},
	}
	return out, b.ExecuteNode(n, in, out, kv)
}

// on runs the node on a backend.
func (p *prompt) on(t *testing.T, b *metal.Backend) []float32 {
	t.Helper()
	out, err := p.encode(t, b)
	require.NoError(t, err)
	require.NoError(t, b.Synchronize())
	data := make([]byte, out.Len)
	require.NoError(t, b.ReadHost(out.Buf, 0, data))
	result := make([]float32, len(p.q))
	for i := range result {
		result[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return result
}

// tolerance is the case's by an entry's bound: a result sums as many products as
// its row sees cells.
func (p *prompt) tolerance(e *metal.Entry) float64 {
	k := float64(slices.Max(p.pos)) + 1
	bound := (e.Bound.C*0x1p-24+e.Bound.Staging)*math.Sqrt(k)*p.ref.OutTerms + e.Bound.Absolute
	return min(1e-3*max(1, refs.RMS(p.ref.Out)), bound)
}

// check compares with the reference and gives the largest error in tolerances.
func (p *prompt) check(t *testing.T, got []float32, e *metal.Entry) float64 {
	t.Helper()
	worst, at, tolerance := 0.0, 0, p.tolerance(e)
	for i, want := range p.ref.Out {
		if d := math.Abs(float64(got[i]) - want); !(d <= worst) {
			worst, at = d, i
		}
	}
	require.LessOrEqualf(t, worst, tolerance, "%v: element %d is %v, want %v", p, at, got[at], p.ref.Out[at])
	return worst / tolerance
}

// prompts are the shapes: tails of every tile, groups of heads, positions that do
// not start at 0, that leave whole tiles to some rows only, and windows that are
// larger than any position.
func prompts() []*prompt {
	return []*prompt{
		{typ: gguf.F32, nHead: 1, nHeadKV: 1, hd: 64, nKV: 31, pos: promptFrom(29, 2)},
		{typ: gguf.F16, nHead: 2, nHeadKV: 1, hd: 128, nKV: 32, pos: promptFrom(24, 8)},
		{typ: gguf.F16, nHead: 6, nHeadKV: 1, hd: 64, nKV: 33, pos: promptFrom(24, 9)},
		{typ: gguf.F32, nHead: 7, nHeadKV: 1, hd: 128, nKV: 64, pos: promptScattered(15, 64)},
		{typ: gguf.F32, nHead: 16, nHeadKV: 2, hd: 64, nKV: 511, pos: promptFrom(400, 16)},
		{typ: gguf.F32, nHead: 8, nHeadKV: 1, hd: 64, nKV: 513, pos: promptScattered(33, 513)},
		{typ: gguf.F16, nHead: 2, nHeadKV: 2, hd: 128, nKV: 512, pos: promptFrom(448, 64)},
		{typ: gguf.F16, nHead: 14, nHeadKV: 2, hd: 64, nKV: 65, pos: promptFrom(0, 65)},
		{typ: gguf.F32, nHead: 1, nHeadKV: 1, hd: 128, nKV: 2049, pos: promptScattered(2, 2049)},
		{typ: gguf.F16, nHead: 2, nHeadKV: 1, hd: 64, nKV: 2049, pos: promptScattered(9, 2049)},
		{typ: gguf.F32, nHead: 6, nHeadKV: 3, hd: 128, nKV: 1024, pos: promptFrom(5, 33)},
		{typ: gguf.F16, nHead: 7, nHeadKV: 7, hd: 64, nKV: 700, pos: promptFrom(96, 16)},
	}
}

func prefillBackend(t *testing.T, change func(*lever.Levers)) (*metal.Backend, *[]*metal.Entry) {
	o := metal.Options{Levers: lever.Default()}
	change(&o.Levers)
	launched := new([]*metal.Entry)
	o.Launched = func(e *metal.Entry) { *launched = append(*launched, e) }
	return strict(t, o), launched
}

func TestPrefillFlash(t *testing.T) {
	b, launched := prefillBackend(t, func(*lever.Levers) {})
	worst := 0.0
	for _, p := range prompts() {
		*launched = nil
		got := p.fill(t).on(t, b)
		require.Len(t, *launched, 1)
		require.Equal(t, fmt.Sprintf("attention %v prefill_flash_%d", p.typ, p.hd), (*launched)[0].ID())
		worst = max(worst, p.check(t, got, (*launched)[0]))
	}
	t.Logf("largest error: %.3f of the tolerance", worst)
}

func TestPrefillParallel(t *testing.T) {
	b, launched := prefillBackend(t, func(l *lever.Levers) { l.NoPrefillFlash = true })
	worst := 0.0
	for _, p := range append(prompts(),
		&prompt{typ: gguf.F32, nHead: 3, nHeadKV: 3, hd: 1, nKV: 40, pos: promptFrom(7, 17)},
		&prompt{typ: gguf.F16, nHead: 4, nHeadKV: 2, hd: 33, nKV: 97, pos: promptScattered(18, 97)},
		&prompt{typ: gguf.F16, nHead: 2, nHeadKV: 1, hd: 80, nKV: 129, pos: promptFrom(120, 9)},
		&prompt{typ: gguf.F32, nHead: 2, nHeadKV: 1, hd: 36, nKV: 64, pos: promptFrom(0, 64)},
		// More scores than are kept at a time.
		&prompt{typ: gguf.F32, nHead: 32, nHeadKV: 8, hd: 32, nKV: 4000, pos: promptFrom(3, 35)},
	) {
		*launched = nil
		got := p.fill(t).on(t, b)
		blocks := 1
		if p.nKV == 4000 {
			blocks = 2
		}
		require.Len(t, *launched, 3*blocks)
		for i, e := range *launched {
			require.Equal(t, []string{
				fmt.Sprintf("attention %v parallel_scores", p.typ), "attention parallel_softmax", fmt.Sprintf("attention %v parallel_output", p.typ),
			}[i%3], e.ID())
		}
		worst = max(worst, p.check(t, got, (*launched)[2]))
	}
	t.Logf("largest error: %.3f of the tolerance", worst)
}

// The variants agree on one prompt within both of their bounds.
func TestPrefillVariantsAgree(t *testing.T) {
	p := (&prompt{typ: gguf.F16, nHead: 14, nHeadKV: 2, hd: 64, nKV: 300, pos: promptFrom(150, 41)}).fill(t)
	var results [][]float32
	var tolerances []float64
	for _, change := range []func(*lever.Levers){
		func(*lever.Levers) {},
		func(l *lever.Levers) { l.NoPrefillFlash = true },
	} {
		b, launched := prefillBackend(t, change)
		results = append(results, p.on(t, b))
		tolerances = append(tolerances, p.tolerance((*launched)[0]))
	}
	for i := range results {
		for j := range i {
			for e := range results[i] {
				require.InDeltaf(t, results[i][e], results[j][e], tolerances[i]+tolerances[j], "element %d of variants %d and %d", e, i, j)
			}
		}
	}
}

// lowMemory is a device with less threadgroup memory.
type lowMemory struct {
	mtl.Device
	bytes int
}

func (d lowMemory) Limits() mtl.Limits {
	l := d.Device.Limits()
	l.MaxThreadgroupMemory = d.bytes
	return l
}

// A prompt whose kernel needs more threadgroup memory than the device has is
// refused with the numbers.
func TestPrefillThreadgroupMemory(t *testing.T) {
	dev, err := soft.New(soft.Options{})
	require.NoError(t, err)
	defer dev.Close()
	for _, c := range []struct {
		noFlash bool
		want    string
	}{
		{false, "attention f32 prefill_flash_128 needs 22528 bytes of threadgroup memory: the device has 16384 (force CPU with MINFER_DISABLE_MPS=1)"},
		{true, "attention f32 parallel_scores needs 27648 bytes of threadgroup memory: the device has 16384 (force CPU with MINFER_DISABLE_MPS=1)"},
	} {
		o := metal.Options{Levers: lever.Default()}
		o.Levers.NoPrefillFlash = c.noFlash
		b, err := metal.New(lowMemory{dev, 16 << 10}, o)
		require.NoError(t, err)
		p := (&prompt{typ: gguf.F32, nHead: 1, nHeadKV: 1, hd: 128, nKV: 2, pos: promptFrom(0, 2)}).fill(t)
		_, err = p.encode(t, b)
		require.ErrorIs(t, err, graph.ErrUnsupported)
		require.ErrorContains(t, err, c.want)
		require.NoError(t, b.Close())
	}
}
