package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/testdata/bench/empty"
	"github.com/memtrace/memtrace/tracer/probe"
)

// floor are empty programs where memtrace would probe.
type floor struct{ empty.Probes }

// attachFloor probes the entry and return of malloc and the entry of free.
func attachFloor(pid int) (tool, error) {
	f := &floor{}
	return f.attach(pid, f.Pairs)
}

// attachEntries probes the entries of malloc and free alone: the least that a
// sample of a few can cost.
func attachEntries(pid int) (tool, error) {
	f := &floor{}
	return f.attach(pid, func(file *os.File, pid int, probes []probe.Probe) error {
		return f.Session(file, pid, probes, empty.Skip)
	})
}

// attach probes malloc in a way, and the entry of free.
func (f *floor) attach(pid int, pairs func(*os.File, int, []probe.Probe) error) (tool, error) {
	objects, err := probe.Discover("/proc", pid)
	if err != nil {
		return nil, err
	}
	defer probe.CloseAll(objects)
	malloc, file, err := find(objects, "malloc")
	if err == nil {
		err = pairs(file, pid, malloc)
	}
	if err == nil {
		var free []probe.Probe
		if free, file, err = find(objects, "free"); err == nil {
			err = f.Entries(file, pid, free)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.stop())
	}
	return f, nil
}

func (f *floor) stop() error { return f.Close() }

// find prefers an allocator that was preloaded to the C library's, which it replaces.
func find(objects []probe.Object, function string) (found []probe.Probe, file *os.File, err error) {
	for i := range objects {
		for j := range objects[i].Probes {
			if objects[i].Probes[j].Name == function && (found == nil || !isLibc(&objects[i])) {
				found, file = objects[i].Probes[j:j+1], objects[i].File
			}
		}
	}
	if found == nil {
		return nil, nil, fmt.Errorf("the loop has no %s to probe", function)
	}
	return found, file, nil
}

// entriesOf finds the addresses of functions of the allocator that a process uses, of which it prefers the same file as find.
func entriesOf(pid int, functions ...string) (path string, addresses []uint64, err error) {
	objects, err := probe.Discover("/proc", pid)
	if err != nil {
		return "", nil, err
	}
	defer probe.CloseAll(objects)
	for i := range objects {
		found := entriesIn(&objects[i], functions)
		if len(found) == len(functions) && (path == "" || !isLibc(&objects[i])) {
			path, addresses = objects[i].Path, found
		}
	}
	if path == "" {
		return "", nil, fmt.Errorf("no file of the loop has all of %v", functions)
	}
	return path, addresses, nil
}

func isLibc(o *probe.Object) bool { return strings.HasPrefix(filepath.Base(o.Path), "libc.so") }

// entriesIn finds the addresses of functions of one file.
func entriesIn(o *probe.Object, functions []string) (addresses []uint64) {
	for _, p := range o.Probes {
		if !slices.Contains(functions, p.Name) {
			continue
		}
		for _, r := range o.Text {
			if p.Entry >= r.Offset && p.Entry-r.Offset < r.End-r.Start {
				addresses = append(addresses, r.Start+p.Entry-r.Offset)
			}
		}
	}
	return addresses
}

// patched reports whether all addresses hold a breakpoint.
func patched(pid int, addresses []uint64) bool {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return false
	}
	defer mem.Close()
	for _, a := range addresses {
		var b [4]byte
		if _, err := mem.ReadAt(b[:], int64(a)); err != nil || !isBreakpoint(b) {
			return false
		}
	}
	return true
}

// isBreakpoint knows int3 and arm64's brk of the kernel's uprobes.
func isBreakpoint(b [4]byte) bool {
	if runtime.GOARCH == "arm64" {
		return b == [4]byte{0xa0, 0x00, 0x20, 0xd4} // BRK #5
	}
	return b[0] == 0xcc
}
