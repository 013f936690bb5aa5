package alert

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// lines is a log that several goroutines write to.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func notifier(t *testing.T, receivers ...Receiver) (n *Notifier, said *lines) {
	t.Helper()
	said = new(lines)
	n = NewNotifier(NotifierOptions{
		Log: log.New(said, "", 0), Environment: []string{"PATH=" + os.Getenv("PATH")}, UserAgent: "memtrace/1.2.3",
		Output: func(string) io.Writer { return said },
	})
	n.first = time.Millisecond
	t.Cleanup(n.Close)
	for i := range receivers {
		if err := receivers[i].Prepare(); err != nil {
			t.Fatal(err)
		}
	}
	n.Apply(receivers)
	return n, said
}

func message(t *testing.T, service string) *Message {
	t.Helper()
	return Source{Instance: "host1"}.Messages([]Change{{Rule: large(t), Service: service, Firing: true, Began: begin, Figure: 4096, Known: true}})[0]
}

// settled waits until a receiver has had so many messages, whatever became of them.
func settled(t *testing.T, n *Notifier, messages uint64) Told {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if all := n.Told(); len(all) == 1 && all[0].Sent+all[0].Failed == messages {
			return all[0]
		}
	}
	t.Fatalf("it was not told: %+v", n.Told())
	return Told{}
}

// A command has the message on its stdin and, in short, in its environment. The name of a service is data: no shell sees
// it, and it is no argument.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	hostile := "$(touch " + dir + "/harm); `touch " + dir + "/harm` \"'&| -x"
	n, said := notifier(t, Receiver{Name: "tell", Command: []string{"/bin/sh", "-c", `cat >"$1/in"; echo "$#:$MEMTRACE_ALERT:$MEMTRACE_STATUS:$MEMTRACE_FIGURE:$MEMTRACE_LIMIT:$MEMTRACE_CONDITION:$MEMTRACE_SERVICE" >"$1/env"; pwd`, "sh", dir}})
	n.Send(message(t, hostile))
	if told := settled(t, n, 1); told.Sent != 1 {
		t.Fatalf("%+v, %s", told, said)
	}
	env, err := os.ReadFile(dir + "/env")
	if want := "1:large:firing:4096:1024:rss(*)>1KiB:" + hostile + "\n"; err != nil || string(env) != want {
		t.Errorf("%s, want %s; %v", env, want, err)
	}
	in, err := os.ReadFile(dir + "/in")
	var m Message
	if err != nil || json.Unmarshal(in, &m) != nil || m.Receiver != "tell" || m.Alerts[0].Labels["service"] != hostile {
		t.Errorf("%s, %v", in, err)
	}
	if _, err := os.Stat(dir + "/harm"); err == nil {
		t.Error("the name of a service was run")
	}
	if said.String() != "/\n" {
		t.Errorf("it said %q", said)
	}
}

// A command that takes too long is killed with what it began, and the next one runs.
func TestCommandIsKilledInTime(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(dir+"/pids", 0o600); err != nil {
		t.Fatal(err)
	}
	n, said := notifier(t, Receiver{Name: "slow", Timeout: time.Second, Command: []string{"/bin/sh", "-c", `sleep 1000 & echo $$ $! >"$0"; wait`, dir + "/pids"}})
	passes := make(chan struct{})
	n.within = func(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
		if d != time.Second {
			t.Errorf("it may take %v", d)
		}
		return timePasses{parent, passes}, func() {}
	}
	n.Send(message(t, "a"))
	text, err := os.ReadFile(dir + "/pids")
	if err != nil {
		t.Fatal(err)
	}
	close(passes)
	if told := settled(t, n, 1); told.Failed != 1 || !strings.Contains(said.String(), "took more than 1s, and was killed") {
		t.Errorf("%+v, %s", told, said)
	}
	for word := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); running(pid); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d runs on", pid)
			}
		}
	}
}

// timePasses is a context whose time is over once a channel is closed.
type timePasses struct {
	context.Context
	done chan struct{}
}

func (c timePasses) Done() <-chan struct{} { return c.done }

func (c timePasses) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

// A command that fails is told of, and isn't tried again.
func TestCommandFails(t *testing.T) {
	n, said := notifier(t, Receiver{Name: "no", Command: []string{"/bin/false"}})
	n.Send(message(t, "a"))
	if told := settled(t, n, 1); told.Failed != 1 || !strings.Contains(said.String(), "run /bin/false: exit status 1") {
		t.Errorf("%+v, %s", told, said)
	}
}

// hook is a webhook that answers by turns, and keeps what it got.
func hook(t *testing.T, answers ...int) (server *httptest.Server, got func() []string) {
	var mu sync.Mutex
	var bodies []string
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		answer := answers[min(len(bodies), len(answers)-1)]
		bodies = append(bodies, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+r.Header.Get("Authorization")+" "+string(body))
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(answer)
	}))
	t.Cleanup(server.Close)
	return server, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return bodies
	}
}

