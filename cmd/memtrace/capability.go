//go:build linux && !viewer

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A capability that memtrace uses; include/uapi/linux/capability.h.
type capability struct {
	bit   uint
	name  string
	gives string
}

const (
	capNetBindService = 10
	capPtrace         = 19 // CAP_SYS_PTRACE
	capSysAdmin       = 21
	capSysResource    = 24
)

// needed are what tracing and checking other users' processes take, as measured
// (docs/security.md).
func needed() []capability {
	list := []capability{
		{2, "CAP_DAC_READ_SEARCH", "reading other users' pagemap, and files where they are mapped from"},
		{capPtrace, "CAP_SYS_PTRACE", "looking at other users' processes"},
		{38, "CAP_PERFMON", "probes"},
		{39, "CAP_BPF", "BPF programs"},
		{40, "CAP_CHECKPOINT_RESTORE", "files that were replaced since they were mapped"},
	}
	if olderThan(6, 6) { // with uprobe_multi, CAP_PERFMON is enough
		list = append(list, capability{capSysAdmin, "CAP_SYS_ADMIN", "probes by perf events"})
	}
	if olderThan(5, 11) {
		list = append(list, capability{capSysResource, "CAP_SYS_RESOURCE", "BPF maps beyond the limit on locked memory"})
	}
	return list
}

// olderThan reports whether this kernel is older than a version.
func olderThan(major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(kernelRelease(), "%d.%d", &a, &b); n < 2 {
		return false
	}
	return a < major || a == major && b < minor
}

// capabilitySets are a process's: what it may do, and what it could ever be given.
type capabilitySets struct{ effective, bounding uint64 }

func ownCapabilities() (s capabilitySets, err error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return s, fmt.Errorf("read memtrace's capabilities: %w", err)
	}
	s.effective = uint64(data[1].Effective)<<32 | uint64(data[0].Effective)
	for _, c := range needed() {
		if has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c.bit), 0, 0, 0); err == nil && has == 1 {
			s.bounding |= 1 << c.bit
		}
	}
	return s, nil
}

// allows reports whether a set has a capability, or the one that stands for three of them.
func allows(set uint64, c capability) bool {
	stands := c.bit >= 38 && c.bit <= 40 && set&(1<<capSysAdmin) != 0
	return set&(1<<c.bit) != 0 || stands
}

// missingFrom are what a set lacks.
func missingFrom(set uint64) (missing []capability) {
	return slices.DeleteFunc(needed(), func(c capability) bool { return allows(set, c) })
}

func capabilityNames(list []capability) string {
	var out []string
	for _, c := range list {
		out = append(out, c.name)
	}
	return strings.Join(out, ", ")
}

// surroundings are what may keep a remedy from working.
type surroundings struct {
	sets        capabilitySets
	noNew       bool     // no_new_privs: no program gives rights
	nosuid      bool     // nor does one of this file system
	inUserSpace bool     // a user namespace, in which no capability counts for BPF
	filtered    []string // system calls that a seccomp filter refuses, where nothing else would
	path        string
	group       int
}

func ownSurroundings() (s surroundings, err error) {
	s.path, s.group = ownPath(), os.Getgid()
	if s.sets, err = ownCapabilities(); err != nil {
		return s, err
	}
	if on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil {
		s.noNew = on == 1
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(s.path, &fs); err == nil {
		s.nosuid = fs.Flags&unix.ST_NOSUID != 0
	}
	if text, err := os.ReadFile("/proc/self/uid_map"); err == nil {
		s.inUserSpace = !slices.Equal(strings.Fields(string(text)), []string{"0", "0", "4294967295"})
	}
	if len(missingFrom(s.sets.effective)) == 0 && !s.inUserSpace {
		s.filtered = filteredCalls()
	}
	return s, nil
}

// filteredCalls are those that a seccomp filter refuses, of the ones that memtrace can't do without. It takes all
// capabilities to tell: with these, the calls fail for their arguments, which are none.
func filteredCalls() (refused []string) {
	if mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0); err != nil || mode != unix.SECCOMP_MODE_FILTER {
		return nil
	}
	for _, call := range []struct {
		name   string
		number uintptr
	}{{"bpf", unix.SYS_BPF}, {"perf_event_open", unix.SYS_PERF_EVENT_OPEN}} {
		_, _, errno := unix.Syscall6(call.number, 0, 0, 0, 0, 0, 0)
		if errno == unix.EPERM || errno == unix.EACCES || errno == unix.ENOSYS {
			refused = append(refused, call.name)
		}
	}
	return refused
}

// remedy says what gives memtrace the capabilities that it lacks, a line each; none
// where it has all. Whatever names a remedy asks here.
func remedy() []string {
	s, err := ownSurroundings()
	if err != nil {
		return []string{err.Error()}
	}
	return s.remedy()
}

func (s *surroundings) remedy() []string {
	missing := missingFrom(s.sets.effective)
	if s.inUserSpace {
		return []string{"remedy: run it outside of this user namespace (a rootless container): none of its capabilities counts for BPF"}
	}
	if len(s.filtered) > 0 {
		return []string{"a seccomp filter, as of a container or a service, refuses " + strings.Join(s.filtered, " and "),
			"remedy for a container: --security-opt seccomp=FILE with a profile that allows " + strings.Join(s.filtered, " and ") + ", or seccomp=unconfined",
			"remedy for a systemd unit: " + strings.Join(s.filtered, " ") + " in its SystemCallFilter="}
	}
	if len(missing) == 0 {
		return nil
	}
	lines := []string{"missing: " + capabilityNames(missing)}
	// setcap replaces what a file has, so that it takes all; and the kernel executes
	// no file with a capability that is outside of the bounding set.
	if barred := missingFrom(s.sets.bounding); len(barred) > 0 {
		return append(lines, "the bounding set leaves out "+capabilityNames(barred)+", as in a container or a service: neither root nor setcap gets them here",
			"remedy for a container: --cap-add="+s.containerList(), "remedy for a systemd unit: all of these in its CapabilityBoundingSet=")
	}
	switch {
	case s.noNew:
		return append(lines, "remedy: run it as root: setcap has no effect under no_new_privs")
	case s.nosuid:
		return append(lines, "remedy: sudo, or copy memtrace to a file system that is not mounted nosuid, and run doctor there")
	}
	path := shellQuote(s.path)
	return append(lines, "remedy: run it by sudo, or let the members of a group (here yours) see the memory of all processes by:",
		fmt.Sprintf("  sudo chown root:%d %s && sudo chmod 0750 %s && sudo setcap %s %s", s.group, path, path, shellQuote(setcapText()), path))
}

// remedyOr is remedy in one line for where not even root has what it takes, as in a container; another one elsewhere.
func (s *surroundings) remedyOr(another string) string {
	if !s.inUserSpace && len(s.filtered) == 0 && len(missingFrom(s.sets.bounding)) == 0 {
		return another
	}
	var all []string
	for _, line := range s.remedy() {
		if text, ok := strings.CutPrefix(line, "remedy"); ok {
			all = append(all, strings.TrimLeft(text, ": "))
		}
	}
	return strings.Join(all, "; ")
}

// containerList is what docker and podman take.
func (s *surroundings) containerList() string {
	var out []string
	for _, c := range needed() {
		out = append(out, strings.TrimPrefix(c.name, "CAP_"))
	}
	return strings.Join(out, " --cap-add=")
}

func setcapText() string {
	return strings.ToLower(strings.ReplaceAll(capabilityNames(needed()), ", ", ",")) + "=ep"
}

// shellQuote makes one word of a text, for sh.
func shellQuote(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-,=+:@%", r)
	}
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
