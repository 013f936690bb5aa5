package tracer

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/tracer/probe"
)

// everywhere are probes in files, for all processes that map them. The
// kernel asks each process's own probes at every hit in a file, those of
// others too: with hundreds of processes under trace that costs more than
// asking once who it is (bpf/headers/thread.h, is_meant).
type everywhere struct {
	mu    sync.Mutex
	files map[fileID]*attachment
}

// fileID tells files apart as long as they are open.
type fileID struct{ device, inode uint64 }

// attach puts the probes of those objects into their files that are not there yet.
func (e *everywhere) attach(t *Tracer, objects []probe.Object) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range objects {
		var st unix.Stat_t
		if err := unix.Fstat(int(objects[i].File.Fd()), &st); err != nil {
			return fmt.Errorf("stat %s: %w", objects[i].Path, err)
		}
		id := fileID{st.Dev, st.Ino}
		if e.files[id] != nil {
			continue
		}
		a, err := t.attach(anyProcess, objects[i:i+1])
		if err != nil {
			return err
		}
		if e.files == nil {
			e.files = make(map[fileID]*attachment)
		}
		e.files[id] = a
	}
	return nil
}

// anyProcess stands for all processes, to the kernel as in a cookie.
const anyProcess = 0

func (e *everywhere) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var wg sync.WaitGroup
	errs := make([]error, 0, len(e.files))
	var mu sync.Mutex
	for id, a := range e.files {
		wg.Go(func() {
			err := a.close()
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
		delete(e.files, id)
	}
	wg.Wait()
	return errors.Join(errs...)
}
