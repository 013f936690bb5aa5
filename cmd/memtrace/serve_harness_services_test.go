//go:build integration && services

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/cmd/memtrace/agent"
	"github.com/memtrace/memtrace/procfs/proctest"
)

// leakyService is a private copy of slow_leak under a name of its own, so that a rule can mean it alone.
type leakyService struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startLeaky(t *testing.T, command ...string) *leakyService {
	t.Helper()
	s := &leakyService{cmd: exec.Command(command[0], command[1:]...)}
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.out = bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() }) // it has ended, unless the test failed
	return s
}

// sessionUser is whose processes those of this test are to an agent: what runs in a user's session is the user's.
func sessionUser() string {
	text, _ := os.ReadFile("/proc/self/cgroup")
	if found := regexp.MustCompile(`:/user\.slice/user-(\d+)\.slice`).FindSubmatch(text); found != nil {
		return string(found[1])
	}
	return strconv.Itoa(os.Getuid())
}

// leaked is what it says that it has leaked by now, bytes.
func (s *leakyService) leaked(t *testing.T) uint64 {
	t.Helper()
	if _, err := io.WriteString(s.in, "?\n"); err != nil {
		t.Fatalf("the service was harmed: %v", err)
	}
	line, err := s.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the service was harmed: %v", err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// end ends it. It was not harmed if it ends as it should.
func (s *leakyService) end(t *testing.T) {
	t.Helper()
	_ = s.in.Close()
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the service: %v", err)
	}
}

// copyAs is a copy of a test program under another name.
func copyAs(t *testing.T, program, name string) string {
	t.Helper()
	return copyOf(t, testProgram(program), name)
}

// copyOf is a copy of a file in a folder that all may read.
func copyOf(t *testing.T, file, name string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "memtrace") // another user may have to read it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, name)
	if err := errors.Join(proctest.WriteProgram(path, text), os.Chmod(dir, 0o755), os.Chmod(path, 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

// growthAgent is a memtrace serve that watches growth.
type growthAgent struct {
	cmd                   *exec.Cmd
	address, config, data string
	said                  *lockedBuffer
}

// startGrowthAgent has the rules of config, and a folder. command is memtrace, with what is to go before it; none: as it is.
func startGrowthAgent(t *testing.T, config, data string, command ...string) *growthAgent {
	t.Helper()
	dir, err := os.MkdirTemp("", "memtrace")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "memtrace.yaml")
	if err := errors.Join(os.WriteFile(file, []byte(config), 0o644), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	if len(command) == 0 {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		command = []string{self}
	}
	command = append(command, "serve", "--listen", "127.0.0.1:0", "--config", file, "--data", data)
	a := &growthAgent{cmd: exec.Command(command[0], command[1:]...), config: file, data: data, said: &lockedBuffer{}}
	const notForTracers = "MEMTRACE_RECORD_LEAKS=true" // somebody's default for record, which is refused without probes
	a.cmd.Env, a.cmd.Stderr = append(os.Environ(), asMemtrace+"=1", notForTracers), a.said
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("it said nothing: %v; %s", a.cmd.Wait(), a.said)
	}
	a.address = strings.TrimSuffix(line, "/\n")
	return a
}

func (a *growthAgent) end(t *testing.T) {
	t.Helper()
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, a.said)
	}
}

type growthAnswer struct {
	Watch agent.WatchState
	Sites []agent.Site
}

func (a *growthAgent) growth(t *testing.T, service string) (g growthAnswer) {
	t.Helper()
	if err := json.Unmarshal([]byte(fetchText(t, a.address+"/services/"+service+"/growth")), &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// growsBy waits until the site with most growth is remember's, and has grown by so much.
func (a *growthAgent) growsBy(t *testing.T, service string, bytes uint64) (top agent.Site) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s grows by %d bytes", service, bytes), func() bool {
		g := a.growth(t, service)
		if len(g.Sites) > 0 {
			top = g.Sites[0]
		}
		return len(g.Sites) > 0 && top.Function == "remember" && top.Grown >= bytes
	})
	return top
}

// recordings are those of a service, the oldest first.
func (a *growthAgent) recordings(t *testing.T, service string) (all []agent.Segment) {
	t.Helper()
	if err := json.Unmarshal([]byte(fetchText(t, a.address+"/services/"+service+"/recordings")), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// recordingHolds waits until a recording has so many bytes of the leak, and returns what memtrace report says of it then. What is being
// written is a second behind what the agent was told, and more on a busy machine.
func recordingHolds(t *testing.T, file string, bytes uint64) (r report.Report) {
	t.Helper()
	var last string
	defer func() {
		if t.Failed() {
			t.Logf("memtrace report %s: %s", file, last)
		}
	}()
	eventually(t, fmt.Sprintf("%s holds %d bytes of the leak", file, bytes), func() bool {
		out, err := memtraceCommand(t, "report", file, "--format", "json").Output()
		last = fmt.Sprintf("%v, %.2000s", err, out)
		r = report.Report{}
		return err == nil && json.Unmarshal(out, &r) == nil && heldByRemember(&r) >= bytes
	})
	return r
}

func heldByRemember(r *report.Report) (live uint64) {
	for _, s := range r.Sites {
		if slices.ContainsFunc(s.Stack, func(f *report.Frame) bool { return f.Function == "remember" }) {
			live += s.LiveBytes
		}
	}
	return live
}

// endedInOrder reports whether a recording has what its tracer wrote at its end: the last Report.
func endedInOrder(t *testing.T, file string) bool {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	r, err := recording.Open(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	_, ended := r.Stored()
	return ended
}

// tracersOf are the children of all threads of an agent.
func tracersOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range tasks {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for word := range strings.FieldsSeq(string(text)) {
			n, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			children = append(children, n)
		}
	}
	return children
}

// unprivileged is memtrace as it runs as user 65534 with some capabilities and no others, and that user's folder for
// recordings, in a folder that everybody may enter.
func unprivileged(t *testing.T, capabilities ...string) (command []string, data string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	self = openFolder(t, self)
	data = filepath.Join(filepath.Dir(self), "data")
	if err := errors.Join(os.Mkdir(data, 0o700), os.Chown(data, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	return append(withCapabilities(capabilities...), self), data
}

// withCapabilities has a command run as user 65534 with these capabilities alone.
func withCapabilities(names ...string) []string {
	set := strings.ToLower(strings.Join(append([]string{"-all"}, names...), ",+"))
	return []string{
		"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs",
		"--inh-caps=" + set, "--ambient-caps=" + set, "--bounding-set=" + set,
	}
}

// listedService is a service as /services has it.
type listedService struct {
	Service   string
	Processes int
	PSSAnon   uint64 `json:"pss_anon"`
	Unread    int    `json:"unread_processes"`
}

func listedServices(t *testing.T, address string) []listedService {
	t.Helper()
	var all struct{ Services []listedService }
	if err := json.Unmarshal([]byte(fetchText(t, address+"/services")), &all); err != nil {
		t.Fatal(err)
	}
	return all.Services
}
