package quant

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"minfer/engine/gguf"
)

// quantizationVersion is the revision of the block formats, as ggml numbers
// them; every file with these formats says 2.
const quantizationVersion = 2

// Options of File.
type Options struct {
	// Workers is the number of goroutines, runtime.NumCPU() when 0. It never
	// changes a byte of the result.
	Workers int
	// Requantize allows a source that is itself quantised. The result is worse
	// than one from the original weights.
	Requantize bool
	// Progress, when set, is called before each tensor, in the order of the
	// new file. An error that it returns ends the run with that error.
	Progress func(Step) error
}

// A Step is one tensor of a run of File.
type Step struct {
	Index, Count int // from 0
	Name         string
	From, To     gguf.Type
}

// File writes src to dst with its matrices in the types that m chooses. The
// metadata stay, but for general.quantization_version and general.file_type,
// which come last, and the keys of a split file, which go: the result is one
// file, however many parts the source has, its tensors in llama.cpp's order.
// Tensor data equal what llama.cpp makes of the same source without an
// importance matrix.
//
// Tensors are converted one band of rows at a time, so memory does not grow
// with the model. Values that are not finite, and values too large for the
// half-precision scales of the new type, are errors that name tensor and
// place. After an error dst is as it was before.
func File(dst string, src *gguf.File, m Mix, o Options) error {
	model, err := Plan(src, m, o)
	if err != nil {
		return err
	}
	if err := distinct(dst, src); err != nil {
		return err
	}
	_, err = gguf.Write(dst, model, gguf.WriteOptions{})
	return err
}

// Plan is File without the writing: the model to hand to gguf.Write. Its
// tensors convert as they are written, so src has to stay open until then.
func Plan(src *gguf.File, m Mix, o Options) (gguf.Model, error) {
	var model gguf.Model
	shape, err := ShapeOf(src)
	if err != nil {
		return model, err
	}
	types, err := m.Types(shape, src.Tensors)
	if err != nil {
		return model, fmt.Errorf("%s: %w", src.Path, err)
	}
	for _, kv := range src.KVs {
		if kv.Key != "general.quantization_version" && kv.Key != "general.file_type" && !strings.HasPrefix(kv.Key, "split.") {
			model.KVs = append(model.KVs, kv)
		}
	}
	model.KVs = append(model.KVs,
		gguf.KV{Key: "general.quantization_version", Value: uint32(quantizationVersion)},
		gguf.KV{Key: "general.file_type", Value: m.FileType})

	for i, at := range Order(src.Tensors) {
		t, to := src.Tensors[at], types[at]
		if from, ok := codecOf(t.Type); t.Type != to {
			if !ok {
				return model, fmt.Errorf("%s: tensor %s: type %v can't be converted to %v", src.Path, t.Name, t.Type, to)
			}
			if from.quantised && !o.Requantize {
				return model, fmt.Errorf("%s: tensor %s is %v already: want a source of f32, f16 or bf16 weights", src.Path, t.Name, t.Type)
			}
		}
		step := Step{Index: i, Count: len(src.Tensors), Name: t.Name, From: t.Type, To: to}
		model.Tensors = append(model.Tensors, gguf.TensorSpec{
			Name: t.Name, Type: to, Dims: t.Dims,
			WriteTo: func(w io.Writer) error {
				if o.Progress != nil {
					if err := o.Progress(step); err != nil {
						return err
					}
				}
				if t.Type == to {
					if b := notFinite(to, t.Data); b >= 0 {
						return fmt.Errorf("a value that is not finite in block %d of %v: want finite numbers", b, to)
					}
					_, err := w.Write(t.Data)
					return err
				}
				return convert(w, t, to, o.Workers)
			},
		})
	}
	return model, nil
}

// distinct refuses to replace a part of the source: the original weights
// would be lost.
func distinct(dst string, src *gguf.File) error {
	to, err := os.Stat(dst)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, p := range src.Parts {
		if from, err := os.Stat(p.Path); err == nil && os.SameFile(from, to) {
			return fmt.Errorf("%s: the output is the input file: want another path", dst)
		}
	}
	return nil
}

// bandElems is about how many values a goroutine converts at a time.
const bandElems = 32 << 10

// convert writes the blocks of type to of one tensor. Rows are independent:
// goroutines take bands of them from a counter, and a batch of bands is
// written in order when it is complete.
func convert(w io.Writer, t gguf.Tensor, to gguf.Type, workers int) error {
	if workers <= 0 {
		workers = runtime.NumCPU()
	}
	n, rows := t.Dims[0], 1
	for _, d := range t.Dims[1:] {
		rows *= d
	}
	if n == 0 || rows == 0 {
		return nil
	}
	band := max(1, bandElems/n)
	batch := min(rows, band*workers*4)
	in, out := t.Type.RowBytes(n), to.RowBytes(n)
	buf := make([]byte, batch*out)
	scratch := make([][]float32, workers)
	for first := 0; first < rows; first += batch {
		count := min(batch, rows-first)
		bands := (count + band - 1) / band
		errs := make([]error, bands)
		var next atomic.Int64
		var wg sync.WaitGroup
		for k := range min(workers, bands) {
			wg.Go(func() {
				if scratch[k] == nil {
					scratch[k] = make([]float32, band*n)
				}
				for b := int(next.Add(1)) - 1; b < bands; b = int(next.Add(1)) - 1 {
					lo, hi := b*band, min(b*band+band, count)
					src := t.Data[(first+lo)*in : (first+hi)*in]
					errs[b] = convertRows(buf[lo*out:hi*out], src, scratch[k][:(hi-lo)*n], t, to, first+lo)
				}
			})
		}
		wg.Wait()
		if err := firstOf(errs); err != nil {
			return err
		}
		if _, err := w.Write(buf[:count*out]); err != nil {
			return err
		}
	}
	return nil
}

// firstOf gives the first error that there is, so that the report does not
// depend on which goroutine was quicker.
func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// convertRows converts whole rows by way of x; row is the number of the first.
func convertRows(dst, src []byte, x []float32, t gguf.Tensor, to gguf.Type, row int) error {
	if err := Dequantize(t.Type, x, src); err != nil {
		return err
	}
	n := t.Dims[0]
	for i, v := range x {
		if v-v != 0 {
			return fmt.Errorf("value %v at row %d, column %d: want a finite number", v, row+i/n, i%n)
		}
	}
	if err := Quantize(to, dst, x); err != nil {
		return err
	}
	if b := notFinite(to, dst); b >= 0 {
		e := b * to.BlockSize()
		_, most := peak(x[e : e+to.BlockSize()])
		return fmt.Errorf("magnitude %v at row %d, from column %d: too large for %v", most, row+e/n, e%n, to)
	}
	return nil
}

// notFinite gives the first block with a value or a scale that is not finite,
// or -1.
func notFinite(t gguf.Type, blocks []byte) int {
	c, _ := codecOf(t)
	if t == gguf.F32 {
		for i := 0; i+4 <= len(blocks); i += 4 {
			if blocks[i+3]&0x7f == 0x7f && blocks[i+2]&0x80 != 0 {
				return i / 4
			}
		}
		return -1
	}
	mask := byte(0x7c) // the exponent of a half
	if t == gguf.BF16 {
		mask = 0x7f
	}
	size := t.BlockBytes()
	for b := 0; b*size < len(blocks); b++ {
		for _, at := range c.halves {
			if h := blocks[b*size+at+1]; h&mask == mask && (t != gguf.BF16 || blocks[b*size+at]&0x80 != 0) {
				return b
			}
		}
	}
	return -1
}
