package pp

import (
	"fmt"
	"math"
	"strings"

	"minfer/metal/msl/lex"
	"minfer/metal/msl/source"
)

// isDefined answers defined(name).
func (p *preprocessor) isDefined(name string) bool {
	switch name {
	case "__has_include", "__has_builtin", "__has_feature", "__has_extension", "__has_attribute", "__has_cpp_attribute", "_Pragma":
		return true
	}
	return p.macros[name] != nil
}

// evalLine evaluates the expression of an #if or #elif. An error makes it false.
func (p *preprocessor) evalLine(directive lex.Token, toks []lex.Token) bool {
	if len(toks) == 0 {
		p.errorf(directive.Span(), "#%s without an expression", directive.Text)
		return false
	}
	toks, ok := p.resolveDefined(toks)
	if !ok {
		return false
	}
	last := toks[len(toks)-1]
	e := &evaluator{p: p, toks: p.expandList(toks), end: source.Span{Start: last.End, End: last.End}}
	v := e.ternary()
	if e.err == "" && e.i < len(e.toks) {
		e.fail("end of line or an operator")
	}
	if e.err != "" {
		p.errorf(e.at, "in the expression of #%s: %s", directive.Text, e.err)
		return false
	}
	return v.n != 0
}

// resolveDefined replaces defined(X) and __has_include(X) by their values before
// macros are expanded.
func (p *preprocessor) resolveDefined(toks []lex.Token) ([]lex.Token, bool) {
	out := make([]lex.Token, 0, len(toks))
	for i := 0; i < len(toks); i++ {
		t := toks[i]
		if t.Kind != lex.Ident {
			out = append(out, t)
			continue
		}
		yes, used := false, 0
		switch {
		case t.Text == "defined":
			name := i + 1
			used = 2
			if name < len(toks) && toks[name].Is("(") {
				name++
				used = 4
				if name+1 >= len(toks) || !toks[name+1].Is(")") {
					name = len(toks)
				}
			}
			if name >= len(toks) || toks[name].Kind != lex.Ident {
				p.errorf(t.Span(), "in the expression of #if: expected defined NAME or defined(NAME)")
				return nil, false
			}
			yes = p.isDefined(toks[name].Text)
		case strings.HasPrefix(t.Text, "__has_") && p.isDefined(t.Text) && p.macros[t.Text] == nil:
			end := i + 1
			if end < len(toks) && toks[end].Is("(") {
				end = closing(toks, end, len(toks))
			} else {
				end = len(toks)
			}
			if end >= len(toks) {
				p.errorf(t.Span(), "in the expression of #if: expected %s(...)", t.Text)
				return nil, false
			}
			used = end + 1 - i
			if t.Text == "__has_include" {
				name, system, ok := headerName(toks[i+2 : end])
				if !ok {
					name, system, ok = headerName(p.expandList(toks[i+2 : end]))
				}
				if !ok {
					p.errorf(t.Span(), "__has_include: expected \"file\" or <file> in the parentheses")
					return nil, false
				}
				_, _, err := p.find(name, system)
				yes = err == nil
			}
		default:
			out = append(out, t)
			continue
		}
		value := "0"
		if yes {
			value = "1"
		}
		out = append(out, lex.Token{Kind: lex.Number, Text: value, Pos: t.Pos, End: toks[i+used-1].End})
		i += used - 1
	}
	return out, true
}

// value is a value of #if arithmetic: 64 bits, signed or not.
type value struct {
	n        int64
	unsigned bool
}

// evaluator evaluates by recursive descent. After an error the rest is read
// without effect.
type evaluator struct {
	p      *preprocessor
	toks   []lex.Token
	i      int
	depth  int
	unused int // in an operand that is not evaluated: division by zero is no error
	err    string
	at     source.Span
	end    source.Span // of the line
}

func (e *evaluator) peek() lex.Token {
	if e.err == "" && e.i < len(e.toks) {
		return e.toks[e.i]
	}
	return lex.Token{Kind: lex.EOF, Pos: e.end.Start, End: e.end.End}
}

func (e *evaluator) accept(op string) bool {
	if t := e.peek(); t.Kind == lex.Punct && t.Text == op {
		e.i++
		return true
	}
	return false
}

func (e *evaluator) fail(want string) {
	t := e.peek()
	found := t.Describe()
	if t.Kind == lex.EOF {
		found = "end of line"
	}
	e.failAt(t.Span(), "expected "+want+", found "+found)
}

func (e *evaluator) failAt(at source.Span, msg string) {
	if e.err == "" {
		e.err, e.at = msg, at
	}
}

func (e *evaluator) deeper() bool {
	if e.depth++; e.depth > maxDepth {
		e.failAt(e.peek().Span(), fmt.Sprintf("nested more than %d deep", maxDepth))
		return false
	}
	return true
}

