package apple

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/metal/kernels"
	"minfer/metal/msl/pp"
	"minfer/metal/mtl"
	"minfer/metal/mtl/mtltest"
	"minfer/metal/signatures"
)

func oneFile(text string) fs.FS { return fstest.MapFS{"program_source": {Data: []byte(text)}} }

// halfValue reads a normal or zero half.
func halfValue(bits uint16) float64 {
	if bits&0x7fff == 0 {
		return 0
	}
	return math.Ldexp(float64(bits&0x3ff|0x400), int(bits>>10&31)-25) * (1 - 2*float64(bits>>15))
}

// opened opens a device on a stand-in that has to be without fault in the end.
func opened(t testing.TB, o Options, change ...func(*standin)) (*Device, *standin) {
	s := newStandin()
	for _, c := range change {
		c(s)
	}
	o.Arguments = signatures.Of
	d, err := open(o, s)
	require.NoError(t, err)
	t.Cleanup(func() {
		d.Close()
		require.Empty(t, s.faults)
		require.NoError(t, s.soft.Close())
	})
	return d, s
}

// safeChecks are the conformance checks but those of a kernel that never ends: a
// GPU that hangs can freeze a Mac.
func safeChecks() []mtltest.Check {
	hangs := map[string]bool{}
	for _, c := range mtltest.Failures() {
		hangs[c.Name] = c.Name != "failures/cancelled before it runs" && c.Name != "failures/a deadline that is not reached"
	}
	var checks []mtltest.Check
	for _, c := range mtltest.All() {
		if !hangs[c.Name] {
			checks = append(checks, c)
		}
	}
	return checks
}

// TestStandin holds the device against the conformance suite, with the stand-in in
// the place of macOS.
func TestStandin(t *testing.T) {
	mtltest.Run(t, func(t testing.TB) mtl.Device {
		d, _ := opened(t, Options{})
		return d
	}, safeChecks()...)
}

// TestConformance is the same on a Mac's GPU.
func TestConformance(t *testing.T) {
	probe, err := Open(Options{})
	if errors.Is(err, ErrAbsent) {
		t.Skip("NOT RUN: the conformance suite on an Apple GPU: " + err.Error())
	}
	require.NoError(t, err)
	t.Logf("on %s", probe.Name())
	require.NoError(t, probe.Close())
	mtltest.Run(t, func(t testing.TB) mtl.Device {
		d, err := Open(Options{Arguments: signatures.Of})
		require.NoError(t, err)
		return d
	}, safeChecks()...)
}

// Four checks, no more, are kept from a GPU.
func TestSafeChecks(t *testing.T) {
	require.Len(t, safeChecks(), len(mtltest.All())-4)
}

// What a Mac's user is asked to run has no case that hangs a GPU on purpose: of this
// package the conformance suite alone, and no suite of faults.
func TestVerifyMac(t *testing.T) {
	data, err := os.ReadFile("../../../Makefile")
	require.NoError(t, err)
	_, recipe, found := strings.Cut(string(data), "\nverify-mac:")
	require.True(t, found)
	recipe, _, _ = strings.Cut(recipe, "\n\n")
	require.Contains(t, recipe, "go test -count=1 -v -run '^TestConformance$$' ./metal/mtl/apple ")
	require.Equal(t, 1, strings.Count(recipe, "go test"))
	require.Equal(t, 2, strings.Count(recipe, "bin/mverify"))
	require.Contains(t, recipe, "bin/mverify --version")
	require.Contains(t, recipe, "bin/mverify --suite kernels,ops,matmul,attention,kv,fusion,greedy --device apple ")
	require.Equal(t, 1, strings.Count(recipe, "bin/mbench"))
	require.Contains(t, recipe, "bin/mbench --sweep ")
}

const affine = `#include <metal_stdlib>
using namespace metal;
constant uint by [[function_constant(3)]];
kernel void step(device uint *x [[buffer(0)]], threadgroup uint *stage [[threadgroup(0)]], uint i [[thread_position_in_grid]]) {
    stage[0] = 0; x[i] = x[i] * 3 + by;
}
`

