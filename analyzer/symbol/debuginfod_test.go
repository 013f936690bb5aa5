package symbol

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// debugServer serves files by the address below it, and counts what is asked.
func debugServer(t *testing.T, files map[string]string) (url string, asked *atomic.Int64) {
	asked = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if file, ok := files[r.URL.Path]; ok {
			http.ServeFile(w, r, file)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

// strippedProgram returns a program whose debug file lies elsewhere, with
// nothing to say where, the address to ask for it, and frames that tell.
func strippedProgram(t *testing.T) (program, debug, at string, addrs []uint64, want []*Frame) {
	program = compile(t, "inlines.c", "-O2", "-g", "-Wl,--build-id")
	addrs = sampleCode(t, program)[:100]
	want, _, _ = lookUp(t, program, addrs, Options{})
	debug = filepath.Join(t.TempDir(), "program.debug")
	tool(t, "objcopy", "--only-keep-debug", program, debug)
	tool(t, "objcopy", "--strip-all", program)
	at = "/buildid/" + want[0].BuildID + "/debuginfo"
	return program, debug, at, addrs, want
}

// TestDebuginfod fetches a file once, also for other runs.
func TestDebuginfod(t *testing.T) {
	program, debug, at, addrs, want := strippedProgram(t)
	url, asked := debugServer(t, map[string]string{at: debug})
	cache := filepath.Join(t.TempDir(), "cache")
	t.Setenv("DEBUGINFOD_CACHE_PATH", cache)
	for range 2 {
		got, warnings, _ := lookUp(t, program, addrs, Options{Debuginfod: []string{url + "/none", url + "/"}})
		if !reflect.DeepEqual(got, want) || len(warnings) > 0 {
			t.Errorf("answers differ from those with DWARF in the file; warnings %q", warnings)
		}
	}
	if n := asked.Load(); n != 2 { // once of each server
		t.Errorf("the servers were asked %d times, want 2", n)
	}
	kept, err := os.ReadFile(filepath.Join(cache, want[0].BuildID, "debuginfo"))
	served, servedErr := os.ReadFile(debug)
	if err != nil || servedErr != nil || string(kept) != string(served) {
		t.Errorf("what is kept differs from what was served (%v, %v)", err, servedErr)
	}
	lookUp(t, program, addrs, Options{})
	if n := asked.Load(); n != 2 {
		t.Error("a server was asked without being told to")
	}
}

// TestDebuginfodMiss asks no more than once for what no server has.
func TestDebuginfodMiss(t *testing.T) {
	program, _, _, addrs, want := strippedProgram(t)
	url, asked := debugServer(t, nil)
	t.Setenv("DEBUGINFOD_CACHE_PATH", t.TempDir())
	for range 2 {
		got, warnings, _ := lookUp(t, program, addrs, Options{Debuginfod: []string{url}})
		if got[0].Line != 0 || len(warnings) > 0 {
			t.Errorf("%+v, warnings %q; want no line and none", got[0], warnings)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the server was asked %d times, want once", n)
	}
	marker := filepath.Join(os.Getenv("DEBUGINFOD_CACHE_PATH"), want[0].BuildID, "debuginfo")
	if st, err := os.Stat(marker); err != nil || st.Size() != 0 {
		t.Errorf("the empty file that elfutils' client knows is not there: %v", err)
	}
}

// TestDebuginfodRefuses what is another file, too large, too slow or an error,
// with a warning, and keeps nothing of it.
func TestDebuginfodRefuses(t *testing.T) {
	program, debug, at, addrs, _ := strippedProgram(t)
	other := compile(t, "inlines.c", "-O1", "-g", "-Wl,--build-id")
	wrong, _ := debugServer(t, map[string]string{at: other})
	right, _ := debugServer(t, map[string]string{at: debug})
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	defer failing.Close()
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hanging.Close()
	for _, test := range []struct {
		name, url, says string
		limit           func(*debuginfod)
	}{
		{"another file", wrong, "not the debug file", func(*debuginfod) {}},
		{"too large", right, "larger than 1000", func(d *debuginfod) { d.size = 1000 }},
		{"error", failing.URL, "502", func(*debuginfod) {}},
		{"hangs", hanging.URL, "deadline", func(d *debuginfod) { d.time = 20 * time.Millisecond }},
		{"no address", "ftp://localhost", "ftp", func(*debuginfod) {}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cache := t.TempDir()
			t.Setenv("DEBUGINFOD_CACHE_PATH", cache)
			s, r := fileSpace(t, program), newResolver(t, Options{Debuginfod: []string{test.url}})
			test.limit(r.loader.finder.remote)
			if f := r.Frames(s, addrs[:1], false)[0]; f.Line != 0 {
				t.Errorf("got %+v, want no line", f)
			}
			if w := r.Warnings(); len(w) != 1 || !strings.Contains(w[0], test.says) {
				t.Errorf("warnings %q, want one that says %q", w, test.says)
			}
			if left, _ := filepath.Glob(filepath.Join(cache, "*", "*")); len(left) > 0 {
				t.Errorf("%q was kept", left)
			}
		})
	}
}

// TestDebuginfodBudget asks for no more than a run may, and says so: build IDs are the target's.
func TestDebuginfodBudget(t *testing.T) {
	program, debug, at, addrs, _ := strippedProgram(t)
	url, asked := debugServer(t, map[string]string{at: debug})
	for name, limit := range map[string]func(*debuginfod){
		"files": func(d *debuginfod) { d.asks = 0 },
		"bytes": func(d *debuginfod) { d.took(0, maxFetched) },
	} {
		t.Setenv("DEBUGINFOD_CACHE_PATH", t.TempDir())
		s, r := fileSpace(t, program), newResolver(t, Options{Debuginfod: []string{url}})
		limit(r.loader.finder.remote)
		if f := r.Frames(s, addrs[:1], false)[0]; f.Line != 0 || asked.Load() != 0 {
			t.Errorf("%s: got %+v after %d questions, want no line after none", name, f, asked.Load())
		}
		if w := r.Warnings(); len(w) != 1 || !strings.Contains(w[0], "enough of one run") {
			t.Errorf("%s: warnings %q, want one that says so", name, w)
		}
	}
}

// TestDebuginfodOfHostileUser: what a server makes of one user's build IDs, and how many these are, takes nothing from
// the files of others.
func TestDebuginfodOfHostileUser(t *testing.T) {
	const hostile, other = 1000, 1001
	t.Setenv("DEBUGINFOD_CACHE_PATH", t.TempDir())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/bad") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		http.NotFound(w, r)
	}))
	defer server.Close()
	d := newDebuginfod([]string{server.URL}, &warnings{})
	d.find("bad0000000000000", hostile)
	if !d.isDead(server.URL, hostile) || d.isDead(server.URL, other) || d.isDead(server.URL, 0) {
		t.Errorf("dead: %v; want it for user %d alone", d.dead, hostile)
	}
	asked := 0
	for d.mayAsk(hostile) == nil {
		asked++
	}
	if asked > maxAsked/askShare || d.mayAsk(other) != nil || d.mayAsk(0) != nil {
		t.Errorf("one user may ask for %d files, another for %v, root for %v", asked, d.mayAsk(other), d.mayAsk(0))
	}
	d.took(hostile, maxFetched)
	d.left += maxFetched // the rest is others'
	if d.most(hostile) != 0 || d.most(other) == 0 || d.most(0) != d.size {
		t.Errorf("users may fetch %d, %d and %d bytes", d.most(hostile), d.most(other), d.most(0))
	}
	d.missed(other, d.time+1)
	if d.mayAsk(other) == nil || d.mayAsk(0) != nil {
		t.Error("misses take as long as one likes, or take time from others")
	}
}

