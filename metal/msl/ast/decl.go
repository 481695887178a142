package ast

// BadDecl stands for text that could not be parsed as a declaration; an error
// was reported.
type BadDecl struct {
	Range
}

// EmptyDecl is a lone semicolon.
type EmptyDecl struct {
	Range
}

// NamespaceDecl is a namespace with its declarations. Name "" is the unnamed
// one. `namespace a::b {}` is two nodes.
type NamespaceDecl struct {
	Range
	Name   Ident
	Inline bool
	Decls  []Decl
}

// NamespaceAlias is `namespace a = b;`.
type NamespaceAlias struct {
	Range
	Name   Ident
	Target *Name
}

// UsingDirective is `using namespace a;`.
type UsingDirective struct {
	Range
	Name *Name
}

// UsingDecl is `using a::b;`.
type UsingDecl struct {
	Range
	Name *Name
}

// TypedefDecl names a type, by typedef or `using X = T;`. An alias template is a
// TemplateDecl around it.
type TypedefDecl struct {
	Range
	Name  Ident
	Type  Type
	Attrs []*Attr
	Using bool
}

// VarDecl declares a variable or a data member. In `struct S {...} x;` the record
// is in x's Type, a *RecordType. At program scope an attribute function_constant(n) may be on it. A
// variable template's specialisation has arguments in Name.
type VarDecl struct {
	Range
	Specs Specs
	Attrs []*Attr
	Name  *Name
	Type  Type
	// Init is nil without initialiser. InitStyle tells `= x`, `(x, y)` (Init is a
	// *ParenList) and `{x, y}` (Init is an *InitList).
	Init      Expr
	InitStyle InitStyle
	Bits      Expr // width of a bit-field
	Member    bool // a non-static or static member of a record
	Pack      bool
}

// InitStyle is the form of an initialiser.
type InitStyle uint8

// The forms.
const (
	NoInit    InitStyle = iota
	CopyInit            // = x
	ParenInit           // (x, y)
	BraceInit           // {x, y}
)

// ParamDecl is a parameter of a function. Name is empty where none is written.
type ParamDecl struct {
	Range
	Specs   Specs
	Attrs   []*Attr
	Name    Ident
	Type    Type
	Default Expr
	Pack    bool
}

// FuncDecl declares or, with a Body, defines a function, method, constructor,
// conversion or operator.
type FuncDecl struct {
	Range
	Specs  Specs
	Attrs  []*Attr
	Kind   FuncKind
	Name   *Name // with template arguments in a specialisation or instantiation
	Result Type  // nil for constructors, destructors and conversions
	Params []*ParamDecl
	// Variadic is a C ellipsis.
	Variadic bool
	// ThisSpace and ThisQuals stand behind a method's parameters: `const thread`.
	ThisSpace Space
	ThisQuals Quals
	ThisRef   RefKind
	Noexcept  bool
	// Trailing is set where the result type is written behind ->.
	Trailing bool
	Inits    []*MemberInit // of a constructor
	Body     *CompoundStmt
	Default  bool // = default
	Delete   bool // = delete
	Member   bool
}

// RefKind is a method's reference qualifier.
type RefKind uint8

// The reference qualifiers.
const (
	NoRef RefKind = iota
	LValueRef
	RValueRef
)

// FuncKind says what a function is.
type FuncKind uint8

// The kinds of functions.
const (
	Function FuncKind = iota
	Constructor
	Destructor
	Conversion // operator T; the target is in Name.Last().Conv
)

// MemberInit is one entry of a constructor's initialiser list.
type MemberInit struct {
	Range
	Name *Name // a member or a base
	Args []Expr
	// Braces tells m{x} from m(x); Args then holds the elements' values.
	Braces bool
	Pack   bool
}

// RecordDecl declares or defines a struct, class or union.
type RecordDecl struct {
	Range
	Keyword RecordKeyword
	Attrs   []*Attr
	// Name is nil for an unnamed record; template arguments in it make a
	// specialisation, partial where a TemplateDecl with parameters is around it.
	Name    *Name
	Final   bool
	Bases   []*Base
	Defined bool
	Members []Decl // in order; access labels are *AccessDecl
	// Body is the range of the braces.
	Body Range
}

