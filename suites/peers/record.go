package peers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"minfer/harness"
)

// Record is one comparison.
type Record struct {
	Provenance harness.Provenance `json:"provenance"`
	Model      string             `json:"model"`
	Variant    string             `json:"variant,omitempty"`       // llama.cpp's library
	Weights    int64              `json:"weight_bytes"`            // read for each token: all matrices but an untied embedding
	Adds       int64              `json:"multiply_adds,omitempty"` // of each token, with these weights
	Threads    int                `json:"threads"`
	KV         string             `json:"kv"`
	Rows       []Row              `json:"rows"`
	// Check compares our logits with those of the one that With names: on the CPU
	// llama.cpp's, in bits, on a GPU the float64 model's, each in its tolerance. The rates
	// count only if Agree.
	Check *harness.Comparison `json:"check"`
	With  string              `json:"checked_with,omitempty"`
	Agree bool                `json:"agree"`

	// Held, of a run on a GPU, is all that was held against the float64 model, the first
	// being Check, and Wrong says what of it did not hold. Offloaded is how many of
	// llama.cpp's layers its log has on the GPU.
	Held      []Held   `json:"held,omitempty"`
	Wrong     []string `json:"wrong,omitempty"`
	Offloaded string   `json:"llama_layers_on_gpu,omitempty"`
}

// Row is one measured side of one test.
type Row struct {
	Test     string          `json:"test"` // "prefill 128", "decode 32 at depth 64"
	Side     string          `json:"side"`
	Tokens   int             `json:"tokens"`
	Samples  []time.Duration `json:"samples_ns"`
	Rate     float64         `json:"tokens_per_second"` // of the median
	Spread   float64         `json:"spread"`            // of the samples: quartile distance over median
	VsLlama  float64         `json:"ratio_to_best_llama,omitempty"`
	OfLimit  float64         `json:"share_of_read_rate,omitempty"` // decode: bytes of weights a second over the read loop's
	ReadRate float64         `json:"read_bytes_per_second,omitempty"`
	OfAdds   float64         `json:"share_of_multiply_adds,omitempty"` // prefill: those of the weights a second over a plain loop's
	AddRate  float64         `json:"multiply_adds_per_second,omitempty"`
}

// Held is what came of holding some of a side's logits against the float64 model's.
type Held struct {
	Side string `json:"side"`
	What string `json:"what"` // "decode", "prefill", and "..., after the rounds"
	// Check has the element that is worst in tolerances, or, where there is a Limit, the
	// differences, of which only the NMSE counts.
	Check *harness.Comparison `json:"check"`
	Limit float64             `json:"nmse_limit,omitempty"`
}

// OK says whether the logits count as the model's.
func (h *Held) OK() bool {
	if h.Limit > 0 {
		return float64(h.Check.NMSE) <= h.Limit // not of a NaN
	}
	return h.Check.OK()
}

func (h *Held) String() string {
	if h.Limit > 0 {
		return fmt.Sprintf("%s, %s: NMSE %.2g of at most %.2g", h.Side, h.What, float64(h.Check.NMSE), h.Limit)
	}
	return fmt.Sprintf("%s, %s: %s", h.Side, h.What, h.Check)
}

// hold adds a comparison, and with it decides whether the rates count.
func (rec *Record) hold(h Held) {
	if rec.Held = append(rec.Held, h); rec.Check == nil {
		rec.Check = h.Check
	}
	if !h.OK() {
		rec.Wrong = append(rec.Wrong, h.String())
	}
	rec.Agree = rec.holds()
}

// holds says whether a record's numbers make it agree.
func (rec *Record) holds() bool {
	ok := rec.Check.OK() && len(rec.Wrong) == 0
	for i := range rec.Held {
		ok = ok && rec.Held[i].OK()
	}
	return ok
}

// Read is a record of a file's text. What is no record is an error: one that lacks a
// check, that has numbers which cannot be, or says that its logits agree where they do not.
func Read(data []byte) (*Record, error) {
	rec := &Record{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(rec); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more behind the record: want one a file")
	}
	return rec, rec.valid()
}

// valid checks what the other functions rely on.
func (rec *Record) valid() error {
	if rec.Check == nil {
		return errors.New("a record without a check")
	}
	if rec.Threads < 0 {
		return fmt.Errorf("threads %d: want no number below 0", rec.Threads)
	}
	if rec.Threads == 0 && len(rec.Held) == 0 {
		return errors.New("threads 0, which a GPU has, and nothing held against the float64 model")
	}
	if rec.Check.N < 1 {
		return fmt.Errorf("a check of %d logits: want at least 1", rec.Check.N)
	}
	for i, h := range rec.Held {
		switch {
		case h.Check == nil || h.Check.N < 1:
			return fmt.Errorf("held[%d] (%s, %s) has no check", i, h.Side, h.What)
		case h.Limit < 0:
			return fmt.Errorf("held[%d] (%s, %s) has a limit of %v: want no number below 0", i, h.Side, h.What, h.Limit)
		}
	}
	if rec.Agree != rec.holds() {
		return fmt.Errorf("agree is %v, by the numbers of its checks it is %v", rec.Agree, rec.holds())
	}
	if len(rec.Rows) == 0 {
		return errors.New("a record without rows")
	}
	if _, err := time.Parse(time.RFC3339, rec.Provenance.Date); err != nil {
		return fmt.Errorf("date %q: want one such as 2026-11-30T07:00:00Z", rec.Provenance.Date)
	}
	for _, r := range rec.Rows {
		if err := r.valid(); err != nil {
			return fmt.Errorf("%s, %s: %w", r.Test, r.Side, err)
		}
	}
	return nil
}

func (r *Row) valid() error {
	if r.Tokens < 1 || len(r.Samples) == 0 {
		return fmt.Errorf("%d tokens in %d samples: want at least one each", r.Tokens, len(r.Samples))
	}
	for _, s := range r.Samples {
		if s <= 0 {
			return fmt.Errorf("a sample of %v: want more than 0", s)
		}
	}
	if rate := rateOf(r.Tokens, r.Samples); math.Abs(r.Rate-rate) > 1e-9*rate {
		return fmt.Errorf("%v tokens a second, by its samples %v", r.Rate, rate)
	}
	for _, x := range []float64{r.Spread, r.VsLlama, r.OfLimit, r.ReadRate, r.OfAdds, r.AddRate} {
		if x < 0 {
			return fmt.Errorf("a rate or share of %v: want no number below 0", x)
		}
	}
	return nil
}

// rateOf is the tokens a second of the median.
func rateOf(tokens int, samples []time.Duration) float64 {
	return float64(tokens) / harness.Median(samples).Seconds()
}
