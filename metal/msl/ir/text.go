package ir

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// PrintOptions says what the text form leaves out.
type PrintOptions struct {
	// Bare leaves out positions, sites and parameter details, for comparing code:
	// such text does not give the same function when parsed.
	Bare bool
}

// String gives the text form, which [Parse] reads back to an equal function.
//
//	func "name" {
//	  param buffer 0 device readonly "float" size 4 f32 name "x"
//	  static "shared" size 128 align 4
//	  alloca "acc" size 16 align 4
//	  table "values" 000102ff
//	  threads 256
//	  pos 1 "a.metal" 3 5 at 0
//	  body
//	    %1:ptr = ptrparam 0 !1
//	    %2:f32, %3:f32 = load f32x2 device align 8 %1
//	    %4:f32 = loop #1 (%5:f32 = %2) {
//	      break #1 %5
//	    }
//	    return
//	}
func (f *Func) String() string {
	var sb strings.Builder
	f.Print(&sb, PrintOptions{}) // a strings.Builder does not fail
	return sb.String()
}

// Print writes the text form.
func (f *Func) Print(w io.Writer, o PrintOptions) error {
	p := &printer{f: f, o: o, labels: map[*Instr]int{}}
	p.printf("func %q {\n", f.Name)
	for _, a := range f.Params {
		p.printf("  param %s %d %s", a.Kind, a.Index, a.Space)
		if a.ReadOnly {
			p.printf(" readonly")
		}
		if a.Ref {
			p.printf(" ref")
		}
		p.printf(" %q size %d %s name %q%s\n", a.Elem, a.ElemSize, a.Scalar, a.Name, p.pos(a.Pos))
	}
	for _, s := range f.Statics {
		p.printf("  static %q size %d align %d%s\n", s.Name, s.Size, s.Align, p.pos(s.Pos))
	}
	for _, a := range f.Allocas {
		p.printf("  alloca %q size %d align %d%s\n", a.Name, a.Size, a.Align, p.pos(a.Pos))
	}
	for _, t := range f.Tables {
		p.printf("  table %q %x\n", t.Name, t.Data)
	}
	if f.MaxThreads != 0 {
		p.printf("  threads %d\n", f.MaxThreads)
	}
	if !o.Bare {
		for i := 1; i < len(f.Positions); i++ {
			q := f.Positions[i]
			p.printf("  pos %d %q %d %d at %d\n", i, q.File, q.Line, q.Col, q.InlinedAt)
		}
	}
	p.printf("  body\n")
	if f.Body != nil {
		p.region(f.Body, "    ")
	}
	p.printf("}\n")
	_, err := io.WriteString(w, p.sb.String())
	return err
}

type printer struct {
	f      *Func
	o      PrintOptions
	sb     strings.Builder
	labels map[*Instr]int
}

func (p *printer) printf(format string, args ...any) { fmt.Fprintf(&p.sb, format, args...) }

func (p *printer) pos(q Pos) string {
	if q == 0 || p.o.Bare {
		return ""
	}
	return fmt.Sprintf(" !%d", q)
}

func (p *printer) typ(v Value) Type {
	if v > 0 && int(v) < len(p.f.Types) {
		return p.f.Types[v]
	}
	return Void
}

func (p *printer) region(r *Region, indent string) {
	for _, i := range r.Instrs {
		p.sb.WriteString(indent)
		p.instr(i, indent)
		p.sb.WriteByte('\n')
	}
}

func (p *printer) label(i *Instr) int {
	n, ok := p.labels[i]
	if !ok {
		n = len(p.labels) + 1
		p.labels[i] = n
	}
	return n
}

func (p *printer) values(vs []Value) {
	for k, v := range vs {
		if k > 0 {
			p.sb.WriteByte(',')
		}
		p.printf(" %%%d", v)
	}
}

