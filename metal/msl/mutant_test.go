package msl_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"minfer/metal/msl"

	"github.com/stretchr/testify/require"
)

var mutants = flag.Int("mutants", 300, "texts that TestMutants compiles")

var token = regexp.MustCompile(`\s+|\w+|[-+*/%&|^<>=!]=|&&|\|\||<<|>>|\[\[|\]\]|::|\+\+|--|.`)

// Programs with a few tokens removed, doubled, swapped or taken from elsewhere: most are wrong in a way
// that gets deep into the compiler. None may panic or take long.
func TestMutants(t *testing.T) {
	files, err := filepath.Glob("lower/testdata/*.metal")
	require.NoError(t, err)
	texts := []string{strings.Replace(text, `#include "args.h"`, "struct args { float scale; int n; };", 1)}
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		texts = append(texts, string(data))
	}
	var pool []string
	for _, s := range texts {
		for _, w := range token.FindAllString(s, -1) {
			if strings.TrimSpace(w) != "" {
				pool = append(pool, w)
			}
		}
	}
	good := 0
	for n := range *mutants {
		r := rand.New(rand.NewPCG(uint64(n), 7))
		toks := token.FindAllString(texts[r.IntN(len(texts))], -1)
		for range 1 + r.IntN(3) {
			k, m := r.IntN(len(toks)), r.IntN(len(toks))
			switch r.IntN(5) {
			case 0:
				toks[k] = ""
			case 1:
				toks[k] += " " + toks[k]
			case 2:
				toks[k], toks[m] = toks[m], toks[k]
			case 3:
				toks[k] = pool[r.IntN(len(pool))]
			default:
				toks[k] += " " + pool[r.IntN(len(pool))] + " "
			}
		}
		src := strings.Join(toks, "")
		func() {
			start := time.Now()
			defer func() {
				if e := recover(); e != nil {
					panic(fmt.Sprintf("mutant %d: %v\n%s", n, e, src))
				}
			}()
			lib, err := msl.Compile(fstest.MapFS{"k.metal": {Data: []byte(src)}}, "k.metal", msl.Options{})
			if err == nil {
				good += len(lib.Kernels())
			}
			for _, err := range lib.Check(nil) {
				// Text that checks and makes invalid IR is a fault of the compiler.
				require.NotContains(t, err.Error(), "error: ir: ", "mutant %d\n%s", n, src)
			}
			require.Less(t, time.Since(start), 20*time.Second, "mutant %d\n%s", n, src)
		}()
	}
	require.Positive(t, good, "no mutant got past the checker")
}
