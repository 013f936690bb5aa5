//go:build amd64

package probe

import (
	"os"
	"slices"
	"testing"
)

// TestApart has code left out of which two entries tell different ends.
func TestApart(t *testing.T) {
	got := apart([]span{{90, 99}, {10, 20}, {20, 30}, {10, 20}, {40, 80}, {50, 60}, {70, 75}, {80, 90}, {0, 4}, {0, 8}})
	if want := []span{{10, 20}, {20, 30}, {80, 90}, {90, 99}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestListedIsDescribed has the same told of a real file's code without the linker's table as with it.
func TestListedIsDescribed(t *testing.T) {
	r, err := os.Open(libcPath(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	im, err := openImage(r)
	if err != nil {
		t.Fatal(err)
	}
	table, _ := im.frameTable()
	im.listed(0)
	spans := im.frames.spans
	if len(spans) < 1000 || len(spans) < len(table)/frameEntry*99/100 {
		t.Errorf("%d pieces of code without the table, %d with it", len(spans), len(table)/frameEntry)
	}
	for _, want := range spans {
		for _, addr := range []uint64{want.lo, want.hi - 1} {
			if got, ok := im.described(addr); !ok || got != want {
				t.Fatalf("at %#x with the table %#x, %v, without it %#x", addr, got, ok, want)
			}
			if got, ok := im.listed(addr); !ok || got != want {
				t.Fatalf("at %#x listed %#x, %v, want %#x", addr, got, ok, want)
			}
		}
	}
}
