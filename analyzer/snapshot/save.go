package snapshot

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Save writes s to a file that is either whole or not there: it is written
// beside path under another name, and renamed when it is complete. On an error,
// or when ctx ends first, nothing is left. As it holds the command lines of all
// processes, only its owner may read it. It returns the file's size in bytes.
//
// A path that is there and no regular file, such as a pipe, is written to, and so is any in /dev or /proc:
// /dev/stdout may be a link to a regular file, and must stay that link. Elsewhere it is the file that a link leads to
// that is replaced.
func Save(ctx context.Context, path string, s *Snapshot) (size int64, err error) {
	if isSpecial(path) {
		return saveTo(ctx, path, s)
	}
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.part") // mode 0600
	if err != nil {
		return 0, fmt.Errorf("save snapshot: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	size, err = writeAll(ctx, f, s)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, fmt.Errorf("save snapshot to %s: %w", path, err)
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return 0, fmt.Errorf("save snapshot: %w", err)
	}
	return size, nil
}

func isSpecial(path string) bool {
	if whole, err := filepath.Abs(path); err == nil && (strings.HasPrefix(whole, "/dev/") || strings.HasPrefix(whole, "/proc/")) {
		return true
	}
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular()
}

func saveTo(ctx context.Context, path string, s *Snapshot) (int64, error) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return 0, fmt.Errorf("save snapshot: %w", err)
	}
	size, err := writeAll(ctx, f, s)
	return size, errors.Join(err, f.Close())
}

func writeAll(ctx context.Context, w io.Writer, s *Snapshot) (int64, error) {
	counter := &untilDone{ctx: ctx, w: w}
	buf := bufio.NewWriterSize(counter, 256<<10)
	err := errors.Join(Write(buf, s), buf.Flush())
	return counter.n, err
}

// untilDone is a writer that fails once ctx has ended.
type untilDone struct {
	ctx context.Context
	w   io.Writer
	n   int64
}

func (u *untilDone) Write(p []byte) (int, error) {
	if err := context.Cause(u.ctx); err != nil {
		return 0, err
	}
	n, err := u.w.Write(p)
	u.n += int64(n)
	return n, err
}

// Open reads the snapshot in a file; see Read.
func Open(path string) (*Snapshot, error) { return OpenWithin(path, DefaultRoom) }

// OpenWithin reads the snapshot in a file; see ReadWithin.
func OpenWithin(path string, limit uint64) (*Snapshot, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	defer func() { _ = f.Close() }()
	s, err := ReadWithin(f, limit)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return s, nil
}
