package graphs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unsafe"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/graph/graphtest"
	"minfer/engine/lever"
	"minfer/engine/model"
	"minfer/engine/session"
	"minfer/harness"
	"minfer/metal"
	"minfer/metal/mtl"
	"minfer/suites"
)

// On a Metal device the promises are others. Cutting a prompt differently takes
// other kernels, so bits may move within the bound of the float64 model; what only
// moves memory (splits between equal backends, reuse, where the weights lie) must
// not move a bit; a graph that Metal runs whole is one split and one submit.

// metalTokens is the prompt's length: enough rows for the matrix kernel of many
// tokens, and a multiple of no tile.
const metalTokens = 11

// metalCases lists the checks of a Metal device.
func metalCases(env *suites.Env) []harness.Case {
	var cases []harness.Case
	add := func(m suites.Model, op string, run func(*metalCheck) (harness.Result, error), params ...harness.Param) {
		id := harness.ID{Suite: "graph", Op: op, Params: append([]harness.Param{harness.P("model", m.Name)}, params...)}
		cases = append(cases, harness.Case{ID: id, Work: 1, Run: func(ctx context.Context) (harness.Result, error) {
			c := &metalCheck{ctx: ctx, env: env, name: m.Name}
			defer c.close()
			if err := c.open(m, ""); err != nil {
				return harness.Result{}, err
			}
			return run(c)
		}})
	}
	for _, m := range env.Models {
		add(m, "one_split", (*metalCheck).oneSplit)
		for _, kv := range []gguf.Type{gguf.F32, gguf.F16} {
			for _, cut := range []int{1, 3, metalTokens} {
				add(m, "batches", func(c *metalCheck) (harness.Result, error) { return c.batches(kv, cut) }, harness.P("kv", kv), harness.P("cut", cut))
			}
		}
		for _, op := range splitOps {
			add(m, "split", func(c *metalCheck) (harness.Result, error) { return c.split(m, op) }, harness.P("on_cpu", op))
			add(m, "split", func(c *metalCheck) (harness.Result, error) { return c.splitMetal(op) }, harness.P("refused", op))
		}
		add(m, "split", func(c *metalCheck) (harness.Result, error) { return c.split(m, everyOther()...) }, harness.P("on_cpu", "every other op"))
		add(m, "split", func(c *metalCheck) (harness.Result, error) { return c.splitMetal(everyOther()...) }, harness.P("refused", "every other op"))
		for _, which := range []string{"first", "middle", "last", "concatenated"} {
			add(m, "gate", func(c *metalCheck) (harness.Result, error) { return c.gate(which) }, harness.P("withheld", which))
		}
		add(m, "weight_copy", (*metalCheck).weightCopy)
		add(m, "parts", (*metalCheck).parts)
		add(m, "plan_reuse", (*metalCheck).planReuse)
		add(m, "reset", (*metalCheck).reset)
	}
	return cases
}

// everyOther makes as many splits as there can be.
func everyOther() []graph.Op {
	var ops []graph.Op
	for i := 0; i < len(splitOps); i += 2 {
		ops = append(ops, splitOps[i])
	}
	return ops
}

// metalCheck is one model, mapped from a file, with the means to run it.
type metalCheck struct {
	ctx    context.Context
	env    *suites.Env
	name   string
	file   *gguf.File
	model  *model.Model
	prompt []int32
	ends   []func()
}

func (c *metalCheck) close() {
	for _, f := range slices.Backward(c.ends) {
		f()
	}
}

// open maps the model with its matrices in another type, "" for its own.
func (c *metalCheck) open(m suites.Model, mix string) error {
	path, err := c.env.ModelFile(m, mix)
	if err != nil {
		return err
	}
	return c.load(path)
}

