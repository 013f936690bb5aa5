//go:build linux && !viewer

package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// asProgram runs the test binary as memtrace, by a shell that is given a command line.
func asProgram(t *testing.T, dir, line string) (stderr string, code int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", line, self)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), asMemtrace+"=1")
	var out bytes.Buffer
	cmd.Stderr = &out
	_ = cmd.Run() // its code says how it ended
	return out.String(), cmd.ProcessState.ExitCode()
}

// A > without quotes makes the shell write to a file of the limit's name.
func TestUnquotedLimitIsExplained(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`"$0" run --fail-on leak>64 -- true`:                `--fail-on 'leak>64'`,
		`"$0" run --fail-on definite,rss>=100MiB -- true`:   `--fail-on 'rss>=100MiB'`,
		`"$0" -p 1 --fail-on leak >elsewhere -d 1`:          "",
		`"$0" run --fail-on leak >elsewhere -- true`:        "",
		`"$0" run --fail-on leak,nonsense >200kB -- true`:   `--fail-on 'leak>200kB'`,
		`"$0" run --fail-on 'leak>1MB,nonsense' >7 -- true`: "",
	} {
		said, code := asProgram(t, t.TempDir(), line)
		if code != exitUsage || strings.Contains(said, "redirection") != (want != "") || !strings.Contains(said, want) {
			t.Errorf("%s ended with %d and said %q, want %q", line, code, said, want)
		}
	}
}

// Whatever a value's length, an error is one line with the value's head and what is wrong with it.
func TestErrorsAreShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 52<<10)
	for line, want := range map[string]string{
		`"$0" -p 1 --sort ` + long:             `--sort "xxx`,
		`"$0" -p ` + long:                      `--pid "xxx`,
		`"$0" ` + long:                         `unknown command or argument "xxx`,
		`"$0" --` + long:                       `unknown flag --xxx`,
		`"$0" -p 1 --fail-on ` + long:          `"xxx`,
		`"$0" -p 1 --fail-on 'x>` + long + `'`: `"x>xxx`,
		`"$0" -p 1 -d ` + long:                 `a time is wanted`,
		"\"$0\" -p '1\n2\n3'":                  `is not a process ID`,
	} {
		said, code := asProgram(t, t.TempDir(), line)
		if code != exitUsage || len(said) > 1000 || strings.Count(said, "\n") != 1 || !strings.Contains(said, want) {
			t.Errorf("%.60s ended with %d and said %d bytes: %.300q, want %q", line, code, len(said), said, want)
		}
	}
}

// What the command itself can be told is asked about, unless -- was given.
func TestFlagsAfterTheCommand(t *testing.T) {
	for line, asked := range map[string]string{
		"run ./leaky --fail-on definite":          "fail-on",
		"run ./leaky --fail-on=definite":          "fail-on",
		"run ./leaky 1 2 --leaks":                 "leaks",
		"run --top 3 ./leaky --leaks":             "leaks",
		"run --comm -- ./leaky":                   "",
		"run -- ./leaky --leaks":                  "",
		"run --top 3 -- ./leaky --leaks":          "",
		"run ./leaky -- --leaks":                  "",
		"run ./leaky --unknown --help -i -V -h x": "",
		"run ./leaky --":                          "",
		"run ./leaky --pid 3":                     "", // no flag of run
	} {
		args := append([]string{"memtrace"}, strings.Fields(line)...)
		app := newApp()
		app.Metadata = map[string]any{argumentsKey: args}
		var got error
		app.Command("run").Action = func(c *cli.Context) error {
			got = refuseLateFlags(c, c.Args().Slice())
			return nil
		}
		_ = app.Run(args) // an unknown flag before the command is another matter
		if (got != nil) != (asked != "") || got != nil && !strings.HasPrefix(got.Error(), "--"+asked+" after the command") {
			t.Errorf("%q: %v, want a question about %q", line, got, asked)
		}
	}
}

func TestShortened(t *testing.T) {
	for _, text := range []string{"", "short", "two\nlines", strings.Repeat("ä", maxErrorLine/2)} {
		if got := shortened(text); got != text {
			t.Errorf("%.20q became %.20q", text, got)
		}
	}
	got := shortened(strings.Repeat("é", 10_000) + "the end")
	if len(got) > maxErrorLine+40 || !strings.HasSuffix(got, "the end") || strings.ContainsRune(got, '�') {
		t.Errorf("a long line became %d bytes: %.100q", len(got), got)
	}
	if got = shortened(strings.Repeat("line\n", 1000)); strings.Count(got, "\n") > maxErrorLines {
		t.Errorf("%d lines are left", strings.Count(got, "\n"))
	}
}

