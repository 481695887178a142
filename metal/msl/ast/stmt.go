package ast

// BadStmt stands for text that could not be parsed as a statement; an error was
// reported.
type BadStmt struct {
	Range
}

// EmptyStmt is a lone semicolon.
type EmptyStmt struct {
	Range
}

// CompoundStmt is { ... }. Case and default labels stand among the statements of
// a switch's body as *CaseStmt.
type CompoundStmt struct {
	Range
	Stmts []Stmt
}

// DeclStmt declares: one Decl for each declarator.
type DeclStmt struct {
	Range
	Decls []Decl
}

// ExprStmt is an expression.
type ExprStmt struct {
	Range
	X Expr
}

// IfStmt is if. Exactly one of Cond and CondVar is set.
type IfStmt struct {
	Range
	Constexpr bool
	Init      Stmt // if (init; cond)
	Cond      Expr
	CondVar   *VarDecl // if (T x = y)
	Then      Stmt
	Else      Stmt
}

// ForStmt is for. Init is nil, a *DeclStmt or an *ExprStmt.
type ForStmt struct {
	Range
	Unroll  *Unroll
	Init    Stmt
	Cond    Expr
	CondVar *VarDecl
	Post    Expr
	Body    Stmt
}

// RangeForStmt is for (Var : X).
type RangeForStmt struct {
	Range
	Unroll *Unroll
	Var    *VarDecl
	X      Expr
	Body   Stmt
}

// WhileStmt is while.
type WhileStmt struct {
	Range
	Unroll  *Unroll
	Cond    Expr
	CondVar *VarDecl
	Body    Stmt
}

// DoStmt is do while.
type DoStmt struct {
	Range
	Unroll *Unroll
	Body   Stmt
	Cond   Expr
}

// Unroll is an unroll pragma before a loop; it is not in the loop's range.
type Unroll struct {
	Range
	Kind  UnrollKind
	Count Expr // for UnrollCount
}

// UnrollKind says what an unroll pragma asks for.
type UnrollKind uint8

// The kinds.
const (
	UnrollFull    UnrollKind = iota // unroll, clang loop unroll(full)
	UnrollCount                     // unroll(N), unroll N, clang loop unroll_count(N)
	UnrollEnable                    // clang loop unroll(enable)
	UnrollDisable                   // nounroll, clang loop unroll(disable)
)

// SwitchStmt is switch. Body is a *CompoundStmt: one is made around a single
// statement.
type SwitchStmt struct {
	Range
	Init    Stmt
	Cond    Expr
	CondVar *VarDecl
	Body    *CompoundStmt
}

// CaseStmt is a label: `case Value:`, `case Value ... Hi:`, or `default:` where
// Value is nil. The labelled statement follows it in the list.
type CaseStmt struct {
	Range
	Value, Hi Expr
}

// BreakStmt is break.
type BreakStmt struct {
	Range
}

// ContinueStmt is continue.
type ContinueStmt struct {
	Range
}

// ReturnStmt is return. X is nil, an expression or an *InitList.
type ReturnStmt struct {
	Range
	X Expr
}

// PragmaStmt is a pragma in a body that is not an unroll pragma.
type PragmaStmt struct {
	Range
	Words []string
}

// Text gives the words joined without blanks around parentheses.
func (p *PragmaStmt) Text() string { return joinWords(p.Words) }

func (*BadStmt) stmt()      {}
func (*EmptyStmt) stmt()    {}
func (*CompoundStmt) stmt() {}
func (*DeclStmt) stmt()     {}
func (*ExprStmt) stmt()     {}
func (*IfStmt) stmt()       {}
func (*ForStmt) stmt()      {}
func (*RangeForStmt) stmt() {}
func (*WhileStmt) stmt()    {}
func (*DoStmt) stmt()       {}
func (*SwitchStmt) stmt()   {}
func (*CaseStmt) stmt()     {}
func (*BreakStmt) stmt()    {}
func (*ContinueStmt) stmt() {}
func (*ReturnStmt) stmt()   {}
func (*PragmaStmt) stmt()   {}
