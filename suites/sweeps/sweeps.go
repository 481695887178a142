// Package sweeps is what is measured: scenarios of single ops and of whole models,
// most of them one lever's two sides against each other. It joins the how of
// package harness with backends, references and models.
//
// Order of use: [List] turns the named sweeps into scenarios for one device, which
// [Shard] may cut by work; a [Runner] measures them one after another and gives a
// harness.Record each. Every lever is measured in a setting where it is live; two
// sides of a lever that chooses kernels must dispatch different ones, or the
// scenario is an error. The outputs of every side are held against the float64
// reference before a time counts.
//
// A Runner and its scenarios are for one goroutine at a time.
package sweeps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"minfer/engine/gguf"
	"minfer/engine/lever"
	"minfer/harness"
	"minfer/suites"
)

// ErrUnsupported is wrapped by the error of a scenario that the device refuses by
// contract: it is left out of a sweep, with the reason.
var ErrUnsupported = errors.New("unsupported")

// Options of a sweep. Empty lists take each sweep's own values.
type Options struct {
	PP         []int       // tokens of a prompt, or rows of an op
	TG         []int       // tokens to decode
	KV         []int       // cells in the KV cache
	Types      []string    // of weights: "q4_0"; for whole models mixes too, "" for the file's own
	CacheTypes []gguf.Type // of the KV cache

	Levers  lever.Levers // of every side, but for the lever that a scenario is about
	Threads int          // of the CPU, or threadgroups at a time of a software device

	Reps   int           // rounds of each scenario; 0 for as many as the interval needs
	Budget time.Duration // of one scenario's rounds, once there are enough; 0 for DefaultBudget
	Round  time.Duration // what a round takes at the least; 0 for DefaultRound
	Seed   uint64        // of data, order and resampling

	GPU harness.GPU // for whose memory a software device's bytes are converted
	// ReadBytes is the memory that a read loop goes through, 0 for DefaultReadBytes and
	// more on a GPU with memory of its own.
	ReadBytes int
	// WeightBytes is how much weights a single op goes over in turn on a device with
	// memory of its own, 0 for DefaultWeightBytes: more than its caches hold.
	WeightBytes int
}

// Defaults of Options.
const (
	DefaultBudget    = 2 * time.Second
	DefaultRound     = 10 * time.Millisecond
	DefaultReadBytes = 1 << 29
	// DefaultWeightBytes is five times the second cache of the largest GPU known here.
	DefaultWeightBytes = 1 << 28
)

// Env is what a command gives: one device, the models to measure and a small one
// whose text is generated under every setting.
type Env struct {
	*suites.Env
	// Small are the models that texts are generated with: the first that has the
	// scenario's head size, or the first.
	Small []suites.Model
	// Tally counts what a software device does; nil for other devices.
	Tally *Tally
	// Provenance of the records; Device is filled in.
	Provenance harness.Provenance
}

// metal says whether the device has levers.
func (e *Env) metal() bool { return e.Device.Open != nil }

// Setting is one side of a scenario.
type Setting struct {
	Name   string // "MINFER_NO_FLASH=1", or what is measured where there is one side
	Levers lever.Levers
}

// Scenario is one line of a sweep.
type Scenario struct {
	Sweep, Op string
	Params    []harness.Param
	// Lever is what two sides differ in, "" for one side.
	Lever string
	Sides []Setting
	// Kernels: the lever chooses kernels, so sides that dispatch the same are an
	// error. Otherwise Differs says what it changes.
	Kernels bool
	Differs string
	// Work is an estimate of all rounds, in multiply-adds: it balances shards.
	Work int64

	env   *Env
	model *source // nil for a single op
	once  harness.Work
	open  func(ctx context.Context, r *Runner, side int, notes *recorder) (subject, error)
	// Of the model that texts are generated with: its head size and weight type.
	headDim int
	weights string
	apart   bool   // the lever moves the output: the sides' are not held against each other
	leftOut string // why the device cannot have it, "" where it can
}

// ID is the identity: "attention/attention hd=64 n_kv=256 ... lever=MINFER_NO_FLASH device=soft".
func (s *Scenario) ID() harness.ID {
	p := slices.Clone(s.Params)
	if s.model != nil {
		p = append(p, harness.P("model", s.model.model.Name), harness.P("weights", s.model.typeName()))
	}
	if s.Lever != "" {
		p = append(p, harness.P("lever", s.Lever), harness.P("values", s.value(0)+"|"+s.value(1)))
	}
	device, _, _ := strings.Cut(s.env.Device.Name, " ")
	return harness.ID{Suite: s.Sweep, Op: s.Op, Params: append(p, harness.P("device", device))}
}

// value is that of the lever on a side, "auto" where it is unset.
func (s *Scenario) value(side int) string {
	_, v, _ := strings.Cut(s.Sides[side].Name, "=")
	return v
}

// sweep is one name of --sweep.
type sweep struct {
	name string
	list func(e *Env, o Options) ([]Scenario, error)
}

var all = []sweep{
	{"attention", listAttention},
	{"matmul", listMatMul},
	{"rmsnorm", listRmsNorm},
	{"kv", listKV},
	{"fusion", listFusion},
	{"weights", listWeights},
	{"levers", listLevers},
	{"prefill", listPrefill},
	{"decode", listDecode},
}

// Names lists the sweeps.
func Names() []string {
	var names []string
	for _, s := range all {
		names = append(names, s.name)
	}
	return names
}

// List gives the scenarios of the named sweeps on a device, in the order of the
// names. A sweep may have none for a device.
func List(e *Env, names []string, o Options) ([]Scenario, error) {
	var list []Scenario
	for _, name := range names {
		i := slices.IndexFunc(all, func(s sweep) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown sweep %q: want one or more of %s, or all", name, strings.Join(Names(), ", "))
		}
		more, err := all[i].list(e, o)
		if err != nil {
			return nil, fmt.Errorf("sweep %s: %w", name, err)
		}
		for i := range more {
			more[i].Sweep, more[i].env = name, e
			more[i].estimate()
		}
		list = append(list, more...)
	}
	return list, nil
}

// Shard gives part index of count, 1 to count, in the order of the list, cut by work
// as [harness.Shard] does.
func Shard(list []Scenario, index, count int) []Scenario {
	work := make([]int64, len(list))
	for i := range list {
		work[i] = list[i].Work
	}
	var part []Scenario
	for _, i := range harness.Shard(work, index, count) {
		part = append(part, list[i])
	}
	return part
}
