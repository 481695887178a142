package sema

import (
	"minfer/metal/msl/ir"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

// Program is a checked translation unit.
type Program struct {
	// Kernels are the entry points in source order: plain kernels and explicit
	// instances of kernel templates. The failed ones are there too.
	Kernels []*Kernel
	// Constants are the function constants in source order.
	Constants []*Var
}

// Kernel is one entry point.
type Kernel struct {
	HostName string
	Name     string // as the source spells it, with template arguments
	Func     *Func
	Params   []*Param
	// MaxThreads is max_total_threads_per_threadgroup, 0 if unset.
	MaxThreads int
	Pos        source.Pos
	// Errors is not empty for a kernel that did not check: then the rest may be
	// incomplete and must not be lowered.
	Errors []source.Diag
}

// ParamKind is what a kernel parameter is bound to.
type ParamKind uint8

// The kinds of kernel parameters.
const (
	BufferParam      ParamKind = iota // [[buffer(n)]]: pointer or reference to device or constant
	ThreadgroupParam                  // [[threadgroup(n)]]: pointer or reference to threadgroup
	GridParam                         // a grid attribute
	ResourceParam                     // texture or sampler: accepted by the checker, not executable
)

// Param is a parameter of a kernel.
type Param struct {
	Var   *Var
	Kind  ParamKind
	Index int         // BufferParam, ThreadgroupParam
	Grid  ir.GridKind // GridParam
	// Gate is the function constant, or the constant computed from some, that
	// decides whether the parameter exists; nil if it always does.
	Gate *Var
}

// Func is one function: plain, a method, or an instance of a template. All
// templates are gone: types are concrete.
type Func struct {
	Name   string // for messages, with template arguments
	Params []*Var
	Result types.Qual // a Reference makes the call an lvalue
	// This is the object of a method, a variable of reference type; nil for
	// others. A constructor's This is the object under construction.
	This *Var
	Body *Block
	// Inits are a constructor's member initialisers, in member order: run before the body.
	Inits []MemberInit
	Ctor  bool
	Pos   source.Pos

	checker *funcState
}

// MemberInit initialises a member (or the base) of the object under construction.
type MemberInit struct {
	Field *types.Field
	Init  Expr // prvalue of the field's type, or an lvalue for a reference field
}

// VarKind is where a variable lives.
type VarKind uint8

// The kinds of variables.
const (
	LocalVar       VarKind = iota // of the function, thread space
	ParamVar                      // function parameter
	ThreadgroupVar                // threadgroup variable of a kernel, also when declared in a helper: one object per threadgroup
	GlobalVar                     // program-scope constant: Value if known at compile time, else computed from function constants by Init
	FuncConstVar                  // function constant, FuncConst is its index
)

// Var is a variable, parameter or program-scope constant.
type Var struct {
	Name string
	// Type is as declared. For a Reference, uses (VarRef) have the referent's type
	// and Init (or the argument) is the lvalue that it names.
	Type types.Qual
	Kind VarKind
	// Init is nil for an indeterminate object.
	Init Expr
	// Value is the constant value of constexpr and program-scope constants, nil
	// where there is none. It may be used instead of Init.
	Value     *Value
	FuncConst int // FuncConstVar: index(n)
	Pos       source.Pos
	// Align is from alignas, 0 if unset.
	Align int
}

// Value is a constant. A scalar or enum has its bits in I, sign- or
// zero-extended to 64 as the type says (bool: 0 or 1), or a float's value in F, representable
// in its type. Vectors, arrays, structs (by field; a union has one element, its first
// initialised member in Field) and matrices (columns) have Elems. A pointer is null
// with Ref nil, else the address of Ref's object plus Offset bytes.
type Value struct {
	I      int64
	F      float64
	Elems  []Value
	Field  int // union: index of the member that Elems[0] is
	Ref    *Var
	Offset int
}

// Expr is a typed expression. Conversions are explicit: an operand has exactly the type that
// its user expects, and an lvalue becomes a value only through Load.
type Expr interface {
	// Type is the expression's type; never a Reference. For an lvalue the
	// qualifiers are those of the object, its space included.
	Type() types.Qual
	// Lvalue says that it designates an object.
	Lvalue() bool
	// Const is the value if it is a constant expression, nil otherwise.
	Const() *Value
	Pos() source.Pos
}

// Node is the part that all expressions share.
type Node struct {
	T     types.Qual
	LV    bool
	Val   *Value
	Where source.Pos
}

// Type implements Expr.
func (n *Node) Type() types.Qual { return n.T }

// Lvalue implements Expr.
func (n *Node) Lvalue() bool { return n.LV }

// Const implements Expr.
func (n *Node) Const() *Value { return n.Val }

// Pos implements Expr.
func (n *Node) Pos() source.Pos { return n.Where }

// The expressions. "value" means not an lvalue.
type (
	// ConstExpr is a constant: Val is set. Also for constant variables and folded
	// expressions of scalar type.
	ConstExpr struct{ Node }
	// StringLit appears only in attributes and static_assert messages.
	StringLit struct {
		Node
		Text string
	}
	// VarRef names a variable: lvalue of its type, of the referent's for references.
	VarRef struct {
		Node
		Var *Var
	}
	// FuncRef names a function as a value (template arguments, decltype).
	FuncRef struct {
		Node
		Func *Func
	}
	// Load reads the lvalue X: its value.
	Load struct {
		Node
		X Expr
	}
	// Temp gives an lvalue for the value X, alive until the function ends.
	Temp struct {
		Node
		X Expr
	}
	// FieldExpr is a member of the lvalue or value X of struct type. A field of
	// reference type gives the referent.
	FieldExpr struct {
		Node
		X     Expr
		Field *types.Field
	}
	// Swizzle picks components of the lvalue or value X, a vector or packed
	// vector: a scalar if Comps has one element, a vector otherwise.
	Swizzle struct {
		Node
		X     Expr
		Comps []uint8
	}
	// IndexExpr is an element of X: an array (lvalue, or value for a temporary), a vector
	// (scalar) or a matrix (column). I is an integer value of any width.
	IndexExpr struct {
		Node
		X, I Expr
	}
	// Deref is the lvalue at the pointer value X. p[i] is a Deref of a PtrAdd.
	Deref struct {
		Node
		X Expr
	}
	// AddrOf is a pointer to the lvalue X.
	AddrOf struct {
		Node
		X Expr
	}
	// SgElements is .thread_elements() of the simdgroup matrix lvalue X: an lvalue of
	// a vector of 2.
	SgElements struct {
		Node
		X Expr
	}
	// Unary operates on a value of scalar, vector or matrix type; the result has the
	// same type but for Not (bool or boolN).
	Unary struct {
		Node
		Op UnaryOp
		X  Expr
	}
	// Binary has operands of one type, with these exceptions: the count of shifts is any
	// integer (vector) of equal width in lanes; Mul takes matrix*matrix, matrix*vector, vector*matrix and matrix*scalar;
	// Add and Sub on pointers are PtrAdd and PtrDiff. Comparisons give bool or boolN;
	// pointers are compared too. LAnd and LOr are on bool, the right side evaluated on need.
	Binary struct {
		Node
		Op   BinaryOp
		L, R Expr
	}
	// PtrAdd moves the pointer value P by I elements (any integer type; Neg: backwards).
	PtrAdd struct {
		Node
		P, I Expr
		Neg  bool
	}
	// PtrDiff is (L - R) in elements, a long.
	PtrDiff struct {
		Node
		L, R Expr
	}
	// Cond is C ? A : B with C bool; A and B both lvalues of one type or both values.
	Cond struct {
		Node
		C, A, B Expr
	}
	// Assign stores R in the lvalue L and is that lvalue. With Compound: L = (L's
	// type)((OpType)L Op R), where R has OpType already (a shift count: any integer; matrix products as in
	// Binary); a pointer L with Add or Sub moves by R elements and OpType is L's type.
	Assign struct {
		Node
		L, R     Expr
		Compound bool
		Op       BinaryOp
		OpType   *types.Type
	}
	// IncDec is ++ or --: lvalue if prefix, the old value if postfix. X is a scalar,
	// vector or pointer lvalue.
	IncDec struct {
		Node
		X         Expr
		Dec, Post bool
	}
	// Convert changes the type of a value (Decay: of an array lvalue).
	Convert struct {
		Node
		How ConvKind
		X   Expr
	}
	// Construct builds a vector or matrix value: How says what Args are.
	Construct struct {
		Node
		How  ConstructKind
		Args []Expr
	}
	// InitList builds a struct or array value; members without an Elem are zero.
	// Elems are in order; Index is a field's index or an array index (a range lo..hi
	// repeats one value).
	InitList struct {
		Node
		Elems []InitElem
	}
	// Call calls a function with a body. Args of reference parameters are lvalues.
	// This is an lvalue for methods. The call of a constructor has This nil and
	// gives the new object as a value.
	Call struct {
		Node
		Func *Func
		This Expr
		Args []Expr
	}
	// Builtin calls an intrinsic: see Intrinsic for operands.
	Builtin struct {
		Node
		Op   Intrinsic
		Math MathMode
		Args []Expr
	}
	// Comma evaluates L, then is R.
	Comma struct {
		Node
		L, R Expr
	}
)

// InitElem is one element of an InitList.
type InitElem struct {
	Index, Last int // Last >= Index; equal but for range designators
	X           Expr
}

// MathMode is the namespace that a math function was called through.
type MathMode uint8

// The modes.
const (
	MathDefault MathMode = iota
	MathFast
	MathPrecise
)

// UnaryOp is the operator of a Unary.
type UnaryOp uint8

// The unary operators.
const (
	Neg UnaryOp = iota
	Plus
	BitNot
	Not
)

// BinaryOp is the operator of a Binary or Assign.
type BinaryOp uint8

// The binary operators. Signedness and float come with the operand type.
const (
	Add BinaryOp = iota
	Sub
	Mul
	Div
	Rem
	BitAnd
	BitOr
	BitXor
	Shl
	Shr
	Eq
	Ne
	Lt
	Le
	Gt
	Ge
	LAnd
	LOr
)

var binaryNames = [...]string{"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "==", "!=", "<", "<=", ">", ">=", "&&", "||"}

// String spells the operator.
func (o BinaryOp) String() string { return binaryNames[o] }

// ConvKind is what a Convert does; the types are those of X and of the Convert.
type ConvKind uint8

// The conversions.
const (
	// ConvNumeric changes the scalar type, element by element for vectors (packed
	// to unpacked and back too) and matrices of equal shape. To bool: x != 0. From or to
	// an enum: as its underlying integer.
	ConvNumeric ConvKind = iota
	// ConvSplat gives a vector whose elements are all X, a scalar of the element type.
	ConvSplat
	// ConvBits reinterprets the bits (as_type); sizes are equal, a 3-vector counting as 4.
	ConvBits
	// ConvDecay gives a pointer to the first element of an array lvalue.
	ConvDecay
	// ConvPointer changes the pointee's type, never the space. Also pointer to integer (ulong) and back.
	ConvPointer
	// ConvPtrBool is p != null.
	ConvPtrBool
	// ConvNull gives a null pointer.
	ConvNull
	// ConvBase gives the base class part of a struct lvalue or value.
	ConvBase
	// ConvVoid drops the value.
	ConvVoid
)

// ConstructKind says how a Construct is built.
type ConstructKind uint8

// The ways.
const (
	// FromParts concatenates scalars and vectors of the element type, exactly as many
	// elements as the vector has; for a matrix: its columns, or its scalars column by column.
	FromParts ConstructKind = iota
	// Diagonal is a matrix with the one scalar argument on its diagonal.
	Diagonal
	// Zero has no arguments: all zero.
	Zero
)

// Stmt is a statement.
type Stmt interface{ stmtNode() }

// The statements.
type (
	// Block is a scope.
	Block struct {
		Stmts []Stmt
		// Math is the floating-point mode of a pragma in the block.
		Math FPMode
	}
	// ExprStmt evaluates X.
	ExprStmt struct{ X Expr }
	// DeclStmt declares a variable and initialises it with Var.Init.
	DeclStmt struct{ Var *Var }
	// If is if/else; Else may be nil. C is bool.
	If struct {
		C          Expr
		Then, Else Stmt
		Pos        source.Pos
	}
	// Loop is for, while and do. Init runs once before, in the loop's scope. C nil is
	// true. Post runs after the body and on continue.
	Loop struct {
		Init   []Stmt
		C      Expr
		Post   Expr
		Body   Stmt
		TestAt LoopTest
		Unroll Unroll
		Pos    source.Pos
	}
	// Switch selects among Cases by an integer value and falls through.
	Switch struct {
		X     Expr
		Cases []Case
		Pos   source.Pos
	}
	// Break leaves the innermost Loop or Switch.
	Break struct{ Pos source.Pos }
	// Continue goes to the next iteration of the innermost Loop.
	Continue struct{ Pos source.Pos }
	// Return leaves the function. X is nil for void; an lvalue where Result is a reference.
	Return struct {
		X   Expr
		Pos source.Pos
	}
)

// Case is one label group of a Switch with the statements up to the next one.
type Case struct {
	Values  []int64
	Default bool
	Body    []Stmt
}

// LoopTest is where a loop tests its condition.
type LoopTest uint8

// Before (for, while) and after the body (do).
const (
	TestBefore LoopTest = iota
	TestAfter
)

// Unroll is what a pragma asks of a loop.
type Unroll struct {
	Set     bool // a pragma is there
	Disable bool
	Count   int // 0: fully
}

// FPMode is what #pragma METAL fp says for a block; zero values inherit.
type FPMode struct {
	MathMode string // "", "safe", "relaxed", "fast"
	Contract string // "", "off", "on", "fast"
}

func (*Block) stmtNode()    {}
func (*ExprStmt) stmtNode() {}
func (*DeclStmt) stmtNode() {}
func (*If) stmtNode()       {}
func (*Loop) stmtNode()     {}
func (*Switch) stmtNode()   {}
func (*Break) stmtNode()    {}
func (*Continue) stmtNode() {}
func (*Return) stmtNode()   {}
