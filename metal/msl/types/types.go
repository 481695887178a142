// Package types holds the types of the Metal Shading Language and their layout
// in memory.
//
// A [Type] is unqualified; [Qual] adds const, volatile and the address space,
// which belong to the thing pointed at or referred to, never to the pointer
// itself. Scalars, vectors, packed vectors, matrices and simdgroup matrices exist
// once each and may be compared with ==; pointers, references, arrays and function types
// are compared with [Identical]; structs, unions and enums are nominal.
//
// Order of use: take the predeclared types or [Vec], [Packed], [Mat] and [SgMat], build
// derived ones with [PointerTo], [ReferenceTo], [ArrayOf] and [FuncOf], declare structs
// with [NewStruct] and complete them with [Type.SetFields]. Types are immutable
// from then on and safe for concurrent use.
//
// The package knows no syntax and reports no diagnostics: metal/msl/sema decides
// which types a program may form.
package types

import (
	"fmt"
	"strings"
)

// Kind says what a type is.
type Kind uint8

// The kinds. Bool to Float are the scalars, in promotion order; char is signed.
const (
	Invalid Kind = iota
	Void
	Bool
	Char
	UChar
	Short
	UShort
	Int
	UInt
	Long
	ULong
	Half
	BFloat
	Float
	NullPtr      // the type of nullptr
	Vector       // Elem, N; aligned to its size, 3 takes the room of 4
	PackedVector // Elem, N; aligned to its element
	Matrix       // N columns of Rows rows
	SgMatrix     // 8x8 of Elem, owned by the simdgroup
	Pointer      // Of
	Reference    // Of
	Array        // Of, N; N < 0 is an incomplete array
	Struct       // also a union (Type.Union)
	Enum
	Function // Result, Params
	Atomic   // Elem: int, uint, float, ulong, bool
	Texture  // opaque handle: textures, samplers, and other resources that kernels only pass on
	Opaque   // a unique stand-in, used when templates are compared
)

// Space is an address space.
type Space uint8

// The address spaces. NoSpace is "as declared": thread for locals.
const (
	NoSpace Space = iota
	Thread
	Device
	Constant
	Threadgroup
)

var spaceNames = [...]string{"", "thread", "device", "constant", "threadgroup"}

// String gives the keyword.
func (s Space) String() string { return spaceNames[s] }

// Qual is a type with the qualifiers of the object that has it.
type Qual struct {
	T        *Type
	Const    bool
	Volatile bool
	Coherent bool // coherent(device)
	Space    Space
}

// Q is t without qualifiers.
func Q(t *Type) Qual { return Qual{T: t} }

// In is q in the given space.
func (q Qual) In(s Space) Qual { q.Space = s; return q }

// AsConst is q with const.
func (q Qual) AsConst() Qual { q.Const = true; return q }

// Bare is q without qualifiers.
func (q Qual) Bare() Qual { return Qual{T: q.T} }

// String spells q as the source would.
func (q Qual) String() string {
	var b strings.Builder
	if q.Coherent {
		b.WriteString("coherent ")
	}
	if q.Space != NoSpace {
		b.WriteString(q.Space.String() + " ")
	}
	if q.Const {
		b.WriteString("const ")
	}
	if q.Volatile {
		b.WriteString("volatile ")
	}
	if q.T == nil {
		return b.String() + "<no type>"
	}
	return b.String() + q.T.String()
}

// Type is an unqualified type.
type Type struct {
	Kind   Kind
	Elem   Kind    // Vector, PackedVector, Matrix, SgMatrix, Atomic: the scalar
	N      int     // components; columns of a Matrix; length of an Array
	Rows   int     // of a Matrix
	Of     Qual    // Pointer, Reference, Array
	Result Qual    // Function
	Params []Qual  // Function
	Under  *Type   // Enum: the underlying integer
	Scoped bool    // Enum: enum class, no implicit conversion to integers
	Union  bool    // Struct
	Name   string  // Struct, Enum, Texture, Opaque: as diagnostics spell it
	Fields []Field // Struct, in order, bases first
	Base   *Type   // Struct: the base class, nil if none; also Fields[0] if it has data
	Decl   any     // Struct, Enum: the checker's own record of the declaration

	size, align int
	weight      int
	complete    bool
}

// Weight is the number of types that t is written with: what comparing, printing or
// hashing it costs. Functions of functions of functions double it at each step, so who
// builds types from hostile text must bound it.
func (t *Type) Weight() int { return max(t.weight, 1) }

const maxWeight = 1 << 40

func weigh(n int, q Qual) int {
	if q.T == nil {
		return n
	}
	return min(n+q.T.Weight(), maxWeight)
}

