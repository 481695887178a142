package llamacpp

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"
)

// A Lib is the opened oracle. All Libs of a process share one set of libraries.
type Lib struct {
	*process

	mu     sync.Mutex
	models map[*Model]bool
	closed bool
}

// process is what can be opened only once.
type process struct {
	dir, variant  string
	version       string
	fn            functions
	evalCallback  uintptr
	log           logText
	symbols       map[string]uintptr // "base", "cpu": handles for symbols by name
	typeTraitsMem map[int32]*traits
	traitsMu      sync.Mutex
}

var opened struct {
	sync.Mutex
	p *process
}

// Open opens the libraries of a directory with one CPU variant: exactly
// libggml-cpu-<variant>.so is given to ggml, whatever the machine could do.
//
// Errors name the file that is missing or unusable, a CPU that lacks the
// variant's instructions, a library whose structures look different from
// docs/numerics.md section 13, and a second directory or variant in one
// process.
func Open(dir, variant string) (*Lib, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("llama.cpp directory %s: %w", dir, err)
	}
	opened.Lock()
	defer opened.Unlock()
	if p := opened.p; p != nil {
		if p.dir != abs || p.variant != variant {
			return nil, fmt.Errorf("llama.cpp: this process has opened variant %s of %s and can't change to %s of %s: ggml keeps its CPU backend; use another process",
				p.variant, p.dir, variant, abs)
		}
		return &Lib{process: p, models: make(map[*Model]bool)}, nil
	}
	p, err := openProcess(abs, variant)
	if err != nil {
		return nil, fmt.Errorf("llama.cpp: %w", err)
	}
	opened.p = p
	return &Lib{process: p, models: make(map[*Model]bool)}, nil
}

// Variants lists the CPU variants that a directory has a library for.
func Variants(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "libggml-cpu-*.so"))
	if err != nil {
		return nil, fmt.Errorf("llama.cpp directory %s: %w", dir, err)
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), "libggml-cpu-"), ".so"))
	}
	return names, nil
}

func openProcess(dir, variant string) (*process, error) {
	if variant == "" || strings.ContainsAny(variant, "/\x00") {
		return nil, fmt.Errorf("CPU variant %q: want a name such as haswell", variant)
	}
	p := &process{dir: dir, variant: variant, symbols: make(map[string]uintptr), typeTraitsMem: make(map[int32]*traits)}
	files, err := p.find()
	if err != nil {
		return nil, err
	}
	// dlerror is per thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	libs := []string{"c", "base", "ggml", "llama", "cpu"}
	for i, lib := range libs {
		if p.symbols[lib], err = dlopen(files[i]); err != nil {
			return nil, err
		}
	}
	lookup := func(lib, symbol string) (uintptr, error) {
		addr, err := dlsym(p.symbols[lib], symbol)
		if err != nil {
			return 0, fmt.Errorf("%s has no function %s: want a library like that of docs/numerics.md", files[slices.Index(libs, lib)], symbol)
		}
		return addr, nil
	}
	if err := p.fn.bindAll(libs, lookup, register); err != nil {
		return nil, err
	}
	if p.fn.GGMLBackendScore() == 0 {
		return nil, fmt.Errorf("this CPU lacks instructions that variant %s needs", variant)
	}
	if err := p.checkLayouts(); err != nil {
		return nil, err
	}
	logCallback := newCallback(p.log.add)
	p.fn.GGMLLogSet(logCallback, 0)
	p.fn.LlamaLogSet(logCallback, 0)
	p.evalCallback = newCallback(evalDispatch)
	if p.fn.GGMLBackendLoad(files[4]) == nil {
		return nil, p.log.wrap(fmt.Errorf("ggml refuses %s", files[4]))
	}
	p.fn.LlamaBackendInit()
	p.fn.GGMLCPUInit()
	if p.version == "" {
		p.version = p.fn.LlamaVersion()
	}
	return p, nil
}

