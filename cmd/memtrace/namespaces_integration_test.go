//go:build integration

package main

import (
	"bytes"
	"debug/elf"
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/procfs/proctest"
)

// tree makes a root directory with a test program as /program, and its loader
// and C library, which are other files than the host's.
func tree(t *testing.T, name string) string {
	t.Helper()
	return treeOf(t, filepath.Join("..", "..", "build", "testdata", name))
}

// treeOf is the same with any program.
func treeOf(t *testing.T, program string) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	place(t, root, program, "/program")
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	interp := f.Section(".interp")
	if interp == nil {
		return root
	}
	text, err := interp.Data()
	if err != nil {
		t.Fatal(err)
	}
	loader := strings.TrimRight(string(text), "\x00")
	place(t, root, loader, loader)
	needed, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range needed {
		found, _ := filepath.Glob("/lib/*-linux-gnu/" + library)
		if len(found) > 0 && !strings.Contains(loader, "musl") {
			place(t, root, found[0], found[0])
		}
	}
	return root
}

// place copies a file into a tree.
func place(t *testing.T, root, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	to = filepath.Join(root, to)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := proctest.WriteProgram(to, text); err != nil {
		t.Fatal(err)
	}
}

// inTree starts a program of a tree in namespaces of its own.
func inTree(t *testing.T, root, path string, namespaces uintptr) *child {
	t.Helper()
	cmd := &exec.Cmd{Path: path, Args: []string{"program", "attach"}, Dir: "/"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Cloneflags: namespaces}
	if namespaces&unix.CLONE_NEWUSER != 0 {
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1000}}
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = ids, ids
	}
	c, err := startCommand(t, cmd)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A container's process is traced by its own files, whatever became of them,
// and shown with both of its numbers.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	const all = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	for _, c := range []struct {
		name, program string
		namespaces    uintptr
		family        string
		spoil         func(t *testing.T, root string)
	}{
		{"glibc", "every_function", all, "glibc", nil},
		{"musl", "every_function_musl", all, "musl", nil},
		{"musl static", "every_function_musl_static", all, "musl", nil},
		{"user", "every_function", all | unix.CLONE_NEWUSER, "glibc", nil},
		{"deleted", "every_function", all, "glibc", func(t *testing.T, root string) { eachFile(t, root, os.Remove) }},
		{"replaced", "every_function", all, "glibc", func(t *testing.T, root string) {
			eachFile(t, root, func(path string) error {
				if err := os.WriteFile(path+".new", []byte("something else"), 0o755); err != nil {
					return err
				}
				return os.Rename(path+".new", path)
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			root := tree(t, c.program)
			target := inTree(t, root, "/program", c.namespaces)
			if c.spoil != nil {
				c.spoil(t, root)
			}
			tr := attach(t, target.cmd.Process.Pid)
			if err := target.proceed(); err != nil {
				t.Fatal(err)
			}
			r := tr.interrupt()
			if err := target.end(); err != nil {
				t.Error(err)
			}
			target.checkContained(t, &r, c.family)
		})
	}
}

func eachFile(t *testing.T, root string, do func(path string) error) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return do(path)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (c *child) checkContained(t *testing.T, r *report.Report, family string) {
	t.Helper()
	c.checkSites(t, r)
	checkReport(t, r)
	if len(r.Processes) != 1 {
		t.Fatalf("%d processes", len(r.Processes))
	}
	p := r.Processes[0]
	if p.PID != c.cmd.Process.Pid || !slices.Equal(p.InnerPIDs, []int{1}) {
		t.Errorf("process %d, inside %v; want %d, [1]", p.PID, p.InnerPIDs, c.cmd.Process.Pid)
	}
	if len(p.Allocators) != 1 || !strings.HasPrefix(p.Allocators[0], family+" ") {
		t.Errorf("allocators %q, want %s", p.Allocators, family)
	}
}

// A process in nested namespaces, of a user of its own, is shown with all of its IDs, by a trace and by top.
func TestNamespacesShowAllIDs(t *testing.T) {
	t.Parallel()
	unshare := need(t, "unshare")
	outer := spawn(t, exec.Command(unshare, "--user", "--map-root-user", "--pid", "--fork", "--kill-child",
		unshare, "--pid", "--fork", "--kill-child", testProgram("every_function"), "attach"))
	outer.lineWith("ready 1")
	pid := onlyChild(t, onlyChild(t, outer.pid()))
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(status), "\nNSpid:")
	line, _, _ = strings.Cut(line, "\n")
	ids := strings.Fields(line)
	if len(ids) != 3 || ids[0] != strconv.Itoa(pid) || ids[2] != "1" {
		t.Fatalf("its IDs are %q", ids)
	}
	out, err := memtraceCommand(t, "-p", ids[0], "-d", "200ms").Output()
	if want := fmt.Sprintf("(pid %s, %s inside, 1 inside)", ids[0], ids[1]); err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v, without %q:\n%s", err, want, out)
	}
	out, err = memtraceCommand(t, "top", "--once", "--format", "csv", "--filter", "pid:"+ids[0]).Output()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 2 {
		t.Fatalf("top: %q, %v", rows, err)
	}
	if i := slices.Index(rows[0], "inner_pids"); i < 0 || rows[1][0] != ids[0] || rows[1][i] != ids[1]+"/1" {
		t.Errorf("top: %q", rows)
	}
	outer.proceed()
	outer.end()
}

func onlyChild(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatalf("the children of process %d are %q", pid, text)
	}
	return child
}
