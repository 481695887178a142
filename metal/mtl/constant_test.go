package mtl

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConstantBits(t *testing.T) {
	for _, c := range []struct {
		constant Constant
		value    any
		want     []uint64
	}{
		{Constant{Type: Bool}, true, []uint64{1}},
		{Constant{Type: Bool}, false, []uint64{0}},
		{Constant{Type: Int8}, -128, []uint64{0x80}},
		{Constant{Type: Uint8}, 255, []uint64{255}},
		{Constant{Type: Int16}, int16(-2), []uint64{0xfffe}},
		{Constant{Type: Int32}, int64(-1), []uint64{0xffffffff}},
		{Constant{Type: Int32}, uint8(7), []uint64{7}},
		{Constant{Type: Uint32}, int64(math.MaxUint32), []uint64{0xffffffff}},
		{Constant{Type: Int64}, int64(math.MinInt64), []uint64{1 << 63}},
		{Constant{Type: Uint64}, uint64(math.MaxUint64), []uint64{math.MaxUint64}},
		{Constant{Type: Uint64}, 5, []uint64{5}},
		{Constant{Type: Float32}, float32(0.1), []uint64{0x3dcccccd}},
		{Constant{Type: Float32}, 0.1, []uint64{0x3dcccccd}},
		{Constant{Type: Float32}, math.Inf(-1), []uint64{0xff800000}},
		{Constant{Type: Float16}, float32(1), []uint64{0x3c00}},
		{Constant{Type: Float16}, 65504.0, []uint64{0x7bff}},
		{Constant{Type: Float16}, 65519.0, []uint64{0x7bff}},
		{Constant{Type: Float16}, 65520.0, []uint64{0x7c00}},
		{Constant{Type: Float16}, 0x1p-24, []uint64{1}},
		{Constant{Type: Float16}, 0x1p-25, []uint64{0}}, // a tie, to even
		{Constant{Type: Float16}, 0x1.8p-24, []uint64{2}},
		{Constant{Type: Float16}, 0x1.ffcp-15, []uint64{0x3ff + 1}}, // rounds up into the normal numbers
		{Constant{Type: Float16}, -0.1, []uint64{0xae66}},
		{Constant{Type: Float16}, math.NaN(), []uint64{0x7e00}},
		{Constant{Type: Float16}, math.Inf(1), []uint64{0x7c00}},
		{Constant{Type: BFloat16}, 1.0, []uint64{0x3f80}},
		{Constant{Type: BFloat16}, 0.1, []uint64{0x3dcd}},
		{Constant{Type: BFloat16}, math.Copysign(0, -1), []uint64{0x8000}},
		{Constant{Type: Int32, Count: 3}, []int{1, -1, 2}, []uint64{1, 0xffffffff, 2}},
		{Constant{Type: Uint16, Count: 2}, [2]uint16{3, 4}, []uint64{3, 4}},
		{Constant{Type: Float32, Count: 2}, []any{1.0, float32(2)}, []uint64{0x3f800000, 0x40000000}},
	} {
		got, err := c.constant.Bits(c.value)
		require.NoError(t, err, "%v of %T", c.constant, c.value)
		require.Equal(t, c.want, got, "%v of %v", c.constant, c.value)
	}
}

func TestConstantBitsRefused(t *testing.T) {
	for _, c := range []struct {
		constant Constant
		value    any
		want     string
	}{
		{Constant{Name: "n", Type: Int32}, true, "function constant n: value true (bool): want int32"},
		{Constant{Name: "n", Type: Int32}, 1.5, "function constant n: value 1.5 (float64): want int32"},
		{Constant{Name: "n", Type: Int32}, int64(1) << 31, "function constant n: value 2147483648 (int64): want int32"},
		{Constant{Name: "n", Type: Int32}, uint64(1) << 31, "function constant n: value 2147483648 (uint64): want int32"},
		{Constant{Name: "n", Type: Uint32}, -1, "function constant n: value -1 (int): want uint32"},
		{Constant{Name: "n", Type: Uint64}, -1, "function constant n: value -1 (int): want uint64"},
		{Constant{Name: "n", Type: Int64}, uint64(1) << 63, "function constant n: value 9223372036854775808 (uint64): want int64"},
		{Constant{Name: "n", Type: Int8}, 128, "function constant n: value 128 (int): want int8"},
		{Constant{Name: "on", Type: Bool}, 1, "function constant on: value 1 (int): want bool"},
		{Constant{Name: "x", Type: Float32}, 1, "function constant x: value 1 (int): want float32"},
		{Constant{Name: "x", Type: Float32}, nil, "function constant x: no value: want float32"},
		{Constant{Name: "x", Type: Float32}, []float32{1}, "function constant x: value [1] ([]float32): want float32"},
		{Constant{Name: "v", Type: Uint32, Count: 2}, 1, "function constant v: value 1 (int): want 2 components of uint32"},
		{Constant{Name: "v", Type: Uint32, Count: 2}, []int{1, 2, 3}, "function constant v: value [1 2 3] ([]int): want 2 components of uint32"},
		{Constant{Name: "v", Type: Uint32, Count: 2}, []int{1, -2}, "component 1: function constant v: value -2 (int): want uint32"},
		{Constant{Name: "v", Type: Uint32, Count: 2}, nil, "function constant v: value <nil> (<nil>): want 2 components of uint32"},
	} {
		_, err := c.constant.Bits(c.value)
		require.EqualError(t, err, c.want)
	}
}

