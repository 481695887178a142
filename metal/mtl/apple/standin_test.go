package apple

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
	"unsafe"

	"minfer/metal/msl"
	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/metal/mtl/soft/san"
)

// standin is an Objective-C runtime with as much of Metal as the device uses, on a
// software device that looks for races. It counts references, and notes every use
// of an object that is gone, message to an object of another class, object that is
// left to no pool, release too many, and misuse of an encoder.
type standin struct {
	soft *soft.Device
	// unended, where not nil, holds the end of work up.
	unended chan struct{}
	// committed, where not nil, is called in a commit, once the work has ended.
	committed func()
	noDevice, noCapture,
	noMemory, noQueue bool

	mu       sync.Mutex
	next     uintptr
	objects  map[uintptr]*object
	pools    map[string][][]uintptr // by goroutine, the innermost last
	names    map[string]selector
	faults   []string
	sends    map[string]int // by message
	captured []string
}

// object is a live one, or a class. class is the Go type's name.
type object struct {
	class string
	id    uintptr
	refs  int
	value any
	holds []uintptr // released with it
}

// The values of objects.
type (
	buffer_ struct {
		mem  mtl.Buffer
		data []byte
	}
	library_ struct {
		soft mtl.Library
		msl  *msl.Library
	}
	function_ struct {
		library *library_
		name    string
		values  map[string]any
	}
	options_ struct {
		fast    bool
		version mtlLanguageVersion
	}
	commands_ struct {
		soft             mtl.CommandBuffer
		label            string
		ended, committed bool
		onEnd            []func()
		mu               sync.Mutex
		status           mtlCommandBufferStatus
		fault            string
	}
	encoder_ struct {
		commands *object
		pipeline mtl.Pipeline
		bound    map[int]mtl.Binding
		memory   [31]int
		groups   []string // open debug groups
	}
)

func newStandin() *standin {
	dev, err := soft.New(soft.Options{Threads: 2, Mode: san.Race})
	if err != nil {
		panic(err)
	}
	s := &standin{soft: dev, objects: map[uintptr]*object{}, pools: map[string][][]uintptr{}, names: map[string]selector{}, sends: map[string]int{}}
	return s
}

// fault notes what a device must not do.
func (s *standin) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// live counts objects by class, but classes.
func (s *standin) live() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := map[string]int{}
	for _, o := range s.objects {
		if o.refs < forever {
			n[o.class]++
		}
	}
	return n
}

// forever is the count of what is never freed.
const forever = 1 << 30

// make adds an object that its maker owns.
func (s *standin) make(class string, value any, holds ...uintptr) uintptr {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next += 16
	s.objects[s.next] = &object{class: class, id: s.next, refs: 1, value: value, holds: holds}
	for _, h := range holds {
		s.objects[h].refs++
	}
	return s.next
}

// auto leaves an object to the innermost pool.
func (s *standin) auto(id uintptr) uintptr {
	g := goroutine()
	s.mu.Lock()
	if pools := s.pools[g]; len(pools) > 0 { // else the message is a fault
		pools[len(pools)-1] = append(pools[len(pools)-1], id)
	}
	s.mu.Unlock()
	return id
}

// pooled notes what happens with no pool around.
func (s *standin) pooled(what string) {
	g := goroutine()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pools[g]) == 0 {
		s.faults = append(s.faults, what+" with no pool around")
	}
}

func (s *standin) str(text string) uintptr {
	return s.auto(s.make("nsString", append([]byte(text), 0)))
}

func (s *standin) array(ids []uintptr) uintptr {
	a := s.auto(s.make("nsArray", ids, ids...))
	return a
}

func (s *standin) get(id uintptr, class string) *object {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[id]
	switch {
	case o == nil:
		s.faults = append(s.faults, fmt.Sprintf("%s %d is gone", class, id))
		return &object{}
	case class != "" && o.class != class:
		s.faults = append(s.faults, fmt.Sprintf("a %s where %s is wanted", o.class, class))
	}
	return o
}

