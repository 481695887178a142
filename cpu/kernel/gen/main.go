// Command gen writes the assembly of package kernel's AVX2 level.
//
// One family of kernels goes into one file, with its Go declarations beside it;
// go generate in cpu/kernel runs it once for each family. The output depends on
// nothing but this source. What the kernels compute, and in what order of
// floating point operations, is defined by the plain Go functions of package
// kernel and by docs/numerics.md; a family's file here says how lanes map to that
// order.
//
// Operands are in Go's order: sources first, the destination last, and the
// sources reversed against Intel's manual. Registers are virtual; avo allocates
// them.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/build"
)

var families = map[string]func(){
	"attn":     attnFamily,
	"attn512":  attn512Family,
	"exp":      expFamily,
	"exp512":   exp512Family,
	"float":    floatFamily,
	"float512": float512Family,
	"k":        kFamily,
	"ops":      opsFamily,
	"q32":      q32Family,
	"quantize": quantizeFamily,
	"vnni32":   vnni32Family,
	"vnnik":    vnniKFamily,
}

func main() {
	family := flag.String("family", "", "kernels to write: "+strings.Join(names(), ", "))
	flag.Parse()
	write, ok := families[*family]
	if !ok || flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "gen: -family is %q and the arguments are %q, want one of %s and no arguments\n",
			*family, flag.Args(), strings.Join(names(), ", "))
		os.Exit(2)
	}
	write()
	build.Generate()
}

func names() []string {
	var ns []string
	for n := range families {
		ns = append(ns, n)
	}
	slices.Sort(ns)
	return ns
}
