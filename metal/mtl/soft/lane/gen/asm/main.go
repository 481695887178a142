// Command asm writes the assembly of package lane: for one instruction set level
// the handlers of the operations that it has, the loop that calls them, and the
// routines on memory.
//
// A handler takes no arguments in Go's way: DI, SI, DX, CX point to the
// destination and the operands; R8 (the frame), R9 (the next step) and R11 (the
// table) stay, everything else is scratch. Each handler fetches the next step and
// jumps to its handler, so that an operation costs little more than its loads and
// stores. The generator below knows no jump to a register, so the text that it
// writes has a RET there, which writeTable replaces.
//
// Operands are in Go's order: the destination last.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"os"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"minfer/metal/mtl/soft/lane/gen/list"
)

var (
	d = Mem{Base: RDI}
	a = Mem{Base: RSI}
	b = Mem{Base: RDX}
	c = Mem{Base: RCX}
)

// vectors and scalars are the operations that have a handler.
var vectors, scalars = map[string]bool{}, map[string]bool{}

var level string

// handler writes the handler of a 32-lane operation.
func handler(name string, body func()) {
	vectors[name] = true
	TEXT("h"+name+level, attr.NOSPLIT|attr.NOFRAME, "func()")
	body()
	fetch()
	RET()
}

// scalarHandler writes the handler of the scalar form.
func scalarHandler(name string, body func()) {
	scalars[name] = true
	TEXT("s"+name+level, attr.NOSPLIT|attr.NOFRAME, "func()")
	body()
	fetch()
	RET()
}

// fetch loads the next step: its handler's number in AX, the pointers of the
// operands.
func fetch() {
	step := func(off int) Mem { return Mem{Base: R9, Disp: off} }
	MOVL(step(0), EAX)
	MOVL(step(4), EDI)
	MOVL(step(8), ESI)
	MOVL(step(12), EDX)
	MOVL(step(16), ECX)
	ADDQ(U8(20), R9)
	ADDQ(R8, RDI)
	ADDQ(R8, RSI)
	ADDQ(R8, RDX)
	ADDQ(R8, RCX)
}

// loop writes run, which jumps to the first step's handler, and done, which
// returns to run's caller.
func loop() {
	TEXT("run"+level, attr.NOSPLIT|attr.NOFRAME, "func(steps *byte, base *byte)")
	Doc("run" + level + " executes steps in the frame at base until one without an operation.")
	Pragma("noescape")
	Load(Param("steps"), R9)
	Load(Param("base"), R8)
	LEAQ(NewDataAddr(NewStaticSymbol("table"+level), 0), R11)
	fetch()
	RET()
	TEXT("done"+level, attr.NOSPLIT|attr.NOFRAME, "func()")
	VZEROUPPER()
	RET()
}

func bin64(name string, op func(imr, amr Op)) {
	scalarHandler(name, func() {
		MOVQ(a, RAX)
		op(b, RAX)
		MOVQ(RAX, d)
	})
}

func bin32(name string, op func(imr, amr Op)) {
	scalarHandler(name, func() {
		MOVL(a, EAX)
		op(b, EAX)
		MOVQ(RAX, d)
	})
}

