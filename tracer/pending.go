package tracer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/probe"
)

// Pending returns the addresses of blocks of a process that have been recorded,
// as their allocation was predicted, and that malloc has not taken from its
// list yet: of threads that were stopped, or lost the processor, just as they
// had trapped. Nothing but the allocator has a pointer to such a block, and yet it
// is neither lost nor was it freed unseen. It is exact for a process that stands still.
func (t *Tracer) Pending(pid int) ([]uint64, error) {
	if t.cookies.caches.empty() {
		return nil, nil
	}
	var out []uint64
	err := t.eachThread(pid, func(state *bpf.MemtraceThread) error {
		block, err := pendingOf(pid, state)
		if block != 0 {
			out = append(out, block)
		}
		return err
	})
	return out, err
}

// Resizing lists the blocks of process pid that its threads are just giving to realloc: what becomes of such
// a block is not known before the call has returned.
func (t *Tracer) Resizing(pid int) ([]uint64, error) {
	var out []uint64
	err := t.eachThread(pid, func(state *bpf.MemtraceThread) error {
		switch probe.Shape(state.Shape) {
		case probe.Realloc, probe.Reallocarray, probe.Resize:
			if state.Sp != 0 && state.Old != 0 {
				out = append(out, state.Old)
			}
		}
		return nil
	})
	return out, err
}

// eachThread calls fn with the state of each thread of process pid that has one.
func (t *Tracer) eachThread(pid int, fn func(state *bpf.MemtraceThread) error) error {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return fmt.Errorf("list the threads of process %d: %w", pid, err)
	}
	slots := t.kernel.coll.Maps[bpf.MemtraceMapThreadSlots]
	for _, task := range tasks {
		tid, err := strconv.ParseUint(task.Name(), 10, 32)
		if err != nil {
			continue
		}
		var state bpf.MemtraceThread
		if err := slots.Lookup(uint32(tid)&(slots.MaxEntries()-1), &state); err != nil {
			return fmt.Errorf("read the state of thread %d: %w", tid, err)
		}
		if state.Owner&(1<<tidBits-1) != tid {
			continue
		}
		if err := fn(&state); err != nil {
			return err
		}
	}
	return nil
}

// tidBits are those of a slot's owner that hold the thread's ID; bpf/headers/self.h.
const tidBits = 22

// pendingOf returns the block of one thread, or 0.
func pendingOf(pid int, state *bpf.MemtraceThread) (uint64, error) {
	if state.Pending == 0 {
		return 0, nil
	}
	word, err := readWord(pid, state.PendingAt)
	if errors.Is(err, unix.ESRCH) || err == nil && word != state.PendingWord {
		return 0, nil
	}
	return state.Pending, nil // also where that can't be read: nobody is to be accused without need
}

// readWord reads a word of a process's memory.
func readWord(pid int, addr uint64) (uint64, error) {
	var word [8]byte
	local := []unix.Iovec{{Base: &word[0], Len: uint64(len(word))}}
	remote := []unix.RemoteIovec{{Base: uintptr(addr), Len: len(word)}}
	n, err := unix.ProcessVMReadv(pid, local, remote, 0)
	if err == nil && n != len(word) {
		err = unix.EFAULT
	}
	return binary.NativeEndian.Uint64(word[:]), err
}
