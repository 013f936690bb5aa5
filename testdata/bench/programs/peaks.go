package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// peaks watches how much memory processes have had resident at most.
type peaks struct {
	pids []int
	kB   []uint64
	stop chan struct{}
	done sync.WaitGroup
}

// peakPoll is how often it looks: what a process takes in its last moments
// may be missed.
const peakPoll = 10 * time.Millisecond

func watchPeaks(pids []int) *peaks {
	p := &peaks{pids: pids, kB: make([]uint64, len(pids)), stop: make(chan struct{})}
	p.done.Go(func() {
		tick := time.NewTicker(peakPoll)
		defer tick.Stop()
		for {
			for i, pid := range p.pids {
				p.kB[i] = max(p.kB[i], peakOf(pid))
			}
			select {
			case <-p.stop:
				return
			case <-tick.C:
			}
		}
	})
	return p
}

// sum ends the watch.
func (p *peaks) sum() (kB uint64) {
	close(p.stop)
	p.done.Wait()
	for _, n := range p.kB {
		kB += n
	}
	return kB
}

// peakOf is VmHWM in kB, or 0 where the process has ended.
func peakOf(pid int) uint64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kB, _ := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			return kB
		}
	}
	return 0
}