func scalarFamily() {
	bin64("Add64", func(x, y Op) { ADDQ(x, y) })
	bin64("Sub64", func(x, y Op) { SUBQ(x, y) })
	bin64("And64", func(x, y Op) { ANDQ(x, y) })
	bin64("Or64", func(x, y Op) { ORQ(x, y) })
	bin64("Xor64", func(x, y Op) { XORQ(x, y) })
	bin64("Mul64", func(x, y Op) { IMULQ(x, y) })
	bin32("Add32", func(x, y Op) { ADDL(x, y) })
	bin32("Sub32", func(x, y Op) { SUBL(x, y) })
	bin32("And32", func(x, y Op) { ANDL(x, y) })
	bin32("Or32", func(x, y Op) { ORL(x, y) })
	bin32("Xor32", func(x, y Op) { XORL(x, y) })
	bin32("Mul32", func(x, y Op) { IMULL(x, y) })
	shift := func(name string, wide bool, op func(ci, mr Op)) {
		scalarHandler(name, func() {
			MOVQ(b, RCX)
			if wide {
				MOVQ(a, RAX)
				op(CL, RAX)
			} else {
				MOVL(a, EAX)
				op(CL, EAX)
			}
			MOVQ(RAX, d)
		})
	}
	shift("Shl64", true, func(x, y Op) { SHLQ(x, y) })
	shift("LShr64", true, func(x, y Op) { SHRQ(x, y) })
	shift("AShr64", true, func(x, y Op) { SARQ(x, y) })
	shift("Shl32", false, func(x, y Op) { SHLL(x, y) })
	shift("LShr32", false, func(x, y Op) { SHRL(x, y) })
	shift("AShr32", false, func(x, y Op) { SARL(x, y) })
	scalarHandler("Copy64", func() {
		MOVQ(a, RAX)
		MOVQ(RAX, d)
	})
	for _, name := range []string{"Copy32", "ZExt64", "Trunc64"} {
		scalarHandler(name, func() {
			MOVL(a, EAX)
			MOVQ(RAX, d)
		})
	}
	scalarHandler("SExt64", func() {
		MOVLQSX(a, RAX)
		MOVQ(RAX, d)
	})
	cmp := func(name string, wide bool, set func(m Op)) {
		scalarHandler(name, func() {
			XORL(EBX, EBX)
			if wide {
				MOVQ(a, RAX)
				CMPQ(RAX, b)
			} else {
				MOVL(a, EAX)
				CMPL(EAX, b)
			}
			set(BL)
			NEGL(EBX)
			MOVQ(RBX, d)
		})
	}
	for _, w := range []string{"32", "64"} {
		cmp("Eq"+w, w == "64", func(m Op) { SETEQ(m) })
		cmp("Ne"+w, w == "64", func(m Op) { SETNE(m) })
		cmp("SLt"+w, w == "64", func(m Op) { SETLT(m) })
		cmp("SLe"+w, w == "64", func(m Op) { SETLE(m) })
		cmp("ULt"+w, w == "64", func(m Op) { SETCS(m) })
		cmp("ULe"+w, w == "64", func(m Op) { SETLS(m) })
	}
	for _, w := range []string{"32", "64"} {
		scalarHandler("Select"+w, func() {
			if w == "64" {
				MOVQ(b, RAX)
				MOVQ(c, RBX)
			} else {
				MOVL(b, EAX)
				MOVL(c, EBX)
			}
			MOVL(a, R12L)
			TESTL(R12L, R12L)
			CMOVQEQ(RBX, RAX)
			MOVQ(RAX, d)
		})
	}
	least := func(name string, wide bool, move func(mr, r Op)) {
		scalarHandler(name, func() {
			if wide {
				MOVQ(a, RAX)
				MOVQ(b, RBX)
				CMPQ(RBX, RAX)
			} else {
				MOVL(a, EAX)
				MOVL(b, EBX)
				CMPL(EBX, EAX)
			}
			move(RBX, RAX)
			MOVQ(RAX, d)
		})
	}
	for _, w := range []string{"32", "64"} {
		least("SMin"+w, w == "64", func(x, y Op) { CMOVQLT(x, y) })
		least("SMax"+w, w == "64", func(x, y Op) { CMOVQGT(x, y) })
		least("UMin"+w, w == "64", func(x, y Op) { CMOVQCS(x, y) })
		least("UMax"+w, w == "64", func(x, y Op) { CMOVQHI(x, y) })
	}
	scalarHandler("MaskSelect", func() {
		MOVQ(a, RAX)
		MOVQ(b, RBX)
		ANDQ(RAX, RBX)
		NOTQ(RAX)
		ANDQ(c, RAX)
		ORQ(RBX, RAX)
		MOVQ(RAX, d)
	})
	float := func(name string, op func(x, y Op)) {
		scalarHandler(name, func() {
			VMOVSS(a, X0)
			op(b, X0)
			VMOVD(X0, EAX)
			MOVQ(RAX, d)
		})
	}
	float("FAdd", func(x, y Op) { VADDSS(x, y, y) })
	float("FSub", func(x, y Op) { VSUBSS(x, y, y) })
	float("FMul", func(x, y Op) { VMULSS(x, y, y) })
	float("FDiv", func(x, y Op) { VDIVSS(x, y, y) })
	scalarHandler("FMA", func() {
		VMOVSS(c, X0)
		VMOVSS(a, X1)
		VFMADD231SS(b, X1, X0)
		VMOVD(X0, EAX)
		MOVQ(RAX, d)
	})
}

