package agent

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// history is the agent's folder on disk:
//
//	services/NAME/TIME.memtrace          recordings of a service's growth, each of the time from TIME on
//	services/NAME/traces/TIME.memtrace   its traces, which alerts asked for
//	audit.jsonl                          what was traced and read: see audit
//	cache/                               names of functions
//	lock                                 held by the agent that uses the folder
type history struct {
	dir  string
	lock *os.File

	mu      sync.Mutex
	tracing string // the trace that is being written, its path; "": none
}

const (
	tracesFolder  = "traces"
	segmentSuffix = ".memtrace"
	segmentTime   = "20060102T150405Z"
	// leastFree is what the agent leaves free of a disk: with less, nothing is recorded.
	leastFree = 128 << 20
)

// openHistory makes the folder, where it isn't there, and takes it. Another agent may not use it at the same time.
func openHistory(dir string) (*history, error) {
	if err := os.MkdirAll(filepath.Join(dir, "services"), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for recordings: %w: name another one by data or --data", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s can be written to by others, who could put files in the way of recordings: chmod 700 %[1]s", dir)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("take the folder for recordings: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("take %s: another memtrace serve uses it: end that one, or name another folder by data or --data", dir)
	}
	return &history{dir: dir, lock: lock}, nil
}

func (h *history) close() {
	if h != nil {
		_ = h.lock.Close() // which unlocks it
	}
}

// folder is a service's. Names that no file can have are told apart by their hash.
func (h *history) folder(service string) string {
	var b strings.Builder
	for _, c := range []byte(service) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._-@", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	name := b.String()
	if len(name) > 200 || strings.HasPrefix(name, ".") {
		name = fmt.Sprintf("%%%.100s-%x%s", name, sha256.Sum256([]byte(service)), usersFolder.FindString(name))
	}
	return filepath.Join(h.dir, "services", name)
}

// usersFolder is how the folder of a service ends that a user has named, as ofUser does.
var usersFolder = regexp.MustCompile(`%20%28(user%20[0-9]+|unknown%20user)%29$`)

// Segment is a recording of a service.
type Segment struct {
	File  string    `json:"file"` // path
	Kind  string    `json:"kind"` // growth, trace
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end"`  // last written
	Size  int64     `json:"size"` // bytes
}

// Kinds of recordings.
const (
	kindGrowth = "growth"
	kindTrace  = "trace"
)

// newSegment is the path of a recording of a service's growth that begins now. It fails where the disk is nearly full.
func (h *history) newSegment(service string, now time.Time) (string, error) {
	return newRecording(h.folder(service), now)
}

// beginTrace is newSegment of a trace. Nobody removes that until endTrace; there is one at a time.
func (h *history) beginTrace(service string, now time.Time) (path string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tracing, err = newRecording(filepath.Join(h.folder(service), tracesFolder), now)
	return h.tracing, err
}

// endTrace says that a trace is written no more.
func (h *history) endTrace() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tracing = ""
}

func newRecording(dir string, now time.Time) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the folder for a service's recordings: %w", err)
	}
	free, err := freeIn(dir)
	if err != nil {
		return "", err
	}
	if free < leastFree {
		return "", fmt.Errorf("the disk of %s has %d MiB left, less than %d", dir, free>>20, leastFree>>20)
	}
	for ; ; now = now.Add(time.Second) { // two within a second, or a clock that was set back
		path := filepath.Join(dir, now.UTC().Format(segmentTime)+segmentSuffix)
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return path, nil
		} else if err != nil {
			return "", err
		}
	}
}

// freeIn is how much may still be written to the disk that a folder is on, in bytes.
func freeIn(dir string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("see how full the disk of %s is: %w", dir, err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// segments are the recordings of a service's growth, the oldest first.
func (h *history) segments(service string) ([]Segment, error) {
	return segmentsIn(h.folder(service), kindGrowth)
}

// recordings are all of a service, traces too, the oldest first.
func (h *history) recordings(service string) ([]Segment, error) {
	return recordingsIn(h.folder(service))
}

func recordingsIn(folder string) ([]Segment, error) {
	grown, err := segmentsIn(folder, kindGrowth)
	traces, wrong := segmentsIn(filepath.Join(folder, tracesFolder), kindTrace)
	all := slices.Concat(grown, traces)
	slices.SortStableFunc(all, func(x, y Segment) int { return x.Begin.Compare(y.Begin) })
	return all, errors.Join(err, wrong)
}

func segmentsIn(folder, kind string) ([]Segment, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list recordings: %w", err)
	}
	var out []Segment
	for _, e := range entries {
		begin, err := time.Parse(segmentTime+segmentSuffix, e.Name())
		if err != nil || !e.Type().IsRegular() {
			continue
		}
		if info, err := e.Info(); err == nil { // else it was removed meanwhile
			out = append(out, Segment{filepath.Join(folder, e.Name()), kind, begin, info.ModTime(), info.Size()})
		}
	}
	slices.SortFunc(out, func(x, y Segment) int { return cmp.Compare(x.File, y.File) })
	return out, nil
}

// segmentBounds are how long and how large a recording becomes: a quarter of what is kept, so that as little goes at a time.
func segmentBounds(c *Config) (time.Duration, int64) {
	return min(24*time.Hour, c.KeepTime/4), int64(c.KeepSize) / 4
}
