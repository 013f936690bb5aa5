package agent

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/memtrace/memtrace/cmd/memtrace/agent/alert"
)

// examined is what was found of one thing, in short.
func examined(t *testing.T, config, what string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "memtrace.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range Examine(Options{ConfigFile: file}).Findings {
		if f.What == what {
			out = append(out, fmt.Sprintf("%s: %s", [...]string{"fine", "less", "wrong"}[f.State], f.Text))
		}
		if (f.Remedy == "") != (f.State == Fine) {
			t.Errorf("%+v", f)
		}
	}
	return strings.Join(out, "; ")
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What a configuration has wrong is said by line and field, and the rest is looked at all the same.
func TestExamineConfiguration(t *testing.T) {
	expect(t, examined(t, "watch_top: 2\nservices: [{name: a, program: a, growth: true}]", "configuration"), "fine: ")
	full := examined(t, "watch_top: 2\nmax_watched: 1\nservices: [{name: a, program: a, growth: true}]", "configuration")
	if !strings.Contains(full, "1 by rules, 0 at most by watch_top;") {
		t.Error(full)
	}
	got := examined(t, "interval: 5s\nmax_watched: 99", "configuration")
	if expect(t, got, "wrong: "); !strings.Contains(got, "line 2: max_watched: 99 is not") {
		t.Error(got)
	}
	expect(t, examined(t, "max_watched: 99", DataFolder), "fine: none is needed")
	x := Examine(Options{})
	if len(x.Findings) == 0 || x.Findings[0].State != Fine || x.Watched != 0 || x.Data != "" {
		t.Errorf("without a file: %+v", x)
	}
}

// A configuration that can't be read is to be mended no more than one that is right: it is named, or read by who may.
func TestExamineConfigurationThatCannotBeRead(t *testing.T) {
	x := Examine(Options{ConfigFile: filepath.Join(t.TempDir(), "none.yaml")})
	if f := x.Findings[0]; f.State != Wrong || f.NotAllowed || !strings.Contains(f.Remedy, "--config") {
		t.Errorf("%+v", f)
	}
	closed := fmt.Errorf("read the configuration: %w", &os.PathError{Op: "open", Path: "/x", Err: syscall.EACCES})
	if f := unreadable(closed); f.State != Wrong || !f.NotAllowed || !strings.Contains(f.Remedy, "as root") {
		t.Errorf("%+v", f)
	}
}

// An alert is about the machine, or about a service.
func TestExamineAlerts(t *testing.T) {
	for when, want := range map[string][2]bool{ // of the machine, pressure
		"mem.available < 10%": {true, false}, "psi.some.avg10 > 5%": {true, true}, "rss(shop) > 1GiB": {false, false},
		"growth(*) > 10MiB/h": {false, false}, "oom_kills > 0": {true, false},
	} {
		var x Examined
		x.about(&Config{Alerts: []alert.Rule{{When: when}}}, "")
		if got := [2]bool{x.Machine, x.Pressure}; got != want {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
}

// A port is free, or a memtrace has it, or somebody else.
func TestExaminePort(t *testing.T) {
	expect(t, examined(t, "listen: 127.0.0.1:0", "port"), "fine: ")
	expect(t, examined(t, "listen: 0.0.0.0:0", "port"), "less: 0.0.0.0:0 is free, and everybody")
	expect(t, examined(t, "listen: 192.0.2.1:1", "port"), "wrong: ") // no machine's (RFC 5737)
	for answer, want := range map[string]string{
		"memtrace serve\n\n/metrics": "fine: a memtrace serve runs already", "nginx": "wrong: listen on ",
		"Client sent an HTTP request to an HTTPS server.": "less: listen on ",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) }))
		expect(t, examined(t, "listen: "+s.Listener.Addr().String(), "port"), want)
		s.Close()
	}
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if c, err := mute.Accept(); err == nil {
			_ = c.Close()
		}
	}()
	expect(t, examined(t, "listen: "+mute.Addr().String(), "port"), "wrong: listen on ")
	_ = mute.Close()
	a := &Agent{}
	s := httptest.NewServer(a.newHTTPServer(true).Handler)
	defer s.Close()
	expect(t, examined(t, "listen: "+s.Listener.Addr().String(), "port"), "fine: a memtrace serve runs already")
}

// The folder for recordings is only looked at: it isn't made, and what is wrong with it is what would keep the agent
// from beginning.
func TestExamineData(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	data := func(path string) string { return examined(t, "watch_top: 1\ndata: "+path, DataFolder) }
	expect(t, data(dir), "fine: ")
	expect(t, data(dir+"/a/b"), "fine: "+dir+"/a/b is made at the start, in "+dir)
	if _, err := os.Stat(dir + "/a"); err == nil {
		t.Error("it was made")
	}
	file, open := filepath.Join(dir, "file"), filepath.Join(dir, "open")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	expect(t, data(file), "wrong: "+file+" is no folder")
	expect(t, data(open), "wrong: "+open+" can be written to by others")
}

