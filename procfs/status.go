//go:build linux && !viewer

package procfs

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs/internal/text"
)

// Status is the part of /proc/PID/status that has a use here. Sizes are
// bytes; a process without memory has zero in them, and HasMemory false.
type Status struct {
	Tgid      int // differs from PID where PID is a thread that is no leader
	PPid      int
	TracerPid int // who ptraces it, or 0
	Threads   uint64
	State     byte
	Uid       [4]uint32 // real, effective, saved, file system
	Gid       [4]uint32
	NSpid     []int  // the process's IDs from the reader's PID namespace inwards
	Caught    uint64 // signals that it handles: bit n−1 stands for signal n
	HasMemory bool   // whether there were Vm lines
	VmPeak    uint64
	VmSize    uint64
	VmLck     uint64
	VmHWM     uint64 // peak resident set
	VmRSS     uint64
	RssAnon   uint64
	RssFile   uint64
	RssShmem  uint64
	VmLib     uint64 // mappings that can be executed, but for the program's own code
	VmPTE     uint64 // page tables
	VmSwap    uint64 // without shmem
}

// maxNSLevels is how deep the kernel lets PID namespaces nest.
const maxNSLevels = 33

// UID returns the user that the process acts as: its effective user ID. It is
// the owner of the process's directory, which the kernel tells at a tenth of
// the cost of status.
func (p *Process) UID() (uint32, error) {
	var st unix.Stat_t
	if !p.genuine || unix.Fstat(p.dir, &st) != nil {
		s, err := p.Status()
		return s.Uid[1], err
	}
	// The directory of a process that has ended is root's.
	if st.Uid == 0 && unix.Faccessat(p.dir, "stat", unix.F_OK, 0) != nil {
		return 0, p.wrap("ask for", "owner", ErrGone)
	}
	return st.Uid, nil
}

// Status reads /proc/PID/status (Documentation/filesystems/proc.rst, table 1-2).
func (p *Process) Status() (Status, error) {
	buf := textBuffers.Get().(*[maxText]byte)
	defer textBuffers.Put(buf)
	data, err := p.readSmall(fileStatus, buf[:])
	if err != nil {
		return Status{}, err
	}
	s, err := parseStatus(data)
	if err != nil {
		return Status{}, p.wrap("parse", "status", err)
	}
	return s, nil
}

func parseStatus(data []byte) (Status, error) {
	var s Status
	for len(data) > 0 {
		line, rest := text.CutLine(data)
		data = rest
		key, value, ok := text.Keyed(line)
		if !ok {
			continue
		}
		if !s.set(string(key), value) {
			return Status{}, fmt.Errorf("%w: line %q", ErrFormat, line)
		}
	}
	if s.Tgid == 0 {
		return Status{}, fmt.Errorf("%w: no Tgid", ErrFormat)
	}
	return s, nil
}

// set takes one line; it reports false on a value that cannot be parsed.
func (s *Status) set(key string, value []byte) bool {
	switch key {
	case "State":
		if len(value) == 0 {
			return false
		}
		s.State = value[0]
		return true
	case "Tgid":
		return setInt(&s.Tgid, value)
	case "PPid":
		return setInt(&s.PPid, value)
	case "TracerPid":
		return setInt(&s.TracerPid, value)
	case "Uid":
		return setIDs(&s.Uid, value)
	case "Gid":
		return setIDs(&s.Gid, value)
	case "SigCgt":
		var ok bool
		s.Caught, _, ok = text.Hexadecimal(value)
		return ok
	case "NSpid":
		return s.setNSpid(value)
	case "Threads":
		v, _, ok := text.Decimal(value)
		s.Threads = v
		return ok
	}
	size := s.size(key)
	if size == nil {
		return true
	}
	v, ok := text.Kilobytes(value)
	*size, s.HasMemory = v, true
	return ok
}

// size returns the field of a line in kB, or nil.
func (s *Status) size(key string) *uint64 {
	switch key {
	case "VmPeak":
		return &s.VmPeak
	case "VmSize":
		return &s.VmSize
	case "VmLck":
		return &s.VmLck
	case "VmHWM":
		return &s.VmHWM
	case "VmRSS":
		return &s.VmRSS
	case "RssAnon":
		return &s.RssAnon
	case "RssFile":
		return &s.RssFile
	case "RssShmem":
		return &s.RssShmem
	case "VmLib":
		return &s.VmLib
	case "VmPTE":
		return &s.VmPTE
	case "VmSwap":
		return &s.VmSwap
	}
	return nil
}

func (s *Status) setNSpid(value []byte) bool {
	for len(s.NSpid) < maxNSLevels {
		f, rest := text.Field(value)
		if len(f) == 0 {
			break
		}
		var id int
		if !setInt(&id, f) {
			return false
		}
		s.NSpid, value = append(s.NSpid, id), rest
	}
	return true
}

func setInt(to *int, value []byte) bool {
	v, _, ok := text.Decimal(value)
	if !ok || v > 1<<31-1 {
		return false
	}
	*to = int(v)
	return true
}

func setIDs(to *[4]uint32, value []byte) bool {
	for i := range to {
		f, rest := text.Field(value)
		v, _, ok := text.Decimal(f)
		if !ok || v > 1<<32-1 {
			return false
		}
		to[i], value = uint32(v), rest
	}
	return true
}
