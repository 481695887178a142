// Package docs holds the project's pages against what they describe: the settings,
// the modules, the packages that make race must reach, and each other.
package docs

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/lever"
)

const root = ".."

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)
	return string(data)
}

// The README's table of settings is lever.All.
func TestLevers(t *testing.T) {
	var want strings.Builder
	for _, v := range lever.All {
		values := v.Form
		switch {
		case len(v.Values) > 4:
			values = fmt.Sprintf("`%s` to `%s`", v.Values[0], v.Values[len(v.Values)-1])
		case v.Values != nil:
			words := slices.Clone(v.Values)
			for i, w := range words {
				words[i] = "`" + w + "`"
				if w == v.Default {
					words[i] = "**" + words[i] + "**"
				}
			}
			values = strings.Join(words, " ")
		}
		live := ""
		if with := strings.Index(v.LiveWhen, "with "); with >= 0 {
			live = " (" + v.LiveWhen[with:] + ")"
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s%s |\n", v.Name, values, v.Changes, live)
	}
	require.True(t, strings.Contains(read(t, "README.md"), want.String()), "README.md: the table of settings, want:\n%s", want.String())
}

// The README says why each direct requirement is there, and of no other.
func TestModules(t *testing.T) {
	var want, got []string
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(read(t, "go.mod"), -1) {
		want = append(want, m[1])
	}
	require.Greater(t, len(want), 5)
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\S+\\.\\w+/\\S+)` \\| .+ \\|$").FindAllStringSubmatch(read(t, "README.md"), -1) {
		got = append(got, m[1])
	}
	require.ElementsMatch(t, want, got)
}

// CI runs what the README tells a newcomer to run, and all suites on both devices,
// once.
func TestContinuousIntegration(t *testing.T) {
	ci := read(t, ".ci/run")
	commands := regexp.MustCompile(`(?m)^(make [a-z-]+)  +# `).FindAllStringSubmatch(read(t, "README.md"), -1)
	require.GreaterOrEqual(t, len(commands), 3)
	for _, m := range commands {
		require.Regexp(t, `(?m)^\s*`+m[1]+`$`, ci)
	}
	require.Equal(t, 1, strings.Count(ci, "--suite all"))
	require.Regexp(t, `(?m)^bin/mverify --suite all --device cpu,soft$`, ci)
}

// A relative link of a page leads to a file, and its fragment to a heading.
func TestLinks(t *testing.T) {
	links := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "results/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, page := range pages {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			for _, m := range regexp.MustCompile(`\]\(([^):]+)\)`).FindAllSubmatch(text, -1) {
				links++
				file, fragment, _ := strings.Cut(string(m[1]), "#")
				target := page
				if file != "" {
					target = filepath.Join(filepath.Dir(page), file)
				}
				require.FileExists(t, existing(target), "%s: %s", page, m[1])
				if fragment != "" {
					data, err := os.ReadFile(target)
					require.NoError(t, err)
					require.Contains(t, headings(data), fragment, "%s: %s", page, m[1])
				}
			}
		}
	}
	require.Greater(t, links, 30)
}

// existing is a file of the target: itself, or any file of a folder.
func existing(target string) string {
	if entries, err := os.ReadDir(target); err == nil && len(entries) > 0 {
		for _, e := range entries {
			if !e.IsDir() {
				return filepath.Join(target, e.Name())
			}
		}
	}
	return target
}

// headings are the fragments of a page's headings, as code hosts make them.
func headings(page []byte) (ids []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllSubmatch(page, -1) {
		id := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(string(m[1])), "")
		ids = append(ids, strings.ReplaceAll(id, " ", "-"))
	}
	return ids
}

// make race reaches every package that starts goroutines and has tests.
func TestRaceTarget(t *testing.T) {
	m := regexp.MustCompile(`(?m)^\tCGO_ENABLED=1 go test -race (.*)$`).FindStringSubmatch(read(t, "Makefile"))
	require.NotNil(t, m)
	var named []string
	for _, p := range strings.Fields(m[1]) {
		tree := filepath.Join(root, strings.TrimSuffix(p, "/..."))
		require.DirExists(t, tree)
		named = append(named, tree)
		if strings.HasSuffix(p, "/...") {
			require.NoError(t, filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					named = append(named, path)
				}
				return err
			}))
		}
	}
	starts := map[string]bool{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte("go func")) && !bytes.Contains(text, []byte(".Go(")) && !regexp.MustCompile(`(?m)^\s*go \w`).Match(text) {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, isCall := n.(*ast.CallExpr)
			_, isGo := n.(*ast.GoStmt)
			if isCall {
				sel, ok := call.Fun.(*ast.SelectorExpr)
				isGo = ok && sel.Sel.Name == "Go"
			}
			if isGo {
				starts[filepath.Dir(path)] = true
			}
			return true
		})
		return nil
	}))
	require.Greater(t, len(starts), 8)
	for dir := range starts {
		tests, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		require.NoError(t, err)
		if len(tests) > 0 && !strings.HasPrefix(dir, filepath.Join(root, "cmd")) {
			require.Contains(t, named, dir, "make race: %s starts goroutines", dir)
		}
	}
}
