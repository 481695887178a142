package mutation

import "minfer/metal/msl/ast"

// Operator is one kind of fault.
type Operator struct {
	Name string
	What string // what it does, in a few words
	// Race: its mutants must be found as a race; a wrong value does not count.
	Race bool

	find func(c *cursor) // emits the mutants at a node
}

// Operators are all kinds of faults, in the order of reports.
var Operators = []*Operator{
	{Name: "drop_barrier", What: "leaves a barrier out", Race: true, find: dropBarrier},
	{Name: "weaken_barrier", What: "a barrier for fewer threads or no memory", find: weakenBarrier},
	{Name: "move_barrier", What: "a barrier changes places with the statement before or behind it", find: moveBarrier},
	{Name: "off_by_one_bound", What: "the bound of a comparison, or of a min or max, is one more or less, that of a loop by steps a step less", find: offByOneBound},
	{Name: "off_by_one_index", What: "an index is one more or less", find: offByOneIndex},
	{Name: "block_offset", What: "a pointer, or a member array of a block, is read one element further on, or its offset is left out", find: blockOffset},
	{Name: "swap_fields", What: "two fields of a struct change places", find: swapFields},
	{Name: "swap_operands", What: "the operands of an operation that is not commutative, or two arguments, change places", find: swapOperands},
	{Name: "change_constant", What: "a number is one more or less, or twice as large", find: changeConstant},
	{Name: "wrong_sign", What: "plus for minus, minus for plus", find: wrongSign},
	{Name: "wrong_head_mapping", What: "another head, number of heads, or remainder for quotient where heads are counted", find: wrongHeadMapping},
	{Name: "div_mod", What: "remainder for quotient, quotient for remainder", find: divMod},
	{Name: "missing_tail", What: "a clamp, a rounding up or the loop over the rest is left out", find: missingTail},
	{Name: "skip_scale", What: "a factor is left out", find: skipScale},
	{Name: "skip_min", What: "an addend is left out", find: skipMin},
	{Name: "swap_kv", What: "keys for values, values for keys", find: swapKV},
	{Name: "drop_predicate", What: "a condition, or a part of it, always or never holds", find: dropPredicate},
	{Name: "change_comparison", What: "another comparison", find: changeComparison},
	{Name: "change_reduction", What: "another reduction over a simdgroup, or none", find: changeReduction},
	{Name: "narrow_type", What: "a variable of float is a half", find: narrowType},
	{Name: "drop_statement", What: "a statement is left out", find: dropStatement},
}

// barrier is the function that a barrier statement calls, "" for other nodes.
func barrier(n ast.Node) string {
	s, ok := n.(*ast.ExprStmt)
	if !ok {
		return ""
	}
	switch f := call(s.X); f {
	case "threadgroup_barrier", "simdgroup_barrier":
		return f
	}
	return ""
}

func dropBarrier(c *cursor) {
	if barrier(c.node) != "" {
		c.replace(c.node, ";")
	}
}

func weakenBarrier(c *cursor) {
	f := barrier(c.node)
	if f == "" {
		return
	}
	x := c.node.(*ast.ExprStmt).X.(*ast.CallExpr)
	if f == "threadgroup_barrier" {
		c.replace(x.Fn, "simdgroup_barrier")
	}
	if len(x.Args) == 1 {
		c.replace(x.Args[0], "mem_flags::mem_none")
	}
}

// moveBarrier moves barriers past statements that use threadgroup memory.
func moveBarrier(c *cursor) {
	if barrier(c.node) == "" {
		return
	}
	stmts, i := c.statements()
	touches := func(s ast.Stmt) bool {
		return barrier(s) == "" && contains(c.u, s, func(n ast.Node) bool {
			return c.u.types.shared[name(n)]
		})
	}
	own, ok := c.u.find(c.node.Span())
	if !ok {
		return
	}
	text := c.u.text(own)
	all := c.u.texts[own.file]
	if i > 0 && touches(stmts[i-1]) {
		if p, ok := c.u.find(stmts[i-1].Span()); ok && p.file == own.file && p.end <= own.start {
			start, gap := withPragma(all, p.start), " "
			if start < p.start {
				gap = "\n"
			}
			c.emit(Edit{own.file, start, own.end, text + gap + all[start:p.end] + all[p.end:own.start]})
		}
	}
	if i >= 0 && i+1 < len(stmts) && touches(stmts[i+1]) {
		if p, ok := c.u.find(stmts[i+1].Span()); ok && p.file == own.file && own.end <= p.start {
			c.emit(Edit{own.file, own.start, p.end, all[own.end:p.end] + " " + text})
		}
	}
}

// dropStatement leaves out expressions that are statements.
func dropStatement(c *cursor) {
	s, ok := c.node.(*ast.ExprStmt)
	if !ok || barrier(s) != "" {
		return
	}
	if f, ok := c.up(0).(*ast.ForStmt); ok && f.Init == ast.Stmt(s) {
		return
	}
	c.replace(s, ";")
}
