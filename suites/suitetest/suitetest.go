// Package suitetest is what the tests of suites share: the CPU backend with a
// fault planted in it, an environment over that backend, and a run of some of a
// suite's cases. A suite that stays green on a planted fault is no gate.
//
// Use it from the external test package of a suite, whose directory is two below
// the root of the checkout. Nothing here is safe for concurrent use.
package suitetest

import (
	"context"
	"encoding/binary"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cpu"
	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/harness"
	"minfer/suites"
)

// Backend is the CPU backend with at most one fault planted in it. The zero
// value has none; Env fills in the rest.
type Backend struct {
	*cpu.Backend
	// Before may change the node, its operands or the cache that the inner backend
	// gets; false leaves the node out.
	Before func(b *Backend, n *graph.Node, in []graph.Operand, kv *graph.KV) (*graph.Node, bool)
	// After may change the output, or memory around it.
	After func(b *Backend, n *graph.Node, out graph.Operand)

	t testing.TB
}

// ExecuteNode runs the node with the fault.
func (b *Backend) ExecuteNode(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	node := n
	if b.Before != nil {
		changed, run := b.Before(b, n, in, kv)
		if !run {
			return nil
		}
		node = changed
	}
	if err := b.Backend.ExecuteNode(node, in, out, kv); err != nil {
		return err
	}
	if b.After != nil {
		b.After(b, n, out)
	}
	return nil
}

// Close does nothing: the backend lives as long as the test.
func (b *Backend) Close() error { return nil }

// Read gives the bytes of an operand.
func (b *Backend) Read(o graph.Operand) []byte {
	data := make([]byte, o.Len)
	require.NoError(b.t, b.ReadHost(o.Buf, o.Off, data))
	return data
}

// Write changes bytes of an operand from at on, which may lie past its end.
func (b *Backend) Write(o graph.Operand, at int, data []byte) {
	require.NoError(b.t, b.WriteHost(o.Buf, o.Off+at, data))
}

// OneULP moves float32 element i of an operand by one unit in the last place.
func (b *Backend) OneULP(o graph.Operand, i int) {
	word := b.Read(graph.Operand{Buf: o.Buf, Off: o.Off + 4*i, Len: 4})
	binary.LittleEndian.PutUint32(word, binary.LittleEndian.Uint32(word)+1)
	b.Write(o, 4*i, word)
}

// SwapRows exchanges row i of an operand with the next one.
func (b *Backend) SwapRows(o graph.Operand, i, rowBytes int) {
	data := b.Read(o)
	first, second := data[i*rowBytes:(i+1)*rowBytes], data[(i+1)*rowBytes:(i+2)*rowBytes]
	b.Write(o, i*rowBytes, append(append([]byte{}, second...), first...))
}

// Models are the two small models, from their files.
func Models() []suites.Model {
	var list []suites.Model
	for _, name := range []string{"tiny-qwen2-f16", "tiny-qwen3-f16"} {
		list = append(list, suites.Model{Name: name, Open: func() (*gguf.File, error) { return gguf.Open("../../refs/models/" + name + ".gguf") }})
	}
	return list
}

// Env is an environment with the small models, in which every backend is b,
// whatever number of threads it is asked for.
func Env(t testing.TB, b *Backend) *suites.Env {
	inner, err := cpu.New(cpu.Options{Threads: 2})
	require.NoError(t, err)
	t.Cleanup(func() { inner.Close() })
	b.Backend, b.t = inner, t
	return &suites.Env{Seed: 1, Models: Models(), Temp: t.TempDir(),
		Device: suites.Device{Name: "cpu", New: func(int) (graph.Backend, error) { return b, nil }}}
}

// Run runs the cases of a suite whose identity matches a regular expression;
// there must be one.
func Run(t testing.TB, s suites.Suite, env *suites.Env, filter string) *harness.Report {
	cases, err := s.Cases(env)
	require.NoError(t, err)
	runner := harness.Runner{Filter: regexp.MustCompile(filter)}
	report, err := runner.Run(context.Background(), cases)
	require.NoError(t, err)
	require.NotEmpty(t, report.Results, "no case matches %q", filter)
	return report
}
