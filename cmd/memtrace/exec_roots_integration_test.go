//go:build integration && amd64

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// loseOne loses a block, of which a register that no call keeps still has the address, or a place on the stack where
// execl has its frame then. As an argument says, it executes another program by execv or execl; with an argument in a block
// that nothing but execl's own list has.
const loseOne = `
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static __attribute__((noinline)) void lose(int n) {
	volatile char room[256];
	room[0] = n;
	if (n) lose(n - 1); else memset(malloc(99), 1, 99);
	room[1] = n;
}
static __attribute__((noinline)) void drop(void) { char *p = malloc(99); p[0] = 1; }
int main(int argc, char **argv) {
	if (argc == 1) { malloc(100); return 0; }
	char *next[] = {"true", 0};
	switch (atoi(argv[1])) {
	case 1: lose(3); execv("/bin/true", next);
	case 2: drop(); execl("/bin/true", "true", (char *)0);
	case 3: drop(); execle("/bin/true", "true", (char *)0, environ);
	case 4: lose(3); execl("/bin/true", "true", strdup("an argument"), (char *)0);
	}
	return 1;
}`

// A block that only dead registers of a thread at exec still have, or dead frames of exit in a program that another one
// with the C library executed, is lost.
func TestDeadRegistersAndFramesAfterExec(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "lose_one")
	gcc := exec.Command("gcc", "-w", "-O0", "-fno-builtin", "-xc", "-o", program, "-")
	gcc.Stdin = strings.NewReader(loseOne)
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{
		{program, "1"}, {program, "2"}, {program, "3"}, {program, "4"},
		{"env", "LD_PRELOAD=" + library(t, tcmallocLib), program},
	} {
		cmd := exec.Command(self, append([]string{"run", "--leaks", "--format", "json", "--"}, command...)...)
		cmd.Env = append(os.Environ(), asMemtrace+"=1")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, os.Stderr
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		var r report.Report
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Leaks) != 1 || r.Leaks[0].Kind != "definite" || r.Leaks[0].Count != 1 || r.Leaks[0].Bytes < 99 {
			t.Errorf("%q: leaks %+v, want one block", command, r.Leaks)
		}
	}
}