// TestDebuginfodUnreachable: a server that nobody can connect to is dead for all; one that leads elsewhere, where nobody
// can, for the user whose build ID leads there.
func TestDebuginfodUnreachable(t *testing.T) {
	t.Setenv("DEBUGINFOD_CACHE_PATH", t.TempDir())
	gone := httptest.NewServer(nil)
	gone.Close()
	leads := httptest.NewServer(http.RedirectHandler(gone.URL, http.StatusFound))
	defer leads.Close()
	file := httptest.NewServer(http.RedirectHandler("file:///etc/passwd", http.StatusFound))
	defer file.Close()
	for server, all := range map[string]bool{gone.URL: true, leads.URL: false, file.URL: false} {
		d := newDebuginfod([]string{server}, &warnings{})
		d.find("0123456789abcdef", 1000)
		if !d.isDead(server, 1000) || d.isDead(server, 1001) != all {
			t.Errorf("%v, want it dead for all: %v", d.dead, all)
		}
	}
}

// TestDebuginfodRedirects: an encrypted connection leads to no other kind, and none leads on without end.
func TestDebuginfodRedirects(t *testing.T) {
	request := func(url string) *http.Request {
		r, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, test := range []struct {
		from, to string
		times    int
		follows  bool
	}{
		{"https://a", "https://b", 1, true}, {"http://a", "https://b", 1, true}, {"http://a", "http://b", 1, true},
		{"https://a", "http://b", 1, false}, {"http://a", "http://a", 6, false},
	} {
		via := make([]*http.Request, test.times)
		for i := range via {
			via[i] = request(test.from)
		}
		if err := checkRedirect(request(test.to), via); (err == nil) != test.follows {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// TestDebuginfodBomb: what is compressed on its way is not unpacked.
func TestDebuginfodBomb(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("DEBUGINFOD_CACHE_PATH", cache)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(make([]byte, 16<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(bomb.Bytes())
	}))
	defer server.Close()
	d := newDebuginfod([]string{server.URL}, &warnings{})
	if img := d.find("0123456789abcdef", 1000); img != nil {
		t.Error("it was taken for a debug file")
	}
	if got := d.of(1000).bytes; got != int64(bomb.Len()) {
		t.Errorf("%d bytes came of %d", got, bomb.Len())
	}
}