func (c *metalCheck) load(path string) error {
	f, err := gguf.Open(path)
	if err != nil {
		return err
	}
	c.ends = append(c.ends, func() { f.Close() })
	m, err := model.Load(f)
	if err != nil {
		return err
	}
	m.Concatenate(true, true)
	c.file, c.model = f, m
	c.prompt = make([]int32, metalTokens)
	for i := range c.prompt {
		c.prompt[i] = int32((i*7919 + 13) % (m.NVocab - 1))
	}
	return nil
}

// metal makes a backend that holds the model's weights.
func (c *metalCheck) metal(l lever.Levers) (*metal.Backend, error) {
	b, err := c.env.Metal(1, metal.Options{Levers: l})
	if err != nil {
		return nil, err
	}
	c.ends = append(c.ends, func() { b.Close() })
	return b, c.model.Hold(b)
}

// session opens one that fuses what it may.
func (c *metalCheck) session(o session.Options, backends ...graph.Backend) (*session.Session, error) {
	o.Backends, o.NCtx, o.FuseQKV, o.FuseFFN = backends, 64, true, true
	s, err := session.New(c.model, o)
	if err == nil {
		c.ends = append(c.ends, s.Close)
	}
	return s, err
}

// run evaluates the prompt in one pass with the logits of every row, two tokens
// one by one, and two more of which only the last row's logits are wanted.
func (c *metalCheck) run(s *session.Session) ([]float32, error) {
	all, err := logits(s, c.prompt, len(c.prompt))
	if err != nil {
		return nil, err
	}
	more, err := logits(s, c.prompt[:2], 1)
	if err != nil {
		return nil, err
	}
	tail, err := s.Eval(c.prompt[2:4])
	return slices.Concat(all, more, tail), err
}

// tokens are those that run evaluates.
func (c *metalCheck) tokens() []int32 { return slices.Concat(c.prompt, c.prompt[:4]) }

// plain is what run gives on the Metal backend alone.
func (c *metalCheck) plain(o session.Options) ([]float32, error) {
	b, err := c.metal(lever.Default())
	if err != nil {
		return nil, err
	}
	s, err := c.session(o, b)
	if err != nil {
		return nil, err
	}
	return c.run(s)
}

// bits runs a session and compares with plain of the same options, bit for bit.
func (c *metalCheck) bits(o session.Options, s *session.Session) (harness.Result, error) {
	o.Exec.Trace = nil
	want, err := c.plain(o)
	if err != nil {
		return harness.Result{}, err
	}
	got, err := c.run(s)
	if err != nil {
		return harness.Failed("%v", err), nil
	}
	cmp, err := harness.Bits(got, want)
	if err != nil {
		return harness.Result{}, err
	}
	return cmp.Result(), nil
}

// near compares logits, one row after another, with those of the float64 model
// over the tokens, which the session has evaluated: all of them, or all but the last
// but one as run gives them.
func (c *metalCheck) near(got []float32, tokens []int32, kv gguf.Type, s *session.Session) (harness.Result, error) {
	var cache suites.KVBytes
	if kv != gguf.F32 {
		var err error
		if cache, err = suites.ReadCache(s, c.model.NLayer); err != nil {
			return harness.Result{}, err
		}
	}
	rows, err := suites.Reference(c.file, tokens, kv, cache)
	if errors.Is(err, suites.ErrRounding) {
		return harness.Failed("%v", err), nil
	}
	if err != nil {
		return harness.Result{}, err
	}
	if n := len(got) / c.model.NVocab; n == len(rows)-1 {
		rows = append(rows[:n-1:n-1], rows[n])
	}
	if n := len(rows) * c.model.NVocab; len(got) != n {
		return harness.Failed("%d logits, want %d", len(got), n), nil
	}
	var worst *harness.Comparison
	for i, row := range rows {
		cmp, err := harness.Within(got[i*len(row):(i+1)*len(row)], row, suites.LogitsBound(row))
		if err != nil {
			return harness.Result{}, err
		}
		if worst == nil || float64(cmp.MaxAbs)*float64(worst.Tolerance) > float64(worst.MaxAbs)*float64(cmp.Tolerance) {
			worst = cmp
		}
		if !cmp.OK() {
			res := cmp.Result()
			res.Reason = fmt.Sprintf("row %d of the logits: %s", i, res.Reason)
			return res, nil
		}
	}
	return worst.Result(), nil
}

