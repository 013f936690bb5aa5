package tracer

// Through is the time (ns, CLOCK_MONOTONIC) before which every event has been
// put into a Batch. Those who need to know that they have seen all events of
// an instant call it, and then receive what Batches holds.
func (t *Tracer) Through() uint64 { return t.drain.through.Load() }

// Progress is a number that grows while rings are being read. Full rings take a while until the first Batch of them is
// handed out.
func (t *Tracer) Progress() uint64 { return t.drain.progress() }

// Hurry has the rings read now rather than at the end of the poll interval.
func (t *Tracer) Hurry() { t.drain.kick() }
