package harness

import (
	"fmt"
	"io"
	"strings"
)

// github writes what failed as workflow commands of GitHub Actions, one a line: a
// finding becomes an annotation at its file and line, a failed case without one an
// annotation of the run. The summary is a plain line of the log.
func (r *Report) github(w io.Writer) {
	several := r.severalDevices()
	for i := range r.Results {
		res := &r.Results[i]
		if res.Outcome != Fail {
			continue
		}
		name := res.name(several)
		for _, f := range res.findings() {
			command := map[string]string{LevelWarning: "warning", LevelNote: "notice"}[f.Level]
			if command == "" {
				command = "error"
			}
			var props []string
			add := func(key, value string) { props = append(props, key+"="+githubProperty.Replace(value)) }
			if f.At.File != "" {
				add("file", f.At.File)
				if f.At.Line > 0 {
					add("line", fmt.Sprint(f.At.Line))
				}
				if f.At.Column > 0 {
					add("col", fmt.Sprint(f.At.Column))
				}
				add("title", f.Rule)
			} else {
				add("title", name)
			}
			text := []string{f.Message}
			for _, place := range f.Related {
				text = append(text, fmt.Sprintf("%s:%d:%d: %s", place.File, place.Line, place.Column, place.What))
			}
			if f.At.File != "" {
				text = append(text, "case: "+name)
			}
			if res.Rerun != "" {
				text = append(text, "rerun: "+res.Rerun)
			}
			fmt.Fprintf(w, "::%s %s::%s\n", command, strings.Join(props, ","), githubMessage.Replace(strings.Join(text, "\n")))
		}
	}
	switch {
	case r.Interrupted:
		fmt.Fprintln(w, "::error title=interrupted::this report is partial")
	case r.ExitCode() == ExitNothing:
		fmt.Fprintln(w, "::error title=nothing ran::no case was judged")
	}
	fmt.Fprintln(w, r.Summary())
}

// What a workflow command escapes: in its message, and in the values before it.
var (
	githubMessage  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	githubProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)
