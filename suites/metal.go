package suites

import (
	"fmt"
	"time"

	"minfer/engine/graph"
	"minfer/metal"
	"minfer/metal/mtl"
)

// CheckedDeadline bounds a submit where the options do not and a sanitizer
// watches: a forward pass may take minutes under it.
const CheckedDeadline = 10 * time.Minute

// deviceKey says how a Metal device was opened.
type deviceKey struct {
	threads int
	fast    bool
}

// opened is a Metal device with its kernels compiled.
type opened struct {
	dev       mtl.Device
	pipelines *metal.Pipelines
	err       error
}

func (d *opened) close() {
	if d.pipelines != nil {
		d.pipelines.Release()
	}
	if d.dev != nil {
		d.dev.Close()
	}
}

// Metal makes a Metal backend on the environment's device, which must have Open.
// The device of a number of threads is opened at the first call; its kernels,
// Env.Kernels, are compiled once for all backends on it, so that a backend of its
// own for each case or lever setting costs little. The caller closes the backend,
// and may leave that to Close. A second backend may work while the first one does
// where their threads differ. Pipelines that the options bring are used instead.
func (e *Env) Metal(threads int, o metal.Options) (*metal.Backend, error) {
	return e.metal(deviceKey{threads, false}, o)
}

// FastMetal is Metal without the sanitizer.
func (e *Env) FastMetal(threads int, o metal.Options) (*metal.Backend, error) {
	return e.metal(deviceKey{threads, e.Device.Fast != nil}, o)
}

func (e *Env) metal(key deviceKey, o metal.Options) (*metal.Backend, error) {
	if e.Device.Open == nil {
		return nil, fmt.Errorf("device %s has no Metal backend: want one that has", e.Device.Name)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	d, ok := e.devices[key]
	if !ok {
		d = &opened{}
		open := e.Device.Open
		if key.fast {
			open = e.Device.Fast
		}
		if d.dev, d.err = open(key.threads); d.err == nil {
			d.pipelines, d.err = metal.Compile(d.dev, e.Kernels)
		}
		if e.devices == nil {
			e.devices = map[deviceKey]*opened{}
		}
		e.devices[key] = d
	}
	if d.err != nil {
		return nil, d.err
	}
	if o.Pipelines == nil {
		o.Pipelines = d.pipelines
	}
	if e.Device.Checked && !key.fast {
		o.Poison = true
		if o.Deadline == 0 {
			o.Deadline = CheckedDeadline
		}
	}
	b, err := metal.New(d.dev, o)
	if err == nil {
		e.metals = append(e.metals, b)
	}
	return b, err
}

// Backends is what a session on the device runs with, by priority: a new Metal
// backend where the device has one, then the CPU backend of that many threads.
func (e *Env) Backends(threads int, o metal.Options) ([]graph.Backend, error) {
	c, err := e.Backend(threads)
	if err != nil {
		return nil, err
	}
	if e.Device.Open == nil {
		return []graph.Backend{c}, nil
	}
	m, err := e.Metal(threads, o)
	if err != nil {
		return nil, err
	}
	return []graph.Backend{m, c}, nil
}
