package safety

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/mtl"
	"minfer/metal/mtl/soft/san"
)

// full uses every key of the form.
const full = `{
  "source": "k.metal", "about": "a", "reference": "r", "kind": "k", "mode": "race", "encoder": "serial",
  "dispatches": [
    {"kernel": "f", "threads_per_grid": [37, 6, 1], "threads_per_threadgroup": [16, 4, 1],
     "args": [{"buffer": "x", "offset": 8}, {"threadgroup_bytes": 256}, {"bytes": "int16", "values": [-2, 3]}, {"bytes": "float16", "values": [1.5, "-inf"]}, {"bytes": "bool", "values": [true]}],
     "constants": {"wide": true, "3": 2.5, "n": 7, "v": [1, 2]}, "barrier_after": true},
    {"kernel": "g", "threadgroups": [2, 1, 1], "threads_per_threadgroup": [32, 1, 1]}
  ],
  "buffers": {
    "x": {"type": "float32", "count": 8, "init": "values", "values": [1, -2.5, "-inf", "inf", "nan", 0, 1e10, 3], "logical_count": 6},
    "y": {"type": "uint8", "count": 4, "init": "poison", "output": true, "logical_count": 3},
    "z": {"type": "int64", "count": 2, "init": "fill", "value": -1},
    "r": {"type": "bfloat16", "count": 100, "init": "random", "seed": 5},
    "e": {"type": "float16", "count": 2, "init": "zeros"}
  },
  "expect": ["nan", "mismatch"], "also": ["unwritten-output"],
  "where": {"lines": [3, 9], "accesses": [3, 5], "buffer": "x", "also_buffer": "y", "argument": "p", "space": "device", "access": "write",
            "elements": [-1, 4294967295], "count": 3, "dispatch": 1, "dispatches": [0, 1]},
  "reference_values": [1, 2, "inf"], "tolerance": 0.5
}`

func TestParse(t *testing.T) {
	c, err := Parse("a.json", []byte(full))
	require.NoError(t, err)
	require.Equal(t, san.Race, c.Mode)
	require.True(t, c.Serial)
	require.Equal(t, []string{"a", "r", "k"}, []string{c.About, c.Reference, c.Kind})
	d := c.Dispatches[0]
	require.Equal(t, &mtl.Size{X: 37, Y: 6, Z: 1}, d.ThreadsPerGrid)
	require.Nil(t, d.Threadgroups)
	require.True(t, d.BarrierAfter)
	require.Equal(t, map[string]any{"wide": true, "3": 2.5, "n": int64(7), "v": []any{int64(1), int64(2)}}, d.Constants)
	require.Equal(t, Arg{Buffer: 0, Offset: 8, ThreadgroupBytes: -1}, d.Args[0])
	require.Equal(t, 256, d.Args[1].ThreadgroupBytes)
	require.Equal(t, []byte{0xfe, 0xff, 3, 0}, d.Args[2].Bytes)
	require.Equal(t, []byte{0, 0x3e, 0, 0xfc}, d.Args[3].Bytes)
	require.Equal(t, []byte{1}, d.Args[4].Bytes)
	require.False(t, c.Dispatches[1].BarrierAfter)
	require.Equal(t, []string{"x", "y", "z", "r", "e"}, []string{c.Buffers[0].Name, c.Buffers[1].Name, c.Buffers[2].Name, c.Buffers[3].Name, c.Buffers[4].Name})
	x := c.Buffers[0].data()
	require.Equal(t, []float64{1, -2.5, math.Inf(-1), math.Inf(1)}, []float64{value(mtl.Float32, x, 0), value(mtl.Float32, x, 1), value(mtl.Float32, x, 2), value(mtl.Float32, x, 3)})
	require.True(t, math.IsNaN(value(mtl.Float32, x, 4)))
	require.Nil(t, c.Buffers[1].data())
	require.Equal(t, -1.0, value(mtl.Int64, c.Buffers[2].data(), 1))
	require.Equal(t, make([]byte, 4), c.Buffers[4].data())
	require.Equal(t, &Where{
		Lines: &[2]int{3, 9}, Accesses: []int{3, 5}, Buffer: "x", AlsoBuffer: "y", Argument: "p", Space: "device", Access: "write",
		Elements: &[2]int{-1, 4294967295}, Count: 3, Dispatch: 1, Dispatches: []int{0, 1},
	}, c.Where)
	require.Equal(t, []float64{1, 2, math.Inf(1)}, c.References)
	require.Equal(t, 0.5, c.Tolerance)

	c, err = Parse("a.json", []byte(`{"source": "k.metal", "buffers": {}, "dispatches": [{"kernel": "f", "threadgroups": [1], "threads_per_threadgroup": [32]}]}`))
	require.NoError(t, err)
	require.Equal(t, []string{Clean}, c.Expect)
	require.Equal(t, san.Strict, c.Mode)
	require.False(t, c.Serial)
	require.Nil(t, c.Where)
	require.Equal(t, &mtl.Size{X: 1, Y: 1, Z: 1}, c.Dispatches[0].Threadgroups)
}

