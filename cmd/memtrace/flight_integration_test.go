//go:build integration

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/procfs/cgroup"
)

// recordedAs is the Report of a recording by memtrace report, and what that says on stderr.
func recordedAs(t *testing.T, file string, flags ...string) (r report.Report, complaints string) {
	t.Helper()
	var stderr bytes.Buffer
	cmd := memtraceCommand(t, append([]string{"report", "--format", "json", file}, flags...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		t.Fatalf("report of %s: %v: %s", file, err, stderr.String())
	}
	return r, stderr.String()
}

// awaitFile waits until a file can be read as a recording.
func awaitFile(t *testing.T, path string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		f, err := os.Open(path)
		if err == nil {
			r, wrong := readRecording(ctx, f, path)
			_ = f.Close()
			if wrong == nil && r.Closed() {
				return
			}
			err = wrong
		}
		if ctx.Err() != nil {
			t.Fatalf("%s is not written: %v", path, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// What a process held as it was killed is in the flight's file: the program's own count of its blocks, with names.
func TestRecordingInFlightOfAKilledProcess(t *testing.T) {
	t.Parallel()
	c := program(t, "every_function")
	file := filepath.Join(t.TempDir(), "flight.memtrace")
	tr := attach(t, c.cmd.Process.Pid, "-o", file, "--flight", "5m")
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	want := c.total(t, "live_bytes")
	tr.awaitAll(c)
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is there before anything froze it: %v", err)
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait()
	tr.end() // two Reports fill the pipe, and memtrace would wait for who reads it
	r, _ := recordedAs(t, file)
	p := r.Processes[0]
	if p.Heap.LiveBytes != want || !p.Exited {
		t.Errorf("%d live bytes, exited %v, want %d of a process that has ended", p.Heap.LiveBytes, p.Exited, want)
	}
	held := uint64(0)
	for _, s := range r.Sites {
		if s.LiveBytes > 0 && s.Stack[0].File == "" {
			t.Errorf("site %+v has no name", s)
		}
		held += s.LiveBytes
	}
	if held != want {
		t.Errorf("the sites hold %d bytes, want %d", held, want)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// Each SIGUSR1 gives a file of its own, and a condition that is met from the start one at once. Nothing else is written.
func TestRecordingInFlightIsFrozenAgain(t *testing.T) {
	t.Parallel()
	c := program(t, "every_function")
	dir := t.TempDir()
	file := filepath.Join(dir, "flight.memtrace")
	tr := attach(t, c.cmd.Process.Pid, "-o", file, "--flight", "1m", "--freeze-on", "rss>1KiB,mem.available<1KiB")
	awaitFile(t, file) // as rss was so from the start
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	want := c.total(t, "live_bytes")
	tr.awaitAll(c)
	for n := 2; n <= 3; n++ {
		if err := tr.cmd.Process.Signal(unix.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		again := filepath.Join(dir, fmt.Sprintf("flight.%d.memtrace", n))
		awaitFile(t, again)
		if r, _ := recordedAs(t, again); r.Processes[0].Heap.LiveBytes != want {
			t.Errorf("%s: %d live bytes, want %d", again, r.Processes[0].Heap.LiveBytes, want)
		}
	}
	tr.interrupt()
	if files, err := os.ReadDir(dir); err != nil || len(files) != 3 {
		t.Errorf("%v, %v: want three files", files, err)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

// A flight that nothing freezes leaves no file, and says so. So does a program that ends at once.
func TestRecordingInFlightOfNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "flight.memtrace")
	var stderr bytes.Buffer
	cmd := memtraceCommand(t, "record", "-o", file, "--flight", "1m", "--", "true")
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil || !strings.Contains(stderr.String(), "nothing has frozen the flight recorder") {
		t.Errorf("%v: %s", err, stderr.String())
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("%v, %v: want no file", files, err)
	}
	cmd = memtraceCommand(t, "record", "-o", file, "--flight", "1m", "--", "sh", "-c", "kill -SEGV $$")
	_, _ = cmd.CombinedOutput() // its exit code is the program's
	if r, _ := recordedAs(t, file); len(r.Processes) != 1 || !r.Processes[0].Exited {
		t.Errorf("%+v: want one process, which has ended", r.Processes)
	}
}

// limitedGroup makes a control group that may take so many MiB, and returns its directory.
func limitedGroup(t *testing.T, mib int) string {
	t.Helper()
	h, err := cgroup.Open("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	if h.Version() == 2 {
		if err := os.WriteFile(filepath.Join(h.Root(), "cgroup.subtree_control"), []byte("+memory"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(h.Root(), fmt.Sprintf("memtrace-flight-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	name := map[int]string{1: "memory.limit_in_bytes", 2: "memory.max"}[h.Version()]
	if err := os.WriteFile(filepath.Join(dir, name), []byte(strconv.Itoa(mib<<20)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, swap := range []string{"memory.memsw.limit_in_bytes", "memory.swap.max"} { // where there is any
		if _, err := os.Stat(filepath.Join(dir, swap)); err == nil {
			limit := map[int]int{1: mib << 20, 2: 0}[h.Version()]
			if err := os.WriteFile(filepath.Join(dir, swap), []byte(strconv.Itoa(limit)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// After the kernel has killed a process for want of memory, the file tells which site held it.
func TestRecordingInFlightOfAnOutOfMemoryKill(t *testing.T) {
	t.Parallel()
	group := limitedGroup(t, 16)
	file := filepath.Join(t.TempDir(), "flight.memtrace")
	var stderr bytes.Buffer
	cmd := memtraceCommand(t, "record", "-o", file, "--flight", "5m", "--", "sh", "-c", `echo $$ >"$0/cgroup.procs"; exec "$@"`,
		group, testProgram("churn"), "run", "3", "1", "0", "100000000", "400000")
	cmd.Stderr = &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 128+int(unix.SIGKILL) || !strings.Contains(stderr.String(), "killed by SIGKILL") {
		t.Fatalf("%v: %s: want a program that was killed", err, stderr.String())
	}
	r, _ := recordedAs(t, file, "--sort", "live")
	if len(r.Sites) == 0 {
		t.Fatal("there are no sites")
	}
	first := r.Sites[0]
	if heap := r.Processes[0].Heap.LiveBytes; heap < 6<<20 || heap > 16<<20 || first.LiveBytes < heap*9/10 || !strings.Contains(first.Function, "held") {
		t.Errorf("%s held %d of %d bytes; want nearly all of what 16 MiB have room for, by churn's held blocks", first.Function, first.LiveBytes, heap)
	}
}

// However memtrace is killed, the file of a ring can be read, begins with a checkpoint once it has turned, and has what lives.
func TestRecordingOfARingThatIsKilled(t *testing.T) {
	t.Parallel()
	// Each turn of the program frees one block and then makes another.
	const blocks, held = 5000, 5000 - 1
	for i := range 4 {
		file := filepath.Join(t.TempDir(), "ring.memtrace") // of its own: an earlier one has turned already
		cmd := memtraceCommand(t, "record", "-o", file, "--keep", "1s", "--",
			testProgram("churn"), "run", "3", "1", "120", "0", strconv.Itoa(blocks))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		awaitHeld(t, file, held)
		awaitTurn(t, file)
		for range 200 * i { // at another moment each time
			_, _ = os.Stat(file)
		}
		if err := unix.Kill(cmd.Process.Pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // the program
		r := openRecording(t, file)
		if _, carried := r.From(); !carried || r.Closed() {
			t.Errorf("round %d: begins with a checkpoint: %v, closed: %v", i, carried, r.Closed())
		}
		got, complaints := recordedAs(t, file)
		p := got.Processes[len(got.Processes)-1]
		if p.Heap.LiveCount < held || p.Heap.LiveCount > blocks+64 || strings.Contains(complaints, "lacks what happened") {
			t.Errorf("round %d: %d live blocks, want the %d that it holds and a few: %s",
				i, p.Heap.LiveCount, blocks, complaints)
		}
	}
}

// awaitHeld waits until a file has so many live blocks: a program on a busy machine takes its time to hold them all.
func awaitHeld(t *testing.T, path string, held uint64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if readable(path) {
			r, _ := recordedAs(t, path)
			if n := len(r.Processes); n > 0 && r.Processes[n-1].Heap.LiveCount >= held {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s never has %d live blocks", path, held)
		}
	}
}

// readable reports whether there is a recording yet.
func readable(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	_, err = readRecording(context.Background(), f, path)
	return err == nil
}

// awaitTurn waits until the file is another one than at first.
func awaitTurn(t *testing.T, path string) {
	t.Helper()
	first, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if now, err := os.Stat(path); err == nil && !os.SameFile(first, now) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not turn", path)
		}
	}
}
