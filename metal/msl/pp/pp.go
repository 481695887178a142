// Package pp is the preprocessor: it turns a file, what it includes and its
// macros into the list of tokens that the parser reads.
//
// It is a full C preprocessor: object-like, function-like and variadic macros
// with #, ##, __VA_OPT__ and GNU's comma rule, conditionals, includes from an
// fs.FS, _Pragma, __LINE__, __FILE__ and __COUNTER__. Pragmas stay in the list,
// between a lex.Pragma and a lex.PragmaEnd token, as they bind to what follows.
// Headers of the language's library are built in: their macros are defined here,
// their functions and types are the business of metal/msl/prelude.
//
// Every token keeps its place: the byte of a file, or its way through the macros
// that made it (see metal/msl/source).
//
// Input may be hostile: depth, sizes and numbers of everything are limited, and
// passing a limit is an error with a place. [Process] has no state and is safe
// for concurrent use.
package pp

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"minfer/metal/msl/lex"
	"minfer/metal/msl/source"
)

// DefaultVersion is the value of __METAL_VERSION__ where Options gives none.
const DefaultVersion = 320

// Options are the settings of one run.
type Options struct {
	// Defines are macros from outside, in order: "X", "X=value" or "F(a)=a".
	// Without a value a macro is 1.
	Defines []string
	// IncludeDirs are searched in order after the including file's own folder;
	// names are those of the fs.FS.
	IncludeDirs []string
	// Version is the value of __METAL_VERSION__, DefaultVersion if 0. From 310 on
	// __HAVE_BFLOAT__ is defined.
	Version int
	// Map is a map to add to; nil makes a new one.
	Map *source.Map
}

// The limits. They are far above what real libraries need.
const (
	maxTokens    = 1 << 22 // of the result
	maxErrors    = 50      // then the run stops; as many warnings are kept
	maxIncludes  = 10000   // files brought in
	maxDepth     = 200     // #include in #include, #if in #if, macro in argument
	maxMadeText  = 1 << 24 // bytes of text made by # and ## together
	maxTokenText = 1 << 16 // bytes of one token made by # or ##
	maxParams    = 256     // of one macro
	maxFileSize  = 1 << 26
)

// The names of the texts that macros come from which no file defines.
const (
	builtIn     = "<built-in>"
	commandLine = "<command line>"
)

// Process preprocesses a file of fsys. The tokens end with a lex.EOF token. The
// diagnostics are in the order in which they were found; the tokens are usable
// even with errors among them.
func Process(fsys fs.FS, file string, opts Options) ([]lex.Token, *source.Map, []source.Diag) {
	m := opts.Map
	if m == nil {
		m = source.NewMap()
	}
	p := &preprocessor{opts: opts, fsys: fsys, m: m, macros: map[string]*macro{}, once: map[string]bool{}}
	p.predefine()
	if err := p.openMain(file); err != nil {
		p.diags = append(p.diags, source.Errorf(source.Span{}, "%v", err))
		return []lex.Token{{Kind: lex.EOF, Flags: lex.LineStart}}, m, p.diags
	}
	return p.run(), m, p.diags
}

// preprocessor is the state of one run.
type preprocessor struct {
	opts   Options
	fsys   fs.FS
	m      *source.Map
	macros map[string]*macro
	once   map[string]bool // files with #pragma once, and library headers

	files    []*input   // open files, the innermost last
	end      source.Pos // of the main file
	contexts []context  // tokens that are read before the innermost file's
	floor    int        // contexts below are not to be read: a list is expanded by itself
	isolated bool       // the same for the files

	depth    int // expandList in expandList
	includes int
	counter  int
	text     int // bytes made by # and ##
	diags    []source.Diag
	errors   int
	warnings int
	stopped  bool // a limit was passed: nothing more is read
}

// input is one open file.
type input struct {
	lx    *lex.Lexer
	name  string
	base  source.Pos
	conds []cond
}

// cond is one open #if.
type cond struct {
	at    source.Span
	taken bool // a group of it was or is being read
	other bool // #else was seen
}

// context is a list of tokens to read, the expansion of a macro where busy is
// set.
type context struct {
	toks []lex.Token
	i    int
	busy *macro // to be released at the end
}

func (p *preprocessor) report(d source.Diag) {
	if p.stopped {
		return
	}
	if d.Severity != source.Error {
		if p.warnings++; p.warnings <= maxErrors {
			p.diags = append(p.diags, d)
		}
		return
	}
	p.diags = append(p.diags, d)
	if p.errors++; p.errors >= maxErrors {
		p.diags = append(p.diags, source.Errorf(d.Span, "too many errors, the rest of the text is not read"))
		p.stopped = true
	}
}

func (p *preprocessor) errorf(at source.Span, format string, args ...any) {
	p.report(source.Errorf(at, format, args...))
}

// stop gives up after a passed limit.
func (p *preprocessor) stop(at source.Span, format string, args ...any) {
	p.errorf(at, format, args...)
	p.stopped = true
}

// run reads all tokens of the main file.
func (p *preprocessor) run() []lex.Token {
	var out []lex.Token
	for {
		t := p.next()
		if t.Kind == lex.EOF {
			return append(out, t)
		}
		if len(out) >= maxTokens {
			p.stop(t.Span(), "text of more than %d tokens after preprocessing", maxTokens)
		}
		out = append(out, t)
	}
}