// Each edit of the full case gives exactly one line. Those marked schema are
// refused by the JSON Schema too; the others need what a schema cannot say.
var refusals = []struct {
	old, new, want string
	schema         bool
}{
	{`"about": "a"`, `"abuot": "a"`, `abuot: found an unknown key, want one of about, also, buffers, dispatches, encoder, expect, kind, mode, reference, reference_values, source, tolerance, where`, true},
	{`"about": "a"`, `"about": 3`, `about: found 3, want a string`, true},
	{`"source": "k.metal", `, ``, `source: found no such key, want it`, true},
	{`"source": "k.metal"`, `"source": ""`, `source: found "", want the path of a .metal file, from the case's folder`, true},
	{`"mode": "race"`, `"mode": "fast"`, `mode: found "fast", want one of off, mem, race, strict, chaos`, true},
	{`"encoder": "serial"`, `"encoder": 1`, `encoder: found 1, want one of concurrent, serial`, true},
	{`"kernel": "g", `, ``, `dispatches[1].kernel: found no such key, want it`, true},
	{`"kernel": "g", `, `"kernel": "g", "threads": 1, `, `dispatches[1].threads: found an unknown key, want one of args, barrier_after, constants, kernel, threadgroups, threads_per_grid, threads_per_threadgroup`, true},
	{`"threadgroups": [2, 1, 1], `, ``, `dispatches[1]: found none of threadgroups and threads_per_grid, want one of the two`, true},
	{`"threadgroups": [2, 1, 1], `, `"threadgroups": [2, 1, 1], "threads_per_grid": [2, 1, 1], `, `dispatches[1]: found both of threadgroups and threads_per_grid, want one of the two`, true},
	{`"threadgroups": [2, 1, 1]`, `"threadgroups": [2, 1, 1, 1]`, `dispatches[1].threadgroups: found a list of 4, want a list of 3 numbers`, true},
	{`"threadgroups": [2, 1, 1]`, `"threadgroups": [2, -1, 1]`, `dispatches[1].threadgroups[1]: found -1, want an integer from 0 to 2147483647`, true},
	{`"threadgroups": [2, 1, 1]`, `"threadgroups": [2, 1.5, 1]`, `dispatches[1].threadgroups[1]: found 1.5, want an integer from 0 to 2147483647`, true},
	{`"threadgroups": [2, 1, 1]`, `"threadgroups": 2`, `dispatches[1].threadgroups: found 2, want a list`, true},
	{`{"buffer": "x", "offset": 8}`, `{"buffer": "q"}`, `dispatches[0].args[0].buffer: found "q", want the name of one of the case's buffers`, false},
	{`"offset": 8`, `"offset": -4`, `dispatches[0].args[0].offset: found -4, want an integer from 0 to 2147483647`, true},
	{`"offset": 8`, `"offset": 8, "values": []`, `dispatches[0].args[0].values: found an unknown key, want one of buffer, offset`, true},
	{`{"threadgroup_bytes": 256}`, `{}`, `dispatches[0].args[1]: found an object, want an object with the key buffer, bytes or threadgroup_bytes`, true},
	{`{"threadgroup_bytes": 256}`, `7`, `dispatches[0].args[1]: found 7, want an object`, true},
	{`"values": [-2, 3]`, `"values": [-2, 40000]`, `dispatches[0].args[2].values[1]: found 40000, want an int16 value`, false},
	{`"values": [-2, 3]`, `"values": [-2, 0.5]`, `dispatches[0].args[2].values[1]: found 0.5, want an int16 value`, false},
	{`"values": [-2, 3]`, `"values": []`, `dispatches[0].args[2].values: found a list of 0, want 1 to 65536 values`, true},
	{`"values": [1.5, "-inf"]`, `"values": [1.5, "-infinity"]`, `dispatches[0].args[3].values[1]: found "-infinity", want a number, "inf", "-inf" or "nan"`, true},
	{`"values": [true]`, `"values": [1]`, `dispatches[0].args[4].values[0]: found 1, want true or false`, false},
	{`"wide": true`, `"wide": {}`, `dispatches[0].constants.wide: found an object, want a bool, a number or a list of them`, true},
	{`"barrier_after": true`, `"barrier_after": 1`, `dispatches[0].barrier_after: found 1, want true or false`, true},
	{`"type": "uint8"`, `"type": "byte"`, `buffers.y.type: found "byte", want one of bool, int8, uint8, int16, uint16, int32, uint32, int64, uint64, float16, bfloat16, float32`, true},
	{`"count": 100`, `"count": 0`, `buffers.r.count: found 0, want an integer from 1 to 134217728`, true},
	{`"count": 100`, `"count": 1000000000`, `buffers.r.count: found 1000000000, want an integer from 1 to 134217728`, true},
	{`"logical_count": 3`, `"logical_count": 5`, `buffers.y.logical_count: found 5, want an integer from 1 to 4`, false},
	{`"init": "zeros"`, `"init": "ones"`, `buffers.e.init: found "ones", want one of random, zeros, fill, values, poison`, true},
	{`, "value": -1`, ``, `buffers.z.value: found no such key, want it`, false},
	{`1e10, 3]`, `1e10]`, `buffers.x.values: found a list of 7, want the 8 elements of the buffer`, false},
	{`"seed": 5`, `"seed": -5`, `buffers.r.seed: found -5, want an integer from 0 to 9223372036854775807`, true},
	{`["nan", "mismatch"]`, `["nan", "race"]`, `expect[1]: found "race", want one of ` + strings.Join(san.Kinds, ", "), true},
	{`["nan", "mismatch"]`, `[]`, `expect: found a list of 0, want at least one kind`, true},
	{`["nan", "mismatch"]`, `"clean"`, `where: found an object, want no key where, as the case expects clean`, false},
	{`"also": ["unwritten-output"]`, `"also": "nan"`, `also: found "nan", want a list`, true},
	{`"lines": [3, 9]`, `"lines": [9, 3]`, `where.lines: found a list of 2, want first not above last`, false},
	{`"lines": [3, 9]`, `"lines": [3, 9], "line": 4`, `where.lines: found a list of 2, want either line or lines`, false},
	{`"lines": [3, 9]`, `"lines": [3]`, `where.lines: found a list of 1, want a list of first and last`, true},
	{`"buffer": "x", "also`, `"buffer": "w", "also`, `where.buffer: found "w", want the name of one of the case's buffers`, false},
	{`"space": "device"`, `"space": "local"`, `where.space: found "local", want one of device, constant, threadgroup, thread`, true},
	{`"dispatch": 1`, `"dispatch": 2`, `where.dispatch: found 2, want an integer from 0 to 1`, false},
	{`"argument": "p"`, `"argumnt": "p"`, `where.argumnt: found an unknown key, want one of access, accesses, also_buffer, argument, buffer, count, dispatch, dispatches, elements, line, lines, space`, true},
	{`"reference_values": [1, 2, "inf"]`, `"reference_values": [1, 2]`, `reference_values: found a list of 2, want the 3 elements of the output buffers`, false},
	{`"tolerance": 0.5`, `"tolerance": -1`, `tolerance: found -1, want a number of at least 0`, true},
	{`"tolerance": 0.5`, `"tolerance": 0.5, "tolerance": 1`, `tolerance: found the key twice, want it once`, false},
	{`"tolerance": 0.5`, `"tolerance": `, `invalid character '}' looking for beginning of value`, false},
}

