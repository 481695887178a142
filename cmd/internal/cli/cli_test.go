package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"minfer/cpu/kernel"
	"minfer/engine/lever"
	"minfer/harness"
	"minfer/metal/mtl/soft/san"
)

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// Every way in which a command can end has its exit code and its line.
func TestRun(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name   string
		ctx    context.Context
		stdout io.Writer
		code   int
		err    error
		want   int
		stderr string
	}{
		{"done", context.Background(), io.Discard, harness.ExitHeld, nil, harness.ExitHeld, ""},
		{"failed", context.Background(), io.Discard, harness.ExitFailed, nil, harness.ExitFailed, ""},
		{"nothing ran", context.Background(), io.Discard, harness.ExitNothing, nil, harness.ExitNothing, ""},
		{"help", context.Background(), io.Discard, 0, pflag.ErrHelp, harness.ExitHeld, ""},
		{"bad input", context.Background(), io.Discard, 0, errors.New("x: want y"), harness.ExitBadInput, "test: x: want y\n"},
		{"two errors", context.Background(), io.Discard, 0, errors.Join(errors.New("a"), errors.New("b")), harness.ExitBadInput, "test: a\ntest: b\n"},
		{"interrupted", canceled, io.Discard, 0, fmt.Errorf("a case: %w", context.Canceled), harness.ExitFailed, "test: interrupted\n"},
		{"a cancellation of its own", context.Background(), io.Discard, 0, context.Canceled, harness.ExitBadInput, "test: context canceled\n"},
		{"lost output", context.Background(), full{}, harness.ExitHeld, nil, harness.ExitBadInput, "test: standard output: no space left\n"},
	} {
		var stderr bytes.Buffer
		code := Run(c.ctx, "test", Streams{Stdout: c.stdout, Stderr: &stderr}, nil, func(_ context.Context, s Streams, _ []string) (int, error) {
			fmt.Fprintln(s.Stdout, "result")
			return c.code, c.err
		})
		require.Equal(t, c.want, code, c.name)
		require.Equal(t, c.stderr, stderr.String(), c.name)
	}
}

func TestClip(t *testing.T) {
	require.Equal(t, "short", clip("short"))
	long := strings.Repeat("x", maxMessage-1) + "é and more"
	require.Equal(t, strings.Repeat("x", maxMessage-1)+fmt.Sprintf("... (%d bytes)", len(long)), clip(long), "no half of a character")
}

func TestParse(t *testing.T) {
	parse := func(lo, hi int, args ...string) error {
		return Parse(Flags(Streams{Stdout: io.Discard}, "test", "usage"), args, lo, hi)
	}
	require.NoError(t, parse(1, 2, "a"))
	require.EqualError(t, parse(1, 2, "a", "b", "c"), `unexpected argument "c" (see --help)`)
	require.EqualError(t, parse(2, 2, "a"), "1 arguments, want 2 (see --help)")
	require.EqualError(t, parse(0, 0, "--colour"), "unknown flag: --colour")
	require.ErrorIs(t, parse(0, 0, "--help"), pflag.ErrHelp)
}

