package probe

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxLivingTries bounds how many threads LivingThread looks at; all but the
// first leave /proc as soon as they end.
const maxLivingTries = 16

// LivingThread is the ID of a thread through which the memory of process pid
// can be reached: pid itself, or, where the first thread has called
// pthread_exit and others run on, one of those. /proc/PID and what the kernel
// ties to that thread then have no memory any more; /proc/TID, which is there
// although it isn't listed (proc(5)), does. Root is where the proc file system
// is mounted.
func LivingThread(root string, pid int) int {
	if !ThreadEnded(root, pid, pid) {
		return pid
	}
	tasks, err := os.Open(filepath.Join(root, strconv.Itoa(pid), "task"))
	if err != nil {
		return pid
	}
	defer tasks.Close()
	names, _ := tasks.Readdirnames(maxLivingTries) // what could not be listed is not tried
	for _, name := range names {
		if tid, err := strconv.Atoi(name); err == nil && tid != pid && !ThreadEnded(root, pid, tid) {
			return tid
		}
	}
	return pid
}

// ThreadEnded reports whether thread tid of process pid has ended, if only the
// process itself is left to be reaped, or is just ending.
func ThreadEnded(root string, pid, tid int) bool {
	path := filepath.Join(root, strconv.Itoa(pid))
	if tid != pid {
		path = filepath.Join(path, "task", strconv.Itoa(tid))
	}
	stat, err := os.ReadFile(filepath.Join(path, "stat"))
	if err != nil {
		return true
	}
	return ended(bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])) // the name before may contain anything
}

// Of the fields of /proc/PID/stat (proc_pid_stat(5)), those that tell a
// thread's end, counted from the state on.
const (
	statState   = 0
	statFlags   = 6
	statPending = 28
)

// ended reports whether a thread with these fields has ended, is on its way
// there (PF_EXITING of include/linux/sched.h) or is about to be killed.
func ended(fields [][]byte) bool {
	if len(fields) == 0 || fields[statState][0] == 'Z' || fields[statState][0] == 'X' {
		return true
	}
	if len(fields) <= statPending {
		return false
	}
	const exiting, kill = 0x4, 1 << (unix.SIGKILL - 1)
	flags, _ := strconv.ParseUint(string(fields[statFlags]), 10, 64)
	pending, _ := strconv.ParseUint(string(fields[statPending]), 10, 64)
	return flags&exiting != 0 || pending&kill != 0
}

// memoryDir is the directory in /proc that shows the memory of process pid.
func memoryDir(root string, pid int) string {
	return filepath.Join(root, strconv.Itoa(LivingThread(root, pid)))
}
