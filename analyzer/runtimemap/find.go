//go:build linux && !viewer

package runtimemap

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer/debugfile"
)

var (
	// ErrNone: no runtime was found that is known here.
	ErrNone = errors.New("no runtime whose memory is known")
	// ErrOther: a file has the name of a runtime's and is none.
	ErrOther = errors.New("its file has the name of a runtime's and is another's")
)

// A Part is a range of addresses that a runtime uses for one thing, or has set aside for that.
type Part struct {
	Kind       string // JavaHeap and the like
	Start, End uint64
}

// maxParts bounds what Parts returns.
const maxParts = 1 << 16

// errParts: a runtime uses more ranges of addresses than that.
var errParts = fmt.Errorf("what the runtime uses is more than %d pieces, of which the first are shown", maxParts)

// An area is a private anonymous mapping.
type area struct {
	start, end           uint64
	readable, executable bool
}

// A Runtime is one language's runtime in a process.
type Runtime struct {
	kind interface {
		name() string
		parts([]area) ([]Part, error)
	}
	Version string // as it says itself; "" where that is not known
}

// Name is java or v8.
func (r *Runtime) Name() string { return r.kind.name() }

// Find returns the runtime of a process. The error is ErrNone or ErrOther where there is none: one that is loaded
// later is found then. It reads files and memory of the target's: who calls it again and again bounds how often that
// fails, and waits for it in no goroutine that others need.
func Find(p *procfs.Process) (*Runtime, error) {
	var found *Runtime
	var problem error
	wanted := func(v *procfs.VMA) bool { return found == nil && problem == nil && v.Offset == 0 && v.Inode != 0 }
	err := p.MapsOf(wanted, func(v *procfs.VMA) {
		if v.Kind == procfs.KindFile {
			found, problem = ofFile(p, v)
		}
	})
	switch {
	case err != nil:
		return nil, err
	case problem != nil:
		return nil, problem
	case found != nil:
		return found, nil
	}
	return nil, ErrNone
}

// ofFile returns the runtime that a file is, as it is mapped; nil where it is none.
func ofFile(p *procfs.Process, v *procfs.VMA) (*Runtime, error) {
	name := strings.TrimSuffix(path.Base(string(v.Path)), " (deleted)")
	isJVM := name == "libjvm.so"
	if !isJVM && name != "node" && name != "nodejs" && !strings.HasPrefix(name, "libnode.so") && !strings.HasPrefix(name, "libv8.so") {
		return nil, nil
	}
	file, err := p.OpenMapped(v)
	if err != nil {
		return nil, fmt.Errorf("open %s to find what its runtime holds: %w", v.Path, err)
	}
	defer file.Close()
	if !isJVM {
		if !hasV8(file) {
			return nil, ErrOther
		}
		return &Runtime{kind: &v8{p.PID()}}, nil
	}
	j, err := openJVM(p.PID(), v.Start, file)
	if err != nil {
		return nil, fmt.Errorf("find the JVM's structures by %s: %w", v.Path, err)
	}
	return &Runtime{kind: j, Version: j.version}, nil
}

// maxNames bounds the names of dynamic symbols that are looked through, in bytes.
const maxNames = 16 << 20

// hasV8 reports whether a program exports V8's functions.
func hasV8(r io.ReaderAt) bool {
	f, err := debugfile.ReadELF(r)
	if err != nil || f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB {
		return false
	}
	names := f.Section(".dynstr")
	if names == nil || names.Size > maxNames {
		return false
	}
	text, err := names.Data()
	return err == nil && bytes.Contains(text, []byte("_ZN2v87Isolate"))
}

// Parts says what is where now in the process that the runtime was found in, in ascending order and without overlaps.
// Only what is private anonymous memory there is the runtime's: a Part may reach beyond.
func (r *Runtime) Parts(p *procfs.Process) ([]Part, error) {
	var areas []area
	err := p.Maps(func(v *procfs.VMA) {
		if v.Kind == procfs.KindAnon && v.Perms&procfs.Shared == 0 {
			areas = append(areas, area{v.Start, v.End, v.Perms&procfs.Read != 0, v.Perms&procfs.Exec != 0})
		}
	})
	if err != nil {
		return nil, err
	}
	parts, err := r.kind.parts(areas)
	if errors.Is(err, errStarting) {
		return nil, nil
	}
	out, cut := apart(parts)
	if err == nil && cut {
		err = errParts
	}
	return out, err
}

func byStart(x, y Part) int { return cmp.Compare(x.Start, y.Start) }

// apart sorts the parts, and leaves out what can't be: those that are empty, in the kernel's half, or begin in
// another. cut says that it left out others, too, as they are too many.
func apart(parts []Part) (out []Part, cut bool) {
	slices.SortFunc(parts, byStart)
	out = parts[:0]
	end := uint64(0)
	for _, p := range parts {
		if p.Start >= p.End || p.End > 1<<56 || p.Start < end {
			continue
		}
		if len(out) == maxParts {
			return out, true
		}
		out = append(out, p)
		end = p.End
	}
	return out, false
}