// submits is a device that counts.
type submits struct {
	mtl.Device
	commands, submits, dispatches int
}

func (d *submits) NewCommandBuffer(label string) (mtl.CommandBuffer, error) {
	cb, err := d.Device.NewCommandBuffer(label)
	d.commands++
	return countedCommands{cb, d}, err
}

type countedCommands struct {
	mtl.CommandBuffer
	d *submits
}

func (c countedCommands) Submit(ctx context.Context) (mtl.Timing, error) {
	c.d.submits++
	return c.CommandBuffer.Submit(ctx)
}

func (c countedCommands) Dispatch(d mtl.Dispatch) error {
	c.d.dispatches++
	return c.CommandBuffer.Dispatch(d)
}

// oneSplit: each forward pass on Metal is one split and one submit, with a CPU
// backend at hand.
func (c *metalCheck) oneSplit() (harness.Result, error) {
	dev, err := c.env.Device.Open(1)
	if err != nil {
		return harness.Result{}, err
	}
	defer dev.Close()
	d := &submits{Device: dev}
	p, err := metal.Compile(d, c.env.Kernels)
	if err != nil {
		return harness.Result{}, err
	}
	defer p.Release()
	b, err := metal.New(d, metal.Options{Levers: lever.Default(), Pipelines: p, Deadline: suites.CheckedDeadline})
	if err != nil {
		return harness.Result{}, err
	}
	defer b.Close()
	if err := c.model.Hold(b); err != nil {
		return harness.Result{}, err
	}
	cpu, err := c.env.Backend(1)
	if err != nil {
		return harness.Result{}, err
	}
	var trace strings.Builder
	s, err := c.session(session.Options{Exec: graph.ExecOptions{Trace: &trace}}, b, cpu)
	if err != nil {
		return harness.Result{}, err
	}
	passes := [][]int32{c.prompt, c.prompt[:1], c.prompt[1:2], c.prompt[:2]}
	for i, tokens := range passes {
		d.commands, d.submits, d.dispatches = 0, 0, 0
		if _, err := s.Eval(tokens); err != nil {
			return harness.Failed("pass %d: %v", i, err), nil
		}
		if d.commands != 1 || d.submits != 1 || d.dispatches == 0 {
			return harness.Failed("pass %d of %d tokens: %d command buffers and %d submits of %d dispatches, want 1 and 1",
				i, len(tokens), d.commands, d.submits, d.dispatches), nil
		}
	}
	var splits []string
	for _, line := range strings.Split(trace.String(), "\n") {
		if strings.HasPrefix(line, "split ") {
			splits = append(splits, line)
		}
	}
	for _, line := range splits {
		if !oneMetalSplit.MatchString(line) {
			return harness.Failed("the trace has %q: want one split of Metal a plan", line), nil
		}
	}
	if len(splits) != 3 { // the prompt, one token (used twice), two tokens
		return harness.Failed("the trace has %d splits, want 3:\n%s", len(splits), strings.Join(splits, "\n")), nil
	}
	res := harness.Passed()
	res.Counts = []harness.Count{{Name: "passes", N: int64(len(passes))}, {Name: "dispatches", N: int64(d.dispatches)}}
	return res, nil
}

var oneMetalSplit = regexp.MustCompile(`^split 0: Metal nodes 0-\d+$`)

// batches: however the prompt is cut, every row's logits are near those of the
// float64 model.
func (c *metalCheck) batches(kv gguf.Type, cut int) (harness.Result, error) {
	b, err := c.metal(lever.Default())
	if err != nil {
		return harness.Result{}, err
	}
	s, err := c.session(session.Options{KVType: kv}, b)
	if err != nil {
		return harness.Result{}, err
	}
	got, err := logits(s, c.prompt, cut)
	if err != nil {
		return harness.Failed("%v", err), nil
	}
	return c.near(got, c.prompt, kv, s)
}

