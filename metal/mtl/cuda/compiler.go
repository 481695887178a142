package cuda

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"
)

// compilerNames are what the run-time compiler's library is called, newest first.
var compilerNames = []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}

// compileOptions keep the bits: no fusing, subnormals kept, divisions and roots
// correctly rounded. The emitter's intrinsics ask for the same; the options cover
// what the compiler folds. Up to 128 registers a thread leave 512 threads to every
// threadgroup.
var compileOptions = []string{"--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--maxrregcount=128", "--disable-warnings"}

// compilerFolders are where toolkits put the library without telling the loader.
var compilerFolders = []string{"", "/usr/local/cuda/lib64/", "/opt/cuda/lib64/"}

// Compiler is NVIDIA's run-time compiler. It needs no GPU. It is safe for concurrent
// use, and compiles as many kernels at a time as are asked for.
type Compiler struct {
	major int32
	minor int32
	fn    struct {
		version     func(major, minor *int32) int32
		create      func(prog *uintptr, src, name *byte, headers int32, texts, names unsafe.Pointer) int32
		compile     func(prog uintptr, n int32, options *unsafe.Pointer) int32
		logSize     func(prog uintptr, n *uintptr) int32
		log         func(prog uintptr, buf *byte) int32
		cubinSize   func(prog uintptr, n *uintptr) int32
		cubin       func(prog uintptr, buf *byte) int32
		destroy     func(prog *uintptr) int32
		errorString func(code int32) string
	}
}

// OpenCompiler opens the library at a path, or by its usual names where path is
// empty.
func OpenCompiler(path string) (*Compiler, error) {
	var names []string
	for _, folder := range compilerFolders {
		for _, n := range compilerNames {
			names = append(names, folder+n)
		}
	}
	if path != "" {
		names = []string{path}
	}
	if dir := filepath.Dir(path); dir != "." {
		// The compiler looks for its built-ins by name; one that is mapped is found.
		files, _ := filepath.Glob(filepath.Join(dir, "libnvrtc-builtins.so*"))
		for _, f := range files {
			_, _ = dlopen(f) // the compilation says so where it misses them
		}
	}
	var lib uintptr
	var err error
	for _, n := range names {
		var e error
		if lib, e = dlopen(n); e == nil {
			err = nil
			break
		}
		if err == nil {
			err = e // of the usual name
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cuda: run-time compiler: %w", err)
	}
	c := &Compiler{}
	for _, f := range []struct {
		name string
		ptr  any
	}{
		{"nvrtcVersion", &c.fn.version}, {"nvrtcCreateProgram", &c.fn.create}, {"nvrtcCompileProgram", &c.fn.compile},
		{"nvrtcGetProgramLogSize", &c.fn.logSize}, {"nvrtcGetProgramLog", &c.fn.log}, {"nvrtcGetCUBINSize", &c.fn.cubinSize},
		{"nvrtcGetCUBIN", &c.fn.cubin}, {"nvrtcDestroyProgram", &c.fn.destroy}, {"nvrtcGetErrorString", &c.fn.errorString},
	} {
		if err := bind(lib, f.name, f.ptr); err != nil {
			return nil, fmt.Errorf("cuda: run-time compiler: %w", err)
		}
	}
	if code := c.fn.version(&c.major, &c.minor); code != 0 {
		return nil, fmt.Errorf("cuda: run-time compiler: version: %s", c.fn.errorString(code))
	}
	return c, nil
}

// Version is the compiler's, as "13.0".
func (c *Compiler) Version() string { return fmt.Sprintf("%d.%d", c.major, c.minor) }

// cstring is a zero-terminated copy.
func cstring(s string) *byte {
	b := append([]byte(s), 0)
	return &b[0]
}

// Compile makes machine code for a compute capability such as 9.0. The error has
// the compiler's messages.
func (c *Compiler) Compile(s *Source, major, minor int) ([]byte, error) {
	fail := func(what string, code int32) error {
		return fmt.Errorf("cuda: kernel %s: %s: %s", s.Func.Name, what, c.fn.errorString(code))
	}
	var prog uintptr
	if code := c.fn.create(&prog, cstring(s.Text), cstring(s.Entry+".cu"), 0, nil, nil); code != 0 {
		return nil, fail("creating the program", code)
	}
	defer c.fn.destroy(&prog)
	var pin runtime.Pinner
	defer pin.Unpin()
	var options []unsafe.Pointer
	for _, o := range append([]string{fmt.Sprintf("--gpu-architecture=sm_%d%d", major, minor)}, compileOptions...) {
		p := cstring(o)
		pin.Pin(p)
		options = append(options, unsafe.Pointer(p))
	}
	if code := c.fn.compile(prog, int32(len(options)), &options[0]); code != 0 {
		return nil, fmt.Errorf("%w:\n%s", fail("compiling", code), c.messages(prog))
	}
	var n uintptr
	if code := c.fn.cubinSize(prog, &n); code != 0 || n == 0 {
		return nil, fail("size of the machine code", code)
	}
	cubin := make([]byte, n)
	if code := c.fn.cubin(prog, &cubin[0]); code != 0 {
		return nil, fail("machine code", code)
	}
	return cubin, nil
}

// messages gives the log of a compilation.
func (c *Compiler) messages(prog uintptr) string {
	var n uintptr
	if c.fn.logSize(prog, &n) != 0 || n == 0 {
		return "no messages"
	}
	b := make([]byte, n)
	if c.fn.log(prog, &b[0]) != 0 {
		return "no messages"
	}
	return strings.TrimRight(string(b), "\x00\n")
}
