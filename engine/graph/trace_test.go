package graph_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/graph/graphtest"
)

// counting counts how often the executor waits.
type counting struct {
	*graphtest.Holder
	waits int
}

func (c *counting) Synchronize() error {
	c.waits++
	return c.Holder.Synchronize()
}

// The trace of a prompt and of a fused token holds what a tap of another run sees.
func TestTrace(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	weights, err := m.Concatenate()
	require.NoError(t, err)
	for _, refuse := range [][]graph.Op{nil, {graph.RmsNorm}} {
		run := func(o graph.ExecOptions) (logits [][]float32, waits []int, splits int) {
			gpu := &counting{Holder: holder(t, weights, refuse...)}
			e := graph.NewExecutor([]graph.Backend{gpu, graphtest.NewRef("CPU")}, o)
			defer e.Close()
			kv, err := m.KVCache(16, gguf.F32)
			require.NoError(t, err)
			defer kv.Close()
			for i, p := range []graph.Params{gpuParams(7, 2, false, false), gpuParams(1, 1, true, true)} {
				plan, err := e.Plan(func() (*graph.Graph, error) { return m.Build(p) }, p)
				require.NoError(t, err)
				before := gpu.waits
				y, err := plan.Run(graphtest.Inputs([][]int{prompt, {7}}[i], 7*i), kv)
				require.NoError(t, err)
				logits, waits = append(logits, y), append(waits, gpu.waits-before)
				splits = len(plan.Assignment.Splits)
			}
			return logits, waits, splits
		}
		type value struct {
			name, op, part string
			layer          int
			shape          graph.Shape
			data           []uint32
		}
		// The tap waits for every node; backends' own parts are not in the trace.
		var taps [][]value
		want, _, _ := run(graph.ExecOptions{Tap: func(v graph.TapValue) {
			if v.Part != "" && v.Part != "k" && v.Part != "v" {
				return
			}
			if v.Node.ID == 2 {
				taps = append(taps, nil)
			}
			last := &taps[len(taps)-1]
			*last = append(*last, value{v.Node.Name, v.Node.Op.String(), v.Part, v.Node.Layer, v.Dims, bits(v.Data)})
		}})
		dir := filepath.Join(t.TempDir(), "new")
		got, waits, splits := run(graph.ExecOptions{TraceDir: dir})
		_, plain, _ := run(graph.ExecOptions{})
		require.Equal(t, want, got, "a trace moves no bits")
		require.Equal(t, plain, waits, "and waits no more often than the run does")
		if refuse == nil {
			require.Equal(t, []int{1, 1}, waits)
			require.Equal(t, 1, splits)
		}
		for i := range 2 {
			tr, err := graph.ReadTrace(dir, i+1)
			require.NoError(t, err)
			require.Equal(t, i+1, tr.Run)
			require.Empty(t, tr.Error)
			require.Equal(t, []map[string][]int32{
				{"inp_tokens": {3, 14, 15, 9, 26, 5, 35}, "inp_pos": {0, 1, 2, 3, 4, 5, 6}},
				{"inp_tokens": {7}, "inp_pos": {7}},
			}[i], tr.Inputs)
			require.Len(t, tr.Values, len(taps[i]))
			for j, v := range tr.Values {
				require.Equal(t, taps[i][j], value{v.Name, v.Op, v.Part, v.Layer, v.Shape, bits(v.Data)})
				backend := "Metal"
				if slices.Contains(refuse, graph.RmsNorm) && v.Op == "rms_norm" {
					backend = "CPU"
				}
				require.Equal(t, backend, v.Backend)
			}
			last := tr.Values[len(tr.Values)-1]
			require.Equal(t, "result_output", last.Name)
			require.Equal(t, bits(want[i]), bits(last.Data))
		}
		require.True(t, slices.ContainsFunc(taps[1], func(v value) bool { return v.op == "fused_qkv_norm" && v.part == "v" }))
	}
}

