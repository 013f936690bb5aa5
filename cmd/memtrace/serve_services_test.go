//go:build integration && services

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memtrace/memtrace/procfs"
)

// serving runs memtrace serve, and returns its address without the last slash. It has ended cleanly when the test has.
func serving(t *testing.T, config string, prefix ...string) (address string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copied := openFolder(t, self)
	file := filepath.Join(filepath.Dir(copied), "memtrace.yaml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append(prefix, copied, "serve", "--listen", "127.0.0.1:0", "--config", file)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), asMemtrace+"=1")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("it said nothing: %v; %s", cmd.Wait(), said.String())
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(io.Discard, lines)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, said.String())
		}
	})
	return strings.TrimSuffix(line, "/\n")
}

func fetchText(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", url, answer.Status, err, text)
	}
	return string(text)
}

// A user of its own with CAP_SYS_PTRACE alone reads what root reads: the PSS of another user's process is what the
// kernel says.
func TestServeAsItsOwnUser(t *testing.T) {
	t.Parallel()
	known := startKnownMemory(t)
	address := serving(t, "services: [{name: held, program: "+known.Name+"}]\nothers: program\n",
		withCapabilities("sys_ptrace")...)
	fs, err := procfs.New("/proc")
	if err != nil {
		t.Fatal(err)
	}
	p, err := fs.Process(known.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	want, err := p.SmapsRollup()
	if err != nil {
		t.Fatal(err)
	}
	services := listedServices(t, address)
	found := false
	for _, service := range services {
		if service.Service == "held" && service.Processes == 1 && service.Unread == 0 {
			found = service.PSSAnon == want.PssAnon && service.PSSAnon >= uint64(known.Private)
		}
	}
	if !found {
		t.Errorf("%+v, want %d anonymous bytes for held, of which it touched %d", services, want.PssAnon, known.Private)
	}
}

// Prometheus' own checker finds nothing to say of the metrics, and its rules fire where they should.
func TestServeMetricsAreGoodPrometheus(t *testing.T) {
	t.Parallel()
	address := serving(t, "")
	check := exec.Command("promtool", "check", "metrics")
	check.Stdin = strings.NewReader(fetchText(t, address+"/metrics"))
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v: %s", err, out)
	}
	rules := exec.Command("promtool", "test", "rules", "memtrace.rules.test.yaml")
	rules.Dir = "../../packaging/prometheus"
	if out, err := rules.CombinedOutput(); err != nil {
		t.Errorf("promtool test rules: %v: %s", err, out)
	}
}

// Prometheus scrapes it, and answers for a service by its name.
func TestServeToPrometheus(t *testing.T) {
	t.Parallel()
	address := serving(t, "interval: 1s\n")
	dir, port := t.TempDir(), freePort(t)
	rules, err := filepath.Abs("../../packaging/prometheus/memtrace.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("global: {scrape_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n- job_name: memtrace\n  static_configs: [{targets: [%q]}]\n",
		rules, strings.TrimPrefix(address, "http://"))
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	cmd := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+listen)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var last string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		answer, err := http.Get("http://" + listen + `/api/v1/query?query=count(memtrace_service_rss_bytes{service="prometheus"}>1e6)`)
		if err != nil {
			continue // it is starting
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if last = string(text); strings.Contains(last, `,"1"]`) {
			return
		}
	}
	t.Errorf("Prometheus has nothing of its own service: %s; %s", last, said.String())
}

// The unit is one that systemd's own checker calls safe.
func TestServeUnitIsHardened(t *testing.T) {
	t.Parallel()
	unit, err := os.ReadFile("../../packaging/systemd/memtrace.service")
	if err != nil {
		t.Fatal(err)
	}
	growth, err := os.ReadFile("../../packaging/systemd/memtrace-growth.conf")
	if err != nil {
		t.Fatal(err)
	}
	trace, err := os.ReadFile("../../packaging/systemd/memtrace-trace.conf")
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string][]byte{
		"alone": unit, "with growth": slices.Concat(unit, []byte("\n"), growth), "with traces": slices.Concat(unit, []byte("\n"), trace),
	} {
		file := filepath.Join(t.TempDir(), "memtrace.service")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=30", file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", what, err, out)
		}
	}
}

// What the unit gives the agent's own user is enough to watch another user's service: its stack is named, and recorded.
func TestServeWatchesGrowthAsItsOwnUser(t *testing.T) {
	t.Parallel()
	const name, other = "leaky_foreign", "65533"
	service := startLeaky(t, "setpriv", "--reuid="+other, "--regid="+other, "--clear-groups", copyAs(t, "slow_leak", name))
	command, data := unprivileged(t, capabilitiesOf(t, "memtrace.service", "memtrace-growth.conf")...)
	a := startGrowthAgent(t, "interval: 1s\nservices: [{name: shop, program: "+name+", growth: true}]\n", data, command...)
	a.growsBy(t, "shop", 8<<10)
	all := a.recordings(t, "shop")
	if len(all) != 1 {
		t.Fatalf("recordings %+v", all)
	}
	recordingHolds(t, all[0].File, 8<<10)
	a.end(t)
	service.end(t)
	if strings.Contains(a.said.String(), "permission denied") {
		t.Errorf("%s", a.said)
	}
}

// capabilitiesOf are those that units give, without CAP_.
func capabilitiesOf(t *testing.T, units ...string) (names []string) {
	t.Helper()
	for _, unit := range units {
		text, err := os.ReadFile("../../packaging/systemd/" + unit)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if given, ok := strings.CutPrefix(line, "AmbientCapabilities="); ok {
				for name := range strings.FieldsSeq(given) {
					names = append(names, strings.TrimPrefix(name, "CAP_"))
				}
			}
		}
	}
	return names
}

// A configuration is checked without serving: what is wrong is said by file, line and field.
func TestServeChecksItsConfiguration(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "memtrace.yaml")
	check := func() (string, error) {
		out, err := memtraceCommand(t, "serve", "--check-config", "--config", file).CombinedOutput()
		return string(out), err
	}
	if out, err := check(); err == nil || !strings.Contains(out, file) {
		t.Errorf("a file that is not there: %v, %s", err, out)
	}
	for text, want := range map[string]string{
		"intervall: 3s\n": file + ": line 1: there is no field intervall; there are listen,", "interval: 3s\n": file + ": fine",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := check(); (err == nil) != strings.HasSuffix(want, "fine") || !strings.Contains(out, want) {
			t.Errorf("%s: %v, %s", text, err, out)
		}
	}
}
