package sema

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"minfer/metal/msl/ir"
	"minfer/metal/msl/types"
)

func boolValue(b bool) *Value {
	if b {
		return &Value{I: 1}
	}
	return &Value{}
}

// wrapInt truncates to the width of an integer kind.
func wrapInt(i int64, k types.Kind) int64 {
	switch k {
	case types.Bool:
		if i != 0 {
			return 1
		}
		return 0
	case types.Char:
		return int64(int8(i))
	case types.UChar:
		return int64(uint8(i))
	case types.Short:
		return int64(int16(i))
	case types.UShort:
		return int64(uint16(i))
	case types.Int:
		return int64(int32(i))
	case types.UInt:
		return int64(uint32(i))
	}
	return i
}

// roundFloat rounds to the precision of a float kind, to nearest even.
func roundFloat(f float64, k types.Kind) float64 {
	switch k {
	case types.Half:
		return roundTo(f, 11, -14, 65504)
	case types.BFloat:
		return roundTo(f, 8, -126, math.Ldexp(255, 120))
	}
	return float64(float32(f))
}

// roundTo rounds to prec bits with smallest normal exponent emin.
func roundTo(f float64, prec, emin int, largest float64) float64 {
	if f == 0 || math.IsInf(f, 0) || math.IsNaN(f) {
		return f
	}
	_, e := math.Frexp(f) // |f| in [2^(e-1), 2^e)
	q := max(e-1, emin) - prec + 1
	r := math.Ldexp(math.RoundToEven(math.Ldexp(f, -q)), q)
	if math.Abs(r) > largest {
		return math.Inf(int(math.Copysign(1, f)))
	}
	return r
}

// convertValue converts a constant as ConvNumeric does; nil if it can't.
func convertValue(v *Value, from, to *types.Type) *Value {
	if len(v.Elems) > 0 || to.Kind == types.Matrix || to.IsVector() {
		fe, te := elemType(from), elemType(to)
		if fe == nil || te == nil {
			return nil
		}
		r := &Value{}
		for i := range v.Elems {
			e := convertValue(&v.Elems[i], fe, te)
			if e == nil {
				return nil
			}
			r.Elems = append(r.Elems, *e)
		}
		return r
	}
	fk, tk := from.ScalarKind(), to.ScalarKind()
	if fk == types.Invalid || tk == types.Invalid {
		return nil
	}
	switch {
	case fk.IsFloat() && tk.IsFloat():
		return &Value{F: roundFloat(v.F, tk)}
	case fk.IsFloat() && tk == types.Bool:
		return boolValue(v.F != 0)
	case fk.IsFloat():
		return &Value{I: floatToInt(v.F, tk)}
	case tk.IsFloat():
		f := float64(v.I)
		if fk == types.ULong {
			f = float64(uint64(v.I))
		}
		if tk == types.Float {
			// One rounding, not two: through the integer type that v has.
			if fk == types.ULong {
				return &Value{F: float64(float32(uint64(v.I)))}
			}
			return &Value{F: float64(float32(v.I))}
		}
		return &Value{F: roundFloat(f, tk)}
	}
	return &Value{I: wrapInt(v.I, tk)}
}

// floatToInt truncates and saturates, NaN gives 0.
func floatToInt(f float64, k types.Kind) int64 {
	if math.IsNaN(f) {
		return 0
	}
	f = math.Trunc(f)
	bits := k.Size() * 8
	if k.IsSigned() {
		hi := int64(1)<<(bits-1) - 1
		if f >= math.Ldexp(1, bits-1) {
			return hi
		}
		if f < -math.Ldexp(1, bits-1) {
			return -hi - 1
		}
		return int64(f)
	}
	switch {
	case f <= 0:
		return 0
	case f >= math.Ldexp(1, bits):
		if bits == 64 {
			return -1
		}
		return int64(1)<<bits - 1
	case f >= math.Ldexp(1, 63):
		return int64(uint64(f))
	}
	return int64(f)
}

// elemType is the type of one element of a vector, matrix (a column) or array.
func elemType(t *types.Type) *types.Type {
	switch t.Kind {
	case types.Vector, types.PackedVector:
		return types.Scalar(t.Elem)
	case types.Matrix:
		return t.Column()
	case types.Array:
		return t.Of.T
	}
	return nil
}

// maxConstBytes bounds the objects that constant evaluation handles.
const maxConstBytes = 1 << 20

