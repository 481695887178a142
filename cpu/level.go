package cpu

import (
	"fmt"
	"strings"

	"minfer/cpu/kernel"
)

// Level is a set of kernels. Generic and AVX2 give the same bits, and AVX2 is made
// of AVX2 instructions only, so that forcing it shows what a CPU without AVX-512
// does. AVX512 gives the bits of llama.cpp's AVX-512 build (level Z of
// docs/numerics.md), which rounds dots of floats and exponentials elsewhere.
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
	levels := []Level{Generic}
	if kernel.AVX2() != nil {
		levels = append(levels, AVX2)
	}
	if kernel.AVX512() != nil {
		levels = append(levels, AVX512)
	}
	return levels
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
			switch l {
			case AVX2:
				return kernel.AVX2(), l, nil
			case AVX512:
				return kernel.AVX512(), l, nil
			}
			return kernel.Generic(), l, nil
		}
	}
	names := make([]string, len(have))
	for i, h := range have {
		names[i] = h.String()
	}
	return nil, l, fmt.Errorf("cpu: level %v: this CPU, or this build, lacks its instructions: want one of %s", l, strings.Join(names, ", "))
}
