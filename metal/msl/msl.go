// Package msl is the Metal Shading Language front end: source text to typed IR.
//
// It is a compiler in the usual phases (preprocessor, lexer, parser, type
// checker with template instantiation, lowering to a structured SSA form) and
// knows no device: metal/mtl/soft interprets what it gives, metal/mtl/cuda prints
// it as CUDA C++.
//
// Order of use: [Compile] (or [CompileText], of what is in no file) checks a source
// and gives a [Library], which lists its entry points, the broken ones with their
// errors; [Library.Specialize] makes the verified IR of one, with the values of
// function constants; [Library.Check] does so for all of them, in parallel. Errors
// are diagnostics with file, line, column, the source line and a caret ([Error]).
//
// A Library is immutable and safe for concurrent use.
package msl

import (
	"fmt"
	"io/fs"
	"runtime"
	"sort"
	"strconv"
	"sync"

	"minfer/metal/msl/ir"
	"minfer/metal/msl/lower"
	"minfer/metal/msl/parse"
	"minfer/metal/msl/pp"
	"minfer/metal/msl/sema"
	"minfer/metal/msl/source"
)

// Options are the settings of a compilation.
type Options struct {
	// Defines are macros from outside: "X", "X=value".
	Defines []string
	// IncludeDirs are searched for included files, after the including file's own
	// folder; names are those of the fs.FS.
	IncludeDirs []string
	// Version is the value of __METAL_VERSION__; 0 is the default of package pp.
	Version int
	// Safe turns fast math off: products and sums are fused only inside a
	// statement.
	Safe bool
}

// Error is one or more diagnostics.
type Error struct {
	Diags []source.Diag
	// Text is their rendering, with source lines; it ends with a newline.
	Text string
	// First is the first error in one line: file:line:col: message.
	First string
}

// Error gives the rendered diagnostics without the last newline.
func (e *Error) Error() string {
	if n := len(e.Text); n > 0 && e.Text[n-1] == '\n' {
		return e.Text[:n-1]
	}
	return e.Text
}

func newError(m *source.Map, ds []source.Diag) *Error {
	e := &Error{Diags: ds, Text: m.RenderAll(ds)}
	for _, d := range ds {
		if d.Severity == source.Error {
			e.First = fmt.Sprintf("%s: %s", m.Position(d.Span.Start), d.Msg)
			break
		}
	}
	return e
}

// Library is a checked translation unit.
type Library struct {
	opt      Options
	src      *source.Map
	prog     *sema.Program
	kernels  []KernelInfo
	byName   map[string]int
	entries  []pp.EntryPoint
	warnings []source.Diag
}

// maxInstances bounds the template instances of one library, so that text that
// instantiates without end fails in a second. The public libraries stay below 10,000.
const maxInstances = 50000

// Compile checks a source file. It fails where the text does not parse or a
// declaration outside of kernels is wrong and no kernel is left; a kernel that does
// not check is listed with its error and does not stop the others. With a failure, the Library
// is still there if the text could be preprocessed.
func Compile(fsys fs.FS, file string, o Options) (*Library, error) {
	toks, m, diags := pp.Process(fsys, file, pp.Options{Defines: o.Defines, IncludeDirs: o.IncludeDirs, Version: o.Version})
	l := &Library{opt: o, src: m, prog: &sema.Program{}, byName: map[string]int{}, entries: pp.EntryPoints(toks)}
	if source.HasErrors(diags) {
		return l, newError(m, diags)
	}
	tree, ds := parse.File(toks, parse.Options{})
	diags = append(diags, ds...)
	broken := source.HasErrors(ds)
	prog, ds := sema.Check(tree, sema.Options{MaxInstances: maxInstances})
	diags = append(diags, ds...)
	l.prog = prog
	for _, k := range prog.Kernels {
		info := l.info(k)
		if _, twice := l.byName[k.HostName]; !twice {
			l.byName[k.HostName] = len(l.kernels)
		} else if info.Err == nil {
			info.Err = newError(m, []source.Diag{source.Errorf(source.Span{Start: k.Pos}, "two kernels have the name %s", k.HostName)})
		}
		l.kernels = append(l.kernels, info)
	}
	l.warnings = diags
	if broken || source.HasErrors(diags) && len(prog.Kernels) == 0 {
		return l, newError(m, diags)
	}
	return l, nil
}

