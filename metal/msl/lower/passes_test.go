package lower_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"minfer/metal/msl/ir"
	"minfer/metal/msl/ir/irtest"
	"minfer/metal/msl/ir/pass"
	"minfer/metal/msl/lower"
	"minfer/metal/msl/parse"
	"minfer/metal/msl/pp"
	"minfer/metal/msl/sema"
	"minfer/metal/msl/source"

	"github.com/stretchr/testify/require"
)

// unfused forbids contraction, so that code before and after the passes must
// give the same bits.
func unfused(r *ir.Region) {
	for _, i := range r.Instrs {
		if i.Op >= ir.FAdd && i.Op <= ir.FDiv {
			i.Imm = pass.ContractNone
		}
		for _, b := range i.Body {
			unfused(b)
		}
	}
}

// Each golden kernel computes the same with the passes and without, on buffers of
// random small numbers.
func TestPassesOnKernels(t *testing.T) {
	files, err := filepath.Glob("testdata/*.metal")
	require.NoError(t, err)
	ran := 0
	for _, file := range files {
		toks, m, diags := pp.Process(os.DirFS("testdata"), filepath.Base(file), pp.Options{})
		require.False(t, source.HasErrors(diags))
		tree, diags := parse.File(toks, parse.Options{})
		require.False(t, source.HasErrors(diags))
		prog, _ := sema.Check(tree, sema.Options{})
		for _, k := range prog.Kernels {
			opt := lower.Options{NoPasses: true, Constants: map[int]sema.Value{0: {I: 1}, 1: {I: 5}, 2: {F: 3}}}
			plain, diags := lower.Kernel(k, m, opt)
			require.Empty(t, diags)
			f, _ := lower.Kernel(k, m, opt)
			unfused(plain.Body)
			unfused(f.Body)
			require.NoError(t, pass.Run(f))
			require.NoError(t, ir.Verify(f))
			for seed := range uint64(8) {
				r := rand.New(rand.NewPCG(seed, 5))
				var a, b [][]byte
				for _, p := range f.Params {
					buf := make([]byte, 4096)
					for at := 0; at < len(buf); at += 4 {
						x := uint32(r.IntN(9))
						if p.Scalar == ir.F32 {
							x = uint32(ir.F32.FloatBits(float32(r.IntN(100)) / 8))
						}
						if p.Scalar == ir.Void && at%8 == 4 {
							x = 0 // the upper half of a 64-bit field
						}
						binary.LittleEndian.PutUint32(buf[at:], x)
					}
					a, b = append(a, buf), append(b, bytes.Clone(buf))
				}
				grid := func(ir.GridKind, int) uint32 { return uint32(seed) }
				require.NoError(t, irtest.Lane{Buffers: a, Grid: grid}.Run(plain), "%s seed %d", k.HostName, seed)
				require.NoError(t, irtest.Lane{Buffers: b, Grid: grid}.Run(f), "%s seed %d", k.HostName, seed)
				require.Equal(t, a, b, "%s seed %d", k.HostName, seed)
				ran++
			}
		}
	}
	require.GreaterOrEqual(t, ran, 8*len(files))
}
