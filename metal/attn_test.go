package metal_test

import (
	"encoding/binary"
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
	"minfer/engine/quant"
	"minfer/harness"
	"minfer/metal"
	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/metal/mtl/soft/san"
	"minfer/refs"
)

// attnRig makes backends of one strict device that share its pipelines.
type attnRig struct {
	t         *testing.T
	dev       mtl.Device
	pipelines *metal.Pipelines
	launched  []string
}

// attnDevice is shared by all rigs: compiling every kernel takes longer than most
// of the tests.
var attnDevice = sync.OnceValues(func() (attnRig, error) {
	dev, err := soft.New(soft.Options{Mode: san.Strict})
	if err != nil {
		return attnRig{}, err
	}
	p, err := metal.Compile(dev, nil)
	return attnRig{dev: dev, pipelines: p}, err
})

func newAttnRig(t *testing.T) *attnRig {
	t.Helper()
	r, err := attnDevice()
	require.NoError(t, err)
	r.t = t
	return &r
}

func (r *attnRig) backend(set func(*lever.Levers)) *metal.Backend {
	r.t.Helper()
	l := lever.Default()
	if set != nil {
		set(&l)
	}
	b, err := metal.New(r.dev, metal.Options{Levers: l, Pipelines: r.pipelines, Poison: true,
		Launched: func(e *metal.Entry) { r.launched = append(r.launched, e.ID()) }})
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, b.Close()) })
	return b
}

// buffer is a new buffer of the backend with this content.
func (r *attnRig) buffer(b *metal.Backend, data []byte) graph.Operand {
	r.t.Helper()
	buf, err := b.AllocBuffer(len(data))
	require.NoError(r.t, err)
	require.NoError(r.t, b.WriteHost(buf, 0, data))
	return graph.Operand{Buf: buf, Len: len(data)}
}

func (r *attnRig) empty(b *metal.Backend, size int) graph.Operand {
	r.t.Helper()
	buf, err := b.AllocBuffer(size)
	require.NoError(r.t, err)
	return graph.Operand{Buf: buf, Len: size}
}

func (r *attnRig) bytes(b *metal.Backend, o graph.Operand) []byte {
	r.t.Helper()
	data := make([]byte, o.Len)
	require.NoError(r.t, b.ReadHost(o.Buf, o.Off, data))
	return data
}

func floatBytes(x []float64) []byte {
	data := make([]byte, 0, 4*len(x))
	for _, v := range x {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v)))
	}
	return data
}

func bytesFloat(data []byte) []float32 {
	x := make([]float32, len(data)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return x
}

func positionBytes(pos []int32) []byte {
	var data []byte
	for _, p := range pos {
		data = binary.LittleEndian.AppendUint32(data, uint32(p))
	}
	return data
}

// cacheBytes is what a cache of type t holds of x.
func cacheBytes(t gguf.Type, x []float64) []byte {
	switch t {
	case gguf.F32:
		return floatBytes(x)
	case gguf.F16:
		var data []byte
		for _, v := range x {
			data = binary.LittleEndian.AppendUint16(data, quant.F16(float32(v)))
		}
		return data
	}
	var data []byte
	for ; len(x) > 0; x = x[32:] {
		largest := 0.0
		for _, v := range x[:32] {
			largest = max(largest, math.Abs(v))
		}
		data = binary.LittleEndian.AppendUint16(data, quant.F16(float32(largest/127)))
		for _, v := range x[:32] {
			q := 0.0
			if largest > 0 {
				q = math.RoundToEven(v * 127 / largest)
			}
			data = append(data, byte(int8(q)))
		}
	}
	return data
}

// cacheValues reads a cache of type t.
func cacheValues(t gguf.Type, data []byte) []float64 {
	var x []float64
	switch t {
	case gguf.F32:
		return refs.F64(bytesFloat(data))
	case gguf.F16:
		for i := 0; i < len(data); i += 2 {
			x = append(x, float64(quant.F32FromF16(binary.LittleEndian.Uint16(data[i:]))))
		}
	default:
		for ; len(data) > 0; data = data[34:] {
			d := float64(quant.F32FromF16(binary.LittleEndian.Uint16(data)))
			for _, q := range data[2:34] {
				x = append(x, d*float64(int8(q)))
			}
		}
	}
	return x
}

// normal is n values of size about scale, exactly float32.
func normal(r *rand.Rand, n int, scale float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(float32(r.NormFloat64() * scale))
	}
	return x
}

