package metal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"minfer/engine/gguf"
	"minfer/engine/lever"
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

// compile makes a library of each .metal file and a pipeline of each entry of
// Table, on all cores.
func (b *Backend) compile() error {
	entries, err := fs.ReadDir(b.o.Kernels, ".")
	if err != nil {
		return fmt.Errorf("metal: kernels: %w", err)
	}
	var files []string
	for _, f := range entries {
		if !f.IsDir() && path.Ext(f.Name()) == ".metal" {
			files = append(files, f.Name())
		}
	}
	libs := make([]mtl.Library, len(files))
	err = parallel(len(files), func(i int) error {
		text, err := fs.ReadFile(b.o.Kernels, files[i])
		if err != nil {
			return fmt.Errorf("metal: kernels: %w", err)
		}
		libs[i], err = b.dev.Compile(context.Background(), mtl.Source{
			Name: files[i], Text: string(text), Include: b.o.Kernels, FastMath: true,
		})
		return err
	})
	for _, l := range libs {
		if l != nil {
			b.libraries = append(b.libraries, l)
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
	// Entries that differ in no constant share a pipeline.
	type group struct {
		entries []*Entry
		p       mtl.Pipeline
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
		p, err := libs[from[e.Kernel]].Pipeline(e.Kernel, e.Constants)
		if err != nil {
			return fmt.Errorf("metal: %s: %w", e.ID(), err)
		}
		groups[i].p = p
		return nil
	})
	for _, g := range groups {
		if g.p != nil {
			b.made = append(b.made, g.p)
			for _, e := range g.entries {
				b.pipelines[e] = g.p
			}
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

// parallel runs f of 0 to n-1 on all cores and joins the errors, in order.
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
	return errors.Join(errs...)
}
