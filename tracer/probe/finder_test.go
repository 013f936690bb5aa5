package probe

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// A file is looked into once; one that was written to in place is another.
func TestFinderRemembersFiles(t *testing.T) {
	d := NewFinder("/proc", Choice{})
	libc := libcPath(t)
	first, err := openAndInspect(t, d, libc)
	if err != nil || len(first.Probes) == 0 {
		t.Fatalf("%d probes in %s, %v", len(first.Probes), libc, err)
	}
	again, err := openAndInspect(t, d, libc)
	if err != nil || !reflect.DeepEqual(first, again) || len(d.known) != 1 {
		t.Errorf("the second look gives something else, %v; %d files known", err, len(d.known))
	}
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openAndInspect(t, d, path); err == nil {
		t.Error("text passes for a program")
	}
	content, err := os.ReadFile(libc)
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if o, err := openAndInspect(t, d, path); err != nil || len(o.Probes) != len(first.Probes) {
		t.Errorf("a changed file gives %d probes, %v; want %d", len(o.Probes), err, len(first.Probes))
	}
}

func openAndInspect(t *testing.T, d *Finder, path string) (Object, error) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return d.inspect(f, locator{})
}
