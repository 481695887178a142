package pp

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/msl/lex"
)

// FuzzPreprocess: any text gives tokens that end, with places that can be found,
// and diagnostics that can be shown.
func FuzzPreprocess(f *testing.F) {
	files, _ := filepath.Glob("testdata/diag/*.metal")
	more, _ := filepath.Glob("../parse/testdata/*/*.metal")
	for _, file := range append(files, more...) {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(text), "X=1")
	}
	f.Add("#define F(x, ...) x ## __VA_ARGS__ #x __VA_OPT__(,)\nF(F)(F(1,2)) F(", "F(x)=x F")
	f.Add("#if defined(X) && (1 ? 2 : 3) << 1 == 4 || __has_include(\"t.metal\")\n#include \"t.metal\"\n#elif 0\n#endif", "X")
	f.Add("#pragma unroll(X)\n_Pragma(\"clang loop unroll(full)\") R\"x(a)x\" 1.e5h 'a' \\\n b", "X=_Pragma(\"unroll\")")
	f.Fuzz(func(t *testing.T, text, define string) {
		toks, m, ds := process(text, Options{Defines: []string{define}}, "a.h", text)
		require.Equal(t, lex.EOF, toks[len(toks)-1].Kind)
		for i, tok := range toks {
			require.True(t, m.Position(tok.Pos).IsValid(), "token %d %q", i, tok.Text)
			require.True(t, m.Position(tok.End).IsValid(), "token %d %q", i, tok.Text)
			require.True(t, i == len(toks)-1 || tok.Kind != lex.EOF)
		}
		m.RenderAll(ds)
		m.Sort(ds)
		for _, e := range EntryPoints(toks) {
			require.True(t, e.Span.Start.IsValid())
		}
	})
}
