package mutation

import (
	"strings"

	"minfer/metal/msl/ast"
)

// withPragma is where the pragma lines right before a place begin, or the place.
func withPragma(text string, at int) int {
	for {
		line := strings.LastIndexByte(text[:at], '\n')
		if line < 0 || strings.TrimSpace(text[line:at]) != "" {
			return at
		}
		start := strings.LastIndexByte(text[:line], '\n') + 1
		if !strings.HasPrefix(strings.TrimSpace(text[start:line]), "#pragma") {
			return at
		}
		at = start
	}
}

func comparison(op string) bool {
	switch op {
	case "<", "<=", ">", ">=":
		return true
	}
	return false
}

// offByOneBound: the right side of comparisons of integers, and the second
// argument of min and max. A loop that moves by more than one at a time ends a step
// early: a nearer bound often means the same, and so does a step more where the
// loop's body looks at the bound too.
func offByOneBound(c *cursor) {
	var bound ast.Expr
	step := "1"
	switch n := c.node.(type) {
	case *ast.BinaryExpr:
		if comparison(n.Op) && c.class(n, n.Op)&integers != 0 {
			bound = n.Y
		}
		if loop, ok := c.up(0).(*ast.ForStmt); ok && loop.Cond == ast.Expr(n) {
			if post, ok := loop.Post.(*ast.AssignExpr); ok && post.Op == "+=" {
				step, ok = c.text(post.Y)
				if !ok {
					return
				}
			}
		}
	case *ast.CallExpr:
		if f := call(n); (f == "min" || f == "max") && len(n.Args) == 2 && !floating(c, n) {
			bound = n.Args[1]
		}
	}
	if bound != nil {
		if step == "1" {
			c.replace(bound, "(", bound, " + 1)")
		} else {
			step = "(" + step + ")"
		}
		c.replace(bound, "(", bound, " - "+step+")")
	}
}

// floating guesses whether a call is one of floats: by the declaration that it
// initialises, the literals in it, the operations in it, and the variables that its
// arguments are or begin with.
func floating(c *cursor, n *ast.CallExpr) bool {
	if v, ok := c.up(0).(*ast.VarDecl); ok && isFloat(v.Type) {
		return true
	}
	for _, a := range n.Args {
		x := plain(a)
		if i, ok := x.(*ast.IndexExpr); ok {
			x = i.X
		}
		if own := name(x); own != "" && c.fn != nil && len(c.declared(func(n string, t ast.Type) bool { return n == own && isFloat(t) })) > 0 {
			return true
		}
	}
	return contains(c.u, n, func(x ast.Node) bool {
		switch x := x.(type) {
		case *ast.FloatLit:
			return true
		case *ast.BinaryExpr:
			return c.class(x, x.Op)&floats != 0
		}
		return strings.HasPrefix(call(x), "simd_")
	})
}

// isFloat reports whether a type, or what it points to, is spelled float.
func isFloat(t ast.Type) bool {
	switch t := t.(type) {
	case *ast.QualifiedType:
		return isFloat(t.Elem)
	case *ast.ArrayType:
		return isFloat(t.Elem)
	case *ast.PointerType:
		return isFloat(t.Elem)
	case *ast.BasicType:
		return t.Kind == ast.Float
	}
	return false
}

// offByOneIndex: indices into anything but members, which are block_offset's.
func offByOneIndex(c *cursor) {
	x, ok := c.node.(*ast.IndexExpr)
	if !ok {
		return
	}
	if _, ok := x.X.(*ast.MemberExpr); ok {
		return
	}
	c.replace(x.Index, x.Index, " + 1")
	c.replace(x.Index, x.Index, " - 1")
}

// blockOffset: sums that are pointers, and indices of member arrays.
func blockOffset(c *cursor) {
	switch n := c.node.(type) {
	case *ast.IndexExpr:
		if _, ok := n.X.(*ast.MemberExpr); ok {
			c.replace(n.Index, n.Index, " + 1")
			c.replace(n.Index, "0")
		}
	case *ast.BinaryExpr:
		if n.Op == "+" && c.class(n, "+") == pointers {
			if _, inner := c.up(0).(*ast.BinaryExpr); !inner {
				c.replace(n, "(", n, " + 1)")
			}
			c.replace(n, n.X)
		}
	case *ast.AssignExpr:
		if n.Op == "+=" && c.class(n, "+=")&pointers != 0 {
			c.replace(n.Y, n.Y, " + 1")
		}
	}
}

// swapFields: neighbours among the fields of a struct.
func swapFields(c *cursor) {
	r, ok := c.node.(*ast.RecordDecl)
	if !ok {
		return
	}
	for i := range r.Members {
		if i == 0 {
			continue
		}
		a, ok1 := r.Members[i-1].(*ast.VarDecl)
		b, ok2 := r.Members[i].(*ast.VarDecl)
		if ok1 && ok2 && a.Name != nil && b.Name != nil {
			if a.Type == b.Type {
				c.exchange(a.Name, b.Name)
			} else {
				c.exchange(a, b)
			}
		}
	}
}

func divMod(c *cursor) {
	if x, ok := c.node.(*ast.BinaryExpr); ok && !aboutHeads(c, x) {
		exchangeDivMod(c, x)
	}
}

