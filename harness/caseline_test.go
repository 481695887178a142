package harness

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadLines(t *testing.T) {
	lines, err := ReadLines("my.jsonl", strings.NewReader(`{"op":"mul_mat","type":"q4_0","m":16,"eps":1e-6,"bias":true}

{"op":"add"}`))
	require.NoError(t, err)
	require.Len(t, lines, 2)
	require.Equal(t, 3, lines[1].Number)

	l := lines[0]
	m, err := l.Int("m", 1, 100)
	require.NoError(t, err)
	require.Equal(t, 16, m)
	text, err := l.Text("type")
	require.NoError(t, err)
	require.Equal(t, "q4_0", text)
	bias, err := l.Bool("bias")
	require.NoError(t, err)
	require.True(t, bias)
	require.EqualError(t, l.Done(), `my.jsonl:1: mul_mat: unknown key "eps"`)
	eps, err := l.Float32("eps")
	require.NoError(t, err)
	require.Equal(t, float32(1e-6), eps)
	require.NoError(t, l.Done())

	_, err = l.Int("m", 1, 15)
	require.EqualError(t, err, `my.jsonl:1: mul_mat: key "m" is 16: want a whole number from 1 to 15`)
	_, err = l.Int("n", 1, 15)
	require.EqualError(t, err, `my.jsonl:1: mul_mat: no key "n"`)
	_, err = l.Int("type", 1, 15)
	require.EqualError(t, err, `my.jsonl:1: mul_mat: key "type" is "q4_0": want a whole number`)
	_, err = l.Int("eps", 1, 15)
	require.Error(t, err)
	absent, err := lines[1].Bool("bias")
	require.NoError(t, err)
	require.False(t, absent)
}

func TestReadLinesErrors(t *testing.T) {
	for text, want := range map[string]string{
		`[1]`:                       `f:1: not a JSON object: want {"op":"mul_mat",...}`,
		`{"type":"q4_0"}`:           `f:1: no key "op"`,
		`{"op":3}`:                  `f:1: key "op" is 3: want the name of an op`,
		`{"op":"a\nb"}`:             `f:1: key "op" is "a\nb": want the name of an op`,
		`{"op":"add","d":1,"d":2}`:  `f:1: key "d" appears twice`,
		`{"op":"add","d":[1]}`:      `f:1: key "d": want a number, a string or a bool`,
		`{"op":"add"} {"op":"mul"}`: `f:1: text after the JSON object`,
		`{"op":"add"`:               `f:1: not valid JSON: the object does not end`,
	} {
		_, err := ReadLines("f", strings.NewReader(text))
		require.EqualError(t, err, want, text)
	}
	lines, err := ReadLines("f", strings.NewReader("{\"op\":\"a\"}\nnonsense\n{\"op\":\"b\"}\n{}\n"))
	require.Len(t, lines, 2, "reading goes on after a bad line")
	require.ErrorContains(t, err, "f:2: ")
	require.ErrorContains(t, err, "f:4: ")
}

func FuzzReadLines(f *testing.F) {
	f.Add([]byte(`{"op":"mul_mat","type":"q4_0","m":16}`))
	f.Add([]byte("{\"op\":\"a\",\"x\":1e999}\n{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines, err := ReadLines("f", strings.NewReader(string(data)))
		for _, l := range lines {
			require.NotEmpty(t, l.Op)
			for _, key := range l.keys {
				l.Int(key, 0, 1<<20)
				l.Float32(key)
				l.Text(key)
				l.Bool(key)
			}
			require.NoError(t, l.Done())
		}
		if err != nil {
			require.Contains(t, err.Error(), "f:")
		}
	})
}
