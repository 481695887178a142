package main

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"minfer/cmd/internal/cli"
	"minfer/engine/lever"
	"minfer/harness"
	"minfer/metal/kernels"
	"minfer/metal/mtl/soft/san"
	"minfer/suites"
	"minfer/suites/safety"
)

// target is one device of --device with the suites that run on it.
type target struct {
	name   string // as --device takes it
	env    *suites.Env
	suites []suites.Suite
}

// cpuOnly and metalOnly are the suites without cases for the other kind of device.
// deviceless are those whose cases are the same whatever the device: they run
// once, and their cases are of no device. (safety brings its own.)
var (
	cpuOnly    = []string{"dumps"}
	metalOnly  = []string{"kernels", "matmul", "attention", "kv", "fusion", "mutation"}
	deviceless = []string{"tokenizer", "safety"}
)

// deviceNames reads --device.
func (f *flags) deviceNames() ([]string, error) {
	var names []string
	for _, name := range strings.Split(f.devices, ",") {
		name = strings.TrimSpace(name)
		if slices.Contains(names, name) {
			return nil, fmt.Errorf("--device %q: %s is named twice", f.devices, name)
		}
		names = append(names, name)
	}
	return names, nil
}

// divide gives each device the suites that it has cases for, in the order of
// --device, and the names of suites that no device has cases for, with where they
// would run.
func divide(chosen []suites.Suite, devices []string) (each [][]suites.Suite, left []string, where string) {
	each = make([][]suites.Suite, len(devices))
	for _, s := range chosen {
		runs := false
		for i, d := range devices {
			other := cpuOnly
			if d == "cpu" {
				other = metalOnly
			}
			if slices.Contains(other, s.Name()) || slices.Contains(deviceless, s.Name()) && i > 0 {
				continue
			}
			each[i] = append(each[i], s)
			runs = true
		}
		if !runs {
			left = append(left, s.Name())
		}
	}
	where = "--device cpu"
	if devices[0] == "cpu" {
		where = "a Metal device (--device soft)"
	}
	return each, left, where
}

// device opens one of --device.
func (f *flags) device(name string, levers lever.Levers, mode san.Mode) (suites.Device, error) {
	return cli.Device(name, cli.DeviceOptions{Levers: levers, Mode: mode, Seed: f.seed})
}

// cases lists the cases of all targets, device by device, each with its device and
// with what its failures say about source files.
func cases(targets []target) ([]harness.Case, error) {
	var all []harness.Case
	for _, t := range targets {
		for _, suite := range t.suites {
			list, err := suite.Cases(t.env)
			if err != nil {
				return nil, err
			}
			for _, c := range list {
				if !slices.Contains(deviceless, suite.Name()) {
					c.Device = t.name
				}
				all = append(all, located(c))
			}
		}
	}
	return all, nil
}

// located adds to a failure of the case the places in source files that it names.
func located(c harness.Case) harness.Case {
	run := c.Run
	c.Run = func(ctx context.Context) (harness.Result, error) {
		res, err := run(ctx)
		if err == nil && res.Outcome == harness.Fail && res.Findings == nil {
			res.Findings = harness.Diagnostics(c.ID.Suite+"/"+c.ID.Op, &res, func(file string) string { return sourcePath(c.ID.Suite, file) })
		}
		return res, err
	}
	return c
}

// sourcePath is where a source file of a suite lies in a checkout of the project,
// "" for one that it does not have.
func sourcePath(suite, file string) string {
	type place struct {
		fsys fs.FS
		name string
		path string
	}
	places := []place{{kernels.FS, file, "metal/kernels/" + file}}
	if suite == "safety" {
		places = nil
		for _, folder := range []string{"cases/", "own/"} {
			places = append(places, place{safety.Collection(), folder + file, "suites/safety/testdata/" + folder + file})
		}
	}
	for _, p := range places {
		if _, err := fs.Stat(p.fsys, p.name); err == nil {
			return p.path
		}
	}
	return ""
}
