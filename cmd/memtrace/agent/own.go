package agent

import (
	"sync/atomic"
	"time"

	"github.com/memtrace/memtrace/procfs/collect"
)

// own is what the agent itself has cost and done. Counters only grow.
type own struct {
	passes, errors atomic.Uint64
	// walked is how long page tables were walked, and their processes' memory locks held.
	walked                             atomic.Int64
	done, unchanged, deferred, tooLong atomic.Uint64
	reloadOK                           atomic.Bool
	reloadAt                           atomic.Int64 // Unix seconds of the last good one
}

func (o *own) passed(pass *collect.Pass) {
	w := &pass.Walks
	o.passes.Add(1)
	o.walked.Add(int64(w.Held))
	o.done.Add(uint64(w.Done))
	o.unchanged.Add(uint64(w.Unchanged))
	o.deferred.Add(uint64(w.Deferred))
	o.tooLong.Add(uint64(w.TooLong))
}

func (o *own) reloaded(ok bool) {
	o.reloadOK.Store(ok)
	if ok {
		o.reloadAt.Store(time.Now().Unix())
	}
}
