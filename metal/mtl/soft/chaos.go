package soft

import (
	"bytes"
	"context"
	"fmt"

	"minfer/metal/mtl"
	"minfer/metal/mtl/soft/san"
)

// chaosOrders is the number of random orders that mode chaos adds to the
// ascending and the descending one.
const chaosOrders = 2

// chaos runs the command buffer in several legal orders, each from the same
// memory, and compares what they leave. The memory that stays is that of the
// ascending order.
func (cb *CommandBuffer) chaos(ctx context.Context, ring *mtl.Ring) (*san.Report, error) {
	schedules := []schedule{{}, {reverse: true}}
	for i := range uint64(chaosOrders) {
		schedules = append(schedules, schedule{seed: cb.device.o.Seed*chaosOrders + i + 1})
	}
	buffers := cb.buffers()
	before := snapshot(buffers)
	var after []image
	var report *san.Report
	for i, s := range schedules {
		e := cb.execution(s, ring)
		if i == 0 {
			e.counters = cb.device.o.Counters
		} else {
			restore(buffers, before)
		}
		err := e.all(ctx)
		if i == 0 {
			report = e.check.Report()
		} else {
			addNew(report, e.check.Report())
		}
		if err != nil {
			return report, err
		}
		if i == 0 {
			after = snapshot(buffers)
			continue
		}
		for j, b := range buffers {
			if f := differs(b, after[j], s); f != nil {
				report.Add(f)
			}
		}
	}
	restore(buffers, after)
	return report, nil
}

// buffers are those that the command buffer holds, each once.
func (cb *CommandBuffer) buffers() []*Buffer {
	seen := map[*Buffer]bool{}
	var list []*Buffer
	for _, b := range cb.held {
		if !seen[b] {
			seen[b] = true
			list = append(list, b)
		}
	}
	return list
}

// image is a buffer's content.
type image struct {
	data []byte
	san  *san.Buffer
}

func snapshot(buffers []*Buffer) []image {
	images := make([]image, len(buffers))
	for i, b := range buffers {
		images[i] = image{append([]byte(nil), b.mem.Data...), san.NewBuffer(b.label, b.size)}
		images[i].san.Copy(0, b.mem.San, 0, b.size)
	}
	return images
}

func restore(buffers []*Buffer, images []image) {
	for i, b := range buffers {
		copy(b.mem.Data, images[i].data)
		b.mem.San.Copy(0, images[i].san, 0, b.size)
	}
}

// differs reports the first byte that another order left different.
func differs(b *Buffer, want image, s schedule) *san.Finding {
	if bytes.Equal(b.mem.Data, want.data) {
		return nil
	}
	at := 0
	for b.mem.Data[at] == want.data[at] {
		at++
	}
	order := "the descending order"
	if !s.reverse {
		order = fmt.Sprintf("the order of seed %d", s.seed)
	}
	return &san.Finding{
		Kind: san.KindOrderDependent, Severity: san.Error, Buffer: b.label, BufferOffset: int64(at), Allocation: b.size,
		Message: fmt.Sprintf("byte %d of buffer %q is %#x after the ascending order of threadgroups, simdgroups and unordered dispatches, and %#x after %s",
			at, b.label, want.data[at], b.mem.Data[at], order),
	}
}

// addNew takes over the findings that only another order shows.
func addNew(report, other *san.Report) {
	known := map[string]bool{}
	for _, f := range report.Findings {
		known[f.ID] = true
	}
	for _, f := range other.Findings {
		if !known[f.ID] {
			report.Add(f)
		}
	}
}
