package apple

import (
	"fmt"
	"reflect"
	"strings"
	"unsafe"
)

// The Objective-C objects that the device handles. Each has a type of its own,
// named as its class or protocol, so that the compiler refuses a message to, or an
// argument of, something else.
type (
	nsString                     uintptr
	nsArray                      uintptr
	nsDictionary                 uintptr
	nsError                      uintptr
	nsURL                        uintptr
	mtlDevice                    uintptr
	mtlCommandQueue              uintptr
	mtlCommandBuffer             uintptr
	mtlComputeCommandEncoder     uintptr
	mtlBuffer                    uintptr
	mtlLibrary                   uintptr
	mtlCompileOptions            uintptr
	mtlFunction                  uintptr
	mtlFunctionConstant          uintptr
	mtlFunctionConstantValues    uintptr
	mtlComputePipelineState      uintptr
	mtlComputePipelineReflection uintptr
	mtlBinding                   uintptr
	mtlBufferBinding             uintptr
	mtlThreadgroupBinding        uintptr
	mtlCaptureManager            uintptr
	mtlCaptureDescriptor         uintptr
)

type (
	// anyObject is an object of whatever class, `id`.
	anyObject uintptr
	// block is an Objective-C block.
	block uintptr
	// classOf is the class whose objects are T.
	classOf[T any] uintptr
	// selector is a registered message name.
	selector uintptr
	// void is the result of a message that has none: a register's leavings.
	void uintptr
	// mtlSize is a struct, passed by value.
	mtlSize struct{ Width, Height, Depth uint }
)

// A message with its receiver T, its arguments A to E and its result R. bind fills
// it in.
type (
	msg0[T, R any] struct {
		sel  selector
		call func(T, selector) R
	}
	msg1[T, A, R any] struct {
		sel  selector
		call func(T, selector, A) R
	}
	msg2[T, A, B, R any] struct {
		sel  selector
		call func(T, selector, A, B) R
	}
	msg3[T, A, B, C, R any] struct {
		sel  selector
		call func(T, selector, A, B, C) R
	}
	msg4[T, A, B, C, D, R any] struct {
		sel  selector
		call func(T, selector, A, B, C, D) R
	}
)

func (m *msg0[T, R]) send(to T) R                         { return m.call(to, m.sel) }
func (m *msg1[T, A, R]) send(to T, a A) R                 { return m.call(to, m.sel, a) }
func (m *msg2[T, A, B, R]) send(to T, a A, b B) R         { return m.call(to, m.sel, a, b) }
func (m *msg3[T, A, B, C, R]) send(to T, a A, b B, c C) R { return m.call(to, m.sel, a, b, c) }
func (m *msg4[T, A, B, C, D, R]) send(to T, a A, b B, c C, d D) R {
	return m.call(to, m.sel, a, b, c, d)
}

func (m *msg0[T, R]) slot() (*selector, any)             { return &m.sel, &m.call }
func (m *msg1[T, A, R]) slot() (*selector, any)          { return &m.sel, &m.call }
func (m *msg2[T, A, B, R]) slot() (*selector, any)       { return &m.sel, &m.call }
func (m *msg3[T, A, B, C, R]) slot() (*selector, any)    { return &m.sel, &m.call }
func (m *msg4[T, A, B, C, D, R]) slot() (*selector, any) { return &m.sel, &m.call }

