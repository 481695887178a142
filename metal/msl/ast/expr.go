package ast

// BadExpr stands for text that could not be parsed as an expression; an error
// was reported.
type BadExpr struct {
	Range
}

// NameExpr is a name used as a value. In an unevaluated or template-argument
// place it may turn out to be a type or a template.
type NameExpr struct {
	Range
	Name *Name
}

// IntLit is an integer literal. Unsigned and Long are its suffixes (Long counts
// the l's); Base is 2, 8, 10 or 16, which decides what types it may take.
type IntLit struct {
	Range
	Value    uint64
	Base     int
	Unsigned bool
	Long     int
}

// FloatLit is a floating literal. Text is the number as written without suffix,
// with digit separators taken out; it is for strconv.ParseFloat, which also reads
// the hexadecimal form. Suffix is "", "f", "h" or "bf"; without one it is a float.
type FloatLit struct {
	Range
	Text   string
	Suffix string
}

// BoolLit is true or false.
type BoolLit struct {
	Range
	Value bool
}

// CharLit is a character literal.
type CharLit struct {
	Range
	Value int32
}

// StringLit is a string literal, escapes resolved and adjacent ones joined.
type StringLit struct {
	Range
	Value string
}

// NullLit is nullptr.
type NullLit struct {
	Range
}

// ThisExpr is this.
type ThisExpr struct {
	Range
}

// ParenExpr is (X).
type ParenExpr struct {
	Range
	X Expr
}

// UnaryExpr is a prefix operator: + - ! ~ * & ++ --, or __extension__.
type UnaryExpr struct {
	Range
	Op string
	X  Expr
}

// PostfixExpr is X++ or X--.
type PostfixExpr struct {
	Range
	Op string
	X  Expr
}

// BinaryExpr is a binary operator, the comma among them; assignments are
// AssignExpr.
type BinaryExpr struct {
	Range
	Op    string
	OpPos Range
	X, Y  Expr
}

// AssignExpr is = or a compound assignment.
type AssignExpr struct {
	Range
	Op    string // "=", "+=", ...
	OpPos Range
	X, Y  Expr // Y may be an *InitList with "="
}

// CondExpr is Cond ? Then : Else.
type CondExpr struct {
	Range
	Cond, Then, Else Expr
}

// CallExpr is Fn(Args...). Where the parser knows that the name is a type, the
// node is a ConstructExpr; a name that it has not seen declared gives a CallExpr
// even if it is one.
type CallExpr struct {
	Range
	Fn   Expr
	Args []Expr
}

// ConstructExpr is T(args) or T{args}: a conversion or construction.
type ConstructExpr struct {
	Range
	Type   Type
	Args   []Expr // for Braces the elements; designated ones are *DesignatedInit
	Braces bool
}

// IndexExpr is X[Index].
type IndexExpr struct {
	Range
	X, Index Expr
}

// MemberExpr is X.Name or X->Name. The name may be a destructor, conversion or
// qualified.
type MemberExpr struct {
	Range
	X     Expr
	Arrow bool
	Name  *Name
}

// CastExpr is (Type)X.
type CastExpr struct {
	Range
	Type Type
	X    Expr // an *InitList for a compound literal (T){...}
}

// NamedCastExpr is static_cast<Type>(X) and its like.
type NamedCastExpr struct {
	Range
	Kind CastKind
	Type Type
	X    Expr
}

// CastKind is the kind of a NamedCastExpr.
type CastKind uint8

// The kinds.
const (
	StaticCast CastKind = iota
	ReinterpretCast
	ConstCast
	DynamicCast
)

// String gives the keyword.
func (k CastKind) String() string {
	return [...]string{"static_cast", "reinterpret_cast", "const_cast", "dynamic_cast"}[k]
}

// InitList is {a, b, ...}. Elements with designators are *DesignatedInit.
type InitList struct {
	Range
	Elems []Expr
}

// DesignatedInit is an element of an InitList with designators: .x = 1,
// [2] = 1, [0 ... 3] = 1.
type DesignatedInit struct {
	Range
	Designators []Designator
	Value       Expr
}

// Designator is .Field, [Lo] or [Lo ... Hi].
type Designator struct {
	Range
	Field  string
	Lo, Hi Expr
}

// ParenList is the argument list of a direct initialisation: T x(a, b).
type ParenList struct {
	Range
	Args []Expr
}

// SizeofExpr is sizeof or alignof, of a type or an expression: exactly one is
// set. A name in parentheses that the parser does not know is an expression.
type SizeofExpr struct {
	Range
	Align bool
	Type  Type
	X     Expr
}

// SizeofPackExpr is sizeof...(Name).
type SizeofPackExpr struct {
	Range
	Name Ident
}

// LambdaExpr is [captures](params) -> result { body }.
type LambdaExpr struct {
	Range
	// Default is 0, '=' or '&'.
	Default  byte
	Captures []Capture
	Params   []*ParamDecl
	Mutable  bool
	Result   Type // nil if not written
	Attrs    []*Attr
	Body     *CompoundStmt
}

// Capture is one capture of a lambda.
type Capture struct {
	Range
	Name  string // "this" for this
	ByRef bool
	Init  Expr
}

// PackExpr is X... in an argument list.
type PackExpr struct {
	Range
	X Expr
}

// FoldExpr is a fold over a pack: (X op ... op Init). X or Init is nil where
// there is none: (... op X) has Left set and Init nil.
type FoldExpr struct {
	Range
	Op   string
	Left bool
	X    Expr // the pack
	Init Expr
}

// TypeExpr is a type where an expression may stand: an argument of an attribute
// or of a built-in trait such as __is_same(A, B).
type TypeExpr struct {
	Range
	Type Type
}

// StmtExpr is the GNU ({ ... }).
type StmtExpr struct {
	Range
	Body *CompoundStmt
}

func (*BadExpr) expr()        {}
func (*NameExpr) expr()       {}
func (*IntLit) expr()         {}
func (*FloatLit) expr()       {}
func (*BoolLit) expr()        {}
func (*CharLit) expr()        {}
func (*StringLit) expr()      {}
func (*NullLit) expr()        {}
func (*ThisExpr) expr()       {}
func (*ParenExpr) expr()      {}
func (*UnaryExpr) expr()      {}
func (*PostfixExpr) expr()    {}
func (*BinaryExpr) expr()     {}
func (*AssignExpr) expr()     {}
func (*CondExpr) expr()       {}
func (*CallExpr) expr()       {}
func (*ConstructExpr) expr()  {}
func (*IndexExpr) expr()      {}
func (*MemberExpr) expr()     {}
func (*CastExpr) expr()       {}
func (*NamedCastExpr) expr()  {}
func (*InitList) expr()       {}
func (*DesignatedInit) expr() {}
func (*ParenList) expr()      {}
func (*SizeofExpr) expr()     {}
func (*SizeofPackExpr) expr() {}
func (*LambdaExpr) expr()     {}
func (*PackExpr) expr()       {}
func (*FoldExpr) expr()       {}
func (*TypeExpr) expr()       {}
func (*StmtExpr) expr()       {}
