//go:build integration

package main

import (
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs/ownthread"
)

// Where a seccomp filter refuses bpf(2), memtrace says so and what helps, and blames no limit on locked memory.
func TestSeccompFilterIsNamed(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"run", "--", "true"}, {"doctor"}} {
		var out string
		ownthread.Do(func() { // the filter stays with this thread, and with what it starts
			if err := refuseBPF(); err != nil {
				out = err.Error()
				return
			}
			said, _ := memtraceCommand(t, args...).CombinedOutput() // it fails
			out = string(said)
		})
		for _, want := range []string{"a seccomp filter", "refuses bpf", "--security-opt seccomp", "SystemCallFilter="} {
			if !strings.Contains(out, want) {
				t.Errorf("%q lacks %q:\n%s", args, want, out)
			}
		}
		if strings.Contains(out, "MEMLOCK") {
			t.Errorf("%q blames a limit that is lifted:\n%s", args, out)
		}
	}
}

// refuseBPF has bpf(2) answered with EPERM, in this thread; see seccomp(2).
func refuseBPF() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_BPF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}