func TestDevice(t *testing.T) {
	d, err := Device("cpu", DeviceOptions{Levers: lever.Levers{CPULevel: "generic"}})
	require.NoError(t, err)
	require.Equal(t, "cpu (generic)", d.Name)
	require.Nil(t, d.Open)
	require.Equal(t, "cpu (generic)", d.Describe())
	if kernel.VNNI() != nil { // the name is of the bits, whatever computes them
		auto, err := Device("cpu", DeviceOptions{})
		require.NoError(t, err)
		require.Equal(t, "cpu (avx2)", auto.Name)
		require.Equal(t, "cpu (avx2 bits, avx512 kernels)", auto.Describe())
		forced, err := Device("cpu", DeviceOptions{Levers: lever.Levers{CPULevel: "avx2"}})
		require.NoError(t, err)
		require.Equal(t, "cpu (avx2)", forced.Describe())
		soft, err := Device("soft", DeviceOptions{})
		require.NoError(t, err)
		require.Equal(t, soft.Name, soft.Describe())
	}
	b, err := d.New(2)
	require.NoError(t, err)
	require.NoError(t, b.(io.Closer).Close())
	_, err = Device("gpu", DeviceOptions{})
	require.EqualError(t, err, `unknown device "gpu": want cpu, soft, apple or cuda`)
	for _, name := range Devices {
		require.Contains(t, DeviceHelp, name)
	}
	if d, err = Device("apple", DeviceOptions{}); GPU(lever.Default()) == "" {
		require.EqualError(t, err, `device "apple": no Apple GPU here: want cpu or soft`)
	} else {
		require.NoError(t, err)
		require.Contains(t, d.Name, "apple (")
		require.NotNil(t, d.Open)
	}
	if d, err = Device("cuda", DeviceOptions{}); err != nil { // no GPU here
		require.Regexp(t, `^device "cuda": cuda: (driver: .*libcuda\.so\.1|.*NO_DEVICE|no GPU)`, err.Error())
	} else {
		require.Contains(t, d.Name, "cuda (")
		require.NotNil(t, d.Open)
	}
	_, err = Device("cuda", DeviceOptions{Levers: lever.Levers{MetalCapture: "x"}})
	require.EqualError(t, err, "MINFER_METAL_CAPTURE=x: it is for an Apple GPU, not for device cuda: unset it")
	d, err = Device("cuda", DeviceOptions{Levers: lever.Levers{DisableMPS: true}})
	require.NoError(t, err)
	require.Nil(t, d.Open)
	_, err = Device("cpu", DeviceOptions{Levers: lever.Levers{CPULevel: "sse"}})
	require.Error(t, err)
}

// Device soft is a Metal device and says that it is software, with a CPU backend
// beside it; a setting can keep it out, and settings for an Apple GPU are refused.
func TestSoftDevice(t *testing.T) {
	d, err := Device("soft", DeviceOptions{Mode: san.Strict})
	require.NoError(t, err)
	require.Equal(t, "soft (strict)", d.Name)
	require.True(t, d.Checked)
	dev, err := d.Open(1)
	require.NoError(t, err)
	require.Equal(t, "Software Metal device (1 thread, strict)", dev.Name())
	require.NoError(t, dev.Close())
	b, err := d.New(1)
	require.NoError(t, err)
	require.Equal(t, "CPU", b.Name())
	require.NoError(t, b.(io.Closer).Close())

	d, err = Device("soft", DeviceOptions{})
	require.NoError(t, err)
	require.Equal(t, "soft (off)", d.Name)
	require.False(t, d.Checked)
	d, err = Device("soft", DeviceOptions{Levers: lever.Levers{DisableMPS: true}})
	require.NoError(t, err)
	require.Nil(t, d.Open)
	_, err = Device("soft", DeviceOptions{Levers: lever.Levers{MetallibFile: "a.metallib"}})
	require.EqualError(t, err, "MINFER_METALLIB_FILE=a.metallib: it is for an Apple GPU, not for device soft: unset it")
	_, err = Device("soft", DeviceOptions{Levers: lever.Levers{MetalCapture: "a.gputrace"}})
	require.EqualError(t, err, "MINFER_METAL_CAPTURE=a.gputrace: it is for an Apple GPU, not for device soft: unset it")
}

// A record has the command as a shell takes it, and the settings made.
func TestProvenance(t *testing.T) {
	p := Provenance(Streams{Environ: []string{"HOME=/root", "MINFER_CPU_LEVEL=generic"}}, "mverify", []string{"--filter", "a b"}, "cpu")
	require.Equal(t, "mverify --filter 'a b'", p.Command)
	require.Equal(t, "MINFER_CPU_LEVEL=generic", p.Levers)
	require.Equal(t, "cpu", p.Device)
	require.NotEmpty(t, p.Host)
	require.NotEmpty(t, p.Commit)
}