// split forces ops to the CPU. The matrices are F32 then, which the CPU multiplies
// without rounding the activations, so the float64 model judges both.
func (c *metalCheck) split(m suites.Model, forced ...graph.Op) (harness.Result, error) {
	if err := c.open(m, "f32"); err != nil {
		return harness.Result{}, err
	}
	b, err := c.metal(lever.Default())
	if err != nil {
		return harness.Result{}, err
	}
	cpu, err := c.env.Backend(1)
	if err != nil {
		return harness.Result{}, err
	}
	var trace strings.Builder
	o := session.Options{Exec: graph.ExecOptions{Trace: &trace, ForceOps: map[graph.Op]string{}}}
	for _, op := range forced {
		o.Exec.ForceOps[op] = cpu.Name()
	}
	s, err := c.session(o, b, cpu)
	if err != nil {
		return harness.Result{}, err
	}
	got, err := c.run(s)
	if err != nil {
		return harness.Failed("%v", err), nil
	}
	onCPU, onMetal := strings.Contains(trace.String(), ": CPU nodes"), strings.Contains(trace.String(), ": Metal nodes")
	if used := c.uses(forced...); onCPU != used || !onMetal {
		return harness.Failed("the trace has CPU splits: %v (want %v), Metal splits: %v (want true)", onCPU, used, onMetal), nil
	}
	return c.near(got, c.tokens(), gguf.F32, s)
}

// uses says whether the model's graphs have one of the ops.
func (c *metalCheck) uses(ops ...graph.Op) bool {
	g, err := c.model.Build(graph.Params{NTokens: 2, NOut: 1, NKV: 32, KVType: gguf.F32, GPU: true})
	return err == nil && slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return slices.Contains(ops, n.Op) })
}

// hostile is a wrapped Metal backend that still holds weights.
type hostile struct {
	*graphtest.Wrapped
	graph.WeightHolder
}

// splitMetal puts a Metal backend in front that refuses an op, works late, hides
// its memory and poisons what it recycles; a second one takes the op. Nothing is
// computed differently, so no bit may move.
func (c *metalCheck) splitMetal(refused ...graph.Op) (harness.Result, error) {
	inner, err := c.metal(lever.Default())
	if err != nil {
		return harness.Result{}, err
	}
	back, err := c.metal(lever.Default())
	if err != nil {
		return harness.Result{}, err
	}
	front := hostile{graphtest.Wrap(inner, graphtest.Options{Name: "test", Refuse: refused, Async: true, Opaque: true, Poison: true}), inner}
	c.ends = append(c.ends, func() { front.Close() })
	o := session.Options{KVType: gguf.F16, Exec: graph.ExecOptions{NoFuse: true}}
	s, err := c.session(o, front, back)
	if err != nil {
		return harness.Result{}, err
	}
	return c.bits(o, s)
}

// withholding is a backend to which one weight is never given.
type withholding struct {
	*metal.Backend
	name string
}

func (w withholding) HoldWeight(x *graph.Weight) error {
	if x.Name == w.name {
		return nil
	}
	return w.Backend.HoldWeight(x)
}