// zeroValue is the all-zero value of a type, nil if it is too large to evaluate.
func zeroValue(t *types.Type) *Value {
	if t.Size() > maxConstBytes || t.Kind == types.Array && t.N > maxConstBytes {
		return nil
	}
	v := &Value{}
	switch t.Kind {
	case types.Vector, types.PackedVector, types.Matrix, types.Array:
		e := elemType(t)
		for range max(t.N, 0) {
			z := zeroValue(e)
			if z == nil {
				return nil
			}
			v.Elems = append(v.Elems, *z)
		}
	case types.Struct:
		for i := range t.Fields {
			z := zeroValue(t.Fields[i].Type.T)
			if z == nil {
				return nil
			}
			v.Elems = append(v.Elems, *z)
			if t.Union {
				break
			}
		}
	}
	return v
}

// valueString spells a constant.
func valueString(t *types.Type, v *Value) string {
	if v == nil {
		return "?"
	}
	if len(v.Elems) > 0 {
		e := elemType(t)
		s := make([]string, len(v.Elems))
		for i := range v.Elems {
			et := e
			if t.Kind == types.Struct && i < len(t.Fields) {
				et = t.Fields[i].Type.T
			}
			if et == nil {
				return "{...}"
			}
			s[i] = valueString(et, &v.Elems[i])
		}
		return "{" + strings.Join(s, ", ") + "}"
	}
	switch {
	case t.Kind == types.Bool:
		return fmt.Sprint(v.I != 0)
	case t.IsFloat():
		return fmt.Sprint(v.F)
	case t.ScalarKind() == types.ULong:
		return fmt.Sprint(uint64(v.I))
	case t.Kind == types.Pointer:
		if v.Ref == nil {
			return "nullptr"
		}
		return "&" + v.Ref.Name
	}
	return fmt.Sprint(v.I)
}

// Bits gives the bits of a scalar constant, zero-extended.
func (v *Value) Bits(k types.Kind) uint64 {
	switch k {
	case types.Float:
		return uint64(math.Float32bits(float32(v.F)))
	case types.Half: // v.F is one, exactly
		return ir.F16.FloatBits(float32(v.F))
	case types.BFloat:
		return ir.BF16.FloatBits(float32(v.F))
	}
	if s := k.Size(); s > 0 && s < 8 {
		return uint64(v.I) & (1<<(8*s) - 1)
	}
	return uint64(v.I)
}

// fromBits is the reverse of Bits.
func fromBits(b uint64, k types.Kind) *Value {
	switch k {
	case types.Float:
		return &Value{F: float64(math.Float32frombits(uint32(b)))}
	case types.BFloat:
		return &Value{F: float64(ir.BF16.Float(b))}
	case types.Half:
		return &Value{F: float64(ir.F16.Float(b))}
	}
	return &Value{I: wrapInt(int64(b), k)}
}

// Encode lays a constant of type t out in dst as it stands in memory; padding
// stays as it is. It fails for pointers that are not null.
func (v *Value) Encode(t *types.Type, dst []byte) error {
	if t.Size() > len(dst) {
		return fmt.Errorf("encode %s: room for %d bytes, expected %d", t, len(dst), t.Size())
	}
	switch t.Kind {
	case types.Vector, types.PackedVector, types.Matrix, types.Array:
		e := elemType(t)
		size := e.Size()
		for i := range v.Elems {
			if (i+1)*size > len(dst) {
				return fmt.Errorf("encode %s: %d elements, expected %d", t, len(v.Elems), t.N)
			}
			if err := v.Elems[i].Encode(e, dst[i*size:]); err != nil {
				return err
			}
		}
		return nil
	case types.Struct:
		for i := range v.Elems {
			k := i
			if t.Union {
				k = v.Field
			}
			if k >= len(t.Fields) {
				return fmt.Errorf("encode %s: %d members, expected %d", t, len(v.Elems), len(t.Fields))
			}
			f := t.Fields[k]
			if err := v.Elems[i].Encode(f.Type.T, dst[f.Offset:]); err != nil {
				return err
			}
		}
		return nil
	case types.Pointer, types.NullPtr:
		if v.Ref != nil {
			return fmt.Errorf("encode %s: the address of '%s' is not known here", t, v.Ref.Name)
		}
		clear(dst[:8])
		return nil
	}
	k := t.ScalarKind()
	var buf [8]byte
	binary.LittleEndian.PutUint64(buf[:], v.Bits(k))
	copy(dst, buf[:t.Size()])
	return nil
}
