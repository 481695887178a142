package harness

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// deviceReport is of two devices, with a finding in a file.
func deviceReport() *Report {
	race := Failed("expected clean, found threadgroup-race at softmax.metal:26:24")
	race.Case, race.Rerun = "case/k/softmax 256.json", "mverify case 'k/softmax 256.json'"
	race.Findings = []Finding{
		{Rule: "threadgroup-race", Level: LevelError, Message: "write and read, 100% of the time", ID: "threadgroup-race-01b728b0",
			At: Place{File: "k/soft max.metal", Line: 26, Column: 24}, Related: []Place{{File: "k/soft max.metal", Line: 34, Column: 9, What: "write by simdgroup 0"}}},
		{Rule: "nan", Level: LevelWarning, Message: "two\nlines", At: Place{File: "k/softmax 256.json"}},
		{Rule: "device-race", Level: LevelNote, Message: "equal values", At: Place{File: "/abs/a.metal", Line: 1}},
	}
	onCPU, onSoft := Passed(), Failed("element 3 is 1, want 2")
	onCPU.Case, onCPU.Device = "ops/add d=4", "cpu"
	onSoft.Case, onSoft.Device, onSoft.Rerun = "ops/add d=4", "soft", "mverify --suite ops --device soft --filter '^ops/add d=4$'"
	onSoft.Details = []string{"a: b, c"}
	return &Report{
		Provenance: Provenance{Date: "2026-01-02T03:04:05Z", Command: "mverify --suite ops --device cpu,soft", Commit: "abc", Host: "a processor", Device: "cpu (avx2), soft (strict)", Levers: "MINFER_GEMM=0"},
		Selected:   3,
		Results:    []Result{race, onCPU, onSoft},
	}
}

// With several devices each result is printed with its own; JUnit makes a suite of
// each.
func TestSeveralDevices(t *testing.T) {
	for format, file := range map[string]string{"text": "devices.txt", "json": "devices.json", "junit": "devices.xml", "sarif": "devices.sarif", "github": "devices.github"} {
		var b bytes.Buffer
		require.NoError(t, deviceReport().Write(&b, format, true))
		golden(t, filepath.Join("testdata", file), b.Bytes())
	}
	r := deviceReport()
	for i := range r.Results {
		if r.Results[i].Device != "" {
			r.Results[i].Device = "soft"
		}
	}
	var b bytes.Buffer
	require.NoError(t, r.Write(&b, "text", true))
	require.NotContains(t, b.String(), " on soft", "one device is said once, in the provenance")

	b.Reset()
	require.NoError(t, deviceReport().Write(&b, "junit", false))
	var suites junitSuites
	require.NoError(t, xml.Unmarshal(b.Bytes(), &suites))
	var names []string
	for _, s := range suites.Suites {
		names = append(names, s.Name)
	}
	require.Equal(t, []string{"case", "ops on cpu", "ops on soft"}, names)
}

// sarifShape is what the schema of SARIF 2.1.0 allows in the objects that a report
// has: property to the object within, "" for a plain value; required ones first.
var sarifShape = map[string]struct {
	required   []string
	properties map[string]string
}{
	"log":          {[]string{"version", "runs"}, map[string]string{"$schema": "", "version": "", "runs": "run"}},
	"run":          {[]string{"tool"}, map[string]string{"tool": "tool", "invocations": "invocation", "results": "result", "properties": "bag"}},
	"tool":         {[]string{"driver"}, map[string]string{"driver": "component"}},
	"component":    {[]string{"name"}, map[string]string{"name": "", "version": "", "rules": "rule"}},
	"rule":         {[]string{"id"}, map[string]string{"id": "", "shortDescription": "text"}},
	"text":         {[]string{"text"}, map[string]string{"text": ""}},
	"invocation":   {[]string{"executionSuccessful"}, map[string]string{"executionSuccessful": "", "commandLine": "", "endTimeUtc": "", "exitCode": "", "toolExecutionNotifications": "notification"}},
	"notification": {[]string{"message"}, map[string]string{"message": "text", "level": ""}},
	"result": {[]string{"message"}, map[string]string{"message": "text", "ruleId": "", "ruleIndex": "", "level": "", "locations": "location",
		"relatedLocations": "location", "partialFingerprints": "bag", "properties": "bag"}},
	"location":         {nil, map[string]string{"id": "", "physicalLocation": "physicalLocation", "logicalLocations": "logicalLocation", "message": "text"}},
	"physicalLocation": {[]string{"artifactLocation"}, map[string]string{"artifactLocation": "artifactLocation", "region": "region"}},
	"artifactLocation": {nil, map[string]string{"uri": ""}},
	"region":           {[]string{"startLine"}, map[string]string{"startLine": "", "startColumn": ""}},
	"logicalLocation":  {nil, map[string]string{"fullyQualifiedName": ""}},
}

