package llamacpp

import (
	"fmt"
)

// FType is llama_ftype: which type, or mix of types, a quantised file gets.
type FType int32

// The file types of docs/numerics.md section 13.
const (
	FTypeF32  FType = 0
	FTypeF16  FType = 1
	FTypeQ4_0 FType = 2
	FTypeQ4_1 FType = 3
	FTypeQ8_0 FType = 7
	FTypeQ5_0 FType = 8
	FTypeQ5_1 FType = 9
	FTypeQ4KS FType = 14
	FTypeQ4KM FType = 15
	FTypeQ5KS FType = 16
	FTypeQ5KM FType = 17
	FTypeQ6K  FType = 18
	FTypeBF16 FType = 32
)

// QuantizeOptions say how a file is quantised.
type QuantizeOptions struct {
	FType   FType
	Pure    bool // every quantisable tensor gets the type itself, no mix
	Threads int  // 0 is 1
}

// Quantize writes a quantised copy of a model file, as llama_model_quantize
// does without an importance matrix.
func (l *Lib) Quantize(in, out string, o QuantizeOptions) error {
	p := l.fn.LlamaModelQuantizeDefault()
	p.nThread = int32(max(o.Threads, 1))
	p.fType = int32(o.FType)
	p.pure = cbool(o.Pure)
	l.log.clear()
	if status := l.fn.LlamaModelQuantize(in, out, &p); status != 0 {
		return l.log.wrap(fmt.Errorf("llama.cpp can't quantise %s: status %d", in, status))
	}
	return nil
}
