package interp

import (
	"embed"
	"encoding/binary"
	"testing"

	"minfer/metal/msl"
	"minfer/metal/mtl/soft/mem"
	"minfer/metal/mtl/soft/san"

	"github.com/stretchr/testify/require"
)

//go:embed testdata/bench.metal
var benchSource embed.FS

// fromSource makes the benchmark run the kernel of the same name as compiled,
// with constants behind the three buffers.
func fromSource(t testing.TB, b *bench, constants ...uint32) *bench {
	lib, err := msl.Compile(benchSource, "testdata/bench.metal", msl.Options{})
	require.NoError(t, err)
	f, err := lib.Specialize(b.name, nil)
	require.NoError(t, err)
	b.p = decode(t, f)
	for i, c := range constants {
		c2 := mem.Wrap(binary.LittleEndian.AppendUint32(nil, c), f.Params[3+i].Name)
		b.bufs = append(b.bufs, c2)
		b.l.Windows = append(b.l.Windows, all(c2)...)
	}
	b.l.ThreadgroupBytes = make([]int, len(f.Params))
	b.name += "_msl"
	return b
}

func sourceBenches(t testing.TB) []*bench {
	return []*bench{
		fromSource(t, benchMatvec(t, 4864, 896), 896, 4864),
		fromSource(t, benchNorm(t, 64, 896), 896),
		fromSource(t, benchGemm(t, 896, 64, 896), 64, 896),
	}
}

func TestCompiledKernels(t *testing.T) {
	for _, b := range []*bench{fromSource(t, benchMatvec(t, 64, 96), 96, 64), fromSource(t, benchNorm(t, 3, 300), 300), fromSource(t, benchGemm(t, 64, 64, 32), 64, 32)} {
		for mode := san.Off; mode <= san.Strict; mode++ {
			_, rep := b.run(t, mode)
			b.check(t)
			if rep != nil {
				require.Empty(t, rep.Findings)
			}
		}
	}
}
