package mutation

import (
	"reflect"
	"slices"

	"minfer/metal/msl/ast"
)

// cursor is a node on a walk through a unit, with what is around it.
type cursor struct {
	u    *unit
	node ast.Node
	path []ast.Node // what the node is in, the outermost first
	fn   *ast.FuncDecl

	emit func(edits ...Edit)
}

// walk visits every node of a tree in the order of the text, parents first.
func walk(u *unit, visit func(c *cursor)) {
	var path []ast.Node
	var fns []*ast.FuncDecl
	var into func(v reflect.Value)
	into = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Interface:
			if !v.IsNil() {
				into(v.Elem())
			}
		case reflect.Slice:
			for i := range v.Len() {
				into(v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() {
					into(v.Field(i))
				}
			}
		case reflect.Pointer:
			if v.IsNil() {
				return
			}
			n, ok := v.Interface().(ast.Node)
			if !ok {
				return
			}
			c := &cursor{u: u, node: n, path: path}
			fn, isFunc := n.(*ast.FuncDecl)
			if isFunc {
				fns = append(fns, fn)
			}
			if len(fns) > 0 {
				c.fn = fns[len(fns)-1]
			}
			visit(c)
			path = append(path, n)
			into(v.Elem())
			path = path[:len(path)-1]
			if isFunc {
				fns = fns[:len(fns)-1]
			}
		}
	}
	into(reflect.ValueOf(u.tree))
}

// up is the n-th node around this one, 0 its parent; nil where there is none.
func (c *cursor) up(n int) ast.Node {
	if n >= len(c.path) {
		return nil
	}
	return c.path[len(c.path)-1-n]
}

// text is a node's text as written.
func (c *cursor) text(n ast.Node) (string, bool) {
	p, ok := c.u.find(n.Span())
	if !ok {
		return "", false
	}
	return c.u.text(p), true
}

// change is the edit that puts a text in a node's place.
func (c *cursor) change(n ast.Node, text string) (Edit, bool) {
	p, ok := c.u.find(n.Span())
	return Edit{p.file, p.start, p.end, text}, ok
}

// replace emits the mutant that has a text in a node's place. Parts are texts and
// nodes; a node stands for its text.
func (c *cursor) replace(n ast.Node, parts ...any) {
	text := ""
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			text += p
		case ast.Node:
			t, ok := c.text(p)
			if !ok {
				return
			}
			text += t
		}
	}
	if e, ok := c.change(n, text); ok {
		c.emit(e)
	}
}

// operator emits the mutant with another operator at its place.
func (c *cursor) operator(at ast.Range, op string) {
	if e, ok := c.change(&ast.BadExpr{Range: at}, op); ok {
		c.emit(e)
	}
}

// exchange emits the mutant in which two nodes have each other's text.
func (c *cursor) exchange(a, b ast.Node) {
	ta, ok1 := c.text(a)
	tb, ok2 := c.text(b)
	ea, ok3 := c.change(a, tb)
	eb, ok4 := c.change(b, ta)
	if !ok1 || !ok2 || !ok3 || !ok4 || ta == tb || ea.File != eb.File {
		return
	}
	if ea.Start > eb.Start {
		ea, eb = eb, ea
	}
	if ea.End <= eb.Start {
		c.emit(ea, eb)
	}
}

// class is what the operation of a node works on.
func (c *cursor) class(n ast.Node, op string) class { return c.u.types.of(n.Span().Start, op) }

// call is a call's plain function name, "" for other nodes.
func call(n ast.Node) string {
	x, ok := n.(*ast.CallExpr)
	if !ok {
		return ""
	}
	f, ok := x.Fn.(*ast.NameExpr)
	if !ok {
		return ""
	}
	return f.Name.Last().Ident
}

// name is a plain name's identifier, "" for other nodes.
func name(n ast.Node) string {
	if x, ok := n.(*ast.NameExpr); ok && x.Name.IsPlain() {
		return x.Name.Last().Ident
	}
	return ""
}

// plain takes parentheses off.
func plain(n ast.Expr) ast.Expr {
	for {
		p, ok := n.(*ast.ParenExpr)
		if !ok {
			return n
		}
		n = p.X
	}
}

// contains reports whether some node in the tree satisfies f.
func contains(u *unit, n ast.Node, f func(ast.Node) bool) bool {
	found := false
	var into func(v reflect.Value)
	into = func(v reflect.Value) {
		if found {
			return
		}
		switch v.Kind() {
		case reflect.Interface:
			if !v.IsNil() {
				into(v.Elem())
			}
		case reflect.Slice:
			for i := range v.Len() {
				into(v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() {
					into(v.Field(i))
				}
			}
		case reflect.Pointer:
			if x, ok := v.Interface().(ast.Node); ok && !v.IsNil() {
				if f(x) {
					found = true
					return
				}
				into(v.Elem())
			}
		}
	}
	into(reflect.ValueOf(n))
	return found
}

// statements are the neighbours of a statement in its block and its place among
// them.
func (c *cursor) statements() ([]ast.Stmt, int) {
	block, ok := c.up(0).(*ast.CompoundStmt)
	if !ok {
		return nil, -1
	}
	return block.Stmts, slices.IndexFunc(block.Stmts, func(s ast.Stmt) bool { return s.Span() == c.node.Span() })
}

// Mutants lists every mutant, each once, in the order of the operators and of the
// text.
func (s *Sources) Mutants() []*Mutant {
	all := map[string]*Mutant{}
	var out []*Mutant
	for _, u := range s.units {
		walk(u, func(c *cursor) {
			for _, op := range Operators {
				c.emit = func(edits ...Edit) {
					m := &Mutant{Operator: op.Name, Edits: edits, before: s.texts[edits[0].File]}
					if m.before == "" || m.After() == m.before {
						return
					}
					if all[m.key()] != nil {
						return
					}
					if c.fn != nil && c.fn.Name != nil {
						m.Func = c.fn.Name.Last().Ident
					}
					for _, v := range s.by[m.File()] {
						m.Units = append(m.Units, v.file)
					}
					all[m.key()] = m
					out = append(out, m)
				}
				op.find(c)
			}
		})
	}
	slices.SortStableFunc(out, func(a, b *Mutant) int {
		if a.Operator != b.Operator {
			return slices.IndexFunc(Operators, func(o *Operator) bool { return o.Name == a.Operator }) - slices.IndexFunc(Operators, func(o *Operator) bool { return o.Name == b.Operator })
		}
		if a.File() != b.File() {
			if a.File() < b.File() {
				return -1
			}
			return 1
		}
		return a.Edits[0].Start - b.Edits[0].Start
	})
	return out
}
