package cuda

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"minfer/metal/mtl"
	"minfer/metal/mtl/internal/frontend"
)

// Library is an [mtl.Library] of the device: checked MSL. Kernels become CUDA C++
// and machine code when their pipelines are made.
type Library struct {
	device   *Device
	lib      *frontend.Library
	tensor   Tensor
	released atomic.Bool
}

// Compile implements [mtl.Device]. The error has all diagnostics, with source
// lines.
func (d *Device) Compile(ctx context.Context, source mtl.Source) (mtl.Library, error) {
	if err := errors.Join(d.alive(), ctx.Err()); err != nil {
		return nil, err
	}
	lib, err := frontend.Compile(ctx, source)
	if err != nil {
		return nil, err
	}
	return &Library{device: d, lib: lib, tensor: d.tensor(source.ProductError)}, nil
}

// Kernels implements [mtl.Library].
func (l *Library) Kernels() []string { return l.lib.Kernels() }

// Constants implements [mtl.Library].
func (l *Library) Constants() []mtl.Constant { return l.lib.Constants() }

// Pipeline implements [mtl.Library]. The result is a *Pipeline. It may be called
// by several goroutines, whose compilations run side by side.
func (l *Library) Pipeline(kernel string, constants map[string]any) (mtl.Pipeline, error) {
	if err := l.device.alive(); err != nil {
		return nil, err
	}
	if l.released.Load() {
		return nil, fmt.Errorf("metal: pipeline of kernel %q: the library was released", kernel)
	}
	f, err := l.lib.Specialize(kernel, constants)
	if err != nil {
		return nil, err
	}
	p, err := l.device.newPipeline(f, l.tensor)
	if err != nil {
		return nil, fmt.Errorf("metal: pipeline: %w", err)
	}
	return p, nil
}

// Release implements [mtl.Library].
func (l *Library) Release() { l.released.Store(true) }