// Field is a data member.
type Field struct {
	Name   string // empty for an anonymous struct or union, whose members are found through it
	Type   Qual
	Offset int // bytes from the start of the struct
	IsBase bool
	// Mutable members may be written in const objects.
	Mutable bool
	// Align is from alignas, 0 if unset.
	Align int
	Index int // in Type.Fields
}

var scalarNames = [...]string{
	Void: "void", Bool: "bool", Char: "char", UChar: "uchar", Short: "short", UShort: "ushort", Int: "int",
	UInt: "uint", Long: "long", ULong: "ulong", Half: "half", BFloat: "bfloat", Float: "float", NullPtr: "nullptr_t",
}

// The predeclared types.
var (
	VoidType    = &Type{Kind: Void, complete: true}
	BoolType    = scalar(Bool)
	CharType    = scalar(Char)
	UCharType   = scalar(UChar)
	ShortType   = scalar(Short)
	UShortType  = scalar(UShort)
	IntType     = scalar(Int)
	UIntType    = scalar(UInt)
	LongType    = scalar(Long)
	ULongType   = scalar(ULong)
	HalfType    = scalar(Half)
	BFloatType  = scalar(BFloat)
	FloatType   = scalar(Float)
	NullPtrType = &Type{Kind: NullPtr, size: 8, align: 8, complete: true}
	InvalidType = &Type{Kind: Invalid, size: 1, align: 1, complete: true}
)

// scalarSize is in bytes and indexed by Kind: table of the language, section
// "scalar data types".
var scalarSize = [...]int{Bool: 1, Char: 1, UChar: 1, Short: 2, UShort: 2, Int: 4, UInt: 4, Long: 8, ULong: 8, Half: 2, BFloat: 2, Float: 4}

func scalar(k Kind) *Type {
	return &Type{Kind: k, size: scalarSize[k], align: scalarSize[k], complete: true}
}

var (
	scalars = [...]*Type{
		Bool: BoolType, Char: CharType, UChar: UCharType, Short: ShortType, UShort: UShortType, Int: IntType,
		UInt: UIntType, Long: LongType, ULong: ULongType, Half: HalfType, BFloat: BFloatType, Float: FloatType,
	}
	vectors  = makeFamily(func(k Kind, n int) *Type { return newVec(Vector, k, n) })
	packeds  = makeFamily(func(k Kind, n int) *Type { return newVec(PackedVector, k, n) })
	matrices = makeMatrices()
	sgmats   = map[Kind]*Type{Half: newSg(Half), BFloat: newSg(BFloat), Float: newSg(Float)}
	atomics  = map[Kind]*Type{Int: newAtomic(Int), UInt: newAtomic(UInt), Float: newAtomic(Float), ULong: newAtomic(ULong), Bool: newAtomic(Bool)}
)

func makeFamily(mk func(Kind, int) *Type) (f [Float + 1][5]*Type) {
	for k := Bool; k <= Float; k++ {
		for n := 2; n <= 4; n++ {
			f[k][n] = mk(k, n)
		}
	}
	return f
}

func newVec(kind, k Kind, n int) *Type {
	e := scalarSize[k]
	if kind == PackedVector {
		return &Type{Kind: kind, Elem: k, N: n, size: n * e, align: e, complete: true}
	}
	room := n
	if n == 3 {
		room = 4
	}
	return &Type{Kind: kind, Elem: k, N: n, size: room * e, align: room * e, complete: true}
}

func makeMatrices() map[[3]int]*Type {
	m := map[[3]int]*Type{}
	for _, k := range []Kind{Half, BFloat, Float} {
		for c := 2; c <= 4; c++ {
			for r := 2; r <= 4; r++ {
				col := newVec(Vector, k, r)
				m[[3]int{int(k), c, r}] = &Type{Kind: Matrix, Elem: k, N: c, Rows: r, size: c * col.size, align: col.align, complete: true}
			}
		}
	}
	return m
}

func newSg(k Kind) *Type {
	// Two elements a lane: what sizeof would give is not used by programs.
	return &Type{Kind: SgMatrix, Elem: k, N: 8, Rows: 8, size: 2 * scalarSize[k], align: 2 * scalarSize[k], complete: true}
}

func newAtomic(k Kind) *Type {
	return &Type{Kind: Atomic, Elem: k, size: scalarSize[k], align: scalarSize[k], complete: true}
}

// Scalar gives the scalar type of a kind, nil for another kind.
func Scalar(k Kind) *Type {
	if int(k) < len(scalars) {
		return scalars[k]
	}
	return nil
}

