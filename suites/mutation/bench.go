package mutation

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"minfer/harness"
	"minfer/metal"
	"minfer/metal/msl"
	"minfer/metal/msl/ir"
	"minfer/metal/mtl"
	"minfer/suites"
)

// bench runs mutants against the cases of other suites.
type bench struct {
	env   *suites.Env
	fsys  fs.FS
	state *state

	mu      sync.Mutex
	devices map[int]*patched // by threads

	entries map[string][]*entryPoint // by .metal file, in the order of the dispatch table
	least   time.Duration            // the shortest deadline of a case
}

// entryPoint is a kernel of the dispatch table with the constants that it is
// compiled with.
type entryPoint struct {
	file, kernel, constants string
	values                  map[string]any
	code                    string // of the original
	cases                   []*trial
}

// trial is a case of another suite.
type trial struct {
	harness.Case
	took time.Duration // in submits, without a mutant
}

// newBench runs all cases without a mutant: they must hold, and what they dispatch
// is which mutants they can notice.
func newBench(ctx context.Context, env *suites.Env, fsys fs.FS, from []suites.Suite) (*bench, error) {
	b := &bench{fsys: fsys, state: &state{}, devices: map[int]*patched{}, entries: map[string][]*entryPoint{}, least: leastDeadline}
	device := env.Device
	device.Fast = nil
	device.Open = func(threads int) (mtl.Device, error) { return b.open(env, threads) }
	b.env = &suites.Env{Seed: env.Seed, Tier: suites.Quick, Device: device, Kernels: env.Kernels, Temp: env.Temp}
	if err := b.listEntries(); err != nil {
		return nil, err
	}
	by := map[string]*entryPoint{}
	for _, list := range b.entries {
		for _, e := range list {
			by[pipelineKey(e.file, e.kernel, e.constants)] = e
		}
	}
	for _, s := range from {
		cases, err := s.Cases(b.env)
		if err != nil {
			return nil, err
		}
		for _, c := range cases {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			b.state.reset(nil, suites.CheckedDeadline)
			res, err := c.Run(ctx)
			if err != nil {
				return nil, fmt.Errorf("without a mutant: %s: %w", c.ID, err)
			}
			if len(b.state.dispatched) == 0 {
				continue
			}
			if res.Outcome == harness.Fail {
				return nil, fmt.Errorf("without a mutant: %s fails: %s: want green cases before a fault is planted", c.ID, res.Reason)
			}
			t := &trial{Case: c, took: b.state.spent}
			for key := range b.state.dispatched {
				if e := by[key]; e != nil {
					e.cases = append(e.cases, t)
				}
			}
			b.env.Close()
		}
	}
	for _, e := range by {
		slices.SortStableFunc(e.cases, func(x, y *trial) int { return int(min(max(x.Work-y.Work, -1), 1)) })
	}
	return b, nil
}

// open makes a device for the environment, once for a number of threads.
func (b *bench) open(env *suites.Env, threads int) (mtl.Device, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d := b.devices[threads]; d != nil {
		return d, nil
	}
	dev, err := env.Device.Open(threads)
	if err != nil {
		return nil, err
	}
	d := &patched{Device: dev, fsys: b.fsys, state: b.state, libraries: map[string]mtl.Library{}, pipelines: map[string]mtl.Pipeline{}}
	b.devices[threads] = d
	return d, nil
}

func (b *bench) close() {
	b.env.Close()
	for _, d := range b.devices {
		d.shut()
	}
}

// listEntries finds the file of each kernel of the dispatch table.
func (b *bench) listEntries() error {
	files, err := fs.Glob(b.fsys, "*.metal")
	if err != nil {
		return err
	}
	home := map[string]string{}
	for _, file := range files {
		lib, err := msl.Compile(b.fsys, file, msl.Options{})
		if err != nil {
			return err
		}
		for _, k := range lib.Kernels() {
			home[k.Name] = file
		}
	}
	seen := map[string]bool{}
	for _, e := range metal.Table {
		file := home[e.Kernel]
		p := &entryPoint{file: file, kernel: e.Kernel, constants: constantsKey(e.Constants), values: e.Constants}
		if key := pipelineKey(p.file, p.kernel, p.constants); file != "" && !seen[key] {
			seen[key] = true
			b.entries[file] = append(b.entries[file], p)
		}
	}
	return nil
}

