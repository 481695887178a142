package sweeps

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxListed bounds the numbers of one list.
const maxListed = 1000

// ParseInts reads a list of numbers and ranges, each number at least lowest and
// at most highest: "1,8,64", "1-4", "128-512*2" for 128, 256, 512, "64-256+64" for
// steps of 64. A number that occurs twice counts once.
func ParseInts(s string, lowest, highest int) ([]int, error) {
	var list []int
	for _, word := range strings.Split(s, ",") {
		more, err := parseRange(strings.TrimSpace(word))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", s, err)
		}
		for _, n := range more {
			if n < lowest || n > highest {
				return nil, fmt.Errorf("%q: %d: want %d to %d", s, n, lowest, highest)
			}
			if !slices.Contains(list, n) {
				list = append(list, n)
			}
		}
		if len(list) > maxListed {
			return nil, fmt.Errorf("%q: more than %d numbers", s, maxListed)
		}
	}
	return list, nil
}

const wantRange = "want numbers and ranges such as 1,8,64 or 1-4 or 128-512*2"

// parseRange reads one word of a list.
func parseRange(word string) ([]int, error) {
	first, rest, ranged := strings.Cut(word, "-")
	from, err := strconv.Atoi(first)
	if err != nil || from < 0 {
		return nil, fmt.Errorf("%q: %s", word, wantRange)
	}
	if !ranged {
		return []int{from}, nil
	}
	step, times := 1, false
	last, by, stepped := strings.Cut(rest, "*")
	if times = stepped; !stepped {
		last, by, stepped = strings.Cut(rest, "+")
	}
	if stepped {
		if step, err = strconv.Atoi(by); err != nil || step < 1 || times && step < 2 {
			return nil, fmt.Errorf("%q: %s", word, wantRange)
		}
	}
	to, err := strconv.Atoi(last)
	switch {
	case err != nil || times && from == 0:
		return nil, fmt.Errorf("%q: %s", word, wantRange)
	case to < from:
		return nil, fmt.Errorf("%q: the range ends below its start", word)
	}
	var list []int
	for n := from; n <= to; {
		if list = append(list, n); len(list) > maxListed {
			return nil, fmt.Errorf("%q: more than %d numbers", word, maxListed)
		}
		next := n + step
		if times {
			next = n * step
		}
		if next <= n { // past the largest integer
			break
		}
		n = next
	}
	return list, nil
}
