package cli

import (
	"fmt"
	"strings"

	"minfer/cpu"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/harness"
	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/metal/mtl/soft/interp"
	"minfer/metal/mtl/soft/san"
	"minfer/refs/exact"
	"minfer/suites"
)

// DeviceOptions are how a command wants its device.
type DeviceOptions struct {
	Levers lever.Levers
	// Mode is the sanitizer's on device soft, Seed that of mode chaos.
	Mode san.Mode
	Seed uint64
	// Counters, where not nil, is given what a software device counts of each dispatch.
	Counters func(harness.Counters)
}

// Device gives the named device, or says why there is none.
func Device(name string, o DeviceOptions) (suites.Device, error) {
	d, err := cpuDevice(o.Levers)
	if err != nil {
		return d, err
	}
	switch name {
	case "cpu":
		return d, nil
	case "soft":
		return softDevice(d, o)
	case "apple":
		return appleDevice(d, o)
	case "cuda":
		return suites.Device{}, fmt.Errorf("device %q is not in this build: want cpu or soft", name)
	}
	return suites.Device{}, fmt.Errorf("unknown device %q: want cpu or soft", strings.TrimSpace(name))
}

func cpuDevice(l lever.Levers) (suites.Device, error) {
	o := cpu.Options{}
	if l.CPULevel != "" {
		level, err := cpu.ParseLevel(l.CPULevel)
		if err != nil {
			return suites.Device{}, err
		}
		o.Level = level
	}
	// Made once here, so that a level that this processor lacks is bad input
	// before anything runs.
	b, err := cpu.New(o)
	if err != nil {
		return suites.Device{}, err
	}
	b.Close()
	level := exact.H
	if b.Level() == cpu.AVX512 {
		level = exact.Z
	}
	return suites.Device{Name: fmt.Sprintf("cpu (%s)", b.Level()), Level: level, New: func(threads int) (graph.Backend, error) {
		o := o
		o.Threads = threads
		return cpu.New(o)
	}}, nil
}

// softDevice adds the software Metal device to the CPU's, unless
// MINFER_DISABLE_MPS keeps Metal out.
func softDevice(d suites.Device, o DeviceOptions) (suites.Device, error) {
	if o.Levers.DisableMPS {
		return d, nil
	}
	for _, v := range []struct{ name, value string }{{"MINFER_METAL_CAPTURE", o.Levers.MetalCapture}, {"MINFER_METALLIB_FILE", o.Levers.MetallibFile}} {
		if v.value != "" {
			return suites.Device{}, fmt.Errorf("%s=%s: it is for an Apple GPU, not for device soft: unset it", v.name, v.value)
		}
	}
	d.Name = fmt.Sprintf("soft (%v)", o.Mode)
	if d.Checked = o.Mode != san.Off; d.Checked {
		d.Fast = func(threads int) (mtl.Device, error) { return soft.New(soft.Options{Threads: threads}) }
	}
	so := soft.Options{Mode: o.Mode, Seed: o.Seed}
	if o.Counters != nil {
		so.Counters = func(_ *mtl.Dispatch, c interp.Counters) {
			o.Counters(harness.Counters{Dispatches: 1, BytesRead: c.DeviceRead, BytesWritten: c.DeviceWritten,
				Instructions: c.Instructions, Barriers: c.Barriers, Divergent: c.Divergent})
		}
	}
	d.Open = func(threads int) (mtl.Device, error) {
		so := so
		so.Threads = threads
		return soft.New(so)
	}
	return d, nil
}
