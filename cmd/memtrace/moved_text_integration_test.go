//go:build integration

package main

import (
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// Code that a program has moved to anonymous memory keeps its names and its call frame information.
func TestMovedText(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, c *child, r *report.Report) {
		t.Helper()
		c.checkSites(t, r)
		for _, s := range r.Sites {
			if s.Function != "in_moved_code" {
				continue
			}
			var names []string
			for _, f := range s.Stack {
				names = append(names, f.Function)
			}
			if got := strings.Join(names, " "); !strings.HasPrefix(got, "in_moved_code caller main ") || s.Truncated || s.FramePointers {
				t.Errorf("stack %q, broken off %v, by frame pointers %v", got, s.Truncated, s.FramePointers)
			}
		}
	}
	for _, name := range []string{"moved_text", "moved_whole"} {
		t.Run("run/"+name, func(t *testing.T) {
			t.Parallel()
			c, r := runWith(t, nil, testProgram(name))
			check(t, c, &r)
		})
		t.Run("attach/"+name, func(t *testing.T) {
			t.Parallel()
			c := program(t, name)
			tr := attach(t, c.cmd.Process.Pid)
			if err := c.proceed(); err != nil {
				t.Fatal(err)
			}
			r := tr.interrupt()
			if err := c.end(); err != nil {
				t.Error(err)
			}
			check(t, c, &r)
		})
	}
}
