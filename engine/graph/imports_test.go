package graph_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pkg is what "go list -json" says of a package; Deps is transitive.
type pkg struct {
	ImportPath  string
	Imports     []string
	Deps        []string
	TestImports []string // of tests inside the package
}

// ours strips the module's name; ok is false for others' packages.
func ours(path string) (string, bool) { return strings.CutPrefix(path, "minfer/") }

// within says whether a package is one of the trees.
func within(p string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool {
		return p == tree || strings.HasPrefix(p, tree+"/")
	})
}

var devices = []string{"metal/mtl/apple", "metal/mtl/soft", "metal/mtl/cuda"}

// mayDepend says whether package p may depend, directly or through others, on
// package q: the direction of imports, from cmd down to engine, for packages of
// the module.
func mayDepend(p, q string) bool {
	switch {
	case within(p, "cmd"):
		return true
	case within(q, "refs/models"):
		return within(p, "refs/models") // besides cmd
	case (p == "suites/safety" || p == "suites/mutation") && q == "metal/mtl/soft/san":
		return true // the findings that their cases are judged by; the device comes from cmd
	case p == "metal/metaltest" && within(q, "metal/mtl/soft"):
		return true // a helper of users' tests of kernels: nothing of the product may import it, or its device
	case p == "suites/suitetest" && within(q, "metal/mtl/soft"):
		return true // a helper of the suites' own tests: no suite may import it, or its device
	case within(p, "suites"):
		return !within(q, append(devices, "cmd")...)
	case within(p, "engine"):
		return within(q, "engine")
	case within(p, "refs"):
		return within(q, "refs") || q == "engine/gguf"
	case within(p, "harness"):
		return within(q, "harness")
	case within(p, "cpu"):
		return within(q, "cpu", "engine")
	case within(p, devices...):
		own := slices.ContainsFunc(devices, func(d string) bool { return within(p, d) && within(q, d) })
		return own || q == "metal/mtl" || within(q, "metal/mtl/internal") || !within(p, "metal/mtl/apple") && within(q, "metal/msl")
	case p == "metal/mtl/internal/frontend":
		return q == "metal/mtl" || within(q, "metal/msl") // shared by the devices that compile MSL themselves
	case within(p, "metal/mtl"):
		return within(q, "metal/mtl") && !within(q, devices...)
	case within(p, "metal/msl", "metal/kernels"):
		return within(q, "metal/msl", "metal/kernels")
	case within(p, "metal"):
		return within(q, "metal", "engine") && !within(q, devices...)
	}
	return true
}

// harnessUses are the packages of others that harness may import.
var harnessUses = []string{"gonum.org/v1/gonum", "github.com/olekukonko/tablewriter"}

// importFaults lists what breaks the rules, one line each.
func importFaults(pkgs []pkg) []string {
	var faults []string
	for _, p := range pkgs {
		name, ok := ours(p.ImportPath)
		if !ok {
			continue
		}
		for _, d := range p.Deps {
			if q, ok := ours(d); ok && !mayDepend(name, q) {
				faults = append(faults, fmt.Sprintf("%s depends on %s", name, q))
			}
		}
		for _, d := range p.TestImports {
			if q, ok := ours(d); ok && within(q, "suites") && !within(name, "suites", "cmd") {
				faults = append(faults, fmt.Sprintf("a test inside %s imports %s, want an external test package", name, q))
			}
		}
		for _, d := range p.Imports {
			if d == "C" {
				faults = append(faults, name+" uses cgo")
			}
			first, _, _ := strings.Cut(d, "/")
			if _, mine := ours(d); within(name, "harness") && !mine && strings.Contains(first, ".") && !within(d, harnessUses...) {
				faults = append(faults, fmt.Sprintf("%s imports %s, want the standard library, gonum and tablewriter only", name, d))
			}
		}
	}
	return faults
}

// touchSources looks at every source file, so that the go command, which knows
// nothing of what "go list" reads, doesn't answer from a cached result after a
// change.
func touchSources(t *testing.T) {
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			_, err = os.Stat(path)
		}
		return err
	}))
}

