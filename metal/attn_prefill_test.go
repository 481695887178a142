package metal_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/harness"
	"minfer/metal"
	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/metal/mtl/soft/san"
	"minfer/refs"
)

// prompt is an attention of several rows. Its data and reference are made once.
type prompt struct {
	typ            gguf.Type
	nHead, nHeadKV int
	hd, nKV        int
	pos            []int32

	once         sync.Once
	q            []float64
	k, v         []byte // of the whole window
	ref          refs.AttnParts
	refErr       error
	seen, kvWide int
}

func (p *prompt) String() string {
	return fmt.Sprintf("kv=%v hd=%d n_head=%d/%d n_kv=%d nt=%d pos=%d..%d",
		p.typ, p.hd, p.nHead, p.nHeadKV, p.nKV, len(p.pos), slices.Min(p.pos), slices.Max(p.pos))
}

// promptFrom is n positions from first on.
func promptFrom(first, n int) []int32 {
	pos := make([]int32, n)
	for i := range pos {
		pos[i] = int32(first + i)
	}
	return pos
}

// promptScattered is n distinct positions below nKV in no order, the last and the
// first cell among them: the rows of one tile see ends of the cache far apart.
func promptScattered(n, nKV int) []int32 {
	r := rand.New(rand.NewPCG(uint64(n), uint64(nKV)))
	pos := []int32{int32(nKV - 1), 0}
	for _, p := range r.Perm(nKV - 2)[:n-2] {
		pos = append(pos, int32(p+1))
	}
	return pos
}

func (p *prompt) attn() refs.Attn {
	return refs.Attn{NHead: p.nHead, NHeadKV: p.nHeadKV, HeadDim: p.hd, Scale: float64(float32(1 / math.Sqrt(float64(p.hd))))}
}

// fill makes the data and the reference. Cells at the edges of tiles and of what
// rows see have keys along a query, so that they weigh much. The cells that no row
// sees hold NaN, where the cache's type has one that a stage may copy.
func (p *prompt) fill() {
	r := rand.New(rand.NewPCG(uint64(p.hd), uint64(len(p.pos)*p.nKV)))
	wide := p.nHead * p.hd
	p.kvWide, p.seen = p.nHeadKV*p.hd, int(slices.Max(p.pos))+1
	p.q = normal(r, len(p.pos)*wide, 1)
	k, v := normal(r, p.seen*p.kvWide, 1), normal(r, p.seen*p.kvWide, 1)
	for i, c := range []int{0, 31, 32, 63, 64, p.seen - 1, int(p.pos[0]), int(p.pos[len(p.pos)-1])} {
		if c >= p.seen {
			continue
		}
		row := i * 7 % len(p.pos)
		for kv := range p.nHeadKV {
			q := p.q[row*wide+kv*(p.nHead/p.nHeadKV)*p.hd:]
			for d := range p.hd {
				k[c*p.kvWide+kv*p.hd+d] += q[d]
			}
		}
	}
	p.k, p.v = cacheBytes(p.typ, k), cacheBytes(p.typ, v)
	p.ref, p.refErr = refs.Attention(p.q, cacheValues(p.typ, p.k), cacheValues(p.typ, p.v), p.pos, p.attn())
	behind := attnCase{kv: p.typ, hd: p.hd, nHeadKV: p.nHeadKV, window: p.nKV}
	p.k, p.v = behind.behind(p.k, p.typ == gguf.Q8_0), behind.behind(p.v, p.typ == gguf.Q8_0)
}