func TestRefusals(t *testing.T) {
	schema := readSchema(t)
	require.NoError(t, schema.check(decode(t, full)), "the full case")
	for _, r := range refusals {
		require.Equal(t, 1, strings.Count(full, r.old), r.old)
		text := strings.Replace(full, r.old, r.new, 1)
		_, err := Parse("a.json", []byte(text))
		require.Error(t, err, r.new)
		require.NotContains(t, err.Error(), "\n")
		got := err.Error()
		require.True(t, strings.HasPrefix(got, "a.json:"), got)
		require.True(t, strings.HasSuffix(got, ": "+r.want), "got  %s\nwant %s", got, r.want)
		if r.schema {
			require.Error(t, schema.check(decode(t, text)), "the schema takes %s", r.new)
		}
	}
	for text, want := range map[string]string{
		``:                               "a.json:1: found the end of the file inside a JSON value",
		`{"source": `:                    "a.json:1: found the end of the file inside a JSON value",
		`[]`:                             "a.json: top level: found a list of 0, want an object",
		full + "1":                       "found more after the first JSON value, want its end",
		strings.Repeat("[", 100):         "found nesting of more than 16 levels, want a launch case",
		"{\n\"buffers\": {\"a\": {}}}":   "a.json: source: found no such key, want it",
		`{"source": "a", "buffers": []}`: "a.json: buffers: found a list of 0, want an object",
	} {
		_, err := Parse("a.json", []byte(text))
		require.ErrorContains(t, err, want)
	}
}

