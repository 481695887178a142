package safety

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/mtl"
	"minfer/metal/mtl/soft/san"
)

func finding(kind string, lines ...int) *san.Finding {
	f := &san.Finding{Kind: kind, Severity: san.Error, Message: "m", Count: 1}
	for _, l := range lines {
		f.Sides = append(f.Sides, san.Side{Location: san.Location{File: "k.metal", Line: l, Column: 2}})
	}
	return f
}

func TestJudge(t *testing.T) {
	race := finding(san.KindThreadgroupRace, 26, 32)
	note := finding(san.KindThreadgroupRace, 26, 32)
	note.Severity = san.Note
	bounds := finding(san.KindOutOfBounds, 21)
	bounds.Buffer, bounds.Argument, bounds.Space, bounds.Access = "y", "dst", "device", "write"
	bounds.Bytes, bounds.ElementSize, bounds.Count, bounds.Dispatches = &[2]int64{40, 48}, 16, 7, []int{1, 3}
	private := finding(san.KindPrivateBounds, 13)
	private.Space, private.Access, private.Bytes, private.ElementSize = "thread", "read", &[2]int64{-4, 0}, 4
	device := finding(san.KindDeviceRace, 17, 23)
	device.Buffer = "q"
	for _, c := range []struct {
		name   string
		expect string
		also   string
		where  *Where
		found  []*san.Finding
		want   string // "" holds
	}{
		{"clean", "clean", "", nil, nil, ""},
		{"clean with a note", "clean", "", nil, []*san.Finding{note}, ""},
		{"clean with a finding", "clean", "", nil, []*san.Finding{race}, "expected clean, found threadgroup-race at k.metal:26:2"},
		{"found", "threadgroup-race", "", nil, []*san.Finding{race}, ""},
		{"not found", "threadgroup-race", "", nil, nil, "expected threadgroup-race, found none"},
		{"a note does not count", "threadgroup-race", "", nil, []*san.Finding{note}, "expected threadgroup-race, found none"},
		{"another kind", "threadgroup-race", "", nil, []*san.Finding{bounds}, "expected threadgroup-race, found out-of-bounds at k.metal:21:2"},
		{"another kind beside", "threadgroup-race", "", nil, []*san.Finding{race, bounds}, "found out-of-bounds at k.metal:21:2 beside threadgroup-race"},
		{"another kind allowed", "threadgroup-race", "out-of-bounds", nil, []*san.Finding{race, bounds}, ""},
		{"order-dependent beside a race", "threadgroup-race", "", nil, []*san.Finding{race, finding(san.KindOrderDependent)}, ""},
		{"order-dependent beside a nan", "nan", "", nil, []*san.Finding{finding(san.KindNaN, 3), finding(san.KindOrderDependent)}, "found order-dependent (m) beside nan"},
		{"the allowed one alone", "threadgroup-race", "out-of-bounds", nil, []*san.Finding{bounds}, "expected threadgroup-race, found none"},
		{"one of two kinds", "nan threadgroup-race", "", nil, []*san.Finding{race}, ""},
		{"line of the second side", "threadgroup-race", "", &Where{Lines: &[2]int{32, 32}}, []*san.Finding{race}, ""},
		{"line range", "threadgroup-race", "", &Where{Lines: &[2]int{27, 31}}, []*san.Finding{race}, "expected threadgroup-race where the case says, found one at k.metal:26:2 and k.metal:32:2: no side of it lies on lines 27 to 31"},
		{"accesses", "threadgroup-race", "", &Where{Accesses: []int{26, 32, 40}}, []*san.Finding{race}, ""},
		{"a side elsewhere", "threadgroup-race", "", &Where{Accesses: []int{26, 40}}, []*san.Finding{race}, "expected threadgroup-race where the case says, found one at k.metal:26:2 and k.metal:32:2: line 32 is none of [26 40]"},
		{"one of two lies there", "threadgroup-race", "", &Where{Accesses: []int{1, 2}}, []*san.Finding{race, finding(san.KindThreadgroupRace, 1, 2)}, ""},
		{"everything", "out-of-bounds", "", &Where{Lines: &[2]int{21, 21}, Buffer: "y", Argument: "dst", Space: "device", Access: "write", Elements: &[2]int{10, 11}, Count: 7, Dispatch: 3, Dispatches: []int{3, 1}}, []*san.Finding{bounds}, ""},
		{"a private overrun is not any overrun", "out-of-bounds", "", nil, []*san.Finding{private}, "expected out-of-bounds, found private-out-of-bounds at k.metal:13:2"},
		{"count of elements", "out-of-bounds", "", &Where{Count: 2, Dispatch: -1}, []*san.Finding{bounds}, ""},
		{"count", "out-of-bounds", "", &Where{Count: 3, Dispatch: -1}, []*san.Finding{bounds}, "count 7, want 3"},
		{"buffer", "out-of-bounds", "", &Where{Buffer: "x", Count: -1, Dispatch: -1}, []*san.Finding{bounds}, `buffer "y", want "x"`},
		{"the other buffer", "out-of-bounds", "", &Where{Buffer: "x", AlsoBuffer: "y", Count: -1, Dispatch: -1}, []*san.Finding{bounds}, ""},
		{"argument", "out-of-bounds", "", &Where{Argument: "src", Count: -1, Dispatch: -1}, []*san.Finding{bounds}, `argument "dst", want "src"`},
		{"space", "out-of-bounds", "", &Where{Space: "thread", Count: -1, Dispatch: -1}, []*san.Finding{bounds}, `space "device", want "thread"`},
		{"access", "out-of-bounds", "", &Where{Access: "read", Count: -1, Dispatch: -1}, []*san.Finding{bounds}, `access "write", want "read"`},
		{"elements", "out-of-bounds", "", &Where{Elements: &[2]int{10, 12}, Count: -1, Dispatch: -1}, []*san.Finding{bounds}, "elements 10 to 11, want 10 to 12"},
		{"no elements", "threadgroup-race", "", &Where{Elements: &[2]int{0, 0}, Count: -1, Dispatch: -1}, []*san.Finding{race}, "it has no elements"},
		{"dispatch", "out-of-bounds", "", &Where{Count: -1, Dispatch: 2}, []*san.Finding{bounds}, "dispatches [1 3], want 2"},
		{"dispatches", "out-of-bounds", "", &Where{Count: -1, Dispatch: -1, Dispatches: []int{1}}, []*san.Finding{bounds}, "dispatches [1 3], want [1]"},
		{"private is out of bounds of the thread", "out-of-bounds", "", &Where{Space: "thread", Elements: &[2]int{-1, -1}, Count: -1, Dispatch: -1}, []*san.Finding{private}, ""},
		{"private by its own name", "private-out-of-bounds", "", nil, []*san.Finding{private}, ""},
		{"device is not private", "private-out-of-bounds", "", nil, []*san.Finding{bounds}, "expected private-out-of-bounds, found out-of-bounds at k.metal:21:2"},
		{"also_buffer alone", "device-race", "", &Where{AlsoBuffer: "h", Count: -1, Dispatch: -1}, []*san.Finding{device}, `buffer "q", want "h"`},
	} {
		// Where a row leaves count and dispatch at zero, it means any.
		if c.where != nil && c.where.Count == 0 {
			c.where.Count, c.where.Dispatch = -1, -1
		}
		k := &Case{Expect: strings.Fields(c.expect), Also: strings.Fields(c.also), Where: c.where, Buffers: []Buffer{{Name: "y", Type: mtl.Float32}}}
		v := Judge(k, &san.Report{Findings: c.found}, nil)
		if c.want == "" {
			require.True(t, v.Held, "%s: %s", c.name, v.Reason)
			require.Empty(t, v.Reason)
			continue
		}
		require.False(t, v.Held, c.name)
		require.True(t, strings.HasSuffix(v.Reason, c.want), "%s: %s", c.name, v.Reason)
	}
}