// On a disk that is nearly full, it says what becomes of all that is asked for.
func TestExamineFullDisk(t *testing.T) {
	growth, traces := "{name: a, program: a, growth: true}", "{name: a, when: rss(a)>1, trace: 1m}"
	for _, x := range []struct{ rules, alerts, want string }{
		{growth, "", "growth is watched, and nothing is recorded"},
		{"", traces, "traces that alerts ask for fail"},
		{growth, traces, "growth is watched, and nothing is recorded, and traces that alerts ask for fail"},
	} {
		c, err := ParseConfig([]byte("services: [" + x.rules + "]\nalerts: [" + x.alerts + "]"))
		if is := c.withoutRoom(); err != nil || is != x.want {
			t.Errorf("%q, %v; want %q", is, err, x.want)
		}
	}
}

// What receivers name is there, and what is secret is so. No address is in what is said.
func TestExamineReceivers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "address")
	if err := os.WriteFile(file, []byte("https://user:secret@example.org/hook"), 0o600); err != nil {
		t.Fatal(err)
	}
	receiver := func(text string) string {
		got := examined(t, "receivers: [{name: a, "+text+"}]", "receiver a")
		if strings.Contains(got, "secret") {
			t.Error(got)
		}
		return got
	}
	expect(t, receiver("command: [/bin/sh, -c, x]"), "fine: /bin/sh can be run")
	expect(t, receiver("webhook: 'https://u:secret@example.org/'"), "fine: ")
	expect(t, receiver("webhook_file: "+file), "fine: ")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	expect(t, receiver("webhook_file: "+file), "less: "+file+" can be read by everybody")
	expect(t, receiver("webhook: 'http://example.org', token_file: "+file), "less: "+file+" can be read by everybody")
	expect(t, examined(t, "receivers: [{name: a, command: [/none]}]", "configuration"), "wrong: ")
}

// A web configuration that everybody may read has password hashes for everybody.
func TestExamineWebConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(file, []byte("basic_auth_users: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, examined(t, "web_config: "+file, "web_config"), "fine: ")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	expect(t, examined(t, "web_config: "+file, "web_config"), "less: "+file+" can be read by everybody")
}

// All that a web configuration names is read by the agent, whose user has to be able to; the key is secret.
func TestExamineWebFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yaml")
	const text = "tls_server_config: {cert_file: a.crt, key_file: a.key, client_ca_file: /b.crt}\nbasic_auth_users: {a: b}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var x Examined
	x.about(&Config{WebConfig: file}, "/config")
	dir := filepath.Dir(file)
	if want := []string{"/config", file, dir + "/a.crt", dir + "/a.key", "/b.crt"}; !slices.Equal(x.Files, want) {
		t.Errorf("%v, want %v", x.Files, want)
	}
	if asks := asksFor(file); asks.key != dir+"/a.key" || !asks.tls || !asks.users {
		t.Errorf("%+v", asks)
	}
}

// The most memory that is told of is what the unit has room for by default.
func TestExamineMemory(t *testing.T) {
	x := Examine(Options{})
	if most := bytesOf(t, settingsOf(t, "memtrace.service")["MemoryMax"]); x.Memory != most {
		t.Errorf("%d bytes without growth, and the unit has %d", x.Memory, most)
	}
	file := filepath.Join(t.TempDir(), "memtrace.yaml")
	if err := os.WriteFile(file, []byte("watch_top: 9"), 0o600); err != nil {
		t.Fatal(err)
	}
	x = Examine(Options{ConfigFile: file})
	if most := bytesOf(t, settingsOf(t, "memtrace-growth.conf")["MemoryMax"]); x.Watched != 5 || x.Memory > most {
		t.Errorf("%d tracers and %d bytes, and the unit has %d", x.Watched, x.Memory, most)
	}
	const traced = `{watch_top: 9, alerts: [{name: a, when: "rss(shop)>1GiB", trace: 1m}]}`
	if err := os.WriteFile(file, []byte(traced), 0o600); err != nil {
		t.Fatal(err)
	}
	without := x.Memory
	x = Examine(Options{ConfigFile: file})
	if most := bytesOf(t, settingsOf(t, "memtrace-trace.conf")["MemoryMax"]); !x.Traces || x.Memory <= without || x.Memory > most {
		t.Errorf("a trace (%v) beside %d tracers takes %d bytes, and the unit has %d", x.Traces, x.Watched, x.Memory, most)
	}
}
