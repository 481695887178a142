package clitest

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Page is a page of docs/ whose commands print what it says they print. A block that
// is marked console has commands, each after "$ " with settings of the environment in
// front, and their output. A block's commands are of one program, besides cat, and the
// blocks of another program are for another test: Run does those of Program, in
// order, in a folder that has the files of docs/examples.
type Page struct {
	Root, File string // the checkout; the page, from there
	Program    string
	// Mask takes out of a text what differs from run to run; nil for nothing.
	Mask func(string) string
	// More are arguments that a command gets and the page doesn't show; nil for none.
	More func(args []string) []string
	// Update writes what was printed into the page, where the mask doesn't hide it.
	Update bool
	// Main is the program.
	Main func(out io.Writer, environ, args []string)
}

var consoleBlock = regexp.MustCompile("(?sm)^```console\n(.*?)^```$")

// Run runs the page and gives the number of the program's commands.
func (p Page) Run(t *testing.T) (commands int) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(p.Root, p.File))
	require.NoError(t, err)
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(p.Root, "docs/examples"))))
	t.Chdir(dir)
	mask := p.Mask
	if mask == nil {
		mask = func(s string) string { return s }
	}
	updated := consoleBlock.ReplaceAllStringFunc(string(page), func(block string) string {
		text := consoleBlock.FindStringSubmatch(block)[1]
		var got strings.Builder
		for _, line := range strings.Split(text, "\n") {
			command, ok := strings.CutPrefix(line, "$ ")
			if !ok {
				continue
			}
			got.WriteString(line + "\n")
			words := Words(t, command)
			n := 0
			for strings.Contains(words[n], "=") {
				n++
			}
			environ, words := words[:n], words[n:]
			switch words[0] {
			case "cat":
				data, err := os.ReadFile(words[1])
				require.NoError(t, err)
				got.Write(data)
			case p.Program:
				commands++
				args := words[1:]
				if p.More != nil {
					args = append(args, p.More(args)...)
				}
				p.Main(&got, environ, args)
			default:
				require.Zero(t, commands*strings.Count(got.String(), "$ "+p.Program), "%s: a block of two programs: %s", p.File, line)
				return block
			}
		}
		if mask(text) == mask(got.String()) {
			return block
		}
		if !p.Update {
			require.Equal(t, mask(text), mask(got.String()), p.File)
		}
		return "```console\n" + got.String() + "```"
	})
	if p.Update && updated != string(page) {
		require.NoError(t, os.WriteFile(path, []byte(updated), 0o644))
	}
	return commands
}

// Words splits a command line as a shell does, without expanding anything.
func Words(t testing.TB, line string) []string {
	t.Helper()
	var words []string
	var word strings.Builder
	quote, in := rune(0), false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, in = r, true
		case quote == 0 && r == ' ':
			if in {
				words = append(words, word.String())
			}
			word.Reset()
			in = false
		case quote == 0 && r == '#' && !in:
			return words
		default:
			word.WriteRune(r)
			in = true
		}
	}
	require.Zero(t, quote, "a quote is open: %s", line)
	if in {
		words = append(words, word.String())
	}
	return words
}

var (
	fence      = regexp.MustCompile("(?sm)^```\\w*\n(.*?)^```$")
	inlineCode = regexp.MustCompile("`([^`\n]+)`")
)

// Commands lists the command lines of a program that a page shows, in a block or in
// the text, without the program: after "$ ", "go run ./cmd/" or "bin/", or bare.
func Commands(t testing.TB, root, file, program string) (found [][]string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)
	var lines []string
	for _, m := range fence.FindAllSubmatch(page, -1) {
		lines = append(lines, strings.Split(string(m[1]), "\n")...)
	}
	for _, m := range inlineCode.FindAllSubmatch(fence.ReplaceAll(page, nil), -1) {
		lines = append(lines, string(m[1]))
	}
	for _, line := range lines {
		line = strings.TrimPrefix(line, "$ ")
		line = strings.TrimPrefix(strings.TrimPrefix(line, "go run ./cmd/"), "bin/")
		if rest, ok := strings.CutPrefix(line, program+" "); ok {
			found = append(found, Words(t, rest))
		}
	}
	return found
}