// fate is what became of a mutant.
type fate struct {
	uncompiled, same bool // it does not count
	noticed          bool
	by               string // value, finding, race, deadline, threads, ...
	why              string // of a survivor
	family, kernel   string
}

// code is the text of an entry point's code without its places in the source.
func code(lib *msl.Library, e *entryPoint) (string, error) {
	f, err := lib.Specialize(e.kernel, e.values)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	if err := f.Print(&text, ir.PrintOptions{Bare: true}); err != nil {
		return "", err
	}
	return text.String(), nil
}

func (b *bench) original(e *entryPoint) (string, error) {
	if e.code == "" {
		lib, err := msl.Compile(b.fsys, e.file, msl.Options{})
		if err != nil {
			return "", err
		}
		if e.code, err = code(lib, e); err != nil {
			return "", err
		}
	}
	return e.code, nil
}

// choose finds an entry point whose code the mutant changes, by the seed among
// all that see its text. Nil is none; failed says that none compiles.
func (b *bench) choose(m *Mutant, r *rand.Rand) (chosen *entryPoint, failed bool, err error) {
	units := slices.Clone(m.Units)
	r.Shuffle(len(units), func(i, j int) { units[i], units[j] = units[j], units[i] })
	fsys := m.Over(b.fsys)
	for _, file := range units {
		lib, err := msl.Compile(fsys, file, msl.Options{})
		if err == nil {
			err = lib.Err()
		}
		if err != nil {
			return nil, true, nil
		}
		list := slices.Clone(b.entries[file])
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, e := range list {
			text, err := code(lib, e)
			if err != nil {
				return nil, true, nil
			}
			own, err := b.original(e)
			if err != nil {
				return nil, false, err
			}
			if text != own {
				return e, false, nil
			}
		}
	}
	return nil, false, nil
}

// A submit may take slower times what all of the case's took without a mutant, but
// within these bounds: the least is for cases that are over in a moment.
const (
	slower        = 50
	leastDeadline = 3 * time.Second
	mostDeadline  = 20 * time.Second
)

// try runs the cases of one entry point that the mutant changes until one fails.
func (b *bench) try(ctx context.Context, m *Mutant, op *Operator, seed uint64) (fate, error) {
	r := rand.New(rand.NewPCG(seed, hash(m.key())))
	e, failed, err := b.choose(m, r)
	switch {
	case err != nil:
		return fate{}, err
	case failed:
		return fate{uncompiled: true}, nil
	case e == nil:
		return fate{same: true}, nil
	}
	f := fate{family: e.file, kernel: e.kernel}
	p := &planted{mutant: m, file: e.file, kernel: e.kernel, constants: e.constants}
	defer b.env.Close()
	value := ""
	for _, t := range e.cases {
		if err := ctx.Err(); err != nil {
			return f, err
		}
		b.state.reset(p, min(max(b.least, slower*t.took), mostDeadline))
		res, err := t.Run(ctx)
		if b.state.broken != nil {
			return fate{uncompiled: true}, nil
		}
		if err != nil {
			if len(b.state.kinds) == 0 && !b.state.late {
				return f, fmt.Errorf("%s: %w", t.ID, err)
			}
			res = harness.Failed("%v", err) // a submit of the set-up
		}
		if res.Outcome == harness.Pass {
			continue
		}
		if op.Race && len(b.state.races) == 0 {
			if value == "" {
				value = fmt.Sprintf("no race was found, though %s fails: %s", t.ID, res.Reason)
			}
			continue
		}
		f.noticed, f.by = true, b.how(res)
		return f, nil
	}
	f.why = fmt.Sprintf("all %d cases hold", len(e.cases))
	if value != "" {
		f.why = value
	}
	return f, nil
}

// how says what noticed the mutant.
func (b *bench) how(res harness.Result) string {
	switch {
	case len(b.state.races) > 0:
		return "race"
	case b.state.late:
		return "deadline"
	case len(b.state.kinds) > 0:
		return b.state.kinds[0]
	case strings.Contains(res.Reason, "threads give other bits"):
		return "threads"
	case res.Comparison != nil:
		return "value"
	}
	return "other"
}
