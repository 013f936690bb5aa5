package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func opened(t *testing.T) *history {
	t.Helper()
	h, err := openHistory(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.close)
	return h
}

// recorded makes a recording of so many bytes that was written last at a time.
func recorded(t *testing.T, h *history, service string, at time.Time, size int) string {
	t.Helper()
	path, err := h.newSegment(service, at)
	if err == nil {
		err = os.WriteFile(path, make([]byte, size), 0o600)
	}
	if err == nil {
		err = os.Chtimes(path, at, at)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Old recordings go first, by time and by size; what is being written stays, and so does what is none.
func TestOldRecordingsAreRemoved(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	c := Default()
	c.KeepTime, c.KeepSize = 10*time.Hour, 100
	for what, test := range map[string]struct {
		sizes   []int // one an hour, the last one now
		written int   // index of the one that is being written; -1: none
		left    string
	}{
		"all are kept":               {[]int{10, 20, 30}, 2, "[10 20 30]"},
		"too large":                  {[]int{60, 50, 30}, 2, "[50 30]"},
		"too old":                    {[]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 11, "[2 3 4 5 6 7 8 9 10 11 12]"},
		"the written one is too big": {[]int{10, 500}, 1, "[500]"},
		"the written one is old":     {[]int{500, 10}, 0, "[500]"},
	} {
		h, written := opened(t), ""
		for i, size := range test.sizes {
			path := recorded(t, h, "x", now.Add(time.Duration(i-len(test.sizes)+1)*time.Hour), size)
			if i == test.written {
				written = path
			}
		}
		stranger := filepath.Join(h.folder("x"), "notes.txt")
		if err := os.WriteFile(stranger, make([]byte, 1000), 0o600); err != nil {
			t.Fatal(err)
		}
		size, removed, err := h.prune("x", written, &c, now)
		if err != nil {
			t.Fatal(err)
		}
		all, err := h.segments("x")
		if err != nil {
			t.Fatal(err)
		}
		var left []int64
		var sum int64
		for _, s := range all {
			left, sum = append(left, s.Size), sum+s.Size
		}
		if fmt.Sprint(left) != test.left || size != sum || removed != len(test.sizes)-len(left) {
			t.Errorf("%s: left %v, want %s; size %d, removed %d", what, left, test.left, size, removed)
		}
		if _, err := os.Stat(stranger); err != nil {
			t.Errorf("%s: what is no recording: %v", what, err)
		}
	}
}

// Recordings of a service that is no longer watched go as others do, and its folder with the last. Those of a service
// that is watched, or whose tracer is ending, are its own watch's.
func TestLeftoversAreRemoved(t *testing.T) {
	h, now, c := opened(t), time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC), Default()
	c.KeepTime, c.KeepSize = 10*time.Hour, 100
	hours := func(n int) time.Time { return now.Add(-time.Duration(n) * time.Hour) }
	for _, service := range []string{"watched", "ending"} {
		recorded(t, h, service, hours(20), 500)
	}
	recorded(t, h, "old", hours(11), 7)
	recorded(t, h, "..", hours(20), 7)
	recorded(t, h, "..", hours(9), 8)
	recorded(t, h, "large", hours(2), 60)
	recorded(t, h, "large", hours(1), 70)
	w := watches{history: h, log: log.New(io.Discard, "", 0), all: map[string]*watch{"watched": nil}, ending: []*watch{{service: "ending"}}}
	w.prune(&c, now)
	for service, want := range map[string]int64{"watched": 500, "ending": 500, "old": 0, "..": 8, "large": 70} {
		var size int64
		all, err := h.segments(service)
		for _, s := range all {
			size += s.Size
		}
		if err != nil || size != want {
			t.Errorf("%s: %d bytes are left, want %d; %v", service, size, want, err)
		}
	}
	if _, err := os.Stat(h.folder("old")); !errors.Is(err, fs.ErrNotExist) || w.leftovers() != 78 {
		t.Errorf("the folder: %v; %d bytes are left, want 78", err, w.leftovers())
	}
	recorded(t, h, "again", hours(20), 7)
	w.prune(&c, now.Add(pruneEvery-time.Second))
	if w.leftovers() != 78 {
		t.Error("they are read more often than once an hour")
	}
	w.prune(&c, now.Add(pruneEvery))
	if _, err := os.Stat(h.folder("again")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder: %v", err)
	}
}

// A time is in the recording that had begun by then and was written since.
func TestRecordingOfATime(t *testing.T) {
	h, noon := opened(t), time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	files := make(map[string]string)
	for name, hours := range map[string][2]int{"first": {0, 2}, "second": {3, 5}, "third": {5, 6}} {
		path := recorded(t, h, "x", noon.Add(time.Duration(hours[0])*time.Hour), 1)
		end := noon.Add(time.Duration(hours[1]) * time.Hour)
		if err := os.Chtimes(path, end, end); err != nil {
			t.Fatal(err)
		}
		files[path] = name
	}
	for minutes, want := range map[int]string{
		-1: "", 0: "first", 119: "first", 120: "first", 121: "", 180: "second", 299: "second", 301: "third", 360: "third", 361: "",
	} {
		file, err := h.at("x", noon.Add(time.Duration(minutes)*time.Minute))
		if files[file] != want || (want == "") != errors.Is(err, errNotRecorded) {
			t.Errorf("after %d minutes: %q, want %q; %v", minutes, files[file], want, err)
		}
	}
}

// Two recordings within a second, and after the clock was set back, are two files.
func TestRecordingsHaveNamesOfTheirOwn(t *testing.T) {
	h, now := opened(t), time.Now()
	first, second := recorded(t, h, "x", now, 1), recorded(t, h, "x", now, 1)
	if first == second {
		t.Errorf("%s for two recordings", first)
	}
}

// Whatever a service is called, its folder is one of its own below the agent's.
func TestFoldersOfServices(t *testing.T) {
	h := opened(t)
	seen := make(map[string]string)
	for _, name := range []string{"shop", "Shop", "a/b", "a%2Fb", "..", ".", "../../etc", "a b", "名", strings.Repeat("é", 64), strings.Repeat("é", 63) + "e", "-x", "postgresql@15.service"} {
		if !isServiceName(name) {
			t.Fatalf("%q is no name", name)
		}
		dir := h.folder(name)
		if filepath.Dir(dir) != filepath.Join(h.dir, "services") || len(filepath.Base(dir)) > 255 || seen[dir] != "" {
			t.Errorf("%q has the folder %s, as %q", name, dir, seen[dir])
		}
		seen[dir] = name
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Error(err)
		}
	}
}

// The folder is its owner's alone, one agent's at a time, and none that others can write to.
func TestFolderIsTheAgentsOwn(t *testing.T) {
	h := opened(t)
	if info, err := os.Stat(h.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := openHistory(h.dir); err == nil || !strings.Contains(err.Error(), "another memtrace serve uses it") {
		t.Errorf("a second agent: %v", err)
	}
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := openHistory(open); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("a folder that is open to all: %v", err)
	}
}