// encode encodes the node and gives all of its operands, the output last.
func (p *prompt) encode(r *attnRig, b *metal.Backend) ([]graph.Operand, error) {
	p.once.Do(p.fill)
	require.NoError(r.t, p.refErr)
	in := []graph.Operand{r.buffer(b, floatBytes(p.q)), r.buffer(b, p.k), r.buffer(b, p.v), r.buffer(b, positionBytes(p.pos))}
	out := r.empty(b, 4*len(p.q))
	shape, window := graph.Mat(p.nHead*p.hd, len(p.pos)), graph.Mat(p.kvWide, p.nKV)
	kv := &graph.KV{Type: p.typ, Capacity: p.nKV, KWidth: p.kvWide, VWidth: p.kvWide, K: in[1].Buf, V: in[2].Buf}
	n := &graph.Node{
		ID: 1, Op: graph.Attn, Name: "kqv_out-0", Type: gguf.F32, Shape: shape,
		In: []*graph.Node{
			{Op: graph.Input, Type: gguf.F32, Shape: shape},
			{Op: graph.KvcacheLoad, Type: p.typ, Shape: window}, {Op: graph.KvcacheLoad, Type: p.typ, Shape: window},
			{Op: graph.Input, Type: gguf.I32, Shape: graph.Vec(len(p.pos))},
		},
		Attr: graph.Attr{Scale: float32(p.attn().Scale), HeadDim: p.hd, NHead: p.nHead, NHeadKV: p.nHeadKV, NKV: p.nKV},
	}
	return append(in, out), b.ExecuteNode(n, in, out, kv)
}

// on runs the prompt.
func (p *prompt) on(r *attnRig, b *metal.Backend) []float32 {
	r.t.Helper()
	operands, err := p.encode(r, b)
	require.NoError(r.t, err, "%v", p)
	require.NoError(r.t, b.Synchronize(), "%v", p)
	got := bytesFloat(r.bytes(b, operands[len(operands)-1]))
	for _, o := range operands {
		b.FreeBuffer(o.Buf)
	}
	return got
}

// tolerance is the prompt's by a bound: a result sums as many products as its row
// sees cells.
func (p *prompt) tolerance(b metal.Bound) float64 {
	return min(1e-3*max(1, refs.RMS(p.ref.Out)), (b.C*0x1p-24+b.Staging)*math.Sqrt(float64(p.seen))*p.ref.OutTerms+b.Absolute)
}

// check holds a result against the reference and gives its largest error in
// tolerances.
func (p *prompt) check(t *testing.T, got []float32, b metal.Bound) float64 {
	t.Helper()
	tolerance := p.tolerance(b)
	cmp, err := harness.Within(got, p.ref.Out, tolerance)
	require.NoError(t, err)
	require.True(t, cmp.OK(), "%v: %v", p, cmp)
	worst := 0.0
	for i, want := range p.ref.Out {
		worst = max(worst, math.Abs(float64(got[i])-want))
	}
	return worst / tolerance
}

// prompts are the shapes: tails of every tile, groups of heads, positions that do
// not start at 0, positions that leave whole tiles of cells to some rows of a tile
// only, windows that end behind the last position.
var prompts = []*prompt{
	{typ: gguf.F32, nHead: 1, nHeadKV: 1, hd: 64, nKV: 31, pos: promptFrom(29, 2)},
	{typ: gguf.F16, nHead: 2, nHeadKV: 1, hd: 128, nKV: 32, pos: promptFrom(24, 8)},
	{typ: gguf.F16, nHead: 6, nHeadKV: 1, hd: 64, nKV: 33, pos: promptFrom(24, 9)},
	{typ: gguf.F32, nHead: 7, nHeadKV: 1, hd: 128, nKV: 64, pos: promptScattered(15, 64)},
	{typ: gguf.F32, nHead: 4, nHeadKV: 2, hd: 64, nKV: 511, pos: promptFrom(400, 16)},
	{typ: gguf.F32, nHead: 8, nHeadKV: 1, hd: 64, nKV: 513, pos: promptScattered(33, 513)},
	{typ: gguf.F16, nHead: 1, nHeadKV: 1, hd: 128, nKV: 512, pos: promptFrom(448, 64)},
	{typ: gguf.F16, nHead: 14, nHeadKV: 2, hd: 64, nKV: 65, pos: promptFrom(0, 65)},
	{typ: gguf.F32, nHead: 1, nHeadKV: 1, hd: 128, nKV: 2049, pos: promptScattered(2, 2049)},
	{typ: gguf.F16, nHead: 2, nHeadKV: 1, hd: 64, nKV: 2049, pos: promptScattered(9, 2049)},
	{typ: gguf.F32, nHead: 6, nHeadKV: 3, hd: 128, nKV: 1024, pos: promptFrom(5, 33)},
	{typ: gguf.F16, nHead: 7, nHeadKV: 7, hd: 64, nKV: 700, pos: promptFrom(96, 16)},
	{typ: gguf.Q8_0, nHead: 12, nHeadKV: 2, hd: 64, nKV: 96, pos: promptFrom(20, 15)},
	{typ: gguf.Q8_0, nHead: 2, nHeadKV: 1, hd: 128, nKV: 40, pos: promptScattered(9, 40)},
}

