//go:build integration

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that maps a file by a long path a thousand times costs the text of its mappings once, for the memory of
// each: the kernel takes 20 µs for each such line, and processes may have 65,530. Before Linux 6.11, which answers queries,
// whoever needs the mappings at another moment reads it, too. What is counted is what memtrace has read by its end.
func TestLongPathsAreReadOnce(t *testing.T) {
	t.Parallel()
	short, long := t.TempDir(), t.TempDir()
	for len(long) < 3500 {
		long = filepath.Join(long, strings.Repeat("d", 250))
	}
	if err := os.MkdirAll(long, 0o755); err != nil {
		t.Fatal(err)
	}
	traceOfMany(t, short) // fills what is cached
	usual, text := traceOfMany(t, short)
	read, longText := traceOfMany(t, long)
	readings := float64(read-usual) / float64(longText-text)
	most := 1.5
	if !answersQueries(t) {
		most = 10.5
	}
	t.Logf("%d bytes more were read, %d of a text of mappings: %.1f readings", read-usual, longText-text, readings)
	if readings > most || readings < 0.5 {
		t.Errorf("the text of all mappings was read %.1f times, want some 1 to %v", readings, most)
	}
}

// traceOfMany traces a program that maps a file in a folder a thousand times, and returns how many bytes memtrace has
// read, and how many the list of the program's mappings has.
func traceOfMany(t *testing.T, folder string) (read, text int64) {
	t.Helper()
	const mappings = 1000
	file := filepath.Join(folder, "mapped")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 2*mappings<<16); err != nil {
		t.Fatal(err)
	}
	program := exec.Command(testProgram("many_mappings"), file, fmt.Sprint(mappings))
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = program.Wait() }()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the program said %q, %v", line, err)
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", program.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	// One reading of the memory of each mapping: the last.
	cmd := memtraceCommand(t, "-p", fmt.Sprint(program.Process.Pid), "-d", "300ms", "-i", "1h", "--format", "json")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for {
		err = unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	io, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", cmd.Process.Pid))
	if err := cmd.Wait(); err != nil {
		t.Fatalf("memtrace: %v: %s", err, &said)
	}
	if _, scan := fmt.Sscanf(string(io), "rchar: %d", &read); scan != nil {
		t.Fatalf("what memtrace read: %q, %v", io, err)
	}
	return read, int64(len(maps))
}

// answersQueries reports whether this kernel has PROCMAP_QUERY (Linux 6.11).
func answersQueries(t *testing.T) bool {
	t.Helper()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	var major, minor int
	release := unix.ByteSliceToString(name.Release[:])
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		t.Fatalf("Linux %s: %v", release, err)
	}
	return major > 6 || major == 6 && minor >= 11
}
