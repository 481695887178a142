package mtltest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/mtl"
	"minfer/metal/mtl/mtltest"
	"minfer/metal/mtl/soft"
)

// A check that no fault turns red checks nothing: each of these devices is the
// software device with one thing broken, and names checks that must see it.
func TestPlantedFaults(t *testing.T) {
	checks := map[string]mtltest.Check{}
	for _, c := range mtltest.All() {
		require.NotContains(t, checks, c.Name, "two checks of one name")
		checks[c.Name] = c
	}
	for _, f := range []struct {
		fault string
		plant plan
		seen  []string
	}{
		{"barriers order nothing", plan{submit: func(c *commands) {
			for i, j := 0, len(c.work)-1; i < j; i, j = i+1, j-1 {
				c.work[i], c.work[j] = c.work[j], c.work[i]
			}
		}}, []string{"ordering/a chain with barriers", "copies/between dispatches"}},
		{"a dispatch is lost", plan{submit: func(c *commands) { c.work = c.work[:max(0, len(c.work)-1)] }},
			[]string{"ordering/independent dispatches without a barrier", "bindings/offsets"}},
		{"a dispatch runs twice", plan{submit: func(c *commands) { c.work = append(c.work, c.work...) }},
			[]string{"ordering/submits", "grids/every thread runs once"}},
		{"offsets are ignored", plan{dispatch: func(d *mtl.Dispatch) {
			for i := range d.Bindings {
				d.Bindings[i].Offset = 0
			}
		}}, []string{"bindings/offsets", "bindings/two windows of one buffer", "bindings/constants from a buffer"}},
		{"ragged grids are rounded up", plan{dispatch: func(d *mtl.Dispatch) {
			if d.Threads.X > 0 && d.ThreadsPerThreadgroup.Count() > 0 {
				per := d.ThreadsPerThreadgroup
				d.Threadgroups = mtl.Size{X: (d.Threads.X + per.X - 1) / per.X, Y: (d.Threads.Y + per.Y - 1) / per.Y, Z: (d.Threads.Z + per.Z - 1) / per.Z}
				d.Threads = mtl.Size{}
			}
		}}, []string{"grids/100x1x1 threads by 64x1x1", "grids/every thread runs once"}},
		{"axes are swapped", plan{dispatch: func(d *mtl.Dispatch) {
			d.Threadgroups.X, d.Threadgroups.Y = d.Threadgroups.Y, d.Threadgroups.X
		}}, []string{"grids/2x3x2 threadgroups of 5x3x2", "grids/1x2x1 threadgroups of 8x8x1"}},
		{"refused launches are dropped in silence", plan{accept: func(error) error { return nil }},
			[]string{"launches/refused: no grid", "launches/refused: buffer index twice", "launches/refused: 8 inline bytes for 4", "threadgroup memory/variables and arguments share the limit"}},
		{"refused launches have the wrong kind", plan{accept: func(err error) error {
			var refused *mtl.LaunchError
			if errors.As(err, &refused) && refused.Kind == mtl.TypeMismatch {
				refused.Kind = mtl.InvalidLaunch
			}
			return err
		}}, []string{"launches/refused: float elements for integers", "launches/refused: less than an element"}},
		{"inline bytes are not copied", plan{late: true}, []string{"bindings/what is recorded is copied"}},
		{"threads of a second submit", plan{twice: true}, []string{"lifetimes/submit twice"}},
		{"errors lose their cause", plan{failed: func(e *mtl.SubmitError) error {
			return &mtl.SubmitError{Label: e.Label, Status: e.Status, Last: e.Last}
		}},
			[]string{"failures/a kernel that never ends", "failures/cancelled before it runs"}},
		{"errors lose their labels", plan{failed: func(e *mtl.SubmitError) error { e.Last = nil; return e }},
			[]string{"failures/a kernel that never ends", "failures/the label ring"}},
		{"the ring is one short", plan{failed: func(e *mtl.SubmitError) error { e.Last = e.Last[len(e.Last)/16:]; return e }},
			[]string{"failures/the label ring"}},
		{"a hang is no error", plan{failed: func(e *mtl.SubmitError) error { return nil }},
			[]string{"failures/a kernel that never ends", "failures/many threads that never end", "failures/cancelled while it runs"}},
		{"reads ignore pending work", plan{pending: true}, []string{"lifetimes/host access to pending buffers", "lifetimes/pending in two command buffers"}},
		{"writes miss by a byte", plan{write: func(off int, src []byte) (int, []byte) { return min(off+1, 63), src[:max(0, len(src)-1)] }},
			[]string{"buffers/windows"}},
		{"windows are cut to size", plan{write: func(off int, src []byte) (int, []byte) {
			off = min(max(off, 0), 64)
			return off, src[:min(len(src), 64-off)]
		}}, []string{"buffers/windows outside"}},
		{"wrapping copies", plan{wrapCopies: true}, []string{"no copy/both sides see writes"}},
		{"constants are ignored", plan{constants: func(m map[string]any) map[string]any {
			out := map[string]any{}
			for name, v := range m {
				if name == "maybe" {
					v = 1
				}
				out[name] = v
			}
			return out
		}}, []string{"constants/two specialisations of one kernel"}},
		{"constants by index are dropped", plan{constants: func(m map[string]any) map[string]any {
			out := map[string]any{}
			for name, v := range m {
				if name[0] > '9' {
					out[name] = v
				}
			}
			return out
		}}, []string{"constants/by index", "constants/refused"}},
		{"defines are dropped", plan{source: func(s mtl.Source) mtl.Source { s.Defines = nil; return s }}, []string{"library/defines"}},
		{"diagnostics have no place", plan{compiled: func(error) error { return errors.New("compilation failed") }}, []string{"library/error says where"}},
		{"simdgroups are 64 wide", plan{limits: func(l mtl.Limits) mtl.Limits { l.SIMDWidth = 64; return l }}, []string{"device/limits"}},
	} {
		t.Run(f.fault, func(t *testing.T) {
			for _, name := range f.seen {
				c, ok := checks[name]
				require.True(t, ok, "no check %q", name)
				require.Empty(t, verdict(c, &device{Device: open(t)}), "check %q passes without the fault", name)
				require.NotEmpty(t, verdict(c, &device{open(t), f.plant}), "check %q does not see it", name)
			}
		})
	}
}

