package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A wholeFile is either complete or not there: it is written under another name
// beside its own, and renamed. Only its owner may read it, as it has names of a program
// and of its files. What is there already and is no regular file, such as a pipe, is written to.
type wholeFile string

// check reports now what would keep the file from being written at the end: no such
// folder, no right to write there, a full disk.
func (path wholeFile) check() error {
	if path.isSpecial() {
		return nil
	}
	return asCaller(func() error {
		f, err := path.beside()
		if err != nil {
			return err
		}
		_, err = f.Write(make([]byte, 4096))
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	})
}

// isSpecial reports whether the file is to be written to as it is. /dev/stdout may be a
// link to a regular file, which its reader has open.
func (path wholeFile) isSpecial() (special bool) {
	if clean := filepath.Clean(string(path)); strings.HasPrefix(clean, "/dev/") || strings.HasPrefix(clean, "/proc/") {
		return true
	}
	_ = asCaller(func() error { // what can't be looked at can't be written either, which says why
		info, err := os.Stat(string(path))
		special = err == nil && !info.Mode().IsRegular() && !info.IsDir()
		return nil
	})
	return special
}

// isStdout reports whether a path is a name of our own standard output: /dev/stdout, or the terminal or pipe that it is.
func isStdout(path string) bool {
	named, err := os.Stat(path)
	if err != nil {
		return false
	}
	own, err := os.Stdout.Stat()
	return err == nil && os.SameFile(named, own) && wholeFile(path).isSpecial()
}

// target is the file itself where path is a link to it.
func (path wholeFile) target() string {
	if to, err := filepath.EvalSymlinks(string(path)); err == nil {
		return to
	}
	return string(path)
}

func (path wholeFile) beside() (*os.File, error) {
	name := path.target()
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory", name)
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*.part") // mode 0600
	if why := errors.Unwrap(err); why != nil {
		err = &os.PathError{Op: "create", Path: string(path), Err: why} // the other name means nothing to anybody
	}
	return f, err
}

// save writes the file. On an error, nothing is left and what was there before stays.
func (path wholeFile) save(write func(io.Writer) error) error {
	if isStdout(string(path)) {
		return write(os.Stdout)
	}
	if path.isSpecial() {
		f, err := createAsCaller(string(path), os.O_WRONLY)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	return asCaller(func() (err error) {
		f, err := path.beside()
		if err != nil {
			return err
		}
		err = write(f)
		if err == nil {
			err = f.Sync()
		}
		if err = errors.Join(err, f.Close()); err == nil {
			err = os.Rename(f.Name(), path.target())
		}
		if err != nil {
			return errors.Join(err, os.Remove(f.Name()))
		}
		return nil
	})
}
