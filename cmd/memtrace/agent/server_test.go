package agent

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// running is an Agent of this machine, and its address without the last slash.
func running(t *testing.T, config string) (a *Agent, address string, reload chan<- os.Signal) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "memtrace.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ready := make(chan string, 1)
	a, err := New(Options{
		ConfigFile: file, Listen: "127.0.0.1:0", Version: "1.2.3", Log: log.New(io.Discard, "", 0),
		Ready: func(address string) { ready <- address }, Alive: func() {},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	signals, ended := make(chan os.Signal), make(chan error, 1)
	go func() { ended <- a.Run(ctx, signals) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	select {
	case address = <-ready:
	case err := <-ended:
		ended <- err
		t.Fatalf("it did not begin: %v", err)
	}
	return a, strings.TrimSuffix(address, "/"), signals
}

func get(t *testing.T, url, host string) (status int, body string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		r.Host = host
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text), answer.Header
}

// valueOf is a sample of /metrics; it fails the test where there is none.
func valueOf(t *testing.T, metrics, sample string) float64 {
	t.Helper()
	for line := range strings.Lines(metrics) {
		if rest, ok := strings.CutPrefix(line, sample+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("there is no %s in\n%s", sample, metrics)
	return 0
}

// Services come by their rules, and a bad new configuration leaves the old one in force.
func TestAgentNamesThisProcess(t *testing.T) {
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSpace(string(comm))
	a, address, reload := running(t, "services: [{name: the tests, program: '"+name+"'}]\nothers: none\n")
	_, metrics, _ := get(t, address+"/metrics", "")
	if n := valueOf(t, metrics, `memtrace_service_processes{service="the tests"}`); n < 1 {
		t.Errorf("%v processes", n)
	}
	if pss := valueOf(t, metrics, `memtrace_service_pss_bytes{kind="anon",service="the tests"}`); pss < 1<<20 {
		t.Errorf("this test has %v bytes of anonymous memory", pss)
	}
	if v := valueOf(t, metrics, `memtrace_build_info{version="1.2.3"}`); v != 1 {
		t.Errorf("build info %v", v)
	}
	_, text, header := get(t, address+"/services", "")
	var s Snapshot
	if err := json.Unmarshal([]byte(text), &s); err != nil || len(s.Services) == 0 || header.Get("Content-Type") != "application/json" {
		t.Errorf("services %s: %v", text, err)
	}

	rewrite := func(config string) {
		if err := os.WriteFile(a.opt.ConfigFile, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		reload <- os.Interrupt
		reload <- os.Interrupt // taken once the first was handled
	}
	for config, good := range map[string]float64{"interval: soon": 0, "max_services: 7": 1} {
		rewrite(config)
		_, metrics, _ := get(t, address+"/metrics", "")
		if v := valueOf(t, metrics, "memtrace_config_last_reload_successful"); v != good {
			t.Errorf("%s: successful %v, want %v", config, v, good)
		}
	}
}

// A page that leads a name of its own to 127.0.0.1 reads nothing.
func TestForeignHostIsRefused(t *testing.T) {
	_, address, _ := running(t, "")
	port := address[strings.LastIndex(address, ":"):]
	for host, want := range map[string]int{
		"127.0.0.1" + port: 200, "localhost" + port: 200, "[::1]" + port: 200, "127.0.0.1": 200,
		"evil.example": 403, "evil.example" + port: 403, "127.0.0.1.evil.example": 403, "10.0.0.1": 403, "0.0.0.0" + port: 403,
	} {
		for _, path := range []string{"/metrics", "/services", "/-/healthy", "/"} {
			if status, _, header := get(t, address+path, host); status != want || header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s as %s: %d, want %d", path, host, status, want)
			}
		}
	}
	for path, want := range map[string]int{"/nothing": 404, "/metrics/": 404} {
		if status, _, _ := get(t, address+path, ""); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	answer, err := http.Post(address+"/metrics", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a POST: %d", answer.StatusCode)
	}
}

// Who asks whether the agent is well learns that its figures are old.
func TestOldFiguresAreNotWell(t *testing.T) {
	a, address, _ := running(t, "interval: 1h")
	if status, text, _ := get(t, address+"/-/healthy", ""); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	old := *a.latest.Load()
	old.At = old.At.Add(-staleAfter*time.Hour - time.Minute)
	a.latest.Store(&old)
	if status, text, _ := get(t, address+"/-/healthy", ""); status != 503 || !strings.Contains(text, "5h1m") {
		t.Errorf("%d %s", status, text)
	}
}

// A port that is taken is an error that says so, before anything else is done.
func TestPortTaken(t *testing.T) {
	_, address, _ := running(t, "")
	a, err := New(Options{Listen: strings.TrimPrefix(address, "http://"), Log: log.New(io.Discard, "", 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "another program does") {
		t.Errorf("%v", err)
	}
}

// What a scraper can be told, and what the document says, are the same metrics, in the same order.
func TestEveryMetricIsDescribed(t *testing.T) {
	text, err := os.ReadFile("../../../docs/serve.md")
	if err != nil {
		t.Fatal(err)
	}
	var described, there []string
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "| `memtrace_"); ok {
			name, _, _ := strings.Cut(rest, "`")
			name, _, _ = strings.Cut(name, "{")
			described = append(described, "memtrace_"+name)
		}
	}
	for _, m := range metrics {
		there = append(there, m.name)
	}
	if strings.Join(described, "\n") != strings.Join(there, "\n") {
		t.Errorf("docs/serve.md describes\n%s\nand there are\n%s", strings.Join(described, "\n"), strings.Join(there, "\n"))
	}
}
