//go:build integration

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/memtrace/memtrace/procfs/proctest"
)

// knownMemory is testdata/programs/known_memory.c, which waits.
type knownMemory struct {
	Name      string // which no other process of the machine has
	PID       int
	Private   int64 `json:"private_bytes"`
	Untouched int64 `json:"untouched_bytes"`
	Threads   int64
	Twin      int
}

func startKnownMemory(t *testing.T, args ...string) knownMemory {
	t.Helper()
	return copyKnownMemory(t).start(t, args...)
}

// knownProgram is a private copy of known_memory.
type knownProgram struct {
	name string
	proctest.Private
}

// knownPrograms numbers the copies.
var knownPrograms atomic.Int32

func copyKnownMemory(t *testing.T) knownProgram {
	t.Helper()
	// Of its own, as others run beside it: a filter, or a program that is traced by name, must not meet theirs.
	name := fmt.Sprintf("known%02d_%d", knownPrograms.Add(1), os.Getpid())
	return knownProgram{name, proctest.Copy(t, testProgram("known_memory"), name)}
}

// start returns once all of the process sleeps.
func (p knownProgram) start(t *testing.T, args ...string) knownMemory {
	t.Helper()
	c := spawn(t, p.Command(args...))
	t.Cleanup(c.end) // it must not have been harmed by being looked at
	k := knownMemory{Name: p.name}
	if err := json.Unmarshal([]byte(c.lineWith("{")), &k); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{k.PID, k.Twin} {
		eventually(t, "known_memory sleeps", func() bool { return pid == 0 || asleep(t, pid) })
	}
	return k
}

// asleep reports whether all threads of a process sleep.
func asleep(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("list the threads of process %d: %v", pid, err)
	}
	return !slices.ContainsFunc(threads, func(file string) bool {
		stat, err := os.ReadFile(file)
		return err != nil || !strings.Contains(string(stat), ") S ")
	})
}

// topOnceAs runs memtrace top --format json, as another user where uid is not 0.
func topOnceAs(t *testing.T, uid uint32, flags ...string) (rows []map[string]any) {
	t.Helper()
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd := exec.Command("/proc/self/fd/3", append([]string{"top", "--format", "json"}, flags...)...)
	cmd.ExtraFiles = []*os.File{self} // other users may not enter the folder of the test program
	cmd.Dir, cmd.Stderr = "/", os.Stderr
	cmd.Env = append(os.Environ(), asMemtrace+"=1")
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("memtrace top %v: %v", flags, err)
	}
	var doc struct{ Rows []map[string]any }
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Rows
}

func only(t *testing.T, rows []map[string]any) map[string]any {
	t.Helper()
	if len(rows) != 1 {
		t.Fatalf("%d rows, want 1: %v", len(rows), rows)
	}
	return rows[0]
}

// figure is a number of a row, which must be there.
func figure(t *testing.T, row map[string]any, name string) int64 {
	t.Helper()
	n, ok := row[name].(float64)
	if !ok {
		t.Fatalf("%s is %v in %v", name, row[name], row)
	}
	return int64(n)
}

const slack = 4 << 20 // libc, stacks and the program itself

func TestTopKnowsWhatAProcessHas(t *testing.T) {
	k := startKnownMemory(t)
	row := only(t, topOnceAs(t, 0, "--filter", "pid:"+strconv.Itoa(k.PID)))
	for _, name := range []string{"rss", "pss", "uss"} {
		if n := figure(t, row, name); n < k.Private || n > k.Private+slack {
			t.Errorf("%s is %d of a process with %d", name, n, k.Private)
		}
	}
	if n := figure(t, row, "virt"); n < k.Private+k.Untouched {
		t.Errorf("virt is %d, and %d are mapped", n, k.Private+k.Untouched)
	}
	if n := figure(t, row, "threads"); n != k.Threads || row["user"] != "root" {
		t.Errorf("%d threads, want %d; user %v", n, k.Threads, row["user"])
	}
	threads := topOnceAs(t, 0, "--view", "threads", "-p", strconv.Itoa(k.PID), "--sort", "name")
	var names []string
	for _, thread := range threads {
		names = append(names, thread["name"].(string))
		if thread["stack_size"] == nil {
			t.Errorf("thread without its stack: %v", thread)
		}
	}
	if want := []string{k.Name, "worker-0", "worker-1", "worker-2"}; !slices.Equal(names, want) {
		t.Errorf("threads %v, want %v", names, want)
	}
	mappings := topOnceAs(t, 0, "--view", "mappings", "-p", strconv.Itoa(k.PID), "--sort", "uss")
	if n := figure(t, mappings[0], "uss"); n < k.Private {
		t.Errorf("the largest mapping has %d, want the block of %d", n, k.Private)
	}
	heap := topOnceAs(t, 0, "--view", "components", "--filter", k.Name)
	if len(heap) == 0 || !strings.HasSuffix(heap[0]["component"].(string), "/"+k.Name) {
		t.Errorf("the program is no component: %v", heap)
	}
}

// Two processes that share one address space have its memory once.
func TestTopCountsSharedAddressSpacesOnce(t *testing.T) {
	k := startKnownMemory(t, "twin")
	row := only(t, topOnceAs(t, 0, "--view", "programs", "--filter", "name:"+k.Name))
	if n := figure(t, row, "pss"); n < k.Private || n > k.Private+slack || figure(t, row, "processes") != 2 {
		t.Errorf("two processes in %d bytes: %v", k.Private, row)
	}
}

// What an ordinary user may not read is said to be so, and is never 0.
func TestTopWithoutPrivileges(t *testing.T) {
	k := startKnownMemory(t)
	const nobody = 65534
	row := only(t, topOnceAs(t, nobody, "--filter", "pid:"+strconv.Itoa(k.PID)))
	unknown, _ := row["unknown"].(map[string]any)
	for _, name := range []string{"pss", "uss"} {
		if row[name] != nil || unknown[name] != "no permission" {
			t.Errorf("%s is %v, %v", name, row[name], unknown[name])
		}
	}
	if n := figure(t, row, "rss"); n < k.Private {
		t.Errorf("RSS needs no privileges, and is %d", n)
	}
	own := topOnceAs(t, nobody, "--filter", "user:nobody top")
	if len(own) == 0 || figure(t, own[0], "pss") == 0 {
		t.Errorf("its own process may be read: %v", own)
	}
	for _, view := range []string{"programs", "memory", "sharing", "numa", "cgroups", "components"} {
		topOnceAs(t, nobody, "--view", view)
	}
}
