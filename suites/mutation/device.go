package mutation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"minfer/metal/mtl"
	"minfer/metal/mtl/soft/san"
)

// patched is a device on which one entry point is a mutant's and all others are
// the original's. Libraries and pipelines of the original are made once, when they
// are first dispatched; those that are given out stand for them and cost nothing.
// A submit is bounded by the deadline of the case that runs.
type patched struct {
	mtl.Device
	fsys  fs.FS
	state *state // shared by the devices of all numbers of threads

	mu        sync.Mutex
	libraries map[string]mtl.Library // by file
	pipelines map[string]mtl.Pipeline
	mutant    *planted // whose pipeline is made
	faulty    mtl.Pipeline
}

// planted is a mutant as one entry point sees it.
type planted struct {
	mutant    *Mutant
	file      string // the library
	kernel    string
	constants string
}

// state is what the bench tells the devices, and what they tell it.
type state struct {
	mu       sync.Mutex
	planted  *planted
	deadline time.Duration
	// dispatched are the pipelines of the case that runs, by pipelineKey.
	dispatched map[string]bool
	// races are the findings of races of the case that runs, in one line each.
	races []string
	// kinds are the kinds of findings, late whether a submit missed the deadline.
	kinds []string
	late  bool
	spent time.Duration // in submits
	// broken is why the mutant's pipeline cannot be made.
	broken error
}

func pipelineKey(file, kernel, constants string) string {
	return file + " " + kernel + " " + constants
}

// reset begins a case.
func (s *state) reset(p *planted, deadline time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.planted, s.deadline = p, deadline
	s.dispatched, s.races, s.kinds, s.late, s.broken = map[string]bool{}, nil, nil, false, nil
	s.spent = 0
}

func (d *patched) Close() error { return nil }

// shut closes the device itself.
func (d *patched) shut() error { return d.Device.Close() }

// Compile gives a library that stands for the original's. The text is that of the
// environment's kernels, whatever the source says.
func (d *patched) Compile(ctx context.Context, source mtl.Source) (mtl.Library, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, err := d.library(ctx, source.Name)
	if err != nil {
		return nil, err
	}
	return &patchedLibrary{Library: l, device: d, file: source.Name}, nil
}

func (d *patched) library(ctx context.Context, file string) (mtl.Library, error) {
	if l := d.libraries[file]; l != nil {
		return l, nil
	}
	l, err := compile(ctx, d.Device, d.fsys, file)
	if err == nil {
		d.libraries[file] = l
	}
	return l, err
}

func compile(ctx context.Context, dev mtl.Device, fsys fs.FS, file string) (mtl.Library, error) {
	text, err := fs.ReadFile(fsys, file)
	if err != nil {
		return nil, err
	}
	return dev.Compile(ctx, mtl.Source{Name: file, Text: string(text), Include: fsys, FastMath: true})
}

type patchedLibrary struct {
	mtl.Library
	device *patched
	file   string
}

func (l *patchedLibrary) Release() {}

func (l *patchedLibrary) Pipeline(kernel string, constants map[string]any) (mtl.Pipeline, error) {
	return &patchedPipeline{device: l.device, file: l.file, kernel: kernel, values: constants, constants: constantsKey(constants)}, nil
}

func constantsKey(c map[string]any) string {
	var all []string
	for k, v := range c {
		all = append(all, fmt.Sprintf("%s=%v", k, v))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// patchedPipeline stands for the pipeline that the device has of a kernel at the
// time of use.
type patchedPipeline struct {
	device                  *patched
	file, kernel, constants string
	values                  map[string]any
}

func (p *patchedPipeline) Kernel() string { return p.kernel }
func (p *patchedPipeline) Release()       {}

func (p *patchedPipeline) Arguments() []mtl.Argument {
	if x, err := p.device.pipeline(p); err == nil {
		return x.Arguments()
	}
	return nil
}

func (p *patchedPipeline) MaxThreadsPerThreadgroup() int {
	if x, err := p.device.pipeline(p); err == nil {
		return x.MaxThreadsPerThreadgroup()
	}
	return p.device.Limits().MaxThreadsPerThreadgroup
}

func (p *patchedPipeline) StaticThreadgroupMemory() int {
	if x, err := p.device.pipeline(p); err == nil {
		return x.StaticThreadgroupMemory()
	}
	return 0
}

// pipeline gives the device's own pipeline for one that stands for it.
func (d *patched) pipeline(p *patchedPipeline) (mtl.Pipeline, error) {
	d.state.mu.Lock()
	planted := d.state.planted
	d.state.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	ctx := context.Background()
	if planted != nil && planted.file == p.file && planted.kernel == p.kernel && planted.constants == p.constants {
		if d.mutant == planted {
			return d.faulty, nil
		}
		if d.faulty != nil {
			d.faulty.Release()
			d.faulty, d.mutant = nil, nil
		}
		l, err := compile(ctx, d.Device, planted.mutant.Over(d.fsys), p.file)
		if err == nil {
			defer l.Release()
			d.faulty, err = l.Pipeline(p.kernel, p.values)
		}
		if err != nil {
			d.faulty = nil
			d.state.mu.Lock()
			d.state.broken = err
			d.state.mu.Unlock()
			return nil, err
		}
		d.mutant = planted
		return d.faulty, nil
	}
	key := pipelineKey(p.file, p.kernel, p.constants)
	if x := d.pipelines[key]; x != nil {
		return x, nil
	}
	l, err := d.library(ctx, p.file)
	if err != nil {
		return nil, err
	}
	x, err := l.Pipeline(p.kernel, p.values)
	if err == nil {
		d.pipelines[key] = x
	}
	return x, err
}

func (d *patched) NewCommandBuffer(label string) (mtl.CommandBuffer, error) {
	cb, err := d.Device.NewCommandBuffer(label)
	if err != nil {
		return nil, err
	}
	return &patchedCommands{cb, d}, nil
}

type patchedCommands struct {
	mtl.CommandBuffer
	device *patched
}

func (c *patchedCommands) Dispatch(d mtl.Dispatch) error {
	if p, ok := d.Pipeline.(*patchedPipeline); ok {
		own, err := c.device.pipeline(p)
		if err != nil {
			return err
		}
		d.Pipeline = own
		s := c.device.state
		s.mu.Lock()
		s.dispatched[pipelineKey(p.file, p.kernel, p.constants)] = true
		s.mu.Unlock()
	}
	return c.CommandBuffer.Dispatch(d)
}

// Submit runs within the case's deadline and notes what the sanitizer found.
func (c *patchedCommands) Submit(ctx context.Context) (mtl.Timing, error) {
	s := c.device.state
	s.mu.Lock()
	deadline := s.deadline
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	start := time.Now()
	timing, err := c.CommandBuffer.Submit(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent += time.Since(start)
	if err == nil {
		return timing, nil
	}
	s.late = s.late || errors.Is(err, context.DeadlineExceeded)
	var found interface{ Findings() *san.Report }
	if errors.As(err, &found) {
		for _, f := range found.Findings().Findings {
			if f.Severity != san.Error {
				continue
			}
			s.kinds = append(s.kinds, f.Kind)
			switch f.Kind {
			case san.KindThreadgroupRace, san.KindDeviceRace, san.KindDispatchRace:
				s.races = append(s.races, f.Message)
			}
		}
	}
	return timing, err
}