// find gives the paths of libc, libggml-base, libggml, libllama and the CPU
// variant, and takes the version out of libllama's name.
func (p *process) find() ([]string, error) {
	if info, err := os.Stat(p.dir); err != nil {
		return nil, fmt.Errorf("library directory: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory: want the one with libllama*.so", p.dir)
	}
	one := func(stem string) (string, error) {
		plain := filepath.Join(p.dir, stem+".so")
		if _, err := os.Stat(plain); err == nil {
			return plain, nil
		}
		named, err := filepath.Glob(filepath.Join(p.dir, stem+".v*.so"))
		if err == nil && len(named) == 0 {
			named, err = filepath.Glob(filepath.Join(p.dir, stem+".*.v*.so")) // libllama.cuda.v0.4.0.so
		}
		if err != nil || len(named) != 1 {
			return "", fmt.Errorf("no %s.so and %d files %s.v*.so or %s.*.v*.so in %s: want one", stem, len(named), stem, stem, p.dir)
		}
		return named[0], nil
	}
	files := []string{"libc.so.6"}
	for _, stem := range []string{"libggml-base", "libggml", "libllama", "libggml-cpu-" + p.variant} {
		f, err := one(stem)
		if err != nil {
			if strings.HasPrefix(stem, "libggml-cpu-") {
				have, _ := Variants(p.dir)
				return nil, fmt.Errorf("no %s.so in %s: it has the CPU variants %v", stem, p.dir, have)
			}
			return nil, err
		}
		files = append(files, f)
	}
	name := strings.TrimSuffix(filepath.Base(files[3]), ".so")
	p.version = strings.TrimPrefix(strings.TrimPrefix(name, "libllama"), ".")
	return files, nil
}

// checkLayouts looks at the defaults of the structures passed by value: a
// library with other offsets would show other numbers there.
func (p *process) checkLayouts() error {
	m, c := p.fn.LlamaModelDefaultParams(), p.fn.LlamaContextDefaultParams()
	switch {
	case m.vocabOnly != 0 || m.useExtraBufts != 1:
		return fmt.Errorf("llama_model_params of %s: vocab_only %d and use_extra_bufts %d by default, want 0 and 1: another layout", p.dir, m.vocabOnly, m.useExtraBufts)
	case c.flashAttnType != -1 || c.typeK != 1 || c.typeV != 1 || c.nUBatch == 0 || c.nBatch < c.nUBatch || c.cbEval != 0:
		return fmt.Errorf("llama_context_params of %s: flash_attn_type %d, type_k %d, type_v %d by default, want -1, 1, 1: another layout", p.dir, c.flashAttnType, c.typeK, c.typeV)
	}
	for _, t := range []struct {
		typ   int32
		block int64
		size  uint64
	}{{2, 32, 18}, {14, 256, 210}} {
		if got := p.fn.GGMLGetTypeTraits(t.typ); got == nil || got.blockSize != t.block || got.typeSize != t.size {
			return fmt.Errorf("ggml_type_traits of %s: type %d is not %d bytes for %d elements: another layout", p.dir, t.typ, t.size, t.block)
		}
	}
	return nil
}

// LoadBackend loads one more backend of the directory, "cuda" for libggml-cuda.so,
// and gives the descriptions of its GPUs. Models put layers there that say so
// (ModelOptions.GPULayers; Model.Offloaded says whether they did). A backend that finds
// no GPU, because of its driver or of what it was built for, is an error: ggml takes
// it, and llama.cpp would compute on the CPU without a word.
func (l *Lib) LoadBackend(name string) ([]string, error) {
	if name == "" || strings.ContainsAny(name, "/\x00") {
		return nil, fmt.Errorf("llama.cpp: backend %q: want a name such as cuda", name)
	}
	file := filepath.Join(l.dir, "libggml-"+name+".so")
	if _, err := os.Stat(file); err != nil {
		return nil, fmt.Errorf("llama.cpp: backend %s: %w", name, err)
	}
	l.log.clear()
	reg := l.fn.GGMLBackendLoad(file)
	if reg == nil {
		return nil, l.log.wrap(fmt.Errorf("llama.cpp: ggml refuses %s", file))
	}
	gpus := gpusOf(int(l.fn.GGMLBackendRegDevCount(reg)), func(i int) (int32, string) {
		dev := l.fn.GGMLBackendRegDevGet(reg, uint64(i))
		return l.fn.GGMLBackendDevType(dev), l.fn.GGMLBackendDevDesc(dev)
	})
	if len(gpus) == 0 {
		return nil, l.log.wrap(fmt.Errorf("llama.cpp: %s finds no GPU", file))
	}
	return gpus, nil
}

