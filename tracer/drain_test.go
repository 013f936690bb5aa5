package tracer

import "testing"

// Who waits for events sees that rings are being read long before the first Batch of them is handed out.
func TestReadingIsSeen(t *testing.T) {
	d := &drain{merger: newMerger(1), out: make(chan *Batch, maxBatches), batches: newBatches()}
	tr := &Tracer{drain: d}
	for i := range uint64(3 * readStep) {
		d.take(&d.merger.queues[0], allocRecord(i, i))
	}
	if got := tr.RecordsRead(); got != 3*readStep || len(d.out) != 0 {
		t.Errorf("%d records read, %d batches, want %d and none", got, len(d.out), 3*readStep)
	}
}
