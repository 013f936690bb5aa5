//go:build linux && !viewer

package main

import (
	"bufio"
	"os/exec"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer"
)

// TestEndingsLeaveTheFirstReading: a process that ends as a time without probes begins has the session follow the pause
// at once. What was there at its beginning is still to be read.
func TestEndingsLeaveTheFirstReading(t *testing.T) {
	l := &limiter{blind: true, unread: true, touched: true}
	if l.takeUnread() {
		t.Error("it is read before the session knows of the pause")
	}
	s := &session{limiter: l, analyzer: analyzer.New(analyzer.Config{}), stopping: true} // all events have come
	defer s.analyzer.Close()
	s.followPause()
	if l.blind || !l.takeUnread() || l.takeUnread() {
		t.Error("it is not read once")
	}
}

// TestTimeOfChildren: the processor time of a child counts from its start to its
// end, whether a step came meanwhile or not; that of others from the first step on.
func TestTimeOfChildren(t *testing.T) {
	for name, c := range map[string]struct{ child, seen, counts bool }{
		"a child that a step sees":  {child: true, seen: true, counts: true},
		"a child between two steps": {child: true, counts: true},
		"another that a step sees":  {seen: true},
		"another between two steps": {},
	} {
		t.Run(name, func(t *testing.T) {
			l := &limiter{cpu: make(map[int]uint64), charged: make(map[int]chargedProcess)}
			p := exec.Command("sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo ready; read x")
			if _, err := p.StdinPipe(); err != nil {
				t.Fatal(err)
			}
			out, err := p.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Error(err)
			}
			pid := p.Process.Pid
			targets := map[int]*target{pid: {pid: pid, child: c.child}}
			var got time.Duration
			if c.seen {
				l.charge(targets)
				got = time.Duration(l.spent())
			}
			l.ending(pid)
			_ = p.Process.Kill()
			_ = p.Wait() // it was killed
			targets[pid].exited = true
			l.charge(targets)
			got += time.Duration(l.spent())
			if len(l.cpu) != 0 {
				t.Error("the time of a process that has ended would be taken off that of the next one of its PID")
			}
			all := p.ProcessState.UserTime() + p.ProcessState.SystemTime()
			if c.counts && (got < all/2 || got > all) || !c.counts && got > all/2 {
				t.Errorf("%v count of the %v that it took", got, all)
			}
			l.charge(nil)
			if n := l.spent(); n != 0 || len(l.cpu) != 0 {
				t.Errorf("once more: %d ns, %d processes are remembered", n, len(l.cpu))
			}
		})
	}
}