// goroutine is this one's number: what is locked to a thread stays on it.
func goroutine() string {
	text := make([]byte, 64)
	text = text[:runtime.Stack(text, false)]
	return strings.Fields(string(text))[1]
}

func (s *standin) class(name string) uintptr {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next += 16
	s.objects[s.next] = &object{class: "class " + name, id: s.next, refs: forever}
	return s.next
}

func (s *standin) retain(id uintptr) {
	o := s.get(id, "")
	s.mu.Lock()
	o.refs++
	s.mu.Unlock()
}

// release is one of the device's.
func (s *standin) release(id uintptr) {
	s.pooled("a release of " + s.get(id, "").class)
	s.drop(id)
}

// drop takes a reference away.
func (s *standin) drop(id uintptr) {
	o := s.get(id, "")
	s.mu.Lock()
	o.refs--
	gone := o.refs == 0
	if gone {
		delete(s.objects, id)
	}
	s.mu.Unlock()
	if !gone {
		return
	}
	switch v := o.value.(type) {
	case *commands_:
		if !v.committed {
			v.soft.Discard()
		}
	case *encoder_:
		if !v.commands.value.(*commands_).ended {
			s.fault("an encoder goes that was not ended")
		}
	case *buffer_:
		v.mem.Release()
	}
	for _, h := range o.holds {
		s.drop(h)
	}
}

func (s *standin) push() uintptr {
	g := goroutine()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools[g] = append(s.pools[g], nil)
	return uintptr(len(s.pools[g]))
}

func (s *standin) pop(pool uintptr) {
	g := goroutine()
	s.mu.Lock()
	if len(s.pools[g]) != int(pool) {
		s.faults = append(s.faults, fmt.Sprintf("pool %d ends among %d", pool, len(s.pools[g])))
		s.mu.Unlock()
		return
	}
	ids := s.pools[g][pool-1]
	s.pools[g] = s.pools[g][:pool-1]
	s.mu.Unlock()
	for _, id := range ids {
		s.drop(id)
	}
}

func (s *standin) systemDevice() mtlDevice {
	if s.noDevice {
		return 0
	}
	return mtlDevice(s.make("mtlDevice", nil))
}

// receiver is the class of a message's receiver, "class NSString" of a class.
func receiver(t reflect.Type) string {
	if of, ok := strings.CutPrefix(t.Name(), "classOf["); ok {
		return "class " + objcName(strings.TrimSuffix(of[strings.LastIndex(of, ".")+1:], "]"))
	}
	return t.Name()
}

// bind makes call run the message's handler.
func (s *standin) bind(name string, call any) (selector, error) {
	fn := reflect.ValueOf(call).Elem()
	t := fn.Type()
	class := receiver(t.In(0))
	key := class + " " + name
	handle, ok := handlers[key]
	if !ok {
		return 0, fmt.Errorf("the stand-in has no %s", key)
	}
	if _, ok := s.names[name]; !ok {
		s.names[name] = selector(len(s.names) + 1)
	}
	sel := s.names[name]
	fn.Set(reflect.MakeFunc(t, func(in []reflect.Value) []reflect.Value {
		s.mu.Lock()
		s.sends[name]++
		s.mu.Unlock()
		s.pooled(key)
		if got := in[1].Interface().(selector); got != sel {
			s.fault("%s is sent as selector %d", key, got)
		}
		to := class
		if to == "mtlBufferBinding" || to == "mtlThreadgroupBinding" {
			to = "mtlBinding"
		}
		o := s.get(uintptr(in[0].Uint()), to)
		args := make([]any, len(in)-2)
		for i := range args {
			args[i] = in[i+2].Interface()
			if v := in[i+2]; v.Kind() == reflect.Uintptr && v.Uint() != 0 && v.Type() != reflect.TypeFor[anyObject]() {
				s.get(uintptr(v.Uint()), v.Type().Name())
			}
		}
		result := handle(s, o, args)
		out := reflect.New(t.Out(0)).Elem()
		if result != nil {
			out.Set(reflect.ValueOf(result).Convert(t.Out(0)))
		}
		return []reflect.Value{out}
	}))
	return sel, nil
}

