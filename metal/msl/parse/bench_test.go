package parse

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"minfer/metal/msl/pp"
)

// libraryText makes a text of at least n lines out of the trees' inputs, one copy a
// namespace, with an instance macro behind each.
func libraryText(b *testing.B, n int) string {
	b.Helper()
	var part strings.Builder
	for _, f := range []string{"kernels", "templates", "records", "statements"} {
		text, err := os.ReadFile("testdata/tree/" + f + ".metal")
		require.NoError(b, err)
		part.Write(text)
	}
	part.WriteString("#define INST(n) template [[host_name(\"k\" #n)]] kernel mul_t mul<float, n, helper>;\n" + strings.Repeat("INST(1) INST(2) INST(3)\n", 20))
	var text strings.Builder
	lines := strings.Count(part.String(), "\n") + 2
	for i := 0; i < n; i += lines {
		text.WriteString("namespace copy {\n" + part.String() + "}\n")
	}
	return text.String()
}

// BenchmarkLibrary preprocesses and parses 15,000 lines.
func BenchmarkLibrary(b *testing.B) {
	fsys := fstest.MapFS{"t.metal": {Data: []byte(libraryText(b, 15000))}}
	b.ReportAllocs()
	for b.Loop() {
		toks, m, ds := pp.Process(fsys, "t.metal", pp.Options{})
		_, more := File(toks, Options{})
		require.Empty(b, m.RenderAll(append(ds, more...)))
	}
}
