package cpu

import (
	"fmt"
	"strings"

	"minfer/cpu/kernel"
)

// Level is a set of kernels. Generic and AVX2 give the same bits, and AVX2 is made
// of AVX2 instructions only, so that forcing it shows what a CPU without AVX-512
// does.
type Level uint8

// Auto is the fastest set with the AVX2 level's bits: results are then the same on
// every machine, and AVX-512 kernels take part wherever their bits are those of
// that level, which is all of the products with quantised weights.
const (
	Auto Level = iota
	Generic
	AVX2
	AVX512
)

var levelNames = [...]string{Auto: "auto", Generic: "generic", AVX2: "avx2", AVX512: "avx512"}

// String is the name that ParseLevel reads.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("level(%d)", uint8(l))
}

// ParseLevel reads a level's name in any case; the empty name is Auto. That a
// name parses does not say that the level runs here: New says so.
func ParseLevel(name string) (Level, error) {
	if name == "" {
		return Auto, nil
	}
	for l, n := range levelNames {
		if strings.EqualFold(n, name) {
			return Level(l), nil
		}
	}
	return 0, fmt.Errorf("unknown CPU level %q: want one of %s", name, strings.Join(levelNames[:], ", "))
}

// Levels lists the levels that run on this machine, slowest first.
func Levels() []Level {
	if kernel.AVX2() != nil {
		return []Level{Generic, AVX2}
	}
	return []Level{Generic}
}

// table finds the kernels of a level, and the level that has Auto's bits.
func (l Level) table() (*kernel.Table, Level, error) {
	have := Levels()
	if l == Auto {
		l = have[min(len(have)-1, 1)]
		if t := kernel.VNNI(); t != nil {
			return t, l, nil
		}
	}
	for _, h := range have {
		if h == l {
			if l == AVX2 {
				return kernel.AVX2(), l, nil
			}
			return kernel.Generic(), l, nil
		}
	}
	names := make([]string, len(have))
	for i, h := range have {
		names[i] = h.String()
	}
	why := "this CPU, or this build, lacks its instructions"
	if l == AVX512 {
		why = "this build has no AVX-512 kernels"
	}
	return nil, l, fmt.Errorf("cpu: level %v: %s: want one of %s", l, why, strings.Join(names, ", "))
}
