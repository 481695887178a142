package cli

import (
	"errors"
	"fmt"
	"sync/atomic"

	"minfer/engine/lever"
	"minfer/metal/mtl"
	"minfer/metal/mtl/apple"
	"minfer/metal/signatures"
	"minfer/suites"
)

// GPU is the device that a command takes where none is asked for: "apple" on a Mac,
// "" where there is no GPU, or where MINFER_DISABLE_MPS keeps Metal out.
func GPU(l lever.Levers) string {
	if l.DisableMPS {
		return ""
	}
	dev, err := apple.Open(apple.Options{})
	if err != nil || dev.Close() != nil {
		return ""
	}
	return "apple"
}

// appleDevice adds a Mac's GPU to the CPU, unless MINFER_DISABLE_MPS keeps Metal
// out. It is opened here once, so that its absence is bad input before anything
// runs.
func appleDevice(d suites.Device, o DeviceOptions) (suites.Device, error) {
	if o.Levers.DisableMPS {
		return d, nil
	}
	ao := apple.Options{Metallib: o.Levers.MetallibFile, Arguments: signatures.Of}
	dev, err := apple.Open(ao)
	if err != nil {
		if !errors.Is(err, apple.ErrAbsent) {
			return suites.Device{}, fmt.Errorf("device %q: %w", "apple", err)
		}
		return suites.Device{}, fmt.Errorf("device %q: %w: want cpu or soft", "apple", err)
	}
	d.Name = fmt.Sprintf("apple (%s)", dev.Name())
	if err := dev.Close(); err != nil {
		return suites.Device{}, err
	}
	var captured atomic.Bool
	d.Open = func(int) (mtl.Device, error) {
		ao := ao
		if o.Levers.MetalCapture != "" && captured.CompareAndSwap(false, true) {
			ao.Capture = o.Levers.MetalCapture // of one device: there is one trace at a time
		}
		return apple.Open(ao)
	}
	return d, nil
}