// Diagnostics are the messages outside of kernels, warnings included, rendered.
func (l *Library) Diagnostics() string { return l.src.RenderAll(l.warnings) }

// Source is where positions of diagnostics and IR can be looked up.
func (l *Library) Source() *source.Map { return l.src }

// EntryPoints are the entry points as counted from the preprocessed text alone,
// before and independently of parsing.
func (l *Library) EntryPoints() []pp.EntryPoint { return l.entries }

// Kernels are the entry points in source order.
func (l *Library) Kernels() []KernelInfo { return l.kernels }

// Kernel finds one by its host name.
func (l *Library) Kernel(name string) (KernelInfo, bool) {
	k, ok := l.byName[name]
	if !ok {
		return KernelInfo{}, false
	}
	return l.kernels[k], true
}

// Constants are the library's function constants in source order.
func (l *Library) Constants() []Constant {
	var out []Constant
	for _, v := range l.prog.Constants {
		out = append(out, constantInfo(v))
	}
	return out
}

// Specialize gives the verified IR of a kernel. constants are values of function
// constants by name or decimal index: bool, any Go integer or float that the
// constant's type holds, or a slice of such for a vector. A constant that the
// kernel uses and that has no value is an error.
func (l *Library) Specialize(name string, constants map[string]any) (*ir.Func, error) {
	k, ok := l.byName[name]
	if !ok {
		return nil, fmt.Errorf("the library has no kernel %q", name)
	}
	if err := l.kernels[k].Err; err != nil {
		return nil, err
	}
	vals, err := l.values(constants)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", name, err)
	}
	return l.lower(l.prog.Kernels[k], vals)
}

func (l *Library) lower(k *sema.Kernel, vals map[int]sema.Value) (*ir.Func, error) {
	f, ds := lower.Kernel(k, l.src, lower.Options{Constants: vals, Safe: l.opt.Safe})
	if f == nil {
		return nil, newError(l.src, ds)
	}
	return f, nil
}

// Check lowers every kernel, in parallel, with stand-in values for function constants that
// constants does not name (false, 1, 1.0), and gives the error of each that does
// not reach verified IR, by host name. A kernel's own error is there too.
func (l *Library) Check(constants map[string]any) map[string]error {
	vals, err := l.values(constants)
	out := map[string]error{}
	if err != nil {
		for _, k := range l.kernels {
			out[k.Name] = err
		}
		return out
	}
	for _, v := range l.prog.Constants {
		if _, ok := vals[v.FuncConst]; !ok {
			vals[v.FuncConst] = probe(v.Type.T)
		}
	}
	errs := make([]error, len(l.kernels))
	var wg sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for k := range next {
				_, errs[k] = l.lower(l.prog.Kernels[k], vals)
			}
		})
	}
	for k := range l.kernels {
		if l.kernels[k].Err != nil {
			errs[k] = l.kernels[k].Err
			continue
		}
		next <- k
	}
	close(next)
	wg.Wait()
	for k, e := range errs {
		if e != nil {
			out[l.kernels[k].Name] = e
		}
	}
	return out
}

// values converts Go values to constants by index.
func (l *Library) values(constants map[string]any) (map[int]sema.Value, error) {
	out := map[int]sema.Value{}
	names := make([]string, 0, len(constants))
	for n := range constants {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		found := false
		index, err := strconv.Atoi(n)
		for _, v := range l.prog.Constants {
			if v.Name != n && (err != nil || v.FuncConst != index) {
				continue
			}
			c, err := constant(v.Type.T, constants[n])
			if err != nil {
				return nil, fmt.Errorf("function constant %s: %w", v.Name, err)
			}
			out[v.FuncConst] = c
			found = true
		}
		if !found {
			return nil, fmt.Errorf("the library has no function constant %q", n)
		}
	}
	return out, nil
}