func decode(t *testing.T, text string) any {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil
	}
	return v
}

// The parser's keys and the schema's are the same.
func TestSchemaKeys(t *testing.T) {
	schema := readSchema(t)
	defs := schema.root["$defs"].(map[string]any)
	keys := func(v any) []string {
		var out []string
		for k := range v.(map[string]any)["properties"].(map[string]any) {
			out = append(out, k)
		}
		return out
	}
	require.ElementsMatch(t, caseKeys, keys(schema.root))
	for def, sample := range map[string]string{
		"dispatch": `{"kernel": "f", "threadgroups": [1], "threads_per_threadgroup": [1], "?": 0}`,
		"buffer":   `{"type": "int8", "count": 1, "init": "zeros", "?": 0}`,
		"where":    `{"?": 0}`,
	} {
		n, err := readTree("a.json", []byte(sample))
		require.NoError(t, err)
		switch def {
		case "dispatch":
			n.dispatch(nil, nil)
		case "buffer":
			n.buffer("b")
		default:
			n.where(nil, 1)
		}
		_, list, _ := strings.Cut(n.r.err.Error(), "want one of ")
		require.ElementsMatch(t, strings.Split(list, ", "), keys(defs[def]), def)
	}
	var kinds []any
	for _, k := range san.Kinds {
		kinds = append(kinds, k)
	}
	require.ElementsMatch(t, kinds, defs["kind"].(map[string]any)["enum"])
	var types []any
	for _, k := range typeNames {
		types = append(types, k)
	}
	require.ElementsMatch(t, types, defs["type"].(map[string]any)["enum"])
}