// Every object is released, once, whatever a command buffer ends with.
func TestEveryObjectReleased(t *testing.T) {
	for _, capture := range []string{"", filepath.Join(t.TempDir(), "all.gputrace")} {
		s := newStandin()
		d, err := open(Options{Arguments: signatures.Of, Capture: capture}, s)
		require.NoError(t, err)
		lib, err := d.Compile(t.Context(), mtl.Source{Name: "affine.metal", Text: affine})
		require.NoError(t, err)
		p, err := lib.Pipeline("step", map[string]any{"by": 5})
		require.NoError(t, err)
		_, err = lib.Pipeline("step", nil)
		require.EqualError(t, err, `metal: pipeline of kernel "step": function constant by (3) has no value: want uint32`)
		x, err := d.NewBuffer(16, "x")
		require.NoError(t, err)
		y, err := d.NewBuffer(16, "y")
		require.NoError(t, err)
		require.NoError(t, x.Write(0, make([]byte, 16)))
		launch := mtl.Dispatch{Label: "step", Pipeline: p, Bindings: []mtl.Binding{{Buffer: x, Length: 16, Access: mtl.ReadWrite}}, ThreadgroupMemory: []int{16},
			Threads: mtl.Size{X: 4, Y: 1, Z: 1}, ThreadsPerThreadgroup: mtl.Size{X: 1, Y: 1, Z: 1}}
		before := s.live()
		for _, end := range []string{"submit", "discard", "cancel"} {
			cb, err := d.NewCommandBuffer(end)
			require.NoError(t, err)
			require.NoError(t, cb.Dispatch(launch))
			cb.Barrier()
			require.NoError(t, cb.Copy(y, 0, x, 0, 16))
			switch end {
			case "submit":
				timing, err := cb.Submit(t.Context())
				require.NoError(t, err)
				require.Equal(t, 250*time.Millisecond, timing.GPU)
			case "discard":
				cb.Discard()
			case "cancel":
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				_, err := cb.Submit(ctx)
				require.ErrorIs(t, err, context.Canceled)
			}
			require.Equal(t, before, s.live(), end)
		}
		got := make([]byte, 16)
		require.NoError(t, y.Read(0, got))
		require.Equal(t, byte(5), got[12])
		for _, o := range []interface{ Release() }{x, y, p, lib} {
			o.Release()
			o.Release()
		}
		require.NoError(t, d.Close())
		require.NoError(t, d.Close())
		require.Empty(t, s.live())
		require.Empty(t, s.faults)
		if capture == "" {
			require.Empty(t, s.captured)
			require.Zero(t, s.sends["pushDebugGroup:"])
		} else {
			require.Equal(t, []string{"start " + capture, "stop"}, s.captured)
			require.Positive(t, s.sends["pushDebugGroup:"])
			require.Equal(t, s.sends["pushDebugGroup:"], s.sends["popDebugGroup"])
		}
	}
}

// The stand-in sees what a device does wrong.
func TestStandinSees(t *testing.T) {
	d, s := opened(t, Options{})
	seen := func(want string) {
		t.Helper()
		require.Len(t, s.faults, 1)
		require.Contains(t, s.faults[0], want)
		s.faults = nil
	}
	d.msg.deviceName.send(d.dev)
	seen("mtlDevice name with no pool around")
	d.pooled(func() { d.msg.deviceName.send(mtlDevice(d.queue)) })
	seen("a mtlCommandQueue where mtlDevice is wanted")
	var b, c mtlBuffer
	d.pooled(func() {
		b = d.msg.deviceNewBuffer.send(d.dev, 64, mtlResourceStorageModeShared)
		c = d.msg.deviceNewBuffer.send(d.dev, 64, mtlResourceStorageModeShared)
	})
	s.release(uintptr(c))
	seen("a release of mtlBuffer with no pool around")
	d.release(uintptr(b))
	d.pooled(func() { s.drop(uintptr(b)) })
	seen("is gone")
	var enc mtlComputeCommandEncoder
	d.pooled(func() {
		enc = d.msg.commandsEncoder.send(d.msg.queueCommandBuffer.send(d.queue), mtlDispatchTypeConcurrent)
	})
	seen("an encoder goes that was not ended")
	sel := d.msg.encodeEnd.sel
	d.msg.encodeEnd.sel = d.msg.commandsCommit.sel
	d.pooled(func() {
		enc = d.msg.commandsEncoder.send(d.msg.queueCommandBuffer.send(d.queue), mtlDispatchTypeConcurrent)
		d.msg.encodeEnd.send(enc)
	})
	seen("is sent as selector")
	d.msg.encodeEnd.sel = sel
	d.pooled(func() {
		commands := d.msg.queueCommandBuffer.send(d.queue)
		d.msg.encodeEnd.send(d.msg.commandsEncoder.send(commands, mtlDispatchTypeConcurrent))
		ended := make(chan struct{})
		handler := s.handler(func() { close(ended) })
		d.msg.commandsOnEnd.send(commands, handler)
		d.msg.commandsCommit.send(commands)
		<-ended
		d.msg.commandsOnEnd.send(commands, handler)
		s.release(uintptr(handler))
	})
	seen("a handler for what was committed")
}

