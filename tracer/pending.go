package tracer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/bpf"
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
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, fmt.Errorf("list the threads of process %d: %w", pid, err)
	}
	slots := t.kernel.coll.Maps[bpf.MemtraceMapThreadSlots]
	var out []uint64
	for _, task := range tasks {
		tid, err := strconv.ParseUint(task.Name(), 10, 32)
		if err != nil {
			continue
		}
		block, err := pendingOf(slots, pid, uint32(tid))
		if err != nil {
			return out, err
		}
		if block != 0 {
			out = append(out, block)
		}
	}
	return out, nil
}

// tidBits are those of a slot's owner that hold the thread's ID; bpf/headers/self.h.
const tidBits = 22

// pendingOf returns the block of one thread, or 0.
func pendingOf(slots *ebpf.Map, pid int, tid uint32) (uint64, error) {
	var state bpf.MemtraceThread
	err := slots.Lookup(tid&(slots.MaxEntries()-1), &state)
	if err != nil {
		return 0, fmt.Errorf("read the state of thread %d: %w", tid, err)
	}
	if state.Owner&(1<<tidBits-1) != uint64(tid) || state.Pending == 0 {
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