// messages is the table of every Objective-C message that the device sends: a tag
// has the class or protocol that declares it and its selector, the field's type
// the receiver, the arguments and the result. Nothing else sends messages, so the
// compiler holds every use against the table; a test holds the table against
// testdata/metal.tsv, which a program extracted from a published binding.
//
// A result that a method of the families new, alloc, copy and init gives is the
// caller's to release; any other lives until the autorelease pool around the call
// ends.
type messages struct {
	stringWithUTF8 msg1[classOf[nsString], *byte, nsString] `objc:"NSString stringWithUTF8String:"`
	stringUTF8     msg0[nsString, *byte]                    `objc:"NSString UTF8String"`

	arrayCount    msg0[nsArray, uint]            `objc:"NSArray count"`
	arrayAt       msg1[nsArray, uint, anyObject] `objc:"NSArray objectAtIndex:"`
	dictionaryAll msg0[nsDictionary, nsArray]    `objc:"NSDictionary allValues"`

	errorDescription msg0[nsError, nsString]               `objc:"NSError localizedDescription"`
	errorCode        msg0[nsError, int]                    `objc:"NSError code"`
	urlOfFile        msg1[classOf[nsURL], nsString, nsURL] `objc:"NSURL fileURLWithPath:"`

	deviceName         msg0[mtlDevice, nsString]                                                                                         `objc:"MTLDevice name"`
	deviceUnified      msg0[mtlDevice, bool]                                                                                             `objc:"MTLDevice hasUnifiedMemory"`
	deviceMaxBuffer    msg0[mtlDevice, uint]                                                                                             `objc:"MTLDevice maxBufferLength"`
	deviceMaxMemory    msg0[mtlDevice, uint]                                                                                             `objc:"MTLDevice maxThreadgroupMemoryLength"`
	deviceMaxThreads   msg0[mtlDevice, mtlSize]                                                                                          `objc:"MTLDevice maxThreadsPerThreadgroup"`
	deviceNewQueue     msg0[mtlDevice, mtlCommandQueue]                                                                                  `objc:"MTLDevice newCommandQueue"`
	deviceNewBuffer    msg2[mtlDevice, uint, mtlResourceOptions, mtlBuffer]                                                              `objc:"MTLDevice newBufferWithLength:options:"`
	deviceWrap         msg4[mtlDevice, unsafe.Pointer, uint, mtlResourceOptions, block, mtlBuffer]                                       `objc:"MTLDevice newBufferWithBytesNoCopy:length:options:deallocator:"`
	deviceNewLibrary   msg3[mtlDevice, nsString, mtlCompileOptions, *nsError, mtlLibrary]                                                `objc:"MTLDevice newLibraryWithSource:options:error:"`
	deviceLoadLibrary  msg2[mtlDevice, nsURL, *nsError, mtlLibrary]                                                                      `objc:"MTLDevice newLibraryWithURL:error:"`
	deviceNewPipeline  msg4[mtlDevice, mtlFunction, mtlPipelineOption, *mtlComputePipelineReflection, *nsError, mtlComputePipelineState] `objc:"MTLDevice newComputePipelineStateWithFunction:options:reflection:error:"`
	optionsNew         msg0[classOf[mtlCompileOptions], mtlCompileOptions]                                                               `objc:"MTLCompileOptions new"`
	optionsSetFastMath msg1[mtlCompileOptions, bool, void]                                                                               `objc:"MTLCompileOptions setFastMathEnabled:"`
	optionsSetVersion  msg1[mtlCompileOptions, mtlLanguageVersion, void]                                                                 `objc:"MTLCompileOptions setLanguageVersion:"`

	libraryNames      msg0[mtlLibrary, nsArray]                                                    `objc:"MTLLibrary functionNames"`
	libraryFunction   msg1[mtlLibrary, nsString, mtlFunction]                                      `objc:"MTLLibrary newFunctionWithName:"`
	librarySpecialise msg3[mtlLibrary, nsString, mtlFunctionConstantValues, *nsError, mtlFunction] `objc:"MTLLibrary newFunctionWithName:constantValues:error:"`

	functionType      msg0[mtlFunction, mtlFunctionType]                                       `objc:"MTLFunction functionType"`
	functionConstants msg0[mtlFunction, nsDictionary]                                          `objc:"MTLFunction functionConstantsDictionary"`
	constantName      msg0[mtlFunctionConstant, nsString]                                      `objc:"MTLFunctionConstant name"`
	constantType      msg0[mtlFunctionConstant, mtlDataType]                                   `objc:"MTLFunctionConstant type"`
	constantIndex     msg0[mtlFunctionConstant, uint]                                          `objc:"MTLFunctionConstant index"`
	constantRequired  msg0[mtlFunctionConstant, bool]                                          `objc:"MTLFunctionConstant required"`
	valuesNew         msg0[classOf[mtlFunctionConstantValues], mtlFunctionConstantValues]      `objc:"MTLFunctionConstantValues new"`
	valuesSet         msg3[mtlFunctionConstantValues, unsafe.Pointer, mtlDataType, uint, void] `objc:"MTLFunctionConstantValues setConstantValue:type:atIndex:"`

	pipelineThreads    msg0[mtlComputePipelineState, uint]         `objc:"MTLComputePipelineState maxTotalThreadsPerThreadgroup"`
	pipelineWidth      msg0[mtlComputePipelineState, uint]         `objc:"MTLComputePipelineState threadExecutionWidth"`
	pipelineMemory     msg0[mtlComputePipelineState, uint]         `objc:"MTLComputePipelineState staticThreadgroupMemoryLength"`
	reflectionBindings msg0[mtlComputePipelineReflection, nsArray] `objc:"MTLComputePipelineReflection bindings"`
	bindingName        msg0[mtlBinding, nsString]                  `objc:"MTLBinding name"`
	bindingType        msg0[mtlBinding, mtlBindingType]            `objc:"MTLBinding type"`
	bindingAccess      msg0[mtlBinding, mtlBindingAccess]          `objc:"MTLBinding access"`
	bindingIndex       msg0[mtlBinding, uint]                      `objc:"MTLBinding index"`
	bindingDataSize    msg0[mtlBufferBinding, uint]                `objc:"MTLBufferBinding bufferDataSize"`
	bindingDataType    msg0[mtlBufferBinding, mtlDataType]         `objc:"MTLBufferBinding bufferDataType"`
	bindingMemorySize  msg0[mtlThreadgroupBinding, uint]           `objc:"MTLThreadgroupBinding threadgroupMemoryDataSize"`

	bufferContents msg0[mtlBuffer, unsafe.Pointer] `objc:"MTLBuffer contents"`
	bufferSetLabel msg1[mtlBuffer, nsString, void] `objc:"MTLResource setLabel:"`

	queueCommandBuffer msg0[mtlCommandQueue, mtlCommandBuffer]                           `objc:"MTLCommandQueue commandBuffer"`
	commandsSetLabel   msg1[mtlCommandBuffer, nsString, void]                            `objc:"MTLCommandBuffer setLabel:"`
	commandsEncoder    msg1[mtlCommandBuffer, mtlDispatchType, mtlComputeCommandEncoder] `objc:"MTLCommandBuffer computeCommandEncoderWithDispatchType:"`
	commandsCommit     msg0[mtlCommandBuffer, void]                                      `objc:"MTLCommandBuffer commit"`
	commandsOnEnd      msg1[mtlCommandBuffer, block, void]                               `objc:"MTLCommandBuffer addCompletedHandler:"`
	commandsStatus     msg0[mtlCommandBuffer, mtlCommandBufferStatus]                    `objc:"MTLCommandBuffer status"`
	commandsError      msg0[mtlCommandBuffer, nsError]                                   `objc:"MTLCommandBuffer error"`
	commandsGPUStart   msg0[mtlCommandBuffer, float64]                                   `objc:"MTLCommandBuffer GPUStartTime"`
	commandsGPUEnd     msg0[mtlCommandBuffer, float64]                                   `objc:"MTLCommandBuffer GPUEndTime"`

	encodePipeline     msg1[mtlComputeCommandEncoder, mtlComputePipelineState, void]    `objc:"MTLComputeCommandEncoder setComputePipelineState:"`
	encodeBuffer       msg3[mtlComputeCommandEncoder, mtlBuffer, uint, uint, void]      `objc:"MTLComputeCommandEncoder setBuffer:offset:atIndex:"`
	encodeBytes        msg3[mtlComputeCommandEncoder, unsafe.Pointer, uint, uint, void] `objc:"MTLComputeCommandEncoder setBytes:length:atIndex:"`
	encodeMemory       msg2[mtlComputeCommandEncoder, uint, uint, void]                 `objc:"MTLComputeCommandEncoder setThreadgroupMemoryLength:atIndex:"`
	encodeThreadgroups msg2[mtlComputeCommandEncoder, mtlSize, mtlSize, void]           `objc:"MTLComputeCommandEncoder dispatchThreadgroups:threadsPerThreadgroup:"`
	encodeThreads      msg2[mtlComputeCommandEncoder, mtlSize, mtlSize, void]           `objc:"MTLComputeCommandEncoder dispatchThreads:threadsPerThreadgroup:"`
	encodeBarrier      msg1[mtlComputeCommandEncoder, mtlBarrierScope, void]            `objc:"MTLComputeCommandEncoder memoryBarrierWithScope:"`
	encodePush         msg1[mtlComputeCommandEncoder, nsString, void]                   `objc:"MTLCommandEncoder pushDebugGroup:"`
	encodePop          msg0[mtlComputeCommandEncoder, void]                             `objc:"MTLCommandEncoder popDebugGroup"`
	encodeEnd          msg0[mtlComputeCommandEncoder, void]                             `objc:"MTLCommandEncoder endEncoding"`

	captureShared         msg0[classOf[mtlCaptureManager], mtlCaptureManager]           `objc:"MTLCaptureManager sharedCaptureManager"`
	captureSupports       msg1[mtlCaptureManager, mtlCaptureDestination, bool]          `objc:"MTLCaptureManager supportsDestination:"`
	captureStart          msg2[mtlCaptureManager, mtlCaptureDescriptor, *nsError, bool] `objc:"MTLCaptureManager startCaptureWithDescriptor:error:"`
	captureStop           msg0[mtlCaptureManager, void]                                 `objc:"MTLCaptureManager stopCapture"`
	captureNew            msg0[classOf[mtlCaptureDescriptor], mtlCaptureDescriptor]     `objc:"MTLCaptureDescriptor new"`
	captureSetObject      msg1[mtlCaptureDescriptor, anyObject, void]                   `objc:"MTLCaptureDescriptor setCaptureObject:"`
	captureSetDestination msg1[mtlCaptureDescriptor, mtlCaptureDestination, void]       `objc:"MTLCaptureDescriptor setDestination:"`
	captureSetURL         msg1[mtlCaptureDescriptor, nsURL, void]                       `objc:"MTLCaptureDescriptor setOutputURL:"`
}

