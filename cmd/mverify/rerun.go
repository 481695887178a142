package main

import (
	"strings"

	"minfer/harness"
)

// settings are the environment's settings in front of a command that is to
// repeat this one: "MINFER_CPU_LEVEL=generic ". A setting that was made twice
// counts as the last says.
func settings(environ []string) string {
	values := map[string]string{}
	var names []string
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || !strings.HasPrefix(name, "MINFER_") {
			continue
		}
		if _, twice := values[name]; !twice {
			names = append(names, name)
		}
		values[name] = value
	}
	var b strings.Builder
	for _, name := range names {
		if values[name] != "" {
			b.WriteString(name + "=" + harness.ShellQuote(values[name]) + " ")
		}
	}
	return b.String()
}
