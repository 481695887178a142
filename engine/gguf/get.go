package gguf

import (
	"fmt"
	"math"
)

// integer is every integer kind that Get converts between.
type integer interface {
	int | int8 | int16 | int32 | int64 | uint | uint8 | uint16 | uint32 | uint64
}

// Get returns the value of a metadata key as a T: one of Go's integer types,
// float32, float64, bool, string, or a slice of one of them.
//
// An absent key gives false and no error. A value of another type is an error
// that names the key, the type found and the type expected, with one leniency,
// since writers differ in the width they choose: integers (and slices of them)
// convert to any other integer type when the value fits, and float32 widens to
// float64. A slice may be the File's own: don't modify it.
func Get[T any](f *File, key string) (v T, ok bool, err error) {
	raw, found := f.Lookup(key)
	if !found {
		return v, false, nil
	}
	if same, is := raw.(T); is {
		return same, true, nil
	}
	convertible, bad := convert(any(&v), raw)
	if bad != nil {
		return v, false, fmt.Errorf("gguf: %s: key %q: found %s, want a value that fits %T", f.Path, key, bad, v)
	}
	if !convertible {
		return v, false, fmt.Errorf("gguf: %s: key %q: found %s, want %s", f.Path, key, describe(raw), typeName(v))
	}
	return v, true, nil
}

// convert stores raw in *dst where the kinds allow it. misfit tells the value
// that has the right kind but does not fit.
func convert(dst, raw any) (ok bool, misfit error) {
	switch d := dst.(type) {
	case *int:
		return setInt(d, raw)
	case *int8:
		return setInt(d, raw)
	case *int16:
		return setInt(d, raw)
	case *int32:
		return setInt(d, raw)
	case *int64:
		return setInt(d, raw)
	case *uint:
		return setInt(d, raw)
	case *uint8:
		return setInt(d, raw)
	case *uint16:
		return setInt(d, raw)
	case *uint32:
		return setInt(d, raw)
	case *uint64:
		return setInt(d, raw)
	case *[]int:
		return setInts(d, raw)
	case *[]int8:
		return setInts(d, raw)
	case *[]int16:
		return setInts(d, raw)
	case *[]int32:
		return setInts(d, raw)
	case *[]int64:
		return setInts(d, raw)
	case *[]uint:
		return setInts(d, raw)
	case *[]uint8:
		return setInts(d, raw)
	case *[]uint16:
		return setInts(d, raw)
	case *[]uint32:
		return setInts(d, raw)
	case *[]uint64:
		return setInts(d, raw)
	case *float64:
		if x, is := raw.(float32); is {
			*d = float64(x)
			return true, nil
		}
	case *[]float64:
		if xs, is := raw.([]float32); is {
			*d = make([]float64, len(xs))
			for i, x := range xs {
				(*d)[i] = float64(x)
			}
			return true, nil
		}
	}
	return false, nil
}

// wide is any integer of the file: v when it is not negative or fits, else u.
type wide struct {
	v int64
	u uint64 // the value where it exceeds the range of int64
}

func widen(raw any) (w wide, ok bool) {
	switch x := raw.(type) {
	case uint8:
		return wide{v: int64(x)}, true
	case int8:
		return wide{v: int64(x)}, true
	case uint16:
		return wide{v: int64(x)}, true
	case int16:
		return wide{v: int64(x)}, true
	case uint32:
		return wide{v: int64(x)}, true
	case int32:
		return wide{v: int64(x)}, true
	case int64:
		return wide{v: x}, true
	case uint64:
		if x > math.MaxInt64 {
			return wide{u: x}, true
		}
		return wide{v: int64(x)}, true
	}
	return wide{}, false
}

// narrow converts a wide integer to D and reports whether it survives.
func narrow[D integer](w wide) (D, bool) {
	if w.u != 0 { // only a 64-bit unsigned type can hold it
		d := D(w.u)
		return d, d > 0 && uint64(d) == w.u
	}
	d := D(w.v)
	return d, int64(d) == w.v && (d < 0) == (w.v < 0)
}

func setInt[D integer](dst *D, raw any) (bool, error) {
	w, ok := widen(raw)
	if !ok {
		return false, nil
	}
	d, fits := narrow[D](w)
	if !fits {
		return false, fmt.Errorf("%T %v", raw, raw)
	}
	*dst = d
	return true, nil
}

func setInts[D integer](dst *[]D, raw any) (bool, error) {
	switch s := raw.(type) {
	case []uint8:
		return setEach(dst, s)
	case []int8:
		return setEach(dst, s)
	case []uint16:
		return setEach(dst, s)
	case []int16:
		return setEach(dst, s)
	case []uint32:
		return setEach(dst, s)
	case []int32:
		return setEach(dst, s)
	case []uint64:
		return setEach(dst, s)
	case []int64:
		return setEach(dst, s)
	}
	return false, nil
}

func setEach[D, S integer](dst *[]D, src []S) (bool, error) {
	out := make([]D, len(src))
	for i, x := range src {
		d := D(x)
		if S(d) != x || (d < 0) != (x < 0) {
			return false, fmt.Errorf("%T with element %d = %d", src, i, x)
		}
		out[i] = d
	}
	*dst = out
	return true, nil
}

// describe names a value's type, and its value where that is short.
func describe(v any) string {
	_, array, ok := kindOf(v)
	if !ok || array {
		return typeName(v)
	}
	switch s, is := v.(string); {
	case is && len(s) > 40:
		return fmt.Sprintf("a string of %d bytes", len(s))
	case is:
		return fmt.Sprintf("string %q", s)
	}
	return fmt.Sprintf("%T %v", v, v)
}

func typeName(v any) string { return fmt.Sprintf("%T", v) }