// strictPipelines are compiled once for the tests of this file, and kept.
var strictPipelines = sync.OnceValues(func() (mtl.Device, *metal.Pipelines) {
	dev, err := soft.New(soft.Options{Mode: san.Strict})
	if err != nil {
		panic(err)
	}
	p, err := metal.Compile(dev, nil)
	if err != nil {
		panic(err)
	}
	return dev, p
})

func newPrefillRig(t *testing.T) *attnRig {
	dev, p := strictPipelines()
	return &attnRig{t: t, dev: dev, pipelines: p}
}

// staged is the type that a kernel sees of a cache, and what is launched first.
func (p *prompt) staged() (gguf.Type, []string) {
	if p.typ == gguf.Q8_0 {
		return gguf.F32, []string{"kv_dequantize q8_0", "kv_dequantize q8_0"}
	}
	return p.typ, nil
}

func TestPrefillFlash(t *testing.T) {
	r := newPrefillRig(t)
	b := r.backend(nil)
	worst := 0.0
	for _, p := range prompts {
		r.launched = nil
		got := p.on(r, b)
		typ, want := p.staged()
		e := metal.Lookup("attention", typ.String(), fmt.Sprintf("prefill_flash_%d", p.hd))
		require.NotNil(t, e)
		require.Equal(t, append(want, e.ID()), r.launched, "%v", p)
		worst = max(worst, p.check(t, got, e.Bound))
	}
	t.Logf("largest error: %.2f tolerances", worst)
}

func TestPrefillParallel(t *testing.T) {
	r := newPrefillRig(t)
	b := r.backend(func(l *lever.Levers) { l.NoPrefillFlash = true })
	worst := 0.0
	// Heads of other sizes come here with flash on, too. The last one has more
	// scores than are kept at a time.
	last := &prompt{typ: gguf.F32, nHead: 32, nHeadKV: 8, hd: 32, nKV: 4000, pos: promptFrom(3, 35)}
	for _, p := range append(slices.Clone(prompts),
		&prompt{typ: gguf.F32, nHead: 3, nHeadKV: 3, hd: 1, nKV: 40, pos: promptFrom(7, 17)},
		&prompt{typ: gguf.F16, nHead: 4, nHeadKV: 2, hd: 33, nKV: 97, pos: promptScattered(18, 97)},
		&prompt{typ: gguf.F16, nHead: 2, nHeadKV: 1, hd: 80, nKV: 129, pos: promptFrom(120, 9)},
		&prompt{typ: gguf.F32, nHead: 2, nHeadKV: 1, hd: 36, nKV: 64, pos: promptFrom(0, 64)},
		last,
	) {
		r.launched = nil
		got := p.on(r, b)
		typ, want := p.staged()
		e := metal.Lookup("attention", typ.String(), "parallel_output")
		require.NotNil(t, e)
		passes := []string{fmt.Sprintf("attention %v parallel_scores", typ), "attention parallel_softmax", e.ID()}
		want = append(want, passes...)
		if p == last {
			want = append(want, passes...)
		}
		require.Equal(t, want, r.launched, "%v", p)
		worst = max(worst, p.check(t, got, e.Bound))
	}
	t.Logf("largest error: %.2f tolerances", worst)
}

