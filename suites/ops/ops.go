// Package ops is the suite of single operators: each case is one node of one
// shape, run by a backend and held against its reference. On the CPU the
// contract is bits, and the reference is refs/exact; with a live llama.cpp the
// same case is also put to ggml itself. On a Metal device it is float64 within the
// kernel's bound: see package metalcase.
//
// A case looks at more than the answer: inputs and guard zones stay unchanged,
// an output that starts as NaN is wholly written, and a second run, with another
// number of threads, gives the same bits.
package ops

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/harness"
	"minfer/refs/exact"
	"minfer/refs/llamacpp"
	"minfer/suites"
	"minfer/suites/metalcase"
	"minfer/suites/onenode"
)

// Suite is the suite `ops`.
type Suite struct{}

// Name is "ops".
func (Suite) Name() string { return "ops" }

// opCase is one shape of one op.
type opCase interface {
	// id is the op's printed name and its parameters in their fixed order.
	id() (op string, params []harness.Param)
	// work is the number of multiply-adds, or of elements.
	work() int64
	// refusal says why no backend can be asked, "" for a well-formed case: a row
	// that is not whole blocks, for instance.
	refusal() string
	// metal is the same case for a Metal device.
	metal() metalcase.Case
	// build draws the data and computes the reference, at the device's level.
	build(r *rand.Rand, level exact.Level) (*problem, error)
}

// problem is one node with its data and the expected result.
type problem struct {
	node *graph.Node
	in   [][]byte // contents of the inputs; those of KV loads are nil
	kv   *kvProblem
	want []float32
	// oracle asks ggml for the same values; nil where it has no such operator.
	oracle func(*llamacpp.Lib) ([]float32, error)
}

// kvProblem is the cache of the node's layer.
type kvProblem struct {
	graph.KV        // type, capacity and widths; the buffers are made by run
	k, v     []byte // contents, [capacity][width]
	result   bool   // the result is the K region instead of the node's output
}

// parsers reads a case line's keys, by op.
var parsers = map[string]func(*harness.Line) (opCase, error){
	"mul_mat":       parseMulMat,
	"get_rows":      parseGetRows,
	"rms_norm":      parseRmsNorm,
	"qk_norm":       parseQkNorm,
	"rope":          parseRope,
	"attention":     parseAttention,
	"soft_max":      parseSoftMax,
	"silu":          parseElementwise,
	"swiglu":        parseElementwise,
	"add":           parseElementwise,
	"mul":           parseElementwise,
	"scale":         parseScale,
	"batch_mul_mat": parseBatchMulMat,
	"kv_store":      parseKvStore,
}

// Cases gives the tier's own cases, or those of env.Lines.
func (Suite) Cases(env *suites.Env) ([]harness.Case, error) {
	list := builtin(env.Tier)
	if env.Lines != nil {
		list = nil
		for _, l := range env.Lines {
			parse, ok := parsers[l.Op]
			if !ok {
				return nil, l.Errorf("unknown op: want one of %s", strings.Join(slices.Sorted(maps.Keys(parsers)), ", "))
			}
			c, err := parse(l)
			if err != nil {
				return nil, err
			}
			if err := l.Done(); err != nil {
				return nil, err
			}
			list = append(list, c)
		}
	}
	if env.Device.Open != nil {
		return onMetal(env, list), nil
	}
	cases := make([]harness.Case, len(list))
	for i, c := range list {
		op, params := c.id()
		id := harness.ID{Suite: "ops", Op: op, Params: params}
		cases[i] = harness.Case{ID: id, Work: max(c.work(), 1), Run: func(context.Context) (harness.Result, error) {
			return verify(env, c, id)
		}}
	}
	return append(cases, quantizeCases(env)...), nil
}

