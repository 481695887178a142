package mtl

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Type is a scalar element type of arguments and constants.
type Type uint8

// The types. AnyType is unknown or mixed, and fits everything.
const (
	AnyType Type = iota
	Bool
	Int8
	Uint8
	Int16
	Uint16
	Int32
	Uint32
	Int64
	Uint64
	Float16
	BFloat16
	Float32
)

var typeNames = [...]string{"any", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32"}

// String is the name that launch files use: "float32", "uint8", ...
func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("Type(%d)", uint8(t))
}

// ParseType reads a name that String gives, but for "any".
func ParseType(name string) (Type, error) {
	for t, n := range typeNames {
		if n == name && Type(t) != AnyType {
			return Type(t), nil
		}
	}
	return AnyType, fmt.Errorf("mtl: type %q: want one of %v", name, typeNames[1:])
}

// mslTypes are the spellings of MSL.
var mslTypes = map[string]Type{
	"bool": Bool, "char": Int8, "uchar": Uint8, "short": Int16, "ushort": Uint16, "int": Int32, "uint": Uint32,
	"long": Int64, "ulong": Uint64, "half": Float16, "bfloat": BFloat16, "float": Float32,
}

// MSLType is the scalar type that MSL spells so, AnyType for anything else.
func MSLType(spelling string) Type { return mslTypes[spelling] }

// Size is the number of bytes; 0 for AnyType.
func (t Type) Size() int {
	switch t {
	case Bool, Int8, Uint8:
		return 1
	case Int16, Uint16, Float16, BFloat16:
		return 2
	case Int32, Uint32, Float32:
		return 4
	case Int64, Uint64:
		return 8
	}
	return 0
}

// Float says that the type is a floating point type.
func (t Type) Float() bool { return t == Float16 || t == BFloat16 || t == Float32 }

// fits says whether elements that the host takes for t may be bound to a
// parameter of type p: bytes are raw memory, and signedness is in the eye of the
// reader.
func (t Type) fits(p Type) bool {
	if t == AnyType || p == AnyType || t == p {
		return true
	}
	if t == Uint8 || t == Int8 || p == Uint8 || p == Int8 {
		return true
	}
	return t.Size() == p.Size() && !t.Float() && !p.Float() && t != Bool && p != Bool
}

// Constant is a function constant of a library.
type Constant struct {
	Name  string
	Index int
	Type  Type
	// Count is the number of components, 1 for a scalar.
	Count int
}

// FindConstant finds a function constant by name or by index in decimal, the keys of
// [Library.Pipeline].
func FindConstant(all []Constant, key string) (Constant, error) {
	index, err := strconv.Atoi(key)
	names := []string{}
	for _, c := range all {
		if c.Name == key || err == nil && c.Index == index {
			return c, nil
		}
		names = append(names, fmt.Sprintf("%s (%d)", c.Name, c.Index))
	}
	if len(names) == 0 {
		names = []string{"none"}
	}
	return Constant{}, fmt.Errorf("no function constant %q in the library: it has %s", key, strings.Join(names, ", "))
}

// Bits converts a value to the constant's components, each zero-extended to 64
// bits. A bool constant takes a bool; an integer constant any Go integer that it
// can represent; a float constant a float32 or float64, which is rounded to
// nearest even. A vector takes a slice or an array of its length.
func (c Constant) Bits(value any) ([]uint64, error) {
	v := reflect.ValueOf(value)
	if c.Count <= 1 {
		bits, err := c.scalar(v)
		if err != nil {
			return nil, err
		}
		return []uint64{bits}, nil
	}
	if !v.IsValid() || (v.Kind() != reflect.Slice && v.Kind() != reflect.Array) || v.Len() != c.Count {
		return nil, fmt.Errorf("function constant %s: value %v (%T): want %d components of %s", c.Name, value, value, c.Count, c.Type)
	}
	all := make([]uint64, c.Count)
	for i := range all {
		e := v.Index(i)
		if e.Kind() == reflect.Interface {
			e = e.Elem()
		}
		bits, err := c.scalar(e)
		if err != nil {
			return nil, fmt.Errorf("component %d: %w", i, err)
		}
		all[i] = bits
	}
	return all, nil
}

func (c Constant) scalar(v reflect.Value) (uint64, error) {
	wrong := func() (uint64, error) {
		if !v.IsValid() {
			return 0, fmt.Errorf("function constant %s: no value: want %s", c.Name, c.Type)
		}
		return 0, fmt.Errorf("function constant %s: value %v (%s): want %s", c.Name, v, v.Type(), c.Type)
	}
	if !v.IsValid() {
		return wrong()
	}
	switch {
	case c.Type == Bool:
		if v.Kind() != reflect.Bool {
			return wrong()
		}
		if v.Bool() {
			return 1, nil
		}
		return 0, nil
	case c.Type.Float():
		if v.Kind() != reflect.Float32 && v.Kind() != reflect.Float64 {
			return wrong()
		}
		return floatBits(c.Type, v.Float()), nil
	}
	width := 8 * c.Type.Size()
	if width == 0 {
		return 0, fmt.Errorf("function constant %s: its type cannot be set", c.Name)
	}
	signed := c.Type == Int8 || c.Type == Int16 || c.Type == Int32 || c.Type == Int64
	switch {
	case v.CanInt():
		n := v.Int()
		lo, hi := int64(0), int64(math.MaxInt64)
		if signed {
			lo, hi = math.MinInt64>>(64-width), math.MaxInt64>>(64-width)
		} else if width < 64 {
			hi = 1<<width - 1
		}
		if n < lo || n > hi {
			return wrong()
		}
		return uint64(n) << (64 - width) >> (64 - width), nil
	case v.CanUint():
		n := v.Uint()
		hi := uint64(math.MaxUint64) >> (64 - width)
		if signed {
			hi >>= 1
		}
		if n > hi {
			return wrong()
		}
		return n, nil
	}
	return wrong()
}

// floatBits rounds x to the type once, to nearest even.
func floatBits(t Type, x float64) uint64 {
	switch t {
	case Float32:
		return uint64(math.Float32bits(float32(x)))
	case Float16:
		return uint64(roundFloat(x, 5, 10))
	default:
		return uint64(roundFloat(x, 8, 7))
	}
}

// roundFloat encodes x with the given widths of exponent and fraction.
func roundFloat(x float64, exp, frac int) uint32 {
	sign := uint32(math.Float64bits(x)>>63) << (exp + frac)
	inf := uint32(1<<exp-1) << frac
	x = math.Abs(x)
	switch {
	case math.IsNaN(x):
		return sign | inf | 1<<(frac-1)
	case math.IsInf(x, 0):
		return sign | inf
	case x == 0:
		return sign
	}
	bias := 1<<(exp-1) - 1
	_, e := math.Frexp(x) // x in [2^(e-1), 2^e)
	scale := max(e-1, 1-bias)
	// units of the last place at this scale; RoundToEven is exact on them, and a
	// carry runs into the exponent as it should.
	n := uint32(math.RoundToEven(math.Ldexp(x, frac-scale)))
	if e-1 >= 1-bias {
		n += uint32(scale+bias-1) << frac
	}
	return sign | min(n, inf)
}
