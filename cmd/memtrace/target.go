//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/symbol"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer/probe"
)

// initPIDNamespace is the inode of the initial PID namespace
// (include/linux/proc_ns.h, PROC_PID_INIT_INO).
const initPIDNamespace = 0xEFFFFFFC

// target is one process under trace.
type target struct {
	pid      int
	held     *procfs.Held
	objects  []probe.Object     // attached to; the attacher owns their files
	left     []probe.Object     // of them: those of a program before, which this one does not map
	space    *symbol.Space      // the namer's; nil: none of its own is known
	base     *analyzer.Baseline // nil where the trace saw every block
	pace     analyzer.Pace
	walkPace analyzer.Pace // of the walks of its heap, where frees are not seen
	exited   bool
	since    uint64 // ns: when it lived for certain, no later than its first event

	profile      *goProfile // of a Go program; nil: not looked for yet
	profiledExec uint64     // execed as it was looked for

	noAllocator bool // it has no allocator that can be probed
	// allocatesNothing says that it has none at all: nothing of it is missed.
	allocatesNothing bool

	walked      bool      // its heap was looked through for freed blocks
	heapless    int       // looks in a row at which it had blocks, and no heap was found
	freesUnseen bool      // free has no probe in it (--probes allocs)
	goHeap      bool      // it has a heap of Go's runtime beside those that are probed
	child       bool      // it was made by a process under trace
	shared      bool      // its memory is its parent's, until it executes a program
	probed      uint64    // ns: when it got its probes, 0 before
	programs    int       // changes whenever it has executed one under leak checks
	execed      uint64    // ns: when it replaced its program last
	execs       int       // how often
	unsure      bool      // it has an allocator without probes, which its loader may be about to report
	probesLost  bool      // its probes ended with the thread that they were tied to
	gone        time.Time // when its process was seen to have ended
	forkSeen    time.Time // of a child: when that was seen

	// unchecked says why there was no leak check, where there was to be one.
	unchecked error
	// untraced says why nothing is seen of what it allocates, until its probes
	// are in place after all. Its heap is then empty for us, and no check of it
	// says anything.
	untraced error
	// loading says that nothing of it has run so far: it needs a C library, and stands still once its loader has
	// mapped that.
	loading  bool
	replaced bool // it has executed a program: a late answer about its attach as a child says nothing of that
	sampler  analyzer.Sampler
	names    jvmNames // of the code that its JVM compiles
	check    bool     // it was checked at its end
}

// holdTarget opens a process for tracing, or says why it can't be traced.
func holdTarget(fs procfs.FS, pid int) (*target, error) {
	if pid == os.Getpid() {
		return nil, fmt.Errorf("trace process %d: that is memtrace itself", pid)
	}
	since := now()
	held, err := fs.Hold(pid)
	if err != nil {
		hint := threadHint(fs, pid)
		if errors.Is(hint, procfs.ErrGone) {
			return nil, hint
		}
		return nil, fmt.Errorf("trace process %d: %w", pid, errors.Join(err, hint))
	}
	stat, err := held.Stat()
	if err == nil && stat.KernelThread() {
		err = probe.ErrKernelThread
	}
	if err != nil {
		_ = held.Close()
		return nil, fmt.Errorf("trace process %d: %w", pid, err)
	}
	return &target{pid: pid, held: held, since: since, unchecked: errEndedFirst}, nil
}

// holdRunning is holdTarget of a process that is no target, or no longer. One that runs no code any more gives
// procfs.ErrGone: its last event may have been read, and nothing more would say that it has ended.
func holdRunning(fs procfs.FS, pid int) (*target, error) {
	t, err := holdTarget(fs, pid)
	if err != nil || !exiting(t.held) {
		return t, err
	}
	_ = t.held.Close()
	return nil, endedError(pid)
}

// exiting reports whether all threads of a process are in their exit, in which it has its ID yet.
// What can't be told isn't.
func exiting(held *procfs.Held) bool {
	stat, err := held.Stat()
	if err != nil || !stat.Exiting() { // as nearly all
		return false
	}
	seen, err := held.Tasks()
	if err != nil {
		return errors.Is(err, procfs.ErrGone)
	}
	if slices.ContainsFunc(seen, func(tid int) bool { return mayRun(held, tid) }) {
		return false
	}
	left, err := held.Tasks() // a thread may have started another before it was looked at
	if err != nil {
		return errors.Is(err, procfs.ErrGone)
	}
	return !slices.ContainsFunc(left, func(tid int) bool {
		_, known := slices.BinarySearch(seen, tid)
		return !known
	})
}

// mayRun reports whether a thread is not known to be in its exit, nor to have ended.
func mayRun(held *procfs.Held, tid int) bool {
	task, err := held.TaskStat(tid)
	if err != nil {
		return !errors.Is(err, procfs.ErrGone)
	}
	return !task.Exiting()
}