// attnCase is one Attn node over random values: cells is what the last row sees
// of a window that may be longer.
type attnCase struct {
	kv             gguf.Type
	hd             int
	nHead, nHeadKV int
	cells, window  int
	rows           int
}

func (c attnCase) String() string {
	return fmt.Sprintf("kv=%v hd=%d n_head=%d/%d n_kv=%d/%d nt=%d", c.kv, c.hd, c.nHead, c.nHeadKV, c.cells, c.window, c.rows)
}

// node makes the graph part of a case.
func (c attnCase) node() (*graph.Node, *graph.KV) {
	width := c.hd * c.nHead
	kv := &graph.KV{Type: c.kv, Capacity: c.window, KWidth: c.hd * c.nHeadKV, VWidth: c.hd * c.nHeadKV}
	q := &graph.Node{Op: graph.RoPE, Name: "Qcur-0", Type: gguf.F32, Shape: graph.Mat(width, c.rows)}
	load := &graph.Node{Op: graph.KvcacheLoad, Name: "cache_k_l0", Type: c.kv, Shape: graph.Mat(kv.KWidth, c.window)}
	pos := &graph.Node{Op: graph.Input, Name: "inp_pos", Type: gguf.I32, Shape: graph.Vec(c.rows)}
	return &graph.Node{
		ID: 9, Op: graph.Attn, Name: "kqv_out-0", Type: gguf.F32, Shape: graph.Mat(width, c.rows), In: []*graph.Node{q, load, load, pos},
		Attr: graph.Attr{HeadDim: c.hd, NHead: c.nHead, NHeadKV: c.nHeadKV, NKV: c.window, Scale: float32(1 / math.Sqrt(float64(c.hd)))},
	}, kv
}

// attnData is a case's values: q, the cache as its type holds it, and the
// positions of the rows, the last of which is cells-1.
type attnData struct {
	q, k, v []float64
	pos     []int32
}

func (c attnCase) data() attnData {
	r := rand.New(rand.NewPCG(uint64(c.hd*c.cells), uint64(c.nHead)))
	d := attnData{q: normal(r, c.hd*c.nHead*c.rows, 1.5)}
	round := func(x []float64) []float64 {
		y, err := refs.RoundKV(c.kv, x)
		if err != nil {
			panic(err)
		}
		return y
	}
	d.k, d.v = round(normal(r, c.hd*c.nHeadKV*c.cells, 1.5)), round(normal(r, c.hd*c.nHeadKV*c.cells, 1))
	for i := range c.rows {
		d.pos = append(d.pos, int32(c.cells-c.rows+i))
	}
	return d
}

// behind fills a region of window cells: the cells behind the last position hold
// what no kernel may look at, NaN. A stage of a packed cache is a copy of all
// cells and may have no NaN in it, so there they are huge.
func (c attnCase) behind(cells []byte, staged bool) []byte {
	size := c.kv.RowBytes(c.hd*c.nHeadKV) * c.window
	for len(cells) < size {
		if staged {
			cells = append(cells, 0x7b)
		} else {
			cells = append(cells, 0xff)
		}
	}
	return cells
}

// check runs a case and holds it against the reference; it returns the error of
// the worst element in units of u * sqrt(k) * RMS(terms).
func (r *attnRig) check(b *metal.Backend, c attnCase, bound metal.Bound, staged bool) float64 {
	r.t.Helper()
	n, kv := c.node()
	d := c.data()
	parts, err := refs.Attention(d.q, d.k, d.v, d.pos, refs.Attn{NHead: c.nHead, NHeadKV: c.nHeadKV, HeadDim: c.hd, Scale: float64(n.Attr.Scale)})
	require.NoError(r.t, err)

	k, v := r.buffer(b, c.behind(cacheBytes(c.kv, d.k), staged)), r.buffer(b, c.behind(cacheBytes(c.kv, d.v), staged))
	in := []graph.Operand{r.buffer(b, floatBytes(d.q)), k, v, r.buffer(b, positionBytes(d.pos))}
	out := r.empty(b, 4*c.hd*c.nHead*c.rows)
	kv.K, kv.V = k.Buf, v.Buf
	require.NoError(r.t, b.ExecuteNode(n, in, out, kv), "%v", c)
	require.NoError(r.t, b.Synchronize(), "%v", c)
	got := bytesFloat(r.bytes(b, out))
	for _, o := range append(in, out) {
		b.FreeBuffer(o.Buf)
	}

	const u = 0x1p-24
	unit := math.Sqrt(float64(c.cells)) * parts.OutTerms
	tolerance := min(1e-3*max(1, refs.RMS(parts.Out)), (bound.C*u+bound.Staging)*unit+bound.Absolute)
	cmp, err := harness.Within(got, parts.Out, tolerance)
	require.NoError(r.t, err)
	require.True(r.t, cmp.OK(), "%v: %v", c, cmp)
	worst := 0.0
	for i := range got {
		worst = max(worst, math.Abs(float64(got[i])-parts.Out[i]))
	}
	return worst / (u * unit)
}