// RecordKeyword is the keyword of a record.
type RecordKeyword uint8

// The keywords.
const (
	Struct RecordKeyword = iota
	Class
	Union
)

// String gives the keyword.
func (k RecordKeyword) String() string { return [...]string{"struct", "class", "union"}[k] }

// Base is a base class.
type Base struct {
	Range
	Access  Access
	Virtual bool
	Type    Type
	Pack    bool
}

// Access is a member access level.
type Access uint8

// The levels. NoAccess is none written.
const (
	NoAccess Access = iota
	Public
	Protected
	Private
)

// AccessDecl is `public:` and its like.
type AccessDecl struct {
	Range
	Access Access
}

// EnumDecl declares or defines an enumeration.
type EnumDecl struct {
	Range
	Scoped      bool // enum class
	Attrs       []*Attr
	Name        *Name // nil if unnamed
	Underlying  Type  // nil if not written
	Defined     bool
	Enumerators []*Enumerator
}

// Enumerator is one value of an enumeration.
type Enumerator struct {
	Range
	Name  Ident
	Attrs []*Attr
	Value Expr // nil if not written
}

// StaticAssertDecl is static_assert(cond, "message").
type StaticAssertDecl struct {
	Range
	Cond Expr
	Msg  string
}

// TemplateDecl is `template <...>` and what it is a template of: a *FuncDecl,
// *RecordDecl, *VarDecl, *TypedefDecl or, for a member template defined outside,
// another *TemplateDecl. No Params (`template <>`) is a full specialisation.
type TemplateDecl struct {
	Range
	Params   []*TemplateParam
	Requires Expr
	Decl     Decl
}

// InstanceDecl is an explicit instantiation: `template` without <...>.
//
//	template [[host_name("x")]] kernel void f<int>(device int *, uint);   // Decl is a *FuncDecl with Params
//	template [[host_name("x")]] kernel decltype(f<int>) f<int>;           // Decl is a *VarDecl: Specs has Kernel, Type is the *DecltypeType
//	template [[host_name("x")]] kernel f_t f<int>;                        // the same, Type is the *NamedType
//	template struct S<int>;                                               // Decl is a *RecordDecl
//
// Attributes written before or behind the specifiers are those of Decl.
type InstanceDecl struct {
	Range
	Extern bool
	Decl   Decl
}

// PragmaDecl is a #pragma that is kept: `METAL fp math_mode(safe)`. Unroll pragmas
// are in the loop that they stand before.
type PragmaDecl struct {
	Range
	// Words are the tokens behind `pragma` as written, e.g. METAL fp contract ( off ).
	Words []string
}

// Text gives the words joined without blanks around parentheses.
func (p *PragmaDecl) Text() string { return joinWords(p.Words) }

func (*BadDecl) decl()          {}
func (*EmptyDecl) decl()        {}
func (*NamespaceDecl) decl()    {}
func (*NamespaceAlias) decl()   {}
func (*UsingDirective) decl()   {}
func (*UsingDecl) decl()        {}
func (*TypedefDecl) decl()      {}
func (*VarDecl) decl()          {}
func (*ParamDecl) decl()        {}
func (*FuncDecl) decl()         {}
func (*RecordDecl) decl()       {}
func (*AccessDecl) decl()       {}
func (*EnumDecl) decl()         {}
func (*StaticAssertDecl) decl() {}
func (*TemplateDecl) decl()     {}
func (*InstanceDecl) decl()     {}
func (*PragmaDecl) decl()       {}

func joinWords(words []string) string {
	s := ""
	for i, w := range words {
		prev := ""
		if i > 0 {
			prev = words[i-1]
		}
		if i > 0 && w != "(" && w != ")" && w != "," && prev != "(" {
			s += " "
		}
		s += w
	}
	return s
}