// The types of ggml's devices that compute in place of the CPU: a GPU with memory of
// its own, and one that shares the machine's.
const (
	deviceGPU  = 1
	deviceIGPU = 2
)

// gpusOf keeps the descriptions of the GPUs among n devices.
func gpusOf(n int, device func(i int) (typ int32, description string)) (gpus []string) {
	for i := range n {
		if typ, description := device(i); typ == deviceGPU || typ == deviceIGPU {
			gpus = append(gpus, description)
		}
	}
	return gpus
}

// Close frees the models and contexts that are still open. The libraries stay
// mapped.
func (l *Lib) Close() error {
	l.mu.Lock()
	models := l.models
	l.models, l.closed = nil, true
	l.mu.Unlock()
	for m := range models {
		m.Close()
	}
	return nil
}

// Glibc is the version of the C library in this process: the last bit of rope's
// sines and cosines is its business (docs/numerics.md section 10).
func (l *Lib) Glibc() string { return l.fn.GnuGetLibcVersion() }

// Version is libllama's version, from its file name where that has one.
func (l *Lib) Version() string { return l.version }

// Variant is the CPU variant in use.
func (l *Lib) Variant() string { return l.variant }

// Dir is the directory of the libraries, absolute.
func (l *Lib) Dir() string { return l.dir }

// Level is the arithmetic level of docs/numerics.md that the variant computes:
// "avx2" or "avx512", or "" for a variant that it does not describe.
func (l *Lib) Level() string {
	switch l.variant {
	case "haswell":
		return "avx2"
	case "zen4":
		return "avx512"
	}
	return ""
}

// logText keeps what the libraries say, so that it can go into an error, and how many
// layers went to a GPU; none of it is printed.
type logText struct {
	mu    sync.Mutex
	level int32
	lines []string // warnings and errors since the last wrap

	offloaded, layers int // of the last line that said so since the last clear
}

// offloadLine is what llama.cpp says of a model's layers, the output's among them, where
// there is a GPU.
var offloadLine = regexp.MustCompile(`offloaded (\d+)/(\d+) layers to GPU`)

const (
	logWarn     = 3
	logError    = 4
	logContinue = 5
	maxLogLines = 8
)

// add is called from C, on any thread.
func (t *logText) add(level int32, text unsafe.Pointer, _ uintptr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if level != logContinue {
		t.level = level
	}
	line := strings.TrimSpace(goString(text))
	if m := offloadLine.FindStringSubmatch(line); m != nil {
		t.offloaded, _ = strconv.Atoi(m[1])
		t.layers, _ = strconv.Atoi(m[2])
	}
	if t.level != logWarn && t.level != logError {
		return
	}
	if line != "" {
		t.lines = append(t.lines, line)
		if len(t.lines) > maxLogLines {
			t.lines = t.lines[1:]
		}
	}
}

// wrap adds the last lines of the log to an error, and forgets them.
func (t *logText) wrap(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.lines
	t.lines = nil
	if len(lines) == 0 {
		return err
	}
	return errors.New(err.Error() + ": " + strings.Join(lines, "; "))
}

// clear forgets the log before a call whose error should show its own lines.
func (t *logText) clear() {
	t.mu.Lock()
	t.lines, t.offloaded, t.layers = nil, 0, 0
	t.mu.Unlock()
}

// goString copies a C string.
func goString(p unsafe.Pointer) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}
