//go:build !viewer

package demangle

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/memtrace/memtrace/analyzer/demangle/worker"
)

const (
	// idle is how long the process stays for the next name.
	idle = 10 * time.Second
	// patience is for a process that gets no processor, or was stopped: the kernel ends one that is at work.
	patience = 10 * time.Second
)

// process is the one that demangles, started when it is first needed and again where one was ended.
var process struct {
	sync.Mutex
	*child
	idle *time.Timer
}

type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

// ask has the process demangle a name, and says what that took. The error is ErrCost where the process was ended for
// it.
func ask(name string, form Form) (text string, took time.Duration, err error) {
	process.Lock()
	defer process.Unlock()
	for range 2 { // one that was ended by somebody else says nothing of the name
		if process.child == nil {
			if process.child, err = start(); err != nil {
				return "", 0, fmt.Errorf("start a process that demangles names: %w", err)
			}
		}
		if text, took, err = process.ask(name, form); err == nil {
			stayFor(idle)
			return text, took, nil
		}
		err = process.end()
		process.child = nil
		if errors.Is(err, ErrCost) {
			return "", worker.MaxTime, err
		}
	}
	return "", 0, err
}

// stayFor has the process end after some time without a name.
func stayFor(d time.Duration) {
	if process.idle == nil {
		process.idle = time.AfterFunc(d, stopIdle)
	} else {
		process.idle.Reset(d)
	}
}

// stopIdle ends the process, which none has asked for some time.
func stopIdle() {
	process.Lock()
	defer process.Unlock()
	if process.child != nil {
		_ = process.end()
		process.child = nil
	}
}

func start() (*child, error) {
	c := &child{cmd: &exec.Cmd{
		Path: "/proc/self/exe", // also where the file has been replaced since
		Args: []string{worker.Name},
		Env:  []string{"GOTRACEBACK=none"}, // nothing else: GODEBUG or GOMEMLIMIT would change it
		// Ctrl-C and Ctrl-Z of a terminal are not for it.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}}
	c.cmd.Stderr = &c.stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.in, c.out = in, bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *child) kill() { _ = c.cmd.Process.Kill() }

// ask sends a name and reads what comes of it. After an error the process has ended, or is to.
func (c *child) ask(name string, form Form) (text string, took time.Duration, err error) {
	late := time.AfterFunc(patience, c.kill)
	defer late.Stop()
	request := make([]byte, worker.RequestHeader, worker.RequestHeader+len(name))
	request[0] = byte(form)
	binary.LittleEndian.PutUint16(request[1:], uint16(len(name)))
	if _, err := c.in.Write(append(request, name...)); err != nil {
		return "", 0, err
	}
	var header [worker.AnswerHeader]byte
	if _, err := io.ReadFull(c.out, header[:]); err != nil {
		return "", 0, err
	}
	length := binary.LittleEndian.Uint16(header[8:])
	if length > worker.MaxText {
		return "", 0, errors.New("an answer that is too long")
	}
	answer := make([]byte, length)
	if _, err := io.ReadFull(c.out, answer); err != nil {
		return "", 0, err
	}
	return string(answer), time.Duration(binary.LittleEndian.Uint64(header[:])), nil
}

// goFatal is the exit code of a Go program that has no more memory.
const goFatal = 2

// end ends the process, waits for it, and returns why it had ended: ErrCost where the kernel has refused what a name
// took.
func (c *child) end() error {
	_ = c.in.Close()
	late := time.AfterFunc(patience, c.kill)
	defer late.Stop()
	err := c.cmd.Wait()
	if state := c.cmd.ProcessState; state != nil {
		status, _ := state.Sys().(syscall.WaitStatus)
		if status.Signaled() && status.Signal() == syscall.SIGPROF || status.ExitStatus() == goFatal {
			return ErrCost
		}
	}
	return fmt.Errorf("the process that demangles names has ended (%w): %s", err, strings.TrimSpace(c.stderr.String()))
}