// Every time may be a bare number of seconds, whoever adds the flag.
func TestTimesAreSeconds(t *testing.T) {
	p := commandLine()
	for _, c := range allCommands(p)[1:] {
		for _, f := range newApp().Command(c.Name).Flags {
			if _, ok := f.(*cli.DurationFlag); ok {
				t.Errorf("--%s of %s does not take a bare number", f.Names()[0], c.Name)
			}
		}
	}
	for text, want := range map[string]string{"10": "10s", "0.5": "500ms", "1m": "1m0s", "0": "0s", "-1": "-1s", "1e1": "", "": "", "x": "", "1e400": "", "NaN": ""} {
		app := &cli.App{Flags: []cli.Flag{&cli.DurationFlag{Name: "duration", Aliases: []string{"d"}}}, Writer: &bytes.Buffer{}}
		app.Flags = secondsFlags(app.Flags)
		var got string
		app.Action = func(c *cli.Context) error {
			got = c.Duration("d").String()
			return nil
		}
		err := app.Run([]string{"x", "-d", text})
		if (err != nil) != (want == "") || got != want {
			t.Errorf("-d %q is %q (%v), want %q", text, got, err, want)
		}
	}
}

// A PID that nobody has is said to have ended.
func TestEndedProcess(t *testing.T) {
	t.Parallel()
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, command := range []string{"snapshot -o " + filepath.Join(dir, "s"), "matrix"} {
		said, code := asProgram(t, dir, fmt.Sprintf(`"$0" %s -p %d`, command, gone.Process.Pid))
		if code != exitFailed || !strings.Contains(said, fmt.Sprintf("no such process: %d has ended", gone.Process.Pid)) {
			t.Errorf("%s ended with %d and said %q", command, code, said)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "s")); err == nil {
		t.Error("a snapshot of nothing was written")
	}
}

// Package cli reads a flag's value by flag.Getter, and panics where there is none.
func TestEveryFlagCanBeRead(t *testing.T) {
	app := newApp()
	for _, c := range append([]*cli.Command{{Flags: app.Flags}}, app.Commands...) {
		set := flag.NewFlagSet(c.Name, flag.ContinueOnError)
		for _, f := range c.Flags {
			if err := f.Apply(set); err != nil {
				t.Fatal(err)
			}
		}
		set.VisitAll(func(f *flag.Flag) {
			if _, ok := f.Value.(flag.Getter); !ok {
				t.Errorf("the value of --%s of %q, a %T, has no method Get", f.Name, c.Name, f.Value)
			}
		})
	}
}

// What has no answer without probes is refused, and the error says what to leave out.
func TestProbesNoneIsRefusedWithWhatNeedsProbes(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]string{
		"--leaks":                 "leave out --leaks",
		"--fail-on definite":      "leave out --leaks",
		"--fail-on 'heap>1MB'":    "--fail-on can have growing",
		"--fail-on 'allocs>1000'": "--fail-on can have growing",
		"--max-overhead 1%":       "leave out --max-overhead",
		"--sample-bytes 1MiB":     "--sample-bytes",
		"--allocator glibc":       "--allocator",
		"--alloc-fn my_alloc":     "--alloc-fn",
		"--faults off":            "--faults off",
		"--unwind none":           "--unwind none",
	} {
		said, code := asProgram(t, t.TempDir(), `"$0" -p 1 --probes none `+flags)
		if code != exitUsage || !strings.Contains(said, want) {
			t.Errorf("%s ended with %d and said %q, want %q", flags, code, said, want)
		}
	}
	if said, code := asProgram(t, t.TempDir(), `"$0" -p 1 --probes some`); code != exitUsage || !strings.Contains(said, `"some"`) {
		t.Errorf("--probes some ended with %d and said %q", code, said)
	}
}

// What takes every free, or all allocations, is refused where free has no probe.
func TestProbesAllocsIsRefusedWithWhatNeedsFrees(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]string{
		"-p 1 --fail-on old":           "does not see when a block is freed: --fail-on old",
		"-p 1 --fail-on 'heap>1MB'":    "--fail-on heap>1",
		"-p 1 --max-overhead 1%":       "leave out --max-overhead",
		"-p 1 --sample-bytes 1MiB":     "--sample-bytes",
		"-p 1 --back-pressure 1MiB":    "--back-pressure can be 0 alone",
		"-p 1 --allocator jemalloc":    "--allocator",
		"-p 1 --alloc-fn my_alloc":     "--alloc-fn",
		"-p 1 --events":                "--events",
		"--all --risk-interpreters":    "--all",
		"-p 1 --fail-on leak,heap>1GB": "--fail-on",
	} {
		said, code := asProgram(t, t.TempDir(), `"$0" --probes allocs `+flags)
		if code != exitUsage || !strings.Contains(said, want) {
			t.Errorf("%s ended with %d and said %q, want %q", flags, code, said, want)
		}
	}
}
