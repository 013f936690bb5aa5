package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/memtrace/memtrace/tracer"
)

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{usageError("bad"), 2},
		{&exitError{23, errQuiet}, 23},
		{fmt.Errorf("wrapped: %w", &exitError{126, errQuiet}), 126},
		{fmt.Errorf("load: %w", tracer.ErrNotSupported), 77},
		{fmt.Errorf("load: %w", tracer.ErrNotPermitted), 77},
		{errors.Join(errors.New("x"), fs.ErrNotExist), 1},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("exitCode(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}

func TestUsageErrorsExitWithTwo(t *testing.T) {
	for _, args := range [][]string{
		{"--nope"}, {"trace", "--nope"}, {"run"}, {"run", "--nope"}, {"doctor", "x"}, {"x"},
		{"leaks"}, {"leaks", "-p", "1", "x"}, {"leaks", "-p", "1", "--fail-on", "growing"}, {"leaks", "-p", "1", "--format", "xml"},
		{"-p", "x"}, {"-p", "1", "x", "--top", "3"}, {"trace"}, {"-p", "1", "--fail-on", "nope"},
	} {
		if got := run(context.Background(), append([]string{"memtrace"}, args...)); got != 2 {
			t.Errorf("memtrace %v exits with %d, want 2", args, got)
		}
	}
	for path, want := range map[string]int{"/nonexistent/program": 127, "/etc/passwd": 126} {
		if got := run(context.Background(), []string{"memtrace", "run", "--", path}); got != want {
			t.Errorf("memtrace run %s exits with %d, want %d", path, got, want)
		}
	}
}
