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

// limit puts the limits beside a record's rates. Where a side reaches more than one,
// the machine was busy with other work when that was measured: it is measured again,
// and the better result counts.
func (r *Runner) limit(ctx context.Context, s Scenario, rec *harness.Record) error {
	if s.Op == opHold {
		return nil // the host copies: no limit of the device's
	}
	var err error
	if rec.Limits, err = r.limitsOf(ctx, s, rec); err != nil || !beyond(rec) {
		return err
	}
	before := rec.Limits
	for _, l := range before {
		delete(r.reads, int(l.Bytes))
	}
	delete(r.limits, s.env)
	r.adds = nil
	if rec.Limits, err = r.limitsOf(ctx, s, rec); err != nil {
		return err
	}
	for i := range rec.Limits {
		rec.Limits[i].Rate = max(rec.Limits[i].Rate, before[i].Rate)
		if l := rec.Limits[i]; l.Bytes > 0 {
			r.reads[int(l.Bytes)] = l
		}
	}
	if beyond(rec) {
		rec.Warnings = append(rec.Warnings, "a rate is beyond its limit: the limit was measured while the machine was busy with other work")
	}
	return nil
}

// beyond says whether a side reaches more than a limit.
func beyond(rec *harness.Record) bool {
	for i := range rec.Sides {
		if share, _ := rec.Share(i); share > 1 {
			return true
		}
	}
	return false
}

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
		if s.Op == opDecode {
			w.Bytes /= max(w.Tokens, 1) // each token reads the same weights
		}
		bytes = max(bytes, w.Bytes)
	}
	size := leastRead
	for int64(size) < bytes && size < r.readBytes() {
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

// readBytes is the most that reading is measured over.
func (r *Runner) readBytes() int {
	if r.o.ReadBytes == 0 {
		return DefaultReadBytes
	}
	return r.o.ReadBytes
}

// leastRead is the smallest buffer that reading is measured over.
const leastRead = 1 << 14

// emulatedRead is what a software device reads: what limits it is how fast it steps,
// not the memory, so its buffer may lie in the caches.
const emulatedRead = 1 << 22

// gpuRead is what a GPU with memory of its own reads where nothing else is said: long
// enough that starting and ending it do not show.
const gpuRead = 1 << 31

// deviceLimits measures what a Metal device can do at the most, once a run.
func (r *Runner) deviceLimits(ctx context.Context, e *Env) ([]harness.Limit, error) {
	if l, ok := r.limits[e]; ok {
		return l, nil
	}
	b, end, err := e.backend(r.o, r.o.Levers, &recorder{}, 0)
	if err != nil {
		return nil, err
	}
	defer end()
	dev := b.(*metal.Backend).Device()
	size := r.readBytes()
	switch {
	case e.Tally != nil:
		size = min(size, emulatedRead)
	case e.Device.CopiesWeights && r.o.ReadBytes == 0:
		size = min(gpuRead, dev.Limits().MaxBufferLength/4)
	}
	read, adds, err := limits.Device(ctx, dev, size, limitTime)
	if err != nil {
		return nil, err
	}
	matrices, err := limits.Matrices(ctx, dev, size, limitTime)
	if err != nil {
		return nil, err
	}
	l := []harness.Limit{{Name: "read", Unit: "B/s", Rate: read}, {Name: "multiply_add", Unit: "1/s", Rate: adds},
		{Name: "multiply_add_matrix", Unit: "1/s", Rate: matrices}}
	r.limits[e] = l
	return l, nil
}
