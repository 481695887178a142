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

// limitsOf gives those of a device that a scenario can reach: on the CPU, quantised
// types are multiplied as bytes.
func (r *Runner) limitsOf(ctx context.Context, s Scenario) ([]harness.Limit, error) {
	all, err := r.deviceLimits(ctx, s.env)
	if err != nil || len(all) < 3 {
		return all, err
	}
	switch s.weights {
	case "", "f32", "f16", "bf16":
		return all[:2], nil
	}
	return []harness.Limit{all[0], all[2]}, nil
}

// deviceLimits measures what the device can do at the most, once a run.
func (r *Runner) deviceLimits(ctx context.Context, e *Env) ([]harness.Limit, error) {
	if l, ok := r.limits[e]; ok {
		return l, nil
	}
	var read, adds float64
	if e.metal() {
		b, end, err := e.backend(r.o, r.o.Levers, &recorder{})
		if err != nil {
			return nil, err
		}
		defer end()
		if read, adds, err = limits.Device(ctx, b.(*metal.Backend).Device(), limitTime); err != nil {
			return nil, err
		}
	} else {
		read, adds = limits.Read(r.o.Threads, r.o.ReadBytes), limits.MultiplyAdds(r.o.Threads, limitTime)
	}
	l := []harness.Limit{{Name: "read", Unit: "B/s", Rate: read}, {Name: "multiply_add", Unit: "1/s", Rate: adds}}
	if !e.metal() {
		l = append(l, harness.Limit{Name: "multiply_add_int8", Unit: "1/s", Rate: limits.ByteMultiplyAdds(r.o.Threads, limitTime)})
	}
	r.limits[e] = l
	return l, nil
}
