package apple

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"unsafe"

	"minfer/metal/mtl"
)

// Library is an [mtl.Library] of the device.
type Library struct {
	device     *Device
	lib        mtlLibrary // the Library's own reference
	kernels    []string   // sorted
	constants  []mtl.Constant
	uses       map[string][]use // by kernel
	signatures map[string][]mtl.Argument

	mu       sync.Mutex
	released bool
}

// use is a function constant of one kernel.
type use struct {
	mtl.Constant
	required bool
}

// describe lists the kernels among names, or all of them, and their constants. It
// runs in a pool.
func (l *Library) describe(names []string) {
	d, m := l.device, &l.device.msg
	if names == nil {
		d.each(m.libraryNames.send(l.lib), func(name anyObject) { names = append(names, d.text(nsString(name))) })
	}
	l.uses = map[string][]use{}
	for _, name := range names {
		f := m.libraryFunction.send(l.lib, d.str(name))
		if f == 0 {
			continue
		}
		if m.functionType.send(f) == mtlFunctionTypeKernel {
			l.kernels = append(l.kernels, name)
			l.uses[name] = d.constants(f)
		}
		d.rt.release(uintptr(f))
	}
	sort.Strings(l.kernels)
	byIndex := map[int]mtl.Constant{}
	for _, list := range l.uses {
		for _, u := range list {
			byIndex[u.Index] = u.Constant
		}
	}
	for _, c := range byIndex {
		l.constants = append(l.constants, c)
	}
	sort.Slice(l.constants, func(i, j int) bool { return l.constants[i].Index < l.constants[j].Index })
}

// constants are those that a function uses, by index.
func (d *Device) constants(f mtlFunction) []use {
	m := &d.msg
	var all []use
	dictionary := m.functionConstants.send(f)
	if dictionary == 0 {
		return nil
	}
	d.each(m.dictionaryAll.send(dictionary), func(o anyObject) {
		c := mtlFunctionConstant(o)
		t, n := scalar(m.constantType.send(c))
		all = append(all, use{mtl.Constant{Name: d.text(m.constantName.send(c)), Index: int(m.constantIndex.send(c)), Type: t, Count: n},
			m.constantRequired.send(c)})
	})
	sort.Slice(all, func(i, j int) bool { return all[i].Index < all[j].Index })
	return all
}

// scalars are Metal's types of constants and elements: each one's vectors of 2 to
// 4 components have the numbers after its own.
var scalars = []struct {
	metal mtlDataType
	t     mtl.Type
}{
	{mtlDataTypeBool, mtl.Bool}, {mtlDataTypeChar, mtl.Int8}, {mtlDataTypeUChar, mtl.Uint8}, {mtlDataTypeShort, mtl.Int16},
	{mtlDataTypeUShort, mtl.Uint16}, {mtlDataTypeInt, mtl.Int32}, {mtlDataTypeUInt, mtl.Uint32}, {mtlDataTypeLong, mtl.Int64},
	{mtlDataTypeULong, mtl.Uint64}, {mtlDataTypeHalf, mtl.Float16}, {mtlDataTypeBFloat, mtl.BFloat16}, {mtlDataTypeFloat, mtl.Float32},
}

// scalar takes a type apart: AnyType and 1 where it is none of scalars.
func scalar(t mtlDataType) (mtl.Type, int) {
	for _, s := range scalars {
		if t >= s.metal && t < s.metal+4 {
			return s.t, int(t-s.metal) + 1
		}
	}
	return mtl.AnyType, 1
}

// dataType puts a type of scalars together, 0 for another.
func dataType(c mtl.Constant) mtlDataType {
	for _, s := range scalars {
		if s.t == c.Type {
			return s.metal + mtlDataType(max(c.Count, 1)-1)
		}
	}
	return 0
}

// Kernels implements [mtl.Library].
func (l *Library) Kernels() []string { return slices.Clone(l.kernels) }

// Constants implements [mtl.Library]. They are those that some kernel uses.
func (l *Library) Constants() []mtl.Constant { return slices.Clone(l.constants) }

// Release implements [mtl.Library].
func (l *Library) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.released {
		l.released = true
		l.device.release(uintptr(l.lib))
	}
}

// Pipeline implements [mtl.Library]. The result is a *Pipeline.
func (l *Library) Pipeline(kernel string, constants map[string]any) (mtl.Pipeline, error) {
	if err := l.device.alive(); err != nil {
		return nil, err
	}
	p, err := l.pipeline(kernel, constants)
	if err != nil {
		return nil, fmt.Errorf("metal: pipeline of kernel %q: %w", kernel, err)
	}
	return p, nil
}

func (l *Library) pipeline(kernel string, constants map[string]any) (*Pipeline, error) {
	if !slices.Contains(l.kernels, kernel) {
		return nil, fmt.Errorf("the library has no such kernel: it has %s", strings.Join(l.kernels, ", "))
	}
	set, err := l.values(kernel, constants)
	if err != nil {
		return nil, err
	}
	// The library's object may go as soon as the lock does.
	l.mu.Lock()
	if l.released {
		l.mu.Unlock()
		return nil, fmt.Errorf("the library was released")
	}
	l.device.rt.retain(uintptr(l.lib))
	l.mu.Unlock()
	defer l.device.release(uintptr(l.lib))
	return l.build(kernel, set)
}

// setting is a function constant with its value's bytes, as Metal reads them.
type setting struct {
	mtl.Constant
	bytes []byte
}