// The variants agree on one prompt within both of their bounds.
func TestPrefillVariantsAgree(t *testing.T) {
	r := newPrefillRig(t)
	p := &prompt{typ: gguf.F16, nHead: 14, nHeadKV: 2, hd: 64, nKV: 300, pos: promptFrom(150, 41)}
	variants := []string{"prefill_flash_64", "parallel_output", "classic"}
	var results [][]float32
	var tolerances []float64
	for i, v := range variants {
		results = append(results, p.on(r, r.backend(func(l *lever.Levers) { l.NoPrefillFlash, l.NoMatmulAttn = i > 0, i > 1 })))
		e := metal.Lookup("attention", "f16", v)
		require.NotNil(t, e)
		require.Equal(t, e.ID(), r.launched[len(r.launched)-1])
		tolerances = append(tolerances, p.tolerance(e.Bound))
	}
	for i := range results {
		for j := range i {
			cmp, err := harness.Within(results[i], refs.F64(results[j]), tolerances[i]+tolerances[j])
			require.NoError(t, err)
			require.True(t, cmp.OK(), "%s against %s: %v", variants[i], variants[j], cmp)
		}
	}
}

// A row's bits do not depend on which rows are beside it: what a prompt gives in
// one batch it gives in two.
func TestPrefillRowsAreIndependent(t *testing.T) {
	r := newPrefillRig(t)
	all := &prompt{typ: gguf.F32, nHead: 6, nHeadKV: 2, hd: 64, nKV: 130, pos: promptFrom(90, 40)}
	for _, noFlash := range []bool{false, true} {
		b := r.backend(func(l *lever.Levers) { l.NoPrefillFlash = noFlash })
		whole := all.on(r, b)
		wide := all.nHead * all.hd
		part := &prompt{typ: all.typ, nHead: all.nHead, nHeadKV: all.nHeadKV, hd: all.hd, nKV: all.nKV, pos: all.pos[17:]}
		part.once.Do(func() {
			part.q, part.k, part.v, part.kvWide, part.seen = all.q[17*wide:], all.k, all.v, all.kvWide, all.seen
		})
		require.Equal(t, whole[17*wide:], part.on(r, b))
	}
}

// lowMemory is a device with half of the threadgroup memory.
type lowMemory struct{ mtl.Device }

func (d lowMemory) Limits() mtl.Limits {
	l := d.Device.Limits()
	l.MaxThreadgroupMemory = 16 << 10
	return l
}

func TestPrefillThreadgroupMemory(t *testing.T) {
	dev, err := soft.New(soft.Options{})
	require.NoError(t, err)
	defer dev.Close()
	low := lowMemory{dev}
	pipelines, err := metal.Compile(low, nil)
	require.NoError(t, err)
	defer pipelines.Release()
	r := &attnRig{t: t, dev: low, pipelines: pipelines}
	for noFlash, want := range map[bool]string{
		false: "attention f32 prefill_flash_128 needs 22528 bytes of threadgroup memory: the device has 16384 (force CPU with MINFER_DISABLE_MPS=1)",
		true:  "attention f32 parallel_scores needs 27648 bytes of threadgroup memory: the device has 16384 (force CPU with MINFER_DISABLE_MPS=1)",
	} {
		b, err := metal.New(low, metal.Options{Levers: func() lever.Levers {
			l := lever.Default()
			l.NoPrefillFlash = noFlash
			return l
		}(), Pipelines: pipelines})
		require.NoError(t, err)
		p := &prompt{typ: gguf.F32, nHead: 1, nHeadKV: 1, hd: 128, nKV: 2, pos: promptFrom(0, 2)}
		_, err = p.encode(r, b)
		require.ErrorIs(t, err, graph.ErrUnsupported)
		require.ErrorContains(t, err, want)
		require.NoError(t, b.Close())
	}
}

