package cuda

import (
	_ "embed"
	"fmt"
	"strings"

	"minfer/metal/msl/ir"
	"minfer/metal/msl/ir/pass"
)

//go:embed device/base.cuh
var baseText string

//go:embed device/simd.cuh
var simdText string

//go:embed device/libm.cuh
var libmText string

// Source is the CUDA C++ text of one kernel. The kernel takes a launch_t (see
// device/base.cuh) and then one argument for each of the function's Params: an
// address for a buffer, or the object itself (Inline), and the offset in dynamic
// shared memory (uint32) for a threadgroup argument.
type Source struct {
	Func  *ir.Func
	Text  string
	Entry string // the kernel's name in the text, not mangled
	// StaticBytes are the threadgroup variables: they lie at the start of dynamic
	// shared memory, the arguments behind them at multiples of 16.
	StaticBytes int
	// Whole says that it takes whole simdgroups alone: see Options.
	Whole bool
	// Inline has the size, by Param, of an argument that is taken by value, a multiple
	// of 16, and 0 for the others.
	Inline []int
}

// EmitError names what the emitter can't print.
type EmitError struct {
	Func string
	Pos  ir.Position
	Msg  string
}

// Error is one line.
func (e *EmitError) Error() string {
	return fmt.Sprintf("%s:%d:%d: kernel %s: cuda: %s", e.Pos.File, e.Pos.Line, e.Pos.Col, e.Func, e.Msg)
}

// Options say what is printed beyond the function.
type Options struct {
	// Poll has every loop look now and then whether the host wants the kernel to
	// stop; without it a kernel that never ends takes the GPU with it.
	Poll bool
	// Inline has the kernel take each small object in constant memory by value, in
	// the launch itself: see Source.Inline. Threads then need no load to know it.
	Inline bool
	// Whole is for launches of whole threadgroups of whole simdgroups alone: all lanes
	// are there, which spares a function that sees other lanes most of its mask.
	Whole bool
	// Tensor says how products of matrices are made. Where the function looks at a
	// lane's elements they have the software device's bits.
	Tensor Tensor
}

// Tensor is how products of simdgroup matrices are made. On tensor cores a product
// of halves or bfloats is exact before it is summed, and a product of floats not
// finite where a factor is 2^127 or more.
type Tensor int

const (
	NoTensor    Tensor = iota // by fma, with the software device's bits
	TensorFloat               // tensor cores (capability 8.0 and later); products of floats off by floatError of themselves at most
	TensorPairs               // likewise, by pairsError, in half the time
)

// The largest errors of products, relative to them, of floats in two parts whose
// lower one is no denormal number. TestTensorErrors derives them.
const (
	floatError = 1.75 / (1 << 20) // 11 bits and the 11 below them
	pairsError = 1.0 / (1 << 15)  // two bfloats
)

// maxInline is the most bytes of an object that goes by value.
const maxInline = 256

// inlined tells the parameters that go by value where inlining is asked for.
func inlined(p ir.Param) bool {
	return p.Kind == ir.BufferParam && p.Space == ir.Constant && p.Ref && p.ElemSize > 0 && p.ElemSize <= maxInline
}

// Emit prints a verified function. The error is an *EmitError.
func Emit(f *ir.Func, o Options) (*Source, error) {
	e := &emitter{f: f, o: o, u: pass.Analyze(f), text: make([]string, len(f.Types)), defs: definitions(f.Body, map[ir.Value]*ir.Instr{})}
	e.flow = planFlow(f, e.u)
	e.tensor = planTensor(f, o.Tensor)
	s := &Source{Func: f, Entry: entryName(f.Name), Inline: make([]int, len(f.Params))}
	for k, p := range f.Params {
		if o.Inline && inlined(p) {
			s.Inline[k] = (p.ElemSize + 15) &^ 15
		}
	}
	e.o.Whole = o.Whole && e.flow.masks
	s.Whole = e.o.Whole
	e.indent = 1
	e.prologue(s)
	e.region(f.Body)
	if e.err != nil {
		return nil, e.err
	}
	var out strings.Builder
	out.WriteString(baseText)
	if e.simd {
		out.WriteString(simdText)
		if e.tensor.on {
			out.WriteString(tensorText)
		}
	}
	if e.libm {
		out.WriteString(libmText)
	}
	out.WriteByte('\n')
	for k, t := range f.Tables {
		fmt.Fprintf(&out, "// %s\n__device__ const __align__(16) unsigned char table%d[%d] = {", oneLine(t.Name), k, max(len(t.Data), 1))
		for n, b := range t.Data {
			if n%32 == 0 {
				out.WriteString("\n  ")
			}
			fmt.Fprintf(&out, "%d,", b)
		}
		out.WriteString("\n};\n")
	}
	bounds := ""
	if f.MaxThreads > 0 {
		bounds = fmt.Sprintf("__launch_bounds__(%d) ", f.MaxThreads)
	}
	fmt.Fprintf(&out, "// %s\nextern \"C\" __global__ void %s%s(const launch_t g", oneLine(f.Name), bounds, s.Entry)
	for k, p := range f.Params {
		switch {
		case p.Kind == ir.ThreadgroupParam:
			fmt.Fprintf(&out, ", const u32 arg%d", k)
		case s.Inline[k] > 0:
			fmt.Fprintf(&out, ", const __grid_constant__ object<%d> value%d", s.Inline[k], k)
		default:
			fmt.Fprintf(&out, ", char* const arg%d", k)
		}
		fmt.Fprintf(&out, " /* %s */", strings.ReplaceAll(p.Name, "*/", ""))
	}
	out.WriteString(") {\n")
	out.WriteString(e.out.String())
	out.WriteString("}\n")
	s.Text = out.String()
	return s, nil
}

