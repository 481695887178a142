package dumps_test

import (
	"context"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"minfer/refs/dump/recorded"
	"minfer/suites/dumps"
	"minfer/suites/suitetest"
)

// Every case has a recorded run, and no run is left without a case.
func TestRecordedIsWhole(t *testing.T) {
	cases, err := dumps.Suite{}.Cases(suitetest.Env(t, &suitetest.Backend{}))
	require.NoError(t, err)
	want := map[string]bool{}
	for _, c := range cases {
		name := ""
		for _, p := range c.ID.Params { // model, weights, kv
			name += p.Value + "."
		}
		want[name+"dump"] = true
	}
	got := map[string]bool{}
	files, err := fs.Glob(recorded.FS(), "*")
	require.NoError(t, err)
	for _, name := range files {
		got[name] = true
	}
	require.Equal(t, want, got)
}

// Values recorded for another case are not compared.
func TestRecordedPins(t *testing.T) {
	const name = "tiny-qwen2-f16.q4_0.f16.dump"
	for other, want := range map[string]string{
		"tiny-qwen3-f16.q4_0.f16.dump": `recorded with model "tiny-qwen3-f16", this case has "tiny-qwen2-f16"`,
		"tiny-qwen2-f16.q4_1.f16.dump": `recorded with weights "q4_1", this case has "q4_0"`,
		"tiny-qwen2-f16.q4_0.f32.dump": `recorded with kv "f32", this case has "f16"`,
	} {
		data, err := fs.ReadFile(recorded.FS(), other)
		require.NoError(t, err)
		require.EqualError(t, verify(t, fstest.MapFS{name: {Data: data}}), name+": "+want)
	}
	env := suitetest.Env(t, &suitetest.Backend{})
	env.Dumps, env.Models = recorded.FS(), env.Models[:1]
	env.Models[0].Open = suitetest.Models()[1].Open // another file under this name
	cases, err := dumps.Suite{}.Cases(env)
	require.NoError(t, err)
	_, err = cases[0].Run(context.Background())
	require.ErrorContains(t, err, "recorded with model_sha256")
}

// verify runs the case of the q4_0 weights of the first model.
func verify(t *testing.T, files fs.FS) error {
	env := suitetest.Env(t, &suitetest.Backend{})
	env.Dumps = files
	cases, err := dumps.Suite{}.Cases(env)
	require.NoError(t, err)
	for _, c := range cases {
		if strings.HasSuffix(c.ID.String(), qwen2) {
			_, err := c.Run(context.Background())
			return err
		}
	}
	require.Fail(t, "no case", qwen2)
	return nil
}
