package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// tracerProcess is a memtrace of its own that traces a service's processes, without a probe in them. It is a process, and
// not a part of the agent, so that what goes wrong with one service's files or its memory goes wrong there alone.
//
// It ends when its stdin does: also when the agent is killed, and then in good order. PR_SET_PDEATHSIG would kill it in the
// midst of its last writes, and whenever the agent's thread that began it ends.
type tracerProcess struct {
	cmd    *exec.Cmd
	orders io.WriteCloser
	feeds  chan *Feed // closed at its end
	broken error      // why feeds ended; read after that
}

const (
	// tracerMemory is the tracer's own limit: beyond it, it keeps fewer stacks and pages, and counts them.
	tracerMemory = "128MiB"
	// maxTracerInterval is how often a tracer tells of growth at least.
	maxTracerInterval = time.Minute
	// tracerPatience is how long a tracer may take to end.
	tracerPatience = 15 * time.Second
)

// tracerOptions say how to trace.
type tracerOptions struct {
	interval  time.Duration
	recording string // path; "": nothing is recorded
	most      int64  // bytes of the recording
	cache     string // folder for names of functions; "": none
	log       *log.Logger
	service   string
}

func startTracer(o tracerOptions) (*tracerProcess, error) {
	args := []string{"record", "--probes", "none", "--interval", o.interval.String(), "--memory", tracerMemory}
	if o.recording != "" {
		args = append(args, "--output", o.recording, "--max-size", fmt.Sprint(o.most))
	}
	p := &tracerProcess{
		cmd:   tracerCommand(args, o.cache, &lineLog{to: o.log, prefix: "growth of " + o.service + ": "}),
		feeds: make(chan *Feed),
	}
	if err := p.start(); err != nil {
		return nil, fmt.Errorf("start a tracer: %w", err)
	}
	return p, nil
}

func (p *tracerProcess) start() error {
	var err error
	if p.orders, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go p.read(out)
	return nil
}

// tracerCommand is another memtrace that traces for the agent.
func tracerCommand(args []string, cache string, said io.Writer) *exec.Cmd {
	if cache == "" {
		args = append(args, "--no-symbol-cache")
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = "memtrace"
	cmd.Env = tracerEnvironment(cache)
	cmd.Stderr = said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is for the agent, which ends it
	cmd.WaitDelay = time.Second
	return cmd
}

// tracerEnvironment is that of a memtrace which works for the agent.
func tracerEnvironment(cache string) []string {
	env := childEnvironment()
	if cache != "" {
		env = append(env, "XDG_CACHE_HOME="+cache)
	}
	return append(env, StartedByServe+"=1")
}

// childEnvironment is the agent's own, without what is meant for the agent alone.
func childEnvironment() (env []string) {
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "GOMEMLIMIT", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "XDG_CACHE_HOME":
		default:
			env = append(env, v)
		}
	}
	return env
}

// read hands out Feeds.
func (p *tracerProcess) read(from io.Reader) {
	defer close(p.feeds)
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, MaxFeed)
	for lines.Scan() {
		f := new(Feed)
		if p.broken = json.Unmarshal(lines.Bytes(), f); p.broken != nil {
			return
		}
		p.feeds <- f
	}
	p.broken = lines.Err()
}

// order has a process traced.
func (p *tracerProcess) order(o Order) error {
	line, err := json.Marshal(o)
	if err == nil {
		_, err = p.orders.Write(append(line, '\n'))
	}
	return err
}

// errLate is about a tracer that was told to end, and had no time to do so in good order: on a busy machine, or with many
// stacks. What it says on its way out may be half a line.
var errLate = errors.New("the tracer took too long to end: its recording lacks what it would have written last")

// end ends it, and gives take what it still has to tell.
func (p *tracerProcess) end(take func(*Feed)) error {
	_ = p.orders.Close() // it may have ended
	var killed atomic.Bool
	late := time.AfterFunc(tracerPatience, func() {
		killed.Store(true)
		_ = p.cmd.Process.Kill()
	})
	defer late.Stop()
	for f := range p.feeds {
		take(f)
	}
	err := p.cmd.Wait()
	if killed.Load() || p.cmd.ProcessState.ExitCode() == LateExit {
		return errLate
	}
	if err := errors.Join(p.broken, err); err != nil {
		return fmt.Errorf("the tracer failed, and the agent's log has its own words: %w", err)
	}
	return nil
}

// lineLog logs what a tracer says, a line at a time.
type lineLog struct {
	to      *log.Logger
	prefix  string
	partial []byte
	said    int
}

// maxSaid bounds what one tracer may say.
const maxSaid = 100

func (l *lineLog) Write(b []byte) (int, error) {
	l.partial = append(l.partial, b...)
	for {
		line, rest, whole := strings.Cut(string(l.partial), "\n")
		if !whole {
			l.partial = l.partial[:min(len(l.partial), 4096)]
			return len(b), nil
		}
		l.partial = []byte(rest)
		if l.said++; l.said <= maxSaid {
			l.to.Print(l.prefix + marked(strings.TrimPrefix(line, "memtrace: ")))
		}
	}
}

// cacheOf is where names are kept.
func (h *history) cacheOf() string {
	if h == nil {
		return ""
	}
	return filepath.Join(h.dir, "cache")
}
