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

// BenchmarkDecodeAttention is one token's attention of a layer on the software
// device without checks: 4 heads over 2 of 64 channels, 256 cells of a window of
// 256 and 6 of them. instr counts what the simdgroups execute.
func BenchmarkDecodeAttention(b *testing.B) {
	for _, c := range []struct {
		name string
		set  func(*lever.Levers)
		attnCase
	}{
		{"flash/f32", nil, attnCase{kv: gguf.F32, cells: 256}},
		{"flash/f16", nil, attnCase{kv: gguf.F16, cells: 256}},
		{"flash/q8_0", nil, attnCase{kv: gguf.Q8_0, cells: 256}},
		{"flash/f32/short", nil, attnCase{kv: gguf.F32, cells: 6}},
		{"split/f32", func(l *lever.Levers) { l.NoFlash = true }, attnCase{kv: gguf.F32, cells: 256}},
		{"classic/f32", func(l *lever.Levers) { l.NoFlash, l.NoSplitAttn = true, true }, attnCase{kv: gguf.F32, cells: 256}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.hd, c.nHead, c.nHeadKV, c.window, c.rows = 64, 4, 2, 256, 1
			var instructions int64
			dev, err := soft.New(soft.Options{Counters: func(_ *mtl.Dispatch, n interp.Counters) { instructions += n.Instructions }})
			require.NoError(b, err)
			l := lever.Default()
			if c.set != nil {
				c.set(&l)
			}
			m, err := metal.New(dev, metal.Options{Levers: l})
			require.NoError(b, err)
			defer m.Close()
			buffer := func(data []byte) graph.Operand {
				buf, err := m.AllocBuffer(len(data))
				require.NoError(b, err)
				require.NoError(b, m.WriteHost(buf, 0, data))
				return graph.Operand{Buf: buf, Len: len(data)}
			}
			n, kv := c.node()
			d := c.data()
			in := []graph.Operand{buffer(floatBytes(d.q)), buffer(c.behind(cacheBytes(c.kv, d.k), false)),
				buffer(c.behind(cacheBytes(c.kv, d.v), false)), buffer(positionBytes(d.pos))}
			out := buffer(make([]byte, 4*c.hd*c.nHead))
			for b.Loop() {
				require.NoError(b, m.ExecuteNode(n, in, out, kv))
				require.NoError(b, m.Synchronize())
			}
			b.ReportMetric(float64(instructions)/float64(b.N), "instr/op")
		})
	}
}
