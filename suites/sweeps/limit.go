package sweeps

import (
	"context"
	"time"

	"minfer/harness"
	"minfer/metal"
	"minfer/suites/limits"
)

// limitTime is what a loop of a limit takes at the least.
const limitTime = 10 * time.Millisecond

// limitsOf gives those of a device that a scenario can reach. On the CPU, quantised
// types are multiplied as bytes, and reading is measured over as many bytes as the
// scenario reads, which a cache may hold.
func (r *Runner) limitsOf(ctx context.Context, s Scenario, rec *harness.Record) ([]harness.Limit, error) {
	if s.env.metal() {
		return r.deviceLimits(ctx, s.env)
	}
	var bytes int64
	for i := range rec.Sides {
		w := rec.Sides[i].Work
		if s.Op == "decode" {
			w.Bytes /= max(w.Tokens, 1) // each token reads the same weights
		}
		bytes = max(bytes, w.Bytes)
	}
	size := leastRead
	for int64(size) < bytes && size < r.o.ReadBytes {
		size *= 2
	}
	read, ok := r.reads[size]
	if !ok {
		read = harness.Limit{Name: "read", Unit: "B/s", Rate: limits.Read(r.o.Threads, size), Bytes: int64(size)}
		r.reads[size] = read
	}
	if len(r.adds) == 0 {
		r.adds = []harness.Limit{
			{Name: "multiply_add", Unit: "1/s", Rate: limits.MultiplyAdds(r.o.Threads, limitTime)},
			{Name: "multiply_add_int8", Unit: "1/s", Rate: limits.ByteMultiplyAdds(r.o.Threads, limitTime)},
		}
	}
	types := s.weights
	if types == "" && rec.Model != nil {
		types = rec.Model.Type
	}
	switch types {
	case "", "f32", "f16", "bf16":
		return []harness.Limit{read, r.adds[0]}, nil
	}
	return []harness.Limit{read, r.adds[1]}, nil
}

// leastRead is the smallest buffer that reading is measured over.
const leastRead = 1 << 14

// deviceLimits measures what a Metal device can do at the most, once a run.
func (r *Runner) deviceLimits(ctx context.Context, e *Env) ([]harness.Limit, error) {
	if l, ok := r.limits[e]; ok {
		return l, nil
	}
	b, end, err := e.backend(r.o, r.o.Levers, &recorder{})
	if err != nil {
		return nil, err
	}
	defer end()
	read, adds, err := limits.Device(ctx, b.(*metal.Backend).Device(), limitTime)
	if err != nil {
		return nil, err
	}
	l := []harness.Limit{{Name: "read", Unit: "B/s", Rate: read}, {Name: "multiply_add", Unit: "1/s", Rate: adds}}
	r.limits[e] = l
	return l, nil
}
