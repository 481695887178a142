// Package harness is the how of verification and measurement: the identity of a
// case, the comparison of a value with its reference, outcomes, a bounded and
// interruptible runner, and reports in every format that a person or a CI reads.
//
// It knows no op, no model and no device: suites build [Case] values and hand
// them to a [Runner], which gives a [Report]; the commands choose the format and
// turn the report into an exit code.
//
// A Case's Run is called from one goroutine, in order. Nothing else here holds
// state, so values may be shared freely once built.
package harness

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Param is one key=value of a case's identity.
type Param struct{ Key, Value string }

// P makes a Param from any printable value.
func P(key string, value any) Param { return Param{key, fmt.Sprint(value)} }

// ID is the one identity of a case: it is the row of the report, the input of
// the filter, the name of the subtest and the key of golden files.
type ID struct {
	Suite  string
	Op     string
	Params []Param // in the op's fixed order
}

// String is the printed identity: "ops/mul_mat type=q4_0 m=16 n=9 k=256".
func (id ID) String() string {
	var b strings.Builder
	b.WriteString(id.Suite)
	b.WriteByte('/')
	b.WriteString(id.Op)
	for _, p := range id.Params {
		b.WriteByte(' ')
		b.WriteString(p.Key)
		b.WriteByte('=')
		b.WriteString(p.Value)
	}
	return b.String()
}

// Outcome is the verdict on a case. The four are never folded into one another.
type Outcome int

// The outcomes. Unsupported means that what is under test refuses the case by
// contract; Skipped means that the case was not tried (interrupted, fail-fast).
// Both carry a reason.
const (
	Pass Outcome = iota
	Fail
	Unsupported
	Skipped
)

var outcomeNames = [...]string{"pass", "fail", "unsupported", "skipped"}

// String is the outcome's name in every report.
func (o Outcome) String() string { return outcomeNames[o] }

// MarshalText gives the name.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads the name.
func (o *Outcome) UnmarshalText(b []byte) error {
	for i, name := range outcomeNames {
		if name == string(b) {
			*o = Outcome(i)
			return nil
		}
	}
	return fmt.Errorf("unknown outcome %q: want pass, fail, unsupported or skipped", b)
}

// Case is one thing to verify.
type Case struct {
	ID ID
	// Work is the size of the case in multiply-adds (or elements, where nothing
	// is multiplied): it bounds runs and balances shards. At least 1.
	Work int64
	// Device is what runs the case, "" where it makes no difference. Two cases of one
	// run may share an identity if their devices differ.
	Device string
	// Run does the work. An error means that the harness or its input is broken,
	// which is not the same as a failed case, and ends the run.
	Run func(ctx context.Context) (Result, error)
}

// Result is what one case gave.
type Result struct {
	Case       string        `json:"case"`
	Device     string        `json:"device,omitempty"` // as --device takes it; "" where it makes no difference
	Outcome    Outcome       `json:"outcome"`
	Reason     string        `json:"reason,omitempty"`   // of a failure, a refusal or a skip: one line
	Details    []string      `json:"details,omitempty"`  // further lines: the first differing nodes, and so on
	Note       string        `json:"note,omitempty"`     // one line that the text report prints of a passing case too, at its end
	Findings   []Finding     `json:"findings,omitempty"` // of a failure: faults in source files
	Comparison *Comparison   `json:"comparison,omitempty"`
	Counts     []Count       `json:"counts,omitempty"` // what was compared: nodes, tokens, strings
	Rerun      string        `json:"rerun,omitempty"`  // the command that repeats this case alone
	Duration   time.Duration `json:"duration_ns"`
}

// Count is a named number that a case reports in a fixed order.
type Count struct {
	Name string `json:"name"`
	N    int64  `json:"n"`
}

// Passed, Failed and Refused make results.
func Passed() Result { return Result{Outcome: Pass} }

// Failed is a failure with its reason.
func Failed(format string, args ...any) Result {
	return Result{Outcome: Fail, Reason: fmt.Sprintf(format, args...)}
}

// Refused is the outcome Unsupported with its reason.
func Refused(format string, args ...any) Result {
	return Result{Outcome: Unsupported, Reason: fmt.Sprintf(format, args...)}
}