// endedError says that no process has an ID.
type endedError int

func (e endedError) Error() string {
	return fmt.Sprintf("no such process: %d has ended, or never ran (memtrace top shows those that run; --comm NAME chooses by name)", int(e))
}

// Unwrap lets callers distinguish it from other failures.
func (e endedError) Unwrap() error { return procfs.ErrGone }

// threadHint names the process of an ID that turns out to be a thread's, and
// says of one that nobody has that it has ended.
func threadHint(fs procfs.FS, tid int) error {
	p, err := fs.Process(tid)
	if errors.Is(err, procfs.ErrGone) {
		return endedError(tid)
	}
	if err != nil {
		return nil
	}
	defer p.Close()
	status, err := p.Status()
	if err != nil || status.Tgid == tid {
		return nil
	}
	return fmt.Errorf("%d is a thread of process %d: trace that (-p %d)", tid, status.Tgid, status.Tgid)
}

// describe says who the process is, for the Report.
func (t *target) describe() analyzer.ProcessInfo {
	info := analyzer.ProcessInfo{
		PID: uint32(t.pid), Attached: t.base != nil, Probed: t.probed, Unprobed: t.noAllocator && !t.allocatesNothing,
	}
	// A process that has just ended has no names any more. Where it stood still
	// before, they were read then, and are added once its last event is read.
	identify(t.held.Process).describe(&info)
	if slices.ContainsFunc(t.objects, namesFunctions) {
		info.Probed = 0 // calls within those functions are theirs, and not seen
	}
	if !t.noAllocator {
		info.Allocators = allocatorNames(t.objects, t.left)
		info.GoHeap, info.Untraced = t.goHeap, untracedNames(t.objects, t.left)
	}
	return info
}

// allocatorNames names the files that are probed but for those in left, of a
// program before.
func allocatorNames(objects, left []probe.Object) (names []string) {
	for i := range objects {
		if !hasFile(left, &objects[i]) {
			names = append(names, fmt.Sprintf("%s %s", objects[i].Family, objects[i].Path))
		}
	}
	return names
}

// namesFunctions reports whether functions that the user named are probed in a file.
func namesFunctions(o probe.Object) bool {
	return slices.ContainsFunc(o.Probes, func(p probe.Probe) bool { return p.Family == probe.User })
}

// untracedNames names functions of the probed files that may allocate and are not
// probed, as --alloc-fn takes them.
func untracedNames(objects, left []probe.Object) (names []string) {
	for i := range objects {
		for _, name := range objects[i].Others {
			if !hasFile(left, &objects[i]) {
				names = append(names, filepath.Base(objects[i].Path)+"!"+name)
			}
		}
	}
	return names
}

// has reports whether the process's object o is attached to.
func (t *target) has(o *probe.Object) bool { return hasFile(t.objects, o) }

func hasFile(objects []probe.Object, o *probe.Object) bool {
	return slices.ContainsFunc(objects, func(other probe.Object) bool { return sameFile(&other, o) })
}

func sameFile(a, b *probe.Object) bool {
	return a.Major == b.Major && a.Minor == b.Minor && a.Inode == b.Inode
}

// news returns those of found that are not attached to yet.
func (t *target) news(found []probe.Object) []probe.Object {
	return slices.DeleteFunc(slices.Clone(found), func(o probe.Object) bool { return t.has(&o) })
}

// found notes which of the files with probes the program maps. Where it has just been executed, the others
// are those of the program before.
func (t *target) found(mapped []probe.Object, executed bool) {
	if executed {
		t.left = slices.Clone(t.objects)
	}
	t.left = slices.DeleteFunc(t.left, func(o probe.Object) bool { return hasFile(mapped, &o) })
}

// parentNamesTime is how long a child uses its parent's names. Most of those that
// execute a program do so at once, and what they map then must not be taken
// for what they mapped before.
const parentNamesTime = time.Second

func (t *target) usesParentNames() bool {
	return t.execs == 0 && time.Since(t.forkSeen) < parentNamesTime
}

func (t *target) close() {
	t.profile.close()
	t.names.close(t.held.Alive())
	_ = t.held.Close()
}

// checkNamespace refuses to trace from inside a PID namespace: the kernel half
// knows processes by their global IDs.
func checkNamespace(fs procfs.FS) error {
	self, err := fs.Process(os.Getpid())
	if err != nil {
		return fmt.Errorf("look at memtrace's own process: %w", err)
	}
	defer self.Close()
	inode, err := self.NSInode("pid")
	if err != nil {
		return err
	}
	if inode != initPIDNamespace {
		return &exitError{exitUnsupported, errors.New("memtrace runs in a PID namespace (a container); run it on the host, or in a container with --pid=host")}
	}
	return nil
}
