package dumps

import (
	"fmt"

	"minfer/engine/graph"
	"minfer/harness"
	"minfer/refs/dump"
)

// checker receives the engine's values and compares them under llama.cpp's
// keys.
type checker struct {
	want   *dump.Run
	layers int
	base   int // position of the batch's first row
	rows   int // rows of the batch

	compared, equal int64
	seen            map[dump.Key]bool
	first           string   // what went wrong first, in the graph's order
	details         []string // the next differences
}

// maxDetails bounds the differences that a report lists.
const maxDetails = 8

// tap compares one value, row by row.
func (c *checker) tap(v graph.TapValue) {
	keys, err := c.keys(v)
	if err != nil {
		c.fail(err)
		return
	}
	if len(keys) == 0 {
		return
	}
	if v.Row >= 0 {
		c.check(keys, c.base+v.Row, v.Data)
		return
	}
	rows := v.Node.Shape[1]
	width := len(v.Data) / rows
	for i := range rows {
		// A node of the tail alone has fewer rows than the batch.
		c.check(keys, c.base+c.rows-rows+i, v.Data[i*width:(i+1)*width])
	}
}

// check compares one row under each of its keys.
func (c *checker) check(keys []dump.Key, pos int, data []float32) {
	for _, k := range keys {
		k.Pos = pos
		if c.seen == nil {
			c.seen = map[dump.Key]bool{}
		}
		if c.seen[k] {
			c.fail(fmt.Errorf("%v: compared twice", k))
			continue
		}
		c.seen[k] = true
		if pos >= c.want.Positions() {
			continue // the last generated token is not evaluated by llama.cpp
		}
		c.compared++
		if err := c.want.Check(k, data); err != nil {
			c.fail(err)
			continue
		}
		c.equal++
	}
}

func (c *checker) fail(err error) {
	if c.first == "" {
		c.first = err.Error()
	} else if len(c.details) < maxDetails {
		c.details = append(c.details, err.Error())
	}
}

// result closes the case.
func (c *checker) result(generated []int32) harness.Result {
	expected := int64(c.want.Positions() * len(c.want.Nodes))
	r := harness.Result{Outcome: harness.Pass, Details: c.details, Counts: []harness.Count{
		{Name: "nodes expected", N: expected}, {Name: "compared", N: c.compared}, {Name: "equal", N: c.equal},
		{Name: "skipped", N: expected - c.compared}, {Name: "tokens", N: int64(len(generated))}}}
	for i, id := range generated {
		if want := c.want.Header.Generated[i]; id != want && c.first == "" {
			c.first = fmt.Sprintf("generated token %d is %d, llama.cpp's is %d", i, id, want)
		}
	}
	if c.first == "" && c.compared != expected {
		c.first = fmt.Sprintf("%d of %d nodes were compared", c.compared, expected)
	}
	if c.first != "" {
		r.Outcome, r.Reason = harness.Fail, c.first
	}
	return r
}
