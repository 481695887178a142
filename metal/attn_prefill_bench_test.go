package metal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/metal"
	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/metal/mtl/soft/interp"
)

// One layer's attention of a prompt's last 64 tokens over 512 cells: what the
// variants cost on the software device.
func BenchmarkPrefillAttention(b *testing.B) {
	for _, c := range []struct {
		name string
		set  func(*lever.Levers)
		kv   gguf.Type
		hd   int
	}{
		{"flash/f32/64", func(*lever.Levers) {}, gguf.F32, 64},
		{"flash/f16/64", func(*lever.Levers) {}, gguf.F16, 64},
		{"flash/f32/128", func(*lever.Levers) {}, gguf.F32, 128},
		{"parallel/f32/64", func(l *lever.Levers) { l.NoPrefillFlash = true }, gguf.F32, 64},
		{"parallel/f16/64", func(l *lever.Levers) { l.NoPrefillFlash = true }, gguf.F16, 64},
		{"parallel/f32/128", func(l *lever.Levers) { l.NoPrefillFlash = true }, gguf.F32, 128},
		{"classic/f32/64", func(l *lever.Levers) { l.NoPrefillFlash, l.NoMatmulAttn = true, true }, gguf.F32, 64},
	} {
		b.Run(c.name, func(b *testing.B) {
			var instructions int64
			dev, err := soft.New(soft.Options{Counters: func(_ *mtl.Dispatch, n interp.Counters) { instructions += n.Instructions }})
			require.NoError(b, err)
			l := lever.Default()
			c.set(&l)
			m, err := metal.New(dev, metal.Options{Levers: l})
			require.NoError(b, err)
			defer m.Close()
			a := attnCase{kv: c.kv, hd: c.hd, nHead: 14, nHeadKV: 2, cells: 512, window: 512, rows: 64}
			buffer := func(data []byte) graph.Operand {
				buf, err := m.AllocBuffer(len(data))
				require.NoError(b, err)
				require.NoError(b, m.WriteHost(buf, 0, data))
				return graph.Operand{Buf: buf, Len: len(data)}
			}
			n, kv := a.node()
			d := a.data()
			in := []graph.Operand{buffer(floatBytes(d.q)), buffer(cacheBytes(c.kv, d.k)), buffer(cacheBytes(c.kv, d.v)), buffer(positionBytes(d.pos))}
			out := buffer(make([]byte, in[0].Len))
			products := 0 // of scores and of outputs
			for _, p := range d.pos {
				products += 2 * (int(p) + 1) * a.nHead * a.hd
			}
			for b.Loop() {
				require.NoError(b, m.ExecuteNode(n, in, out, kv))
				require.NoError(b, m.Synchronize())
			}
			b.ReportMetric(float64(instructions)/float64(b.N), "instr/op")
			b.ReportMetric(float64(products)*float64(b.N)/float64(instructions), "madd/instr")
			b.ReportMetric(float64(products)*float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
		})
	}
}
