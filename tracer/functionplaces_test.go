package tracer

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestFunctionPlacesAreReadOnce: a file's symbols are read once for the same functions, and anew
// when the file has changed.
func TestFunctionPlacesAreReadOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	copyFile(t, path)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var places functionPlaces
	names := execCalls
	want, err := functionOffsets(f, names)
	if err != nil || len(want) == 0 {
		t.Fatalf("%v at %#x, want some places", err, want)
	}
	for range 2 {
		if got, err := places.of(f, names); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v at %#x, want %#x", err, got, want)
		}
	}
	if got, err := places.of(f, []string{"none of its functions"}); err != nil || len(got) != 0 {
		t.Errorf("%v at %#x for a function that it has not", err, got)
	}
	when := time.Unix(1000, 0)
	if _, err := f.WriteAt([]byte("no ELF"), 0); err != nil {
		t.Fatal(err)
	}
	if len(places.known) != 2 {
		t.Errorf("%d are known, want 2", len(places.known))
	}
	if err := os.Chtimes(path, when, when); err != nil {
		t.Fatal(err)
	}
	if _, err := places.of(f, names); err == nil {
		t.Error("what was known of the file before it was changed is said of it now")
	}
}

// copyFile copies a C library.
func copyFile(t *testing.T, to string) {
	t.Helper()
	var libraries []string
	for _, pattern := range []string{"/usr/lib/*-linux-gnu/libc.so.6", "/lib/*-linux-gnu/libc.so.6", "/usr/lib*/libc.so.6"} {
		found, _ := filepath.Glob(pattern) // the patterns are well-formed
		libraries = append(libraries, found...)
	}
	if len(libraries) == 0 {
		t.Fatal("no C library was found")
	}
	from, err := os.Open(libraries[0])
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	file, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := io.Copy(file, from); err != nil {
		t.Fatal(err)
	}
}