// gate: with one weight withheld all of the graph runs on the CPU, with its bits,
// and a line says which weight it was.
func (c *metalCheck) gate(which string) (harness.Result, error) {
	all := c.model.Weights()
	if which == "concatenated" {
		all = c.model.Concatenations()
	}
	if len(all) == 0 {
		return harness.Failed("the model has no %s weight", which), nil
	}
	name := all[map[string]int{"first": 0, "middle": len(all) / 2, "last": len(all) - 1}[which]].Name
	b, err := c.env.Metal(1, metal.Options{Levers: lever.Default()})
	if err != nil {
		return harness.Result{}, err
	}
	c.ends = append(c.ends, func() { b.Close() })
	held := withholding{b, name}
	if err := c.model.Hold(held); err != nil {
		return harness.Result{}, err
	}
	cpu, err := c.env.Backend(1)
	if err != nil {
		return harness.Result{}, err
	}
	var notes, trace strings.Builder
	s, err := c.session(session.Options{Notes: &notes, Exec: graph.ExecOptions{Trace: &trace}}, held, cpu)
	if err != nil {
		return harness.Result{}, err
	}
	if want := "MPS: weights gate closed: " + name + " is not registered; the whole graph runs on CPU\n"; notes.String() != want {
		return harness.Failed("the line at start is %q, want %q", notes.String(), want), nil
	}
	got, err := c.run(s)
	if err != nil {
		return harness.Failed("%v", err), nil
	}
	if s.GPU() || strings.Contains(trace.String(), "Metal") {
		return harness.Failed("Metal takes part with %s withheld", name), nil
	}
	alone, err := c.session(session.Options{}, cpu)
	if err != nil {
		return harness.Result{}, err
	}
	want, err := c.run(alone)
	if err != nil {
		return harness.Result{}, err
	}
	cmp, err := harness.Bits(got, want)
	if err != nil {
		return harness.Result{}, err
	}
	return cmp.Result(), nil
}

// weightCopy: weights that were copied give the bits of those in place. A device that
// can't read the host's memory copies all, and the lever changes nothing. One that can
// has no copy of its own.
func (c *metalCheck) weightCopy() (harness.Result, error) {
	in, err := c.metal(lever.Default())
	if err != nil {
		return harness.Result{}, err
	}
	if in.Device().Limits().NoCopy {
		if err := wraps(in.Device()); err != nil {
			return harness.Failed("%v", err), nil
		}
	}
	l := lever.Default()
	l.WeightCopy = true
	b, err := c.metal(l)
	if err != nil {
		return harness.Result{}, err
	}
	n, joined := len(c.model.Weights()), len(c.model.Concatenations())
	inPlace := n
	if !in.Device().Limits().NoCopy {
		inPlace = 0
	}
	if st := in.WeightStats(); st.InPlace != inPlace || st.Copied != n-inPlace+joined {
		return harness.Failed("%d weights in place and %d copied, want %d and %d with the %d concatenations", st.InPlace, st.Copied, inPlace, n-inPlace+joined, joined), nil
	}
	if st := b.WeightStats(); st.InPlace != 0 || st.Copied != n+joined {
		return harness.Failed("%d weights in place and %d copied, want 0 and %d", st.InPlace, st.Copied, n+joined), nil
	}
	s, err := c.session(session.Options{}, b)
	if err != nil {
		return harness.Result{}, err
	}
	return c.bits(session.Options{}, s)
}

// wraps says whether what is written to wrapped memory shows in the buffer.
func wraps(d mtl.Device) error {
	page := d.Limits().PageSize
	data := make([]byte, 2*page)
	skip := -address(data) & uintptr(page-1)
	data = data[skip:][:page]
	b, err := d.WrapNoCopy(data, "wrapped")
	if err != nil {
		return err
	}
	defer b.Release()
	data[page-1] = 0x5a
	var got [1]byte
	if err := b.Read(page-1, got[:]); err != nil {
		return err
	}
	if got[0] != 0x5a {
		return fmt.Errorf("a byte written to wrapped memory is %#x in its buffer, want 0x5a: the device has a copy", got[0])
	}
	return nil
}

func address(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }

// parts writes the model in several files and runs it from them, in place where the
// device can read the host's memory.
func (c *metalCheck) parts() (harness.Result, error) {
	want, err := c.plain(session.Options{})
	if err != nil {
		return harness.Result{}, err
	}
	spec := gguf.Model{KVs: c.file.KVs}
	var bytes int64
	for _, t := range c.file.Tensors {
		spec.Tensors = append(spec.Tensors, gguf.BytesSpec(t.Name, t.Type, t.Dims, t.Data))
		bytes += int64(len(t.Data))
	}
	paths, err := gguf.Write(filepath.Join(c.env.Temp, c.name+"-metal-parts.gguf"), spec, gguf.WriteOptions{MaxPartBytes: bytes/3 + 1})
	if err != nil {
		return harness.Result{}, err
	}
	if err := c.load(paths[0]); err != nil {
		return harness.Failed("%v", err), nil
	}
	b, err := c.metal(lever.Default())
	if err != nil {
		return harness.Result{}, err
	}
	if len(paths) < 2 {
		return harness.Failed("%d part, want several", len(paths)), nil
	}
	parts, inPlace := len(paths), len(c.model.Weights())
	if !b.Device().Limits().NoCopy {
		parts, inPlace = 0, 0
	}
	if st := b.WeightStats(); st.Parts != parts || st.InPlace != inPlace {
		return harness.Failed("%d of %d parts wrapped, %d of %d weights in place: want %d and %d", st.Parts, len(paths), st.InPlace, len(c.model.Weights()), parts, inPlace), nil
	}
	s, err := c.session(session.Options{}, b)
	if err != nil {
		return harness.Result{}, err
	}
	got, err := c.run(s)
	if err != nil {
		return harness.Failed("%v", err), nil
	}
	cmp, err := harness.Bits(got, want)
	if err != nil {
		return harness.Result{}, err
	}
	res := cmp.Result()
	res.Counts = []harness.Count{{Name: "parts", N: int64(len(paths))}}
	return res, nil
}

// planReuse: a plan is kept while its parameters are equal and rebuilt otherwise,
// and the reuse of plans and buffers moves no bit.
func (c *metalCheck) planReuse() (harness.Result, error) {
	var all [2][]float32
	var stats graph.Stats
	for i, noReuse := range []bool{false, true} {
		b, err := c.metal(lever.Default())
		if err != nil {
			return harness.Result{}, err
		}
		s, err := c.session(session.Options{Exec: graph.ExecOptions{NoReuse: noReuse}}, b)
		if err != nil {
			return harness.Result{}, err
		}
		for _, n := range []int{3, 1, 1, 1, 3, 3, 1} {
			row, err := s.Eval(c.prompt[:n])
			if err != nil {
				return harness.Failed("%v", err), nil
			}
			all[i] = append(all[i], row...)
		}
		if i == 0 {
			stats = s.Stats()
		}
	}
	if want := (graph.Stats{Builds: 4, Reuses: 3, Runs: 7}); stats != want {
		return harness.Failed("%+v after passes of 3, 1, 1, 1, 3, 3 and 1 tokens, want %+v", stats, want), nil
	}
	if slices.ContainsFunc(all[0], func(x float32) bool { return math.IsNaN(float64(x)) }) {
		return harness.Failed("a logit is NaN"), nil
	}
	cmp, err := harness.Bits(all[0], all[1])
	if err != nil {
		return harness.Result{}, err
	}
	return cmp.Result(), nil
}

// reset runs another sequence first: nothing of it may be left.
func (c *metalCheck) reset() (harness.Result, error) {
	o := session.Options{KVType: gguf.F16}
	b, err := c.metal(lever.Default())
	if err != nil {
		return harness.Result{}, err
	}
	s, err := c.session(o, b)
	if err != nil {
		return harness.Result{}, err
	}
	other := make([]int32, 2*len(c.prompt))
	for i := range other {
		other[i] = int32((i*31 + 7) % (c.model.NVocab - 1))
	}
	if _, err := s.Eval(other); err != nil {
		return harness.Failed("%v", err), nil
	}
	if err := s.Reset(); err != nil {
		return harness.Failed("%v", err), nil
	}
	return c.bits(o, s)
}