// classes are those that messages are sent to.
type classes struct {
	str, url, compileOptions, constantValues, captureManager, captureDescriptor uintptr
}

// objects is the Objective-C runtime as far as the device needs it: libobjc and
// the frameworks on macOS, a stand-in in tests.
type objects interface {
	// bind registers a message's name and points *call, a func of the receiver, the
	// selector and the arguments, at what sends it.
	bind(name string, call any) (selector, error)
	// class finds a class, 0 if there is none.
	class(name string) uintptr
	// retain and release count references to an object.
	retain(object uintptr)
	release(object uintptr)
	// handler makes a block of one argument that calls f, on whatever thread. It is
	// the caller's to release; who calls it keeps it by itself.
	handler(f func()) block
	// push opens an autorelease pool on this thread, pop ends it.
	push() uintptr
	pop(pool uintptr)
	// systemDevice makes the default device, the caller's to release; 0 if there
	// is none.
	systemDevice() mtlDevice
}

// message is a field of messages.
type message interface{ slot() (*selector, any) }

// bind fills in all of the table.
func (m *messages) bind(o objects) error {
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		// An unexported field's address, without reflection's guard against others.
		field := reflect.NewAt(v.Field(i).Type(), v.Field(i).Addr().UnsafePointer()).Interface()
		sel, call := field.(message).slot()
		_, name, _ := strings.Cut(v.Type().Field(i).Tag.Get("objc"), " ")
		var err error
		if *sel, err = o.bind(name, call); err != nil {
			return fmt.Errorf("message %s: %w", name, err)
		}
	}
	return nil
}

// find looks up every class.
func (c *classes) find(o objects) error {
	for _, x := range []struct {
		name string
		to   *uintptr
	}{
		{"NSString", &c.str}, {"NSURL", &c.url}, {"MTLCompileOptions", &c.compileOptions},
		{"MTLFunctionConstantValues", &c.constantValues}, {"MTLCaptureManager", &c.captureManager},
		{"MTLCaptureDescriptor", &c.captureDescriptor},
	} {
		if *x.to = o.class(x.name); *x.to == 0 {
			return fmt.Errorf("no class %s in this macOS", x.name)
		}
	}
	return nil
}
