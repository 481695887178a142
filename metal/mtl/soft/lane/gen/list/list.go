// Package list is what the generators of package lane share: the operations.
package list

import "strings"

// Op is one operation.
type Op struct {
	Name string // its constant
	Func string // the function of one lane
	// Args and Result are the types: u uint32, i int32, U uint64, I int64,
	// f float32, m a lane of a mask, x and X a uint32 and a uint64 scalar.
	Args   string
	Result byte
}

const text = `
Add32 add32 uu:u
Sub32 sub32 uu:u
Mul32 mul32 uu:u
And32 and32 uu:u
Or32 or32 uu:u
Xor32 xor32 uu:u
Shl32 shl32 uu:u
LShr32 lshr32 uu:u
AShr32 ashr32 ii:i
SMin32 smin32 ii:i
SMax32 smax32 ii:i
UMin32 umin32 uu:u
UMax32 umax32 uu:u
SDiv32 sdiv32 ii:i
UDiv32 udiv32 uu:u
SRem32 srem32 ii:i
URem32 urem32 uu:u
SMulHi32 smulhi32 ii:i
UMulHi32 umulhi32 uu:u
Clz32 clz32 u:u
Ctz32 ctz32 u:u
Popcount32 popcount32 u:u
Reverse32 reverse32 u:u
Add64 add64 UU:U
Sub64 sub64 UU:U
Mul64 mul64 UU:U
And64 and64 UU:U
Or64 or64 UU:U
Xor64 xor64 UU:U
Shl64 shl64 UU:U
LShr64 lshr64 UU:U
AShr64 ashr64 II:I
SMin64 smin64 II:I
SMax64 smax64 II:I
UMin64 umin64 UU:U
UMax64 umax64 UU:U
SDiv64 sdiv64 II:I
UDiv64 udiv64 UU:U
SRem64 srem64 II:I
URem64 urem64 UU:U
SMulHi64 smulhi64 II:I
UMulHi64 umulhi64 UU:U
Clz64 clz64 U:U
Ctz64 ctz64 U:U
Popcount64 popcount64 U:U
Reverse64 reverse64 U:U
Eq32 eq32 uu:m
Ne32 ne32 uu:m
SLt32 slt32 ii:m
SLe32 sle32 ii:m
ULt32 ult32 uu:m
ULe32 ule32 uu:m
Eq64 eq64 UU:m
Ne64 ne64 UU:m
SLt64 slt64 II:m
SLe64 sle64 II:m
ULt64 ult64 UU:m
ULe64 ule64 UU:m
FEq feq ff:m
FNe fne ff:m
FLt flt ff:m
FLe fle ff:m
Select32 select32 muu:u
Select64 select64 mUU:U
Copy32 copy32 u:u
Copy64 copy64 U:U
FAdd fadd ff:f
FSub fsub ff:f
FMul fmul ff:f
FDiv fdiv ff:f
FMA fma fff:f
FRem frem ff:f
FMin fmin ff:f
FMax fmax ff:f
Copysign copysign uu:u
Floor floor f:f
Ceil ceil f:f
Trunc trunc f:f
Rint rint f:f
Round round f:f
Sqrt sqrt f:f
Rsqrt libm.Rsqrt f:f
Exp libm.Exp f:f
Exp2 libm.Exp2 f:f
Exp10 libm.Exp10 f:f
Log libm.Log f:f
Log2 libm.Log2 f:f
Log10 libm.Log10 f:f
Sin libm.Sin f:f
Cos libm.Cos f:f
Tan libm.Tan f:f
Tanh libm.Tanh f:f
Sinh libm.Sinh f:f
Cosh libm.Cosh f:f
Asin libm.Asin f:f
Acos libm.Acos f:f
Atan libm.Atan f:f
Atan2 libm.Atan2 ff:f
Pow libm.Pow ff:f
Erf libm.Erf f:f
SExt8 sext8 u:u
SExt16 sext16 u:u
ZExt64 zext64 u:U
SExt64 sext64 i:I
Trunc64 trunc64 U:u
Bool32 bool32 m:u
Bool64 bool64 m:U
FToS32 ftos32 f:i
FToU32 ftou32 f:u
FToS64 ftos64 f:I
FToU64 ftou64 f:U
FToS8 ftos8 f:u
FToU8 ftou8 f:u
FToS16 ftos16 f:u
FToU16 ftou16 f:u
S32ToF s32tof i:f
U32ToF u32tof u:f
S64ToF s64tof I:f
U64ToF u64tof U:f
S64ToBF16 s64tobf16 I:u
U64ToBF16 u64tobf16 U:u
F16ToF f16tof u:f
FToF16 ftof16 f:u
BF16ToF bf16tof u:f
FToBF16 ftobf16 f:u
FMA16 fma16 uuu:u
FMABF16 fmabf16 uuu:u
Bcast32 copy32 x:u
Bcast64 copy64 X:U
MaskSelect maskSelect UUU:U
AndToF andToF uu:f
OrToF orToF uu:f
ShlAnd shlAnd uuu:u
LShrAnd lshrAnd uuu:u
AShrAnd ashrAnd iuu:u
AndOr andOr uuu:u
LShrAndToF lshrAndToF uuu:f
AShrAndToF ashrAndToF iuu:f
S8ToF s8tof u:f
FMAHalf fmaHalf fuf:f
`

// Memories are the steps on memory and across lanes, in the order of their
// constants.
func Memories() []string {
	return strings.Fields("Read8 Read16 Read32 Read64 Read16x4 Read32x2 Read32x4 ReadOnce8 ReadOnce16 ReadOnce32 ReadOnce64 SumF")
}

// Ops gives the operations in the order of their constants, the first of which
// is 1.
func Ops() []Op {
	var ops []Op
	for line := range strings.Lines(strings.TrimSpace(text)) {
		f := strings.Fields(line)
		args, res, _ := strings.Cut(f[2], ":")
		ops = append(ops, Op{f[0], f[1], args, res[0]})
	}
	return ops
}
