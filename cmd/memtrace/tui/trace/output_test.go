package trace

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// A pipe that nobody reads stands for a terminal that takes nothing: writers wait for nothing, and what it
// takes in the end is whole.
func TestSlowTerminalDelaysNobody(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	o := newOutput(w, func() {})
	chunk := []byte(strings.Repeat("x", 1<<16))
	for range 4 * maxPending / len(chunk) {
		if n, err := o.Write(chunk); n != len(chunk) || err != nil {
			t.Fatal(n, err)
		}
	}
	if idle, _ := o.idle(); idle {
		t.Error("a pipe that nobody reads took megabytes")
	}
	if err := o.end(time.Millisecond); err == nil || !strings.Contains(err.Error(), "took no output") {
		t.Errorf("got %v", err)
	}
}

// What gives the terminal back is written, however much was dropped before.
func TestLastWordsAreKept(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	o := newOutput(w, func() {})
	for range 3 {
		_, _ = o.Write([]byte(strings.Repeat("x", maxPending/2+1)))
	}
	o.close()
	_, _ = o.Write([]byte("restored"))
	got := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(r)
		got <- string(all)
	}()
	if err := o.end(time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, dropped := o.idle(); !dropped {
		t.Error("nothing was dropped: it says nothing of what is")
	}
	w.Close()
	if all := <-got; !strings.HasSuffix(all, "restored") {
		t.Errorf("the last of %d bytes are %q", len(all), all[max(len(all)-20, 0):])
	}
}

// A terminal that is gone ends the trace.
func TestGoneTerminalEndsTheTrace(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	gone := make(chan struct{}, 1)
	o := newOutput(w, func() { gone <- struct{}{} })
	_, _ = o.Write([]byte("x"))
	<-gone
	if err := o.end(time.Minute); err == nil || !strings.Contains(err.Error(), "write to the terminal") {
		t.Errorf("got %v", err)
	}
}