func checkShape(t *testing.T, kind string, v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			checkShape(t, kind, e)
		}
	case map[string]any:
		if kind == "bag" {
			return
		}
		shape, ok := sarifShape[kind]
		require.True(t, ok, "an object where a value of %q is wanted", kind)
		for _, key := range shape.required {
			require.Contains(t, v, key, kind)
		}
		for key, inner := range v {
			require.Contains(t, shape.properties, key, kind)
			checkShape(t, shape.properties[key], inner)
		}
	default:
		require.Empty(t, kind, "%v where an object is wanted", v)
	}
}

func TestSARIF(t *testing.T) {
	interrupted := report()
	interrupted.Interrupted = true
	for _, r := range []*Report{report(), deviceReport(), interrupted, {}} {
		var b bytes.Buffer
		require.NoError(t, r.Write(&b, "sarif", false))
		var raw any
		require.NoError(t, json.Unmarshal(b.Bytes(), &raw))
		checkShape(t, "log", raw)
		var log sarifLog
		require.NoError(t, json.Unmarshal(b.Bytes(), &log))
		require.Equal(t, "2.1.0", log.Version)
		require.Len(t, log.Runs, 1)
		run := log.Runs[0]
		require.Equal(t, !r.Interrupted, run.Invocations[0].Successful)
		require.Equal(t, r.ExitCode(), run.Invocations[0].ExitCode)
		seen := map[string]bool{}
		for _, res := range run.Results {
			require.Equal(t, res.RuleID, run.Tool.Driver.Rules[res.RuleIndex].ID)
			require.Contains(t, []string{"none", "note", "warning", "error"}, res.Level)
			require.NotEmpty(t, res.Locations[0].Logical[0].Name)
			require.False(t, seen[res.Fingerprints["minfer/v1"]], "two faults with one fingerprint")
			seen[res.Fingerprints["minfer/v1"]] = true
			for _, l := range append(res.Locations, res.Related...) {
				if l.Physical != nil && l.Physical.Region != nil {
					require.Positive(t, l.Physical.Region.StartLine)
				}
			}
		}
		require.Equal(t, r.Count(Fail) > 0, len(run.Results) > 0)
	}

	var b bytes.Buffer
	require.NoError(t, deviceReport().Write(&b, "sarif", false))
	var log sarifLog
	require.NoError(t, json.Unmarshal(b.Bytes(), &log))
	results := log.Runs[0].Results
	require.Len(t, results, 4)
	require.Equal(t, "k/soft%20max.metal", results[0].Locations[0].Physical.Artifact.URI)
	require.Equal(t, sarifRegion{26, 24}, *results[0].Locations[0].Physical.Region)
	require.Equal(t, 34, results[0].Related[0].Physical.Region.StartLine)
	require.Equal(t, "file:///abs/a.metal", results[2].Locations[0].Physical.Artifact.URI)
	require.Nil(t, results[3].Locations[0].Physical, "a value that is wrong has no line")
	require.Equal(t, "ops/add d=4 on soft", results[3].Locations[0].Logical[0].Name)
	require.Equal(t, "ops/add", results[3].RuleID)
}

