package soft

import (
	"errors"
	"fmt"
	"sync/atomic"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl"
	"minfer/metal/mtl/internal/frontend"
	"minfer/metal/mtl/soft/interp"
)

// Pipeline is an [mtl.Pipeline] of the device.
type Pipeline struct {
	device   *Device
	kernel   string
	program  *interp.Program
	args     []mtl.Argument
	threads  int
	static   int
	source   func(file string, line int) string
	released atomic.Bool
}

// newPipeline decodes a specialised kernel. source gives its text for reports.
func (d *Device) newPipeline(f *ir.Func, source func(file string, line int) string) (*Pipeline, error) {
	program, err := interp.Decode(f)
	if err != nil {
		return nil, err
	}
	p := &Pipeline{device: d, kernel: f.Name, program: program, source: source, threads: d.limits.MaxThreadsPerThreadgroup, static: program.StaticThreadgroupBytes()}
	if f.MaxThreads > 0 {
		p.threads = min(p.threads, f.MaxThreads)
	}
	if limit := d.limits.MaxThreadgroupMemory; p.static > limit {
		return nil, fmt.Errorf("kernel %s: %d bytes of threadgroup variables: want at most %d", f.Name, p.static, limit)
	}
	if p.args, err = frontend.Arguments(f, d.limits.MaxBuffers); err != nil {
		return nil, err
	}
	return p, nil
}

// Kernel implements [mtl.Pipeline].
func (p *Pipeline) Kernel() string { return p.kernel }

// Arguments implements [mtl.Pipeline].
func (p *Pipeline) Arguments() []mtl.Argument { return append([]mtl.Argument(nil), p.args...) }

// MaxThreadsPerThreadgroup implements [mtl.Pipeline].
func (p *Pipeline) MaxThreadsPerThreadgroup() int { return p.threads }

// StaticThreadgroupMemory implements [mtl.Pipeline].
func (p *Pipeline) StaticThreadgroupMemory() int { return p.static }

// Release implements [mtl.Pipeline]. Recorded work keeps the program.
func (p *Pipeline) Release() { p.released.Store(true) }

// pipeline recognises the device's own.
func (d *Device) pipeline(p mtl.Pipeline) (*Pipeline, error) {
	own, ok := p.(*Pipeline)
	switch {
	case p == nil || ok && own == nil:
		return nil, errors.New("no pipeline")
	case !ok || own.device != d:
		return nil, fmt.Errorf("the pipeline of kernel %s belongs to another device than %s", p.Kernel(), d.Name())
	case own.released.Load():
		return nil, fmt.Errorf("the pipeline of kernel %s was released", own.kernel)
	}
	return own, nil
}