// Every case of the collection is read and fits the schema, and has its twin.
func TestCollection(t *testing.T) {
	schema := readSchema(t)
	fsys := Collection()
	kinds := map[string]int{}
	traps := 0
	for _, folder := range []string{"cases", "own"} {
		names, err := fs.Glob(fsys, folder+"/*.json")
		require.NoError(t, err)
		require.NotEmpty(t, names)
		for _, name := range names {
			c, err := Load(fsys, name, name)
			require.NoError(t, err)
			data, err := fs.ReadFile(fsys, name)
			require.NoError(t, err)
			require.NoError(t, schema.check(decode(t, string(data))), name)
			require.NotEmpty(t, c.About, name)
			lines := strings.Count(c.Text, "\n")
			if c.Where != nil && c.Where.Lines != nil {
				require.LessOrEqual(t, c.Where.Lines[1], lines, name)
			}
			if c.Expect[0] == Clean {
				if folder == "own" && !strings.Contains(name, "-fixed") {
					traps++
				}
				continue
			}
			twin, err := Load(fsys, strings.TrimSuffix(name, ".json")+"-fixed.json", "twin")
			require.NoError(t, err)
			require.Equal(t, []string{Clean}, twin.Expect)
			if folder == "own" {
				kinds[c.Expect[0]]++
			}
		}
	}
	for _, k := range san.Kinds {
		n := kinds[k]
		if k == san.KindPrivateBounds { // its two names
			n = 2
		}
		require.GreaterOrEqual(t, n, 2, "own cases of %s", k)
	}
	require.GreaterOrEqual(t, traps, 11)
}

func TestData(t *testing.T) {
	for _, typ := range []mtl.Type{mtl.Float16, mtl.BFloat16, mtl.Float32} {
		b := Buffer{Type: typ, Count: 4000, Init: Init{How: "random", Seed: 3}}
		data := b.data()
		require.Equal(t, data, b.data())
		lo, hi, sum := 1.0, -1.0, 0.0
		for i := range b.Count {
			v := value(typ, data, i)
			lo, hi, sum = min(lo, v), max(hi, v), sum+v
		}
		require.GreaterOrEqual(t, lo, -1.0)
		require.Less(t, lo, -0.98)
		require.Less(t, hi, 1.0)
		require.Greater(t, hi, 0.98)
		require.InDelta(t, 0, sum/float64(b.Count), 0.05)
		b.Init.Seed = 4
		require.NotEqual(t, data, b.data())
	}
	b := Buffer{Type: mtl.Int8, Count: 4000, Init: Init{How: "random"}}
	seen := map[float64]bool{}
	for i := range b.Count {
		seen[value(mtl.Int8, b.data(), i)] = true
	}
	require.Len(t, seen, 256)
	for _, c := range []struct {
		got, want, tolerance float64
		near                 bool
	}{
		{320.3, 320, 0.001, true}, {320.4, 320, 0.001, false}, {0.0009, 0, 0.001, true}, {0.0011, 0, 0.001, false},
		{math.Inf(1), math.Inf(1), 0, true}, {1e30, math.Inf(1), 1, false}, {math.Inf(-1), 1, 1, false},
		{math.NaN(), math.NaN(), 0, true}, {math.NaN(), 0, 1, false}, {5, 5, 0, true},
	} {
		require.Equal(t, c.near, near(c.got, c.want, c.tolerance), "%v", c)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	for i, r := range refusals {
		if i%5 == 0 {
			f.Add([]byte(strings.Replace(full, r.old, r.new, 1)))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("a.json", data)
		if (c == nil) == (err == nil) {
			t.Fatal("want a case or an error")
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Fatalf("error of several lines: %q", err)
		}
		if c != nil {
			for i := range c.Buffers {
				if c.Buffers[i].Count > 1<<16 {
					return
				}
				if d := c.Buffers[i].data(); d != nil && len(d) != c.Buffers[i].Count*c.Buffers[i].Type.Size() {
					t.Fatal(fmt.Sprint("data of ", len(d), " bytes"))
				}
			}
		}
	})
}
