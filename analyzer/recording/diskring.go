package recording

import (
	"errors"
	"io"
	gosync "sync"
)

// A KeptFile is one that a DiskRing writes, and reads again as it turns.
type KeptFile interface {
	File
	io.ReaderAt
}

// Turning is how a DiskRing changes from one file to the next.
type Turning struct {
	Next    func() (KeptFile, error) // makes an empty file beside the present one
	Replace func(KeptFile) error     // puts it in the place of that, at once
	Discard func(KeptFile)           // removes one that was not put there
}

// A DiskRing is a File for a Writer that keeps the last of a recording on disk: once half of what the file has is older
// than it has to be, it writes the rest to another one, beside what comes, and replaces the file by that. The file is
// whole at any time.
type DiskRing struct {
	turning Turning

	mu      gosync.Mutex
	ring    ring
	file    KeptFile
	prefix  []byte
	written int64 // bytes ever, as the Writer counts them
	end     int64 // of the file
	tried   uint64
	err     error         // why the last turn failed
	quit    chan struct{} // closed at the end
	busy    gosync.WaitGroup
	isBusy  bool
}

// NewDiskRing keeps at least the last ns in a file, which is empty.
func NewDiskRing(f KeptFile, keep uint64, t Turning) *DiskRing {
	return &DiskRing{turning: t, ring: newRing(keep), file: f, quit: make(chan struct{})}
}

// Write takes a block.
func (d *DiskRing) Write(b []byte) (int, error) {
	h, isBlock, err := parseWritten(b)
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if n, err := d.file.Write(b); err != nil {
		return n, err
	}
	if isBlock {
		d.ring.add(entry{head: h, size: int64(len(b)), offset: d.end}, b)
	} else {
		d.prefix = append([]byte(nil), b...)
	}
	d.written += int64(len(b))
	d.end += int64(len(b))
	d.turnIfDue()
	return len(b), nil
}

// turnIfDue begins to turn where that gives back as much as it takes.
func (d *DiskRing) turnIfDue() {
	s := d.ring.cut()
	if s == nil || d.isBusy || s.At <= d.tried {
		return
	}
	if kept := d.ring.kept(s); d.ring.size-kept < kept {
		return
	}
	d.isBusy, d.tried = true, s.At
	d.busy.Add(1)
	go d.turn(*s)
}

// A copying is a file that is going to replace the present one.
type copying struct {
	file    KeptFile
	from    KeptFile
	entries []entry
	end     int64
	buffer  []byte
}

func (d *DiskRing) turn(s checkpointEnd) {
	defer d.busy.Done()
	err := d.tryTurn(s)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isBusy = false
	if !errors.Is(err, errStop) {
		d.err = err
	}
}

func (d *DiskRing) tryTurn(s checkpointEnd) error {
	f, err := d.turning.Next()
	if err != nil {
		return err
	}
	if err := d.copyTo(&copying{file: f, from: d.file}, s); err != nil {
		d.turning.Discard(f)
		return err
	}
	return nil
}

// copyTo copies what stays, first beside the Writer, then the last bit of it while that waits.
func (d *DiskRing) copyTo(c *copying, s checkpointEnd) error {
	if _, err := c.file.Write(d.prefix); err != nil {
		return err
	}
	c.end = int64(len(d.prefix))
	d.mu.Lock()
	entries := d.ring.entries
	d.mu.Unlock()
	if err := s.inOrder(entries, true, d.unlessQuit(c.take)); err != nil {
		return err
	}
	for done := 0; ; {
		part := entries[done:]
		if err := s.inOrder(part, false, d.unlessQuit(c.take)); err != nil {
			return err
		}
		done += len(part)
		d.mu.Lock()
		if entries = d.ring.entries; len(entries)-done > maxWaiting {
			d.mu.Unlock()
			continue
		}
		d.mu.Unlock()
		if err := c.file.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		return d.replace(c, s, done)
	}
}

// replace copies what has come since, and changes the files.
func (d *DiskRing) replace(c *copying, s checkpointEnd, done int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := s.inOrder(d.ring.entries[done:], false, d.unlessQuit(c.take)); err != nil {
		return err
	}
	if err := d.turning.Replace(c.file); err != nil {
		return err
	}
	_ = d.file.Close()
	d.file, d.end = c.file, c.end
	d.ring.entries, d.ring.size = c.entries, c.end-int64(len(d.prefix))
	d.ring.begin(s)
	return nil
}

func (d *DiskRing) unlessQuit(take func(*entry) error) func(*entry) error {
	return func(e *entry) error {
		select {
		case <-d.quit:
			return errStop
		default:
			return take(e)
		}
	}
}

// take copies a block.
func (c *copying) take(e *entry) error {
	if int64(cap(c.buffer)) < e.size {
		c.buffer = make([]byte, e.size)
	}
	b := c.buffer[:e.size]
	if _, err := c.from.ReadAt(b, e.offset); err != nil {
		return err
	}
	if _, err := c.file.Write(b); err != nil {
		return err
	}
	own := *e
	own.offset = c.end
	c.entries, c.end = append(c.entries, own), c.end+e.size
	return nil
}

// WantsCheckpoint reports whether it is time for one.
func (d *DiskRing) WantsCheckpoint(now uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ring.wantsCheckpoint(now, 1<<62)
}

// Size is that of the file, and of what it has that the Writer's count is more or less.
func (d *DiskRing) Size() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.end
}

// Err is why the file could not be turned the last time; it grows meanwhile.
func (d *DiskRing) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// Truncate cuts what a failed Write has left: n is as the Writer counts.
func (d *DiskRing) Truncate(n int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.file.Truncate(d.end - (d.written - n))
}

// Sync has what was written on the disk.
func (d *DiskRing) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.file.Sync()
}

// Close gives up a turn that is under way, and closes the file.
func (d *DiskRing) Close() error {
	close(d.quit)
	d.busy.Wait()
	return d.file.Close()
}
