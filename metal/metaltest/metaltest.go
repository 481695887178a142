// Package metaltest runs a Metal kernel in a Go test, on the software Metal device
// under its sanitizer, and holds what it computes against a Go function. It needs no
// GPU and no macOS.
//
//	func TestScale(t *testing.T) {
//		x, y := []float32{1, 2, 3, 4, 5}, make([]float32, 5)
//		metaltest.Run(t, metaltest.Launch{
//			File:    "scale.metal",
//			Threads: metaltest.Size{X: 5}, ThreadsPerThreadgroup: metaltest.Size{X: 32},
//			Args: []metaltest.Arg{
//				metaltest.In(x),
//				metaltest.Out(y, func(want []float32) {
//					for i := range want {
//						want[i] = 2 * x[i]
//					}
//				}),
//				metaltest.Value(float32(2)),
//			},
//		})
//	}
//
// [Run] fails the test with the sanitizer's report where the kernel races, leaves a
// buffer, reads what nobody wrote, leaves out an element of an output, or stores a
// value that is not the reference's; [Check] gives the same as an error. Buffers are
// made from slices: [In] is read, [Out] written, [InOut] both; a slice in two
// arguments is one buffer. What the kernel wrote is in the slices afterwards.
//
// The package decides nothing about tolerances and knows no kernel. It is for tests:
// one launch at a time, no state between launches. Its functions may be called from
// several goroutines at once, on different slices.
package metaltest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/metal/mtl/soft/san"
)

// Size is an extent; a component of 0 is 1.
type Size = mtl.Size

// Launch is one launch of one kernel.
type Launch struct {
	// File is the .metal file: a path from the test's folder, or a name in FS where
	// that is set (an embed.FS, say). What it includes is found from its own folder.
	File string
	FS   fs.FS
	// Text is the source itself, instead of File.
	Text string
	// Kernel is the host name; it may be left out where the file has one kernel.
	Kernel string
	// Defines are macros, Constants function constants by name or index.
	Defines   map[string]string
	Constants map[string]any

	// The grid is a number of threadgroups, or of threads, with ragged edges.
	Threadgroups, Threads Size
	ThreadsPerThreadgroup Size
	// Args are in the order of [[buffer(i)]], with those of [[threadgroup(i)]], which
	// count on their own, anywhere between.
	Args []Arg

	// Tolerance is how far a value may be from the reference's: relative above 1,
	// absolute below. 0 asks for equal values.
	Tolerance float64
	// Mode is the sanitizer's: strict where it is empty, else off, mem, race or chaos.
	// docs/launch-cases.md has the table of what each finds.
	Mode string
	// Deadline bounds the run; 0 is 10 seconds.
	Deadline time.Duration
}

// Failure is a launch that did not hold.
type Failure struct {
	Kernel string
	// Report has the findings; wrong values are findings of kind mismatch, at the
	// store that wrote them.
	Report *san.Report
	// Others are faults without a finding, one line each: an input that was changed,
	// wrong values in mode off.
	Others []string
}

