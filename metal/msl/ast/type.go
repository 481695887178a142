package ast

// BasicType is a type made of C++'s type keywords. Everything else (half, uint,
// float4, size_t) is a NamedType.
type BasicType struct {
	Range
	Kind Basic
}

// Basic is a type made of keywords.
type Basic uint8

// The basic types, normalised: `long int unsigned` is ULong.
const (
	Void Basic = iota
	Bool
	Char
	SChar
	UChar
	Short
	UShort
	Int
	UInt
	Long
	ULong
	LongLong
	ULongLong
	Float
	Double
)

// String gives the usual spelling.
func (b Basic) String() string {
	return [...]string{"void", "bool", "char", "signed char", "unsigned char", "short", "unsigned short", "int", "unsigned int",
		"long", "unsigned long", "long long", "unsigned long long", "float", "double"}[b]
}

// NamedType is a name used as a type, perhaps with template arguments.
type NamedType struct {
	Range
	Typename bool // written with `typename`
	Name     *Name
}

// AutoType is auto or decltype(auto).
type AutoType struct {
	Range
	Decltype bool
}

// DecltypeType is decltype(x).
type DecltypeType struct {
	Range
	X Expr
}

// RecordType is a struct, class or union specifier inside a declaration: with a
// definition (`typedef struct {...} S;`) or only the name (`struct S x;`). The
// declarators of one declaration share the node, so the Decl is the identity of
// the type.
type RecordType struct {
	Range
	Decl *RecordDecl
}

// EnumType is the same for enumerations.
type EnumType struct {
	Range
	Decl *EnumDecl
}

// QualifiedType puts qualifiers or an address space on a type. It is never
// directly around another QualifiedType.
type QualifiedType struct {
	Range
	Quals Quals
	Space Space
	// SpaceRange is where the address space is written.
	SpaceRange Range
	Elem       Type
}

// PointerType is a pointer. Qualifiers of the pointer itself are a QualifiedType
// around it, those of the pointee one inside.
type PointerType struct {
	Range
	Elem Type
}

// ReferenceType is a reference.
type ReferenceType struct {
	Range
	Elem   Type
	RValue bool // &&
}

// MemberPointerType is T C::*.
type MemberPointerType struct {
	Range
	Class *Name
	Elem  Type
}

// ArrayType is an array. The address space and qualifiers of the object are those
// of the innermost element.
type ArrayType struct {
	Range
	Elem Type
	Len  Expr // nil for []
}

// FuncType is the type of a function: in a pointer, a typedef or a template
// parameter.
type FuncType struct {
	Range
	Result   Type
	Params   []*ParamDecl
	Variadic bool
	Noexcept bool
}

// PackType is T... in a parameter or base list.
type PackType struct {
	Range
	Elem Type
}

// BuiltinTraitType is a compiler's own type function: __underlying_type(T).
type BuiltinTraitType struct {
	Range
	Name string
	Args []Type
}

func (*BasicType) typ()         {}
func (*NamedType) typ()         {}
func (*AutoType) typ()          {}
func (*DecltypeType) typ()      {}
func (*RecordType) typ()        {}
func (*EnumType) typ()          {}
func (*QualifiedType) typ()     {}
func (*PointerType) typ()       {}
func (*ReferenceType) typ()     {}
func (*MemberPointerType) typ() {}
func (*ArrayType) typ()         {}
func (*FuncType) typ()          {}
func (*PackType) typ()          {}
func (*BuiltinTraitType) typ()  {}
