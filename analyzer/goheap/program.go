//go:build linux && !viewer

package goheap

import (
	"debug/buildinfo"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"

	"github.com/memtrace/memtrace/tracer/debugfile"
)

var (
	// ErrNotGo: the program was not built by Go.
	ErrNotGo = errors.New("not a Go program")
	// ErrVersion: of this version of Go it is not known how it keeps its profile.
	ErrVersion = errors.New("memtrace knows the memory profile of Go 1.20 to 1.26")
	// ErrNotFound: the runtime's variables could not be found.
	ErrNotFound = errors.New("the memory profile was not found in the program")
)

const (
	oldest, newest = 20, 26
	// fileRoom bounds what of a program's file is remembered at a time, memoryRoom what a walk reads of a process; bytes.
	fileRoom, memoryRoom = 4 << 20, 64 << 20
)

// A program is a Go program's file, and where a process has it.
type program struct {
	version string
	os      *os.File
	elf     *elf.File
	file    *pages
	table   *table
	bias    uint64 // of addresses in memory over those in the file
}

func openProgram(pid int) (*program, error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	file, err := debugfile.Open(dir + "/exe")
	if err != nil {
		return nil, err
	}
	p, err := newProgram(file)
	var entry uint64
	if err == nil {
		entry, err = entryOf(dir)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	p.bias = entry - p.elf.Entry
	return p, nil
}

// newProgram reads a file's headers.
func newProgram(file *os.File) (*program, error) {
	p := &program{os: file, file: ofFile(file, fileRoom)}
	var err error
	if p.elf, err = debugfile.ReadELF(file); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotGo, err)
	}
	if p.elf.Class != elf.ELFCLASS64 || p.elf.ByteOrder != binary.LittleEndian || p.elf.Section(".go.buildinfo") == nil {
		return nil, ErrNotGo
	}
	if p.version, err = versionOf(file); err != nil {
		return nil, err
	}
	section := p.section(".gopclntab", ".data.rel.ro.gopclntab")
	if section == nil {
		return nil, errTable
	}
	p.table, err = newTable(p.file, section.Offset)
	return p, err
}

func (p *program) section(names ...string) *elf.Section {
	for _, name := range names {
		if s := p.elf.Section(name); s != nil && s.Type != elf.SHT_NOBITS {
			return s
		}
	}
	return nil
}

// offset says where in the file an address of it lies.
func (p *program) offset(addr uint64) (uint64, bool) {
	for _, prog := range p.elf.Progs {
		if prog.Type == elf.PT_LOAD && addr >= prog.Vaddr && addr-prog.Vaddr < prog.Filesz {
			return addr - prog.Vaddr + prog.Off, true
		}
	}
	return 0, false
}

var goVersion = regexp.MustCompile(`^(?:devel )?go1\.([0-9]{1,3})(?:[^0-9]|$)`)

// versionOf reads the version of Go that built a file, such as go1.26.1.
func versionOf(file io.ReaderAt) (string, error) {
	info, err := buildinfo.Read(file)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotGo, err)
	}
	version := info.GoVersion[:min(len(info.GoVersion), 80)]
	m := goVersion.FindStringSubmatch(version)
	if m == nil {
		return "", fmt.Errorf("%w, and it was built by %q", ErrVersion, version)
	}
	if minor, _ := strconv.Atoi(m[1]); minor < oldest || minor > newest {
		return "", fmt.Errorf("%w, and it was built by %s", ErrVersion, version)
	}
	return version, nil
}

// entryOf is the address of a process's entry point (getauxval(3), AT_ENTRY).
func entryOf(dir string) (uint64, error) {
	const atEntry = 9
	auxv, err := os.ReadFile(dir + "/auxv")
	if err != nil {
		return 0, err
	}
	for i := 0; i+16 <= len(auxv); i += 16 {
		if le64(auxv[i:]) == atEntry {
			return le64(auxv[i+8:]), nil
		}
	}
	return 0, errors.New("the process has no entry point")
}

func (p *program) close() { _ = p.os.Close() }
