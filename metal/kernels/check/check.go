// Package check holds kernels against a second, independent front end: clang
// compiles them as C++ for OpenCL behind a shim of our own for metal_stdlib,
// syntax and types only. What both clang and metal/msl accept is less likely to
// surprise Apple's compiler, which no machine without macOS has.
//
// Order of use: [Find] a clang, [New] writes the shim to a temporary folder,
// [Checker.File] and [Checker.Source] compile; Close removes the folder. A Checker
// may be used from several goroutines.
//
// The shim maps device, threadgroup and thread to OpenCL's address spaces, which
// clang keeps apart itself: without the generic address space a pointer that names
// none is private. Vectors are OpenCL's. Not seen: attributes (unknown to clang and
// ignored), templates of kernels (refused), bool vectors, textures, and whatever
// happens at run time. OpenCL is stricter than MSL in some places that are no fault
// of a kernel; the kernels keep clear of them: structs are passed by reference and
// never returned, a block of device memory is read through a reference, and vectors
// change their element type by construction (half4(v)) instead of by a cast.
package check

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed include
var include embed.FS

// names are what clang is called; the oldest that is known to work is 14.
var names = []string{"clang", "clang-14", "clang-15", "clang-16", "clang-17", "clang-18", "clang-19", "clang-20", "clang-21"}

// flags turn on what the kernels use of C++ for OpenCL and nothing that would
// accept what MSL refuses. Literals without a suffix are float, as in MSL.
var flags = []string{
	"-x", "cl", "-cl-std=clc++2021", "-target", "spir64-unknown-unknown", "-fsyntax-only", "-cl-no-stdinc", "-nostdinc",
	"-cl-single-precision-constant",
	"-Xclang", "-cl-ext=-__opencl_c_generic_address_space,-__opencl_c_pipes,-__opencl_c_device_enqueue,+cl_khr_fp16,+__cl_clang_non_portable_kernel_param_types",
	"-Werror", "-Wno-unknown-attributes", "-fno-caret-diagnostics", "-fno-color-diagnostics",
}

// Find gives the path of the clang called name, or of any that is installed for
// "". The error names the package to install.
func Find(name string) (string, error) {
	try := names
	if name != "" {
		try = []string{name}
	}
	for _, n := range try {
		if path, err := exec.LookPath(n); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no %s in PATH: install the package clang (version 14 or later)", try[0])
}

// Checker compiles kernels with one clang.
type Checker struct {
	clang, dir string
}

// New makes a Checker that runs the compiler at the path clang.
func New(clang string) (*Checker, error) {
	dir, err := os.MkdirTemp("", "minfer-check-msl-")
	if err != nil {
		return nil, err
	}
	files, err := fs.Sub(include, "include")
	if err == nil {
		err = os.CopyFS(dir, files)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Checker{clang, dir}, nil
}

// Close removes the shim.
func (c *Checker) Close() error { return os.RemoveAll(c.dir) }

// Version is the compiler's first line about itself.
func (c *Checker) Version(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, c.clang, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", c.clang, err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line, nil
}

// File compiles a file; it includes what lies beside it. The error holds clang's
// diagnostics.
func (c *Checker) File(ctx context.Context, path string) error {
	return c.run(ctx, nil, path, "-I", filepath.Dir(path))
}

// Source compiles text, which may include files of the folders.
func (c *Checker) Source(ctx context.Context, text string, folders ...string) error {
	args := []string{"-"}
	for _, dir := range folders {
		args = append(args, "-I", dir)
	}
	return c.run(ctx, []byte(text), args...)
}

func (c *Checker) run(ctx context.Context, stdin []byte, args ...string) error {
	cmd := exec.CommandContext(ctx, c.clang, append(append([]string{"-I", c.dir}, flags...), args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if text := strings.TrimSpace(string(out)); text != "" {
		return errors.New(text)
	}
	return fmt.Errorf("%s: %w", c.clang, err)
}