func open(t testing.TB) mtl.Device {
	d, err := soft.New(soft.Options{Threads: 2})
	require.NoError(t, err)
	return d
}

// recorder is a mtltest.T that keeps what would fail a test.
type recorder struct{ failures []string }

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}
func (r *recorder) FailNow() { runtime.Goexit() }

// verdict runs a check and gives what failed, empty for a pass.
func verdict(c mtltest.Check, d mtl.Device) string {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(r, d)
	}()
	<-done
	return strings.Join(r.failures, "\n")
}

// plan says what of a device is broken; zero fields break nothing.
type plan struct {
	limits     func(mtl.Limits) mtl.Limits
	source     func(mtl.Source) mtl.Source
	compiled   func(error) error
	constants  func(map[string]any) map[string]any
	dispatch   func(*mtl.Dispatch)
	accept     func(error) error
	submit     func(*commands)
	failed     func(*mtl.SubmitError) error
	write      func(off int, src []byte) (int, []byte)
	late       bool // records at submit
	twice      bool // allows a second submit
	pending    bool // reads give zeros instead of an error
	wrapCopies bool
}

// device breaks the software device as planned.
type device struct {
	mtl.Device
	plan
}

func (d *device) Limits() mtl.Limits {
	if d.limits != nil {
		return d.limits(d.Device.Limits())
	}
	return d.Device.Limits()
}

func (d *device) Compile(ctx context.Context, s mtl.Source) (mtl.Library, error) {
	if d.source != nil {
		s = d.source(s)
	}
	lib, err := d.Device.Compile(ctx, s)
	if err != nil {
		if d.compiled != nil {
			err = d.compiled(err)
		}
		return nil, err
	}
	return &library{lib, d}, nil
}

type library struct {
	mtl.Library
	d *device
}

func (l *library) Pipeline(kernel string, constants map[string]any) (mtl.Pipeline, error) {
	if l.d.constants != nil {
		constants = l.d.constants(constants)
	}
	return l.Library.Pipeline(kernel, constants)
}