var attnSizes = []int{1, 31, 32, 33, 511, 512, 513, 2049}

var attnHeads = [][2]int{{2, 2}, {4, 2}, {6, 1}, {7, 1}, {16, 2}}

// Every variant of decode and the classic one of prefill agree with the float64
// reference, and the sanitizer is silent.
func TestAttention(t *testing.T) {
	noFlash := func(l *lever.Levers) { l.NoFlash = true }
	classic := func(l *lever.Levers) {
		l.NoFlash, l.NoSplitAttn, l.NoPrefillFlash, l.NoMatmulAttn = true, true, true, true
	}
	packed := []gguf.Type{gguf.F32, gguf.F16, gguf.Q8_0}
	for _, v := range []struct {
		variant string
		set     func(*lever.Levers)
		hd      []int
		rows    []int
		chunks  []int
	}{
		{"flash_decode", nil, []int{64, 128}, []int{1}, []int{0, 1, 3, 16}},
		{"split", noFlash, []int{64, 128}, []int{1}, []int{0}},
		{"classic", classic, []int{64, 128, 80, 100, 33}, []int{1, 2, 9}, []int{0}},
	} {
		t.Run(v.variant, func(t *testing.T) {
			r := newAttnRig(t)
			backends := map[int]*metal.Backend{}
			for _, chunks := range v.chunks {
				backends[chunks] = r.backend(func(l *lever.Levers) {
					if v.set != nil {
						v.set(l)
					}
					l.AttnChunks = chunks
				})
			}
			sizes := attnSizes
			if v.variant == "split" {
				// More parts than attn_combine has lanes.
				sizes = append(slices.Clone(sizes), 33*128+5)
			}
			worst := 0.0
			for _, row := range harness.Pairwise([]int{len(packed), len(v.hd), len(attnHeads), len(sizes), len(v.rows), len(v.chunks), 2}) {
				heads := attnHeads[row[2]]
				c := attnCase{kv: packed[row[0]], hd: v.hd[row[1]], nHead: heads[0], nHeadKV: heads[1], cells: sizes[row[3]], rows: v.rows[row[4]]}
				c.rows = min(c.rows, c.cells)
				// Many rows over a long window are about the rows: few heads will do.
				if c.rows*c.cells*c.nHead*c.hd > 1<<21 {
					c.nHead, c.nHeadKV = 2, 1
				}
				c.window = c.cells + row[6]*(256-c.cells%256)
				if c.kv == gguf.Q8_0 && c.hd*c.nHeadKV%32 != 0 {
					c.kv = gguf.F16
				}
				variant, stored := v.variant, c.kv
				if v.variant != "classic" {
					variant = fmt.Sprintf("%s_%d", variant, c.hd)
				}
				if stored == gguf.Q8_0 && v.variant != "flash_decode" {
					stored = gguf.F32
				}
				e := metal.Lookup("attention", stored.String(), variant)
				require.NotNil(t, e, "%v", c)
				r.launched = nil
				worst = max(worst, r.check(backends[v.chunks[row[5]]], c, e.Bound, stored != c.kv))
				var want []string
				if stored != c.kv {
					want = append(want, "kv_dequantize q8_0", "kv_dequantize q8_0")
				}
				want = append(want, e.ID())
				if v.variant != "classic" {
					want = append(want, "attention combine")
				}
				require.Equal(t, want, r.launched, "%v", c)
			}
			t.Logf("worst error: %.1f u sqrt(k) RMS(terms)", worst)
		})
	}
}
