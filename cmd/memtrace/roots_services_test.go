//go:build integration && services

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/report"
)

// olderDebian is the root directory of Debian 11, whose C library is glibc 2.31:
// the last with libpthread.so of its own in a release of Debian's.
func olderDebian(t *testing.T) string {
	t.Helper()
	root, err := fetchBullseye()
	if err != nil {
		t.Fatalf("testdata/libc/fetch-tree bullseye: %v", err)
	}
	return root
}

var fetchBullseye = sync.OnceValues(func() (string, error) {
	cmd := exec.Command(filepath.Join("..", "..", "testdata", "libc", "fetch-tree"), "bullseye")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
})

// compiled counts the programs of compileFor, which are in one directory.
var compiled atomic.Int64

// compileFor builds a test program against a root directory's own headers,
// startup files and C library, and puts it there until the test's end. It
// returns its path within. gcc's --sysroot alone would link with the host's.
func compileFor(t *testing.T, root, name string) string {
	t.Helper()
	path := fmt.Sprintf("/%s-%d-%d", name, os.Getpid(), compiled.Add(1))
	target, lib, dev := filepath.Join(root, path), filepath.Join(root, "lib/x86_64-linux-gnu"), filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	t.Cleanup(func() { _ = os.Remove(target) })
	object := filepath.Join(t.TempDir(), name+".o")
	for _, argv := range [][]string{
		{"gcc", "--sysroot=" + root, "-g", "-w", "-O1", "-fPIE", "-fno-omit-frame-pointer", "-fno-builtin", "-fno-optimize-sibling-calls",
			"-c", "-o", object, filepath.Join("..", "..", "testdata", "programs", name+".c")},
		{"gcc", "-pie", "-nostdlib", "-nostartfiles", "-Wl,--dynamic-linker=/lib64/ld-linux-x86-64.so.2", "-Wl,--allow-shlib-undefined", "-o", target,
			dev + "/Scrt1.o", dev + "/crti.o", object, lib + "/libpthread.so.0", lib + "/libc.so.6", dev + "/libc_nonshared.a", "-lgcc", dev + "/crtn.o"},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
		}
	}
	return path
}

// checkOlder wants the process to be the one in the tree, with the tree's C library.
func checkOlder(t *testing.T, r *report.Report, pid int) {
	t.Helper()
	p := processOf(t, r, pid)
	if !slices.ContainsFunc(p.Allocators, func(via string) bool {
		return strings.HasPrefix(via, "glibc /") && strings.HasSuffix(via, "/libc-2.31.so")
	}) {
		t.Errorf("allocators %q, want glibc 2.31", p.Allocators)
	}
	if !slices.Equal(p.InnerPIDs, []int{1}) {
		t.Errorf("process %d is %v inside, want [1]", pid, p.InnerPIDs)
	}
}

// What unshare and chroot start in a tree with another C library than the
// host's is followed from its first instruction, and called what it was, though
// it has ended before its events are read.
func TestRunThroughUnshareAndChroot(t *testing.T) {
	t.Parallel()
	older := olderDebian(t)
	for _, c := range []struct {
		name, root, program, allocator string
	}{
		{"bullseye", older, compileFor(t, older, "every_function"), "glibc "},
		{"musl", tree(t, "every_function_musl"), "/program", "musl "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			target, r := runAnswering(t, nil, nil, []string{"unshare", "--pid", "--fork", "--mount", "chroot", c.root, c.program, "run"})
			target.checkSites(t, &r)
			if r.Events.Lost != 0 || r.Events.UnmatchedFree != 0 || len(r.Warnings) > 0 {
				t.Errorf("events %+v, warnings %q", r.Events, r.Warnings)
			}
			inside := func(p report.Process) bool {
				return slices.Equal(p.InnerPIDs, []int{1}) && !p.Attached && p.Exe == filepath.Join(c.root, c.program) &&
					strings.HasPrefix(filepath.Base(c.program), p.Comm) && p.Comm != "" &&
					len(p.Allocators) == 1 && strings.HasPrefix(p.Allocators[0], c.allocator)
			}
			if !slices.ContainsFunc(r.Processes, inside) {
				t.Errorf("no process is %s, the first of its namespace and traced from its start: %+v", c.program, r.Processes)
			}
		})
	}
}

// A program in such a tree is traced exactly, also once its file is gone, or
// another one is in its place.
func TestOlderDebianInside(t *testing.T) {
	t.Parallel()
	root := olderDebian(t)
	for name, spoil := range map[string]func(path string) error{
		"there":   func(string) error { return nil },
		"deleted": os.Remove,
		"replaced": func(path string) error {
			if err := os.WriteFile(path+".new", []byte("something else"), 0o755); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := compileFor(t, root, "every_function")
			target := inTree(t, root, path, unix.CLONE_NEWPID|unix.CLONE_NEWNS)
			if err := spoil(filepath.Join(root, path)); err != nil {
				t.Fatal(err)
			}
			tr := attach(t, target.cmd.Process.Pid)
			if err := target.proceed(); err != nil {
				t.Fatal(err)
			}
			r := tr.interrupt()
			if err := target.end(); err != nil {
				t.Error(err)
			}
			target.checkContained(t, &r, "glibc")
			checkOlder(t, &r, target.cmd.Process.Pid)
		})
	}
}

// A real program of the older release, perl, runs on unharmed, and allocates as
// it says: 20,000 strings are as many blocks at least.
func TestOlderDebianPerl(t *testing.T) {
	t.Parallel()
	root := olderDebian(t)
	p := spawn(t, exec.Command("unshare", "--pid", "--fork", "--kill-child", "chroot", root, "perl", "-e",
		`$| = 1; print "ready\n"; <STDIN>; $k{$_} = "x" x 100 for 1 .. 20000; print scalar(keys %k), " kept\n"; <STDIN>; %k = (); print scalar(keys %k), " left\n"; <STDIN>`))
	p.lineWith("ready")
	perl := childrenOf(t, p.pid())[0]
	m := startTracing(t, []int{perl})
	p.say("go")
	p.lineWith("20000 kept")
	p.say("go")
	p.lineWith("0 left")
	r := m.interrupt() // alone of all Reports it is sure to have all events
	checkSound(t, r, perl)
	checkOlder(t, r, perl)
	h := processOf(t, r, perl).Heap
	if h.AllocCount < 20000 || h.PeakBytes < 20000*100 {
		t.Errorf("%d blocks, and %d bytes at once; want 20,000 strings of 100 bytes at least", h.AllocCount, h.PeakBytes)
	}
	if h.FreeCount < 20000 || h.LiveBytes+20000*100 > h.PeakBytes {
		t.Errorf("of 20,000 dropped strings %d blocks are freed, and %d bytes live of %d",
			h.FreeCount, h.LiveBytes, h.PeakBytes)
	}
	p.say("go")
	p.end()
}