func (e *evaluator) ternary() value {
	defer func() { e.depth-- }()
	if !e.deeper() {
		return value{}
	}
	cond := e.binary(0)
	if !e.accept("?") {
		return cond
	}
	skip := func(yes bool, f func() value) value {
		if !yes {
			e.unused++
			defer func() { e.unused-- }()
		}
		return f()
	}
	a := skip(cond.n != 0, e.ternary)
	if !e.accept(":") {
		e.fail("':'")
		return value{}
	}
	b := skip(cond.n == 0, e.ternary)
	v := a
	if cond.n == 0 {
		v = b
	}
	v.unsigned = a.unsigned || b.unsigned
	return v
}

// precedence of the binary operators, the loosest first.
var precedence = map[string]int{
	"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
	"<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}

func (e *evaluator) binary(level int) value {
	x := e.unary()
	for {
		op := e.peek()
		prec := precedence[op.Text]
		if op.Kind != lex.Punct || prec == 0 || prec <= level {
			return x
		}
		e.i++
		off := op.Text == "&&" && x.n == 0 || op.Text == "||" && x.n != 0
		if off {
			e.unused++
		}
		y := e.binary(prec)
		if off {
			e.unused--
		}
		x = e.apply(op, x, y)
	}
}

func truth(b bool) value {
	if b {
		return value{n: 1}
	}
	return value{}
}

func (e *evaluator) apply(op lex.Token, x, y value) value {
	uns := x.unsigned || y.unsigned
	less := x.n < y.n
	if uns {
		less = uint64(x.n) < uint64(y.n)
	}
	switch op.Text {
	case "||":
		return truth(x.n != 0 || y.n != 0)
	case "&&":
		return truth(x.n != 0 && y.n != 0)
	case "==":
		return truth(x.n == y.n)
	case "!=":
		return truth(x.n != y.n)
	case "<":
		return truth(less)
	case ">=":
		return truth(!less)
	case ">":
		return truth(!less && x.n != y.n)
	case "<=":
		return truth(less || x.n == y.n)
	case "<<":
		return value{x.n << (uint64(y.n) & 63), x.unsigned}
	case ">>":
		if x.unsigned {
			return value{int64(uint64(x.n) >> (uint64(y.n) & 63)), true}
		}
		return value{x.n >> (uint64(y.n) & 63), false}
	case "|":
		return value{x.n | y.n, uns}
	case "^":
		return value{x.n ^ y.n, uns}
	case "&":
		return value{x.n & y.n, uns}
	case "+":
		return value{x.n + y.n, uns}
	case "-":
		return value{x.n - y.n, uns}
	case "*":
		return value{x.n * y.n, uns}
	}
	if y.n == 0 {
		if e.unused == 0 {
			e.failAt(op.Span(), "division by zero")
		}
		return value{0, uns}
	}
	switch {
	case uns && op.Text == "/":
		return value{int64(uint64(x.n) / uint64(y.n)), true}
	case uns:
		return value{int64(uint64(x.n) % uint64(y.n)), true}
	case x.n == math.MinInt64 && y.n == -1:
		if op.Text == "/" {
			return value{x.n, false}
		}
		return value{}
	case op.Text == "/":
		return value{x.n / y.n, false}
	}
	return value{x.n % y.n, false}
}

func (e *evaluator) unary() value {
	defer func() { e.depth-- }()
	if !e.deeper() {
		return value{}
	}
	t := e.peek()
	switch t.Kind {
	case lex.Punct:
		switch t.Text {
		case "!", "-", "+", "~":
			e.i++
			x := e.unary()
			switch t.Text {
			case "!":
				return truth(x.n == 0)
			case "-":
				x.n = -x.n
			case "~":
				x.n = ^x.n
			}
			return x
		case "(":
			e.i++
			x := e.ternary()
			if !e.accept(")") {
				e.fail("')'")
			}
			return x
		}
	case lex.Number:
		e.i++
		n, err := lex.ParseNumber(t.Text)
		if err != nil {
			e.failAt(t.Span(), err.Error())
		} else if n.Float {
			e.failAt(t.Span(), "floating literal "+t.Text+": expected an integer")
		}
		return value{int64(n.Int), n.Unsigned || n.Int > math.MaxInt64}
	case lex.Char:
		e.i++
		c, err := lex.UnquoteChar(t.Text)
		if err != nil {
			e.failAt(t.Span(), err.Error())
		}
		return value{n: int64(c)}
	case lex.Ident:
		e.i++
		if t.Text == "defined" {
			return e.defined(t)
		}
		return truth(t.Text == "true") // any other name that is no macro is 0
	}
	e.fail("a number or a name")
	return value{}
}

// defined evaluates a `defined` that a macro made.
func (e *evaluator) defined(t lex.Token) value {
	paren := e.accept("(")
	name := e.peek()
	if name.Kind != lex.Ident {
		if name.Kind == lex.Number {
			// The name was a macro and is already replaced.
			e.i++
			if paren {
				e.accept(")")
			}
			return truth(true)
		}
		e.fail("a name behind defined")
		return value{}
	}
	e.i++
	if paren && !e.accept(")") {
		e.fail("')'")
	}
	return truth(e.p.isDefined(name.Text))
}
