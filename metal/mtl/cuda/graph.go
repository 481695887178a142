package cuda

import (
	"errors"
	"runtime"
	"unsafe"
)

// graph is a chain of launches that the GPU gets with one call. The zero value is
// none.
type graph struct {
	d    *Driver
	exec uintptr
}

// launchConfig and launchAttribute are the driver's.
type launchConfig struct {
	groups, threads [3]uint32
	shared          uint32
	stream          uintptr
	attributes      *launchAttribute
	count           uint32
}

type launchAttribute struct {
	id    int32
	_     [4]byte
	value int32
	_     [60]byte
}

// newGraph makes a graph of calls, each after the one before.
func (d *Driver) newGraph(calls []*call) (graph, error) {
	g := graph{d: d}
	err := d.do(func() error {
		if err := d.check("capture", d.fn.beginCapture(d.stream, captureRelaxed)); err != nil {
			return err
		}
		var err error
		enqueue := d.enqueue
		if d.attrs.major >= 9 {
			enqueue = d.enqueueEarly
		}
		for _, c := range calls {
			if err = enqueue(c); err != nil {
				break
			}
		}
		var captured uintptr
		err = errors.Join(err, d.check("end of a capture", d.fn.endCapture(d.stream, &captured)))
		if captured != 0 {
			if err == nil {
				err = d.check("graph", d.fn.instantiate(&g.exec, captured, 0))
			}
			err = errors.Join(err, d.check("graph", d.fn.graphDestroy(captured)))
		}
		return err
	})
	if err != nil {
		return graph{}, err
	}
	return g, nil
}

// launch starts the graph behind all before. The caller is in do.
func (g *graph) launch() error {
	return g.d.check("launch of a graph", g.d.fn.graphLaunch(g.exec, g.d.stream))
}

// destroy gives the graph back; one that is none is nothing.
func (g *graph) destroy() error {
	if g.d == nil {
		return nil
	}
	d, exec := g.d, g.exec
	*g = graph{}
	return d.do(func() error { return d.check("graph", d.fn.execDestroy(exec)) })
}

// enqueueEarly is enqueue of a kernel that may start before the one before ended: it
// waits for that by itself (after, in device/base.cuh), with its threads in place.
func (d *Driver) enqueueEarly(c *call) error {
	if err := d.allowShared(c); err != nil {
		return err
	}
	attribute := &launchAttribute{id: attrProgrammatic, value: 1}
	config := &launchConfig{groups: c.groups, threads: [3]uint32{c.threads, 1, 1}, shared: c.shared, stream: d.stream, attributes: attribute, count: 1}
	code := invoke(d.fn.launchEx, uintptr(unsafe.Pointer(config)), c.k.fn, uintptr(unsafe.Pointer(&c.params[0])), 0)
	runtime.KeepAlive(c)
	runtime.KeepAlive(attribute)
	return d.check("launch", code)
}