func (s *standin) fail(to any, format string, args ...any) {
	*to.(*nsError) = nsError(s.auto(s.make("nsError", fmt.Sprintf(format, args...))))
}

func (s *standin) goString(arg any) string {
	b, _ := s.get(uintptr(arg.(nsString)), "nsString").value.([]byte)
	return strings.TrimSuffix(string(b), "\x00")
}

func (s *standin) encoder(o *object) *encoder_ {
	e := o.value.(*encoder_)
	if e.commands.value.(*commands_).ended {
		s.fault("an encoder is used that was ended")
	}
	return e
}

func (s *standin) launch(o *object, d mtl.Dispatch) {
	e := s.encoder(o)
	d.Pipeline, d.Label = e.pipeline, "launch"
	if len(e.groups) > 0 {
		d.Label = e.groups[len(e.groups)-1]
	}
	for _, b := range e.bound {
		d.Bindings = append(d.Bindings, b)
	}
	if args := e.pipeline.Arguments(); true {
		// Metal keeps the lengths of threadgroup memory; the software device counts
		// what a kernel does not have.
		for _, a := range args {
			if a.Threadgroup {
				for len(d.ThreadgroupMemory) <= a.Index {
					d.ThreadgroupMemory = append(d.ThreadgroupMemory, 0)
				}
				d.ThreadgroupMemory[a.Index] = e.memory[a.Index]
			}
		}
	}
	if err := e.commands.value.(*commands_).soft.Dispatch(d); err != nil {
		s.fault("Metal would abort: %v", err)
	}
}

func goSize(arg any) mtl.Size {
	s := arg.(mtlSize)
	return mtl.Size{X: int(s.Width), Y: int(s.Height), Z: int(s.Depth)}
}

// newBuffer makes a buffer over page-aligned memory.
func (s *standin) newBuffer(data []byte) any {
	mem, err := s.soft.WrapNoCopy(data, "memory")
	if err != nil {
		s.fault("Metal gives no buffer: %v", err)
		return nil
	}
	return s.make("mtlBuffer", &buffer_{mem, data})
}

func (s *standin) aligned(n int) []byte {
	page := s.soft.Limits().PageSize
	raw := make([]byte, n+2*page)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(raw))) & uintptr(page-1))
	return raw[skip : skip+n : skip+(n+page-1)/page*page]
}

// handlers are the messages, by receiver and name.
var handlers map[string]func(s *standin, o *object, a []any) any

