package tracer

import "testing"

// Who waits for events sees that rings are being read long before the first Batch of them is handed out.
func TestReadingIsSeen(t *testing.T) {
	lines, plain := newFakeLineRing(4*releaseEvery/lineSize), newFakeRing(4*releaseEvery)
	for i := uint64(0); lines.put(allocRecord(i, i)); i++ {
	}
	for i := uint64(0); plain.put(allocRecord(i, i)); i++ {
	}
	for name, r := range map[string]source{"lines": &lines.lineRing, "plain": &plain.ring} {
		d := &drain{rings: []source{r}}
		tr := &Tracer{drain: d}
		last, grew := tr.Progress(), 0
		r.drain(func([]byte) {
			if now := tr.Progress(); now > last {
				last = now
				grew++
			}
		})
		if grew != 3 || tr.Progress() <= last {
			t.Errorf("%s: it grew %d times within a full ring, want 3, and then to %d from %d", name, grew, tr.Progress(), last)
		}
	}
}
