package lever

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The names of the documentation, by kind. A new setting is entered here by hand.
var documented = map[Kind][]string{
	KindLever: {
		"MINFER_NO_FLASH", "MINFER_NO_PREFILL_FLASH", "MINFER_NO_MATMUL_ATTN", "MINFER_NO_SPLIT_ATTN", "MINFER_NO_RMS_256", "MINFER_GEMM",
		"MINFER_CACHE_TYPE", "MINFER_ATTN_CHUNKS", "MINFER_NO_FUSE_QKV", "MINFER_NO_FUSE_FFN", "MINFER_WEIGHT_COPY",
	},
	KindSwitch:      {"MINFER_DISABLE_MPS", "MINFER_CPU_LEVEL", "MINFER_LLAMA_LIB"},
	KindObservation: {"MINFER_GRAPH_TRACE", "MINFER_OP_PROFILE", "MINFER_TRACE", "MINFER_METAL_CAPTURE", "MINFER_METALLIB_FILE"},
}

func TestTable(t *testing.T) {
	got := map[Kind][]string{}
	for _, v := range All {
		got[v.Kind] = append(got[v.Kind], v.Name)
		require.NotEmpty(t, v.Changes, v.Name)
		require.NotEmpty(t, v.LiveWhen, v.Name)
		require.True(t, (v.Values == nil) != (v.Form == ""), v.Name)
		require.Equal(t, v.Default, v.Get(Default()), v.Name)
		if v.Default != "" {
			require.Contains(t, v.Values, v.Default, v.Name)
		}
	}
	require.Equal(t, documented, got)
	require.Equal(t, len(All), reflect.TypeFor[Levers]().NumField(), "one field a setting")
	require.Equal(t, "observation lever switch", fmt.Sprint(KindObservation, " ", KindLever, " ", KindSwitch))
}

// Each setting changes its own field, and only that.
func TestEachFieldAlone(t *testing.T) {
	fields := map[string]string{}
	for _, v := range All {
		values := v.Values
		if values == nil {
			values = []string{"/some where"}
		}
		for _, value := range values {
			l, err := Parse([]string{"HOME=/root", v.Name + "=" + value})
			require.NoError(t, err)
			require.Equal(t, value, v.Get(l), v.Name)
			with, err := v.With(Default(), value)
			require.NoError(t, err)
			require.Equal(t, l, with)
			a, b := reflect.ValueOf(l), reflect.ValueOf(Default())
			var changed []string
			for i := range a.NumField() {
				if !a.Field(i).Equal(b.Field(i)) {
					changed = append(changed, a.Type().Field(i).Name)
				}
			}
			if value == v.Default {
				require.Empty(t, changed, v.Name)
				continue
			}
			require.Len(t, changed, 1, v.Name)
			fields[changed[0]] = v.Name
		}
	}
	require.Len(t, fields, len(All))
	require.Equal(t, "MINFER_GEMM", fields["GEMM"])
	require.Equal(t, "MINFER_NO_RMS_256", fields["NoRMS256"])
	require.Equal(t, "MINFER_METALLIB_FILE", fields["MetallibFile"])
}

