package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/tracer/debugfile"
	"github.com/memtrace/memtrace/tracer/probe"
)

// embeddedSuppressions reads which leaks a process's program itself says to be
// known, once for each program. It is called where a check has found some.
func (s *session) embeddedSuppressions(pid int) {
	path := fmt.Sprintf("/proc/%d/exe", pid)
	exe, err := os.Readlink(path)
	if err != nil || s.embedded[exe] {
		return // it has ended, which is said elsewhere
	}
	if s.embedded == nil {
		s.embedded = make(map[string]bool)
	}
	s.embedded[exe] = true
	f, err := debugfile.Open(path)
	if err != nil {
		return // likewise
	}
	defer f.Close()
	if err := s.gate.embed(exe, f); err != nil {
		s.warn("the suppressions that %s has built in are left out: %v", exe, err)
	}
	if names := probe.NotHonoured(f); len(names) > 0 {
		s.warn("%s has %s for LeakSanitizer: what that leaves out of the leaks is not left out here", exe, strings.Join(names, ", "))
	}
}

// embed reads the suppressions that a program has built in.
func (g *gate) embed(exe string, f *os.File) error {
	text, err := probe.EmbeddedSuppressions(f)
	if err != nil || text == "" {
		return err
	}
	built, err := analyzer.ParseSuppressions(strings.NewReader(text))
	if err != nil {
		return err
	}
	g.embedded.Embed(exe, built)
	return nil
}
