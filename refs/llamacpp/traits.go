package llamacpp

import (
	"fmt"
	"unsafe"

	"minfer/engine/gguf"
)

// traits are the functions of one element type.
type traits struct {
	vecDotType gguf.Type
	vecDot     func(n int32, s *float32, bs uint64, x unsafe.Pointer, bx uint64, y unsafe.Pointer, by uint64, nrc int32)
	fromFloat  func(x *float32, y unsafe.Pointer, k int64)
	fromRef    func(x *float32, y unsafe.Pointer, k int64)
	toFloat    func(x unsafe.Pointer, y *float32, k int64)
}

func (l *Lib) traits(t gguf.Type) (*traits, error) {
	if t != i64 && !t.Known() {
		return nil, fmt.Errorf("%v: not a type of this project", t)
	}
	p := l.process
	p.traitsMu.Lock()
	defer p.traitsMu.Unlock()
	if tr := p.typeTraitsMem[int32(t)]; tr != nil {
		return tr, nil
	}
	base, cpu := p.fn.GGMLGetTypeTraits(int32(t)), p.fn.GGMLGetTypeTraitsCPU(int32(t))
	if base == nil || cpu == nil {
		return nil, fmt.Errorf("%v: ggml knows no such type", t)
	}
	if int(base.blockSize) != t.BlockSize() || int(base.typeSize) != t.BlockBytes() {
		return nil, fmt.Errorf("%v: ggml has %d bytes for %d elements, this project %d for %d", t, base.typeSize, base.blockSize, t.BlockBytes(), t.BlockSize())
	}
	tr := &traits{vecDotType: gguf.Type(cpu.vecDotType)}
	for _, f := range []struct {
		fptr any
		addr uintptr
	}{{&tr.vecDot, cpu.vecDot}, {&tr.fromFloat, cpu.fromFloat}, {&tr.fromRef, base.fromFloatRef}, {&tr.toFloat, base.toFloat}} {
		if f.addr != 0 {
			register(f.fptr, f.addr)
		}
	}
	// Q8_K has its reference quantiser in the base library, but not in the table.
	if tr.fromRef == nil && t == gguf.Q8_K {
		addr, err := dlsym(p.symbols["base"], "quantize_row_q8_K_ref")
		if err != nil {
			return nil, fmt.Errorf("%v: %w", t, err)
		}
		register(&tr.fromRef, addr)
	}
	p.typeTraitsMem[int32(t)] = tr
	return tr, nil
}

// rows checks n elements of a type against the bytes that hold them.
func rows(what string, t gguf.Type, n, bytes int) error {
	if n <= 0 || t.BlockSize() == 0 || n%t.BlockSize() != 0 {
		return fmt.Errorf("%s of %d %v elements: want a positive multiple of %d", what, n, t, t.BlockSize())
	}
	if want := t.RowBytes(n); bytes != want {
		return fmt.Errorf("%s of %d %v elements: %d bytes, want %d", what, n, t, bytes, want)
	}
	return nil
}

// VecDotType is the type to which ggml converts the activations before a dot
// product with weights of type t.
func (l *Lib) VecDotType(t gguf.Type) (gguf.Type, error) {
	tr, err := l.traits(t)
	if err != nil {
		return 0, err
	}
	if tr.vecDot == nil {
		return 0, fmt.Errorf("%v: ggml has no dot product", t)
	}
	return tr.vecDotType, nil
}

// VecDot is the dot product of one row of n weights of type t and one row of
// activations of VecDotType(t), by the CPU variant's own function.
func (l *Lib) VecDot(t gguf.Type, n int, w, act []byte) (float32, error) {
	at, err := l.VecDotType(t)
	if err != nil {
		return 0, err
	}
	if err := rows("weight row", t, n, len(w)); err != nil {
		return 0, err
	}
	if err := rows("activation row", at, n, len(act)); err != nil {
		return 0, err
	}
	tr, err := l.traits(t)
	if err != nil {
		return 0, err
	}
	var s float32
	tr.vecDot(int32(n), &s, 0, unsafe.Pointer(&w[0]), 0, unsafe.Pointer(&act[0]), 0, 1)
	return s, nil
}

// FromFloat converts a row as the CPU variant converts activations.
func (l *Lib) FromFloat(t gguf.Type, src []float32) ([]byte, error) {
	tr, err := l.traits(t)
	if err != nil {
		return nil, err
	}
	return convert("from_float", t, tr.fromFloat, src)
}

// QuantizeRef converts a row by ggml's reference quantiser, the one of weights.
func (l *Lib) QuantizeRef(t gguf.Type, src []float32) ([]byte, error) {
	tr, err := l.traits(t)
	if err != nil {
		return nil, err
	}
	return convert("from_float_ref", t, tr.fromRef, src)
}

func convert(what string, t gguf.Type, f func(*float32, unsafe.Pointer, int64), src []float32) ([]byte, error) {
	if f == nil {
		return nil, fmt.Errorf("%v: ggml has no %s", t, what)
	}
	if len(src) == 0 || len(src)%t.BlockSize() != 0 {
		return nil, fmt.Errorf("%s of %d elements to %v: want a positive multiple of %d", what, len(src), t, t.BlockSize())
	}
	out := make([]byte, t.RowBytes(len(src)))
	f(&src[0], unsafe.Pointer(&out[0]), int64(len(src)))
	return out, nil
}

// Dequantize gives the n elements of a row as float32.
func (l *Lib) Dequantize(t gguf.Type, src []byte, n int) ([]float32, error) {
	if err := rows("row", t, n, len(src)); err != nil {
		return nil, err
	}
	if t == gguf.F32 {
		return float32s(t, src), nil
	}
	tr, err := l.traits(t)
	if err != nil {
		return nil, err
	}
	if tr.toFloat == nil {
		return nil, fmt.Errorf("%v: ggml has no to_float", t)
	}
	out := make([]float32, n)
	tr.toFloat(unsafe.Pointer(&src[0]), &out[0], int64(n))
	return out, nil
}