func init() {
	type h = func(s *standin, o *object, a []any) any
	value := func(x any) h { return func(*standin, *object, []any) any { return x } }
	handlers = map[string]h{
		"class NSString stringWithUTF8String:": func(s *standin, _ *object, a []any) any {
			p, n := a[0].(*byte), 0
			for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
				n++
			}
			if text := unsafe.String(p, n); utf8.ValidString(text) {
				return s.str(text)
			}
			return nil
		},
		"nsString UTF8String": func(_ *standin, o *object, _ []any) any { return unsafe.SliceData(o.value.([]byte)) },
		"nsArray count":       func(_ *standin, o *object, _ []any) any { return len(o.value.([]uintptr)) },
		"nsArray objectAtIndex:": func(_ *standin, o *object, a []any) any {
			return o.value.([]uintptr)[a[0].(uint)]
		},
		"nsDictionary allValues":               func(s *standin, o *object, _ []any) any { return s.array(o.value.([]uintptr)) },
		"nsError localizedDescription":         func(s *standin, o *object, _ []any) any { return s.str(o.value.(string)) },
		"nsError code":                         value(7),
		"class NSURL fileURLWithPath:":         func(s *standin, _ *object, a []any) any { return s.auto(s.make("nsURL", s.goString(a[0]))) },
		"mtlDevice name":                       func(s *standin, _ *object, _ []any) any { return s.str("Stand-in M0") },
		"mtlDevice hasUnifiedMemory":           value(true),
		"mtlDevice maxBufferLength":            value(1 << 33),
		"mtlDevice maxThreadgroupMemoryLength": value(32768),
		"mtlDevice maxThreadsPerThreadgroup":   value(mtlSize{1024, 1024, 1024}),
		"mtlDevice newCommandQueue": func(s *standin, _ *object, _ []any) any {
			if s.noQueue {
				return nil
			}
			return s.make("mtlCommandQueue", nil)
		},
		"mtlDevice newBufferWithLength:options:": func(s *standin, _ *object, a []any) any {
			if s.noMemory {
				return nil
			}
			return s.newBuffer(s.aligned(int(a[0].(uint))))
		},
		"mtlDevice newBufferWithBytesNoCopy:length:options:deallocator:": func(s *standin, _ *object, a []any) any {
			page := uintptr(s.soft.Limits().PageSize)
			if p := uintptr(a[0].(unsafe.Pointer)); p%page != 0 || uintptr(a[1].(uint))%page != 0 {
				s.fault("Metal would refuse memory at %x of %d bytes", p, a[1])
				return nil
			}
			return s.newBuffer(unsafe.Slice((*byte)(a[0].(unsafe.Pointer)), a[1].(uint)))
		},
		"mtlDevice newLibraryWithSource:options:error:": func(s *standin, _ *object, a []any) any {
			o := s.get(uintptr(a[1].(mtlCompileOptions)), "mtlCompileOptions").value.(*options_)
			if o.version != mtlLanguageVersion3_1 {
				s.fault("language version %x", o.version)
			}
			return s.library(s.goString(a[0]), o.fast, a[2])
		},
		"mtlDevice newLibraryWithURL:error:": func(s *standin, _ *object, a []any) any {
			path := s.get(uintptr(a[0].(nsURL)), "nsURL").value.(string)
			text, ok := metallibs[path]
			if !ok {
				s.fail(a[1], "no library at %s", path)
				return nil
			}
			return s.library(text, true, a[1])
		},
		"mtlDevice newComputePipelineStateWithFunction:options:reflection:error:": func(s *standin, _ *object, a []any) any {
			f := s.get(uintptr(a[0].(mtlFunction)), "mtlFunction").value.(*function_)
			p, err := f.library.soft.Pipeline(f.name, f.values)
			if err != nil {
				s.fail(a[3], "%v", err)
				return nil
			}
			var bindings []uintptr
			for _, arg := range p.Arguments() {
				bindings = append(bindings, s.auto(s.make("mtlBinding", arg)))
			}
			list := s.array(bindings)
			*a[2].(*mtlComputePipelineReflection) = mtlComputePipelineReflection(s.auto(s.make("mtlComputePipelineReflection", list, list)))
			return s.make("mtlComputePipelineState", p)
		},
		"class MTLCompileOptions new": func(s *standin, _ *object, _ []any) any { return s.make("mtlCompileOptions", &options_{}) },
		"mtlCompileOptions setFastMathEnabled:": func(_ *standin, o *object, a []any) any {
			o.value.(*options_).fast = a[0].(bool)
			return nil
		},
		"mtlCompileOptions setLanguageVersion:": func(_ *standin, o *object, a []any) any {
			o.value.(*options_).version = a[0].(mtlLanguageVersion)
			return nil
		},
		"mtlLibrary functionNames": func(s *standin, o *object, _ []any) any {
			names := []uintptr{}
			for _, name := range o.value.(*library_).soft.Kernels() {
				names = append(names, s.str(name))
			}
			return s.array(names)
		},
		"mtlLibrary newFunctionWithName:": func(s *standin, o *object, a []any) any {
			return s.make("mtlFunction", &function_{library: o.value.(*library_), name: s.goString(a[0])})
		},
		"mtlLibrary newFunctionWithName:constantValues:error:": func(s *standin, o *object, a []any) any {
			values := s.get(uintptr(a[1].(mtlFunctionConstantValues)), "mtlFunctionConstantValues").value.(map[string]any)
			lib, name := o.value.(*library_), s.goString(a[0])
			if _, err := lib.soft.Pipeline(name, values); err != nil {
				s.fail(a[2], "%v", err)
				return nil
			}
			return s.make("mtlFunction", &function_{lib, name, values})
		},
		"mtlFunction functionType":                value(mtlFunctionTypeKernel),
		"mtlFunction functionConstantsDictionary": func(s *standin, o *object, _ []any) any { return s.constants(o.value.(*function_)) },
		"mtlFunctionConstant name":                func(s *standin, o *object, _ []any) any { return s.str(o.value.(use).Name) },
		"mtlFunctionConstant type":                func(_ *standin, o *object, _ []any) any { return dataType(o.value.(use).Constant) },
		"mtlFunctionConstant index":               func(_ *standin, o *object, _ []any) any { return o.value.(use).Index },
		"mtlFunctionConstant required":            func(_ *standin, o *object, _ []any) any { return o.value.(use).required },
		"class MTLFunctionConstantValues new":     func(s *standin, _ *object, _ []any) any { return s.make("mtlFunctionConstantValues", map[string]any{}) },
		"mtlFunctionConstantValues setConstantValue:type:atIndex:": func(s *standin, o *object, a []any) any {
			o.value.(map[string]any)[fmt.Sprint(a[2])] = constantValue(a[0].(unsafe.Pointer), a[1].(mtlDataType))
			return nil
		},
		"mtlComputePipelineState maxTotalThreadsPerThreadgroup": func(_ *standin, o *object, _ []any) any {
			return o.value.(mtl.Pipeline).MaxThreadsPerThreadgroup()
		},
		"mtlComputePipelineState threadExecutionWidth": value(32),
		"mtlComputePipelineState staticThreadgroupMemoryLength": func(_ *standin, o *object, _ []any) any {
			return o.value.(mtl.Pipeline).StaticThreadgroupMemory()
		},
		"mtlComputePipelineReflection bindings": func(s *standin, o *object, _ []any) any { return o.value },
		"mtlBinding name":                       func(s *standin, o *object, _ []any) any { return s.str(o.value.(mtl.Argument).Name) },
		"mtlBinding type": func(_ *standin, o *object, _ []any) any {
			if o.value.(mtl.Argument).Threadgroup {
				return mtlBindingTypeThreadgroupMemory
			}
			return mtlBindingTypeBuffer
		},
		"mtlBinding access": func(_ *standin, o *object, _ []any) any {
			if o.value.(mtl.Argument).ReadOnly {
				return mtlBindingAccessReadOnly
			}
			return mtlBindingAccessReadOnly + 1
		},
		"mtlBinding index":                func(_ *standin, o *object, _ []any) any { return o.value.(mtl.Argument).Index },
		"mtlBufferBinding bufferDataSize": func(_ *standin, o *object, _ []any) any { return o.value.(mtl.Argument).ElemSize },
		"mtlBufferBinding bufferDataType": func(_ *standin, o *object, _ []any) any {
			return dataType(mtl.Constant{Type: o.value.(mtl.Argument).Scalar, Count: 1})
		},
		"mtlThreadgroupBinding threadgroupMemoryDataSize": func(_ *standin, o *object, _ []any) any { return o.value.(mtl.Argument).ElemSize },
		"mtlBuffer contents": func(_ *standin, o *object, _ []any) any {
			return unsafe.Pointer(unsafe.SliceData(o.value.(*buffer_).data))
		},
		"mtlBuffer setLabel:": func(s *standin, _ *object, a []any) any { s.goString(a[0]); return nil },
		"mtlCommandQueue commandBuffer": func(s *standin, _ *object, _ []any) any {
			cb, err := s.soft.NewCommandBuffer("commands")
			if err != nil {
				s.fault("%v", err)
			}
			return s.auto(s.make("mtlCommandBuffer", &commands_{soft: cb}))
		},
		"mtlCommandBuffer setLabel:": func(s *standin, o *object, a []any) any {
			o.value.(*commands_).label = s.goString(a[0])
			return nil
		},
		"mtlCommandBuffer computeCommandEncoderWithDispatchType:": func(s *standin, o *object, a []any) any {
			if a[0].(mtlDispatchType) != mtlDispatchTypeConcurrent {
				s.fault("a serial encoder")
			}
			return s.auto(s.make("mtlComputeCommandEncoder", &encoder_{commands: o, bound: map[int]mtl.Binding{}}))
		},
		"mtlCommandBuffer addCompletedHandler:": func(s *standin, o *object, a []any) any {
			c := o.value.(*commands_)
			if c.committed {
				s.fault("a handler for what was committed")
			}
			c.onEnd = append(c.onEnd, s.hold(o, uintptr(a[0].(block))).value.(func()))
			return nil
		},
		"mtlCommandBuffer commit": func(s *standin, o *object, _ []any) any {
			c := o.value.(*commands_)
			if !c.ended || c.committed {
				s.fault("a commit of a command buffer that was ended %v, committed %v", c.ended, c.committed)
				return nil
			}
			c.committed = true
			s.retain(o.id) // to its end
			if s.committed != nil {
				s.run(o)
				s.committed()
				return nil
			}
			go s.run(o)
			return nil
		},
		"mtlCommandBuffer status": func(_ *standin, o *object, _ []any) any {
			c := o.value.(*commands_)
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.status
		},
		"mtlCommandBuffer error": func(s *standin, o *object, _ []any) any {
			return s.auto(s.make("nsError", o.value.(*commands_).fault))
		},
		"mtlCommandBuffer GPUStartTime": value(100.5),
		"mtlCommandBuffer GPUEndTime":   value(100.75),
		"mtlComputeCommandEncoder setComputePipelineState:": func(s *standin, o *object, a []any) any {
			s.encoder(o).pipeline = s.hold(o, uintptr(a[0].(mtlComputePipelineState))).value.(mtl.Pipeline)
			return nil
		},
		"mtlComputeCommandEncoder setBuffer:offset:atIndex:": func(s *standin, o *object, a []any) any {
			b := s.hold(o, uintptr(a[0].(mtlBuffer))).value.(*buffer_)
			off := int(a[1].(uint))
			s.encoder(o).bound[int(a[2].(uint))] = mtl.Binding{Index: int(a[2].(uint)), Buffer: b.mem, Offset: off, Length: b.mem.Size() - off, Access: mtl.ReadWrite}
			return nil
		},
		"mtlComputeCommandEncoder setBytes:length:atIndex:": func(s *standin, o *object, a []any) any {
			data := unsafe.Slice((*byte)(a[0].(unsafe.Pointer)), a[1].(uint))
			s.encoder(o).bound[int(a[2].(uint))] = mtl.Binding{Index: int(a[2].(uint)), Bytes: append([]byte(nil), data...)}
			return nil
		},
		"mtlComputeCommandEncoder setThreadgroupMemoryLength:atIndex:": func(s *standin, o *object, a []any) any {
			s.encoder(o).memory[a[1].(uint)] = int(a[0].(uint))
			return nil
		},
		"mtlComputeCommandEncoder dispatchThreadgroups:threadsPerThreadgroup:": func(s *standin, o *object, a []any) any {
			s.launch(o, mtl.Dispatch{Threadgroups: goSize(a[0]), ThreadsPerThreadgroup: goSize(a[1])})
			return nil
		},
		"mtlComputeCommandEncoder dispatchThreads:threadsPerThreadgroup:": func(s *standin, o *object, a []any) any {
			s.launch(o, mtl.Dispatch{Threads: goSize(a[0]), ThreadsPerThreadgroup: goSize(a[1])})
			return nil
		},
		"mtlComputeCommandEncoder memoryBarrierWithScope:": func(s *standin, o *object, a []any) any {
			if a[0].(mtlBarrierScope) == mtlBarrierScopeBuffers {
				s.encoder(o).commands.value.(*commands_).soft.Barrier()
			}
			return nil
		},
		"mtlComputeCommandEncoder pushDebugGroup:": func(s *standin, o *object, a []any) any {
			e := s.encoder(o)
			e.groups = append(e.groups, s.goString(a[0]))
			return nil
		},
		"mtlComputeCommandEncoder popDebugGroup": func(s *standin, o *object, _ []any) any {
			if e := s.encoder(o); len(e.groups) == 0 {
				s.fault("no debug group to end")
			} else {
				e.groups = e.groups[:len(e.groups)-1]
			}
			return nil
		},
		"mtlComputeCommandEncoder endEncoding": func(s *standin, o *object, _ []any) any {
			s.encoder(o).commands.value.(*commands_).ended = true
			return nil
		},
		"class MTLCaptureManager sharedCaptureManager": func(s *standin, o *object, _ []any) any {
			return s.auto(s.make("mtlCaptureManager", nil))
		},
		"mtlCaptureManager supportsDestination:": func(s *standin, _ *object, a []any) any {
			return !s.noCapture && a[0].(mtlCaptureDestination) == mtlCaptureDestinationGPUTraceDocument
		},
		"mtlCaptureManager startCaptureWithDescriptor:error:": func(s *standin, _ *object, a []any) any {
			d := s.get(uintptr(a[0].(mtlCaptureDescriptor)), "mtlCaptureDescriptor").value.(map[string]any)
			if s.get(uintptr(d["object"].(anyObject)), "mtlDevice"); d["destination"] != mtlCaptureDestinationGPUTraceDocument {
				s.fault("a capture to %v", d["destination"])
			}
			path := s.get(uintptr(d["url"].(nsURL)), "nsURL").value.(string)
			if strings.Contains(path, "refused") {
				s.fail(a[1], "cannot capture")
				return false
			}
			s.captured = append(s.captured, "start "+path)
			return true
		},
		"mtlCaptureManager stopCapture": func(s *standin, _ *object, _ []any) any {
			s.captured = append(s.captured, "stop")
			return nil
		},
		"class MTLCaptureDescriptor new": func(s *standin, _ *object, _ []any) any { return s.make("mtlCaptureDescriptor", map[string]any{}) },
		"mtlCaptureDescriptor setCaptureObject:": func(_ *standin, o *object, a []any) any {
			o.value.(map[string]any)["object"] = a[0]
			return nil
		},
		"mtlCaptureDescriptor setDestination:": func(_ *standin, o *object, a []any) any {
			o.value.(map[string]any)["destination"] = a[0]
			return nil
		},
		"mtlCaptureDescriptor setOutputURL:": func(_ *standin, o *object, a []any) any {
			o.value.(map[string]any)["url"] = a[0]
			return nil
		},
	}
}