// A barrier that is missing between two launches is a race that the stand-in's
// software device reports, as an error of the submit.
func TestFailedSubmit(t *testing.T) {
	d, _ := opened(t, Options{})
	lib, err := d.Compile(t.Context(), mtl.Source{Name: "affine.metal", Text: affine})
	require.NoError(t, err)
	p, err := lib.Pipeline("step", map[string]any{"3": 5})
	require.NoError(t, err)
	x, err := d.NewBuffer(16, "x")
	require.NoError(t, err)
	require.NoError(t, x.Write(0, make([]byte, 16)))
	cb, err := d.NewCommandBuffer("two at once")
	require.NoError(t, err)
	for _, label := range []string{"first", "second"} {
		require.NoError(t, cb.Dispatch(mtl.Dispatch{Label: label, Pipeline: p, Bindings: []mtl.Binding{{Buffer: x, Length: 16, Access: mtl.ReadWrite}}, ThreadgroupMemory: []int{16},
			Threads: mtl.Size{X: 4, Y: 1, Z: 1}, ThreadsPerThreadgroup: mtl.Size{X: 1, Y: 1, Z: 1}}))
	}
	_, err = cb.Submit(t.Context())
	var failed *mtl.SubmitError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "two at once", failed.Label)
	require.Equal(t, []string{"first", "second"}, failed.Last)
	require.Contains(t, failed.Status, "race")
	require.Contains(t, failed.Status, "(code 7)")
	require.NoError(t, x.Read(0, make([]byte, 16)), "the work ended")
}

// A submit comes back at its deadline; the work's buffers stay pending until it
// ends.
func TestDeadline(t *testing.T) {
	s := newStandin()
	s.unended = make(chan struct{})
	d, err := open(Options{}, s)
	require.NoError(t, err)
	x, err := d.NewBuffer(16, "x")
	require.NoError(t, err)
	y, err := d.NewBuffer(16, "y")
	require.NoError(t, err)
	cb, err := d.NewCommandBuffer("hangs")
	require.NoError(t, err)
	require.NoError(t, x.Write(0, make([]byte, 16)))
	require.NoError(t, cb.Copy(y, 0, x, 0, 16))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = cb.Submit(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, `metal: submit of "hangs" failed: no end after `)
	require.ErrorContains(t, err, `it may still run; last dispatches: copy "x" to "y"`)
	require.ErrorContains(t, x.Read(0, make([]byte, 4)), "pending")
	x.Release()
	require.NoError(t, d.Close())
	require.Equal(t, 2, s.live()["mtlBuffer"], "the work keeps its memory")
	close(s.unended)
	require.Eventually(t, func() bool { return s.live()["mtlCommandBuffer"] == 0 && s.live()["mtlBuffer"] == 1 }, 10*time.Second, time.Millisecond)
	y.Release()
	require.Empty(t, s.live())
	require.Empty(t, s.faults)
}

// Work that ends with its deadline has ended: it never counts as missed.
func TestEndAtDeadline(t *testing.T) {
	d, s := opened(t, Options{})
	x, err := d.NewBuffer(16, "x")
	require.NoError(t, err)
	y, err := d.NewBuffer(16, "y")
	require.NoError(t, err)
	require.NoError(t, x.Write(0, make([]byte, 16)))
	for range 40 {
		ctx, cancel := context.WithCancel(t.Context())
		s.committed = cancel
		cb, err := d.NewCommandBuffer("just in time")
		require.NoError(t, err)
		require.NoError(t, cb.Copy(y, 0, x, 0, 16))
		timing, err := cb.Submit(ctx)
		require.NoError(t, err)
		require.Equal(t, 250*time.Millisecond, timing.GPU)
	}
}