// Launched by hand with heads that the KV heads do not divide and positions outside
// of the window, which the backend refuses or the graph excludes: the kernels stay
// within their buffers and write every output.
func TestPrefillStaysWithinItsBuffers(t *testing.T) {
	h := newHandLaunch(t)
	const cells, nt = 40, 3
	for _, c := range []struct {
		nHead, nHeadKV int
		pos            []int32
		like           []int32 // positions that see the same, nil for none
		zero           bool    // the rows see nothing: zeros
	}{
		{7, 3, []int32{5, 36, 37}, nil, false}, {2, 3, []int32{5, 36, 37}, nil, false},
		{4, 2, []int32{1000, math.MaxInt32, 39}, []int32{39, 39, 39}, false},
		{4, 2, []int32{-1, math.MinInt32, -7}, nil, true},
	} {
		const hd = 64
		r := rand.New(rand.NewPCG(1, 2))
		q, k, v := normal(r, nt*c.nHead*hd, 1), normal(r, cells*c.nHeadKV*hd, 1), normal(r, cells*c.nHeadKV*hd, 1)
		data := func(b []byte) mtl.Binding { return h.buffer(len(b), b) }
		output := func() mtl.Binding {
			o := h.buffer(4*len(q), nil)
			o.Access = mtl.Output
			return o
		}
		rows := nt * ((c.nHead + c.nHeadKV - 1) / c.nHeadKV)
		threads := mtl.Size{X: 128, Y: 1, Z: 1}
		flash, parallel := output(), output()
		h.run("attn_prefill_flash.metal", "kernel_attn_prefill_flash_f32_64", mtl.Size{X: (rows + 31) / 32, Y: c.nHeadKV, Z: 1}, threads,
			data(floatBytes(q)), data(floatBytes(k)), data(floatBytes(v)), data(positionBytes(c.pos)), flash,
			words(nt, c.nHead, c.nHeadKV, cells, float32(0.125)))

		tiles, params := (rows+15)/16, words(nt, c.nHead, c.nHeadKV, hd, cells, float32(0.125))
		scores := h.buffer(4*c.nHeadKV*tiles*16*64, nil)
		scores.Access = mtl.ReadWrite
		h.run("attn_parallel.metal", "kernel_attn_parallel_scores_f32", mtl.Size{X: 1, Y: tiles, Z: c.nHeadKV}, threads,
			data(floatBytes(q)), data(floatBytes(k)), data(positionBytes(c.pos)), scores, params)
		h.run("attn_parallel.metal", "kernel_attn_parallel_softmax", mtl.Size{X: tiles * 4, Y: c.nHeadKV, Z: 1}, threads,
			data(positionBytes(c.pos)), scores, params)
		scores.Access = mtl.Read
		h.run("attn_parallel.metal", "kernel_attn_parallel_output_f32", mtl.Size{X: (tiles + 3) / 4, Y: 2, Z: c.nHeadKV}, threads,
			scores, data(floatBytes(v)), data(positionBytes(c.pos)), parallel, params)

		var want refs.AttnParts
		if c.like != nil {
			var err error
			want, err = refs.Attention(q, k, v, c.like, refs.Attn{NHead: c.nHead, NHeadKV: c.nHeadKV, HeadDim: hd, Scale: 0.125})
			require.NoError(t, err)
		}
		for _, o := range []mtl.Binding{flash, parallel} {
			got := make([]byte, 4*len(q))
			require.NoError(t, o.Buffer.Read(0, got))
			for i, x := range bytesFloat(got) {
				require.False(t, math.IsNaN(float64(x)) || math.IsInf(float64(x), 0), "%v: element %d is %v", c, i, x)
				if c.zero {
					require.Zero(t, x, "%v: element %d", c, i)
				}
				if c.like != nil {
					require.InDelta(t, want.Out[i], x, 1e-5, "%v: element %d", c, i)
				}
			}
		}
	}
}