// Each annotation is one line that reads back as what was meant, by the rules of
// the runner: %25, %0D and %0A in a message, %3A and %2C in a property too.
func TestGitHub(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, deviceReport().Write(&b, "github", false))
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	require.Len(t, lines, 5)
	require.Equal(t, "1 passed, 2 failed, 0 unsupported, 0 skipped", lines[4])
	type command struct {
		name    string
		props   map[string]string
		message string
	}
	read := func(line string) command {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "::"), " ")
		require.True(t, ok)
		props, message, ok := strings.Cut(rest, "::")
		require.True(t, ok, line)
		back := strings.NewReplacer("%25", "%", "%0D", "\r", "%0A", "\n", "%3A", ":", "%2C", ",")
		c := command{name, map[string]string{}, strings.NewReplacer("%25", "%", "%0D", "\r", "%0A", "\n").Replace(message)}
		for _, p := range strings.Split(props, ",") {
			key, value, ok := strings.Cut(p, "=")
			require.True(t, ok, p)
			c.props[key] = back.Replace(value)
		}
		return c
	}
	require.Equal(t, command{"error", map[string]string{"file": "k/soft max.metal", "line": "26", "col": "24", "title": "threadgroup-race"},
		"write and read, 100% of the time\nk/soft max.metal:34:9: write by simdgroup 0\ncase: case/k/softmax 256.json\nrerun: mverify case 'k/softmax 256.json'"}, read(lines[0]))
	require.Equal(t, "warning", read(lines[1]).name)
	require.Equal(t, "notice", read(lines[2]).name)
	require.Equal(t, command{"error", map[string]string{"title": "ops/add d=4 on soft"},
		"element 3 is 1, want 2\na: b, c\nrerun: mverify --suite ops --device soft --filter '^ops/add d=4$'"}, read(lines[3]))

	b.Reset()
	require.NoError(t, (&Report{Interrupted: true}).Write(&b, "github", false))
	require.Contains(t, b.String(), "::error title=interrupted::")
	b.Reset()
	require.NoError(t, (&Report{}).Write(&b, "github", false))
	require.Contains(t, b.String(), "::error title=nothing ran::")
}

func TestDiagnostics(t *testing.T) {
	path := func(file string) string {
		if file == "other.metal" {
			return ""
		}
		return "metal/kernels/" + file
	}
	r := Failed(`metal: submit of "split 0" failed: 2 errors, the first: norm.metal:12:5: device-race: write and read of x; last dispatches: rms_norm`)
	r.Details = []string{
		"norm.metal:12:5: error: device-race: write and read of x",
		"norm.metal:40:1: fatal error: unknown type name 'floaat'",
		"norm.metal:41:1: warning: unused",
		"norm.metal:42:1: note: declared here",
		"    norm.metal:43:9: error: indented, so of another",
		"other.metal:1:1: error: not the user's",
		"norm.metal:44:9: write by threadgroup 0",
	}
	require.Equal(t, []Finding{
		{Rule: "device-race", Level: LevelError, Message: "write and read of x; last dispatches: rms_norm", At: Place{File: "metal/kernels/norm.metal", Line: 12, Column: 5}},
		{Rule: "ops/x", Level: LevelError, Message: "unknown type name 'floaat'", At: Place{File: "metal/kernels/norm.metal", Line: 40, Column: 1}},
		{Rule: "ops/x", Level: LevelWarning, Message: "unused", At: Place{File: "metal/kernels/norm.metal", Line: 41, Column: 1}},
	}, Diagnostics("ops/x", &r, path))
	plain := Failed("element 3 is 1.5: want 2")
	require.Empty(t, Diagnostics("ops/x", &plain, path))
}