// The files as their documentation has them, read without ReadTrace.
func TestTraceFiles(t *testing.T) {
	b, x := chain()
	a := scale(b, "a", x, 2)
	b.G.Output = b.F32(graph.Add, "sum", -1, x.Shape, a, a)
	dir := t.TempDir()
	p := plan(t, b.G, graph.ExecOptions{TraceDir: dir}, graphtest.NewRef("Ref"))
	require.Equal(t, []float32{4, 8, 12, -16}, runX(t, p, 1, 2, 3, -4))
	data, err := os.ReadFile(filepath.Join(dir, "000001.f32"))
	require.NoError(t, err)
	require.Equal(t, graphtest.FloatBytes([]float32{2, 4, 6, -8, 4, 8, 12, -16}), data)
	index, err := os.ReadFile(filepath.Join(dir, "000001.json"))
	require.NoError(t, err)
	var got any
	require.NoError(t, json.Unmarshal(index, &got))
	v := func(node float64, name, op string, offset float64) map[string]any {
		return map[string]any{"node": node, "name": name, "op": op, "layer": -1., "backend": "Ref", "split": 0., "shape": []any{4., 1., 1., 1.}, "offset": offset}
	}
	require.Equal(t, map[string]any{"run": 1., "inputs": map[string]any{}, "values": []any{v(1, "a", "scale", 0), v(2, "sum", "add", 4)}}, got)

	// Broken files are errors, not values.
	spoil := func(name, text, want string) {
		t.Helper()
		old, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
		_, err = graph.ReadTrace(dir, 1)
		require.ErrorContains(t, err, want)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), old, 0o666))
	}
	spoil("000001.f32", "short", `"a" is values 0+4, want them from 0 on within 5 bytes`)
	spoil("000001.f32", string(data)+"more", "36 bytes, want 32")
	spoil("000001.json", "{", "unexpected end of JSON input")
	spoil("000001.json", `{"values":[{"name":"a","shape":[4,1,1,0]}]}`, `"a" has shape [4 1 1 0]`)
	spoil("000001.json", `{"values":[{"name":"a","shape":[9223372036854775807,9,1,1]}]}`, `"a" has shape`)
	spoil("000001.json", `{"values":[{"name":"a","shape":[4,1,1,1],"offset":-4}]}`, `"a" is values -4+4`)
	spoil("000001.json", `{"values":[{"name":"a","shape":[4,3,1,1]}]}`, `"a" is values 0+12`)
	_, err = graph.ReadTrace(dir, 2)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A run that fails leaves the splits before and its error.
func TestTraceOfAFailedRun(t *testing.T) {
	b, x := chain()
	n := scale(b, "a", x, 2)
	n = b.F32(graph.RmsNorm, "n", -1, n.Shape, n)
	b.G.Output = scale(b, "o", n, 5)
	gpu := graphtest.Wrap(graphtest.NewRef("inner"), graphtest.Options{Name: "Test", Refuse: []graph.Op{graph.RmsNorm}, Async: true, Fail: func(n *graph.Node) error {
		if n.Name == "o" {
			return errors.New("broken")
		}
		return nil
	}})
	dir := t.TempDir()
	p := plan(t, b.G, graph.ExecOptions{TraceDir: dir}, gpu, graphtest.NewRef("CPU"))
	_, err := p.Run(map[string][]byte{"x": graphtest.FloatBytes([]float32{1, 1, 1, 1})}, nil)
	require.ErrorContains(t, err, "broken")
	tr, terr := graph.ReadTrace(dir, 1)
	require.NoError(t, terr)
	require.Equal(t, err.Error(), tr.Error)
	require.Len(t, tr.Values, 2)
	require.Equal(t, []float32{2, 2, 2, 2}, tr.Values[0].Data)
	require.Equal(t, []string{"Test", "CPU"}, []string{tr.Values[0].Backend, tr.Values[1].Backend})

	// A directory that cannot be made is an error before anything runs.
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o666))
	p = plan(t, b.G, graph.ExecOptions{TraceDir: filepath.Join(file, "sub")}, graphtest.NewRef("CPU"))
	_, err = p.Run(map[string][]byte{"x": graphtest.FloatBytes([]float32{1, 1, 1, 1})}, nil)
	require.ErrorContains(t, err, "graph: trace: ")
	require.ErrorContains(t, err, "file")
}
