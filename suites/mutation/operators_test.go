package mutation

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write golden files again")

// The mutants of a small kernel, every one: what is cut, and what is put there.
func TestMutantsOfASmallKernel(t *testing.T) {
	s, err := Parse(os.DirFS("testdata"))
	require.NoError(t, err)
	var b strings.Builder
	by := map[string]int{}
	for _, m := range s.Mutants() {
		if by[m.Operator] == 0 {
			fmt.Fprintf(&b, "# %s\n", m.Operator)
		}
		by[m.Operator]++
		fmt.Fprintf(&b, "%s:%d %s:", m.File(), m.Line(), m.Func)
		for _, e := range m.Edits {
			fmt.Fprintf(&b, " %q -> %q", m.before[e.Start:e.End], e.Text)
		}
		b.WriteByte('\n')
		require.Equal(t, []string{"small.metal"}, m.Units)
	}
	for _, op := range Operators {
		require.Positive(t, by[op.Name], "%s finds nothing", op.Name)
	}
	if *update {
		require.NoError(t, os.WriteFile("testdata/mutants.txt", []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile("testdata/mutants.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), b.String(), "-update writes it again")
}

// The project's kernels have enough places of each kind, and each edit is made
// once.
func TestEnoughPlaces(t *testing.T) {
	by, seen := map[string]int{}, map[string]bool{}
	for _, m := range ownMutants() {
		by[m.Operator]++
		require.False(t, seen[m.key()], m.key())
		seen[m.key()] = true
		require.NotEqual(t, m.before, m.After())
	}
	for _, op := range Operators {
		require.Greater(t, by[op.Name], 25, op.Name)
	}
}

// Every mutant that is listed as equivalent is still made, by the file's text.
func TestKnownStillExist(t *testing.T) {
	known, err := parseKnown("equivalent.json", equivalentFile)
	require.NoError(t, err)
	found := map[*Known]bool{}
	for _, m := range ownMutants() {
		for _, k := range known {
			if k.matches(m, k.Kernel) {
				found[k] = true
			}
		}
	}
	var gone []string
	for i, k := range known {
		if !found[k] {
			gone = append(gone, fmt.Sprintf("entry %d: %s: %q", i+1, k.File, k.Old))
		}
	}
	require.Empty(t, gone, "entries of equivalent.json are of mutants that are no more")
	_, err = parseKnown("x.json", []byte(`[{"file": "a.metal", "old": ["x"], "new": ["y"]}]`))
	require.EqualError(t, err, "mutation: x.json: entry 1: want file, old, new and why")
	_, err = parseKnown("x.json", []byte(`[{"fiel": "a.metal"}]`))
	require.ErrorContains(t, err, "fiel")
}

// A sample is the seed's, reaches every file first, and leaves none out.
func TestSpread(t *testing.T) {
	var list []*Mutant
	files := map[string]bool{}
	for _, m := range ownMutants() {
		if m.Operator == "change_comparison" {
			list = append(list, m)
			files[m.File()] = true
		}
	}
	one, same, other := spread(list, 1), spread(list, 1), spread(list, 2)
	require.ElementsMatch(t, list, one)
	require.Equal(t, one, same)
	require.NotEqual(t, one, other)
	first := map[string]bool{}
	for _, m := range one[:len(files)] {
		first[m.File()] = true
	}
	require.Equal(t, files, first)
	require.Empty(t, spread(nil, 1))
}

// docs/mutation.md explains every operator in the words of the code.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/mutation.md")
	require.NoError(t, err)
	for _, op := range Operators {
		require.Contains(t, string(page), fmt.Sprintf("| `%s` | %s", op.Name, op.What))
	}
}
