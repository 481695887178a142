// Package gguf reads and writes GGUF model files, versions 2 and 3, in one part
// or many.
//
// [Open] maps the file (every part stays mapped, page-aligned, until Close);
// [Read] takes bytes already in memory, such as an embedded model. Both check
// every count, length, offset, alignment and type against the size of the data
// before they use it: bad input is one line of error, never a panic and never a
// wrong answer. [Write] is the inverse, multi-part too.
//
// The package knows the container only: what keys and tensors mean is the
// business of engine/model and engine/tokenizer, what the bytes of a block mean
// that of engine/quant.
//
// A File is read-only and safe for concurrent use; Close must come after the
// last use of any slice taken from it.
package gguf

// A File is one model: the metadata and tensor directory of all its parts.
type File struct {
	Path      string // the first part's path, or the name given to Read
	Version   uint32 // 2 or 3
	Alignment int    // of the data section, bytes
	Parts     []Part // one for a single file
	KVs       []KV   // metadata of the first part, in file order
	Tensors   []Tensor

	unmap func() error
	kv    map[string]int
	index map[string]int
}

// A Part is one mapped file.
type Part struct {
	Path string
	Data []byte // the whole file, from a page boundary when mapped
}

// A KV is one metadata entry.
type KV struct {
	Key   string
	Value any // uint8, int8, uint16, int16, uint32, int32, float32, bool, string, uint64, int64, float64, or a slice of one of them
}

// A Tensor is one entry of the tensor directory with its bytes.
type Tensor struct {
	Name string
	Type Type
	Dims []int  // innermost first, as in the file: Dims[0] is the row length; 1 to 4 of them
	Part int    // index in File.Parts
	Data []byte // within Parts[Part].Data, exactly the tensor's bytes
}