// Foundation makes no string of bytes that are no UTF-8, and Metal takes none in
// its place.
func TestNoUTF8(t *testing.T) {
	d, _ := opened(t, Options{})
	b, err := d.NewBuffer(16, "x\xff")
	require.NoError(t, err)
	require.Equal(t, "x\xff", b.Label())
	_, err = d.Compile(t.Context(), mtl.Source{Name: "a.metal", Text: "// \xff\nkernel void one(device uint *x [[buffer(0)]]) { x[0] = 1; }\n"})
	require.NoError(t, err)
}

// What macOS may refuse is an error that says what, and leaves nothing behind.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		o      Options
		change func(*standin)
		want   string
	}{
		{"no device", Options{}, func(s *standin) { s.noDevice = true }, "no Apple GPU here: Metal has no default device"},
		{"no queue", Options{}, func(s *standin) { s.noQueue = true }, "metal: Stand-in M0 gives no command queue"},
		{"no capture", Options{Capture: "a.gputrace"}, func(s *standin) { s.noCapture = true }, "metal: capture to a.gputrace: macOS allows no GPU traces to this program: want METAL_CAPTURE_ENABLED=1 and MTL_CAPTURE_ENABLED=1"},
		{"capture refused", Options{Capture: "refused.gputrace"}, nil, "metal: capture to refused.gputrace: cannot capture (code 7)"},
		{"capture to another kind of file", Options{Capture: "trace.bin"}, nil, `metal: capture to "trace.bin": want a name that ends with .gputrace, without a NUL`},
		{"capture over a file", Options{Capture: "apple_test.go"}, nil, "metal: capture to apple_test.go: it exists: want a new file"},
	} {
		s := newStandin()
		if c.change != nil {
			c.change(s)
		}
		_, err := open(c.o, s)
		require.EqualError(t, err, c.want, c.name)
		require.Empty(t, s.live(), c.name)
		require.Empty(t, s.faults, c.name)
	}
	d, _ := opened(t, Options{}, func(s *standin) { s.noMemory = true })
	_, err := d.NewBuffer(64, "x")
	require.EqualError(t, err, `metal: new buffer "x": Stand-in M0 has no memory for 64 bytes`)
}

// With a metallib, a source stands for the kernels that it defines.
func TestMetallib(t *testing.T) {
	path := filepath.Join(t.TempDir(), "all.metallib")
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	one, two := "kernel void one(device uint *x [[buffer(0)]]) { x[0] = 1; }\n", "kernel void two(device uint *x [[buffer(0)]]) { x[0] = 2; }\n"
	metallibs[path] = one + two
	d, s := opened(t, Options{Metallib: path})
	for name, text := range map[string]string{"one": one, "two": two} {
		lib, err := d.Compile(t.Context(), mtl.Source{Name: name + ".metal", Text: text})
		require.NoError(t, err)
		require.Equal(t, []string{name}, lib.Kernels())
		p, err := lib.Pipeline(name, nil)
		require.NoError(t, err)
		require.Len(t, p.Arguments(), 1)
		lib.Release()
		p.Release()
	}
	require.Equal(t, 1, s.sends["newLibraryWithURL:error:"])
	require.Equal(t, 1, s.sends["newLibraryWithSource:options:error:"], "the device's own kernel alone")
	_, err := d.Compile(t.Context(), mtl.Source{Name: "three.metal", Text: "kernel void three(device uint *x [[buffer(0)]]) {}\n"})
	require.EqualError(t, err, "metal: "+path+" has no kernel three of three.metal")
	require.Equal(t, 2, s.live()["mtlLibrary"]+s.live()["mtlComputePipelineState"], "the metallib, and the device's own pipeline")
	d, _ = opened(t, Options{Metallib: path + "x"})
	_, err = d.Compile(t.Context(), mtl.Source{Name: "one.metal", Text: one})
	require.ErrorContains(t, err, "metal: metallib: stat "+path+"x: ")
}