func TestParseErrors(t *testing.T) {
	for entry, want := range map[string]string{
		"MINFER_NO_FLASH=yes":                     "MINFER_NO_FLASH=yes: want 0 or 1",
		"MINFER_NO_FLASH=true":                    "MINFER_NO_FLASH=true: want 0 or 1",
		"MINFER_GEMM=2":                           "MINFER_GEMM=2: want 0 or 1",
		"MINFER_GEMM= 1":                          `MINFER_GEMM=" 1": want 0 or 1`,
		"MINFER_CACHE_TYPE=Q8_0":                  "MINFER_CACHE_TYPE=Q8_0: want f16, f32 or q8_0",
		"MINFER_CPU_LEVEL=sse":                    "MINFER_CPU_LEVEL=sse: want generic, avx2 or avx512",
		"MINFER_ATTN_CHUNKS=0":                    "MINFER_ATTN_CHUNKS=0: want 1 to 16",
		"MINFER_ATTN_CHUNKS=17":                   "MINFER_ATTN_CHUNKS=17: want 1 to 16",
		"MINFER_ATTN_CHUNKS=+4":                   "MINFER_ATTN_CHUNKS=+4: want 1 to 16",
		"MINFER_TRACE=a\x00b":                     `MINFER_TRACE="a\x00b": want a directory`,
		"MINFER_NOFLASH=1":                        "unknown setting MINFER_NOFLASH: did you mean MINFER_NO_FLASH?",
		"MINFER_DISABLE_MTL=1":                    "unknown setting MINFER_DISABLE_MTL: did you mean MINFER_DISABLE_MPS?",
		"MINFER_CPU_LEVELS=":                      "unknown setting MINFER_CPU_LEVELS: did you mean MINFER_CPU_LEVEL?",
		"MINFER_llama_lib=/x":                     "unknown setting MINFER_llama_lib: did you mean MINFER_LLAMA_LIB?",
		"MINFER_=1":                               "unknown setting MINFER_: did you mean MINFER_GEMM?",
		"MINFER_GEMM\n=1":                         `unknown setting "MINFER_GEMM\n": did you mean MINFER_GEMM?`,
		"MINFER_GEMM=" + strings.Repeat("9", 100): "MINFER_GEMM=" + strings.Repeat("9", 64) + "...: want 0 or 1",
	} {
		l, err := Parse([]string{"PATH=/bin", entry})
		require.EqualError(t, err, want)
		require.Equal(t, Default(), l)
	}
	gemm, ok := Find("MINFER_GEMM")
	require.True(t, ok)
	_, err := gemm.With(Default(), "")
	require.EqualError(t, err, `MINFER_GEMM="": want 0 or 1`)
}

func TestParse(t *testing.T) {
	l, err := Parse(nil)
	require.NoError(t, err)
	require.Equal(t, Levers{GEMM: true}, l)
	l, err = Parse([]string{"", "MINFER_GEMM", "xMINFER_NO=1", "minfer_gemm=3", "=C:=x", "MINFER_GEMM=", "MINFER_TRACE=a=b"})
	require.NoError(t, err)
	require.Equal(t, Levers{GEMM: true, Trace: "a=b"}, l, "empty is unset; a value may hold =")
	l, err = Parse([]string{"MINFER_GEMM=1", "MINFER_ATTN_CHUNKS=16", "MINFER_GEMM=0"})
	require.NoError(t, err)
	require.Equal(t, Levers{AttnChunks: 16}, l, "the last entry counts")
}

func TestLive(t *testing.T) {
	live := func(name string, l Levers) bool {
		v, ok := Find(name)
		require.True(t, ok)
		return v.Live(l)
	}
	d := Default()
	require.False(t, live("MINFER_NO_MATMUL_ATTN", d))
	require.True(t, live("MINFER_NO_MATMUL_ATTN", Levers{NoPrefillFlash: true}))
	require.False(t, live("MINFER_NO_SPLIT_ATTN", Levers{NoPrefillFlash: true}))
	require.True(t, live("MINFER_NO_SPLIT_ATTN", Levers{NoFlash: true}))
	require.True(t, live("MINFER_ATTN_CHUNKS", d))
	require.False(t, live("MINFER_ATTN_CHUNKS", Levers{NoFlash: true}))
	off := Levers{DisableMPS: true, NoFlash: true, NoPrefillFlash: true}
	for _, v := range All {
		cpuToo := v.Kind != KindLever && !strings.HasPrefix(v.Name, "MINFER_METAL") || v.Name == "MINFER_CACHE_TYPE"
		require.Equal(t, cpuToo, v.Live(off), "%s without Metal", v.Name)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("MINFER_NO_FLASH=1\nMINFER_GEMM=0")
	f.Add("MINFER_ATTN_CHUNKS=16\nMINFER_TRACE=/tmp/x")
	f.Add("MINFER_NOFLASH=1")
	f.Add("MINFER_CACHE_TYPE=\xff\nA\n=\n")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := Parse(strings.Split(s, "\n"))
		if err != nil {
			if l != Default() || strings.ContainsAny(err.Error(), "\n\r") || len(err.Error()) > 400 {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		// What was read is allowed, and reads back the same.
		var again []string
		for _, v := range All {
			if value := v.Get(l); value != "" {
				again = append(again, v.Name+"="+value)
			}
		}
		back, err := Parse(again)
		if err != nil || back != l {
			t.Fatalf("%q: %+v came back as %+v, %v", s, l, back, err)
		}
	})
}