func (d *device) NewBuffer(size int, label string) (mtl.Buffer, error) {
	b, err := d.Device.NewBuffer(size, label)
	if err != nil {
		return nil, err
	}
	return &buffer{b, d}, nil
}

func (d *device) WrapNoCopy(data []byte, label string) (mtl.Buffer, error) {
	if d.wrapCopies {
		b, err := d.NewBuffer(len(data), label)
		if err == nil {
			err = b.Write(0, data)
		}
		return b, err
	}
	b, err := d.Device.WrapNoCopy(data, label)
	if err != nil {
		return nil, err
	}
	return &buffer{b, d}, nil
}

type buffer struct {
	mtl.Buffer
	d *device
}

func (b *buffer) Read(off int, dst []byte) error {
	err := b.Buffer.Read(off, dst)
	if err != nil && b.d.pending && strings.Contains(err.Error(), "pending") {
		return nil
	}
	return err
}

func (b *buffer) Write(off int, src []byte) error {
	if b.d.write != nil {
		off, src = b.d.write(off, src)
	}
	return b.Buffer.Write(off, src)
}

func (d *device) NewCommandBuffer(label string) (mtl.CommandBuffer, error) {
	cb, err := d.Device.NewCommandBuffer(label)
	if err != nil {
		return nil, err
	}
	return &commands{inner: cb, d: d, label: label}, nil
}

// commands records into the sound command buffer at once, to hear its errors, and
// keeps the work to record it otherwise at the submit where a plan asks for it.
type commands struct {
	inner mtl.CommandBuffer
	d     *device
	label string
	work  []func(mtl.CommandBuffer) error
}

func own(b mtl.Buffer) mtl.Buffer {
	if w, ok := b.(*buffer); ok {
		return w.Buffer
	}
	return b
}

func (c *commands) Dispatch(d mtl.Dispatch) error {
	shared := d.Bindings
	unwrap := func() mtl.Dispatch {
		d := d
		d.Bindings = append([]mtl.Binding(nil), shared...)
		for i := range d.Bindings {
			if d.Bindings[i].Buffer != nil {
				d.Bindings[i].Buffer = own(d.Bindings[i].Buffer)
			}
			if d.Bindings[i].Bytes != nil && !c.d.late {
				d.Bindings[i].Bytes = append([]byte(nil), d.Bindings[i].Bytes...)
			}
		}
		if c.d.dispatch != nil {
			c.d.dispatch(&d)
		}
		return d
	}
	recorded := unwrap()
	if err := c.inner.Dispatch(recorded); err != nil {
		if c.d.accept != nil {
			return c.d.accept(err)
		}
		return err
	}
	c.work = append(c.work, func(cb mtl.CommandBuffer) error { return cb.Dispatch(recorded) })
	return nil
}

func (c *commands) Barrier() {
	c.inner.Barrier()
	c.work = append(c.work, func(cb mtl.CommandBuffer) error { cb.Barrier(); return nil })
}

func (c *commands) Copy(dst mtl.Buffer, dstOff int, src mtl.Buffer, srcOff, n int) error {
	if dst == nil || src == nil {
		return errors.New("no buffer")
	}
	if err := c.inner.Copy(own(dst), dstOff, own(src), srcOff, n); err != nil {
		return err
	}
	c.work = append(c.work, func(cb mtl.CommandBuffer) error { return cb.Copy(own(dst), dstOff, own(src), srcOff, n) })
	return nil
}

func (c *commands) Discard() { c.inner.Discard() }

func (c *commands) Submit(ctx context.Context) (mtl.Timing, error) {
	if c.d.submit != nil || c.d.late || c.d.twice {
		if c.d.submit != nil {
			c.d.submit(c)
		}
		c.inner.Discard()
		again, err := c.d.Device.NewCommandBuffer(c.label)
		if err != nil {
			return mtl.Timing{}, err
		}
		for _, w := range c.work {
			if err := w(again); err != nil {
				return mtl.Timing{}, err
			}
		}
		c.inner = again
	}
	timing, err := c.inner.Submit(ctx)
	var failed *mtl.SubmitError
	if errors.As(err, &failed) && c.d.failed != nil {
		err = c.d.failed(failed)
	}
	return timing, err
}
