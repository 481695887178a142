package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"minfer/harness"
)

// Completion describes a program to the shell.
type Completion struct {
	Program  string
	Commands []string // what the first argument may be, but for flags
	// Values are what some flags take, by flag. Those of Lists take several, with
	// commas between.
	Values map[string][]string
	Lists  []string
	// Run is the program. It is run with --help, of itself and of each command, so
	// that the flags are those that it reads.
	Run func(ctx context.Context, s Streams, args []string) (int, error)
}

const completionUsage = `
%[1]s completion prints a script that completes %[1]s's commands, flags and their
values in a shell.

usage: %[1]s completion bash > /etc/bash_completion.d/%[1]s      or: source <(%[1]s completion bash)
       %[1]s completion zsh > DIR/_%[1]s                         with DIR in fpath
`

// Complete is the command `completion`.
func (c Completion) Complete(ctx context.Context, s Streams, args []string) (int, error) {
	if err := Parse(Flags(s, c.Program+" completion", fmt.Sprintf(completionUsage, c.Program)), args, 0, 1); err != nil {
		return 0, err
	}
	if len(args) != 1 || args[0] != "bash" && args[0] != "zsh" {
		return 0, fmt.Errorf("completion %s: want bash or zsh", strings.Join(args, " "))
	}
	flags := map[string][]*pflag.Flag{}
	for _, command := range append([]string{""}, c.Commands...) {
		call := []string{command, "--help"}
		if command == "" {
			call = call[1:]
		}
		var sets []*pflag.FlagSet
		if _, err := c.Run(ctx, Streams{Stdout: io.Discard, Stderr: io.Discard, sets: &sets}, call); err != pflag.ErrHelp || len(sets) == 0 {
			return 0, fmt.Errorf("%s %s: it tells no flags: %w", c.Program, strings.Join(call, " "), err)
		}
		sets[0].VisitAll(func(f *pflag.Flag) { flags[command] = append(flags[command], f) })
	}
	script := c.bash(flags)
	if args[0] == "zsh" {
		script = c.zsh(flags)
	}
	_, err := io.WriteString(s.Stdout, script)
	return harness.ExitHeld, err
}

// names are a flag's, with their dashes.
func names(f *pflag.Flag) []string {
	all := []string{"--" + f.Name}
	if f.Shorthand != "" {
		all = append(all, "-"+f.Shorthand)
	}
	return all
}

// bash is the script for bash.
func (c Completion) bash(flags map[string][]*pflag.Flag) string {
	var b strings.Builder
	fn := "_" + c.Program
	fmt.Fprintf(&b, "# Completion of %s in bash, printed by `%[1]s completion bash`.\n%s() {\n", c.Program, fn)
	b.WriteString("    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} head= words=\n    COMPREPLY=()\n    case $prev in\n")
	for _, name := range c.valued() {
		fmt.Fprintf(&b, "    --%s)\n", name)
		if slices.Contains(c.Lists, name) {
			b.WriteString("        [[ $cur == *,* ]] && head=${cur%,*},\n")
		}
		fmt.Fprintf(&b, "        COMPREPLY=($(compgen -P \"$head\" -W '%s' -- \"${cur#\"$head\"}\"))\n        return ;;\n", strings.Join(c.Values[name], " "))
	}
	b.WriteString("    esac\n    if [[ $cur == -* ]]; then\n        case ${COMP_WORDS[1]} in\n")
	for _, command := range c.Commands {
		fmt.Fprintf(&b, "        %s) words='%s' ;;\n", command, flagWords(flags[command]))
	}
	fmt.Fprintf(&b, "        *) words='%s' ;;\n        esac\n", flagWords(flags[""]))
	b.WriteString("        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n    elif ((COMP_CWORD == 1)); then\n")
	fmt.Fprintf(&b, "        COMPREPLY=($(compgen -W '%s' -- \"$cur\"))\n    fi\n}\n", strings.Join(c.Commands, " "))
	fmt.Fprintf(&b, "complete -o default -F %s %s\n", fn, c.Program)
	return b.String()
}

func flagWords(flags []*pflag.Flag) string {
	all := []string{"--help"}
	for _, f := range flags {
		all = append(all, names(f)...)
	}
	return strings.Join(all, " ")
}

// valued are the flags with known values, sorted.
func (c Completion) valued() []string {
	all := make([]string, 0, len(c.Values))
	for name := range c.Values {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// zsh is the script for zsh.
func (c Completion) zsh(flags map[string][]*pflag.Flag) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#compdef %s\n# Completion of %[1]s in zsh, printed by `%[1]s completion zsh`.\n_%[1]s() {\n    local -a specs\n", c.Program)
	b.WriteString("    case $words[2] in\n")
	for _, command := range append(slices.Clone(c.Commands), "") {
		label := command
		if command == "" {
			label = "*"
		}
		fmt.Fprintf(&b, "    %s)\n        specs=(\n", label)
		for _, f := range flags[command] {
			for _, name := range names(f) {
				fmt.Fprintf(&b, "            '%s'\n", c.spec(name, f))
			}
		}
		b.WriteString("        ) ;;\n")
	}
	b.WriteString("    esac\n")
	fmt.Fprintf(&b, "    if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then\n        compadd -- %s\n        return\n    fi\n", strings.Join(c.Commands, " "))
	fmt.Fprintf(&b, "    _arguments $specs '*:file:_files'\n}\nif [[ $funcstack[1] == _%s ]]; then\n    _%[1]s \"$@\"\nelse\n    compdef _%[1]s %[1]s\nfi\n", c.Program)
	return b.String()
}

// spec is a flag as _arguments reads it.
func (c Completion) spec(name string, f *pflag.Flag) string {
	usage := strings.NewReplacer("'", "", "[", "(", "]", ")", ":", " -", "\\", "").Replace(f.Usage)
	s := name + "[" + usage + "]"
	switch values := c.Values[f.Name]; {
	case f.NoOptDefVal != "":
		return s
	case values != nil && !slices.Contains(c.Lists, f.Name):
		return s + ":" + f.Name + ":(" + strings.Join(values, " ") + ")"
	case values != nil:
		return s + ":" + f.Name + ":_sequence compadd - " + strings.Join(values, " ")
	}
	return s + ":" + f.Name + ":_files"
}