// entryName makes a C identifier of a host name.
func entryName(name string) string {
	var b strings.Builder
	b.WriteString("k_")
	for _, r := range name {
		if r < 128 && (r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "_%x_", r)
		}
	}
	return b.String()
}

type emitter struct {
	f      *ir.Func
	o      Options
	u      *pass.Uniformity
	flow   *flow
	tensor tensor
	out    strings.Builder
	indent int
	text   []string // by value: its expression, a name or a literal
	defs   map[ir.Value]*ir.Instr
	names  int
	pos    ir.Pos
	mask   string // the mask of active lanes as an expression
	stack  []*ir.Instr
	labels map[string]bool // labels that a goto uses
	simd   bool
	libm   bool
	err    error
}

func (e *emitter) fail(i *ir.Instr, format string, args ...any) {
	if e.err == nil {
		e.err = &EmitError{e.f.Name, e.f.Positions[i.Pos], fmt.Sprintf(format, args...)}
	}
}

func (e *emitter) line(format string, args ...any) {
	for range e.indent {
		e.out.WriteString("  ")
	}
	fmt.Fprintf(&e.out, format, args...)
	e.out.WriteByte('\n')
}

// fresh gives a new name.
func (e *emitter) fresh(prefix string) string {
	e.names++
	return fmt.Sprintf("%s%d", prefix, e.names)
}

// v is the expression of a value.
func (e *emitter) v(x ir.Value) string { return e.text[x] }

func (e *emitter) typ(x ir.Value) ir.Type { return e.f.Types[x] }

// ctype is the C++ type of a value.
func ctype(t ir.Type) string {
	switch t {
	case ir.I1:
		return "bool"
	case ir.I8:
		return "u8"
	case ir.I16, ir.F16, ir.BF16:
		return "u16"
	case ir.I32:
		return "u32"
	case ir.I64:
		return "u64"
	case ir.F32:
		return "float"
	case ir.Ptr:
		return "char*"
	}
	return "sgmat"
}

// define prints the definition of an instruction's result.
func (e *emitter) define(i *ir.Instr, format string, args ...any) {
	e.defineValue(i.Res[0], format, args...)
}

func (e *emitter) defineValue(x ir.Value, format string, args ...any) {
	e.text[x] = fmt.Sprintf("v%d", x)
	e.line("%s const v%d = %s;", ctype(e.typ(x)), x, fmt.Sprintf(format, args...))
}

// variable declares a value that control flow assigns.
func (e *emitter) variable(x ir.Value, init string) {
	e.text[x] = fmt.Sprintf("v%d", x)
	if init != "" {
		init = " = " + init
	}
	e.line("%s v%d%s;", ctype(e.typ(x)), x, init)
}

// position comments the source line where it changes.
func (e *emitter) position(p ir.Pos) {
	if p == 0 || p == e.pos {
		return
	}
	old := e.f.Positions[e.pos]
	e.pos = p
	q := e.f.Positions[p]
	if q.File == old.File && q.Line == old.Line && q.InlinedAt == old.InlinedAt {
		return
	}
	s := fmt.Sprintf("%s:%d", q.File, q.Line)
	for at := q.InlinedAt; at != 0; at = e.f.Positions[at].InlinedAt {
		s += fmt.Sprintf(" in %s:%d", e.f.Positions[at].File, e.f.Positions[at].Line)
	}
	e.line("// %s", oneLine(s))
}

// oneLine makes a text safe in a comment to the end of the line.
func oneLine(s string) string { return strings.NewReplacer("\\", "/", "\n", " ").Replace(s) }

// prologue prints what every kernel starts with.
func (e *emitter) prologue(s *Source) {
	e.line("after(g);")
	if e.o.Whole {
		e.line("const u32 sx = g.tg[0], sy = g.tg[1], sz = g.tg[2], size = sx * sy * sz, tid = threadIdx.x;")
	} else {
		for c, name := range "xyz" {
			e.line("const u32 s%c = min(g.tg[%d], g.threads[%d] - blockIdx.%c * g.tg[%d]);", name, c, c, name, c)
		}
		e.line("const u32 size = sx * sy * sz, tid = threadIdx.x;")
		e.line("if (tid >= size) return;")
	}
	if e.flow.masks {
		if e.o.Whole {
			e.mask = "0xffffffffu"
		} else {
			e.line("const u32 m0 = size - (tid & ~31u) >= 32 ? 0xffffffffu : (1u << (size & 31)) - 1;")
			e.mask = "m0"
		}
		if e.flow.coded {
			e.line("u32 q = 0;")
		}
	}
	if e.o.Poll {
		e.line("u32 polls = 0;")
	}
	for k, n := range s.Inline {
		if n > 0 {
			e.line("char* const arg%d = (char*)&value%d;", k, k)
		}
	}
	for k, a := range e.f.Allocas {
		e.line("__align__(%d) char local%d[%d]; // %s", max(a.Align, 1), k, max(a.Size, 1), oneLine(a.Name))
	}
	at := 0
	for k, t := range e.f.Statics {
		at = (at + max(t.Align, 16) - 1) &^ (max(t.Align, 16) - 1)
		e.line("char* const static%d = (char*)shared_ + %d; // %s", k, at, oneLine(t.Name))
		at += t.Size
	}
	s.StaticBytes = (at + 15) &^ 15
	e.labels = map[string]bool{}
}
