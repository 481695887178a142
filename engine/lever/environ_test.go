package lever

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readers are the functions that read the environment.
var readers = map[string][]string{
	"os":      {"Getenv", "LookupEnv", "Environ", "ExpandEnv"},
	"syscall": {"Getenv", "Environ"},
	"unix":    {"Getenv", "Environ"}, // golang.org/x/sys/unix
}

// environReads lists "file:line: pkg.Func" of every mention in the source,
// through any import name.
func environReads(t *testing.T, fset *token.FileSet, path string, src any) []string {
	file, err := parser.ParseFile(fset, path, src, parser.SkipObjectResolution)
	require.NoError(t, err)
	names := map[string][]string{}
	var found []string
	for _, imp := range file.Imports {
		p := strings.Trim(imp.Path.Value, `"`)
		base := p[strings.LastIndex(p, "/")+1:]
		funcs := readers[base]
		if funcs == nil || (base == "unix" && p != "golang.org/x/sys/unix") || (base != "unix" && p != base) {
			continue
		}
		name := base
		if imp.Name != nil {
			name = imp.Name.Name
		}
		if name == "." {
			found = append(found, fset.Position(imp.Pos()).String()+": dot import of "+p)
		}
		names[name] = funcs
	}
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok {
			for _, f := range names[x.Name] {
				if sel.Sel.Name == f {
					found = append(found, fset.Position(sel.Pos()).String()+": "+x.Name+"."+f)
				}
			}
		}
		return true
	})
	return found
}

// Only a command reads the environment, and only whole: os.Environ, to hand it to
// Parse.
func TestNobodyElseReadsTheEnvironment(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	_, err = os.Stat(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	fset := token.NewFileSet()
	files := 0
	var bad []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); rel != "." && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		files++
		for _, hit := range environReads(t, fset, path, nil) {
			if strings.HasPrefix(filepath.ToSlash(rel), "cmd/") && strings.HasSuffix(hit, ": os.Environ") {
				continue
			}
			bad = append(bad, strings.TrimPrefix(hit, root+string(filepath.Separator)))
		}
		return nil
	}))
	require.Empty(t, bad, "pass a lever.Levers value down instead")
	require.Greater(t, files, 10)
}

// The finder itself sees what it must.
func TestEnvironReads(t *testing.T) {
	fset := token.NewFileSet()
	for src, want := range map[string]int{
		"package x\nimport \"os\"\nvar a = os.Getenv(\"A\")":                             1,
		"package x\nimport o \"os\"\nvar a, b = o.LookupEnv(\"A\")":                      1,
		"package x\nimport \"os\"\nvar f = os.Environ":                                   1,
		"package x\nimport . \"os\"\nvar f = Getenv(\"A\")":                              1,
		"package x\nimport \"syscall\"\nvar f, g = syscall.Getenv(\"A\")":                1,
		"package x\nimport \"golang.org/x/sys/unix\"\nvar f = unix.Environ()":            1,
		"package x\nimport \"os\"\nvar f = os.Args\ntype T struct{ Getenv int }":         0,
		"package x\nimport os \"example.com/os\"\nvar f = os.Getenv(\"A\")":              0,
		"package x\nimport \"os\"\n// os.Getenv\nvar s = \"os.Getenv\"\nvar _ = os.Args": 0,
	} {
		require.Len(t, environReads(t, fset, "x.go", src), want, src)
	}
}
