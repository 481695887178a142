//go:build !static

package apple

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"

	"github.com/ebitengine/purego"
	"github.com/ebitengine/purego/objc"
)

// cocoa is the Objective-C runtime of macOS. Its functions are those that compilers
// call for automatic reference counting.
type cocoa struct {
	send, sendStruct uintptr
	retained         func(object uintptr) uintptr
	released         func(object uintptr)
	pushed           func() uintptr
	popped           func(pool uintptr)
	create           func() mtlDevice
}

// native opens Metal. CoreGraphics has to be there too: without it a program of the
// command line gets no default device.
func native() (objects, error) {
	const frameworks = "/System/Library/Frameworks/"
	for _, name := range []string{"Foundation", "CoreGraphics"} {
		if _, err := purego.Dlopen(frameworks+name+".framework/"+name, purego.RTLD_NOW|purego.RTLD_GLOBAL); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrAbsent, name, err)
		}
	}
	metal, err := purego.Dlopen(frameworks+"Metal.framework/Metal", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("%w: Metal: %w", ErrAbsent, err)
	}
	lib, err := purego.Dlopen("/usr/lib/libobjc.A.dylib", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("%w: libobjc: %w", ErrAbsent, err)
	}
	c := &cocoa{}
	var faults []error
	symbol := func(handle uintptr, name string) uintptr {
		addr, err := purego.Dlsym(handle, name)
		faults = append(faults, err)
		return addr
	}
	function := func(to any, handle uintptr, name string) {
		if addr := symbol(handle, name); addr != 0 {
			purego.RegisterFunc(to, addr)
		}
	}
	c.send = symbol(lib, "objc_msgSend")
	c.sendStruct = c.send
	if runtime.GOARCH == "amd64" {
		// Where a struct comes back in memory, the message has an entry of its own.
		c.sendStruct = symbol(lib, "objc_msgSend_stret")
	}
	function(&c.retained, lib, "objc_retain")
	function(&c.released, lib, "objc_release")
	function(&c.pushed, lib, "objc_autoreleasePoolPush")
	function(&c.popped, lib, "objc_autoreleasePoolPop")
	function(&c.create, metal, "MTLCreateSystemDefaultDevice")
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	return c, nil
}

// inRegisters is the size of the largest struct that comes back in registers.
const inRegisters = 16

func (c *cocoa) bind(name string, call any) (selector, error) {
	entry := c.send
	result := reflect.TypeOf(call).Elem().Out(0)
	if result.Kind() == reflect.Struct && result.Size() > inRegisters {
		entry = c.sendStruct
	}
	purego.RegisterFunc(call, entry)
	return selector(objc.RegisterName(name)), nil
}

func (c *cocoa) handler(f func()) block {
	return block(objc.NewBlock(func(objc.Block, objc.ID) { f() }))
}

func (c *cocoa) class(name string) uintptr { return uintptr(objc.GetClass(name)) }
func (c *cocoa) retain(object uintptr)     { c.retained(object) }
func (c *cocoa) release(object uintptr)    { c.released(object) }
func (c *cocoa) push() uintptr             { return c.pushed() }
func (c *cocoa) pop(pool uintptr)          { c.popped(pool) }
func (c *cocoa) systemDevice() mtlDevice   { return c.create() }
