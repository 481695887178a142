package sweeps

import (
	"fmt"
	"strings"

	"minfer/harness"
)

// GPUs are those whose memory can be put beside a software device's bytes: how long
// it takes for them if no cache spares any and nothing else takes time.
var GPUs = []harness.GPU{
	gpu("m1", 68.25), gpu("m1-pro", 200), gpu("m1-max", 400), gpu("m2", 100), gpu("m2-max", 400), gpu("m3", 100), gpu("m3-max", 400),
	gpu("m4", 120), gpu("m4-pro", 273), gpu("m4-max", 546),
	gpu("l4", 300), gpu("rtx-4090", 1008), gpu("a100", 2039), gpu("h100", 3350), gpu("h200", 4800),
}

// gpu has its memory's rate in units of 10^9 bytes a second.
func gpu(name string, rate float64) harness.GPU { return harness.GPU{Name: name, Read: rate * 1e9} }

// FindGPU looks a GPU up by its name, in any case.
func FindGPU(name string) (harness.GPU, error) {
	for _, g := range GPUs {
		if strings.EqualFold(g.Name, name) {
			return g, nil
		}
	}
	return harness.GPU{}, fmt.Errorf("unknown GPU %q: want one of %s", name, strings.Join(GPUNames(), ", "))
}

// GPUNames lists them.
func GPUNames() []string {
	var names []string
	for _, g := range GPUs {
		names = append(names, g.Name)
	}
	return names
}

// Tally sums what a software device counts. It is for one submit at a time.
type Tally struct {
	sum harness.Counters
}

// Add counts one dispatch.
func (t *Tally) Add(c harness.Counters) { t.sum.Add(c) }

// take gives the sums so far and starts at 0.
func (t *Tally) take() harness.Counters {
	sum := t.sum
	t.sum = harness.Counters{}
	return sum
}
