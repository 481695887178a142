package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cmd/internal/cli"
	"minfer/cmd/internal/clitest"
	"minfer/engine/lever"
	"minfer/harness"
	"minfer/metal/mtl/soft/san"
	"minfer/suites"
)

const root = "../.."

// Every mverify command line of docs/ci.md and docs/ci is one that this mverify
// takes.
func TestDocumentedCommands(t *testing.T) {
	calls := clitest.DocCalls(t, root, "mverify")
	for file, want := range map[string]int{"ci.md": 8, "github-actions.yml": 5, "github-actions-shards.yml": 9, "kubernetes-job.yaml": 8, "slurm-array.sh": 17} {
		require.GreaterOrEqual(t, len(calls[file]), want, file)
	}
	for file, list := range calls {
		for _, call := range list {
			where := fmt.Sprintf("%s: %s", file, strings.Join(call, " "))
			// With --help last, all that stands before has been read.
			code, out, errs := mverify(t, append(slices.Clone(call[1:]), "--help")...)
			require.Equal(t, harness.ExitHeld, code, "%s: %s", where, errs)
			require.Contains(t, out, "usage:", where)
			if !strings.HasPrefix(call[1], "-") {
				continue
			}
			var f flags
			require.NoError(t, cli.Parse(f.register(cli.Streams{}), call[1:], 0, 0), where)
			chosen, err := chooseSuites(f.suites)
			require.NoError(t, err, where)
			devices, err := f.deviceNames()
			require.NoError(t, err, where)
			for _, d := range devices {
				_, err := f.device(d, lever.Default(), san.Off)
				require.NoError(t, err, where)
			}
			_, left, _ := divide(chosen, devices)
			if f.suites != "all" {
				require.Empty(t, left, where)
			}
			_, err = suites.ParseTier(f.tier)
			require.NoError(t, err, where)
			_, _, err = cli.ParseShard(f.shard)
			require.NoError(t, err, where)
			require.Contains(t, harness.Formats, f.format, where)
		}
	}
}

// The parts of each ready-made file are the whole: 1/N to N/N, each once.
func TestDocumentedShards(t *testing.T) {
	for file, calls := range clitest.DocCalls(t, root, "mverify") {
		if file == "ci.md" || file == "github-actions.yml" {
			continue
		}
		var shards []string
		for _, call := range calls {
			if i := slices.Index(call, "--shard"); i > 0 {
				shards = append(shards, call[i+1])
			}
		}
		var want []string
		for i := range shards {
			want = append(want, fmt.Sprintf("%d/%d", i+1, len(shards)))
		}
		require.Greater(t, len(want), 1, file)
		require.Equal(t, want, shards, file)
	}
}

// The workflow has the two jobs: all suites with device soft on Linux, and every
// kernel file through Apple's compiler on macOS, whose faults are annotations and
// fail the job.
func TestWorkflow(t *testing.T) {
	var w clitest.Workflow
	clitest.ReadYAML(t, root, "github-actions.yml", &w)
	require.Len(t, w.Jobs, 2)
	require.Equal(t, "ubuntu-latest", w.Jobs["suites"].RunsOn)
	for _, job := range w.Jobs {
		for _, step := range job.Steps {
			require.NotEqual(t, step.Uses == "", step.Run == "", "a step uses an action or runs a script: %q", step.Name)
		}
	}
	all := false
	for _, call := range clitest.DocCalls(t, root, "mverify")["github-actions.yml"] {
		all = all || strings.Contains(strings.Join(call, " "), "--suite all --device cpu,soft")
	}
	require.True(t, all)

	job := w.Jobs["kernels"]
	require.True(t, strings.HasPrefix(job.RunsOn, "macos-"))
	script := job.Steps[len(job.Steps)-1].Run
	s := clitest.NewSandbox(t)
	own, err := filepath.Glob(root + "/metal/kernels/*.metal")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(s.Dir, "metal/kernels"), 0o755))
	for _, f := range own {
		require.NoError(t, os.WriteFile(filepath.Join(s.Dir, "metal/kernels", filepath.Base(f)), nil, 0o644))
	}
	out, code, calls := s.Run("bash", script)
	require.Zero(t, code, out)
	require.Len(t, calls, len(own), "each file once")
	require.NotContains(t, out, "::error")
	s.Stub("xcrun", `case "$*" in *norm.metal*) echo "metal/kernels/norm.metal:3:7: error: no such type" >&2; echo "1 error generated." >&2; exit 1;; esac`)
	out, code, calls = s.Run("bash", script)
	require.Equal(t, 1, code, "a file that does not compile fails the job")
	require.Len(t, calls, len(own), "the others are compiled all the same")
	require.Contains(t, out, "\n::error file=metal/kernels/norm.metal,line=3,col=7::no such type\n")
}

// A pod fails where there is no report, and not for a case that does not hold.
func TestKubernetesJob(t *testing.T) {
	var job clitest.Job
	clitest.ReadYAML(t, root, "kubernetes-job.yaml", &job)
	require.Equal(t, []string{"batch/v1", "Job", "Indexed", "Never"}, []string{job.APIVersion, job.Kind, job.Spec.CompletionMode, job.Spec.Template.Spec.RestartPolicy})
	require.Equal(t, job.Spec.Completions, job.Spec.Parallelism)
	script := job.Spec.Template.Spec.Containers[0].Args[0]
	s := clitest.NewSandbox(t)
	for exit, want := range map[int]bool{harness.ExitHeld: true, harness.ExitFailed: true, harness.ExitBadInput: false, harness.ExitNothing: false} {
		s.Stub("mverify", fmt.Sprintf("exit %d", exit))
		_, code, calls := s.Run("sh", script, "JOB_COMPLETION_INDEX=6")
		require.Equal(t, want, code == 0, "mverify ends with %d", exit)
		require.Contains(t, calls[0], "7/8")
		require.Contains(t, calls[0], "/results/verify-6.json")
	}
}

// A part with a case that does not hold still has its sweep, and ends with 1.
func TestSlurmArray(t *testing.T) {
	script, err := os.ReadFile(root + "/docs/ci/slurm-array.sh")
	require.NoError(t, err)
	s := clitest.NewSandbox(t)
	s.Stub("mverify", "exit 1")
	out, code, calls := s.Run("sh", strings.Replace(string(script), "#!/bin/sh", "set +e", 1), "SLURM_ARRAY_TASK_ID=3", "SLURM_ARRAY_TASK_COUNT=16")
	require.Equal(t, 1, code, out)
	require.Len(t, calls, 2)
	require.Equal(t, "mbench", calls[1][0])
}