// verify judges one case.
func verify(env *suites.Env, c opCase, id harness.ID) (harness.Result, error) {
	if why := c.refusal(); why != "" {
		return harness.Refused("%s", why), nil
	}
	if err := env.CheckOracle(); err != nil {
		return harness.Result{}, err
	}
	p, err := c.build(random(env.Seed, id), env.Device.Level)
	if err != nil {
		return harness.Result{}, err
	}
	var first []float32
	for _, threads := range []int{1, 3} {
		backend, err := env.Backend(threads)
		if err != nil {
			return harness.Result{}, err
		}
		got, refusal, err := run(backend, p)
		switch {
		case err != nil:
			return harness.Failed("%v", err), nil
		case refusal != "":
			return harness.Refused("%s", refusal), nil
		}
		if first == nil {
			first = got
			continue
		}
		again, err := harness.Bits(got, first)
		if err != nil || !again.OK() {
			return harness.Failed("%d threads give other bits than 1: %v", threads, again), err
		}
	}
	cmp, err := harness.Bits(first, p.want)
	if err != nil {
		return harness.Result{}, err
	}
	res := cmp.Result()
	if env.Oracle == nil || p.oracle == nil || res.Outcome != harness.Pass {
		return res, nil
	}
	live, err := p.oracle(env.Oracle)
	if err != nil {
		return harness.Result{}, err
	}
	cmp, err = harness.Bits(first, live)
	if err != nil {
		return harness.Result{}, err
	}
	res = cmp.Result()
	if res.Outcome != harness.Pass {
		res.Reason = "against llama.cpp: " + res.Reason
	}
	res.Counts = []harness.Count{{Name: "also against llama.cpp", N: 1}}
	return res, nil
}

// random is the generator of one case: it depends on the seed and the case
// alone, so a case has the same data in every run, filter and order.
func random(seed uint64, id harness.ID) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(id.String()))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// run executes the problem's node once and gives its result as float32 values:
// F16 is widened, which keeps bits apart.
func run(b graph.Backend, p *problem) (values []float32, refusal string, err error) {
	n := p.node
	t := n.Type
	if p.kv != nil {
		t = p.kv.Type
	}
	if !b.SupportsOp(n.Op, t) {
		return nil, fmt.Sprintf("%s does not support %s of %s", b.Name(), n.Op, t), nil
	}
	var held []onenode.Guarded
	defer func() {
		for _, g := range held {
			b.FreeBuffer(g.Operand.Buf)
		}
	}()
	// Regions of the cache start at offset 0 of their buffers, as the graph has them: 0
	// bytes before.
	hold := func(what string, content []byte, before int, fixed bool) (graph.Operand, error) {
		g, err := onenode.NewGuarded(b, what, content, before, fixed)
		if err != nil {
			return graph.Operand{}, err
		}
		held = append(held, g)
		return g.Operand, nil
	}

	var kv *graph.KV
	var k, v graph.Operand
	if p.kv != nil {
		layer := p.kv.KV
		if k, err = hold("K cache", p.kv.k, 0, !p.kv.result); err != nil {
			return nil, "", err
		}
		if v, err = hold("V cache", p.kv.v, 0, true); err != nil {
			return nil, "", err
		}
		layer.K, layer.V = k.Buf, v.Buf
		kv = &layer
	}
	in := make([]graph.Operand, len(p.in))
	for i, content := range p.in {
		switch node := n.In[i]; {
		case node.Op == graph.KvcacheLoad && node.Attr.KV == graph.KVKey:
			in[i] = k
		case node.Op == graph.KvcacheLoad:
			in[i] = v
		default:
			if in[i], err = hold(fmt.Sprintf("input %d", i), content, onenode.Guard, true); err != nil {
				return nil, "", err
			}
		}
	}
	out := k
	outType := t
	if p.kv == nil || !p.kv.result {
		outType = n.Type
		if out, err = hold("output", onenode.Poison(n.Shape.Elements()), onenode.Guard, false); err != nil {
			return nil, "", err
		}
	}
	if err := b.ExecuteNode(n, in, out, kv); err != nil {
		if errors.Is(err, graph.ErrUnsupported) {
			return nil, err.Error(), nil
		}
		return nil, "", err
	}
	if err := b.Synchronize(); err != nil {
		return nil, "", err
	}
	for _, g := range held {
		fault, err := g.Check(b)
		if err == nil && fault != "" {
			err = errors.New(fault)
		}
		if err != nil {
			return nil, "", err
		}
	}
	data := make([]byte, out.Len)
	if err := b.ReadHost(out.Buf, out.Off, data); err != nil {
		return nil, "", err
	}
	values, err = widen(outType, data)
	return values, "", err
}

// widen reads values of a plain type as float32.
func widen(t gguf.Type, data []byte) ([]float32, error) {
	var out []float32
	switch t {
	case gguf.F32:
		out = make([]float32, len(data)/4)
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
	case gguf.F16:
		out = make([]float32, len(data)/2)
		for i := range out {
			out[i] = f16(binary.LittleEndian.Uint16(data[2*i:]))
		}
	default:
		return nil, fmt.Errorf("results of type %v cannot be compared: want f32 or f16", t)
	}
	return out, nil
}
