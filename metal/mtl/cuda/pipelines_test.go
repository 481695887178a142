package cuda_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/metal"
	"minfer/metal/mtl"
	"minfer/metal/mtl/cuda"
	"minfer/metal/mtl/internal/frontend"
)

var textsPath = flag.String("texts", "", "folder that TestPipelinesEmit writes the CUDA C++ of every pipeline to, and the machine code where there is a compiler")

var onlyPipelines = flag.String("pipelines", "mul_mat_q4_0_single|kernel_add$", "regular expression of the pipelines that TestPipelinesEmit compiles")

// asked is a device that only notes what it is asked to compile.
type asked struct {
	mtl.Device
	mu   sync.Mutex
	list []mtl.Source
}

var errAsked = errors.New("noted")

func (d *asked) Compile(_ context.Context, s mtl.Source) (mtl.Library, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, s)
	return nil, errAsked
}

// The kernels that run on tensor cores.
var (
	prefillKernels = []string{
		"kernel_attn_parallel_output_f16", "kernel_attn_parallel_output_f32", "kernel_attn_parallel_scores_f16", "kernel_attn_parallel_scores_f32",
		"kernel_attn_prefill_flash_f16_128", "kernel_attn_prefill_flash_f16_64", "kernel_attn_prefill_flash_f32_128", "kernel_attn_prefill_flash_f32_64",
	}
	gemmKernels = []string{
		"kernel_mul_mat_bf16_gemm", "kernel_mul_mat_f16_gemm", "kernel_mul_mat_f32_gemm", "kernel_mul_mat_q4_0_gemm", "kernel_mul_mat_q4_1_gemm",
		"kernel_mul_mat_q4_k_gemm", "kernel_mul_mat_q5_0_gemm", "kernel_mul_mat_q5_1_gemm", "kernel_mul_mat_q5_k_gemm", "kernel_mul_mat_q6_k_gemm",
		"kernel_mul_mat_q8_0_gemm",
	}
)

// multiplies says whether a text has products on tensor cores, of factors of a kind
// where one is given.
func multiplies(text, kind string) bool {
	if kind != "" {
		kind += "("
	}
	// Before the kernel there are the functions that it could use.
	return strings.Contains(text[strings.LastIndex(text, "extern \"C\""):], "tc_mma_"+kind)
}

// sources are the texts of all pipelines of the Metal backend, by name.
func sources(t *testing.T) map[string]*cuda.Source {
	t.Helper()
	d := &asked{}
	_, err := metal.Compile(d, nil)
	require.ErrorIs(t, err, errAsked)
	from := map[string]*frontend.Library{}
	tensor := map[string]cuda.Tensor{}
	for _, s := range d.list {
		lib, err := frontend.Compile(context.Background(), s)
		require.NoError(t, err)
		for _, k := range lib.Kernels() {
			from[k] = lib
			tensor[k] = cuda.TensorOf(s.ProductError)
		}
	}
	all := map[string]*cuda.Source{}
	for _, e := range metal.Table {
		name := e.Kernel
		if len(e.Constants) > 0 {
			name += fmt.Sprint(e.Constants)
		}
		if all[name] != nil {
			continue
		}
		require.Contains(t, from, e.Kernel)
		f, err := from[e.Kernel].Specialize(e.Kernel, e.Constants)
		require.NoError(t, err, name)
		args, err := frontend.Arguments(f, 31)
		require.NoError(t, err, name)
		require.Len(t, args, len(f.Params), name)
		s, err := cuda.Emit(f, cuda.Options{Poll: true, Inline: true, Whole: true, Tensor: tensor[e.Kernel]})
		require.NoError(t, err, name)
		all[name] = s
	}
	return all
}

// Every pipeline of the Metal backend has a text, the same each time, which the
// run-time compiler takes, where there is one.
func TestPipelinesEmit(t *testing.T) {
	all, again := sources(t), sources(t)
	require.Greater(t, len(all), 80)
	var names []string
	for name, s := range all {
		require.Equal(t, s.Text, again[name].Text, name)
		// Whatever a kernel does, it waits before for what the launch before it writes.
		kernel := s.Text[strings.LastIndex(s.Text, "extern \"C\" __global__"):]
		require.Regexp(t, `^[^{]*\) \{\n  after\(g\);\n`, kernel, name)
		names = append(names, name)
	}
	sort.Strings(names)
	var floats, pairs []string
	for _, name := range names {
		if multiplies(all[name].Text, "float") {
			floats = append(floats, name)
		}
		if multiplies(all[name].Text, "pairs") {
			pairs = append(pairs, name)
		}
	}
	require.Equal(t, prefillKernels, floats)
	require.Equal(t, gemmKernels, pairs)
	for _, name := range names {
		on := slices.Contains(floats, name) || slices.Contains(pairs, name)
		require.Equal(t, on, multiplies(all[name].Text, ""), name)
	}
	save := func(name, ext string, data []byte) {
		if *textsPath != "" {
			require.NoError(t, os.WriteFile(filepath.Join(*textsPath, name+ext), data, 0o644))
		}
	}
	for _, name := range names {
		save(name, ".cu", []byte(all[name].Text))
	}
	c, err := cuda.OpenCompiler(flag.Lookup("nvrtc").Value.String())
	if err != nil {
		t.Skipf("SKIPPED the compilation of %d texts: no run-time compiler here (%v); -nvrtc names one", len(names), err)
	}
	only := regexp.MustCompile(*onlyPipelines)
	names = slices.DeleteFunc(names, func(name string) bool { return !only.MatchString(name) })
	start := time.Now()
	var wait sync.WaitGroup
	next := make(chan string)
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for name := range next {
				code, err := c.Compile(all[name], 9, 0)
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				save(name, ".cubin", code)
			}
		})
	}
	for _, name := range names {
		next <- name
	}
	close(next)
	wait.Wait()
	t.Logf("%d pipelines compiled in %v by %d at a time", len(names), time.Since(start), runtime.GOMAXPROCS(0))
}
