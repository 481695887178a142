package cuda_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/harness"
	"minfer/metal/mtl"
	"minfer/metal/mtl/cuda"
	"minfer/metal/mtl/soft"
	"minfer/suites"
	"minfer/suites/attention"
	"minfer/suites/fusion"
	"minfer/suites/kv"
	"minfer/suites/matmul"
	"minfer/suites/ops"
)

// twin is two devices that do the same work: each dispatch of a submit runs on both,
// by itself, and what it wrote is compared. Where that differs the second device
// gets what the first has, so that a difference counts once.
type twin struct {
	gpu, ref mtl.Device
	limits   mtl.Limits
	mu       sync.Mutex
	kernels  map[string]*tally
}

// tally is what a kernel's dispatches gave.
type tally struct {
	dispatches, words, differ, nans int
	first                           string
}

func newTwin(gpu, ref mtl.Device) *twin {
	l := gpu.Limits()
	l.MaxThreadgroupMemory = min(l.MaxThreadgroupMemory, ref.Limits().MaxThreadgroupMemory)
	l.MaxBufferLength = min(l.MaxBufferLength, ref.Limits().MaxBufferLength)
	l.NoCopy = false
	return &twin{gpu: gpu, ref: ref, limits: l, kernels: map[string]*tally{}}
}

func (d *twin) Name() string       { return d.gpu.Name() + " and " + d.ref.Name() }
func (d *twin) Limits() mtl.Limits { return d.limits }
func (d *twin) Close() error       { return errors.Join(d.gpu.Close(), d.ref.Close()) }

func (d *twin) Compile(ctx context.Context, s mtl.Source) (mtl.Library, error) {
	a, err := d.gpu.Compile(ctx, s)
	if err != nil {
		return nil, err
	}
	b, err := d.ref.Compile(ctx, s)
	return &twinLibrary{a, b}, err
}

func (d *twin) WrapNoCopy([]byte, string) (mtl.Buffer, error) { return nil, errors.New("no copy") }

func (d *twin) NewBuffer(size int, label string) (mtl.Buffer, error) {
	a, err := d.gpu.NewBuffer(size, label)
	if err != nil {
		return nil, err
	}
	b, err := d.ref.NewBuffer(size, label)
	if err != nil {
		return nil, err
	}
	both := &twinBuffer{a, b}
	return both, both.Write(0, make([]byte, size)) // what nobody wrote is the same too
}

func (d *twin) NewCommandBuffer(label string) (mtl.CommandBuffer, error) {
	return &twinCommands{d: d, label: label}, nil
}

type twinLibrary struct {
	mtl.Library
	ref mtl.Library
}

func (l *twinLibrary) Pipeline(kernel string, constants map[string]any) (mtl.Pipeline, error) {
	a, err := l.Library.Pipeline(kernel, constants)
	if err != nil {
		return nil, err
	}
	b, err := l.ref.Pipeline(kernel, constants)
	return &twinPipeline{a, b}, err
}

func (l *twinLibrary) Release() { l.Library.Release(); l.ref.Release() }

type twinPipeline struct {
	mtl.Pipeline
	ref mtl.Pipeline
}

func (p *twinPipeline) Release() { p.Pipeline.Release(); p.ref.Release() }

type twinBuffer struct {
	mtl.Buffer
	ref mtl.Buffer
}

func (b *twinBuffer) Write(off int, src []byte) error {
	return errors.Join(b.Buffer.Write(off, src), b.ref.Write(off, src))
}

func (b *twinBuffer) Release() { b.Buffer.Release(); b.ref.Release() }

type twinCommands struct {
	d     *twin
	label string
	steps []func(ctx context.Context) error
}

// sides are a dispatch in the terms of each device.
func sides(d mtl.Dispatch) (gpu, ref mtl.Dispatch) {
	gpu, ref = d, d
	p := d.Pipeline.(*twinPipeline)
	gpu.Pipeline, ref.Pipeline = p.Pipeline, p.ref
	gpu.Bindings, ref.Bindings = slices.Clone(d.Bindings), slices.Clone(d.Bindings)
	for k, b := range d.Bindings {
		if b.Buffer != nil {
			gpu.Bindings[k].Buffer, ref.Bindings[k].Buffer = b.Buffer.(*twinBuffer).Buffer, b.Buffer.(*twinBuffer).ref
		} else {
			data := slices.Clone(b.Bytes)
			gpu.Bindings[k].Bytes, ref.Bindings[k].Bytes = data, data
		}
	}
	return gpu, ref
}

