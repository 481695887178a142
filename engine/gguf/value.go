package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The value types of metadata, numbered as the file numbers them.
const (
	kindUint8   = 0
	kindInt8    = 1
	kindUint16  = 2
	kindInt16   = 3
	kindUint32  = 4
	kindInt32   = 5
	kindFloat32 = 6
	kindBool    = 7
	kindString  = 8
	kindArray   = 9
	kindUint64  = 10
	kindInt64   = 11
	kindFloat64 = 12
)

var kindNames = [...]string{
	"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32",
	"bool", "string", "array", "uint64", "int64", "float64",
}

// kindSizes holds the bytes of one value; for a string the least it can take,
// which is its length field. An array has no entry: it can't nest.
var kindSizes = [...]int{1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8}

// value decodes n values of one kind at the cursor and returns them as a slice,
// or the single one when array is false. The kind is valid and not an array.
func (c *cursor) value(what string, kind uint32, n uint64, array bool) (any, error) {
	size := kindSizes[kind]
	if n > uint64(c.left())/uint64(size) {
		if !array {
			return nil, c.errorf("%s: a %s needs %d bytes, the file ends after %d", what, kindNames[kind], size, c.left())
		}
		return nil, c.errorf("%s: %d elements of %s, at least %s each, do not fit in the %s left in the file", what, n, kindNames[kind], plural(size, "byte"), plural(c.left(), "byte"))
	}
	if kind == kindString {
		if !array {
			return c.str(what)
		}
		return c.strs(what, int(n))
	}
	le := binary.LittleEndian
	switch kind {
	case kindUint8:
		return decode(c, n, array, size, func(b []byte) uint8 { return b[0] }), nil
	case kindInt8:
		return decode(c, n, array, size, func(b []byte) int8 { return int8(b[0]) }), nil
	case kindUint16:
		return decode(c, n, array, size, le.Uint16), nil
	case kindInt16:
		return decode(c, n, array, size, func(b []byte) int16 { return int16(le.Uint16(b)) }), nil
	case kindUint32:
		return decode(c, n, array, size, le.Uint32), nil
	case kindInt32:
		return decode(c, n, array, size, func(b []byte) int32 { return int32(le.Uint32(b)) }), nil
	case kindFloat32:
		return decode(c, n, array, size, func(b []byte) float32 { return math.Float32frombits(le.Uint32(b)) }), nil
	case kindUint64:
		return decode(c, n, array, size, le.Uint64), nil
	case kindInt64:
		return decode(c, n, array, size, func(b []byte) int64 { return int64(le.Uint64(b)) }), nil
	case kindFloat64:
		return decode(c, n, array, size, func(b []byte) float64 { return math.Float64frombits(le.Uint64(b)) }), nil
	}
	// Bools: the format calls any byte other than 0 and 1 invalid.
	for i, b := range c.data[c.off : c.off+int(n)] {
		if b > 1 {
			c.off += i
			return nil, c.errorf("%s: found %d as a bool, want 0 or 1", what, b)
		}
	}
	return decode(c, n, array, size, func(b []byte) bool { return b[0] == 1 }), nil
}

// decode reads n fixed-size values, which the caller has checked to be there.
func decode[T any](c *cursor, n uint64, array bool, size int, get func([]byte) T) any {
	out := make([]T, n)
	for i := range out {
		out[i] = get(c.data[c.off+i*size:])
	}
	c.off += int(n) * size
	if !array {
		return out[0]
	}
	return out
}

// kindOf gives the kind of a metadata value and whether it is an array of it.
func kindOf(v any) (kind uint32, array, ok bool) {
	switch v.(type) {
	case uint8:
		return kindUint8, false, true
	case int8:
		return kindInt8, false, true
	case uint16:
		return kindUint16, false, true
	case int16:
		return kindInt16, false, true
	case uint32:
		return kindUint32, false, true
	case int32:
		return kindInt32, false, true
	case float32:
		return kindFloat32, false, true
	case bool:
		return kindBool, false, true
	case string:
		return kindString, false, true
	case uint64:
		return kindUint64, false, true
	case int64:
		return kindInt64, false, true
	case float64:
		return kindFloat64, false, true
	case []uint8:
		return kindUint8, true, true
	case []int8:
		return kindInt8, true, true
	case []uint16:
		return kindUint16, true, true
	case []int16:
		return kindInt16, true, true
	case []uint32:
		return kindUint32, true, true
	case []int32:
		return kindInt32, true, true
	case []float32:
		return kindFloat32, true, true
	case []bool:
		return kindBool, true, true
	case []string:
		return kindString, true, true
	case []uint64:
		return kindUint64, true, true
	case []int64:
		return kindInt64, true, true
	case []float64:
		return kindFloat64, true, true
	}
	return 0, false, false
}

// appendValue appends a value with its type, as a key is followed by it.
// The value is one that kindOf knows.
func appendValue(dst []byte, v any) []byte {
	le := binary.LittleEndian
	kind, array, _ := kindOf(v)
	if array {
		dst = le.AppendUint32(dst, kindArray)
	}
	dst = le.AppendUint32(dst, kind)
	switch v := v.(type) {
	case string:
		return appendString(dst, v)
	case []string:
		dst = le.AppendUint64(dst, uint64(len(v)))
		for _, s := range v {
			dst = appendString(dst, s)
		}
		return dst
	}
	if array {
		dst = le.AppendUint64(dst, uint64(binary.Size(v)/kindSizes[kind]))
	}
	// binary.Append knows every fixed-size value and slice of them, bools too
	// (one byte each, 0 or 1), so it can't fail here.
	dst, err := binary.Append(dst, le, v)
	if err != nil {
		panic(fmt.Sprintf("gguf: encoding a %T: %v", v, err))
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(dst, uint64(len(s))), s...)
}