// Vec gives the vector of n (2 to 4) elements, nil where there is none. n = 1 is
// the scalar.
func Vec(k Kind, n int) *Type { return fromFamily(&vectors, k, n) }

// Packed gives the packed vector likewise.
func Packed(k Kind, n int) *Type { return fromFamily(&packeds, k, n) }

func fromFamily(f *[Float + 1][5]*Type, k Kind, n int) *Type {
	if k < Bool || k > Float || n < 1 || n > 4 {
		return nil
	}
	if n == 1 {
		return scalars[k]
	}
	return f[k][n]
}

// Mat gives the matrix of c columns of r elements, nil where there is none.
func Mat(k Kind, c, r int) *Type { return matrices[[3]int{int(k), c, r}] }

// SgMat gives the 8x8 simdgroup matrix, nil where there is none.
func SgMat(k Kind) *Type { return sgmats[k] }

// AtomicOf gives the atomic type, nil where there is none.
func AtomicOf(k Kind) *Type { return atomics[k] }

// PointerTo gives the pointer to q.
func PointerTo(q Qual) *Type {
	return &Type{Kind: Pointer, Of: q, size: 8, align: 8, weight: weigh(1, q), complete: true}
}

// ReferenceTo gives the reference to q.
func ReferenceTo(q Qual) *Type {
	return &Type{Kind: Reference, Of: q, size: 8, align: 8, weight: weigh(1, q), complete: true}
}

// ArrayOf gives the array of n elements; n < 0 leaves the length open.
func ArrayOf(q Qual, n int) *Type {
	t := &Type{Kind: Array, Of: q, N: n, weight: weigh(1, q), complete: n >= 0}
	t.align = q.T.Align()
	if n > 0 {
		t.size = n * q.T.Size()
	}
	return t
}

// FuncOf gives a function type.
func FuncOf(result Qual, params []Qual) *Type {
	w := weigh(1, result)
	for _, p := range params {
		w = weigh(w, p)
	}
	return &Type{Kind: Function, Result: result, Params: params, size: 8, align: 8, weight: w, complete: true}
}

// NewOpaque gives a type that equals only itself.
func NewOpaque(name string) *Type {
	return &Type{Kind: Opaque, Name: name, size: 1, align: 1, complete: true}
}

// NewTexture gives a resource handle type; equal names are one type.
func NewTexture(name string) *Type {
	return &Type{Kind: Texture, Name: name, size: 8, align: 8, complete: true}
}

// NewEnum gives an enumeration with the underlying integer type.
func NewEnum(name string, under *Type, scoped bool) *Type {
	return &Type{Kind: Enum, Name: name, Under: under, Scoped: scoped, size: under.size, align: under.align, complete: true}
}

// NewStruct gives an incomplete struct or union.
func NewStruct(name string, union bool) *Type {
	return &Type{Kind: Struct, Name: name, Union: union, align: 1}
}

// SetFields completes a struct: it assigns offsets, size and alignment by the
// rules of C++, each member aligned naturally, the whole padded to its alignment, at
// least minAlign and at least one byte.
func (t *Type) SetFields(fields []Field, minAlign int) {
	align, end := max(1, minAlign), 0
	for i := range fields {
		f := &fields[i]
		f.Index = i
		size, a := f.Type.T.Size(), max(f.Type.T.Align(), f.Align)
		align = max(align, a)
		if t.Union {
			f.Offset = 0
			end = max(end, size)
			continue
		}
		f.Offset = roundUp(end, a)
		end = f.Offset + size
	}
	t.Fields, t.align, t.size, t.complete = fields, align, max(roundUp(end, align), align), true
	if len(fields) == 0 {
		t.size = roundUp(1, align)
	}
}

func roundUp(n, a int) int { return (n + a - 1) / a * a }

// Complete says whether the size is known.
func (t *Type) Complete() bool { return t.complete }

// Size is in bytes, 0 for void and for incomplete types.
func (t *Type) Size() int { return t.size }

// Align is in bytes, at least 1.
func (t *Type) Align() int { return max(t.align, 1) }

// IsScalar says bool, integer or float.
func (t *Type) IsScalar() bool { return t.Kind >= Bool && t.Kind <= Float }

// IsInteger says a scalar integer, bool included.
func (t *Type) IsInteger() bool { return t.Kind >= Bool && t.Kind <= ULong }

// IsFloat says half, bfloat or float.
func (t *Type) IsFloat() bool { return t.Kind >= Half && t.Kind <= Float }

// IsSigned says char, short, int or long.
func (k Kind) IsSigned() bool { return k == Char || k == Short || k == Int || k == Long }

