package sweeps

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal"
	"minfer/metal/kernels"
	"minfer/metal/msl"
	"minfer/metal/msl/ir"
)

// The kernels that are held against the limit of matrices are those that multiply them.
func TestMatrices(t *testing.T) {
	files, err := fs.Glob(kernels.FS, "*.metal")
	require.NoError(t, err)
	libraries := map[string]*msl.Library{} // by kernel
	for _, file := range files {
		l, err := msl.Compile(kernels.FS, file, msl.Options{})
		require.NoError(t, err)
		for _, k := range l.Kernels() {
			libraries[k.Name] = l
		}
	}
	some := 0
	for _, e := range metal.Table {
		require.Contains(t, libraries, e.Kernel)
		f, err := libraries[e.Kernel].Specialize(e.Kernel, e.Constants)
		require.NoError(t, err)
		multiplies := false
		var walk func(r *ir.Region)
		walk = func(r *ir.Region) {
			for _, i := range r.Instrs {
				multiplies = multiplies || i.Op == ir.SgMMA
				for _, b := range i.Body {
					walk(b)
				}
			}
		}
		walk(f.Body)
		require.Equal(t, multiplies, matrices(e), e.ID())
		if multiplies {
			some++
		}
	}
	require.Greater(t, some, 10)
}