func exchangeDivMod(c *cursor, x *ast.BinaryExpr) {
	if c.class(x, x.Op)&integers == 0 {
		return
	}
	switch x.Op {
	case "/":
		c.operator(x.OpPos, "%")
	case "%":
		c.operator(x.OpPos, "/")
	}
}

// ofHeads reports whether a name speaks of heads or their number; the size of a
// head is not meant.
func ofHeads(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "head") && !strings.Contains(name, "dim")
}

func aboutHeads(c *cursor, n ast.Node) bool {
	return contains(c.u, n, func(x ast.Node) bool {
		switch x := x.(type) {
		case *ast.NameExpr:
			return ofHeads(x.Name.Last().Ident)
		case *ast.MemberExpr:
			return ofHeads(x.Name.Last().Ident)
		}
		return false
	})
}

// wrongHeadMapping: a head in the place of another one that the function knows,
// one number of heads for another of the same parameters, and quotients for
// remainders in their computation.
func wrongHeadMapping(c *cursor) {
	switch n := c.node.(type) {
	case *ast.BinaryExpr:
		if aboutHeads(c, n) {
			exchangeDivMod(c, n)
		}
	case *ast.NameExpr:
		own := name(n)
		if c.fn == nil || !ofHeads(own) || c.u.types.known(c, own)&integers == 0 {
			return
		}
		if _, called := c.up(0).(*ast.CallExpr); called && c.up(0).(*ast.CallExpr).Fn == ast.Expr(n) {
			return
		}
		for _, other := range c.declared(func(name string, t ast.Type) bool { return ofHeads(name) && isInteger(t) }) {
			if other != own {
				c.replace(n, other)
			}
		}
		c.replace(n, "(", n, " ^ 1)")
	case *ast.MemberExpr:
		own := n.Name.Last().Ident
		if !ofHeads(own) {
			return
		}
		for _, other := range c.fields(own, ofHeads) {
			c.replace(n.Name, other)
		}
	}
}

func isInteger(t ast.Type) bool {
	switch t := t.(type) {
	case *ast.QualifiedType:
		return isInteger(t.Elem)
	case *ast.BasicType:
		return t.Kind >= ast.Short && t.Kind <= ast.ULongLong
	case *ast.NamedType:
		n := t.Name.Last().Ident
		return n == "uint" || n == "ushort" || n == "ulong"
	}
	return false
}

// known is what a variable of the function around is.
func (t *typeTable) known(c *cursor, name string) class {
	for _, other := range c.declared(func(n string, t ast.Type) bool { return n == name && isInteger(t) }) {
		if other == name {
			return integers
		}
	}
	return 0
}

// declared lists the parameters of the function around, and its variables up to
// the node, that satisfy f.
func (c *cursor) declared(f func(name string, t ast.Type) bool) []string {
	var names []string
	for _, p := range c.fn.Params {
		if f(p.Name.Name, p.Type) {
			names = append(names, p.Name.Name)
		}
	}
	if c.fn.Body == nil {
		return names
	}
	before := true
	contains(c.u, c.fn.Body, func(n ast.Node) bool {
		if n == c.node {
			before = false
			return true
		}
		if v, ok := n.(*ast.VarDecl); ok && v.Name != nil && before && !c.inside(v) && f(v.Name.Last().Ident, v.Type) {
			names = append(names, v.Name.Last().Ident)
		}
		return false
	})
	return names
}

// inside reports whether the node is a part of n.
func (c *cursor) inside(n ast.Node) bool {
	for _, p := range c.path {
		if p == n {
			return true
		}
	}
	return false
}

// fields lists the other fields that satisfy f of the structs with a field of that
// name.
func (c *cursor) fields(own string, f func(string) bool) []string {
	var out []string
	for _, d := range c.u.tree.Decls {
		r, ok := d.(*ast.RecordDecl)
		if !ok {
			continue
		}
		var others []string
		has := false
		for _, m := range r.Members {
			v, ok := m.(*ast.VarDecl)
			if !ok || v.Name == nil {
				continue
			}
			n := v.Name.Last().Ident
			has = has || n == own
			if n != own && f(n) {
				others = append(others, n)
			}
		}
		if has {
			out = append(out, others...)
		}
	}
	return out
}

// partners are the names that stand for keys and values.
var partners = [][2]string{{"k", "v"}, {"keys", "values"}, {"key", "value"}, {"K", "V"}}

func partner(name string) string {
	for _, p := range partners {
		switch name {
		case p[0]:
			return p[1]
		case p[1]:
			return p[0]
		}
	}
	return ""
}

// swapKV: a name's partner in its place, where the function knows it, the two
// names of a function's parameters, and the two in a call.
func swapKV(c *cursor) {
	switch n := c.node.(type) {
	case *ast.NameExpr:
		other := partner(name(n))
		if other == "" || c.fn == nil {
			return
		}
		if len(c.declared(func(name string, _ ast.Type) bool { return name == other })) > 0 {
			c.replace(n, other)
		}
	case *ast.FuncDecl:
		if n.Body == nil {
			return
		}
		for i, a := range n.Params {
			for _, b := range n.Params[i+1:] {
				if b.Name.Name != "" && partner(a.Name.Name) == b.Name.Name {
					c.exchange(&a.Name, &b.Name)
				}
			}
		}
	case *ast.CallExpr:
		for i, a := range n.Args {
			for _, b := range n.Args[i+1:] {
				if y := name(b); y != "" && partner(name(a)) == y {
					c.exchange(a, b)
				}
			}
		}
	}
}
