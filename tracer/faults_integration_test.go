//go:build integration

package tracer

import (
	"errors"
	"os"
	"testing"

	"github.com/memtrace/memtrace/tracer/event"
)

// The program touch allocates 8 blocks of 1 MiB that it doesn't touch, 8 of
// which it touches every second page and 8 that it fills. Each is a mapping of
// its own, 16 bytes into its first page, which malloc itself touches.
func TestEachFaultSourceSeesEveryFault(t *testing.T) {
	const big, blocks = 1 << 20, 8
	page := os.Getpagesize()
	want := blocks * (1 + big/page/2 + (big/page + 1))
	for _, r := range faultSources {
		if err := r.have.Probe(); errors.Is(err, ErrNotSupported) {
			continue // TestFeaturesMatchKernelVersion judges that
		}
		t.Run(string(r.name), func(t *testing.T) {
			p := start(t, nil, "touch")
			_, events, _, loss := trace(t, Config{Faults: r.name, StackDepth: 4}, p)
			p.finish()
			got := faultedPages(events, big, uint64(page))
			if got != want {
				t.Errorf("faults on %d pages of the blocks, want %d", got, want)
			}
			if loss.Lost() != 0 {
				t.Errorf("lost events: %+v", loss)
			}
		})
	}
}

// faultedPages counts the pages of blocks of a size that were faulted on,
// their header's page included.
func faultedPages(events []event.Event, size, page uint64) int {
	owned := make(map[uint64]bool)
	for _, e := range events {
		if e.Kind == event.Alloc && e.Size == size {
			for at := (e.Addr - 16) / page; at <= (e.Addr+size-1)/page; at++ {
				owned[at] = true
			}
		}
	}
	faulted := make(map[uint64]bool)
	for _, e := range events {
		if e.Kind == event.Fault && owned[e.Addr/page] {
			faulted[e.Addr/page] = true
		}
	}
	return len(faulted)
}
