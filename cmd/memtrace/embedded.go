//go:build linux && !viewer

package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/suppress"
	"github.com/memtrace/memtrace/tracer/debugfile"
	"github.com/memtrace/memtrace/tracer/probe"
)

// A runner is the file that a process executes, as a certain user.
type runner struct {
	path     string
	dev, ino uint64
	uid      int
}

// scopes are what programs' suppressions are for; nil: a program has none.
type scopes map[runner]*suppress.Scope

// embeddedSuppressions reads which leaks a process's program itself says to be
// known, once for each program and user. It is called where a check has found some.
func (s *session) embeddedSuppressions(pid int) {
	path := fmt.Sprintf("/proc/%d/exe", pid)
	exe, err := os.Readlink(path)
	if err != nil {
		return // it has ended, which is said elsewhere
	}
	uid, parent, err := s.ownerOf(pid)
	if err != nil {
		return // likewise
	}
	f, err := debugfile.Open(path)
	if err != nil {
		return // likewise
	}
	defer f.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return
	}
	id := runner{exe, stat.Dev, stat.Ino, uid}
	if s.embedded == nil {
		s.embedded = make(scopes)
	}
	scope, read := s.embedded[id]
	if !read {
		scope = s.readEmbedded(exe, f)
		s.embedded[id] = scope
	}
	if scope == nil {
		return
	}
	scope.Add(pid)
	// Where a process has too many children to list, their leaks are under its ID.
	if owner, _, err := s.ownerOf(parent); err == nil && owner == uid && s.targets[parent] != nil {
		scope.Add(parent)
	}
}

// readEmbedded returns nil where a program has no suppressions built in.
func (s *session) readEmbedded(exe string, f *os.File) *suppress.Scope {
	scope, left, err := s.gate.embed(exe, f)
	if err != nil {
		s.warn("the suppressions that %s has built in are left out: %v", exe, err)
	}
	if left > 0 {
		s.warn("%d of the suppressions that %s has built in are left out: there are too many", left, exe)
	}
	if names := probe.NotHonoured(f); len(names) > 0 {
		s.warn("%s has %s for LeakSanitizer: what that leaves out of the leaks is not left out here", exe, strings.Join(names, ", "))
	}
	return scope
}

// ownerOf returns a process's effective user and its parent.
func (s *session) ownerOf(pid int) (uid, parent int, err error) {
	p, err := s.fs.Process(pid)
	if err != nil {
		return 0, 0, err
	}
	status, err := p.Status()
	if err != nil {
		return 0, 0, err
	}
	return int(status.Uid[1]), status.PPid, nil
}

// embed reads the suppressions that a program has built in.
func (g *job) embed(exe string, f *os.File) (scope *suppress.Scope, left int, err error) {
	text, err := probe.EmbeddedSuppressions(f)
	if err != nil || text == "" {
		return nil, 0, err
	}
	built, err := suppress.Parse(strings.NewReader(text))
	if err != nil {
		return nil, 0, err
	}
	scope, left = g.embedded.Embed(exe, built)
	return scope, left, nil
}
