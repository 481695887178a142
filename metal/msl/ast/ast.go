// Package ast is the syntax tree of the Metal Shading Language: what the parser
// builds and the checker reads. It holds what is written and nothing that has
// to be found out: no types of expressions, no resolved names.
//
// Every node has the exact range of text that it covers, from the first byte of
// its first token to the end of its last, so a tool can cut into the text.
// Bodies of templates are kept as written; the checker instantiates them.
//
// Where the grammar needs to know what a name means (is `a < b` a comparison or
// a template-id, is `T(x)` a call or a conversion), the parser decides by the
// declarations that it has seen. What it can't know it leaves in one documented
// form: see [TemplateArg], [CallExpr] and [NameExpr].
//
// A tree is immutable once parsed and safe for concurrent use.
package ast

import "minfer/metal/msl/source"

// Node is any node of the tree.
type Node interface {
	Span() source.Span
}

// Range is the range of text of a node; every node embeds it.
type Range struct {
	Start, End source.Pos
}

// Span gives the range of text that the node covers.
func (r Range) Span() source.Span { return source.Span{Start: r.Start, End: r.End} }

// File is a translation unit.
type File struct {
	Range
	Decls []Decl
}

// Decl is a declaration. Declarations with several declarators
// (`int a, b;`) are one Decl for each; they share the type specifier's node.
type Decl interface {
	Node
	decl()
}

// Stmt is a statement.
type Stmt interface {
	Node
	stmt()
}

// Expr is an expression.
type Expr interface {
	Node
	expr()
}

// Type is a type as written.
type Type interface {
	Node
	typ()
}

// Attr is one attribute: [[ns::name(args)]], alignas(n) (name "alignas") or
// __attribute__((name(args))).
type Attr struct {
	Range
	NS   string // "clang" in [[clang::...]]
	Name string
	Args []Expr // type arguments are *TypeExpr
}

// Ident is a name with its place. Name is "" where the source has none.
type Ident struct {
	Range
	Name string
}

// Name is a possibly qualified name: a::b<int>::c.
type Name struct {
	Range
	Global bool // starts with ::
	Parts  []NamePart
}

// Last gives the part that is named; the others qualify it.
func (n *Name) Last() *NamePart { return &n.Parts[len(n.Parts)-1] }

// IsPlain reports whether the name is one identifier without template
// arguments.
func (n *Name) IsPlain() bool {
	return !n.Global && len(n.Parts) == 1 && !n.Parts[0].HasArgs && n.Parts[0].Kind == NameIdent
}

// NamePart is one part of a Name.
type NamePart struct {
	Range
	Kind     NameKind
	Ident    string // identifier; the operator's spelling ("+", "()", "[]", "+=") for NameOperator; the class's for NameDestructor
	Conv     Type   // target of a NameConversion; the *DecltypeType of a NameDecltype
	Template bool   // written with the `template` keyword in front
	HasArgs  bool   // written with <...>, possibly empty
	Args     []TemplateArg
}

// NameKind says what a NamePart is.
type NameKind uint8

// The kinds of names.
const (
	NameIdent      NameKind = iota
	NameOperator            // operator+
	NameConversion          // operator float()
	NameDestructor          // ~S
	NameDecltype            // decltype(x), as the first part: decltype(x)::value
)

// TemplateArg is one template argument: exactly one of Type and Expr is set.
// A bare name that the parser knows as a type is a Type; any other bare name,
// such as a function passed as an argument or a name that is not declared yet,
// is a NameExpr, which the checker may still find to be a type or a template.
type TemplateArg struct {
	Range
	Type Type
	Expr Expr
	Pack bool // followed by ...
}

// Specs are the declaration specifiers that are neither types nor qualifiers.
type Specs uint32

// The specifiers.
const (
	Kernel   Specs = 1 << iota // kernel or [[kernel]]
	Vertex                     // vertex or [[vertex]]
	Fragment                   // fragment or [[fragment]]
	Static
	Inline // inline, __inline__, always_inline
	Constexpr
	Extern
	Explicit
	Friend
	Mutable
	Virtual
	Consteval
	Register
	ThreadLocal
)

// Quals are cv qualifiers and memory attributes of a type.
type Quals uint16

// The qualifiers.
const (
	Const Quals = 1 << iota
	Volatile
	Restrict
	Coherent // coherent, coherent(device), coherent(system)
	Atomic   // _Atomic without parentheses
)

// Space is an address space as written.
type Space uint8

// The address spaces. NoSpace is none written.
const (
	NoSpace Space = iota
	Thread
	Device
	Constant
	Threadgroup
	ThreadgroupImageblock
	RayData
	ObjectData
)

// String gives the keyword.
func (s Space) String() string {
	return [...]string{"", "thread", "device", "constant", "threadgroup", "threadgroup_imageblock", "ray_data", "object_data"}[s]
}

// TemplateParam is one parameter of a template.
type TemplateParam struct {
	Range
	Kind ParamKind
	Name Ident
	// Type is the type of a ValueParam: `int N`, `void (*f)(device T *)`,
	// `typename enable_if<..>::type`.
	Type Type
	// Params are the parameters of a TemplateTemplateParam.
	Params []*TemplateParam
	// DefaultType is set for type and template parameters with a default,
	// DefaultExpr for values.
	DefaultType Type
	DefaultExpr Expr
	Pack        bool
}

// ParamKind is the kind of a template parameter.
type ParamKind uint8

// The kinds of template parameters.
const (
	TypeParam ParamKind = iota
	ValueParam
	TemplateTemplateParam
)