// A webhook is tried again where that may help, and not where the answer would be the same. Nobody is followed elsewhere.
func TestWebhook(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		answers []int
		tries   int
		sent    uint64
	}{{[]int{200}, 1, 1}, {[]int{503, 429, 500, 204}, 4, 1}, {[]int{400}, 1, 0}, {[]int{307}, 1, 0}, {[]int{500}, maxTries, 0}} {
		server, got := hook(t, c.answers...)
		n, said := notifier(t, Receiver{Name: "chat", Webhook: server.URL + "/T000/hidden", TokenFile: token})
		if c.tries == maxTries {
			n.first = time.Nanosecond
		}
		n.Send(message(t, "a"))
		told := settled(t, n, 1)
		all := got()
		if told.Sent != c.sent || len(all) != c.tries || !strings.HasPrefix(all[0], `POST /T000/hidden application/json Bearer s3cret {"receiver":"chat","status":"firing"`) {
			t.Errorf("%v: %+v, %d tries: %.200q", c.answers, told, len(all), all)
		}
		if strings.Contains(said.String(), "s3cret") || strings.Contains(said.String(), "hidden") {
			t.Errorf("the log has a secret: %s", said)
		}
	}
}

// Where nobody answers, the log says where, and keeps the rest of the address to itself.
func TestNobodyAnswers(t *testing.T) {
	server, _ := hook(t, 200)
	server.Close()
	file := filepath.Join(t.TempDir(), "address")
	if err := os.WriteFile(file, []byte(server.URL+"/hidden?token=s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n, said := notifier(t, Receiver{Name: "chat", WebhookFile: file})
	n.first = time.Nanosecond
	n.Send(message(t, "a"))
	if told := settled(t, n, 1); told.Failed != 1 || !strings.Contains(said.String(), strings.TrimPrefix(server.URL, "http://")) {
		t.Errorf("%+v, %s", told, said)
	}
	if strings.Contains(said.String(), "s3cret") || strings.Contains(said.String(), "hidden") {
		t.Errorf("the log has a secret: %s", said)
	}
}

// A receiver that hangs keeps nobody waiting: what its queue has no room for is counted, and the end doesn't wait for it.
func TestReceiverHangs(t *testing.T) {
	release := make(chan struct{})
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		<-release
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	n, said := notifier(t, Receiver{Name: "hangs", Webhook: server.URL, Timeout: 5 * time.Minute})
	n.Send(message(t, "a"))
	for deadline := time.Now().Add(time.Minute); asked.Load() == 0 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	for range maxQueue + 7 {
		n.Send(message(t, "a"))
	}
	if told := n.Told()[0]; told.Dropped != 7 || asked.Load() != 1 || !strings.Contains(said.String(), "100 messages wait for it already") {
		t.Errorf("%+v, %d asked at once: %s", told, asked.Load(), said)
	}
	n.Close() // the test's own limit is the bound
	n.Send(message(t, "a"))
}

// After another configuration, what is as it was goes on, and counts do.
func TestApply(t *testing.T) {
	first, gotFirst := hook(t, 200)
	second, gotSecond := hook(t, 200)
	n, _ := notifier(t, Receiver{Name: "a", Webhook: first.URL})
	n.Send(message(t, "x"))
	settled(t, n, 1)
	n.Apply([]Receiver{{Name: "a", Webhook: second.URL}})
	n.Send(message(t, "x"))
	if told := settled(t, n, 2); told.Sent != 2 || len(gotFirst()) != 1 || len(gotSecond()) != 1 {
		t.Errorf("%+v, %q, %q", told, gotFirst(), gotSecond())
	}
	n.Apply([]Receiver{{Name: "b", Webhook: first.URL}, {Name: "a", Webhook: second.URL}})
	m := message(t, "x")
	m.to = []string{"b"}
	n.Send(m)
	for deadline := time.Now().Add(time.Minute); n.Told()[1].Sent != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", n.Told())
		}
	}
	if told := n.Told(); told[0].Sent != 2 || len(gotFirst()) != 2 {
		t.Errorf("a message for b alone: %+v", told)
	}
}

func TestWrongReceivers(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/two", []byte("http://a.example/\nhttp://b.example/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(dir+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	for _, r := range []Receiver{
		{}, {Name: "a"}, {Name: "a\x1b", Command: []string{"/bin/true"}}, {Name: "a", Command: []string{"true"}}, {Name: "a", Command: []string{"/nothing"}},
		{Name: "a", Command: []string{dir}}, {Name: "a", Command: []string{dir + "/two"}}, {Name: "a", Command: []string{"/bin/true", "\x00"}},
		{Name: "a", Command: []string{"/bin/true"}, Webhook: "http://a.example"}, {Name: "a", Webhook: "a.example"}, {Name: "a", Webhook: "file:///etc/passwd"},
		{Name: "a", WebhookFile: dir + "/nothing"}, {Name: "a", WebhookFile: dir + "/two"}, {Name: "a", WebhookFile: dir + "/fifo"},
		{Name: "a", Webhook: "http://a.example", TokenFile: dir + "/nothing"}, {Name: "a", Command: []string{"/bin/true"}, TokenFile: dir + "/two"},
		{Name: "a", Command: []string{"/bin/true"}, Timeout: time.Hour}, {Name: "a", Webhook: "http://user:s3cret@\x7f/"},
	} {
		if err := r.Prepare(); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%+v: %v", r, err)
		}
	}
}
