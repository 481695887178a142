package cuda_test

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
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
	"minfer/metal/kernels"
	"minfer/metal/mtl"
	"minfer/metal/mtl/cuda"
	"minfer/metal/mtl/internal/frontend"
)

var textsPath = flag.String("texts", "", "folder that TestPipelinesEmit writes the CUDA C++ of every pipeline to, and the machine code where there is a compiler")

var onlyPipelines = flag.String("pipelines", "mul_mat_q4_0_single|kernel_add$", "regular expression of the pipelines that TestPipelinesEmit compiles")

// sources are the texts of all pipelines of the Metal backend, by name.
func sources(t *testing.T) map[string]*cuda.Source {
	t.Helper()
	files, err := fs.Glob(kernels.FS, "*.metal")
	require.NoError(t, err)
	from := map[string]*frontend.Library{}
	for _, f := range files {
		text, err := fs.ReadFile(kernels.FS, f)
		require.NoError(t, err)
		lib, err := frontend.Compile(context.Background(), mtl.Source{Name: f, Text: string(text), Include: kernels.FS, FastMath: true})
		require.NoError(t, err)
		for _, k := range lib.Kernels() {
			from[k] = lib
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
		tensor := cuda.TensorFloat
		if strings.HasSuffix(e.Kernel, "_gemm") {
			tensor = cuda.TensorPairs
		}
		s, err := cuda.Emit(f, cuda.Options{Poll: true, Inline: true, Whole: true, Tensor: tensor})
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
		names = append(names, name)
	}
	sort.Strings(names)
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
