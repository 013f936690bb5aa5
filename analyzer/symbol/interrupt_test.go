package symbol

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// silentServer never answers; asked gets a value for each question.
func silentServer(t *testing.T) (url string, asked chan string) {
	asked = make(chan string, 16)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

// TestDebuginfodInterrupt: a signal while a server is waited for ends that, and nothing is asked any more, of any
// server.
func TestDebuginfodInterrupt(t *testing.T) {
	t.Setenv("DEBUGINFOD_CACHE_PATH", t.TempDir())
	for what, interrupt := range map[string]func(*debuginfod){
		"a signal": (*debuginfod).interrupt, "in a hurry": (*debuginfod).stop,
	} {
		url, asked := silentServer(t)
		other, never := debugServer(t, nil)
		var w warnings
		d := newDebuginfod([]string{url, other}, &w)
		d.time = time.Hour
		go func() {
			<-asked
			interrupt(d)
		}()
		d.find("0123456789abcdef", 1000)
		d.find("fedcba9876543210", 0)
		if len(asked) > 0 || never.Load() > 0 {
			t.Errorf("%s: a server was asked all the same", what)
		}
		if list := w.list(); len(list) != 1 || !strings.Contains(list[0], "interrupted by a signal") {
			t.Errorf("%s: warnings %q", what, list)
		}
	}
}

// TestDebuginfodAfterSignal: a trace that a signal has ended still has its files fetched, and a signal between two waits
// is not for them.
func TestDebuginfodAfterSignal(t *testing.T) {
	t.Setenv("DEBUGINFOD_CACHE_PATH", t.TempDir())
	url, asked := debugServer(t, nil)
	var w warnings
	d := newDebuginfod([]string{url}, &w)
	for _, id := range []string{"0123456789abcdef", "fedcba9876543210"} {
		d.interrupt()
		d.find(id, 0)
	}
	if n := asked.Load(); n != 2 || len(w.list()) > 0 {
		t.Errorf("asked %d times, warnings %q; want 2 and none", n, w.list())
	}
}

// TestHurry: what has no name when somebody wants the rest at once has its address and module, and what has one keeps
// it.
func TestHurry(t *testing.T) {
	program := compile(t, "inlines.c", "-O2", "-g")
	plain := symbolValue(t, program, "plain")
	s, r := fileSpace(t, program), newResolver(t, Options{})
	known := *r.Frames(s, []uint64{plain}, false)[0]
	r.Hurry()
	other := compile(t, "inlines.c", "-O1")
	for what, f := range map[string]*Frame{
		"a new address": r.Frames(s, []uint64{plain + 1}, false)[0],
		"a new file":    r.Frames(fileSpace(t, other), []uint64{plain + 1}, false)[0],
	} {
		want := Frame{Function: hexName(plain + 1), Module: f.Module, BuildID: f.BuildID, Offset: plain + 1}
		if *f != want || f.Module == "" || f.BuildID == "" {
			t.Errorf("%s: %+v, want its address, module and build ID", what, f)
		}
	}
	if got := *r.Frames(s, []uint64{plain}, false)[0]; got.Function != known.Function || got.Line != known.Line {
		t.Errorf("what was named: %+v, want %+v", got, known)
	}
	if name := r.Function(s, plain+2); !strings.HasPrefix(name, "0x") {
		t.Errorf("%q, want an address", name)
	}
	if w := r.Warnings(); len(w) != 1 || !strings.Contains(w[0], "signal") {
		t.Errorf("warnings %q, want one that says why", w)
	}
}