// IsInteger says an integer kind, bool included.
func (k Kind) IsInteger() bool { return k >= Bool && k <= ULong }

// IsFloat says half, bfloat or float.
func (k Kind) IsFloat() bool { return k >= Half && k <= Float }

// Size is that of a scalar kind in bytes, 0 for another.
func (k Kind) Size() int {
	if k >= Bool && k <= Float {
		return scalarSize[k]
	}
	return 0
}

// String names a scalar kind.
func (k Kind) String() string {
	if int(k) < len(scalarNames) && scalarNames[k] != "" {
		return scalarNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// IsVector says a vector, packed or not.
func (t *Type) IsVector() bool { return t.Kind == Vector || t.Kind == PackedVector }

// IsArithmetic says a scalar, vector or matrix.
func (t *Type) IsArithmetic() bool { return t.IsScalar() || t.IsVector() || t.Kind == Matrix }

// ScalarKind is the element's kind of a scalar, vector, matrix, simdgroup matrix or
// atomic, the underlying one of an enum, Invalid otherwise.
func (t *Type) ScalarKind() Kind {
	switch t.Kind {
	case Vector, PackedVector, Matrix, SgMatrix, Atomic:
		return t.Elem
	case Enum:
		return t.Under.Kind
	}
	if t.IsScalar() {
		return t.Kind
	}
	return Invalid
}

// Lanes is the number of scalars of a scalar, vector or matrix.
func (t *Type) Lanes() int {
	switch t.Kind {
	case Vector, PackedVector:
		return t.N
	case Matrix:
		return t.N * t.Rows
	}
	return 1
}

// Column is the column type of a matrix.
func (t *Type) Column() *Type { return Vec(t.Elem, t.Rows) }

// Unpacked is the vector of a packed vector, t otherwise.
func (t *Type) Unpacked() *Type {
	if t.Kind == PackedVector {
		return Vec(t.Elem, t.N)
	}
	return t
}

// Field finds a direct member by name.
func (t *Type) Field(name string) (*Field, bool) {
	for i := range t.Fields {
		if t.Fields[i].Name == name {
			return &t.Fields[i], true
		}
	}
	return nil, false
}

// Identical says that two types are the same.
func Identical(a, b *Type) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil || a.Kind != b.Kind {
		return false
	}
	switch a.Kind {
	case Pointer, Reference:
		return IdenticalQ(a.Of, b.Of)
	case Array:
		return a.N == b.N && IdenticalQ(a.Of, b.Of)
	case Function:
		if len(a.Params) != len(b.Params) || !IdenticalQ(a.Result, b.Result) {
			return false
		}
		for i := range a.Params {
			if !IdenticalQ(a.Params[i], b.Params[i]) {
				return false
			}
		}
		return true
	case Texture:
		return a.Name == b.Name
	}
	return false // the rest is unique or nominal
}

// IdenticalQ says that two qualified types are the same, thread and no space being one.
func IdenticalQ(a, b Qual) bool {
	return a.Const == b.Const && a.Volatile == b.Volatile && SameSpace(a.Space, b.Space) && Identical(a.T, b.T)
}

// SameSpace compares spaces, thread and no space being one.
func SameSpace(a, b Space) bool { return a == b || a <= Thread && b <= Thread }

// String spells t as the source would.
func (t *Type) String() string {
	switch t.Kind {
	case Vector:
		return fmt.Sprintf("%s%d", t.Elem, t.N)
	case PackedVector:
		return fmt.Sprintf("packed_%s%d", t.Elem, t.N)
	case Matrix:
		return fmt.Sprintf("%s%dx%d", t.Elem, t.N, t.Rows)
	case SgMatrix:
		return fmt.Sprintf("simdgroup_%s8x8", t.Elem)
	case Atomic:
		return fmt.Sprintf("atomic_%s", t.Elem)
	case Pointer:
		if t.Of.T != nil && t.Of.T.Kind == Function {
			return t.Of.T.Result.String() + " (*)" + paramList(t.Of.T.Params)
		}
		return t.Of.String() + " *"
	case Reference:
		return t.Of.String() + " &"
	case Array:
		if t.N < 0 {
			return t.Of.String() + "[]"
		}
		return fmt.Sprintf("%s[%d]", t.Of, t.N)
	case Function:
		return t.Result.String() + " " + paramList(t.Params)
	case Struct, Enum, Texture, Opaque:
		return t.Name
	case Invalid:
		return "<error>"
	}
	return scalarNames[t.Kind]
}

func paramList(ps []Qual) string {
	s := make([]string, len(ps))
	for i, p := range ps {
		s[i] = p.String()
	}
	return "(" + strings.Join(s, ", ") + ")"
}
