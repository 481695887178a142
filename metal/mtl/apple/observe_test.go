package apple

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/engine/model"
	"minfer/engine/quant"
	"minfer/engine/session"
	"minfer/engine/synth"
	"minfer/metal"
	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
)

// observed is what the switches of observation give of a run: the lines of
// MINFER_GRAPH_TRACE, those of MINFER_OP_PROFILE without their numbers and nodes,
// and the files of MINFER_TRACE.
type observed struct {
	trace, profile string
	files          map[string]string
	logits         [][]float32
}

var (
	profiledNode = regexp.MustCompile(`(?m)^profile: +\S+ +\S+% .* on `)
	profiledTime = regexp.MustCompile(`\b[0-9.]+(ns|µs|ms|s)\b`)
)

// observe runs a model on a device, with all of them on.
func observe(t *testing.T, dev mtl.Device, m *model.Model) observed {
	b, err := metal.New(dev, metal.Options{Levers: lever.Default(), Deadline: 5 * time.Minute})
	require.NoError(t, err)
	defer b.Close()
	require.NoError(t, m.Hold(b))
	var trace, profile strings.Builder
	dir := t.TempDir()
	s, err := session.New(m, session.Options{NCtx: 32, Backends: []graph.Backend{b}, KVType: gguf.F16, FuseQKV: true, FuseFFN: true,
		Exec: graph.ExecOptions{Trace: &trace, Profile: &profile, TraceDir: dir}})
	require.NoError(t, err)
	defer s.Close()
	o := observed{files: map[string]string{}}
	for _, tokens := range [][]int32{{3, 1000, 7}, {512}, {4}} {
		y, err := s.Eval(tokens)
		require.NoError(t, err)
		o.logits = append(o.logits, y)
	}
	o.trace = trace.String()
	o.profile = profiledTime.ReplaceAllString(profiledNode.ReplaceAllString(profile.String(), "profile: node on "), "TIME")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		o.files[e.Name()] = string(data)
	}
	return o
}

// The switches of observation behave here as on the software device, to the byte
// but for times.
func TestObservations(t *testing.T) {
	paths, err := synth.Write(filepath.Join(t.TempDir(), "m.gguf"), synth.Options{Arch: "qwen2", Size: "tiny", Layers: 1, Seed: 5, Mix: quant.Mix{Name: "f32"}})
	require.NoError(t, err)
	f, err := gguf.Open(paths[0])
	require.NoError(t, err)
	defer f.Close()
	m, err := model.Load(f)
	require.NoError(t, err)
	m.Concatenate(true, true)

	dev, err := soft.New(soft.Options{Threads: 2})
	require.NoError(t, err)
	defer dev.Close()
	want := observe(t, dev, m)
	require.Regexp(t, `^split 0: Metal nodes 0-\d+\ncensus: Metal \d+ nodes: .*\nsplit 0: Metal nodes 0-\d+\ncensus: Metal .* fused_qkv 1, fused_ffn 1\n$`, want.trace)
	require.Equal(t, 3, strings.Count(want.profile, ": nodes TIME, copies TIME ("), want.profile)
	require.Equal(t, 2, strings.Count(want.profile, "the top "), "one table a plan")
	require.Len(t, want.files, 6, "two files a run")

	d, _ := opened(t, Options{})
	got := observe(t, d, m)
	require.Equal(t, want.logits, got.logits)
	require.Equal(t, want.trace, got.trace)
	require.Equal(t, want.profile, got.profile)
	require.Equal(t, want.files, got.files)
}