// values checks the values of constants against the library and the kernel.
func (l *Library) values(kernel string, constants map[string]any) ([]setting, error) {
	var all []setting
	for key, value := range constants {
		c, err := mtl.FindConstant(l.constants, key)
		if err != nil {
			return nil, err
		}
		for _, s := range all {
			if s.Index == c.Index {
				return nil, fmt.Errorf("function constant %s (%d) is set twice", c.Name, c.Index)
			}
		}
		bits, err := c.Bits(value)
		if err != nil {
			return nil, err
		}
		s := setting{Constant: c}
		for _, b := range bits {
			component := binary.LittleEndian.AppendUint64(nil, b)
			s.bytes = append(s.bytes, component[:c.Type.Size()]...)
		}
		all = append(all, s)
	}
	for _, u := range l.uses[kernel] {
		if u.required && !slices.ContainsFunc(all, func(s setting) bool { return s.Index == u.Index }) {
			return nil, fmt.Errorf("function constant %s (%d) has no value: want %s", u.Name, u.Index, u.Type)
		}
	}
	return all, nil
}

// build makes the pipeline of a kernel.
func (l *Library) build(kernel string, set []setting) (p *Pipeline, err error) {
	d, m := l.device, &l.device.msg
	d.pooled(func() {
		var e nsError
		f := l.function(kernel, set, &e)
		if f == 0 {
			err = fmt.Errorf("%s", d.reason(e))
			return
		}
		defer d.rt.release(uintptr(f))
		var reflection mtlComputePipelineReflection
		state := m.deviceNewPipeline.send(d.dev, f, mtlPipelineOptionBindingInfo|mtlPipelineOptionBufferTypeInfo, &reflection, &e)
		if state == 0 {
			err = fmt.Errorf("%s", d.reason(e))
			return
		}
		p = &Pipeline{device: d, kernel: kernel, state: state,
			threads: min(int(m.pipelineThreads.send(state)), d.limits.MaxThreadsPerThreadgroup),
			static:  int(m.pipelineMemory.send(state))}
		if limit := d.limits.MaxThreadgroupMemory; p.static > limit {
			err = fmt.Errorf("%d bytes of threadgroup variables: want at most %d", p.static, limit)
			p.Release()
			return
		}
		d.each(m.reflectionBindings.send(reflection), func(o anyObject) {
			if a, ok := d.argument(mtlBinding(o)); ok {
				p.args = append(p.args, told(a, l.signatures[kernel]))
			}
		})
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// function gives a kernel with the values of its constants, 0 with an error. It
// runs in a pool.
func (l *Library) function(kernel string, set []setting, e *nsError) mtlFunction {
	d, m := l.device, &l.device.msg
	if len(set) == 0 && len(l.uses[kernel]) == 0 {
		return m.libraryFunction.send(l.lib, d.str(kernel))
	}
	values := m.valuesNew.send(classOf[mtlFunctionConstantValues](d.class.constantValues))
	defer d.rt.release(uintptr(values))
	for _, s := range set {
		m.valuesSet.send(values, unsafe.Pointer(unsafe.SliceData(s.bytes)), dataType(s.Constant), uint(s.Index))
	}
	return m.librarySpecialise.send(l.lib, d.str(kernel), values, e)
}

// argument is what reflection knows of a binding; false for one that is neither a
// buffer nor threadgroup memory.
func (d *Device) argument(b mtlBinding) (mtl.Argument, bool) {
	m := &d.msg
	a := mtl.Argument{Name: d.text(m.bindingName.send(b)), Index: int(m.bindingIndex.send(b))}
	switch m.bindingType.send(b) {
	case mtlBindingTypeBuffer:
		a.ReadOnly = m.bindingAccess.send(b) == mtlBindingAccessReadOnly
		a.ElemSize = int(m.bindingDataSize.send(mtlBufferBinding(b)))
		a.Scalar, _ = scalar(m.bindingDataType.send(mtlBufferBinding(b)))
	case mtlBindingTypeThreadgroupMemory:
		a.Threadgroup = true
		a.ElemSize = int(m.bindingMemorySize.send(mtlThreadgroupBinding(b)))
	default:
		return a, false
	}
	a.Elem = a.Scalar.String()
	return a, true
}

// told adds to an argument what the source says of it.
func told(a mtl.Argument, signature []mtl.Argument) mtl.Argument {
	for _, s := range signature {
		if s.Threadgroup == a.Threadgroup && s.Index == a.Index && s.Name == a.Name {
			return s
		}
	}
	return a
}

// Pipeline is an [mtl.Pipeline] of the device.
type Pipeline struct {
	device  *Device
	kernel  string
	args    []mtl.Argument
	threads int
	static  int

	mu       sync.Mutex
	state    mtlComputePipelineState // the Pipeline's own reference
	released bool
}

// Kernel implements [mtl.Pipeline].
func (p *Pipeline) Kernel() string { return p.kernel }

// Arguments implements [mtl.Pipeline].
func (p *Pipeline) Arguments() []mtl.Argument { return slices.Clone(p.args) }

// MaxThreadsPerThreadgroup implements [mtl.Pipeline].
func (p *Pipeline) MaxThreadsPerThreadgroup() int { return p.threads }

// StaticThreadgroupMemory implements [mtl.Pipeline].
func (p *Pipeline) StaticThreadgroupMemory() int { return p.static }

// Release implements [mtl.Pipeline]. Recorded work keeps the state.
func (p *Pipeline) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.released {
		p.released = true
		p.device.release(uintptr(p.state))
	}
}

// pipeline recognises the device's own.
func (d *Device) pipeline(p mtl.Pipeline) (*Pipeline, error) {
	own, ok := p.(*Pipeline)
	switch {
	case p == nil || ok && own == nil:
		return nil, fmt.Errorf("no pipeline")
	case !ok || own.device != d:
		return nil, fmt.Errorf("the pipeline of kernel %s belongs to another device than %s", p.Kernel(), d.name)
	}
	return own, nil
}
