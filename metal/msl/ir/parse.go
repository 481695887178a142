package ir

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Limits of the text form, so that hostile text cannot ask for much memory.
const (
	maxTextValues = 1 << 22
	maxTextDepth  = 1000
	maxTextCount  = 1 << 12
)

// Parse reads the text form. It checks what it needs for building the function;
// [Verify] checks the rest. Errors name the line.
func Parse(text string) (*Func, error) {
	p := &parser{lines: strings.Split(text, "\n"), labels: map[int]*Instr{}}
	f, err := p.function()
	if err != nil {
		return nil, fmt.Errorf("ir: line %d: %w", p.n, err)
	}
	return f, nil
}

type parser struct {
	lines  []string
	n      int // lines read
	toks   []string
	f      *Func
	labels map[int]*Instr
	depth  int
}

// next splits the next line that is not empty into tokens; false at the end.
func (p *parser) next() (bool, error) {
	for p.n < len(p.lines) {
		line := p.lines[p.n]
		p.n++
		toks, err := tokens(line)
		if err != nil {
			return false, err
		}
		if len(toks) > 0 {
			p.toks = toks
			return true, nil
		}
	}
	return false, nil
}

func tokens(s string) ([]string, error) {
	var out []string
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == ' ' || c == '\t' || c == '\r' || c == ',':
			i++
		case c == ';': // comment
			return out, nil
		case c == '"':
			q, err := strconv.QuotedPrefix(s[i:])
			if err != nil {
				return nil, fmt.Errorf("broken string at column %d", i+1)
			}
			out = append(out, q)
			i += len(q)
		case strings.IndexByte("(){}=", c) >= 0:
			out = append(out, string(c))
			i++
		default:
			j := i
			for j < len(s) && strings.IndexByte(" \t\r,;\"(){}=", s[j]) < 0 {
				j++
			}
			out = append(out, s[i:j])
			i = j
		}
	}
	return out, nil
}

func (p *parser) peek() string {
	if len(p.toks) == 0 {
		return ""
	}
	return p.toks[0]
}

func (p *parser) take() string {
	t := p.peek()
	if len(p.toks) > 0 {
		p.toks = p.toks[1:]
	}
	return t
}

func (p *parser) accept(t string) bool {
	if p.peek() != t {
		return false
	}
	p.take()
	return true
}

func (p *parser) expect(t string) error {
	if g := p.take(); g != t {
		return fmt.Errorf("%q where %q is expected", g, t)
	}
	return nil
}

func (p *parser) end() error {
	if len(p.toks) > 0 {
		return fmt.Errorf("%q after the end of the line's content", p.toks[0])
	}
	return nil
}

func (p *parser) str() (string, error) {
	t := p.take()
	s, err := strconv.Unquote(t)
	if err != nil || !strings.HasPrefix(t, `"`) {
		return "", fmt.Errorf("%q where a quoted string is expected", t)
	}
	return s, nil
}

func (p *parser) num() (int, error) {
	t := p.take()
	n, err := strconv.ParseInt(t, 10, 32)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q where a number from 0 to %d is expected", t, math.MaxInt32)
	}
	return int(n), nil
}

func (p *parser) named(word string) (int, error) {
	if err := p.expect(word); err != nil {
		return 0, err
	}
	return p.num()
}

func (p *parser) posSuffix() (Pos, error) {
	if t := p.peek(); strings.HasPrefix(t, "!") {
		p.take()
		n, err := strconv.ParseInt(t[1:], 10, 32)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("%q where a position such as !3 is expected", t)
		}
		return Pos(n), nil
	}
	return 0, nil
}

func (p *parser) typ(s string) (Type, error) {
	if t, ok := lookup(typeNames[:], s); ok {
		return Type(t), nil
	}
	return 0, fmt.Errorf("%q is not a type", s)
}

func (p *parser) space() (Space, error) {
	t := p.take()
	if s, ok := lookup(spaceNames[:], t); ok {
		return Space(s), nil
	}
	return 0, fmt.Errorf("%q is not an address space", t)
}

func (p *parser) function() (*Func, error) {
	p.f = &Func{Types: []Type{Void}, Positions: []Position{{}}, Body: &Region{}}
	f := p.f
	ok, err := p.next()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("no function")
	}
	if err := p.expect("func"); err != nil {
		return nil, err
	}
	if f.Name, err = p.str(); err != nil {
		return nil, err
	}
	if err := p.expect("{"); err != nil {
		return nil, err
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	for {
		ok, err := p.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, fmt.Errorf("the text ends before body")
		}
		word := p.take()
		if word == "body" {
			break
		}
		if err := p.header(word); err != nil {
			return nil, err
		}
		if err := p.end(); err != nil {
			return nil, err
		}
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	if err := p.region(f.Body); err != nil {
		return nil, err
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	if ok, err := p.next(); err != nil || ok {
		if err == nil {
			err = fmt.Errorf("%q after the function", p.toks[0])
		}
		return nil, err
	}
	return f, nil
}

func (p *parser) header(word string) (err error) {
	f := p.f
	switch word {
	case "param":
		var a Param
		switch k := p.take(); k {
		case "buffer":
		case "threadgroup":
			a.Kind = ThreadgroupParam
		default:
			return fmt.Errorf("%q where buffer or threadgroup is expected", k)
		}
		if a.Index, err = p.num(); err != nil {
			return err
		}
		if a.Space, err = p.space(); err != nil {
			return err
		}
		a.ReadOnly = p.accept("readonly")
		a.Ref = p.accept("ref")
		if a.Elem, err = p.str(); err != nil {
			return err
		}
		if a.ElemSize, err = p.named("size"); err != nil {
			return err
		}
		if a.Scalar, err = p.typ(p.take()); err != nil {
			return err
		}
		if err = p.expect("name"); err != nil {
			return err
		}
		if a.Name, err = p.str(); err != nil {
			return err
		}
		if a.Pos, err = p.posSuffix(); err != nil {
			return err
		}
		f.Params = append(f.Params, a)
	case "static", "alloca":
		name, err := p.str()
		if err != nil {
			return err
		}
		size, err := p.named("size")
		if err != nil {
			return err
		}
		align, err := p.named("align")
		if err != nil {
			return err
		}
		pos, err := p.posSuffix()
		if err != nil {
			return err
		}
		if word == "static" {
			f.Statics = append(f.Statics, Static{name, size, align, pos})
		} else {
			f.Allocas = append(f.Allocas, Alloca{name, size, align, pos})
		}
	case "table":
		name, err := p.str()
		if err != nil {
			return err
		}
		data, err := hex.DecodeString(p.take())
		if err != nil {
			return fmt.Errorf("table %q: %w", name, err)
		}
		f.Tables = append(f.Tables, Table{name, data})
	case "threads":
		f.MaxThreads, err = p.num()
		return err
	case "pos":
		i, err := p.num()
		if err != nil {
			return err
		}
		if i != len(f.Positions) {
			return fmt.Errorf("position %d where %d is expected", i, len(f.Positions))
		}
		var q Position
		if q.File, err = p.str(); err != nil {
			return err
		}
		if q.Line, err = p.num(); err != nil {
			return err
		}
		if q.Col, err = p.num(); err != nil {
			return err
		}
		at, err := p.named("at")
		if err != nil {
			return err
		}
		q.InlinedAt = Pos(at)
		f.Positions = append(f.Positions, q)
	default:
		return fmt.Errorf("%q where param, static, alloca, table, threads, pos or body is expected", word)
	}
	return nil
}
