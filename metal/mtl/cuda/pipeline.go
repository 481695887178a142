package cuda

import (
	"errors"
	"fmt"
	"sync"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl"
	"minfer/metal/mtl/internal/frontend"
)

// Pipeline is an [mtl.Pipeline] of the device.
type Pipeline struct {
	device  *Device
	kernel  *Kernel // takes small constants by value, and whole simdgroups alone
	args    []mtl.Argument
	threads int
	tensor  Tensor

	// others are those that take what it doesn't; made when it is asked for.
	othersMu sync.Mutex
	others   map[Options]*Kernel

	mu       sync.Mutex
	recorded int // dispatches that hold it
	released bool
}

// newPipeline makes machine code of a specialised kernel, or takes it out of the
// cache, and loads it.
func (d *Device) newPipeline(f *ir.Func, tensor Tensor) (*Pipeline, error) {
	args, err := frontend.Arguments(f, d.limits.MaxBuffers)
	if err != nil {
		return nil, err
	}
	src, err := Emit(f, options(true, true, tensor))
	if err != nil {
		return nil, err
	}
	if limit := d.limits.MaxThreadgroupMemory; src.StaticBytes > limit {
		return nil, fmt.Errorf("kernel %s: %d bytes of threadgroup variables: want at most %d", f.Name, src.StaticBytes, limit)
	}
	k, err := d.load(src)
	if err != nil {
		return nil, err
	}
	p := &Pipeline{device: d, kernel: k, args: args, tensor: tensor, threads: min(k.MaxThreads, d.limits.MaxThreadsPerThreadgroup)}
	if f.MaxThreads > 0 {
		p.threads = min(p.threads, f.MaxThreads)
	}
	return p, nil
}

// load makes machine code of a source and loads it.
func (d *Device) load(src *Source) (*Kernel, error) {
	code, err := d.cache.compile(d.compiler, src)
	if err != nil {
		return nil, err
	}
	return d.driver.Load(src, code)
}

// options are those of a pipeline's kernels.
func options(inline, whole bool, tensor Tensor) Options {
	return Options{Poll: true, Inline: inline, Whole: whole, Tensor: tensor}
}

// taking is the kernel that takes a dispatch's bindings and threadgroups.
func (p *Pipeline) taking(d *mtl.Dispatch) (*Kernel, error) {
	src := p.kernel.src
	inline, whole := true, src.Whole
	for k, param := range src.Func.Params {
		for _, b := range d.Bindings {
			if src.Inline[k] > 0 && b.Index == param.Index && b.Buffer != nil {
				inline = false
			}
		}
	}
	if d.Threads != (mtl.Size{}) || d.ThreadsPerThreadgroup.Count()%p.device.limits.SIMDWidth != 0 {
		whole = false
	}
	if inline && whole == src.Whole {
		return p.kernel, nil
	}
	o := options(inline, whole, p.tensor)
	p.othersMu.Lock()
	defer p.othersMu.Unlock()
	if k := p.others[o]; k != nil {
		return k, nil
	}
	other, err := Emit(src.Func, o)
	if err != nil {
		return nil, err
	}
	k, err := p.device.load(other)
	if err != nil {
		return nil, err
	}
	if p.others == nil {
		p.others = map[Options]*Kernel{}
	}
	p.others[o] = k
	return k, nil
}

// Kernel implements [mtl.Pipeline].
func (p *Pipeline) Kernel() string { return p.kernel.src.Func.Name }

// Arguments implements [mtl.Pipeline]. The caller changes nothing in it.
func (p *Pipeline) Arguments() []mtl.Argument { return p.args }

// MaxThreadsPerThreadgroup implements [mtl.Pipeline]: what the registers of a
// multiprocessor are enough for.
func (p *Pipeline) MaxThreadsPerThreadgroup() int { return p.threads }

// StaticThreadgroupMemory implements [mtl.Pipeline].
func (p *Pipeline) StaticThreadgroupMemory() int { return p.kernel.src.StaticBytes }

// Registers and LocalBytes are what a thread takes; local bytes lie in device
// memory, so spilled registers cost time.
func (p *Pipeline) Registers() int { return p.kernel.Registers }

// LocalBytes see Registers.
func (p *Pipeline) LocalBytes() int { return p.kernel.LocalBytes }

// Text is the CUDA C++ that the kernel became.
func (p *Pipeline) Text() string { return p.kernel.src.Text }

// Release implements [mtl.Pipeline]. Recorded work keeps the code.
func (p *Pipeline) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released = true
	p.unload()
}

// unload gives the code back once nobody can launch it. A lost context has taken it
// back already. The caller holds mu.
func (p *Pipeline) unload() {
	if p.released && p.recorded == 0 {
		_ = p.kernel.Unload()
		p.othersMu.Lock()
		defer p.othersMu.Unlock()
		for _, k := range p.others {
			_ = k.Unload()
		}
	}
}

func (p *Pipeline) retain() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.released {
		return fmt.Errorf("the pipeline of kernel %s was released", p.Kernel())
	}
	p.recorded++
	return nil
}

func (p *Pipeline) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recorded--
	p.unload()
}

// pipeline recognises the device's own.
func (d *Device) pipeline(p mtl.Pipeline) (*Pipeline, error) {
	own, ok := p.(*Pipeline)
	switch {
	case p == nil || ok && own == nil:
		return nil, errors.New("no pipeline")
	case !ok || own.device != d:
		return nil, fmt.Errorf("the pipeline of kernel %s belongs to another device than %s", p.Kernel(), d.Name())
	}
	return own, nil
}
