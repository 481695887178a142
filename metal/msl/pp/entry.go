package pp

import (
	"minfer/metal/msl/lex"
	"minfer/metal/msl/source"
)

// EntryPoint is a kernel that the text defines or instantiates.
type EntryPoint struct {
	Name     string // the host's name for it
	Instance bool   // an explicit instantiation of a kernel template
	Span     source.Span
}

// EntryPoints counts the kernels in preprocessed text by its tokens alone,
// independently of the parser: definitions of functions with `kernel` or
// [[kernel]] that are no templates, and explicit instantiations with one of
// them. It is what the share of compiled kernels is measured against.
func EntryPoints(toks []lex.Token) []EntryPoint {
	var out []EntryPoint
	for i := 0; i < len(toks) && toks[i].Kind != lex.EOF; {
		d := scanDecl(toks, i)
		if d.kernel && (d.body && !d.template || d.instance) {
			e := EntryPoint{Name: d.name, Instance: d.instance, Span: source.Span{Start: toks[i].Pos, End: toks[d.end-1].End}}
			if d.hostName != "" {
				e.Name = d.hostName
			}
			out = append(out, e)
		}
		i = d.end
	}
	return out
}

// declScan is what is seen of one declaration.
type declScan struct {
	end      int  // first token behind it
	template bool // template <parameters>
	instance bool // template without <
	kernel   bool
	body     bool
	name     string // the identifier before the first parenthesis or template argument list
	hostName string
}

// scanDecl passes one declaration; entering a namespace counts as one.
func scanDecl(toks []lex.Token, start int) declScan {
	d := declScan{}
	i := start
	if toks[i].Kind == lex.Pragma {
		for i < len(toks) && toks[i].Kind != lex.PragmaEnd && toks[i].Kind != lex.EOF {
			i++
		}
		d.end = min(i+1, len(toks))
		return d
	}
	if toks[i].Is("namespace") || toks[i].Is("inline") && i+1 < len(toks) && toks[i+1].Is("namespace") || toks[i].Is("extern") && i+1 < len(toks) && toks[i+1].Kind == lex.String {
		for i < len(toks) && !toks[i].Is("{") && !toks[i].Is(";") && toks[i].Kind != lex.EOF {
			i++
		}
		d.end = min(i+1, len(toks))
		return d
	}
	for toks[i].Is("template") {
		i++
		if !toks[i].Is("<") {
			d.instance = true
			break
		}
		end := angles(toks, i)
		if end > i+2 {
			d.template = true
		}
		i = end
	}
	named := false
	for depth := 0; i < len(toks) && toks[i].Kind != lex.EOF; i++ {
		t := toks[i]
		switch {
		case t.Is("[") && i+1 < len(toks) && toks[i+1].Is("["):
			i = d.attribute(toks, i)
		case t.Is("(") || t.Is("["):
			depth++
			named = named || t.Is("(") && d.name != "decltype" && d.name != "__attribute__" && d.name != "alignas"
		case t.Is(")") || t.Is("]"):
			depth--
		case depth > 0:
		case t.Is("kernel"):
			d.kernel = true
		case t.Is("<") && d.name != "operator":
			if end := angles(toks, i); end > i {
				i = end - 1
			}
		case t.Kind == lex.Ident && !named:
			d.name = t.Text
		case t.Is(";"):
			d.end = i + 1
			return d
		case t.Is("{"):
			i = braces(toks, i)
			d.body = true
			if named || i >= len(toks) || !toks[i].Is(";") {
				d.end = i
				return d
			}
			i--
		case t.Is("}"):
			d.end = i + 1
			return d
		}
	}
	d.end = max(min(i, len(toks)), start+1)
	return d
}

// attribute passes [[...]] and gives the index of its last token.
func (d *declScan) attribute(toks []lex.Token, i int) int {
	depth := 0
	for ; i < len(toks) && toks[i].Kind != lex.EOF; i++ {
		t := toks[i]
		switch {
		case t.Is("[") || t.Is("("):
			depth++
		case t.Is("]") || t.Is(")"):
			if depth--; depth == 0 {
				return i
			}
		case t.Is("kernel") && depth == 2:
			d.kernel = true
		case t.Kind == lex.String && i >= 2 && toks[i-1].Is("(") && toks[i-2].Is("host_name"):
			for ; i < len(toks) && toks[i].Kind == lex.String; i++ {
				if s, err := lex.Unquote(toks[i].Text); err == nil {
					d.hostName += s
				}
			}
			i--
		}
	}
	return i - 1
}

// maxAngles is the number of tokens in which the end of a template argument list
// is looked for. It keeps the time linear.
const maxAngles = 512

// angles gives the index behind the > that closes the < at i, or i where none
// does.
func angles(toks []lex.Token, i int) int {
	depth, parens := 0, 0
	for j := i; j < len(toks) && j < i+maxAngles; j++ {
		t := toks[j]
		if t.Kind == lex.EOF {
			break
		}
		if t.Kind != lex.Punct {
			continue
		}
		switch t.Text {
		case "(", "[", "{":
			parens++
		case ")", "]", "}":
			if parens--; parens < 0 {
				return i
			}
		case "<":
			if parens == 0 {
				depth++
			}
		case ">", ">>":
			if parens == 0 {
				if depth -= len(t.Text); depth <= 0 {
					return j + 1
				}
			}
		case ";":
			if parens == 0 {
				return i
			}
		}
	}
	return i
}

// braces gives the index behind the } that closes the { at i.
func braces(toks []lex.Token, i int) int {
	depth := 0
	for ; i < len(toks) && toks[i].Kind != lex.EOF; i++ {
		if toks[i].Is("{") {
			depth++
		} else if toks[i].Is("}") {
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return i
}
