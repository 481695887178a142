package cli

import (
	"fmt"
	"strings"

	"minfer/cpu"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/suites"
)

// Device gives the named device. There is one today; the others say why not.
func Device(name string, l lever.Levers) (suites.Device, error) {
	switch name {
	case "cpu":
		if l.Trace != "" {
			return suites.Device{}, fmt.Errorf("MINFER_TRACE=%s: device cpu writes no node values: unset it", l.Trace)
		}
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
		return suites.Device{Name: fmt.Sprintf("cpu (%s)", b.Level()), New: func(threads int) (graph.Backend, error) {
			o := o
			o.Threads = threads
			return cpu.New(o)
		}}, nil
	case "soft", "apple", "cuda":
		return suites.Device{}, fmt.Errorf("device %q is not in this build: want cpu", name)
	}
	return suites.Device{}, fmt.Errorf("unknown device %q: want cpu", strings.TrimSpace(name))
}