// raw gives the next token without expanding it. Directives are carried out on
// the way.
func (p *preprocessor) raw() lex.Token {
	for !p.stopped {
		if n := len(p.contexts); n > p.floor {
			c := &p.contexts[n-1]
			if c.i < len(c.toks) {
				c.i++
				return c.toks[c.i-1]
			}
			p.pop()
			continue
		}
		if p.isolated {
			return lex.Token{Kind: lex.EOF}
		}
		f := p.files[len(p.files)-1]
		t := f.lx.Next()
		switch {
		case t.Kind == lex.EOF:
			if !p.closeFile() {
				return t
			}
		case t.Kind == lex.Punct && t.Text == "#" && t.Flags&lex.LineStart != 0:
			p.directive(f, t)
		default:
			return t
		}
	}
	return lex.Token{Kind: lex.EOF, Flags: lex.LineStart, Pos: p.end, End: p.end}
}

func (p *preprocessor) push(toks []lex.Token, busy *macro) {
	p.contexts = append(p.contexts, context{toks: toks, busy: busy})
	if busy != nil {
		busy.busy = true
	}
}

func (p *preprocessor) pop() {
	n := len(p.contexts) - 1
	if m := p.contexts[n].busy; m != nil {
		m.busy = false
	}
	p.contexts[n] = context{}
	p.contexts = p.contexts[:n]
}

// openMain opens the file that was asked for.
func (p *preprocessor) openMain(name string) error {
	text, err := p.read(name)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", name, err)
	}
	if !p.enter(name, text, 0) {
		return fmt.Errorf("cannot read %s: it has %d bytes, at most %d fit", name, len(text), source.MaxBytes)
	}
	p.end = p.files[0].base + source.Pos(len(text))
	return nil
}

// read reads a file of limited size.
func (p *preprocessor) read(name string) (string, error) {
	if p.fsys == nil {
		return "", fs.ErrNotExist
	}
	if info, err := fs.Stat(p.fsys, name); err != nil {
		return "", plain(err)
	} else if info.IsDir() {
		return "", errors.New("it is a folder")
	} else if info.Size() > maxFileSize {
		return "", fmt.Errorf("it has %d bytes, at most %d are read", info.Size(), maxFileSize)
	}
	f, err := p.fsys.Open(name)
	if err != nil {
		return "", plain(err)
	}
	defer f.Close()
	// A device or a pipe says nothing about its length.
	b, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil {
		return "", plain(err)
	}
	if len(b) > maxFileSize {
		return "", fmt.Errorf("it has more than the %d bytes that are read", maxFileSize)
	}
	return string(b), nil
}

// plain takes the operation and the path out of an error that is going to be
// reported with the path.
func plain(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// enter starts to read a file.
func (p *preprocessor) enter(name, text string, included source.Pos) bool {
	base, ok := p.m.AddFile(name, text, included)
	if !ok {
		return false
	}
	f := &input{lx: lex.New(text, base), name: name, base: base}
	f.lx.Error = func(at source.Span, msg string) { p.errorf(at, "%s", msg) }
	p.files = append(p.files, f)
	return true
}

// closeFile ends the innermost file and reports whether there is another. The
// main file stays open: it gives EOF for ever.
func (p *preprocessor) closeFile() bool {
	f := p.files[len(p.files)-1]
	for _, c := range f.conds {
		p.errorf(c.at, "conditional without an end: expected #endif before the end of %s", f.name)
	}
	f.conds = nil
	if len(p.files) == 1 {
		return false
	}
	p.files = p.files[:len(p.files)-1]
	return true
}

// include brings in a file.
func (p *preprocessor) include(name string, system bool, at source.Span) {
	if len(p.files) >= maxDepth {
		p.stop(at, "#include nested more than %d deep: does %s include itself?", maxDepth, name)
		return
	}
	if p.includes++; p.includes > maxIncludes {
		p.stop(at, "more than %d files included", maxIncludes)
		return
	}
	found, text, err := p.find(name, system)
	if err != nil {
		p.errorf(at, "cannot include %s: %v", name, err)
		return
	}
	if p.once[found] {
		return
	}
	if !p.enter(found, text, at.Start) {
		p.stop(at, "cannot include %s: all files together have more than %d bytes", name, source.MaxBytes)
	}
}

// find looks for a header: beside the including file (but for <x>), then in the
// include folders, then among the built-in ones.
func (p *preprocessor) find(name string, system bool) (found, text string, err error) {
	var dirs []string
	if !system {
		dirs = append(dirs, path.Dir(p.files[len(p.files)-1].name))
	}
	dirs = append(dirs, p.opts.IncludeDirs...)
	for _, dir := range dirs {
		file := path.Join(dir, name)
		if strings.HasPrefix(name, "/") {
			file = strings.TrimPrefix(path.Clean(name), "/")
		}
		if !fs.ValidPath(file) {
			continue
		}
		text, err := p.read(file)
		if err == nil {
			return file, text, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", "", err
		}
	}
	if text, ok := header(name); ok {
		return "<" + name + ">", text, nil
	}
	if len(dirs) == 0 {
		return "", "", errors.New("no such library header, and there are no include folders")
	}
	return "", "", fmt.Errorf("no such file in %s", strings.Join(dirs, ", "))
}
