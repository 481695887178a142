package mutation

import (
	"strconv"
	"strings"

	"minfer/metal/msl/ast"
)

// commutes are the functions whose first two arguments may change places.
var commutes = map[string]bool{"clamp": true, "min": true, "max": true, "fma": true, "dot": true, "mulhi": true}

// swapOperands: operands of operations that are not commutative, the branches of a
// conditional, neighbours among the arguments of a call.
func swapOperands(c *cursor) {
	switch n := c.node.(type) {
	case *ast.BinaryExpr:
		switch n.Op {
		case "-", "/", "%", "<<", ">>":
			c.replace(n, "(", n.Y, ") "+n.Op+" (", n.X, ")")
		}
	case *ast.CondExpr:
		c.exchange(n.Then, n.Else)
	case *ast.CallExpr:
		for i := range n.Args {
			if i == 0 || i == 1 && commutes[call(n)] {
				continue
			}
			if y := name(n.Args[i]); y != "" && partner(name(n.Args[i-1])) == y {
				continue // swap_kv's
			}
			c.exchange(n.Args[i-1], n.Args[i])
		}
	}
}

// changeConstant: integers are one more or less, floats twice as large or, of 0, 1.
func changeConstant(c *cursor) {
	switch n := c.node.(type) {
	case *ast.IntLit:
		if x, ok := c.up(0).(*ast.BinaryExpr); c.inAttribute() || ok && anyLane(x) {
			return
		}
		suffix := ""
		if n.Unsigned {
			suffix = "u"
		}
		number := func(v uint64) string {
			if n.Base == 16 {
				return "0x" + strconv.FormatUint(v, 16) + suffix
			}
			return strconv.FormatUint(v, 10) + suffix
		}
		if !c.longer() {
			c.replace(n, number(n.Value+1))
		}
		if n.Value > 0 {
			c.replace(n, number(n.Value-1))
		}
	case *ast.FloatLit:
		v, err := strconv.ParseFloat(n.Text, 64)
		if err != nil {
			return
		}
		if v = 2 * v; v == 0 {
			v = 1
		}
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		c.replace(n, text+n.Suffix)
	}
}

// anyLane reports whether a comparison chooses one lane by its number, to store what
// was reduced: that is the same in every lane, so that any will do, and all.
func anyLane(x *ast.BinaryExpr) bool {
	number := func(n ast.Expr) bool { _, ok := n.(*ast.IntLit); return ok }
	return x.Op == "==" && (name(x.X) == "lane" && number(x.Y) || name(x.Y) == "lane" && number(x.X))
}

// longer reports whether the node is in the length of a variable: a longer one is
// as good.
func (c *cursor) longer() bool {
	array := false
	for i := 0; ; i++ {
		switch n := c.up(i).(type) {
		case *ast.ArrayType:
			array = true
		case *ast.QualifiedType:
		case *ast.VarDecl:
			return array && !n.Member
		case ast.Expr:
		default:
			return false
		}
	}
}

func (c *cursor) inAttribute() bool {
	for _, p := range c.path {
		if _, ok := p.(*ast.Attr); ok {
			return true
		}
	}
	return false
}

// wrongSign: sums and differences of numbers, negations.
func wrongSign(c *cursor) {
	switch n := c.node.(type) {
	case *ast.BinaryExpr:
		if c.class(n, n.Op)&(floats|integers) == 0 {
			return
		}
		switch n.Op {
		case "+":
			c.operator(n.OpPos, "-")
		case "-":
			c.operator(n.OpPos, "+")
		}
	case *ast.AssignExpr:
		if c.class(n, n.Op)&(floats|integers) == 0 {
			return
		}
		switch n.Op {
		case "+=":
			c.operator(n.OpPos, "-=")
		case "-=":
			c.operator(n.OpPos, "+=")
		}
	case *ast.UnaryExpr:
		if n.Op == "-" {
			c.replace(n, n.X)
		}
	}
}

// missingTail: clamps, sums that round a quotient up, loops that go on where
// another one stopped.
func missingTail(c *cursor) {
	switch n := c.node.(type) {
	case *ast.CallExpr:
		switch f := call(n); {
		case (f == "min" || f == "max") && len(n.Args) == 2:
			c.replace(n, "(", n.Args[0], ")")
			c.replace(n, "(", n.Args[1], ")")
		case f == "clamp" && len(n.Args) == 3:
			c.replace(n, "(", n.Args[0], ")")
		}
	case *ast.BinaryExpr:
		if n.Op == "/" {
			if whole := roundedUp(n.X); whole != nil {
				c.replace(n.X, whole)
			}
		}
	case *ast.ForStmt:
		switch n.Init.(type) {
		case nil, *ast.ExprStmt:
			c.replace(n, ";")
		}
	}
}

