package agent

import (
	"encoding/json"
	"errors"
	"log"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// An auditEntry says what was done to a process, or who read what is known of a service. It never has a command line,
// nor anything of a process's memory.
type auditEntry struct {
	Time    time.Time `json:"time"`
	What    string    `json:"what"` // see below
	Service string    `json:"service"`
	Why     string    `json:"why,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Program string    `json:"program,omitempty"`
	// Of what ended.
	Seconds    float64 `json:"seconds,omitempty"`
	CPUSeconds float64 `json:"cpu_seconds,omitempty"` // of the tracer
	File       string  `json:"file,omitempty"`        // its recording
	// Of a trace that ended. It is a pointer, as entries are compared.
	Found *Findings `json:"found,omitempty"`
	// Of what was read.
	By   string `json:"by,omitempty"`   // the user, where web_config has users or client certificates
	From string `json:"from,omitempty"` // address
	Path string `json:"path,omitempty"` // that was asked for
}

// What an entry is about.
const (
	auditTracer      = "tracer_started"
	auditTracerEnd   = "tracer_ended"
	auditTrace       = "process_traced"
	auditRefused     = "process_refused"
	auditTraceEnd    = "process_left"
	auditFullTrace   = "trace_started" // of all allocations, as an alert asked for it
	auditFullEnd     = "trace_ended"
	auditRead        = "read"
	auditReadRefused = "read_refused"
)

const (
	auditFile = "audit.jsonl"
	// maxAudit is the size at which the file becomes audit.jsonl.old: two of them are kept.
	maxAudit = 64 << 20
	// sameReader is how long one who reads the same again and again, as scrapers do, has no other entry.
	sameReader = time.Hour
	maxReaders = 1000
)

// audit writes entries to a file, a line each, and to the log.
type audit struct {
	log *log.Logger

	mu      sync.Mutex
	path    string // "": there is no folder, and the log has them all
	failed  bool   // was said
	lost    uint64 // entries that could not be written
	readers map[auditEntry]time.Time
}

func newAudit(l *log.Logger) *audit {
	return &audit{log: l, readers: make(map[auditEntry]time.Time)}
}

// open has entries written to a folder from now on.
func (a *audit) open(dir string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.path = filepath.Join(dir, auditFile)
}

// write appends an entry. What can't be written is in the log.
func (a *audit) write(e auditEntry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.Time = time.Now().UTC()
	line, err := json.Marshal(&e)
	if err != nil {
		return // it has nothing that can't be JSON
	}
	a.log.Printf("audit: %s", line)
	if a.path == "" {
		return
	}
	err = a.append(append(line, '\n'))
	if err != nil {
		a.lost++
		if !a.failed {
			a.log.Printf("write the audit log: %v: this log alone has what comes", err)
		}
	}
	a.failed = err != nil
}

// append opens the file for each entry, so that it can be moved away at any time. Each line is whole: what could not be
// written to its end is taken back, and half a line, of an agent that was killed, is ended before the next one.
func (a *audit) append(line []byte) error {
	if info, err := os.Stat(a.path); err == nil && info.Size() > maxAudit {
		if err := os.Rename(a.path, a.path+".old"); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(a.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	err = appendLine(f, line)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

func appendLine(f *os.File, line []byte) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size, last := info.Size(), []byte{'\n'}
	if size > 0 {
		if _, err := f.ReadAt(last, size-1); err != nil {
			return err
		}
	}
	if last[0] != '\n' {
		line = append([]byte{'\n'}, line...)
	}
	if _, err := f.Write(line); err != nil {
		return errors.Join(err, f.Truncate(size))
	}
	return nil
}

// manyReaders is why an entry stands for those who have none of their own.
const manyReaders = "by more readers in an hour than have an entry each"

// read notes that somebody read something, or was refused it, once an hour. So many have an entry each; the others of a
// service share one, as whoever can ask from any address of 127.0.0.0/8 must not fill the log, and push out what it has.
func (a *audit) read(e auditEntry) {
	if again := a.again(&e, time.Now()); !again {
		a.write(e)
	}
}

// again reports whether there was such an entry in the last hour. It makes it one that stands for many where there are
// too many.
func (a *audit) again(e *auditEntry, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	recent := func(e auditEntry) bool {
		last, known := a.readers[e]
		return known && now.Sub(last) < sameReader
	}
	if recent(*e) {
		return true
	}
	if len(a.readers) >= maxReaders {
		maps.DeleteFunc(a.readers, func(e auditEntry, _ time.Time) bool { return !recent(e) })
	}
	if len(a.readers) >= maxReaders {
		*e = auditEntry{What: e.What, Service: e.Service, Why: manyReaders}
		if recent(*e) {
			return true
		}
	}
	a.readers[*e] = now
	return false
}

func (a *audit) missed() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lost
}
