package cuda

import (
	_ "embed"
	"fmt"
	"math/bits"
	"strings"

	"minfer/metal/msl/ir"
)

//go:embed device/tensor.cuh
var tensorText string

// Products of matrices on tensor cores (device/tensor.cuh). An instruction there
// multiplies 16x16 by 16x8, so products wait until their values are asked for: those
// that follow each other in one sum, and those with one second factor, go together.
// What waits for one result is summed by itself from zero and then added to the sum
// so far with one rounding, since the tensor cores' own additions cut off.
//
// Where a function looks at a lane's elements it sees them as the IR has them, so
// there products are made by fma.

// chain is one sum of products that waits.
type chain struct {
	first ir.Value // what the sum goes on top of
	res   ir.Value // the result so far
	kind  string   // what the factors are
	sum   string   // the variable, "" as long as all products are in todo
	todo  [][2]ir.Value
}

// tensor is the state of the products.
type tensor struct {
	on      bool
	uses    map[ir.Value][]use
	chains  []*chain
	pending map[ir.Value]*chain // by result
	factors map[ir.Value]string // the variable of a matrix as a factor
	turned  map[ir.Value]bool   // lies transposed in the lanes
}

type use struct {
	instr *ir.Instr
	arg   int
}

// planTensor looks at the uses of matrices.
func planTensor(f *ir.Func, o Tensor) tensor {
	t := tensor{on: o != NoTensor, uses: map[ir.Value][]use{}, pending: map[ir.Value]*chain{}, factors: map[ir.Value]string{}, turned: map[ir.Value]bool{}}
	var walk func(r *ir.Region)
	walk = func(r *ir.Region) {
		for _, i := range r.Instrs {
			if i.Op == ir.SgElem || i.Op == ir.SgWith {
				t.on = false
			}
			for k, x := range i.Args {
				if f.Types[x].IsSg() {
					t.uses[x] = append(t.uses[x], use{i, k})
				}
			}
			for _, b := range i.Body {
				walk(b)
			}
		}
	}
	walk(f.Body)
	return t
}

// only tells values that are used, and only as those operands of products.
func (t *tensor) only(x ir.Value, args ...int) bool {
	for _, u := range t.uses[x] {
		is := false
		for _, k := range args {
			is = is || u.instr.Op == ir.SgMMA && u.arg == k
		}
		if !is {
			return false
		}
	}
	return len(t.uses[x]) > 0
}

// factorKind names how the factors of a product multiply.
func (e *emitter) factorKind(i *ir.Instr) string {
	a, b := e.typ(i.Args[0]), e.typ(i.Args[1])
	switch {
	case a == ir.SgF16 && b == ir.SgF16:
		return "half"
	case a == ir.SgBF16 && b == ir.SgBF16:
		return "bfloat"
	case e.o.Tensor == TensorPairs:
		return "pairs"
	}
	return "float"
}

// loaded names the parts of a matrix once, where it was loaded.
func (e *emitter) loaded(x ir.Value) {
	if !e.tensor.only(x, 0, 1) {
		return
	}
	kind := e.factorKind(e.tensor.uses[x][0].instr)
	for _, o := range e.tensor.uses[x] {
		if e.factorKind(o.instr) != kind || !e.tensor.turned[x] && o.arg == 1 {
			return
		}
	}
	name := e.fresh("f")
	e.line("const %s %s = tc_%s(%s);", factorType(kind), name, kind, e.v(x))
	e.tensor.factors[x] = name
}

func factorType(kind string) string {
	switch kind {
	case "float":
		return "tc32"
	case "pairs":
		return "tcb2"
	}
	return "tc16"
}

// factor is operand k of a product.
func (e *emitter) factor(x ir.Value, k int, kind string) string {
	if name := e.tensor.factors[x]; name != "" {
		return name
	}
	v := e.v(x)
	if k == 1 && !e.tensor.turned[x] {
		v = fmt.Sprintf("tc_turn(%s, %s)", e.mask, v)
	}
	name := e.fresh("f")
	e.line("const %s %s = tc_%s(%s);", factorType(kind), name, kind, v)
	return name
}

// product takes an SgMMA up.
func (e *emitter) product(i *ir.Instr) {
	t := &e.tensor
	a, b, c := i.Args[0], i.Args[1], i.Args[2]
	if t.pending[a] != nil || t.pending[b] != nil {
		e.settle()
	}
	kind := e.factorKind(i)
	ch := t.pending[c]
	if ch == nil || ch.kind != kind || len(t.uses[c]) != 1 {
		if ch != nil {
			e.settle()
		}
		ch = &chain{first: c, kind: kind}
		t.chains = append(t.chains, ch)
	} else {
		delete(t.pending, c)
	}
	if len(ch.todo) == 2 {
		e.multiply()
	}
	ch.todo = append(ch.todo, [2]ir.Value{a, b})
	ch.res = i.Res[0]
	t.pending[ch.res] = ch
	if e.typ(ch.res) != ir.SgF32 {
		e.settle()
	}
}

