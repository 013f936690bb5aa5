package symbol

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/tracer/debugfile"
)

// forged writes a debug file of a program in which plain is called otherwise, and of
// the same size.
func forged(t *testing.T, program, name, to string) {
	t.Helper()
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	evil := strings.ReplaceAll(string(text), "\x00plain\x00", "\x00"+name+"\x00")
	if err := os.WriteFile(to, []byte(evil), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(to, time.Time{}, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
}

const viewID = "0123456789abcdef0123456789abcdef"

// namelessProgram is one whose names are in a debug file alone.
func namelessProgram(t *testing.T) (whole, stripped string) {
	t.Helper()
	whole = compile(t, "inlines.c", "-O2", "-Wl,--build-id=0x"+viewID)
	stripped = filepath.Join(t.TempDir(), "stripped")
	tool(t, "objcopy", "--strip-all", whole, stripped)
	return whole, stripped
}

func debugName(root string) string {
	return filepath.Join(root, "usr/lib/debug/.build-id", viewID[:2], viewID[2:]+".debug")
}

func plainIn(t *testing.T, r *Resolver, proc string, addr uint64) string {
	t.Helper()
	s, err := NewSpace(proc, 42)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return r.Frames(s, []uint64{addr}, false)[0].Function
}

// TestRootsApart has a debug file speak for processes of the root that it lies in
// alone, though those of another map the very same file.
func TestRootsApart(t *testing.T) {
	whole, stripped := namelessProgram(t)
	addr := symbolValue(t, whole, "plain")
	theirs, theirRoot := procTree(t, stripped, "/app/server", 0, "")
	forged(t, whole, "evil1", debugName(theirRoot))
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(theirRoot, "/app/server"), &st); err != nil {
		t.Fatal(err)
	}
	ours, ourRoot := procTree(t, stripped, "/app/server", st.Ino, "")
	same := filepath.Join(ourRoot, "/app/server")
	if err := os.Remove(same); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(theirRoot, "/app/server"), same); err != nil {
		t.Fatal(err)
	}
	r := newResolver(t, Options{})
	for range 2 {
		if got := plainIn(t, r, theirs, addr); got != "evil1" {
			t.Errorf("in the root that has the debug file: %s, want evil1", got)
		}
		if got := plainIn(t, r, ours, addr); got != fmt.Sprintf("%#x", addr) {
			t.Errorf("in another root: %s, want no name", got)
		}
	}
	forged(t, whole, "other", debugName(ourRoot))
	if got := plainIn(t, newResolver(t, Options{}), ours, addr); got != "other" {
		t.Errorf("with a debug file of its own: %s, want other", got)
	}
}

// TestCacheOfRoots keeps what one root has said from the processes of another, also
// where all that can be forged is the same.
func TestCacheOfRoots(t *testing.T) {
	whole, stripped := namelessProgram(t)
	addr := symbolValue(t, whole, "plain")
	theirs, theirRoot := procTree(t, stripped, "/app/server", 0, "")
	ours, ourRoot := procTree(t, stripped, "/app/server", 0, "")
	forged(t, whole, "evil1", debugName(theirRoot))
	forged(t, whole, "plain", debugName(ourRoot))
	cache := filepath.Join(t.TempDir(), "cache")
	for _, turn := range []struct{ proc, want string }{{theirs, "evil1"}, {ours, "plain"}, {theirs, "evil1"}} {
		r := NewResolver(Options{Cache: cache})
		if got := plainIn(t, r, turn.proc, addr); got != turn.want {
			t.Errorf("got %s, want %s", got, turn.want)
		}
		r.Close()
		if found, _ := filepath.Glob(filepath.Join(cache, "*"+answersSuffix)); len(found) == 0 {
			t.Fatal("nothing is kept")
		}
	}
}

// TestOthersDebugFile is not believed where others could have written it, and that is said.
func TestOthersDebugFile(t *testing.T) {
	whole, stripped := namelessProgram(t)
	addr := symbolValue(t, whole, "plain")
	proc, root := procTree(t, stripped, "/app/server", 0, "")
	forged(t, whole, "evil1", debugName(root))
	if err := os.Chmod(debugName(root), 0o666); err != nil {
		t.Fatal(err)
	}
	r := newResolver(t, Options{})
	if got := plainIn(t, r, proc, addr); got != fmt.Sprintf("%#x", addr) {
		t.Errorf("got %s, want no name", got)
	}
	if w := r.Warnings(); len(w) != 1 || !strings.Contains(w[0], viewID[2:]+".debug") || !strings.Contains(w[0], debugfile.ErrOthersWrite.Error()) {
		t.Errorf("warnings %q, want one that names the debug file and says why", w)
	}
}

// TestTrusts takes files of root and of the module's owner, as far as no others can write them.
func TestTrusts(t *testing.T) {
	const owner, other = 70001, 70002
	f := &mappedFile{owner: owner, group: owner}
	for _, test := range []struct {
		uid, gid, mode uint32
		want           bool
	}{
		{0, 0, 0o644, true}, {0, 0, 0o664, true}, {0, other, 0o664, false}, {0, 0, 0o646, false},
		{owner, owner, 0o664, true}, {owner, other, 0o664, false}, {owner, other, 0o644, true}, {other, owner, 0o644, false},
	} {
		st := unix.Stat_t{Uid: test.uid, Gid: test.gid, Mode: unix.S_IFREG | test.mode}
		if got := trusts(st, f); got != test.want {
			t.Errorf("user %d, group %d, mode %o: %v, want %v", test.uid, test.gid, test.mode, got, test.want)
		}
	}
}
