package symbol

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/tracer/debugfile"
)

const (
	// Bounds of a map of JIT code: the bytes read of it, and its entries.
	maxPerfMap     = 64 << 20
	maxPerfSymbols = 1 << 20
	// perfMapEvery is how often it is looked at for more.
	perfMapEvery = 200 * time.Millisecond
)

// perfMap is what a JIT compiler says of the code that it made, in
// /tmp/perf-PID.map of the process's own root and with its PID there
// (tools/perf/Documentation/jit-interface.txt).
type perfMap struct {
	proc  string // /proc/PID
	every time.Duration

	mu      sync.Mutex
	looked  time.Time
	key     fileKey      // of the file read, without size and time
	read    int64        // bytes of the file
	symbols []perfSymbol // ascending by start, then by number
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
	if now := time.Now(); now.Sub(m.looked) >= m.every {
		m.looked = now
		// No file, or one that may not be trusted, is no names.
		_ = m.refresh()
	}
	i := sort.Search(len(m.symbols), func(i int) bool { return m.symbols[i].start > addr })
	found, number := "", -1
	for back := i - 1; back >= max(0, i-maxBack); back-- {
		if s := m.symbols[back]; addr < s.end && s.number > number {
			found, number = s.name, s.number
		}
	}
	return found
}

// refresh reads what was added to the file.
func (m *perfMap) refresh() error {
	file, st, err := m.open()
	if err != nil {
		return err
	}
	defer file.Close()
	key := fileKey{dev: uint64(st.Dev), ino: st.Ino}
	if key != m.key || st.Size < m.read {
		m.key, m.read, m.symbols = key, 0, nil
	}
	if st.Size == m.read || m.read >= maxPerfMap || len(m.symbols) >= maxPerfSymbols {
		return nil
	}
	text := make([]byte, min(st.Size, maxPerfMap)-m.read)
	n, err := file.ReadAt(text, m.read)
	if err != nil && err != io.EOF {
		return err
	}
	// The last line may be half written.
	text = text[:bytes.LastIndexByte(text[:n], '\n')+1]
	m.read += int64(len(text))
	m.parse(string(text))
	return nil
}

// open opens the file if it belongs to root or to who runs the process:
// everybody may write to /tmp.
func (m *perfMap) open() (*os.File, unix.Stat_t, error) {
	var st, process unix.Stat_t
	if err := unix.Stat(m.proc, &process); err != nil {
		return nil, st, fmt.Errorf("stat %s: %w", m.proc, err)
	}
	pid, err := innermostPID(m.proc)
	if err != nil {
		return nil, st, err
	}
	root, err := unix.Open(m.proc+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, st, fmt.Errorf("open %s/root: %w", m.proc, err)
	}
	defer unix.Close(root)
	name := "/tmp/perf-" + pid + ".map"
	fd, st, err := debugfile.OpenRegularIn(root, name)
	if err != nil {
		return nil, st, err
	}
	if st.Uid != 0 && st.Uid != process.Uid {
		unix.Close(fd)
		return nil, st, fmt.Errorf("%s belongs to user %d, not to the process's", name, st.Uid)
	}
	file, err := debugfile.Readable(fd, name)
	return file, st, err
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

// parse adds lines of "START SIZE NAME", the numbers in hexadecimal. Lines it
// can't read are left out.
func (m *perfMap) parse(text string) {
	for line := range strings.Lines(text) {
		if len(m.symbols) >= maxPerfSymbols {
			break
		}
		first, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		second, name, _ := strings.Cut(rest, " ")
		n := numbers{ok: true}
		start := n.parse(strings.TrimPrefix(first, "0x"), 16, 64)
		size := n.parse(strings.TrimPrefix(second, "0x"), 16, 64)
		if !n.ok || name == "" || start+size <= start {
			continue
		}
		name = strings.Clone(name[:min(len(name), maxName)])
		m.symbols = append(m.symbols, perfSymbol{start, start + size, len(m.symbols), name})
	}
	slices.SortFunc(m.symbols, func(a, b perfSymbol) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.number, b.number))
	})
}