// alone records one thing on a device and runs it.
func alone(ctx context.Context, d mtl.Device, label string, record func(mtl.CommandBuffer) error) error {
	cb, err := d.NewCommandBuffer(label)
	if err != nil {
		return err
	}
	defer cb.Discard()
	if err := record(cb); err != nil || ctx == nil {
		return err
	}
	_, err = cb.Submit(ctx)
	return err
}

func (c *twinCommands) Dispatch(d mtl.Dispatch) error {
	gpu, ref := sides(d)
	dispatch := func(d mtl.Dispatch) func(mtl.CommandBuffer) error {
		return func(cb mtl.CommandBuffer) error { return cb.Dispatch(d) }
	}
	// What is refused is refused now.
	if err := errors.Join(alone(nil, c.d.gpu, c.label, dispatch(gpu)), alone(nil, c.d.ref, c.label, dispatch(ref))); err != nil {
		return err
	}
	c.steps = append(c.steps, func(ctx context.Context) error {
		if err := errors.Join(alone(ctx, c.d.gpu, c.label, dispatch(gpu)), alone(ctx, c.d.ref, c.label, dispatch(ref))); err != nil {
			return err
		}
		return c.d.compare(gpu, ref)
	})
	return nil
}

// tensorCores is behind the names of kernels that multiply matrices on them.
const tensorCores = " (tensor cores)"

