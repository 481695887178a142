package harness

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/url"
	"path"
	"strings"
)

// The parts of SARIF 2.1.0 that a report has. The names are the schema's.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		Invocations []sarifInvocation `json:"invocations"`
		Results     []sarifResult     `json:"results"`
		Properties  map[string]any    `json:"properties,omitempty"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID    string       `json:"id"`
		Short sarifMessage `json:"shortDescription"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifInvocation struct {
		CommandLine   string              `json:"commandLine,omitempty"`
		EndTime       string              `json:"endTimeUtc,omitempty"`
		ExitCode      int                 `json:"exitCode"`
		Successful    bool                `json:"executionSuccessful"`
		Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
	}
	sarifNotification struct {
		Level   string       `json:"level"`
		Message sarifMessage `json:"message"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Level        string            `json:"level"`
		Message      sarifMessage      `json:"message"`
		Locations    []sarifLocation   `json:"locations"`
		Related      []sarifLocation   `json:"relatedLocations,omitempty"`
		Fingerprints map[string]string `json:"partialFingerprints"`
		Properties   map[string]any    `json:"properties,omitempty"`
	}
	sarifLocation struct {
		ID       int            `json:"id,omitempty"`
		Physical *sarifPhysical `json:"physicalLocation,omitempty"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
		Message  *sarifMessage  `json:"message,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
	sarifLogical struct {
		Name string `json:"fullyQualifiedName"`
	}
)

// sarif writes what failed as results of SARIF 2.1.0: one for each finding, at its
// file and line; of a failed case without findings, one whose place is the case's
// identity alone. Cases that passed are in no result, as those that were refused.
func (r *Report) sarif(w io.Writer) error {
	p := &r.Provenance
	tool, _, _ := strings.Cut(p.Command, " ")
	if tool == "" {
		tool = "mverify"
	}
	run := sarifRun{
		Tool:    sarifTool{sarifDriver{Name: tool, Version: p.Commit, Rules: []sarifRule{}}},
		Results: []sarifResult{},
		Invocations: []sarifInvocation{{
			CommandLine: p.Command, EndTime: p.Date, ExitCode: r.ExitCode(), Successful: !r.Interrupted,
		}},
		Properties: map[string]any{"summary": r.Summary(), "host": p.Host, "device": p.Device},
	}
	if p.Levers != "" {
		run.Properties["levers"] = p.Levers
	}
	if p.Oracle != "" {
		run.Properties["oracle"] = p.Oracle
	}
	if r.Interrupted {
		run.Invocations[0].Notifications = []sarifNotification{{LevelError, sarifMessage{"interrupted: this report is partial"}}}
	}
	rules := map[string]int{}
	several := r.severalDevices()
	for i := range r.Results {
		res := &r.Results[i]
		if res.Outcome != Fail {
			continue
		}
		name := res.name(several)
		logical := []sarifLogical{{name}}
		for _, f := range res.findings() {
			at, ok := rules[f.Rule]
			if !ok {
				at = len(run.Tool.Driver.Rules)
				rules[f.Rule] = at
				run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{f.Rule, sarifMessage{describeRule(f.Rule)}})
			}
			out := sarifResult{
				RuleID: f.Rule, RuleIndex: at, Level: f.Level, Message: sarifMessage{f.Message},
				Locations:    []sarifLocation{{Physical: f.At.physical(), Logical: logical}},
				Fingerprints: map[string]string{"minfer/v1": f.fingerprint(name)},
				Properties:   map[string]any{"case": name},
			}
			if res.Rerun != "" {
				out.Properties["rerun"] = res.Rerun
			}
			for n, place := range f.Related {
				l := sarifLocation{ID: n + 1, Physical: place.physical()}
				if place.What != "" {
					l.Message = &sarifMessage{place.What}
				}
				out.Related = append(out.Related, l)
			}
			run.Results = append(run.Results, out)
		}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(sarifLog{
		Schema: "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run},
	})
}

// findings are a failed case's: its own, or one that says what its reason and
// details say, without a place.
func (r *Result) findings() []Finding {
	if len(r.Findings) > 0 {
		return r.Findings
	}
	text := append([]string{r.Reason}, r.Details...)
	return []Finding{{Rule: r.rule(), Level: LevelError, Message: strings.Join(text, "\n")}}
}

// rule is that of a case without a finding: its suite and op.
func (r *Result) rule() string {
	rule, _, _ := strings.Cut(r.Case, " ")
	return rule
}

func describeRule(rule string) string {
	if suite, op, ok := strings.Cut(rule, "/"); ok {
		return "suite " + suite + ": " + op + " does not hold"
	}
	return strings.ReplaceAll(rule, "-", " ")
}

// fingerprint is the same for the same fault in another run: the finding's own ID
// with the case's name, or of what has none the rule.
func (f *Finding) fingerprint(name string) string {
	id := f.ID
	if id == "" {
		id = f.Rule
	}
	sum := sha256.Sum256([]byte(name + "\x00" + id))
	return hex.EncodeToString(sum[:16])
}

// physical is nil for no file.
func (p Place) physical() *sarifPhysical {
	if p.File == "" {
		return nil
	}
	out := &sarifPhysical{Artifact: sarifArtifact{uri(p.File)}}
	if p.Line > 0 {
		out.Region = &sarifRegion{p.Line, p.Column}
	}
	return out
}

// uri is a file's path as a URI: relative stays relative.
func uri(file string) string {
	file = path.Clean(file)
	if path.IsAbs(file) {
		return (&url.URL{Scheme: "file", Path: file}).String()
	}
	return (&url.URL{Path: file}).String()
}