// Every float16 and bfloat16 number is its own rounding, and so is everything
// strictly within half a unit of it.
func TestRoundFloatAllEncodings(t *testing.T) {
	value := func(bits uint32, exp, frac int) float64 {
		e, f := int(bits>>frac), float64(bits&(1<<frac-1))
		bias := 1<<(exp-1) - 1
		if e == 0 {
			return math.Ldexp(f, 1-bias-frac)
		}
		return math.Ldexp(f+math.Ldexp(1, frac), e-bias-frac)
	}
	for _, f := range []struct {
		t         Type
		exp, frac int
	}{{Float16, 5, 10}, {BFloat16, 8, 7}} {
		inf := uint32(1<<f.exp-1) << f.frac
		for bits := uint32(1); bits < inf; bits++ {
			x, below := value(bits, f.exp, f.frac), value(bits-1, f.exp, f.frac)
			require.Equal(t, uint64(bits), floatBits(f.t, x))
			middle := (x + below) / 2
			require.Equal(t, uint64(bits), floatBits(f.t, math.Nextafter(middle, x)))
			require.Equal(t, uint64(bits-1), floatBits(f.t, math.Nextafter(middle, 0)))
			even := bits
			if bits%2 == 1 {
				even = bits - 1
			}
			require.Equal(t, uint64(even), floatBits(f.t, middle), "tie at %#x", bits)
		}
	}
}

func TestFindConstant(t *testing.T) {
	all := []Constant{{Name: "rows", Index: 0}, {Name: "7", Index: 3}}
	for key, want := range map[string]Constant{"rows": all[0], "0": all[0], "3": all[1], "7": all[1]} {
		got, err := FindConstant(all, key)
		require.NoError(t, err)
		require.Equal(t, want, got, key)
	}
	_, err := FindConstant(all, "5")
	require.EqualError(t, err, `no function constant "5" in the library: it has rows (0), 7 (3)`)
	_, err = FindConstant(nil, "x")
	require.EqualError(t, err, `no function constant "x" in the library: it has none`)
}

func TestTypes(t *testing.T) {
	for ty := Bool; ty <= Float32; ty++ {
		got, err := ParseType(ty.String())
		require.NoError(t, err)
		require.Equal(t, ty, got)
	}
	for spelling, want := range map[string]Type{"uchar": Uint8, "long": Int64, "half": Float16, "bfloat": BFloat16, "float4": AnyType, "": AnyType} {
		require.Equal(t, want, MSLType(spelling), spelling)
	}
	_, err := ParseType("any")
	require.ErrorContains(t, err, `mtl: type "any": want one of [bool int8`)
	for _, c := range []struct {
		host, kernel Type
		fits         bool
	}{
		{Float32, Float32, true}, {Int32, Uint32, true}, {Uint64, Int64, true}, {AnyType, Float16, true}, {Float32, AnyType, true},
		{Uint8, Float32, true}, {Float16, Uint8, true}, {Int8, Int32, true},
		{Float32, Uint32, false}, {Uint32, Float32, false}, {Float16, BFloat16, false}, {Float16, Uint16, false},
		{Int32, Int64, false}, {Int16, Int32, false}, {Float32, Float16, false},
	} {
		require.Equal(t, c.fits, c.host.fits(c.kernel), "%v bound to %v", c.host, c.kernel)
	}
}

func TestRing(t *testing.T) {
	var r Ring
	require.Empty(t, r.Last())
	r.Add("0")
	require.Equal(t, []string{"0"}, r.Last())
	for i := 1; i < 100; i++ {
		r.Add(string(rune('0' + i)))
	}
	want := []string{}
	for i := 100 - LabelRing; i < 100; i++ {
		want = append(want, string(rune('0'+i)))
	}
	require.Equal(t, want, r.Last())
}

func TestSubmitError(t *testing.T) {
	e := &SubmitError{Label: "split 0", Status: "it hung", Last: []string{"a", "b"}}
	require.EqualError(t, e, `metal: submit of "split 0" failed: it hung; last dispatches: a, b`)
	require.EqualError(t, &SubmitError{Label: "x", Status: "lost"}, `metal: submit of "x" failed: lost; no dispatch`)
}
