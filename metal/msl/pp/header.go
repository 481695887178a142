package pp

import (
	"fmt"
	"strings"

	"minfer/metal/msl/lex"
)

// header gives the text of a built-in library header. All of them are one: the
// macros of the library. What it declares comes from metal/msl/prelude, which
// needs no #include.
func header(name string) (string, bool) {
	if name == "metal_stdlib" || strings.HasPrefix(name, "metal_") && !strings.ContainsAny(name, "/.\\") {
		return libraryMacros, true
	}
	switch name {
	case "simd/simd.h", "simd/vector_types.h", "simd/matrix_types.h", "TargetConditionals.h",
		"MetalPerformancePrimitives/MetalPerformancePrimitives.h":
		return libraryMacros, true
	}
	return "", false
}

// libraryMacros are the macros that the specification's library chapters name:
// float.h, half and math constants, limits, METAL_FUNC.
const libraryMacros = `#pragma once
#define METAL_FUNC inline __attribute__((__always_inline__))
#define METAL_CONST __attribute__((const))
#define METAL_ASM __asm
#define METAL_INTERNAL static
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define HUGE_VALF __builtin_huge_valf()
#define HUGE_VALH ((half)__builtin_huge_valf())
#define MAXFLOAT FLT_MAX
#define MAXHALF HALF_MAX
#define MAXBFLOAT BFLT_MAX
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define FLT_MAX_10_EXP +38
#define FLT_MAX_EXP +128
#define FLT_MIN_10_EXP -37
#define FLT_MIN_EXP -125
#define FLT_RADIX 2
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1.0p-126f
#define FLT_EPSILON 0x1.0p-23f
#define FLT_DECIMAL_DIG 9
#define FP_ILOGB0 (-2147483647 - 1)
#define FP_ILOGBNAN (-2147483647 - 1)
#define HALF_DIG 3
#define HALF_MANT_DIG 11
#define HALF_MAX_10_EXP +4
#define HALF_MAX_EXP +16
#define HALF_MIN_10_EXP -4
#define HALF_MIN_EXP -13
#define HALF_RADIX 2
#define HALF_MAX 0x1.ffcp15h
#define HALF_MIN 0x1.0p-14h
#define HALF_EPSILON 0x1.0p-10h
#define HALF_DECIMAL_DIG 5
#define BFLT_DIG 2
#define BFLT_MANT_DIG 8
#define BFLT_MAX_10_EXP +38
#define BFLT_MAX_EXP +128
#define BFLT_MIN_10_EXP -37
#define BFLT_MIN_EXP -125
#define BFLT_RADIX 2
#define BFLT_MAX 0x1.fep127bf
#define BFLT_MIN 0x1.0p-126bf
#define BFLT_EPSILON 0x1.0p-7bf
#define BFLT_DECIMAL_DIG 4
#define M_E_F 2.71828182845904523536028747135266250f
#define M_LOG2E_F 1.44269504088896340735992468100189214f
#define M_LOG10E_F 0.434294481903251827651128918916605082f
#define M_LN2_F 0.693147180559945309417232121458176568f
#define M_LN10_F 2.30258509299404568401799145468436421f
#define M_PI_F 3.14159265358979323846264338327950288f
#define M_PI_2_F 1.57079632679489661923132169163975144f
#define M_PI_4_F 0.785398163397448309615660845819875721f
#define M_1_PI_F 0.318309886183790671537767526745028724f
#define M_2_PI_F 0.636619772367581343075535053490057448f
#define M_2_SQRTPI_F 1.12837916709551257389615890312154517f
#define M_SQRT2_F 1.41421356237309504880168872420969808f
#define M_SQRT1_2_F 0.707106781186547524400844362104849039f
#define M_E_H 2.71828182845904523536028747135266250h
#define M_LOG2E_H 1.44269504088896340735992468100189214h
#define M_LOG10E_H 0.434294481903251827651128918916605082h
#define M_LN2_H 0.693147180559945309417232121458176568h
#define M_LN10_H 2.30258509299404568401799145468436421h
#define M_PI_H 3.14159265358979323846264338327950288h
#define M_PI_2_H 1.57079632679489661923132169163975144h
#define M_PI_4_H 0.785398163397448309615660845819875721h
#define M_1_PI_H 0.318309886183790671537767526745028724h
#define M_2_PI_H 0.636619772367581343075535053490057448h
#define M_2_SQRTPI_H 1.12837916709551257389615890312154517h
#define M_SQRT2_H 1.41421356237309504880168872420969808h
#define M_SQRT1_2_H 0.707106781186547524400844362104849039h
#define CHAR_BIT 8
#define SCHAR_MAX 127
#define SCHAR_MIN (-128)
#define UCHAR_MAX 255
#define CHAR_MAX SCHAR_MAX
#define CHAR_MIN SCHAR_MIN
#define USHRT_MAX 65535
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define UINT_MAX 0xffffffffu
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define ULONG_MAX 0xffffffffffffffffUL
#define LONG_MAX 0x7fffffffffffffffL
#define LONG_MIN (-0x7fffffffffffffffL - 1)
#define INT8_MAX SCHAR_MAX
#define INT8_MIN SCHAR_MIN
#define UINT8_MAX UCHAR_MAX
#define INT16_MAX SHRT_MAX
#define INT16_MIN SHRT_MIN
#define UINT16_MAX USHRT_MAX
#define INT32_MAX INT_MAX
#define INT32_MIN INT_MIN
#define UINT32_MAX UINT_MAX
#define INT64_MAX LONG_MAX
#define INT64_MIN LONG_MIN
#define UINT64_MAX ULONG_MAX
#define SIZE_MAX ULONG_MAX
`

