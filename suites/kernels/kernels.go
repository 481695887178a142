// Package kernels is the suite of pipelines: every entry of the dispatch table
// compiles for the device and fits its limits.
package kernels

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"minfer/harness"
	"minfer/metal"
	own "minfer/metal/kernels"
	"minfer/metal/mtl"
	"minfer/suites"
)

// Suite is the suite `kernels`.
type Suite struct{}

// Name is "kernels".
func (Suite) Name() string { return "kernels" }

// Cases lists the entries of the dispatch table and the source files; there are
// none for a device that is not Metal's.
func (s Suite) Cases(env *suites.Env) ([]harness.Case, error) {
	if env.Device.Open == nil {
		return nil, nil
	}
	b := &bench{env: env, fsys: env.Kernels}
	if b.fsys == nil {
		b.fsys = own.FS
	}
	files, err := fs.Glob(b.fsys, "*.metal")
	if err != nil {
		return nil, err
	}
	var cases []harness.Case
	for _, name := range files {
		id := harness.ID{Suite: s.Name(), Op: "compile", Params: []harness.Param{harness.P("file", name)}}
		cases = append(cases, harness.Case{ID: id, Work: 1, Run: func(ctx context.Context) (harness.Result, error) { return b.file(ctx, name) }})
	}
	for _, e := range metal.Table {
		id := harness.ID{Suite: s.Name(), Op: "pipeline", Params: []harness.Param{harness.P("entry", e.ID()), harness.P("kernel", e.Kernel)}}
		cases = append(cases, harness.Case{ID: id, Work: 1, Run: func(ctx context.Context) (harness.Result, error) { return b.entry(ctx, e) }})
	}
	return cases, nil
}

// bench compiles each file once, on a device that nothing else uses.
type bench struct {
	env  *suites.Env
	fsys fs.FS
	dev  mtl.Device
	libs map[string]mtl.Library
	errs map[string]error
}

// library is a compiled file, or why there is none.
func (b *bench) library(ctx context.Context, name string) (mtl.Library, error, error) {
	if b.dev == nil {
		dev, err := b.env.Device.Open(1)
		if err != nil {
			return nil, nil, err
		}
		b.dev, b.libs, b.errs = dev, map[string]mtl.Library{}, map[string]error{}
		b.env.OnClose(b.close)
	}
	if l, ok := b.libs[name]; ok {
		return l, b.errs[name], nil
	}
	text, err := fs.ReadFile(b.fsys, name)
	if err != nil {
		return nil, nil, err
	}
	l, failed := b.dev.Compile(ctx, mtl.Source{Name: name, Text: string(text), Include: b.fsys, FastMath: true})
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	b.libs[name], b.errs[name] = l, failed
	return l, failed, nil
}

// close releases the libraries and their device.
func (b *bench) close() {
	for name, l := range b.libs {
		if b.errs[name] == nil {
			l.Release()
		}
	}
	b.dev.Close()
	b.dev, b.libs, b.errs = nil, nil, nil
}

// file checks that a file compiles and that each of its kernels is some entry's.
func (b *bench) file(ctx context.Context, name string) (harness.Result, error) {
	l, failed, err := b.library(ctx, name)
	switch {
	case err != nil:
		return harness.Result{}, err
	case failed != nil:
		return harness.Failed("%v", failed), nil
	}
	for _, k := range l.Kernels() {
		if !slices.ContainsFunc(metal.Table, func(e *metal.Entry) bool { return e.Kernel == k }) {
			return harness.Failed("kernel %s is no entry of the dispatch table", k), nil
		}
	}
	res := harness.Passed()
	res.Counts = []harness.Count{{Name: "kernels", N: int64(len(l.Kernels()))}}
	return res, nil
}

// entry checks that an entry's kernel is in one file, makes a pipeline, and fits
// the device.
func (b *bench) entry(ctx context.Context, e *metal.Entry) (harness.Result, error) {
	files, err := fs.Glob(b.fsys, "*.metal")
	if err != nil {
		return harness.Result{}, err
	}
	found := ""
	for _, name := range files {
		l, failed, err := b.library(ctx, name)
		if err != nil {
			return harness.Result{}, err
		}
		if failed != nil || !slices.Contains(l.Kernels(), e.Kernel) {
			continue
		}
		if found != "" {
			return harness.Failed("kernel %s is in %s and in %s: want one", e.Kernel, found, name), nil
		}
		found = name
	}
	if found == "" {
		return harness.Failed("kernel %s is in none of the %d files that compile", e.Kernel, len(files)), nil
	}
	p, err := b.libs[found].Pipeline(e.Kernel, e.Constants)
	if err != nil {
		return harness.Failed("%s: %v", path.Base(found), err), nil
	}
	defer p.Release()
	limits := b.dev.Limits()
	if n := p.StaticThreadgroupMemory(); n > limits.MaxThreadgroupMemory {
		return harness.Failed("%s: %d bytes of threadgroup memory: want at most %d", found, n, limits.MaxThreadgroupMemory), nil
	}
	if n := p.MaxThreadsPerThreadgroup(); n < limits.SIMDWidth {
		return harness.Failed("%s: at most %d threads a threadgroup: want at least %d", found, n, limits.SIMDWidth), nil
	}
	if problem := arguments(p.Arguments()); problem != "" {
		return harness.Failed("%s: %s", found, problem), nil
	}
	return harness.Passed(), nil
}

// arguments checks what all kernels share: buffers from 0 on without a gap.
func arguments(list []mtl.Argument) string {
	seen := map[int]bool{}
	for _, a := range list {
		if a.Threadgroup {
			continue
		}
		if seen[a.Index] {
			return fmt.Sprintf("two arguments at buffer index %d", a.Index)
		}
		seen[a.Index] = true
	}
	for i := range len(seen) {
		if !seen[i] {
			return fmt.Sprintf("no argument at buffer index %d of %d", i, len(seen))
		}
	}
	return ""
}