func TestBaseline(t *testing.T) {
	var r san.Report
	r.Add(finding(san.KindThreadgroupRace, 26, 32))
	r.Add(finding(san.KindNaN, 5))
	base := &Baseline{}
	base.Add("a.json", r.Findings[0])
	base.Add("a.json", r.Findings[0])
	require.Len(t, base.Findings, 1)
	clean := &Case{Expect: []string{Clean}}
	v := Judge(clean, &r, base.Known())
	require.Equal(t, "expected clean, found nan at k.metal:5:2", v.Reason)
	require.Equal(t, r.Findings[:1], v.Known)
	base.Add("b.json", r.Findings[1])
	require.True(t, Judge(clean, &r, base.Known()).Held)
	expects := &Case{Expect: []string{san.KindNaN}}
	require.True(t, Judge(expects, &r, base.Known()).Held, "what is expected is not passed over")

	var b strings.Builder
	require.NoError(t, base.Write(&b))
	again, err := ParseBaseline("base.json", []byte(b.String()))
	require.NoError(t, err)
	require.Equal(t, base, again)
	require.Equal(t, "k.metal:5:2", again.Findings[0].Where)
	for text, want := range map[string]string{
		`{}`:                                     "base.json: findings: found no such key, want it",
		`{"findings": [{"case": "a"}]}`:          "base.json: findings[0].id: found no such key, want it",
		`{"findings": [{"id": ""}]}`:             `base.json: findings[0].id: found "", want the id of a finding`,
		`{"findings": [{"id": "a", "line": 1}]}`: "base.json: findings[0].line: found an unknown key, want one of case, id, reason, where",
	} {
		_, err := ParseBaseline("base.json", []byte(text))
		require.EqualError(t, err, want)
	}
}

// A baseline accepts findings, not launches that never ran.
func TestBaselineNeedsARun(t *testing.T) {
	c := &Case{Expect: []string{Clean}}
	for kind, held := range map[string]bool{
		san.KindThreadgroupRace: true, san.KindNaN: true,
		san.KindCompileError: false, san.KindInvalidLaunch: false, san.KindTypeMismatch: false, san.KindTimeout: false,
	} {
		f := finding(kind, 3)
		f.ID = kind + "-0123"
		v := Judge(c, &san.Report{Findings: []*san.Finding{f}}, map[string]bool{f.ID: true})
		require.Equal(t, held, v.Held, kind)
		require.Equal(t, held, len(v.Known) == 1, kind)
	}
}