// Without the front end there is still what Metal knows of arguments.
func TestReflectionAlone(t *testing.T) {
	s := newStandin()
	d, err := open(Options{}, s)
	require.NoError(t, err)
	lib, err := d.Compile(t.Context(), mtl.Source{Name: "affine.metal", Text: affine})
	require.NoError(t, err)
	p, err := lib.Pipeline("step", map[string]any{"by": 1})
	require.NoError(t, err)
	require.Equal(t, []mtl.Argument{
		{Name: "x", Index: 0, Elem: "uint32", ElemSize: 4, Scalar: mtl.Uint32},
		{Name: "stage", Threadgroup: true, Index: 0, Elem: "any", ElemSize: 4},
	}, p.Arguments())
}

// The flattened text of each kernel file has the tokens of the file.
func TestFlattenOwnKernels(t *testing.T) {
	files, err := fs.Glob(kernels.FS, "*.metal")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := fs.ReadFile(kernels.FS, file)
		require.NoError(t, err)
		flat, err := flatten(mtl.Source{Name: file, Text: string(text), Include: kernels.FS})
		require.NoError(t, err)
		require.NotContains(t, flat, `#include "`)
		want, _, diags := pp.Process(kernels.FS, file, pp.Options{})
		require.Empty(t, diags)
		got, _, diags := pp.Process(oneFile(flat), "program_source", pp.Options{})
		for _, d := range diags {
			require.Contains(t, d.Msg, "#line is ignored")
		}
		require.Len(t, got, len(want), file)
		for i := range want {
			require.Equal(t, want[i].Text, got[i].Text, "%s, token %d", file, i)
		}
	}
}

func TestFlatten(t *testing.T) {
	files := fstest.MapFS{
		"part/a.h":   {Data: []byte("#pragma once\n#include \"b.h\"\nint a;")},
		"part/b.h":   {Data: []byte("#ifndef B\n#define B\nint b;\n#endif\n")},
		"top.h":      {Data: []byte("int top;\n")},
		"part/own.h": {Data: []byte("#include \"own.h\"\n")},
	}
	got, err := flatten(mtl.Source{Name: "main.metal", Include: files, Defines: map[string]string{"Y": "2", "X": ""},
		Text: "#include <metal_stdlib>\n  #  include \"part/a.h\" // first\n/* #include \"none.h\"\n#include \"none.h\" */\n#include \"part/a.h\"\n#include \"top.h\"\nint end;\n// \"\n#define S \"/*\"\n#include \"top.h\"\n"})
	require.NoError(t, err)
	require.Equal(t, strings.Join([]string{
		"#define X ", "#define Y 2", `#line 1 "main.metal"`, "#include <metal_stdlib>",
		`#line 1 "part/a.h"`, "", `#line 1 "part/b.h"`, "#ifndef B", "#define B", "int b;", "#endif", "", `#line 3 "part/a.h"`, "int a;",
		`#line 3 "main.metal"`, "/* #include \"none.h\"", "#include \"none.h\" */", "",
		`#line 6 "main.metal"`, `#line 1 "top.h"`, "int top;", "", `#line 7 "main.metal"`, "int end;", `// "`, `#define S "/*"`,
		`#line 1 "top.h"`, "int top;", "", `#line 11 "main.metal"`, "",
	}, "\n"), got)
	for text, want := range map[string]string{
		"\n#include \"none.h\"\n":   `main.metal:2: #include "none.h": no such file`,
		"#include \"top.h\n":        `main.metal:1: #include "top.h: want a name between quotes`,
		"#include \"part/own.h\"\n": "part/own.h: included at depth 64: want at most 64",
		"#include \"../../etc\"\n":  `main.metal:1: #include "../../etc": no such file`,
		"int a\x00;\n":              "a NUL in the text",
	} {
		_, err := flatten(mtl.Source{Name: "main.metal", Include: files, Text: text})
		require.EqualError(t, err, want)
	}
	_, err = flatten(mtl.Source{Name: "main.metal", Text: "#include \"a.h\"\n"})
	require.EqualError(t, err, `main.metal:1: #include "a.h": the source has no files to include`)
}
