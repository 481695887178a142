package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"minfer/cpu"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/harness"
	"minfer/metal/mtl"
	"minfer/metal/mtl/cuda"
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

// Devices are the names that [Device] takes.
var Devices = []string{"cpu", "soft", "apple", "cuda"}

// DeviceHelp says what the names stand for, for the help of a command.
const DeviceHelp = "cpu, soft for the software Metal device, apple for a Mac's GPU, cuda for an NVIDIA GPU"

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
		return cudaDevice(d, o)
	}
	return suites.Device{}, fmt.Errorf("unknown device %q: want %s", strings.TrimSpace(name), strings.Join(Devices[:len(Devices)-1], ", ")+" or "+Devices[len(Devices)-1])
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
	return suites.Device{Name: fmt.Sprintf("cpu (%s)", b.Level()), Kernels: b.Kernels(), Level: level, New: func(threads int) (graph.Backend, error) {
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
	if err := notApple("soft", o.Levers); err != nil {
		return suites.Device{}, err
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

// notApple refuses the settings that only an Apple GPU has.
func notApple(device string, l lever.Levers) error {
	for _, v := range []struct{ name, value string }{{"MINFER_METAL_CAPTURE", l.MetalCapture}, {"MINFER_METALLIB_FILE", l.MetallibFile}} {
		if v.value != "" {
			return fmt.Errorf("%s=%s: it is for an Apple GPU, not for device %s: unset it", v.name, v.value, device)
		}
	}
	return nil
}

// cudaDevice adds the first NVIDIA GPU to the CPU's device, unless
// MINFER_DISABLE_MPS keeps GPUs out.
func cudaDevice(d suites.Device, o DeviceOptions) (suites.Device, error) {
	if o.Levers.DisableMPS {
		return d, nil
	}
	if err := notApple("cuda", o.Levers); err != nil {
		return suites.Device{}, err
	}
	co := cuda.DeviceOptions{}
	if dir, err := os.UserCacheDir(); err == nil {
		co.Cache = filepath.Join(dir, "minfer", "cuda")
	}
	// Opened once here, so that a GPU or library that is missing is bad input before
	// anything runs.
	gpu, err := cuda.Open(co)
	if err != nil {
		return suites.Device{}, fmt.Errorf("device %q: %w", "cuda", err)
	}
	driver, compiler := gpu.Versions()
	d.Name = fmt.Sprintf("cuda (%s, driver %s, NVRTC %s)", gpu.Name(), driver, compiler)
	d.CopiesWeights, d.GEMMFrom = !gpu.Limits().NoCopy, gpu.Limits().GEMMFrom
	if err := gpu.Close(); err != nil {
		return suites.Device{}, fmt.Errorf("device %q: %w", "cuda", err)
	}
	d.Open = func(int) (mtl.Device, error) { return cuda.Open(co) }
	return d, nil
}