func goList(t *testing.T, env ...string) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Imports,Deps,TestImports", "./...")
	cmd.Dir = "../.."
	cmd.Env = append(cmd.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", stderr.String())
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else {
			require.NoError(t, err)
		}
		pkgs = append(pkgs, p)
	}
}

func TestImportDirection(t *testing.T) {
	touchSources(t)
	for _, env := range [][]string{{"GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=1"}, {"GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0"}} {
		pkgs := goList(t, env...)
		require.True(t, slices.ContainsFunc(pkgs, func(p pkg) bool {
			return p.ImportPath == "minfer/engine/graph" && slices.Contains(p.Deps, "minfer/engine/gguf")
		}), "the list is of this module")
		require.Empty(t, importFaults(pkgs), "%v", env)
	}
}

// Each rule sees its fault.
func TestImportFaults(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"engine/graph", "cpu", "engine/graph depends on cpu"},
		{"engine/session", "metal", "engine/session depends on metal"},
		{"refs", "engine/quant", "refs depends on engine/quant"},
		{"refs/exact", "cpu/kernel", "refs/exact depends on cpu/kernel"},
		{"refs", "refs/models", "refs depends on refs/models"},
		{"suites/ops", "refs/models", "suites/ops depends on refs/models"},
		{"suites/ops", "metal/mtl/soft", "suites/ops depends on metal/mtl/soft"},
		{"suites/ops", "metal/mtl/soft/san", "suites/ops depends on metal/mtl/soft/san"},
		{"suites/safety", "metal/mtl/soft", "suites/safety depends on metal/mtl/soft"},
		{"suites/safety", "metal/mtl/soft/san", ""},
		{"harness", "engine/gguf", "harness depends on engine/gguf"},
		{"cpu", "refs", "cpu depends on refs"},
		{"metal/mtl", "metal/msl", "metal/mtl depends on metal/msl"},
		{"metal/mtl", "metal/mtl/soft", "metal/mtl depends on metal/mtl/soft"},
		{"metal/mtl/apple", "metal/msl", "metal/mtl/apple depends on metal/msl"},
		{"metal/mtl/soft", "metal/mtl/cuda", "metal/mtl/soft depends on metal/mtl/cuda"},
		{"metal/mtl/soft", "engine/graph", "metal/mtl/soft depends on engine/graph"},
		{"metal", "metal/mtl/apple", "metal depends on metal/mtl/apple"},
		{"metal", "cpu", "metal depends on cpu"},
		{"metal/metaltest", "metal/mtl/soft", ""},
		{"metal/metaltest", "cpu", "metal/metaltest depends on cpu"},
		{"metal/msl", "metal/mtl", "metal/msl depends on metal/mtl"},
		{"engine/graph", "engine/gguf", ""},
		{"refs/llamacpp", "refs", ""},
		{"refs/dump", "engine/gguf", ""},
		{"metal", "metal/mtl", ""},
		{"metal/mtl/cuda", "metal/msl", ""},
		{"suites/ops", "cpu", ""},
		{"cmd/mverify", "refs/models", ""},
		{"cmd/mverify", "metal/mtl/soft", ""},
	} {
		var want []string
		if c.want != "" {
			want = []string{c.want}
		}
		require.Equal(t, want, importFaults([]pkg{{ImportPath: "minfer/" + c.from, Deps: []string{"minfer/" + c.to, "fmt"}}}), "%s -> %s", c.from, c.to)
	}
	require.Equal(t, []string{
		"a test inside cpu imports suites, want an external test package",
		"cpu uses cgo",
	}, importFaults([]pkg{{ImportPath: "minfer/cpu", TestImports: []string{"minfer/suites", "minfer/cpu/kernel"}, Imports: []string{"C", "fmt"}}}))
	require.Equal(t, []string{"harness imports golang.org/x/sys/unix, want the standard library, gonum and tablewriter only"},
		importFaults([]pkg{{ImportPath: "minfer/harness", Imports: []string{"fmt", "minfer/harness/stat", "gonum.org/v1/gonum/stat", "golang.org/x/sys/unix"}}}))
}
