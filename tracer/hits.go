package tracer

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/bpf"
)

// Hits count the calls at which a sampling tracer's probes took the targets' time.
type Hits struct {
	Entry     uint64 // seen at their entry alone
	Return    uint64 // at their return, too, and not recorded
	Recorded  uint64 // at their return, too, and recorded
	Predicted uint64 // of Entry: recorded, by a prediction or at their own return instructions, which Exit counts
	Timed     uint64 // of the recorded and the predicted: whose recording was timed
	TimedNS   uint64 // what that took, all together
	Exit      uint64 // executions of return instructions that are probed, by whichever function

	Touch      uint64 // page faults that had a stack
	TouchTimed uint64 // of those: whose stack and record were timed
	TouchNS    uint64 // what that took, all together
}

// Sub is what came since an earlier count.
func (h Hits) Sub(o Hits) Hits {
	return Hits{
		h.Entry - o.Entry, h.Return - o.Return, h.Recorded - o.Recorded, h.Predicted - o.Predicted, h.Timed - o.Timed, h.TimedNS - o.TimedNS,
		h.Exit - o.Exit, h.Touch - o.Touch, h.TouchTimed - o.TouchTimed, h.TouchNS - o.TouchNS,
	}
}

func (h Hits) add(o Hits) Hits {
	return Hits{
		h.Entry + o.Entry, h.Return + o.Return, h.Recorded + o.Recorded, h.Predicted + o.Predicted, h.Timed + o.Timed, h.TimedNS + o.TimedNS,
		h.Exit + o.Exit, h.Touch + o.Touch, h.TouchTimed + o.TouchTimed, h.TouchNS + o.TouchNS,
	}
}

// shapeHits makes room for the counts of all CPUs.
func shapeHits(spec *ebpf.CollectionSpec, sampling bool) error {
	if !sampling {
		return nil
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count the CPUs: %w", err)
	}
	spec.Maps[bpf.MemtraceMapHits].MaxEntries = uint32(cpus * hitKinds)
	return nil
}

const hitKinds = int(bpf.MemtraceHitHIT_KINDS)

// hitCounts are the kernel half's counts, mapped.
type hitCounts struct{ mem []byte }

func openHits(m *ebpf.Map) (*hitCounts, error) {
	page := os.Getpagesize()
	size := (int(m.MaxEntries())*8 + page - 1) &^ (page - 1)
	mem, err := unix.Mmap(m.FD(), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the counts of hits: %w", err)
	}
	return &hitCounts{mem[:int(m.MaxEntries())*8]}, nil
}

func (c *hitCounts) sum(kind bpf.MemtraceHit) (n uint64) {
	for at := int(kind) * 8; at < len(c.mem); at += hitKinds * 8 {
		n += atomic.LoadUint64((*uint64)(unsafe.Pointer(&c.mem[at])))
	}
	return n
}

func (c *hitCounts) close() {
	if c != nil {
		_ = unix.Munmap(c.mem[:cap(c.mem)])
	}
}

// Hits returns the counts since New; zero where every block is recorded.
func (t *Tracer) Hits() (h Hits) {
	if t.hits == nil {
		return h
	}
	return Hits{
		Entry: t.hits.sum(bpf.MemtraceHitHIT_ENTRY), Return: t.hits.sum(bpf.MemtraceHitHIT_RETURN),
		Recorded: t.hits.sum(bpf.MemtraceHitHIT_RECORDED), Predicted: t.hits.sum(bpf.MemtraceHitHIT_PREDICTED),
		Timed: t.hits.sum(bpf.MemtraceHitHIT_TIMED), TimedNS: t.hits.sum(bpf.MemtraceHitHIT_TIMED_NS),
		Exit: t.hits.sum(bpf.MemtraceHitHIT_EXIT), Touch: t.hits.sum(bpf.MemtraceHitHIT_TOUCH),
		TouchTimed: t.hits.sum(bpf.MemtraceHitHIT_TOUCH_TIMED), TouchNS: t.hits.sum(bpf.MemtraceHitHIT_TOUCH_NS),
	}
}
