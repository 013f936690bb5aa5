package probe

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer/debugfile"
)

// Discover finds the allocators in a running process: one Object, with its
// File open, for each mapped executable file that has Probes. Root is where
// the proc file system is mounted, usually "/proc". Where a file is mapped that the
// Go toolchain built, all have WithGo: the heap of Go's runtime is not theirs. All have
// the same Tracing, of all files.
//
// Errors: os.ErrProcessDone (no such process, or it exits meanwhile),
// os.ErrPermission, ErrKernelThread, ErrInterpreter, ErrGoProgram, ErrStripped,
// ErrNoAllocator, ErrAllocatesNothing, and Err32Bit and ErrNotSupportedMachine for the program.
func Discover(root string, pid int) ([]Object, error) { return NewFinder(root, Choice{}).Discover(pid) }

// Discover is the function Discover.
func (d *Finder) Discover(pid int) ([]Object, error) {
	found, _, err := d.DiscoverAll(pid)
	return found, err
}

// A Look tells of one look into a process.
type Look struct {
	Whole  bool           // every file could be looked into: while the same code is mapped, another look finds the same
	Code   procfs.CodeSum // of what was mapped
	Listed time.Duration  // what listing that took
}

// Look is Discover, and tells of the look.
func (d *Finder) Look(pid int) ([]Object, Look, error) {
	s := discovery{finder: d, pid: pid, dir: memoryDir(d.root, pid)}
	found, _, err := s.discover(func(mapping) bool { return true })
	return found, Look{err == nil && len(s.problems) == 0, s.listed.sum, s.listed.took}, err
}

// DiscoverAll is Discover, and tells of files, too, in which there is nothing to
// probe but USDT probes that are not asked for, or that can't be. Their File is nil.
func (d *Finder) DiscoverAll(pid int) (found, marked []Object, err error) {
	return d.discover(pid, func(mapping) bool { return true })
}

// DiscoverNew is Discover, but looks only into files with a mapping that is not in known,
// to which it adds them. That none of them has an allocator is no error.
func (d *Finder) DiscoverNew(pid int, known Mappings) ([]Object, error) {
	found, _, err := d.discover(pid, known.add)
	none := []error{ErrNoAllocator, ErrGoProgram, ErrStripped, ErrAllocatesNothing}
	if slices.ContainsFunc(none, func(reason error) bool { return errors.Is(err, reason) }) {
		err = nil
	}
	return found, err
}

// Mappings are what DiscoverNew has seen of a process.
type Mappings map[mapping]struct{}

// maxSeen bounds them: then all is looked at again.
const maxSeen = 1 << 15

// add reports whether m is new.
func (k Mappings) add(m mapping) bool {
	if _, ok := k[m]; ok {
		return false
	}
	if len(k) >= maxSeen {
		clear(k)
	}
	k[m] = struct{}{}
	return true
}

// discover looks into the files of mappings that are wanted.
func (d *Finder) discover(pid int, wanted func(mapping) bool) (found, marked []Object, err error) {
	s := discovery{finder: d, pid: pid, dir: memoryDir(d.root, pid)}
	return s.discover(wanted)
}

func (s *discovery) discover(wanted func(mapping) bool) (found, marked []Object, err error) {
	pid := s.pid
	mappings, err := s.mappings()
	if err != nil {
		return nil, nil, fmt.Errorf("find the allocator of process %d: %w", pid, err)
	}
	if interprets(s.dir, mappings) {
		return nil, nil, fmt.Errorf("find the allocator of process %d: %w", pid, ErrInterpreter)
	}
	s.alone = withoutLoader(s.dir)
	for _, file := range groupByFile(mappings) {
		look := false
		for _, m := range file {
			look = wanted(m) || look
		}
		if look {
			s.inspect(file)
		}
	}
	if len(s.found) > 0 {
		for i := range s.found {
			s.found[i].WithGo, s.found[i].Tracing = s.goBuilt, s.tracing
		}
		return s.found, s.marked, nil
	}
	if _, err := s.readMaps(); err != nil { // the likeliest reason that nothing was found
		return nil, nil, fmt.Errorf("find the allocator of process %d: %w", pid, err)
	}
	return nil, s.marked, fmt.Errorf("find the allocator of process %d: %w", pid, s.failure())
}

// discovery is the state of one Discover.
type discovery struct {
	finder   *Finder
	pid      int
	dir      string // /proc/PID, or that of a thread (LivingThread)
	listed   codeList
	found    []Object
	marked   []Object // see DiscoverAll
	looked   []string // paths without an allocator
	problems []error  // files that could not be inspected
	program  *Object  // the static program, if the process is one
	goBuilt  bool
	tracing  Tracing
	alone    bool // the program has no dynamic loader
}