// predefine sets the compiler's macros and those of the options.
func (p *preprocessor) predefine() {
	version := p.opts.Version
	if version == 0 {
		version = DefaultVersion
	}
	lines := []string{
		"__METAL__ 1", "__METAL_MACOS__ 1", fmt.Sprintf("__METAL_VERSION__ %d", version),
		"__AIR64__ 1", "__clang__ 1", "__STDC_HOSTED__ 0",
		// The language is C++14 with extensions up to version 3, C++17 from 4.
		"__cplusplus " + map[bool]string{false: "201402L", true: "201703L"}[version >= 400],
		// The same text makes the same tokens at any time.
		`__DATE__ "Jan  1 1970"`, `__TIME__ "00:00:00"`,
	}
	if version >= 310 {
		lines = append(lines, "__HAVE_BFLOAT__ 1")
	}
	p.defineLines(builtIn, lines)
	for name, f := range map[string]func(*preprocessor, lex.Token) lex.Token{
		"__LINE__": (*preprocessor).lineMacro, "__FILE__": (*preprocessor).fileMacro,
		"__COUNTER__": (*preprocessor).counterMacro, "__INCLUDE_LEVEL__": (*preprocessor).levelMacro,
	} {
		p.macros[name] = &macro{name: name, builtin: f}
	}
	var defines []string
	for _, d := range p.opts.Defines {
		name, value, ok := strings.Cut(d, "=")
		if !ok {
			value = "1"
		}
		// A line's end in it would end the directive.
		defines = append(defines, strings.NewReplacer("\n", " ", "\r", " ").Replace(name+" "+value))
	}
	p.defineLines(commandLine, defines)
}

// defineLines carries out a #define for each line.
func (p *preprocessor) defineLines(name string, lines []string) {
	if len(lines) == 0 {
		return
	}
	text := "#define " + strings.Join(lines, "\n#define ") + "\n"
	if !p.enter(name, text, 0) {
		return
	}
	for t := p.raw(); t.Kind != lex.EOF; t = p.raw() {
	}
	p.files = p.files[:0]
}
