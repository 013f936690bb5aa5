//go:build integration

package procfs

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs/proctest"
)

// TestFramesAgreeWithSmaps counts, frame by frame, how often the anonymous
// pages of a stopped child are mapped: those mapped once are its USS there.
func TestFramesAgreeWithSmaps(t *testing.T) {
	cmd := startChild(t, "child")
	proctest.Stop(t, cmd.Process.Pid)
	p := openLive(t, cmd.Process.Pid)
	m, err := p.OpenPagemap()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	counts, flags := openFrames(t, FrameCounts), openFrames(t, FrameFlags)
	checked, pages := uint64(0), uint64(0)
	err = p.Smaps(func(v *VMA) {
		if v.Kind != KindAnon && v.Kind != KindHeap && v.Kind != KindStack || v.Rss == 0 {
			return
		}
		once := uint64(0)
		entries := make([]PageEntry, v.Size()/pageSize)
		for done := 0; done < len(entries); {
			n, err := m.Read(v.Start+uint64(done)*pageSize, entries[done:])
			if err != nil || n == 0 {
				t.Fatal(n, err)
			}
			done += n
		}
		for _, e := range entries {
			if e.Frame() == 0 {
				continue
			}
			var count, flag [1]uint64
			if n, err := counts.Read(e.Frame(), count[:]); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			if n, err := flags.Read(e.Frame(), flag[:]); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			if FrameFlag(flag[0])&FrameZero != 0 {
				continue // which no RSS counts
			}
			pages++
			if FrameFlag(flag[0])&(FrameAnon|FrameNoPage) != FrameAnon {
				t.Errorf("frame %d of %x is not anonymous: flags %x", e.Frame(), v.Start, flag[0])
			}
			if count[0] == 1 {
				once += pageSize
			}
		}
		if once != v.USS() {
			t.Errorf("%x-%x: %d bytes mapped once, USS %d", v.Start, v.End, once, v.USS())
		}
		checked++
	})
	if err != nil || checked < 3 || pages*pageSize < 200<<10 {
		t.Errorf("%d mappings with %d pages, %v", checked, pages, err)
	}
}

func openFrames(t *testing.T, name FrameFile) *Frames {
	t.Helper()
	f, err := (FS{root: DefaultRoot}).OpenFrames(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// TestFramesEnd: beyond the machine's last frame there is nothing, without an error.
func TestFramesEnd(t *testing.T) {
	for _, name := range []FrameFile{FrameCounts, FrameFlags} {
		var values [16]uint64
		if n, err := openFrames(t, name).Read(1<<40, values[:]); n != 0 || err != nil {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	if _, err := (FS{root: t.TempDir()}).OpenFrames(FrameCounts); OutcomeOf(err) != NotSupported {
		t.Errorf("no file: %v", err)
	}
}

// TestFrameCgroups: the pages of a child are charged to its control group,
// which goes by its directory's inode; those of the root may be charged to none.
func TestFrameCgroups(t *testing.T) {
	cmd := startChild(t, "child")
	proctest.Stop(t, cmd.Process.Pid)
	p := openLive(t, cmd.Process.Pid)
	group, err := p.Cgroup()
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if unix.Stat("/sys/fs/cgroup/memory"+group, &st) != nil && unix.Stat("/sys/fs/cgroup"+group, &st) != nil {
		t.Fatalf("control group %s is not to be found", group)
	}
	m, err := p.OpenPagemap()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	frames, checked := openFrames(t, FrameCgroups), 0
	err = p.Smaps(func(v *VMA) {
		var entry [1]PageEntry
		if v.Kind != KindStack {
			return
		}
		if n, err := m.Read(v.End-pageSize, entry[:]); n != 1 || err != nil || entry[0].Frame() == 0 {
			t.Fatal(n, err, entry)
		}
		var charged [1]uint64
		if n, err := frames.Read(entry[0].Frame(), charged[:]); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if charged[0] != st.Ino && (group != "/" || charged[0] != 0) {
			t.Errorf("charged to %d; %s is %d", charged[0], group, st.Ino)
		}
		checked++
	})
	if err != nil || checked != 1 {
		t.Errorf("%d stacks, %v", checked, err)
	}
}
