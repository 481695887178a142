package parse

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/msl/ast"
)

// FuzzParse: any text gives a tree whose nodes have places, and diagnostics that
// can be shown; without errors the ranges nest.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*/*.metal")
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(text))
	}
	f.Add("template <template <typename...> class T, auto (&f)(int) = x> struct S<T<int>>::U : virtual public B... { operator T() && noexcept(1) = delete; };")
	f.Add("auto x = [=, &a, b = 1](auto... p) mutable -> int { return (p + ...) + sizeof...(p); }({1, 2}, .x = 3);")
	f.Add("void f() try { if (int x = 1; x) for (auto & a : b) ({ a; }); else switch (1) { case 1 ... 2: default: } }")
	f.Fuzz(func(t *testing.T, text string) {
		file, m, ds := parseText(text)
		m.RenderAll(ds)
		if len(ds) == 0 {
			checkRanges(t, m, file)
		}
		nodes := 0
		walk(reflect.ValueOf(file), file, func(_, n ast.Node) { nodes++ })
		if nodes < 1000 {
			ast.Dump(file)
		}
	})
}