// compare holds what a dispatch wrote on both devices against each other.
func (d *twin) compare(gpu, ref mtl.Dispatch) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := gpu.Pipeline.Kernel()
	if p, ok := gpu.Pipeline.(*cuda.Pipeline); ok && multiplies(p.Text(), "") {
		name += tensorCores
	}
	t := d.kernels[name]
	if t == nil {
		t = &tally{}
		d.kernels[name] = t
	}
	t.dispatches++
	for k, b := range gpu.Bindings {
		if b.Buffer == nil || b.Access == mtl.Read {
			continue
		}
		x, y := make([]byte, b.Length), make([]byte, b.Length)
		if err := errors.Join(b.Buffer.Read(b.Offset, x), ref.Bindings[k].Buffer.Read(b.Offset, y)); err != nil {
			return err
		}
		differ := false
		for i := 0; i+4 <= len(x); i += 4 {
			t.words++
			p, q := binary.LittleEndian.Uint32(x[i:]), binary.LittleEndian.Uint32(y[i:])
			if p == q {
				continue
			}
			differ = true
			if f, g := math.Float32frombits(p), math.Float32frombits(q); b.Type == mtl.Float32 && f != f && g != g {
				t.nans++
				continue
			}
			t.differ++
			if t.first == "" {
				t.first = fmt.Sprintf("%s, word %d: GPU 0x%08x, software 0x%08x", gpu.Label, i/4, p, q)
			}
		}
		if differ {
			if err := ref.Bindings[k].Buffer.Write(b.Offset, x); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *twinCommands) Barrier() {}

func (c *twinCommands) Copy(dst mtl.Buffer, dstOff int, src mtl.Buffer, srcOff, n int) error {
	to, from := dst.(*twinBuffer), src.(*twinBuffer)
	c.steps = append(c.steps, func(ctx context.Context) error {
		return errors.Join(
			alone(ctx, c.d.gpu, c.label, func(cb mtl.CommandBuffer) error { return cb.Copy(to.Buffer, dstOff, from.Buffer, srcOff, n) }),
			alone(ctx, c.d.ref, c.label, func(cb mtl.CommandBuffer) error { return cb.Copy(to.ref, dstOff, from.ref, srcOff, n) }))
	})
	return nil
}

func (c *twinCommands) Submit(ctx context.Context) (mtl.Timing, error) {
	for _, s := range c.steps {
		if err := s(ctx); err != nil {
			return mtl.Timing{}, err
		}
	}
	c.steps = nil
	return mtl.Timing{}, nil
}

func (c *twinCommands) Discard() { c.steps = nil }

// onTwin runs the cases of all suites of kernels and gives what each kernel wrote.
func onTwin(t *testing.T, filter func(harness.Case) bool, open func() (mtl.Device, mtl.Device)) map[string]*tally {
	t.Helper()
	all := map[string]*tally{}
	var mu sync.Mutex
	env := &suites.Env{Seed: 1, Temp: t.TempDir(), Device: suites.Device{Name: "twin", Open: func(int) (mtl.Device, error) {
		d := newTwin(open())
		mu.Lock()
		defer mu.Unlock()
		d.kernels = all
		return d, nil
	}}}
	defer env.Close()
	for _, s := range []suites.Suite{ops.Suite{}, matmul.Suite{}, attention.Suite{}, kv.Suite{}, fusion.Suite{}} {
		cases, err := s.Cases(env)
		require.NoError(t, err)
		cases = slices.DeleteFunc(cases, func(c harness.Case) bool { return !filter(c) })
		r := harness.Runner{}
		report, err := r.Run(t.Context(), cases)
		require.NoError(t, err)
		for _, x := range report.Results {
			require.NotEqual(t, harness.Fail, x.Outcome, "%s: %s", x.Case, x.Reason)
		}
	}
	return all
}

// TestGPUBits holds every dispatch of the suites' cases on the GPU against the
// software device. Without tensor cores all kernels give its bits. With them those
// with simdgroup matrices don't, and are held by the cases alone: what they computed
// on the GPU is within their entries' bounds of the float64 reference.
func TestGPUBits(t *testing.T) {
	if flag.Lookup("cuda").Value.String() != "true" {
		t.Skip("SKIPPED: nothing ran on a GPU; -cuda asks for it")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	for _, soften := range []bool{true, false} {
		kernels := onTwin(t, func(c harness.Case) bool {
			return soften || strings.HasPrefix(c.ID.String(), "matmul/") || strings.HasPrefix(c.ID.String(), "attention/")
		}, func() (mtl.Device, mtl.Device) {
			d, err := cuda.Open(cuda.DeviceOptions{Compiler: flag.Lookup("nvrtc").Value.String(), Cache: cache + "/minfer/cuda", SoftMatrices: soften})
			require.NoError(t, err)
			s, err := soft.New(soft.Options{})
			require.NoError(t, err)
			return d, s
		})
		var names []string
		for name := range kernels {
			names = append(names, name)
		}
		sort.Strings(names)
		words, differ, dispatches := 0, 0, 0
		var onTensors []string
		for _, name := range names {
			k := kernels[name]
			words, differ, dispatches = words+k.words, differ+k.differ, dispatches+k.dispatches
			t.Logf("%-60s %6d dispatches %10d words %8d differ %8d NaN payloads %s", name, k.dispatches, k.words, k.differ, k.nans, k.first)
			if kernel, on := strings.CutSuffix(name, tensorCores); on {
				onTensors = append(onTensors, kernel)
			} else if k.differ > 0 {
				t.Errorf("%s: %d of %d words differ; %s", name, k.differ, k.words, k.first)
			}
		}
		t.Logf("%d kernels, %d of them on tensor cores, %d dispatches, %d words, %d differ", len(names), len(onTensors), dispatches, words, differ)
		if soften {
			require.Greater(t, len(kernels), 60)
			require.Empty(t, onTensors)
		} else {
			require.Equal(t, slices.Concat(prefillKernels, gemmKernels), onTensors)
		}
	}
}

// The comparison sees a wrong word of one side, says whose it is, and counts it
// once.
func TestTwin(t *testing.T) {
	few := func(c harness.Case) bool { return strings.HasPrefix(c.ID.String(), "ops/add ") }
	open := func(wrap func(mtl.Device) mtl.Device) func() (mtl.Device, mtl.Device) {
		return func() (mtl.Device, mtl.Device) {
			a, err := soft.New(soft.Options{})
			require.NoError(t, err)
			b, err := soft.New(soft.Options{})
			require.NoError(t, err)
			return wrap(a), b
		}
	}
	same := onTwin(t, few, open(func(d mtl.Device) mtl.Device { return d }))
	require.NotEmpty(t, same)
	for name, k := range same {
		require.Zero(t, k.differ, name)
		require.NotZero(t, k.words, name)
	}
}
