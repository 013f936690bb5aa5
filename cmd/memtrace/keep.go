//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/recording"
)

// turnSuffix names the file that a ring on disk is turned to, beside the recording.
const turnSuffix = ".turn"

// keptFile is the recording's file as a ring reads it, too.
func (f *recordingFile) ReadAt(b []byte, at int64) (int, error) { return f.file.ReadAt(b, at) }

// tryTurn makes sure that there can be another file beside.
func (f *recordingFile) tryTurn() error {
	next, err := f.nextFile()
	if err != nil {
		return fmt.Errorf("--keep writes a second file beside it: %w", err)
	}
	f.discard(next)
	return nil
}

// turning is how a ring in this file turns.
func (f *recordingFile) turning() recording.Turning {
	present := f
	return recording.Turning{
		Next: func() (recording.KeptFile, error) {
			next, err := f.createNext()
			return next, err
		},
		Replace: func(next recording.KeptFile) error {
			err := present.replace(next.(*recordingFile))
			if err == nil {
				present = next.(*recordingFile)
			}
			return err
		},
		Discard: func(next recording.KeptFile) { f.discard(next.(*recordingFile)) },
	}
}

func (f *recordingFile) createNext() (*recordingFile, error) {
	var next *recordingFile
	err := asCaller(func() (err error) {
		next, err = f.nextFile()
		return err
	})
	return next, err
}

// nextFile makes the file beside. What a memtrace that was killed has left of one goes.
func (f *recordingFile) nextFile() (*recordingFile, error) {
	path := f.target + turnSuffix
	if err := removeRecording(path); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return &recordingFile{path: f.path, target: path, file: file, begun: true}, nil
}

// removeRecording removes a recording, and nothing else.
func removeRecording(path string) error {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	var begin [8]byte
	n, err := file.ReadAt(begin[:], 0)
	if err != nil && !errors.Is(err, io.EOF) || n > 0 && !recording.Is(begin[:n]) {
		return fmt.Errorf("%s is there already, and is no recording of memtrace: remove it", path)
	}
	return os.Remove(path)
}

// replace has the next file take the place of this one, at once.
func (f *recordingFile) replace(next *recordingFile) error {
	if err := f.isThere(); err != nil {
		return err
	}
	err := asCaller(func() error { return os.Rename(next.target, f.target) })
	if err == nil {
		next.target = f.target
	}
	return err
}

// isThere reports whether what the path leads to still is this file: another one that somebody has put there is theirs.
func (f *recordingFile) isThere() error {
	own, err := f.file.Stat()
	if err != nil {
		return err
	}
	now, err := os.Stat(f.target)
	if err != nil {
		return err
	}
	if !os.SameFile(own, now) {
		return errors.New("another file was put in its place")
	}
	return nil
}

func (f *recordingFile) discard(next *recordingFile) {
	_ = asCaller(func() error { return os.Remove(next.target) })
	_ = next.file.Close()
}