// Error is the report, as text with the source lines.
func (f *Failure) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "kernel %s:\n", f.Kernel)
	if f.Report.WriteText(&b, false) != nil {
		return "kernel " + f.Kernel // cannot happen: the writer takes everything
	}
	for _, line := range f.Others {
		b.WriteString(line + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

// Run runs a launch and fails the test, once, where it does not hold.
func Run(t testing.TB, l Launch) {
	t.Helper()
	if err := Check(l); err != nil {
		t.Errorf("%v", err)
	}
}

// Check runs a launch. The error is a *Failure where the kernel is at fault; a source
// that does not compile, a launch that Metal refuses (an *mtl.LaunchError), and a run
// that does not end are errors of their own.
func Check(l Launch) error {
	mode := san.Strict
	if l.Mode != "" {
		var err error
		if mode, err = san.ParseMode(l.Mode); err != nil {
			return fmt.Errorf("metaltest: %w", err)
		}
	}
	source, err := l.source()
	if err != nil {
		return fmt.Errorf("metaltest: %w", err)
	}
	r := &run{launch: &l, mode: mode, report: &san.Report{Mode: mode.String()}}
	device, err := soft.New(soft.Options{Mode: mode, Seed: 1, Report: func(_ string, found *san.Report) {
		for _, f := range found.Findings {
			r.report.Add(f)
		}
	}})
	if err != nil {
		return err
	}
	defer device.Close()
	lib, err := device.Compile(context.Background(), source)
	if err != nil {
		return err
	}
	defer lib.Release()
	kernel := l.Kernel
	if names := lib.Kernels(); kernel == "" {
		if len(names) != 1 {
			return fmt.Errorf("metaltest: %s has the kernels %s: want the name of one", source.Name, strings.Join(names, ", "))
		}
		kernel = names[0]
	}
	pipeline, err := lib.Pipeline(kernel, l.Constants)
	if err != nil {
		return err
	}
	defer pipeline.Release()
	defer r.release()
	if err := r.all(device, pipeline); err != nil {
		return err
	}
	if r.report.Errors() > 0 || len(r.others) > 0 {
		return &Failure{Kernel: kernel, Report: r.report, Others: r.others}
	}
	return nil
}

// source reads the text.
func (l *Launch) source() (mtl.Source, error) {
	s := mtl.Source{Name: "kernel.metal", Text: l.Text, FastMath: true, Defines: l.Defines}
	switch {
	case (l.File == "") == (l.Text == ""):
		return s, errors.New("want either File or Text")
	case l.File == "":
		s.Include = l.FS
		return s, nil
	case l.FS != nil:
		data, err := fs.ReadFile(l.FS, l.File)
		if err != nil {
			return s, err
		}
		folder, name := ".", l.File
		if i := strings.LastIndexByte(l.File, '/'); i >= 0 {
			folder, name = l.File[:i], l.File[i+1:]
		}
		s.Name, s.Text = name, string(data)
		s.Include, err = fs.Sub(l.FS, folder)
		return s, err
	}
	data, err := os.ReadFile(l.File)
	if err != nil {
		return s, err
	}
	s.Name, s.Text, s.Include = filepath.Base(l.File), string(data), os.DirFS(filepath.Dir(l.File))
	return s, nil
}

// run is a launch on a device.
type run struct {
	launch  *Launch
	mode    san.Mode
	report  *san.Report
	others  []string
	buffers []*buffer
}

// buffer is the memory of one slice, which may be several arguments.
type buffer struct {
	*array
	name   string
	mtl    mtl.Buffer
	in     bool // some argument has content
	out    bool // some argument is written
	before []byte
	want   []byte // the reference's, nil without one
}

func (r *run) release() {
	for _, b := range r.buffers {
		b.mtl.Release()
	}
}

// all makes the buffers, launches, and looks at what came out.
func (r *run) all(device *soft.Device, p mtl.Pipeline) error {
	d := mtl.Dispatch{Label: p.Kernel(), Pipeline: p, ThreadsPerThreadgroup: ones(r.launch.ThreadsPerThreadgroup)}
	if r.launch.Threadgroups != (Size{}) {
		d.Threadgroups = ones(r.launch.Threadgroups)
	}
	if r.launch.Threads != (Size{}) {
		d.Threads = ones(r.launch.Threads)
	}
	names := map[int]string{}
	for _, a := range p.Arguments() {
		if !a.Threadgroup {
			names[a.Index] = a.Name
		}
	}
	index := 0
	for i, a := range r.launch.Args {
		if a.err != nil {
			return fmt.Errorf("metaltest: argument %d: %w", i, a.err)
		}
		if a.threadgroup {
			d.ThreadgroupMemory = append(d.ThreadgroupMemory, a.bytes)
			continue
		}
		binding := mtl.Binding{Index: index, Bytes: a.value, Type: a.elem}
		if a.array != nil {
			b, err := r.buffer(device, a, names[index], index)
			if err != nil {
				return err
			}
			binding = mtl.Binding{Index: index, Buffer: b.mtl, Length: b.mtl.Size(), Access: a.access, Type: a.elem}
		}
		d.Bindings = append(d.Bindings, binding)
		index++
	}
	for _, b := range r.buffers {
		b.before = b.read()
		if b.in {
			if err := b.mtl.Write(0, b.before); err != nil {
				return err
			}
		}
		for _, a := range r.launch.Args {
			if a.array != nil && a.key == b.key && a.reference != nil {
				b.want = a.reference()
			}
		}
	}
	buffered, err := device.NewCommandBuffer(p.Kernel())
	if err != nil {
		return err
	}
	defer buffered.Discard()
	cb := buffered.(*soft.CommandBuffer)
	if err := cb.Dispatch(d); err != nil {
		return err
	}
	for _, b := range r.buffers {
		if err := r.expect(cb, b); err != nil {
			return err
		}
	}
	deadline := r.launch.Deadline
	if deadline == 0 {
		deadline = mtl.DefaultDeadline
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	_, err = cb.Submit(ctx)
	var findings *soft.FindingsError
	if err != nil && !errors.As(err, &findings) {
		return err
	}
	return r.readBack()
}

func ones(s Size) Size { return Size{X: max(s.X, 1), Y: max(s.Y, 1), Z: max(s.Z, 1)} }

// buffer is the memory of an argument: that of an earlier one with the same slice.
func (r *run) buffer(device *soft.Device, a Arg, name string, index int) (*buffer, error) {
	for _, b := range r.buffers {
		if b.key == a.key {
			if b.elem != a.elem || b.n != a.n {
				return nil, fmt.Errorf("metaltest: buffer %d: the slice of %d %v is also one of %d %v: want one length and type", index, a.n, a.elem, b.n, b.elem)
			}
			b.in, b.out = b.in || a.in, b.out || a.out
			return b, nil
		}
	}
	if name == "" {
		name = fmt.Sprintf("buffer %d", index)
	}
	m, err := device.NewBuffer(a.n*a.elem.Size(), name)
	if err != nil {
		return nil, err
	}
	b := &buffer{array: a.array, name: name, mtl: m, in: a.in, out: a.out}
	r.buffers = append(r.buffers, b)
	return b, nil
}

// expect has an output watched: every element written, none NaN but where the
// reference has one, each as near the reference as the tolerance says.
func (r *run) expect(cb *soft.CommandBuffer, b *buffer) error {
	if !b.out || b.in { // what came with content may keep some of it: see readBack
		return nil
	}
	if err := cb.Output(b.mtl, 0, b.mtl.Size(), b.elem); err != nil {
		return err
	}
	cb.Inspect(func(c *san.Checker, data func(mtl.Buffer) []byte) {
		watched := c.OutputBuffer(b.name)
		if watched == nil {
			return
		}
		got := data(b.mtl)
		size := b.elem.Size()
		var wrong, nans []int
		detail := ""
		for i := range b.n {
			g := b.value(got, i)
			if !c.Written(watched, i*size, size) {
				continue // a finding of its own
			}
			switch {
			case b.want == nil && g.nan():
				nans = append(nans, i)
			case b.want == nil || near(g, b.value(b.want, i), r.launch.Tolerance):
			case g.nan():
				nans = append(nans, i)
			default:
				if wrong == nil {
					detail = fmt.Sprintf("is %v, want %v within %v", g, b.value(b.want, i), r.launch.Tolerance)
				}
				wrong = append(wrong, i)
			}
		}
		if nans != nil {
			c.WrongElements(san.KindNaN, watched, size, nans, "is NaN")
		}
		if wrong != nil {
			c.WrongElements(san.KindMismatch, watched, size, wrong, detail)
		}
	})
	return nil
}

// readBack fills the slices of outputs, and judges what no finding can say.
func (r *run) readBack() error {
	for _, b := range r.buffers {
		if !b.in && !b.out {
			continue
		}
		after := make([]byte, b.mtl.Size())
		if err := b.mtl.Read(0, after); err != nil {
			return err
		}
		if !b.out {
			if i := r.first(b, b.before, after, 0); i >= 0 {
				r.others = append(r.others, fmt.Sprintf("input %q: element %d was %v and is now %v: want it unchanged", b.name, i, b.value(b.before, i), b.value(after, i)))
			}
			continue
		}
		b.write(after)
		if b.want == nil || r.mode != san.Off && !b.in {
			continue
		}
		if i := r.first(b, after, b.want, r.launch.Tolerance); i >= 0 {
			r.others = append(r.others, fmt.Sprintf("output %q: element %d is %v, want %v within %v", b.name, i, b.value(after, i), b.value(b.want, i), r.launch.Tolerance))
		}
	}
	return nil
}

// first is the first element in which two contents differ, -1 for none.
func (r *run) first(b *buffer, x, y []byte, tolerance float64) int {
	for i := range b.n {
		if !near(b.value(x, i), b.value(y, i), tolerance) {
			return i
		}
	}
	return -1
}

// bytesOf encodes a value of fixed size as the device has it.
func bytesOf(v any) ([]byte, error) {
	if _, ok := v.(int); ok {
		return nil, errors.New("an int has no fixed size: want int32 or another")
	}
	data, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		return nil, fmt.Errorf("%T: want numbers, bools, or structs and arrays of them: %w", v, err)
	}
	return data, nil
}
