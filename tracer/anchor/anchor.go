// Package anchor keeps the kernel from ending a traced process as its probes go.
//
// A thread that has hit a probe's trap, and has not yet told so as the last probe in its process goes, is ended by
// SIGTRAP: the kernel asks first whether the process has any probes (MMF_HAS_UPROBES), and that is taken back as soon as
// another thread finds that its trap is gone (mmf_recalc_uprobes, kernel/events/uprobes.c). It takes a processor that stops
// between two instructions meanwhile, as those of virtual machines do: of 40 busy programs in an emulated machine 6 were
// ended as memtrace was killed.
//
// It is not taken back while any probe lies in a file that the process has mapped, whoever the probe is for. So there is one
// more in each file with probes, for a process that does not map it, where no trap is ever set. A process of its own keeps
// these until memtrace is gone, and a second longer.
package anchor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/tracer/anchor/keeper"
)

// maxFiles bounds the files with anchors. Each costs a descriptor of the keeper.
const maxFiles = 4096

type file struct{ dev, ino uint64 }

// kept is what the keeper has, which starts with the first file.
var kept struct {
	sync.Mutex
	socket *os.File
	pid    int
	files  map[file]bool
}

// Hold has an anchor in the file at path, in which a place at the offset is to have a probe: before it has one, and
// from then on. The anchor lies behind that place, where no probe is, as it would cost something at each hit.
func Hold(path string, offset uint64) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	key := file{st.Dev, st.Ino}
	kept.Lock()
	defer kept.Unlock()
	switch {
	case kept.files[key]:
		return nil
	case len(kept.files) >= maxFiles:
		return fmt.Errorf("more than %d files have probes", maxFiles)
	}
	err := hold(path, offset)
	if err != nil && kept.socket == nil { // somebody has ended the keeper
		err = hold(path, offset)
	}
	if err == nil {
		kept.files[key] = true
	}
	return err
}

func hold(path string, offset uint64) error {
	if kept.socket == nil {
		if err := start(); err != nil {
			return fmt.Errorf("start a process that keeps anchors: %w", err)
		}
	}
	fd, err := open(path, offset+behind, kept.pid)
	if errors.Is(err, unix.ESRCH) {
		forget()
	}
	if err != nil {
		return fmt.Errorf("put an anchor into %s: %w", path, err)
	}
	defer unix.Close(fd)
	if err := hand(fd); err != nil {
		return fmt.Errorf("hand an anchor over: %w", err)
	}
	return nil
}

// forget gives up a keeper that is gone.
func forget() {
	_ = kept.socket.Close()
	kept.socket, kept.files = nil, nil
}

// Start starts the keeper, if there is none, so that no Hold has to wait for it.
func Start() error {
	kept.Lock()
	defer kept.Unlock()
	if kept.socket != nil {
		return nil
	}
	return start()
}

func start() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a socket pair: %w", err)
	}
	ours, its := os.NewFile(uintptr(pair[0]), "anchors"), os.NewFile(uintptr(pair[1]), "anchors")
	defer its.Close()
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", // also where the file has been replaced since
		Args: keeper.Args(os.Getpid()),
		Env:  []string{}, Dir: "/", Stdin: its,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := cmd.Start(); err != nil {
		_ = ours.Close()
		return err
	}
	kept.socket, kept.pid, kept.files = ours, cmd.Process.Pid, map[file]bool{}
	go func() {
		_ = cmd.Wait() // by somebody else's hand
		kept.Lock()
		defer kept.Unlock()
		if kept.socket == ours {
			forget()
		}
	}()
	return nil
}

// behind is how far behind a probe's place an anchor lies: the size of an instruction on arm64.
const behind = 4

// open makes a uprobe for the process with that PID, in the file at path.
func open(path string, offset uint64, pid int) (fd int, err error) {
	text, err := os.ReadFile("/sys/bus/event_source/devices/uprobe/type")
	if err != nil {
		return -1, err
	}
	kind, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return -1, err
	}
	cpath, err := unix.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	attr := unix.PerfEventAttr{
		Type: uint32(kind), Bits: unix.PerfBitDisabled,
		Ext1: uint64(uintptr(unsafe.Pointer(cpath))), Ext2: offset,
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err = unix.PerfEventOpen(&attr, pid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	runtime.KeepAlive(cpath)
	return fd, os.NewSyscallError("perf_event_open", err)
}

// hand hands a descriptor to the keeper.
func hand(fd int) error {
	var answer [1]byte
	socket := int(kept.socket.Fd())
	err := unix.Sendmsg(socket, []byte{0}, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL)
	if err == nil {
		_, err = io.ReadFull(kept.socket, answer[:]) // its end is an error, too
	}
	switch {
	case err != nil:
		forget()
		return err
	case answer[0] != keeper.Kept:
		return errors.New("it has no room for more")
	}
	return nil
}
