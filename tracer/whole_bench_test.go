package tracer

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/event"
)

// simulated is a process that allocates and frees all the time, mostly what is
// young, from sites some of which are much busier than others.
type simulated struct {
	pid, threads uint32
	r            *rand.Rand
	sites        *rand.Zipf
	live, free   []uint64
}

func newSimulated(pid, threads uint32, live int) *simulated {
	r := rand.New(rand.NewPCG(uint64(pid), 4))
	s := &simulated{pid: pid, threads: threads, r: r, sites: rand.NewZipf(r, 1.1, 1, 999)}
	for i := range live + live/8 + 64 {
		s.free = append(s.free, 0x7f1200000000+uint64(i)*64)
	}
	r.Shuffle(len(s.free), func(i, j int) { s.free[i], s.free[j] = s.free[j], s.free[i] })
	return s
}

// take takes one of the latest addresses out of a list.
func (s *simulated) take(from *[]uint64, latest int) uint64 {
	list := *from
	k := len(list) - 1 - s.r.IntN(min(latest, len(list)))
	addr := list[k]
	list[k] = list[len(list)-1]
	*from = list[:len(list)-1]
	return addr
}

func (s *simulated) record(time, addr uint64, kind event.Kind) bpf.MemtraceRecordAlloc {
	head := bpf.MemtraceRecordHead{Time: time, Addr: addr, Tgid: s.pid, Tid: s.pid*64 + s.r.Uint32N(s.threads), Kind: uint8(kind)}
	return bpf.MemtraceRecordAlloc{Head: head}
}

func (s *simulated) alloc(time uint64) bpf.MemtraceRecordAlloc {
	addr := s.take(&s.free, 100)
	s.live = append(s.live, addr)
	r := s.record(time, addr, event.Alloc)
	r.Size, r.Stack = 16+s.r.Uint64N(256), (1+s.sites.Uint64())*0x9e3779b97f4a7c15
	return r
}

func (s *simulated) release(time uint64) bpf.MemtraceRecordAlloc {
	latest := 1000
	if s.r.IntN(16) == 0 {
		latest = len(s.live)
	}
	addr := s.take(&s.live, latest)
	s.free = append(s.free, addr)
	return s.record(time, addr, event.Free)
}

// BenchmarkRingsToSites takes events of a big machine all the way, on one
// processor: from the rings of its CPUs through decode and merge to live heaps of two
// million blocks in all, and sites. Each process has its CPU, so that neighbours in time are
// of different rings and processes.
func BenchmarkRingsToSites(b *testing.B) {
	for _, c := range []struct{ cpus, processes, threads int }{{2, 1, 10}, {64, 100, 10}, {256, 1000, 10}} {
		b.Run(fmt.Sprintf("cpus=%d/processes=%d/threads=%d", c.cpus, c.processes, c.processes*c.threads), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			benchmarkRingsToSites(b, c.cpus, c.processes, c.threads)
		})
	}
}

func benchmarkRingsToSites(b *testing.B, cpus, processes, threads int) {
	const live, events = 2_000_000, 1 << 18
	d := &drain{merger: newMerger(cpus), out: make(chan *Batch, maxBatches), batches: newBatches()}
	rings := make([]*fakeLineRing, cpus)
	for i := range rings {
		rings[i] = newFakeLineRing(1 << 18)
		d.rings = append(d.rings, &rings[i].lineRing)
	}
	a := analyzer.New(analyzer.Config{})
	var in input.Events
	defer a.Close()
	all := make([]*simulated, processes)
	for i := range all {
		all[i] = newSimulated(uint32(1000+i), uint32(threads), live/processes)
		a.Take(input.Started{ProcessInfo: analyzer.ProcessInfo{PID: all[i].pid}})
	}
	time := uint64(0)
	put := func(i int, r bpf.MemtraceRecordAlloc) {
		if !rings[i%cpus].put(recordBytes(&r)) {
			b.Fatal("a ring is full")
		}
		time++
	}
	apply := func() (applied int) {
		if !d.round(0) {
			b.Fatal("the drain has ended")
		}
		for len(d.out) > 0 {
			batch := <-d.out
			in.Events = batch.Events
			a.Take(&in)
			applied += len(batch.Events)
			batch.Release()
		}
		return applied
	}
	for made := 0; made < live; made++ {
		put(made%processes, all[made%processes].alloc(time))
		if made%events == 0 {
			apply()
		}
	}
	apply()
	b.ResetTimer()
	spent, done := 0.0, 0
	for done < b.N {
		b.StopTimer()
		for i := 0; i < events; i += 2 {
			k := all[0].r.IntN(processes)
			put(k, all[k].release(time))
			put(k, all[k].alloc(time))
		}
		b.StartTimer()
		began := processorTime(b)
		if n := apply(); n != events {
			b.Fatalf("%d of %d events came out", n, events)
		}
		spent += float64(processorTime(b) - began)
		done += events
	}
	b.ReportMetric(spent/float64(done), "cpu-ns/event")
	b.ReportMetric(float64(done)/spent*1e3, "Mevents/s")
}
