//go:build integration

package tracer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// BenchmarkStack measures what taking a stack adds to a pair of malloc and
// free, per frame: the same loop with and without stacks, at two depths. The
// program for .eh_frame has no frame pointers, the other one has. The
// difference of the depths is the cost of a frame, free of what a stack costs
// at any depth.
func BenchmarkStack(b *testing.B) {
	for _, run := range []struct {
		unwind  Unwinder
		program string
	}{{UnwindDwarf, "churn_nofp"}, {UnwindFP, "churn"}} {
		b.Run(string(run.unwind), func(b *testing.B) {
			const shallow, deep = 10, 60
			none, _ := pairTime(b, run.program, UnwindNone, deep)
			low, lowFrames := pairTime(b, run.program, run.unwind, shallow)
			high, highFrames := pairTime(b, run.program, run.unwind, deep)
			b.ReportMetric((high-low)/(highFrames-lowFrames), "ns/frame")
			b.ReportMetric(high-none, "ns/stack")
			b.ReportMetric(highFrames, "frames")
			b.ReportMetric(none, "ns/pair-without")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// pairTime returns the least time of a pair in five runs, and the frames of its stack.
func pairTime(b *testing.B, program string, u Unwinder, depth int) (ns, frames float64) {
	b.Helper()
	for range 5 {
		t, f := onePairTime(b, program, u, depth)
		if ns == 0 || t < ns {
			ns, frames = t, f
		}
	}
	return ns, frames
}

func onePairTime(b *testing.B, program string, u Unwinder, depth int) (ns, frames float64) {
	b.Helper()
	p := start(b, nil, program, fmt.Sprint(depth), "1", "1")
	pid := p.cmd.Process.Pid
	tr, err := New(Config{Unwind: u, StackDepth: MaxStackDepth, RingBytes: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer tr.Close()
	if err := tr.Attach(pid, discover(b, pid)); err != nil {
		b.Fatal(err)
	}
	deepest := make(chan int, 1)
	go func() {
		n := 0
		for {
			batch, err := tr.Read()
			if errors.Is(err, ErrClosed) {
				deepest <- n
				return
			}
			for _, s := range batch.Stacks {
				n = max(n, len(s.Frames))
			}
			batch.Release()
		}
	}()
	p.proceed()
	answer := p.line()
	for !strings.HasPrefix(answer, "{") {
		answer = p.line()
	}
	if err := tr.Stop(); err != nil {
		b.Fatal(err)
	}
	var a struct {
		Total   counts
		Elapsed time.Duration `json:"elapsed_ns"`
	}
	if err := json.Unmarshal([]byte(answer), &a); err != nil {
		b.Fatal(err)
	}
	return float64(a.Elapsed) / float64(a.Total.Alloc), float64(<-deepest)
}
