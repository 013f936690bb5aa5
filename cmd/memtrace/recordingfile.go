//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/analyzer/threshold"
)

// A recordingFile is what a trace is recorded to. Only its owner may read it: it has names of a program and of its
// files. A file that is there already and is no recording is refused, and so is one that another memtrace writes.
type recordingFile struct {
	path     string
	options  recording.Options
	commands bool // memtrace's command line is in it
	last     lasting
	file     *os.File
	target   string // what path leads to
	fresh    bool   // it was made by open
	nameless bool   // of those: it gets its name with the first input
	begun    bool   // something was written
}

func recordingFlags() []cli.Flag {
	return []cli.Flag{
		&cli.PathFlag{Name: "output", Aliases: []string{"o"}, Usage: "record the trace into this file, for memtrace report, web, export, diff and query"},
		&cli.StringFlag{Name: "max-size", Usage: "let the recording grow to this size, such as 2GiB; what comes later is not in it"},
		&cli.DurationFlag{Name: "keep", Usage: "keep at least the last of the recording, such as 10m: the file has what lived then, and all since"},
		&cli.DurationFlag{Name: "flight", Usage: "keep the last of the recording in memory, and write it when a process is killed, or as --freeze-on says"},
		&cli.StringSliceFlag{Name: "freeze-on", Usage: "with --flight: write it when this is met, too, such as 'rss>2GiB,psi.some.avg10>10,growth>1MiB/min'"},
		&cli.StringFlag{Name: "compression", Value: recording.Levels()[0], Usage: "how hard to compress the recording"},
		noCommandLinesFlag(),
	}
}

// of is another file of the same recorder.
func (f *recordingFile) of(path string) *recordingFile {
	return &recordingFile{path: path, options: f.options, commands: f.commands}
}

// recordingOf reads the flags; nil where nothing is to be recorded. used are the files that other flags name, by name.
func recordingOf(c *cli.Context, used map[string]string) (*recordingFile, error) {
	path := c.Path("output")
	if path == "" {
		for _, name := range []string{"max-size", "compression", "keep", "flight", "freeze-on"} {
			if asksFor(c, name) {
				return nil, usageError("--%s goes with a recording: give -o FILE, too", name)
			}
		}
		return nil, nil
	}
	f := &recordingFile{path: path, commands: !c.Bool("no-command-lines")}
	switch {
	case path == "-":
		return nil, usageError("-o -: a recording is written to a file, as it is read from several places")
	case used[path] != "":
		return nil, usageError("--%s and --output name the same file, %s", used[path], path)
	}
	if f.options.Level = c.String("compression"); !slices.Contains(recording.Levels(), f.options.Level) {
		return nil, noneOf("--compression", f.options.Level, recording.Levels())
	}
	if text := c.String("max-size"); text != "" {
		size, err := threshold.ParseSize(text)
		if err != nil {
			return nil, usageError("--max-size: %v", err)
		}
		if size < leastRecording || size > 1<<62 {
			return nil, usageError("--max-size %s is not from 64KiB to 4EiB", text)
		}
		f.options.MaxSize = int64(size)
	}
	var err error
	f.last, err = lastingOf(c, f.options.MaxSize)
	return f, err
}

// leastRecording is the smallest size that holds anything.
const leastRecording = 64 << 10

// open makes the file, so that a trace that could not be recorded starts nothing. What it held stays until begin.
func (f *recordingFile) open() error {
	if f == nil {
		return nil
	}
	err := asCaller(f.create)
	if err == nil && f.last.keep > 0 {
		err = f.tryTurn()
	}
	if err == nil {
		if err = f.check(); err != nil {
			f.abandon()
		}
	}
	if err != nil {
		return fmt.Errorf("record to %s: %w: nothing was started", f.path, err)
	}
	return nil
}

// create opens the file, or makes one that has no name yet where the file system can: whatever ends memtrace before it
// records leaves nothing then.
func (f *recordingFile) create() (err error) {
	if f.target, err = leadsTo(f.path); err != nil {
		return err
	}
	_, err = os.Stat(f.path)
	if f.fresh = errors.Is(err, os.ErrNotExist); f.fresh {
		if f.file, err = os.OpenFile(filepath.Dir(f.target), os.O_RDWR|unix.O_TMPFILE, 0o600); err == nil {
			f.nameless = true
			return nil
		}
	}
	f.file, err = os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|unix.O_NONBLOCK, 0o600)
	return err
}

// leadsTo follows symbolic links, also to what is not there.
func leadsTo(path string) (string, error) {
	for range 40 {
		next, err := os.Readlink(path)
		switch {
		case errors.Is(err, unix.EINVAL), errors.Is(err, os.ErrNotExist):
			return path, nil // it is no link, or nothing
		case err != nil:
			return "", err
		case filepath.IsAbs(next):
			path = next
		default:
			path = filepath.Join(filepath.Dir(path), next)
		}
	}
	return "", &os.PathError{Op: "open", Path: path, Err: unix.ELOOP}
}

// name gives the file its name.
func (f *recordingFile) name() error {
	return asCaller(func() error {
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.file.Fd()), unix.AT_FDCWD, f.target, unix.AT_SYMLINK_FOLLOW)
	})
}

// check refuses what is not to be overwritten.
func (f *recordingFile) check() error {
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is no regular file")
	}
	if err := unix.Flock(int(f.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return errors.New("another memtrace is writing it")
	} else if err != nil {
		return fmt.Errorf("lock it: %w", err)
	}
	var begin [8]byte
	n, err := f.file.ReadAt(begin[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if n > 0 && !recording.Is(begin[:n]) {
		return errors.New("it is there already, and is no recording of memtrace: remove it or name another")
	}
	return nil
}

// begin empties the file. It is closed by its Writer from now on.
func (f *recordingFile) begin() error {
	f.begun = true
	if f.nameless {
		if err := f.name(); err != nil {
			return fmt.Errorf("give the file its name: %w", err)
		}
	}
	if err := f.file.Truncate(0); err != nil {
		return err
	}
	return f.file.Chmod(0o600)
}

// abandon closes the file where nothing was written, and removes it if it is our own.
func (f *recordingFile) abandon() {
	if f == nil || f.file == nil || f.begun {
		return
	}
	if f.fresh && !f.nameless {
		_ = asCaller(func() error { return os.Remove(f.target) })
	}
	_ = f.file.Close()
	f.file = nil
}

// Write, Truncate, Sync and Close are for the Writer.
func (f *recordingFile) Write(b []byte) (int, error) { return f.file.Write(b) }

// Truncate cuts the file and goes on from there.
func (f *recordingFile) Truncate(n int64) error {
	err := f.file.Truncate(n)
	_, seek := f.file.Seek(n, io.SeekStart)
	return errors.Join(err, seek)
}

var errRemoved = errors.New("it was removed while it was written")

// Sync has what was written on the disk. A file that has no name any more is an error: nobody will ever read it.
func (f *recordingFile) Sync() error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.file.Fd()), &st); err == nil && st.Nlink == 0 {
		return errRemoved
	}
	return unix.Fdatasync(int(f.file.Fd()))
}

func (f *recordingFile) Close() error { return f.file.Close() }
