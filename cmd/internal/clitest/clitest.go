// Package clitest is what the tests of mverify and mbench share: the shell text of
// docs/ci.md and docs/ci/, run with stand-ins for the commands, so that a test sees
// every command line as the shell makes it and holds it against the real flags.
//
// It needs sh and bash, and runs nothing else.
package clitest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert/yaml"
	"github.com/stretchr/testify/require"
)

// Call is one command line that ran, the command's name first.
type Call []string

// Sandbox is a folder in which scripts run with stand-ins for commands.
type Sandbox struct {
	t   testing.TB
	Dir string
}

// commands are what scripts may run and do not get.
var commands = []string{"mverify", "mbench", "go", "kubectl", "xcrun", "xcodebuild"}

// NewSandbox makes one. The stand-ins, in bin/ and in the PATH, log their command
// line and end with 0; Stub gives one another behaviour.
func NewSandbox(t testing.TB) *Sandbox {
	s := &Sandbox{t: t, Dir: t.TempDir()}
	require.NoError(t, os.Mkdir(filepath.Join(s.Dir, "bin"), 0o755))
	for _, c := range commands {
		s.Stub(c, "exit 0")
	}
	// sbatch runs what --wrap says, and tells a job's number.
	s.Stub("sbatch", `for last; do :; done; case "$*" in *--wrap*) sh -c "$last";; *--parsable*) echo 42;; esac`)
	return s
}

// Stub has a command log its line and then run a script.
func (s *Sandbox) Stub(name, script string) {
	text := fmt.Sprintf("#!/bin/sh\n{ echo %s; for a; do printf '%%s\\n' \"$a\"; done; echo; } >>%s/.calls\n%s\n", name, s.Dir, script)
	require.NoError(s.t, os.WriteFile(filepath.Join(s.Dir, "bin", name), []byte(text), 0o755))
}

// Run runs a script with a shell ("sh" or "bash") and gives its output, its exit code
// and what it called. An undefined variable ends it.
func (s *Sandbox) Run(shell, script string, environ ...string) (out string, code int, calls []Call) {
	s.t.Helper()
	log := filepath.Join(s.Dir, ".calls")
	require.NoError(s.t, os.WriteFile(log, nil, 0o644))
	path, err := exec.LookPath(shell)
	require.NoError(s.t, err)
	// GitHub runs a step with -e; -u finds misspelt names everywhere.
	cmd := exec.Command(path, "-eu", "-c", script)
	cmd.Dir = s.Dir
	cmd.Env = append([]string{"PATH=" + filepath.Join(s.Dir, "bin") + ":/usr/local/bin:/usr/bin:/bin"}, environ...)
	text, err := cmd.CombinedOutput()
	if err != nil {
		require.ErrorAs(s.t, err, new(*exec.ExitError), "%s", text)
	}
	data, err := os.ReadFile(log)
	require.NoError(s.t, err)
	for _, call := range strings.Split(strings.TrimSpace(string(data)), "\n\n") {
		if call != "" {
			calls = append(calls, strings.Split(call, "\n"))
		}
	}
	return string(text), cmd.ProcessState.ExitCode(), calls
}

// Workflow is the part of a GitHub workflow that tests read.
type Workflow struct {
	Name string
	Jobs map[string]struct {
		RunsOn   string `yaml:"runs-on"`
		Needs    string
		Strategy struct {
			Matrix struct{ Shard []int }
		}
		Steps []struct {
			Name, Uses, Run string
		}
	}
}

// Job is the part of a Kubernetes Job that tests read.
type Job struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Spec       struct {
		CompletionMode           string `yaml:"completionMode"`
		Completions, Parallelism int
		Template                 struct {
			Spec struct {
				RestartPolicy string `yaml:"restartPolicy"`
				Containers    []struct {
					Command, Args []string
				}
			}
		}
	}
}

// ReadYAML reads a file of docs/ci; root is the checkout.
func ReadYAML(t testing.TB, root, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "docs/ci", name))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, into), name)
}

// Expand puts a shard's number in the place of ${{ matrix.shard }}. No other
// expression may stand in a script.
func Expand(t testing.TB, script string, shard int) string {
	script = strings.ReplaceAll(script, "${{ matrix.shard }}", fmt.Sprint(shard))
	require.NotContains(t, script, "${{")
	return script
}

// DocCalls runs all shell text of docs/ci.md and docs/ci and gives the calls of one
// command, by the file that has them.
func DocCalls(t testing.TB, root, command string) map[string][]Call {
	t.Helper()
	s := NewSandbox(t)
	found := map[string][]Call{}
	run := func(file, shell, script string, environ ...string) {
		out, code, calls := s.Run(shell, script, environ...)
		require.Zero(t, code, "%s: %s\n%s", file, script, out)
		for _, c := range calls {
			if c[0] == command {
				found[file] = append(found[file], c)
			}
		}
	}
	for _, file := range []string{"github-actions.yml", "github-actions-shards.yml"} {
		var w Workflow
		ReadYAML(t, root, file, &w)
		for _, job := range w.Jobs {
			shards := job.Strategy.Matrix.Shard
			if shards == nil {
				shards = []int{0}
			}
			for _, step := range job.Steps {
				if job.RunsOn != "ubuntu-latest" || step.Run == "" {
					continue
				}
				for _, shard := range shards {
					run(file, "bash", Expand(t, step.Run, shard))
				}
			}
		}
	}
	var job Job
	ReadYAML(t, root, "kubernetes-job.yaml", &job)
	for i := range job.Spec.Completions {
		run("kubernetes-job.yaml", "sh", job.Spec.Template.Spec.Containers[0].Args[0], fmt.Sprintf("JOB_COMPLETION_INDEX=%d", i))
	}
	slurm, err := os.ReadFile(filepath.Join(root, "docs/ci/slurm-array.sh"))
	require.NoError(t, err)
	m := regexp.MustCompile(`(?m)^#SBATCH --array=1-(\d+)$`).FindSubmatch(slurm)
	require.NotNil(t, m)
	var count int
	_, err = fmt.Sscan(string(m[1]), &count)
	require.NoError(t, err)
	for i := 1; i <= count; i++ {
		run("slurm-array.sh", "sh", string(slurm), fmt.Sprintf("SLURM_ARRAY_TASK_ID=%d", i), fmt.Sprintf("SLURM_ARRAY_TASK_COUNT=%d", count))
	}
	submit := regexp.MustCompile(`(?m)^#   (.*)$`).FindAllSubmatch(slurm, -1)
	require.NotEmpty(t, submit)
	var lines []string
	for _, l := range submit {
		lines = append(lines, string(l[1]))
	}
	run("slurm-array.sh", "sh", strings.Join(lines, "\n"))
	page, err := os.ReadFile(filepath.Join(root, "docs/ci.md"))
	require.NoError(t, err)
	// Blocks that name a language are output or code.
	for _, block := range regexp.MustCompile("(?sm)^```(\\w*)\n(.*?)^```$").FindAllSubmatch(page, -1) {
		if len(block[1]) == 0 {
			run("ci.md", "sh", string(block[2]))
		}
	}
	return found
}
