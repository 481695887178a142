package safety

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl"
	"minfer/metal/mtl/soft/san"
)

// Opener makes a device that watches in a mode and hands out what it found at
// the end of each submit.
type Opener func(mode san.Mode, report func(*san.Report)) (mtl.Device, error)

// A device with a sanitizer has these beyond [mtl.CommandBuffer]. On one without
// them a case finds only what values show.
type (
	outputter interface {
		Output(b mtl.Buffer, off, n int, elem mtl.Type) error
	}
	inspector interface {
		Inspect(f func(c *san.Checker, data func(mtl.Buffer) []byte))
	}
)

// Runner runs cases on a device.
type Runner struct {
	Open Opener
	// Mode overrides the cases' own, where not nil.
	Mode *san.Mode
	// Deadline bounds each case; 0 is mtl.DefaultDeadline.
	Deadline time.Duration
	// FS is where the sources' #include "..." finds files; nil for none.
	FS fs.FS
}

// Run launches a case and returns what was found. An error means that the case
// could not be run at all: a kernel that the source does not have, or a device
// that failed.
func (r *Runner) Run(ctx context.Context, c *Case) (*san.Report, error) {
	mode := c.Mode
	if r.Mode != nil {
		mode = *r.Mode
	}
	report := &san.Report{Mode: mode.String()}
	device, err := r.Open(mode, func(found *san.Report) {
		for _, f := range found.Findings {
			report.Add(f)
		}
	})
	if err != nil {
		return nil, err
	}
	defer device.Close()

	source := mtl.Source{Name: path.Base(c.Source), Text: c.Text, FastMath: true}
	if r.FS != nil {
		if source.Include, err = fs.Sub(r.FS, path.Dir(c.Source)); err != nil {
			return nil, err
		}
	}
	lib, err := device.Compile(ctx, source)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		report.Add(compileFinding(c, err))
		return report, nil
	}
	defer lib.Release()

	l := &launcher{c: c, device: device, lib: lib, report: report}
	defer l.release()
	if err := l.buffersUp(); err != nil {
		return nil, err
	}
	cb, err := device.NewCommandBuffer(c.Path)
	if err != nil {
		return nil, err
	}
	defer cb.Discard()
	for i := range c.Dispatches {
		refused, err := l.dispatch(cb, i)
		if err != nil {
			return nil, err
		}
		if refused != nil {
			report.Add(refused)
			return report, nil
		}
	}
	if err := l.expectOutputs(cb); err != nil {
		return nil, err
	}
	deadline := r.Deadline
	if deadline == 0 {
		deadline = mtl.DefaultDeadline
	}
	submit, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	_, err = cb.Submit(submit)
	// The findings are in the report; any other failure is no verdict.
	var findings interface{ Findings() *san.Report }
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil, errors.As(err, &findings):
	case errors.Is(err, context.DeadlineExceeded):
		report.Add(timeoutFinding(c, deadline, err))
	default:
		return nil, err
	}
	if _, watched := cb.(inspector); (!watched || mode == san.Off) && err == nil {
		if err := l.readBack(); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// launcher holds what one case makes on a device.
type launcher struct {
	c         *Case
	device    mtl.Device
	lib       mtl.Library
	report    *san.Report
	buffers   []mtl.Buffer
	pipelines []mtl.Pipeline
}

func (l *launcher) release() {
	for _, p := range l.pipelines {
		p.Release()
	}
	for _, b := range l.buffers {
		b.Release()
	}
}

// buffersUp makes and fills the buffers. Poison is what nobody wrote.
func (l *launcher) buffersUp() error {
	for i := range l.c.Buffers {
		b := &l.c.Buffers[i]
		buf, err := l.device.NewBuffer(b.Count*b.Type.Size(), b.Name)
		if err != nil {
			return err
		}
		l.buffers = append(l.buffers, buf)
		if data := b.data(); data != nil {
			if err := buf.Write(0, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// dispatch records one launch. A launch that Metal would refuse is a finding.
func (l *launcher) dispatch(cb mtl.CommandBuffer, i int) (*san.Finding, error) {
	d := &l.c.Dispatches[i]
	if !has(l.lib.Kernels(), d.Kernel) {
		return nil, fmt.Errorf("%s: dispatches[%d].kernel: found %q, want one of %s", l.c.Path, i, d.Kernel, strings.Join(l.lib.Kernels(), ", "))
	}
	p, err := l.lib.Pipeline(d.Kernel, l.constants(d.Constants))
	if err != nil {
		f := launchFinding(san.KindInvalidLaunch, d.Kernel, "", err.Error(), i)
		return f, nil
	}
	l.pipelines = append(l.pipelines, p)
	launch := mtl.Dispatch{Label: fmt.Sprintf("%d: %s", i, d.Kernel), Pipeline: p, ThreadsPerThreadgroup: d.ThreadsPerThreadgroup}
	if d.Threadgroups != nil {
		launch.Threadgroups = *d.Threadgroups
	} else {
		launch.Threads = *d.ThreadsPerGrid
	}
	index := 0
	for _, a := range d.Args {
		switch {
		case a.ThreadgroupBytes >= 0:
			launch.ThreadgroupMemory = append(launch.ThreadgroupMemory, a.ThreadgroupBytes)
			continue
		case a.Buffer >= 0:
			b := &l.c.Buffers[a.Buffer]
			launch.Bindings = append(launch.Bindings, mtl.Binding{
				Index: index, Buffer: l.buffers[a.Buffer], Offset: a.Offset,
				Length: b.LogicalCount*b.Type.Size() - a.Offset, Access: mtl.ReadWrite, Type: b.Type,
			})
		default:
			launch.Bindings = append(launch.Bindings, mtl.Binding{Index: index, Bytes: a.Bytes, Type: a.Type})
		}
		index++
	}
	if err := cb.Dispatch(launch); err != nil {
		var refused *mtl.LaunchError
		if !errors.As(err, &refused) {
			return nil, err
		}
		return launchFinding(string(refused.Kind), d.Kernel, refused.Argument, refused.Reason, i), nil
	}
	if d.BarrierAfter || l.c.Serial {
		cb.Barrier()
	}
	return nil, nil
}

// constants gives whole numbers to float constants as floats: JSON has one kind
// of number.
func (l *launcher) constants(values map[string]any) map[string]any {
	if len(values) == 0 {
		return nil
	}
	out := map[string]any{}
	for key, v := range values {
		for _, k := range l.lib.Constants() {
			if k.Type.Float() && (k.Name == key || strconv.Itoa(k.Index) == key) {
				v = toFloat(v)
			}
		}
		out[key] = v
	}
	return out
}

func toFloat(v any) any {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case uint64:
		return float64(v)
	case []any:
		all := make([]any, len(v))
		for i, e := range v {
			all[i] = toFloat(e)
		}
		return all
	}
	return v
}

// expectOutputs asks for outputs to be written and values to be right.
func (l *launcher) expectOutputs(cb mtl.CommandBuffer) error {
	at := 0
	for i := range l.c.Buffers {
		b := &l.c.Buffers[i]
		if !b.Output {
			continue
		}
		if o, ok := cb.(outputter); ok {
			if err := o.Output(l.buffers[i], 0, b.LogicalCount*b.Type.Size(), b.Type); err != nil {
				return err
			}
		}
		var want []float64
		if l.c.References != nil {
			want = l.c.References[at : at+b.LogicalCount]
			at += b.LogicalCount
		}
		buf := l.buffers[i]
		if in, ok := cb.(inspector); ok {
			in.Inspect(func(c *san.Checker, data func(mtl.Buffer) []byte) { l.inspect(c, b, buf, data(buf), want) })
		}
	}
	return nil
}

var scalars = map[mtl.Type]ir.Type{mtl.Float16: ir.F16, mtl.BFloat16: ir.BF16, mtl.Float32: ir.F32}

func (l *launcher) inspect(c *san.Checker, b *Buffer, buf mtl.Buffer, data []byte, want []float64) {
	watched := c.OutputBuffer(b.Name)
	if watched == nil {
		return
	}
	if t, ok := scalars[b.Type]; ok {
		c.CheckNaN(watched, data, t)
	}
	wrong, detail := l.wrong(b, data, want, func(i int) bool { return c.Written(watched, i*b.Type.Size(), b.Type.Size()) })
	if len(wrong) > 0 {
		c.WrongElements(san.KindMismatch, watched, b.Type.Size(), wrong, detail)
	}
}

// wrong lists the elements whose value is not the reference's, leaving out what
// has a finding of its own: elements that nobody wrote, and NaN.
func (l *launcher) wrong(b *Buffer, data []byte, want []float64, written func(i int) bool) (wrong []int, detail string) {
	for i, w := range want {
		got := value(b.Type, data, i)
		if near(got, w, l.c.Tolerance) || got != got || !written(i) {
			continue
		}
		if wrong == nil {
			detail = fmt.Sprintf("is %v, want %v within %v", got, w, l.c.Tolerance)
		}
		wrong = append(wrong, i)
	}
	return wrong, detail
}

// readBack compares the values on a device without a sanitizer.
func (l *launcher) readBack() error {
	at := 0
	for i := range l.c.Buffers {
		b := &l.c.Buffers[i]
		if !b.Output || l.c.References == nil {
			continue
		}
		data := make([]byte, b.LogicalCount*b.Type.Size())
		if err := l.buffers[i].Read(0, data); err != nil {
			return err
		}
		want := l.c.References[at : at+b.LogicalCount]
		at += b.LogicalCount
		for e, w := range want {
			if got := value(b.Type, data, e); !near(got, w, l.c.Tolerance) {
				l.report.Add(&san.Finding{
					Kind: san.KindMismatch, Severity: san.Error, Buffer: b.Name, Space: "device", Access: "write", ElementSize: b.Type.Size(),
					BufferOffset: int64(e * b.Type.Size()), Bytes: &[2]int64{int64(e * b.Type.Size()), int64((e + 1) * b.Type.Size())},
					Message: fmt.Sprintf("output %q: element %d is %v, want %v within %v", b.Name, e, got, w, l.c.Tolerance),
				})
			}
		}
	}
	return nil
}

func launchFinding(kind, kernel, argument, reason string, i int) *san.Finding {
	f := &san.Finding{Kind: kind, Severity: san.Error, Kernel: kernel, Argument: argument, Dispatches: []int{i}}
	f.Message = fmt.Sprintf("dispatches[%d]: kernel %s: %s", i, kernel, reason)
	if argument != "" {
		f.Message = fmt.Sprintf("dispatches[%d]: kernel %s, argument %s: %s", i, kernel, argument, reason)
	}
	return f
}

func timeoutFinding(c *Case, deadline time.Duration, err error) *san.Finding {
	f := &san.Finding{Kind: san.KindTimeout, Severity: san.Error, Message: fmt.Sprintf("the work did not end within %v", deadline)}
	var failed *mtl.SubmitError
	if errors.As(err, &failed) && len(failed.Last) > 0 {
		last := failed.Last[len(failed.Last)-1]
		f.Message += "; the last dispatch was " + last
		if i, kernel, ok := strings.Cut(last, ": "); ok {
			f.Kernel = kernel
			if n, err := strconv.Atoi(i); err == nil {
				f.Dispatches = []int{n}
			}
		}
	}
	return f
}

var diagnostic = regexp.MustCompile(`(?m)^([^\s:][^:\n]*):(\d+):(\d+): (?:fatal )?error: (.*)$`)

// compileFinding takes the errors' places from the compiler's text.
func compileFinding(c *Case, err error) *san.Finding {
	f := &san.Finding{Kind: san.KindCompileError, Severity: san.Error, Message: strings.SplitN(err.Error(), "\n", 2)[0]}
	for i, m := range diagnostic.FindAllStringSubmatch(err.Error(), 32) {
		line, _ := strconv.Atoi(m[2])
		column, _ := strconv.Atoi(m[3])
		s := san.Side{What: "error", Location: san.Location{File: m[1], Line: line, Column: column}}
		if lines := strings.Split(c.Text, "\n"); m[1] == path.Base(c.Source) && line <= len(lines) && line > 0 {
			s.Text = lines[line-1]
		}
		f.Sides = append(f.Sides, s)
		if i == 0 {
			f.Message = m[4]
		}
	}
	return f
}

func has(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
