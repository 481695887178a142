package lower_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"minfer/metal/msl"
	"minfer/metal/msl/ir"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const prologue = "#include <metal_stdlib>\nusing namespace metal;\n"

func compile(t *testing.T, text string) *msl.Library {
	t.Helper()
	lib, err := msl.Compile(fstest.MapFS{"t.metal": {Data: []byte(text)}}, "t.metal", msl.Options{})
	require.NoError(t, err)
	return lib
}

func specialize(t *testing.T, text, kernel string, constants map[string]any) *ir.Func {
	t.Helper()
	f, err := compile(t, prologue+text).Specialize(kernel, constants)
	require.NoError(t, err)
	require.NoError(t, ir.Verify(f))
	return f
}

// The IR of one small kernel for each feature, as text. A change of these files is
// a change of what devices run: read the diff.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.metal")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	constants := map[string]map[string]any{"constants": {"has_mask": true, "width": 4}}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".metal")
		t.Run(name, func(t *testing.T) {
			lib, err := msl.Compile(os.DirFS("testdata"), name+".metal", msl.Options{})
			require.NoError(t, err)
			var sb strings.Builder
			for _, k := range lib.Kernels() {
				require.NoError(t, k.Err)
				f, err := lib.Specialize(k.Name, constants[name])
				require.NoError(t, err)
				require.NoError(t, f.Print(&sb, ir.PrintOptions{Bare: true}))
				again, err := ir.Parse(f.String())
				require.NoError(t, err)
				require.Equal(t, f.String(), again.String())
			}
			golden := "testdata/" + name + ".ir"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(sb.String()), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), sb.String())
		})
	}
	golden, err := filepath.Glob("testdata/*.ir")
	require.NoError(t, err)
	require.Len(t, golden, len(files), "a golden file without a source")
}
