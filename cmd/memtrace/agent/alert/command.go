package alert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs/ownthread"
)

// runCommand runs a receiver's command with a message on its stdin. At its time's end, it and what it began are killed.
func (n *Notifier) runCommand(w *worker, m *Message, body []byte) error {
	ctx, cancel := n.within(n.ctx, w.timeout())
	defer cancel()
	cmd := exec.CommandContext(ctx, w.Command[0], w.Command[1:]...)
	cmd.Env = append(append([]string{}, n.opt.Environment...), variables(m)...)
	cmd.Dir = "/"
	cmd.Stdin = bytes.NewReader(body)
	out := n.opt.Output(w.Name)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := startWithoutCapabilities(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s took more than %v, and was killed", w.Command[0], w.timeout())
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", w.Command[0], errors.Join(err, ctx.Err()))
	}
	return nil
}

// startWithoutCapabilities starts a command as the agent's user, without the ambient capabilities that the agent may
// have: a command needs no right to read all processes. capabilities(7). They are a thread's, and a child has those of its
// parent's thread, so that the thread is one of its own. Of root, exec gives a command all that root has.
func startWithoutCapabilities(cmd *exec.Cmd) (err error) {
	ownthread.Do(func() {
		if err = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
			err = fmt.Errorf("drop capabilities: %w", err)
			return
		}
		err = cmd.Start()
	})
	return err
}

// variables tell a command what its stdin says, in short. Their values may be any text without a NUL.
func variables(m *Message) []string {
	a := &m.Alerts[0]
	all := []string{
		"MEMTRACE_ALERT=" + a.Labels["alertname"], "MEMTRACE_STATUS=" + m.Status, "MEMTRACE_SEVERITY=" + a.Labels["severity"],
		"MEMTRACE_CONDITION=" + a.Annotations["condition"],
		"MEMTRACE_ALERTS=" + strconv.Itoa(len(m.Alerts)+m.TruncatedAlerts),
	}
	if len(m.Alerts) > 1 {
		return all
	}
	return append(all, "MEMTRACE_SERVICE="+a.Labels["service"], "MEMTRACE_SUMMARY="+a.Annotations["summary"],
		"MEMTRACE_FIGURE="+a.Annotations["figure"], "MEMTRACE_LIMIT="+a.Annotations["limit"])
}