// multiply prints what waits in todo.
func (e *emitter) multiply() {
	t := &e.tensor
	done := map[*chain]bool{}
	for k, ch := range t.chains {
		if done[ch] || len(ch.todo) == 0 {
			continue
		}
		both := []*chain{ch}
		for _, o := range t.chains[k+1:] {
			same := !done[o] && o.kind == ch.kind && len(o.todo) == len(ch.todo)
			for n := 0; same && n < len(ch.todo); n++ {
				same = o.todo[n][1] == ch.todo[n][1]
			}
			if same {
				both = append(both, o)
				break
			}
		}
		for _, o := range both {
			done[o] = true
			if o.sum == "" {
				o.sum = e.fresh("sum")
				e.line("sgmat %s = {0.0f, 0.0f};", o.sum)
			}
		}
		var args []string
		for n, f := range ch.todo {
			upper := "{}"
			if len(both) == 2 {
				upper = e.factor(both[1].todo[n][0], 0, ch.kind)
			}
			args = append(args, e.factor(f[0], 0, ch.kind), upper, e.factor(f[1], 1, ch.kind))
		}
		var upper string
		if len(both) == 2 {
			upper = both[1].sum
		} else {
			upper = e.fresh("sum")
			e.line("sgmat %s = {0.0f, 0.0f};", upper)
		}
		e.line("tc_mma_%s(%s, %s, %s);", ch.kind, ch.sum, upper, strings.Join(args, ", "))
	}
	for _, ch := range t.chains {
		ch.todo = nil
	}
}

// settle defines all results that wait.
func (e *emitter) settle() {
	t := &e.tensor
	if len(t.chains) == 0 {
		return
	}
	e.multiply()
	for _, ch := range t.chains {
		sum := fmt.Sprintf("tc_add(%s, %s)", e.v(ch.first), ch.sum)
		switch e.typ(ch.res) {
		case ir.SgF16:
			sum = "sg_h(" + sum + ")"
		case ir.SgBF16:
			sum = "sg_b(" + sum + ")"
		}
		e.defineValue(ch.res, "%s", sum)
		delete(t.pending, ch.res)
	}
	t.chains = nil
}

// before settles what waits ahead of an instruction that needs it, or that
// control goes elsewhere with.
func (e *emitter) before(i *ir.Instr) {
	if len(e.tensor.chains) == 0 || i.Op == ir.SgMMA {
		return
	}
	switch i.Op {
	case ir.If, ir.Loop, ir.Block, ir.Yield, ir.Break, ir.Continue, ir.Return, ir.TgBarrier, ir.SgBarrier:
		e.settle()
		return
	}
	for _, x := range i.Args {
		if e.tensor.pending[x] != nil {
			e.settle()
			return
		}
	}
}

// zeros is how many of a value's lowest bits are known to be 0; a pointer's are
// those of its address.
func (e *emitter) zeros(x ir.Value, depth int) int {
	d := e.defs[x]
	if d == nil || depth == 0 {
		return 0
	}
	arg := func(k int) int { return e.zeros(d.Args[k], depth-1) }
	switch d.Op {
	case ir.Const:
		return bits.TrailingZeros64(d.Imm | 1<<32)
	case ir.PtrStatic:
		return 4
	case ir.Add, ir.Sub, ir.Or, ir.Xor, ir.PtrAdd:
		return min(arg(0), arg(1))
	case ir.And:
		return max(arg(0), arg(1))
	case ir.Select:
		return min(arg(1), arg(2))
	case ir.Mul:
		return arg(0) + arg(1)
	case ir.ZExt, ir.SExt, ir.IntTrunc:
		return arg(0)
	case ir.Shl:
		if c, ok := e.constant(d.Args[1]); ok && c < 32 {
			return arg(0) + int(c)
		}
	}
	return 0
}

// tensorPlace is what of sgPlace depends on the lanes' layout: whether rows and
// columns change places, where that is known, and whether the lane's two elements
// can be taken at once.
func (e *emitter) tensorPlace(m *ir.Mem, args []ir.Value, turned bool) (flag string, pair bool) {
	size := bits.TrailingZeros(uint(m.Elem.Size()))
	transpose, known := e.constant(args[4])
	if !known {
		if turned {
			return "!" + e.v(args[4]), false
		}
		return e.v(args[4]), false
	}
	is := (transpose&1 != 0) != turned
	if is {
		return "true", false
	}
	align := e.zeros(args[0], zerosDepth)
	for _, k := range []int{1, 2} {
		align = min(align, size+e.zeros(args[k], zerosDepth))
	}
	return "false", align > size
}

// zerosDepth bounds how far back zeros looks.
const zerosDepth = 12
