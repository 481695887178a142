package metaltest

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"unsafe"

	"minfer/engine/quant"
	"minfer/metal/mtl"
)

// Element is what a buffer may consist of.
type Element interface {
	~bool | ~int8 | ~uint8 | ~int16 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32
}

// Half is an MSL half, BFloat a bfloat, as bits.
type (
	Half   uint16
	BFloat uint16
)

// Halves and BFloats round to the nearest.
func Halves(x []float32) []Half {
	out := make([]Half, len(x))
	for i, v := range x {
		out[i] = Half(quant.F16(v))
	}
	return out
}

// BFloats is Halves for bfloat.
func BFloats(x []float32) []BFloat {
	out := make([]BFloat, len(x))
	for i, v := range x {
		out[i] = BFloat(quant.BF16(v))
	}
	return out
}

// Float32 is the value.
func (h Half) Float32() float32 { return quant.F32FromF16(uint16(h)) }

// Float32 is the value.
func (b BFloat) Float32() float32 { return quant.F32FromBF16(uint16(b)) }

// Arg is one argument of a kernel.
type Arg struct {
	*array
	in, out     bool
	access      mtl.Access
	reference   func() []byte
	value       []byte // inline
	threadgroup bool
	bytes       int // of threadgroup memory
	elem        mtl.Type
	err         error
}

// array is a slice behind its type.
type array struct {
	key  unsafe.Pointer
	elem mtl.Type
	n    int
	read func() []byte
	// write puts the device's bytes into the slice.
	write func(data []byte)
}

// In is a buffer with the slice's content. A kernel that changes it is at fault.
func In[T Element](data []T) Arg {
	a := slice(data)
	a.in, a.access = true, mtl.Read
	return a
}

// Out is a buffer that nobody wrote, as long as the slice: the kernel must write all
// of it. What it wrote is in the slice afterwards. reference fills want with what
// must come out; nil leaves the values to the test.
func Out[T Element](data []T, reference func(want []T)) Arg {
	a := slice(data)
	a.out, a.access = true, mtl.Write
	if reference != nil {
		a.reference = func() []byte {
			want := make([]T, len(data))
			reference(want)
			return encode(want)
		}
	}
	return a
}

// InOut is a buffer with the slice's content, of which the kernel may change any
// part. reference gets a copy of the content and makes of it what must come out; nil
// leaves the values to the test.
func InOut[T Element](data []T, reference func(want []T)) Arg {
	a := slice(data)
	a.in, a.out, a.access = true, true, mtl.ReadWrite
	if reference != nil {
		a.reference = func() []byte {
			want := append([]T(nil), data...)
			reference(want)
			return encode(want)
		}
	}
	return a
}

// Value is an inline constant: a number, a bool, or a struct or array of them, at
// most 4096 bytes. Structs are written without padding: put in blank fields where
// MSL has some. An int is refused, since it has no fixed size.
func Value(v any) Arg {
	data, err := bytesOf(v)
	a := Arg{value: data, err: err, elem: mtl.AnyType}
	if err == nil {
		a.elem = elemOf(reflect.TypeOf(v))
	}
	return a
}

// Threadgroup is threadgroup memory of that many bytes, a multiple of 16.
func Threadgroup(bytes int) Arg { return Arg{threadgroup: true, bytes: bytes} }

func slice[T Element](data []T) Arg {
	elem := elemOf(reflect.TypeFor[T]())
	a := Arg{elem: elem, array: &array{key: unsafe.Pointer(unsafe.SliceData(data)), elem: elem, n: len(data)}}
	if len(data) == 0 {
		a.err = fmt.Errorf("an empty slice of %v: a buffer has one element at least", elem)
	}
	a.read = func() []byte { return encode(data) }
	a.write = func(b []byte) {
		if _, err := binary.Decode(b, binary.LittleEndian, data); err != nil {
			panic(fmt.Sprintf("metaltest: %d bytes into %d elements of %v", len(b), len(data), elem))
		}
	}
	return a
}

// encode gives a slice's bytes as the device has them.
func encode[T Element](data []T) []byte {
	out, err := binary.Append(nil, binary.LittleEndian, data)
	if err != nil {
		panic("metaltest: a slice of elements has a fixed size") // by the constraint
	}
	return out
}

var kinds = map[reflect.Kind]mtl.Type{
	reflect.Bool: mtl.Bool, reflect.Int8: mtl.Int8, reflect.Uint8: mtl.Uint8, reflect.Int16: mtl.Int16, reflect.Uint16: mtl.Uint16,
	reflect.Int32: mtl.Int32, reflect.Uint32: mtl.Uint32, reflect.Int64: mtl.Int64, reflect.Uint64: mtl.Uint64, reflect.Float32: mtl.Float32,
}

// elemOf is the element type of a Go type, AnyType for a struct and the like.
func elemOf(t reflect.Type) mtl.Type {
	switch t {
	case reflect.TypeFor[Half]():
		return mtl.Float16
	case reflect.TypeFor[BFloat]():
		return mtl.BFloat16
	}
	return kinds[t.Kind()]
}

// number is an element: exact as an integer, or a float.
type number struct {
	float   float64
	integer int64 // the bits of a uint64
	exact   bool
	big     bool // of a uint64 above the range of integer
}

func (n number) nan() bool { return !n.exact && math.IsNaN(n.float) }

// String is the number.
func (n number) String() string {
	switch {
	case n.big:
		return fmt.Sprint(uint64(n.integer))
	case n.exact:
		return fmt.Sprint(n.integer)
	}
	return fmt.Sprint(float32(n.float))
}

// value is element i of a content.
func (a *array) value(data []byte, i int) number {
	size := a.elem.Size()
	var word [8]byte
	copy(word[:], data[i*size:(i+1)*size])
	u := binary.LittleEndian.Uint64(word[:])
	integer := func(v int64) number { return number{float: float64(v), integer: v, exact: true} }
	switch a.elem {
	case mtl.Float32:
		return number{float: float64(math.Float32frombits(uint32(u)))}
	case mtl.Float16:
		return number{float: float64(Half(u).Float32())}
	case mtl.BFloat16:
		return number{float: float64(BFloat(u).Float32())}
	case mtl.Int8:
		return integer(int64(int8(u)))
	case mtl.Int16:
		return integer(int64(int16(u)))
	case mtl.Int32:
		return integer(int64(int32(u)))
	case mtl.Uint64:
		return number{float: float64(u), integer: int64(u), exact: true, big: u > math.MaxInt64}
	}
	return integer(int64(u))
}

// near holds got against want: relative above 1, absolute below. NaN is only near
// NaN, an infinity only itself.
func near(got, want number, tolerance float64) bool {
	if got.exact && got.integer == want.integer {
		return true
	}
	g, w := got.float, want.float
	if !got.exact && (g == w || math.IsNaN(g) && math.IsNaN(w)) {
		return true
	}
	if math.IsInf(g, 0) || math.IsInf(w, 0) {
		return false
	}
	if got.exact && tolerance == 0 {
		return false // even where floats cannot tell them apart
	}
	return math.Abs(g-w) <= tolerance*max(1, math.Abs(w))
}
