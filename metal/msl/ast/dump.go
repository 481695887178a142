package ast

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Dump gives a tree as text, for tests and for people: each node is
// (Kind field=value ...), without ranges and empty fields. Names, basic types and
// literals stand for themselves.
func Dump(n Node) string {
	var b strings.Builder
	dump(&b, reflect.ValueOf(n), 0)
	return b.String()
}

var rangeType = reflect.TypeOf(Range{})

// dump writes a value. Statements and declarations in lists have lines of their
// own.
func dump(b *strings.Builder, v reflect.Value, indent int) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			b.WriteString("nil")
			return
		}
		if !dumpLeaf(b, v.Interface(), indent) {
			dump(b, v.Elem(), indent)
		}
	case reflect.Slice:
		dumpList(b, v, indent)
	case reflect.String:
		fmt.Fprintf(b, "%q", v.String())
	case reflect.Uint8:
		if s, ok := v.Interface().(fmt.Stringer); ok {
			b.WriteString(s.String())
			return
		}
		fmt.Fprint(b, v.Uint())
	case reflect.Struct:
		switch x := v.Interface().(type) {
		case Ident:
			b.WriteString(x.Name)
		case NamePart:
			dumpPart(b, &x, indent)
		default:
			dumpStruct(b, v, indent)
		}
	default:
		if s, ok := v.Interface().(fmt.Stringer); ok {
			b.WriteString(s.String())
			return
		}
		fmt.Fprint(b, v.Interface())
	}
}

// dumpLeaf writes nodes that need no parentheses.
func dumpLeaf(b *strings.Builder, n any, indent int) bool {
	switch n := n.(type) {
	case *Name:
		dumpName(b, n, indent)
	case *NameExpr:
		dumpName(b, n.Name, indent)
	case *NamedType:
		if n.Typename {
			b.WriteString("typename ")
		}
		dumpName(b, n.Name, indent)
	case *BasicType:
		b.WriteString(n.Kind.String())
	case *IntLit:
		b.WriteString(strconv.FormatUint(n.Value, 10))
		if n.Unsigned {
			b.WriteByte('u')
		}
		b.WriteString(strings.Repeat("l", n.Long))
	case *FloatLit:
		b.WriteString(n.Text + n.Suffix)
	case *BoolLit:
		b.WriteString(strconv.FormatBool(n.Value))
	default:
		return false
	}
	return true
}

func dumpStruct(b *strings.Builder, v reflect.Value, indent int) {
	t := v.Type()
	b.WriteString("(" + t.Name())
	for i := 0; i < t.NumField(); i++ {
		f := v.Field(i)
		if t.Field(i).Type == rangeType || f.IsZero() || f.Kind() == reflect.Slice && f.Len() == 0 {
			continue
		}
		name := t.Field(i).Name
		if f.Kind() == reflect.Bool {
			b.WriteString(" " + name)
			continue
		}
		b.WriteString(" " + name + "=")
		dump(b, f, indent)
	}
	b.WriteString(")")
}

func dumpList(b *strings.Builder, v reflect.Value, indent int) {
	lines := false
	switch v.Interface().(type) {
	case []Decl, []Stmt:
		lines = true
	}
	b.WriteString("[")
	for i := 0; i < v.Len(); i++ {
		if lines {
			b.WriteString("\n" + strings.Repeat("  ", indent+1))
		} else if i > 0 {
			b.WriteString(" ")
		}
		dump(b, v.Index(i), indent+1)
	}
	b.WriteString("]")
}

func dumpName(b *strings.Builder, n *Name, indent int) {
	for i := range n.Parts {
		if i > 0 || n.Global {
			b.WriteString("::")
		}
		dumpPart(b, &n.Parts[i], indent)
	}
}

func dumpPart(b *strings.Builder, p *NamePart, indent int) {
	switch p.Kind {
	case NameOperator:
		b.WriteString("operator" + p.Ident)
	case NameConversion:
		b.WriteString("operator ")
		dump(b, reflect.ValueOf(p.Conv), indent)
	case NameDestructor:
		b.WriteString("~" + p.Ident)
	case NameDecltype:
		dump(b, reflect.ValueOf(p.Conv), indent)
	default:
		b.WriteString(p.Ident)
	}
	if !p.HasArgs {
		return
	}
	b.WriteString("<")
	for i := range p.Args {
		if i > 0 {
			b.WriteString(", ")
		}
		a := p.Args[i]
		if a.Type != nil {
			dump(b, reflect.ValueOf(a.Type), indent)
		} else {
			dump(b, reflect.ValueOf(a.Expr), indent)
		}
		if a.Pack {
			b.WriteString("...")
		}
	}
	b.WriteString(">")
}

// String gives the names of the specifiers.
func (s Specs) String() string {
	return bits(uint32(s), []string{"kernel", "vertex", "fragment", "static", "inline", "constexpr", "extern", "explicit", "friend",
		"mutable", "virtual", "consteval", "register", "thread_local"})
}

// String gives the names of the qualifiers.
func (q Quals) String() string {
	return bits(uint32(q), []string{"const", "volatile", "restrict", "coherent", "_Atomic"})
}

func bits(v uint32, names []string) string {
	var out []string
	for i, n := range names {
		if v&(1<<i) != 0 {
			out = append(out, n)
		}
	}
	return strings.Join(out, "|")
}

// String gives the kind's name.
func (k FuncKind) String() string {
	return [...]string{"function", "constructor", "destructor", "conversion"}[k]
}

// String gives the kind's name.
func (k ParamKind) String() string { return [...]string{"type", "value", "template"}[k] }

// String gives the form.
func (s InitStyle) String() string { return [...]string{"none", "=", "()", "{}"}[s] }

// String gives the request's name.
func (k UnrollKind) String() string { return [...]string{"full", "count", "enable", "disable"}[k] }

// String gives the level's keyword.
func (a Access) String() string { return [...]string{"", "public", "protected", "private"}[a] }