// hold makes a command buffer, or an encoder's, keep an object to its end.
func (s *standin) hold(by *object, id uintptr) *object {
	o := s.get(id, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	o.refs++
	if e, ok := by.value.(*encoder_); ok {
		by = e.commands
	}
	by.holds = append(by.holds, id)
	return o
}

// handler makes a block.
func (s *standin) handler(f func()) block { return block(s.make("block", f)) }

// run is the GPU, and the thread of Metal's that tells of the end.
func (s *standin) run(o *object) {
	if s.unended != nil {
		<-s.unended
	}
	c := o.value.(*commands_)
	_, err := c.soft.Submit(context.Background())
	c.mu.Lock()
	c.status = mtlCommandBufferStatusCompleted
	if err != nil {
		c.status, c.fault = mtlCommandBufferStatusError, err.Error()
	}
	c.mu.Unlock()
	// Before the handlers, so that a test that counts objects after a submit finds none
	// of this one's own; the caller's reference keeps it.
	onEnd := c.onEnd
	s.drop(o.id)
	for _, f := range onEnd {
		f()
	}
}

// metallibs are the libraries in files, as their sources.
var metallibs = map[string]string{}

// library compiles a text as Metal would: all in one, places by line directives.
func (s *standin) library(text string, fast bool, e any) any {
	lib, err := s.soft.Compile(context.Background(), mtl.Source{Name: "program_source", Text: text, FastMath: fast})
	if err != nil {
		s.fail(e, "%v", placed(text, err.Error()))
		return nil
	}
	source, err := msl.Compile(oneFile(text), "program_source", msl.Options{Safe: !fast})
	if err = errors.Join(err, source.Err()); err != nil {
		s.fail(e, "%v", err)
		return nil
	}
	return s.make("mtlLibrary", &library_{lib, source})
}

// constants are a kernel's, of which those are required without which it does not
// specialise.
func (s *standin) constants(f *function_) any {
	info, _ := f.library.msl.Kernel(f.name)
	stand := func(but int) map[string]any {
		all := map[string]any{}
		for _, c := range f.library.soft.Constants() {
			var v any = 1
			switch {
			case c.Index == but:
				continue
			case c.Type == mtl.Bool:
				v = true
			case c.Type.Float():
				v = 1.0
			case c.Count > 1:
				v = make([]int, c.Count)
			}
			all[fmt.Sprint(c.Index)] = v
		}
		return all
	}
	var ids []uintptr
	for _, c := range f.library.soft.Constants() {
		for _, k := range info.Constants {
			if k.Index == c.Index {
				_, err := f.library.soft.Pipeline(f.name, stand(c.Index))
				ids = append(ids, s.auto(s.make("mtlFunctionConstant", use{c, err != nil})))
			}
		}
	}
	return s.auto(s.make("nsDictionary", ids, ids...))
}

// constantValue reads a constant from memory.
func constantValue(p unsafe.Pointer, t mtlDataType) any {
	kind, n := scalar(t)
	var all []any
	for i := range n {
		at := unsafe.Add(p, i*kind.Size())
		switch kind {
		case mtl.Bool:
			all = append(all, *(*byte)(at) == 1)
		case mtl.Float32:
			all = append(all, *(*float32)(at))
		case mtl.Float16:
			all = append(all, halfValue(*(*uint16)(at)))
		case mtl.Int16:
			all = append(all, *(*int16)(at))
		case mtl.Int32:
			all = append(all, *(*int32)(at))
		case mtl.Uint32:
			all = append(all, *(*uint32)(at))
		default:
			panic(fmt.Sprintf("a constant of %v", kind))
		}
	}
	if n == 1 {
		return all[0]
	}
	return all
}

// placed follows the line directives of a text, which the front end ignores, in a
// message about it.
func placed(text, message string) string {
	var places []string
	name, line := "program_source", 0
	for l := range strings.Lines(text) {
		line++
		places = append(places, fmt.Sprintf("%s:%d:", name, line))
		if n, err := fmt.Sscanf(l, "#line %d %q", &line, &name); err == nil && n == 2 {
			line--
		}
	}
	return regexp.MustCompile(`program_source:(\d+):`).ReplaceAllStringFunc(message, func(at string) string {
		n, _ := strconv.Atoi(at[len("program_source:") : len(at)-1])
		return places[n-1]
	})
}