// roundedUp gives x of x + d - 1 or x + 31, nil of others.
func roundedUp(n ast.Expr) ast.Expr {
	x, ok := plain(n).(*ast.BinaryExpr)
	if !ok {
		return nil
	}
	if x.Op == "-" {
		sum, ok := plain(x.X).(*ast.BinaryExpr)
		if one, isLit := x.Y.(*ast.IntLit); isLit && one.Value == 1 && ok && sum.Op == "+" {
			return sum.X
		}
		return nil
	}
	if lit, isLit := x.Y.(*ast.IntLit); isLit && x.Op == "+" && lit.Value > 0 && (lit.Value+1)&lit.Value == 0 {
		return x.X
	}
	return nil
}

// skipScale: factors of products of floats.
func skipScale(c *cursor) {
	switch n := c.node.(type) {
	case *ast.BinaryExpr:
		if c.class(n, n.Op)&floats == 0 {
			return
		}
		if n.Op == "*" || n.Op == "/" {
			c.replace(n, "(", n.X, ")")
		}
		if n.Op == "*" {
			c.replace(n, "(", n.Y, ")")
		}
	case *ast.AssignExpr:
		if n.Op == "*=" && c.class(n, "*=")&floats != 0 {
			c.replace(n, n.X)
		}
	case *ast.CallExpr:
		if call(n) == "fma" && len(n.Args) == 3 {
			c.replace(n, "((", n.Args[0], ") + (", n.Args[2], "))")
			c.replace(n, "((", n.Args[1], ") + (", n.Args[2], "))")
		}
	}
}

// skipMin: addends of sums of floats.
func skipMin(c *cursor) {
	switch n := c.node.(type) {
	case *ast.BinaryExpr:
		if (n.Op == "+" || n.Op == "-") && c.class(n, n.Op)&floats != 0 {
			c.replace(n, "(", n.X, ")")
			if n.Op == "+" {
				c.replace(n, "(", n.Y, ")")
			}
		}
	case *ast.AssignExpr:
		if n.Op == "+=" && c.class(n, "+=")&floats != 0 {
			c.operator(n.OpPos, "=")
		}
	case *ast.CallExpr:
		if call(n) == "fma" && len(n.Args) == 3 {
			c.replace(n, "((", n.Args[0], ") * (", n.Args[1], "))")
		}
	}
}

// dropPredicate: conditions of if and ?:, and the sides of && and ||.
func dropPredicate(c *cursor) {
	switch n := c.node.(type) {
	case *ast.IfStmt:
		if n.Cond != nil && !n.Constexpr {
			if x, ok := plain(n.Cond).(*ast.BinaryExpr); !ok || !anyLane(x) {
				c.replace(n.Cond, "true")
			}
			c.replace(n.Cond, "false")
		}
	case *ast.CondExpr:
		c.replace(n.Cond, "true")
		c.replace(n.Cond, "false")
	case *ast.BinaryExpr:
		if n.Op == "&&" || n.Op == "||" {
			c.replace(n, n.X)
			if x, ok := plain(n.X).(*ast.BinaryExpr); !ok || !anyLane(x) {
				c.replace(n, n.Y)
			}
		}
	}
}

var otherComparisons = map[string][]string{"<": {"<=", ">="}, "<=": {"<", ">"}, ">": {">=", "<="}, ">=": {">", "<"}, "==": {"!="}, "!=": {"=="}}

func changeComparison(c *cursor) {
	if n, ok := c.node.(*ast.BinaryExpr); ok && !anyLane(n) {
		for _, op := range otherComparisons[n.Op] {
			c.operator(n.OpPos, op)
		}
	}
}

// changeReduction: a sum for a maximum, the lane's own value for either.
func changeReduction(c *cursor) {
	n, ok := c.node.(*ast.CallExpr)
	if !ok || len(n.Args) == 0 {
		return
	}
	f := call(n)
	if !strings.HasPrefix(f, "simd_") {
		return
	}
	c.replace(n, "(", n.Args[0], ")")
	switch f {
	case "simd_sum":
		c.replace(n.Fn, "simd_max")
	case "simd_max":
		c.replace(n.Fn, "simd_sum")
		c.replace(n.Fn, "simd_min")
	}
}

// narrowType: variables of functions. Several declarators of one type narrow
// together.
func narrowType(c *cursor) {
	t, ok := c.node.(*ast.BasicType)
	if !ok || t.Kind != ast.Float || c.fn == nil {
		return
	}
	for i := 0; ; i++ {
		switch n := c.up(i).(type) {
		case *ast.QualifiedType, *ast.ArrayType:
			continue
		case *ast.VarDecl:
			if !n.Member {
				c.replace(t, "half")
			}
		}
		return
	}
}