// writeTable appends the handlers' addresses by operation to the assembly, and
// writes down which there are.
func writeTable() error {
	ops := list.Ops()
	n := len(ops) + 1
	var s, g bytes.Buffer
	fmt.Fprintf(&s, "DATA table%s<>+0(SB)/8, $·done%s(SB)\n", level, level)
	fmt.Fprintf(&g, "// Code generated by gen/asm. DO NOT EDIT.\n\npackage lane\n\n")
	fmt.Fprintf(&g, "// has%s tells the operations with a handler: 32 lanes, then scalar, then memory.\nvar has%s = [numSteps]bool{\n", level, level)
	// In ascending order, as the assembler wants it.
	for form, m := range []map[string]bool{vectors, scalars} {
		for k, op := range ops {
			if !m[op.Name] {
				continue
			}
			fmt.Fprintf(&s, "DATA table%s<>+%d(SB)/8, $·%c%s%s(SB)\n", level, 8*(k+1+form*n), "hs"[form], op.Name, level)
			fmt.Fprintf(&g, "\t%s%s: true,\n", []string{"", "NumOps + "}[form], op.Name)
		}
	}
	for k, name := range list.Memories() {
		if memories[name] {
			fmt.Fprintf(&s, "DATA table%s<>+%d(SB)/8, $·m%s%s(SB)\n", level, 8*(2*n+k), name, level)
			fmt.Fprintf(&g, "\tuint32(%s): true,\n", name)
		}
	}
	fmt.Fprintf(&s, "GLOBL table%s<>(SB), RODATA, $%d\n", level, 8*(2*n+len(list.Memories())))
	fmt.Fprintf(&g, "}\n")
	out := flag.Lookup("out").Value.String()
	text, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	// Within handlers and run, RET is the jump to the next handler.
	var asm bytes.Buffer
	jump := false
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "TEXT" {
			name, _, _ := strings.Cut(strings.TrimPrefix(f[1], "·"), "(")
			jump = memories[strings.TrimSuffix(strings.TrimPrefix(name, "m"), level)] && name[0] == 'm' ||
				name == "run"+level || vectors[strings.TrimSuffix(strings.TrimPrefix(name, "h"), level)] && name[0] == 'h' ||
				scalars[strings.TrimSuffix(strings.TrimPrefix(name, "s"), level)] && name[0] == 's'
		}
		if jump && strings.TrimSpace(line) == "RET" {
			line = "\tJMP  (R11)(AX*8)\n"
		}
		asm.WriteString(line)
	}
	fmt.Fprintf(&asm, "\n%s", s.String())
	if err := os.WriteFile(out, asm.Bytes(), 0o644); err != nil {
		return err
	}
	src, err := format.Source(g.Bytes())
	if err != nil {
		return err
	}
	return os.WriteFile(strings.TrimSuffix(out, "_amd64.s")+"_table_amd64.go", src, 0o644)
}

func main() {
	flag.StringVar(&level, "level", "", "AVX512 or AVX2")
	flag.Parse()
	switch level {
	case "AVX512":
		avx512Family()
	case "AVX2":
		avx2Family()
	default:
		fmt.Fprintf(os.Stderr, "asm: -level is %q, want AVX512 or AVX2\n", level)
		os.Exit(2)
	}
	scalarFamily()
	uniformLoads()
	loop()
	Generate()
	if err := writeTable(); err != nil {
		fmt.Fprintln(os.Stderr, "asm:", err)
		os.Exit(1)
	}
}
