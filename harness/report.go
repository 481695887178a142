package harness

import (
	"bufio"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// Provenance says where numbers and verdicts come from. Every record carries it.
type Provenance struct {
	Date    string `json:"date"`             // RFC 3339
	Command string `json:"command"`          // as typed
	Commit  string `json:"commit"`           // of the build; "unknown" outside a checkout
	Host    string `json:"host"`             // processor and operating system
	Device  string `json:"device"`           // what ran the cases; of several, in the order they ran
	Oracle  string `json:"oracle,omitempty"` // library version, variant and glibc, where one took part
	Levers  string `json:"levers,omitempty"` // those set, as NAME=value
	Model   string `json:"model,omitempty"`  // name and SHA-256 of a file to verify with, where one was given
}

// Report is the outcome of a run.
type Report struct {
	Provenance  Provenance `json:"provenance"`
	Selected    int        `json:"selected"`
	Interrupted bool       `json:"interrupted,omitempty"`
	Results     []Result   `json:"results"`
}

// Exit codes of the commands.
const (
	ExitHeld     = 0 // all held
	ExitFailed   = 1 // something did not hold
	ExitBadInput = 2 // bad usage or bad input
	ExitNothing  = 3 // nothing ran
)

// Count is the number of results with the outcome.
func (r *Report) Count(o Outcome) int {
	n := 0
	for i := range r.Results {
		if r.Results[i].Outcome == o {
			n++
		}
	}
	return n
}

// ExitCode is the process's exit code for the report. An interrupted run did
// not hold, and a run in which no case was judged is not a pass.
func (r *Report) ExitCode() int {
	switch {
	case r.Count(Fail) > 0 || r.Interrupted:
		return ExitFailed
	case r.Count(Pass) == 0:
		return ExitNothing
	default:
		return ExitHeld
	}
}

// Totals sums the counts of all results by name, in order of first appearance.
func (r *Report) Totals() []Count {
	var totals []Count
	at := map[string]int{}
	for _, res := range r.Results {
		for _, c := range res.Counts {
			i, ok := at[c.Name]
			if !ok {
				i = len(totals)
				at[c.Name] = i
				totals = append(totals, Count{Name: c.Name})
			}
			totals[i].N += c.N
		}
	}
	return totals
}

// Summary is the closing line: "214 passed, 0 failed, 3 unsupported, 0 skipped".
func (r *Report) Summary() string {
	return fmt.Sprintf("%d passed, %d failed, %d unsupported, %d skipped",
		r.Count(Pass), r.Count(Fail), r.Count(Unsupported), r.Count(Skipped))
}

// severalDevices says whether results are of more than one device: then, and only
// then, each is printed with its own.
func (r *Report) severalDevices() bool {
	first := ""
	for i := range r.Results {
		switch d := r.Results[i].Device; {
		case d == "" || d == first:
		case first == "":
			first = d
		default:
			return true
		}
	}
	return false
}

// name is the case's identity, with the device where the report has several: "ops/add
// d=1 rows=2 on soft".
func (r *Result) name(several bool) string {
	if several && r.Device != "" {
		return r.Case + " on " + r.Device
	}
	return r.Case
}

// Formats lists the names that Write knows.
var Formats = []string{"text", "json", "jsonl", "junit", "sarif", "github"}

// Write prints the report in a format of Formats. verbose adds passing cases to
// the text.
func (r *Report) Write(w io.Writer, format string, verbose bool) error {
	b := bufio.NewWriter(w)
	var err error
	switch format {
	case "text":
		r.text(b, verbose)
	case "json":
		enc := json.NewEncoder(b)
		enc.SetIndent("", "  ")
		err = enc.Encode(r)
	case "jsonl":
		err = r.jsonl(b)
	case "junit":
		err = r.junit(b)
	case "sarif":
		err = r.sarif(b)
	case "github":
		r.github(b)
	default:
		return fmt.Errorf("unknown format %q: want one of %s", format, strings.Join(Formats, ", "))
	}
	if err != nil {
		return err
	}
	return b.Flush()
}

// text is for people: what did not pass, in full, then counts and a summary.
func (r *Report) text(w io.Writer, verbose bool) {
	several := r.severalDevices()
	for _, res := range r.Results {
		if res.Outcome == Pass && !verbose {
			continue
		}
		fmt.Fprintf(w, "%-11s %s", strings.ToUpper(res.Outcome.String()), res.name(several))
		if res.Reason != "" {
			fmt.Fprintf(w, ": %s", res.Reason)
		} else if res.Comparison != nil {
			fmt.Fprintf(w, ": %s", res.Comparison)
		}
		fmt.Fprintln(w)
		if verbose && len(res.Counts) > 0 {
			fmt.Fprintf(w, "            %s\n", counts(res.Counts))
		}
		for _, d := range res.Details {
			fmt.Fprintf(w, "            %s\n", d)
		}
		if res.Rerun != "" {
			fmt.Fprintf(w, "            rerun: %s\n", res.Rerun)
		}
	}
	for _, res := range r.Results {
		if res.Note != "" {
			fmt.Fprintln(w, res.Note)
		}
	}
	if totals := r.Totals(); len(totals) > 0 {
		fmt.Fprintln(w, counts(totals))
	}
	if r.Provenance.Oracle != "" {
		fmt.Fprintf(w, "oracle: %s\n", r.Provenance.Oracle)
	}
	fmt.Fprintf(w, "%s\n", r.Summary())
	if r.Interrupted {
		fmt.Fprintln(w, "interrupted: this report is partial")
	}
}

func counts(cs []Count) string {
	parts := make([]string, len(cs))
	for i, c := range cs {
		parts[i] = fmt.Sprintf("%s %d", c.Name, c.N)
	}
	return strings.Join(parts, ", ")
}

// jsonl is one line of provenance, then one line per case.
func (r *Report) jsonl(w io.Writer) error {
	enc := json.NewEncoder(w)
	if err := enc.Encode(r.Provenance); err != nil {
		return err
	}
	for i := range r.Results {
		if err := enc.Encode(&r.Results[i]); err != nil {
			return err
		}
	}
	return nil
}

type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	XMLName    xml.Name        `xml:"testsuite"`
	Name       string          `xml:"name,attr"`
	Package    string          `xml:"package,attr"`
	ID         int             `xml:"id,attr"`
	Hostname   string          `xml:"hostname,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr"`
	Timestamp  string          `xml:"timestamp,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
	Out        string          `xml:"system-out"`
	Err        string          `xml:"system-err"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	XMLName   xml.Name      `xml:"testcase"`
	Name      string        `xml:"name,attr"`
	Classname string        `xml:"classname,attr"`
	Time      string        `xml:"time,attr"`
	Failure   *junitFailure `xml:"failure"`
	Skipped   *junitSkipped `xml:"skipped"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

type junitSkipped struct {
	Message string `xml:"message,attr"`
}

// junit writes one testsuite per suite name, with all that Ant's schema of the format
// asks for, which is the strictest: its order, properties with the provenance, empty
// outputs. JUnit has no 'unsupported': both it
// and 'skipped' become <skipped>, told apart by the message.
func (r *Report) junit(w io.Writer) error {
	var out junitSuites
	at := map[string]int{}
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.6f", d.Seconds()) }
	total := map[string]time.Duration{}
	several := r.severalDevices()
	p := &r.Provenance
	var properties []junitProperty
	for _, v := range []junitProperty{{"command", p.Command}, {"commit", p.Commit}, {"host", p.Host}, {"device", p.Device}, {"oracle", p.Oracle}, {"levers", p.Levers}} {
		if v.Value != "" {
			properties = append(properties, v)
		}
	}
	for _, res := range r.Results {
		suite, name, _ := strings.Cut(res.Case, "/")
		if several && res.Device != "" {
			suite += " on " + res.Device
		}
		i, ok := at[suite]
		if !ok {
			i = len(out.Suites)
			at[suite] = i
			out.Suites = append(out.Suites, junitSuite{
				Name: suite, Package: "minfer", ID: i, Hostname: "localhost", Timestamp: junitTime(r.Provenance.Date), Properties: properties,
			})
		}
		s := &out.Suites[i]
		c := junitCase{Name: name, Classname: suite, Time: seconds(res.Duration)}
		s.Tests++
		switch res.Outcome {
		case Fail:
			s.Failures++
			text := append([]string{}, res.Details...)
			if res.Rerun != "" {
				text = append(text, "rerun: "+res.Rerun)
			}
			c.Failure = &junitFailure{Message: res.Reason, Type: res.rule(), Text: strings.Join(text, "\n")}
		case Unsupported, Skipped:
			s.Skipped++
			c.Skipped = &junitSkipped{Message: res.Outcome.String() + ": " + res.Reason}
		}
		total[suite] += res.Duration
		s.Time = fmt.Sprintf("%.3f", total[suite].Seconds()) // all that Jenkins takes
		s.Cases = append(s.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(out); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// junitTime drops the zone, which the JUnit schema does not allow, and is the epoch
// where there is no date, which the schema wants.
func junitTime(rfc3339 string) string {
	t, err := time.Parse(time.RFC3339, rfc3339)
	if err != nil {
		t = time.Unix(0, 0)
	}
	return t.UTC().Format("2006-01-02T15:04:05")
}
