package metal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"

	"minfer/engine/gguf"
	"minfer/engine/lever"
	"minfer/metal/kernels"
	"minfer/metal/mtl"
)

// DisabledLine is what a command says at start where a setting keeps Metal out,
// and UnavailableLine where there is no device.
const (
	DisabledLine    = "MPS: disabled by MINFER_DISABLE_MPS"
	UnavailableLine = "MPS: not available, using CPU"
)

// StartLine is what a command says at start of the device that it uses. A software
// device's name says that it is software.
func StartLine(dev mtl.Device) string {
	unified := "no"
	if dev.Limits().Unified {
		unified = "yes"
	}
	return fmt.Sprintf("MPS: using Metal on %s (unified: %s)", dev.Name(), unified)
}

// halfCache is the number of channels of all layers from which on a cache of
// halves is worth its rounding.
const halfCache = 8192

// CacheType is the element type of the KV cache for a model on Metal, of nKVEmbd
// channels in each layer: what MINFER_CACHE_TYPE says, otherwise f16 for large
// models and f32 for small ones.
func CacheType(nLayer, nKVEmbd int, l lever.Levers) gguf.Type {
	switch {
	case l.CacheType == "f32":
		return gguf.F32
	case l.CacheType == "q8_0":
		return gguf.Q8_0
	case l.CacheType == "f16" || nLayer*nKVEmbd >= halfCache:
		return gguf.F16
	}
	return gguf.F32
}

// Pipelines are the kernels of Table, compiled for a device. Backends of one device
// can share them, several goroutines at a time.
type Pipelines struct {
	dev       mtl.Device
	of        map[*Entry]mtl.Pipeline
	made      []mtl.Pipeline // each once
	libraries []mtl.Library
}

// Compile makes a library of each .metal file of fsys (nil: the project's own) and
// a pipeline of each entry of Table, on all cores. A kernel that is missing or
// broken is an error.
func Compile(dev mtl.Device, fsys fs.FS) (*Pipelines, error) {
	if fsys == nil {
		fsys = kernels.FS
	}
	p := &Pipelines{dev: dev, of: make(map[*Entry]mtl.Pipeline, len(Table))}
	if err := p.compile(fsys); err != nil {
		p.Release()
		return nil, err
	}
	return p, nil
}

// Release gives up the pipelines and their libraries. It is idempotent, and comes
// after the last backend that uses them was closed.
func (p *Pipelines) Release() {
	for _, x := range p.made {
		x.Release()
	}
	for _, l := range p.libraries {
		l.Release()
	}
	clear(p.of)
	p.made, p.libraries = nil, nil
}

// productErrors are what products of simdgroup matrices may be off by at most, by
// file: what the bounds of its kernels leave room for (512u of the GEMM's).
var productErrors = map[string]float64{"mul_mm.metal": 1.0 / (1 << 15)}

func (p *Pipelines) compile(fsys fs.FS) error {
	files, err := fs.Glob(fsys, "*.metal")
	if err != nil {
		return fmt.Errorf("metal: kernels: %w", err)
	}
	libs := make([]mtl.Library, len(files))
	err = parallel(len(files), func(i int) error {
		text, err := fs.ReadFile(fsys, files[i])
		if err != nil {
			return fmt.Errorf("metal: kernels: %w", err)
		}
		libs[i], err = p.dev.Compile(context.Background(), mtl.Source{
			Name: files[i], Text: string(text), Include: fsys, FastMath: true, ProductError: productErrors[files[i]],
		})
		return err
	})
	for _, l := range libs {
		if l != nil {
			p.libraries = append(p.libraries, l)
		}
	}
	if err != nil {
		return err
	}
	from := map[string]int{}
	for i, l := range libs {
		for _, k := range l.Kernels() {
			if j, ok := from[k]; ok {
				return fmt.Errorf("metal: kernel %s is in %s and in %s: want one", k, files[j], files[i])
			}
			from[k] = i
		}
	}
	// Entries of the same kernel and constants share a pipeline.
	type group struct {
		entries []*Entry
		made    mtl.Pipeline
	}
	var groups []*group
	byKernel := map[string]*group{}
	for _, e := range Table {
		key := e.Kernel + constantsKey(e.Constants)
		g := byKernel[key]
		if g == nil {
			if _, ok := from[e.Kernel]; !ok {
				return fmt.Errorf("metal: %s: no kernel %s in any of %s", e.ID(), e.Kernel, strings.Join(files, ", "))
			}
			g = &group{}
			byKernel[key] = g
			groups = append(groups, g)
		}
		g.entries = append(g.entries, e)
	}
	err = parallel(len(groups), func(i int) error {
		e := groups[i].entries[0]
		made, err := libs[from[e.Kernel]].Pipeline(e.Kernel, e.Constants)
		if err != nil {
			return fmt.Errorf("metal: %s: %w", e.ID(), err)
		}
		groups[i].made = made
		return nil
	})
	for _, g := range groups {
		if g.made == nil {
			continue
		}
		p.made = append(p.made, g.made)
		for _, e := range g.entries {
			p.of[e] = g.made
		}
	}
	return err
}

func constantsKey(c map[string]any) string {
	keys := make([]string, 0, len(c))
	for k, v := range c {
		keys = append(keys, fmt.Sprintf(" %s=%v", k, v))
	}
	slices.Sort(keys)
	return strings.Join(keys, "")
}

// parallel runs f of 0 to n-1 on all cores and joins the errors, in order. One that
// several have, as of a device that is closed, is said once.
func parallel(n int, f func(i int) error) error {
	errs := make([]error, n)
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := range next {
				errs[i] = f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	said := map[string]bool{}
	errs = slices.DeleteFunc(errs, func(err error) bool {
		again := err != nil && said[err.Error()]
		if err != nil {
			said[err.Error()] = true
		}
		return again
	})
	return errors.Join(errs...)
}
