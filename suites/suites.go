// Package suites is what is verified: it joins the how of package harness with
// backends, references and models. Each suite is a package below this one; this
// one holds what they share.
//
// A suite turns an [Env] into cases and constructs nothing that the Env does not
// name: commands build backends and pass them in.
package suites

import (
	"fmt"
	"io"
	"io/fs"
	"sync"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/harness"
	"minfer/metal"
	"minfer/metal/mtl"
	"minfer/refs/exact"
	"minfer/refs/llamacpp"
)

// Suite is one set of cases.
type Suite interface {
	// Name is what --suite takes.
	Name() string
	// Cases lists the suite's cases for the environment. Making the list is cheap;
	// the work is in each case's Run.
	Cases(env *Env) ([]harness.Case, error)
}

// Tier is how much is covered.
type Tier int

// Quick is for every commit, Full covers shapes pairwise, Exhaustive everything.
const (
	Quick Tier = iota
	Full
	Exhaustive
)

var tierNames = [...]string{"quick", "full", "exhaustive"}

// String is the tier's name on the command line.
func (t Tier) String() string { return tierNames[t] }

// ParseTier reads a tier's name.
func ParseTier(name string) (Tier, error) {
	for i, n := range tierNames {
		if n == name {
			return Tier(i), nil
		}
	}
	return 0, fmt.Errorf("unknown tier %q: want quick, full or exhaustive", name)
}

// Env is what a command gives its suites.
type Env struct {
	Tier   Tier
	Seed   uint64
	Device Device
	Models []Model
	// Oracle is the live llama.cpp, nil without one.
	Oracle *llamacpp.Lib
	// Dumps holds the recorded runs of llama.cpp by file name, nil without them.
	Dumps fs.FS
	// HFVocab is a folder with a Hugging Face tokenizer.json, "" for none.
	HFVocab string
	// Lines are the op cases of --cases, nil for the suite's own.
	Lines []*harness.Line
	// Temp is a directory for files made on the way; the command removes it.
	Temp string

	// Kernels are the sources of a Metal device's kernels, nil for the project's own.
	Kernels fs.FS

	backends map[int]graph.Backend

	mu      sync.Mutex
	devices map[deviceKey]*opened // of Metal
	metals  []*metal.Backend
	closers []func()
}

// Backend gives the device's backend for a number of threads, made at the first
// call and kept. Cases run one after another, so they may share it.
func (e *Env) Backend(threads int) (graph.Backend, error) {
	if b, ok := e.backends[threads]; ok {
		return b, nil
	}
	b, err := e.Device.New(threads)
	if err != nil {
		return nil, err
	}
	if e.backends == nil {
		e.backends = map[int]graph.Backend{}
	}
	e.backends[threads] = b
	return b, nil
}

// CheckOracle says whether the live llama.cpp, if there is one, computes the device's
// level: other bits are no finding.
func (e *Env) CheckOracle() error {
	if e.Oracle == nil {
		return nil
	}
	want := map[exact.Level]string{exact.H: "haswell", exact.Z: "zen4"}[e.Device.Level]
	if level := map[string]exact.Level{"avx2": exact.H, "avx512": exact.Z}; level[e.Oracle.Level()] != e.Device.Level {
		return fmt.Errorf("llama.cpp's variant %s against device %s: their levels differ: want --llama-variant %s", e.Oracle.Variant(), e.Device.Name, want)
	}
	return nil
}

// Close ends the backends and devices that the environment made.
func (e *Env) Close() {
	for _, b := range e.backends {
		if c, ok := b.(io.Closer); ok {
			c.Close()
		}
	}
	e.backends = nil
	for _, b := range e.metals {
		b.Close()
	}
	e.metals = nil
	for _, d := range e.devices {
		d.close()
	}
	e.devices = nil
	for _, f := range e.closers {
		f()
	}
	e.closers = nil
}

// OnClose has Close call f in the end, once: for what a suite opened by itself.
func (e *Env) OnClose(f func()) { e.closers = append(e.closers, f) }

// Device makes the backends under test.
type Device struct {
	Name string // with what matters of its results: "cpu (avx2)", "soft (strict)"
	// Kernels of the CPU backend, which decide how fast it is: "avx2 bits, avx512
	// kernels".
	Kernels string
	// Level is the level of the CPU backend's arithmetic.
	Level exact.Level
	// New makes a CPU backend that works with that many threads: the one under test
	// on device cpu, and elsewhere the one that takes what Metal refuses.
	New func(threads int) (graph.Backend, error)
	// Open opens the Metal device itself, nil on device cpu. A software device runs
	// that many threadgroups at a time; a submit with a finding of its sanitizer is
	// an error.
	Open func(threads int) (mtl.Device, error)
	// Checked: a sanitizer watches the device.
	Checked bool
	// Fast opens the same device without its sanitizer, nil where Open's has none:
	// for runs so long that only a part of them can be watched.
	Fast func(threads int) (mtl.Device, error)
	// CopiesWeights: the device does not read the host's memory, so no lever can keep
	// weights where they are.
	CopiesWeights bool
	// GEMMFrom is the device's mtl.Limits.GEMMFrom.
	GEMMFrom int
}

// Describe names the device with what its rates depend on.
func (d *Device) Describe() string {
	if d.Kernels == "" || d.Open != nil {
		return d.Name
	}
	return "cpu (" + d.Kernels + ")"
}

// Model is one file to verify with.
type Model struct {
	Name string
	Path string // "" for an embedded model
	Open func() (*gguf.File, error)
}