func (p *printer) instr(i *Instr, indent string) {
	for k, v := range i.Res {
		if k > 0 {
			p.sb.WriteString(", ")
		}
		p.printf("%%%d:%s", v, p.typ(v))
	}
	if len(i.Res) > 0 {
		p.sb.WriteString(" = ")
	}
	p.sb.WriteString(i.Op.String())
	if s := immText(i, p); s != "" {
		p.sb.WriteByte(' ')
		p.sb.WriteString(s)
	}
	if m := i.Mem; m != nil {
		p.printf(" %sx%d %s align %d", m.Elem, m.Count, m.Space, m.Align)
		if m.Vector != 0 {
			p.printf(" vector %d+%d", m.Vector, m.VectorOff)
		}
		if m.Coherent {
			p.sb.WriteString(" coherent")
		}
	}
	switch i.Op {
	case Loop, Block:
		p.printf(" #%d", p.label(i))
	case Break, Continue:
		n := 0
		if i.Target != nil {
			n = p.label(i.Target)
		}
		p.printf(" #%d", n)
	}
	if i.Op == Loop && len(i.Body) == 1 {
		p.sb.WriteString(" (")
		for k, a := range i.Body[0].Args {
			if k > 0 {
				p.sb.WriteString(", ")
			}
			var init Value
			if k < len(i.Args) {
				init = i.Args[k]
			}
			p.printf("%%%d:%s = %%%d", a, p.typ(a), init)
		}
		p.sb.WriteByte(')')
	} else {
		p.values(i.Args)
	}
	if i.Site != 0 && !p.o.Bare {
		p.printf(" site %d", i.Site)
	}
	p.sb.WriteString(p.pos(i.Pos))
	for k, r := range i.Body {
		if k > 0 {
			p.sb.WriteString(" else")
		}
		p.sb.WriteString(" {\n")
		p.region(r, indent+"  ")
		p.sb.WriteString(indent)
		p.sb.WriteByte('}')
	}
}

// immText gives the readable form of Imm, which parseImm reads.
func immText(i *Instr, p *printer) string {
	switch i.Op {
	case Const:
		if len(i.Res) == 1 {
			return constText(p.typ(i.Res[0]), i.Imm)
		}
		return fmt.Sprintf("0x%x", i.Imm)
	case ICmp, FCmp:
		return Pred(i.Imm).String()
	case PtrParam, PtrStatic, PtrAlloca, PtrTable, SgElem, SgWith:
		return strconv.FormatUint(i.Imm, 10)
	case AtomicRMW:
		return AtomicOp(i.Imm).String()
	case Grid:
		return GridKind(i.Imm>>2).String() + "." + string("xyzw"[i.Imm&3])
	case SimdReduce, SimdScan:
		s := ReduceOp(i.Imm & 0xff).String()
		if i.Imm&ScanExclusive != 0 {
			s += " exclusive"
		}
		return quadText(i.Imm, s)
	case SimdShuffle:
		return quadText(i.Imm, ShuffleOp(i.Imm&0xff).String())
	case SimdVote:
		return quadText(i.Imm, VoteOp(i.Imm&0xff).String())
	case SimdFirst, SimdActive:
		return quadText(i.Imm, "")
	case TgBarrier, SgBarrier, Fence:
		return MemFlags(i.Imm).String()
	}
	if i.Imm != 0 {
		return fmt.Sprintf("0x%x", i.Imm)
	}
	return ""
}

func quadText(imm uint64, s string) string {
	if imm&QuadScope != 0 {
		return strings.TrimSpace(s + " quad")
	}
	return s
}

func constText(t Type, bits uint64) string {
	switch t {
	case I1:
		if bits == 1 {
			return "true"
		}
		if bits == 0 {
			return "false"
		}
	case I8:
		return strconv.Itoa(int(int8(bits)))
	case I16:
		return strconv.Itoa(int(int16(bits)))
	case I32:
		return strconv.Itoa(int(int32(bits)))
	case I64:
		return strconv.FormatInt(int64(bits), 10)
	case F32:
		f := math.Float32frombits(uint32(bits))
		if f == f && !math.IsInf(float64(f), 0) {
			s := strconv.FormatFloat(float64(f), 'g', -1, 32)
			if !strings.ContainsAny(s, ".e") {
				s += ".0"
			}
			return s
		}
	}
	return fmt.Sprintf("0x%x", bits)
}
