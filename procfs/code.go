//go:build linux && !viewer

package procfs

import (
	"bytes"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Code calls fn for each executable mapping in ascending order, until it returns false. dir is the directory in /proc
// of the process, or of a thread of it that has not ended. any says whether the process has mappings at all: a thread
// that has ended, and the kernel's, have none. The VMA is valid until fn returns; [vsyscall] may be missing.
//
// Code that the program has moved to anonymous memory, as for huge pages, is given as its file's (VMA.Moved): it lies
// between two parts of one file, of code or not, just where that has what is missing between them.
//
// It is one reading of /proc/PID/maps, or of a part of it, and takes no memory that grows with that. The error of a
// system call is an *os.PathError. Where the process executes another program meanwhile, the list ends early.
func Code(dir string, fn func(*VMA) bool) (any bool, err error) { return codeFrom(dir, 0, fn) }

// CodeFrom is Code for what ends behind an address, which costs less (from Linux 6.11 on).
func CodeFrom(dir string, addr uint64, fn func(*VMA) bool) error {
	_, err := codeFrom(dir, addr, fn)
	return err
}

func codeFrom(dir string, addr uint64, fn func(*VMA) bool) (any bool, err error) {
	path := dir + "/maps"
	fd, err := openAt(unix.AT_FDCWD, path+"\x00")
	if err != nil {
		return false, &os.PathError{Op: "open", Path: path, Err: err}
	}
	file := fdReader{fd}
	defer file.close()
	r := newMapsReader(&file, Exec)
	defer r.done()
	r.from = addr
	any, err = r.code(fn)
	if errno, ok := err.(unix.Errno); ok {
		err = &os.PathError{Op: "read", Path: path, Err: errno}
	}
	return any, err
}

// CodeIn is Code of a text like that of /proc/PID/maps.
func CodeIn(maps io.Reader, fn func(*VMA) bool) (any bool, err error) {
	r := newMapsReader(nil, Exec)
	defer r.done()
	r.begin(maps)
	return r.code(fn)
}

// CodeSum returns that of what the process has mapped.
func (p *Process) CodeSum() (CodeSum, error) {
	sum, n, err := p.codeSum()
	if n == 0 && errors.Is(err, ErrGone) && p.adoptThread() {
		sum, _, err = p.codeSum()
	}
	return sum, err
}

func (p *Process) codeSum() (sum CodeSum, n int, err error) {
	fd, err := openAt(p.memoryDir(), fileMaps)
	if err != nil {
		return 0, 0, p.wrap("open", plain(fileMaps), err)
	}
	file := fdReader{fd}
	defer file.close()
	r := newMapsReader(&file, Exec)
	defer r.done()
	r.nameless = true
	for {
		v, err := r.next()
		if err == io.EOF && (r.mappings == 0 || endedEarly(fd)) {
			err = p.whyNoMemory()
		}
		switch {
		case err == io.EOF:
			return sum, r.mappings, nil
		case err != nil:
			return 0, r.mappings, p.wrap("read", plain(fileMaps), err)
		}
		sum.Add(v)
	}
}

func (r *mapsReader) code(fn func(*VMA) bool) (any bool, err error) {
	r.before.VMA = VMA{}
	for ; ; any = true {
		v, err := r.next()
		if r.hold { // moved waited for what lies behind it
			r.hold = false
			if err == nil {
				r.moved.restore(&r.before.VMA, v)
			}
			if !r.show(&r.moved.VMA, fn) {
				return true, nil
			}
			r.before.VMA = VMA{} // it has no file, and nothing behind it is restored by it
		}
		switch {
		case err == io.EOF:
			return any, nil
		case err != nil:
			return any, err
		case v.Perms&Exec != 0 && v.mayBeMoved() && r.asks == nil:
			r.moved.set(v)
			r.hold = true
			continue
		case v.Perms&Exec != 0 && v.mayBeMoved():
			v = r.askMoved(v)
		case r.asks == nil:
			r.before.set(v)
		}
		if !r.show(v, fn) {
			return true, nil
		}
	}
}

// show calls fn with a mapping if it is code, and where it is wanted. It reports whether to go on.
func (r *mapsReader) show(v *VMA, fn func(*VMA) bool) bool {
	return v.Perms&Exec == 0 || v.End <= r.from || fn(v)
}

// askMoved is a mapping that may be code that was moved, restored if it was: queries tell what lies around it.
func (r *mapsReader) askMoved(v *VMA) *VMA {
	r.moved.set(v) // the answers take its place
	if before := r.at(v.Start - 1); before != nil && before.Inode != 0 {
		r.before.set(before)
		if after := r.at(r.moved.End); after != nil {
			r.moved.restore(&r.before.VMA, after)
		}
	}
	return &r.moved.VMA
}

// ownVMA is a VMA that has its path for itself.
type ownVMA struct {
	VMA
	path []byte
}

func (o *ownVMA) set(v *VMA) {
	o.VMA = *v
	o.path = append(o.path[:0], v.Path...)
	o.Path = o.path
}

// mayBeMoved reports whether a mapping of code has no file, nor a name of the kernel's.
func (v *VMA) mayBeMoved() bool {
	return v.Inode == 0 && (len(v.Path) == 0 || bytes.HasPrefix(v.Path, prefixAnon))
}

// restore gives code that was moved back to its file, if what lies before and after it is that.
func (o *ownVMA) restore(before, after *VMA) {
	if before.Inode == 0 || before.End != o.Start || o.End != after.Start {
		return
	}
	offset := before.Offset + before.Size()
	if before.DevMajor == after.DevMajor && before.DevMinor == after.DevMinor && before.Inode == after.Inode &&
		after.Offset == offset+o.Size() {
		o.DevMajor, o.DevMinor, o.Inode, o.Kind = before.DevMajor, before.DevMinor, before.Inode, before.Kind
		o.Offset, o.Moved = offset, true
		o.path = append(o.path[:0], before.Path...)
		o.Path = o.path
	}
}