// mappings reads the executable mappings of a process that has some.
func (s *discovery) mappings() (_ []mapping, err error) {
	if s.listed, err = s.readMaps(); err != nil {
		return nil, err
	}
	if s.listed.any {
		return s.listed.mappings, nil
	}
	if ThreadEnded(s.finder.root, s.pid, s.pid) {
		return nil, fmt.Errorf("it is a zombie: %w", os.ErrProcessDone)
	}
	return nil, ErrKernelThread
}

func (s *discovery) readMaps() (codeList, error) {
	listed, err := readMaps(s.dir)
	if err != nil {
		return listed, fmt.Errorf("read its mappings: %w", exited(err))
	}
	return listed, nil
}

// exited marks errors that mean that the process is gone.
func exited(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("%w: %w", os.ErrProcessDone, err)
	}
	return err
}

// groupByFile collects the mappings of each file, in order of address.
func groupByFile(mappings []mapping) [][]mapping {
	var files [][]mapping
	index := map[fileKey]int{}
	for _, m := range mappings {
		i, ok := index[m.key()]
		if !ok {
			i = len(files)
			index[m.key()] = i
			files = append(files, nil)
		}
		files[i] = append(files[i], m)
	}
	return files
}

// inspect looks at one mapped file and records what it is.
func (s *discovery) inspect(file []mapping) {
	first := file[0]
	if s.alone && filepath.Base(first.path) != programName(s.dir) {
		s.problems = append(s.problems, fmt.Errorf("%s: %w", first.path, errOwnMapping))
		return
	}
	f, err := openMapped(s.dir, first)
	if errors.Is(err, debugfile.ErrNotRegular) {
		return
	}
	if err != nil {
		s.problems = append(s.problems, fmt.Errorf("open %s: %w", first.path, err))
		if debugfile.Refused(err) {
			s.finder.leave(first.path, fmt.Sprintf("it is not read, and an allocator in it not traced: %v", err))
		}
		return
	}
	o, err := s.finder.inspect(f, locator{dirs: debugfile.Dirs, path: first.path})
	s.tracing.add(&o)
	if err == nil && o.Machine != hostMachine() {
		err = fmt.Errorf("%w: %v", ErrNotSupportedMachine, o.Machine)
	}
	if err != nil || len(o.Probes) == 0 {
		f.Close()
		s.reject(first.path, o, err)
		return
	}
	o.File, o.Path, o.Major, o.Minor, o.Inode = f, first.path, first.major, first.minor, first.inode
	for _, m := range file {
		o.Text = append(o.Text, m.Range)
	}
	s.found = append(s.found, o)
	s.goBuilt = s.goBuilt || o.Go
}

func (s *discovery) reject(path string, o Object, err error) {
	switch {
	case errors.Is(err, ErrNotELF): // data that happens to be mapped executable
	case err != nil:
		s.problems = append(s.problems, fmt.Errorf("inspect %s: %w", path, err))
	default:
		if len(o.Marks) > 0 || slices.ContainsFunc(o.Skipped, func(k Skip) bool { return s.finder.choice.marks(k.Name) }) {
			o.Path = path
			s.marked = append(s.marked, o)
		}
		s.looked = append(s.looked, path)
		s.goBuilt = s.goBuilt || o.Go
		if o.Static {
			s.program = &o
		}
	}
}

// failure explains why nothing was found, by the likeliest cause.
func (s *discovery) failure() error {
	for _, problem := range s.problems {
		if errors.Is(problem, Err32Bit) || errors.Is(problem, ErrNotSupportedMachine) {
			return problem
		}
	}
	switch {
	case s.goBuilt:
		return ErrGoProgram
	case s.program != nil && s.program.stripped && len(s.program.Left) > 0:
		return fmt.Errorf("%w: %s", ErrStripped, strings.Join(s.program.Left, "; "))
	case s.program != nil && s.program.stripped:
		return ErrStripped
	case len(s.problems) > 0:
		return fmt.Errorf("%w: %w", ErrNoAllocator, errors.Join(s.problems...))
	case s.program != nil && s.program.allocatesNothing && len(s.looked) == 1:
		return ErrAllocatesNothing
	}
	const shown = 20
	looked, more := s.looked, ""
	if len(looked) > shown {
		more = fmt.Sprintf(" and %d more", len(looked)-shown)
		looked = looked[:shown]
	}
	return fmt.Errorf("%w: looked for malloc and free (also with prefixes je_, _rjem_, mi_, tc_ and rp) in %s%s", ErrNoAllocator, strings.Join(looked, ", "), more)
}

// hostMachine is the machine whose code this kernel runs.
func hostMachine() elf.Machine {
	if runtime.GOARCH == "arm64" {
		return elf.EM_AARCH64
	}
	return elf.EM_X86_64
}
