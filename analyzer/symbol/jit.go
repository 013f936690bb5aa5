package symbol

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/tracer/debugfile"
)

// perfMapEvery is how often a map of JIT code is looked at for more.
const perfMapEvery = 200 * time.Millisecond

// perfMap is what a JIT compiler says of the code that it made, in
// /tmp/perf-PID.map of the process's own root and with its PID there
// (tools/perf/Documentation/jit-interface.txt).
type perfMap struct {
	proc  string // /proc/PID
	every time.Duration

	warnings *warnings // of the process

	mu     sync.Mutex
	told   bool // whenever the file is written: it is not looked at otherwise
	closed bool
	looked time.Time
	file   *perfFile // nil where there is none
}

// perfSymbol is a function; of two at the same place the one with the higher
// number, which was written later, is the one that is there.
type perfSymbol struct {
	start, end uint64
	number     int
	name       string
}

// name returns the function at addr, "" where there is none.
func (m *perfMap) name(addr uint64) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); !m.told && now.Sub(m.looked) >= m.every {
		m.looked = now
		// No file, or one that may not be trusted, is no names.
		if err := m.refresh(now); errors.Is(err, errPerfRoom) {
			m.warnings.add("JIT code of "+m.proc, fmt.Sprintf("the map of the JIT code of %s: %v", m.proc, err))
		}
	}
	if m.file == nil {
		return ""
	}
	return m.file.name(addr)
}

// rewritten reads the file that was written as a whole, and keeps what it said before of other code. From then on the file is read
// here alone.
func (m *perfMap) rewritten() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.told = true; m.closed {
		return nil
	}
	file, st, owner, err := m.open()
	if err != nil {
		return err
	}
	defer file.Close()
	if key := perfKey(int(file.Fd()), st); m.file == nil || key != m.file.key {
		perfFiles.release(m.file)
		m.file = perfFiles.get(key, owner)
	}
	return m.file.reread(file, st.Size, &perfFiles, time.Now())
}

// refresh reads what was added to the file, which may be another by now.
func (m *perfMap) refresh(now time.Time) error {
	file, st, owner, err := m.open()
	if err != nil {
		return err
	}
	defer file.Close()
	if key := perfKey(int(file.Fd()), st); m.file == nil || key != m.file.key {
		perfFiles.release(m.file)
		m.file = perfFiles.get(key, owner)
	}
	return m.file.refresh(file, st.Size, &perfFiles, now)
}

// close lets go of the file.
func (m *perfMap) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	perfFiles.release(m.file)
	m.file, m.closed = nil, true
}

// open opens the file if it belongs to root or to who runs the process, which is owner: everybody may write to /tmp. A
// process of others' may have a link or a mount there to any file of root's: it must be one that everybody may read.
func (m *perfMap) open() (file *os.File, st unix.Stat_t, owner uint32, err error) {
	var process unix.Stat_t
	if err := unix.Stat(m.proc, &process); err != nil {
		return nil, st, 0, fmt.Errorf("stat %s: %w", m.proc, err)
	}
	pid, err := innermostPID(m.proc)
	if err != nil {
		return nil, st, 0, err
	}
	root, err := unix.Open(m.proc+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, st, 0, fmt.Errorf("open %s/root: %w", m.proc, err)
	}
	defer unix.Close(root)
	name := "/tmp/perf-" + pid + ".map"
	fd, st, err := debugfile.OpenRegularIn(root, name)
	if err != nil {
		return nil, st, 0, err
	}
	if err := fitMap(st, process.Uid); err != nil {
		unix.Close(fd)
		return nil, st, 0, fmt.Errorf("open %s: %w", name, err)
	}
	file, err = debugfile.Readable(fd, name)
	return file, st, process.Uid, err
}

// fitMap says why a file is not one that may speak for a user's process.
func fitMap(st unix.Stat_t, user uint32) error {
	const everybodyReads = 0o004
	switch {
	case st.Uid == user:
		return nil
	case st.Uid != 0:
		return fmt.Errorf("it belongs to user %d, not to the process's", st.Uid)
	case st.Mode&everybodyReads == 0:
		return errors.New("it belongs to root, and the process's user may not read it")
	}
	return nil
}

// innermostPID returns the process's PID as it sees it itself: the last one in
// the line NSpid of /proc/PID/status.
func innermostPID(proc string) (string, error) {
	status, err := os.ReadFile(proc + "/status")
	if err != nil {
		return "", fmt.Errorf("read the PID: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if pids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			if fields := strings.Fields(pids); len(fields) > 0 {
				return fields[len(fields)-1], nil
			}
		}
	}
	return "", fmt.Errorf("read the PID: %s/status has no NSpid", proc)
}
