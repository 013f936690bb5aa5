//go:build linux && !viewer

package jvmattach

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
)

// asJVM has this test's program behave as a JVM does, or as none should.
const asJVM = "JVMATTACH_TEST_AS_JVM"

func TestMain(m *testing.M) {
	if mode := os.Getenv(asJVM); mode != "" {
		beJVM(mode)
		return
	}
	os.Exit(m.Run())
}

// beJVM waits for SIGQUIT, and listens if the file is there that asks for that.
func beJVM(mode string) {
	quit := make(chan os.Signal, 1)
	if mode == "default" {
		signal.Reset(unix.SIGQUIT)
	} else {
		signal.Notify(quit, unix.SIGQUIT)
	}
	fmt.Println("ready")
	for range quit {
		if _, err := os.Stat(fmt.Sprintf("/tmp/.attach_pid%d", os.Getpid())); err != nil {
			fmt.Println("dump") // as a JVM prints its stacks
			continue
		}
		if mode != "silent" {
			listen(mode)
		}
	}
}

func listen(mode string) {
	path := fmt.Sprintf("/tmp/.java_pid%d", os.Getpid())
	l, err := net.Listen("unix", path)
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			answer(conn, mode)
		}
	}()
}

func answer(conn net.Conn, mode string) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	var words []string
	for range 5 {
		word, err := r.ReadString(0)
		if err != nil {
			return
		}
		words = append(words, word)
	}
	fmt.Printf("asked %q\n", strings.Join(words, ""))
	switch mode {
	case "old":
		_, _ = io.WriteString(conn, "1\njava.lang.IllegalArgumentException: Unknown diagnostic command")
	case "endless":
		for {
			if _, err := conn.Write(bytes.Repeat([]byte("x"), 4096)); err != nil {
				return
			}
		}
	default:
		_, _ = io.WriteString(conn, "0\n")
	}
}

// jvmProcess starts one, whose lines the test reads.
func jvmProcess(t *testing.T, mode string) (*procfs.Held, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asJVM+"="+mode)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.Remove(fmt.Sprintf("/tmp/.java_pid%d", cmd.Process.Pid))
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("it said %q", lines.Text())
	}
	fs, err := procfs.New("/proc")
	if err != nil {
		t.Fatal(err)
	}
	held, err := fs.Hold(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { held.Close() })
	return held, lines
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// A JVM is woken once, asked as often as one likes, and has no file of ours left.
func TestJVMIsAsked(t *testing.T) {
	held, lines := jvmProcess(t, "good")
	for range 2 {
		if err := PerfMap(within(t, time.Minute), held); err != nil {
			t.Fatal(err)
		}
		if !lines.Scan() || lines.Text() != `asked "1\x00jcmd\x00Compiler.perfmap\x00\x00\x00"` {
			t.Errorf("it said %s", lines.Text())
		}
	}
	if left, _ := filepath.Glob(fmt.Sprintf("/tmp/.attach_pid%d", held.PID())); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// What has no handler for SIGQUIT gets none, and lives.
func TestSignalThatWouldKill(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	fs, err := procfs.New("/proc")
	if err != nil {
		t.Fatal(err)
	}
	held, err := fs.Hold(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := PerfMap(within(t, time.Minute), held); !errors.Is(err, errNoHandler) {
		t.Errorf("%v, want %v", err, errNoHandler)
	}
	if !held.Alive() {
		t.Error("it has ended")
	}
}

// Whatever a JVM answers, or doesn't, asking ends.
func TestHostileJVM(t *testing.T) {
	for mode, want := range map[string]error{"old": ErrUnknownCommand, "endless": nil, "silent": context.DeadlineExceeded} {
		t.Run(mode, func(t *testing.T) {
			held, _ := jvmProcess(t, mode)
			patience := time.Minute
			if mode == "silent" {
				patience = 100 * time.Millisecond
			}
			err := PerfMap(within(t, patience), held)
			if err == nil || want != nil && !errors.Is(err, want) || len(err.Error()) > 1000 {
				t.Errorf("%v, want %v", err, want)
			}
		})
	}
}

// A socket that another process listens on is not talked to, nor is a JVM made to write to what is no file of its own.
func TestFilesInItsPlace(t *testing.T) {
	for _, what := range []string{"socket", "link", "FIFO", "second name"} {
		t.Run(what, func(t *testing.T) {
			held, _ := jvmProcess(t, "good")
			target := filepath.Join(t.TempDir(), "target")
			if err := os.WriteFile(target, []byte("content"), 0o600); err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("/tmp/perf-%d.map", held.PID())
			t.Cleanup(func() { _ = os.Remove(name) })
			var err error
			switch what {
			case "socket":
				var l net.Listener
				l, err = net.Listen("unix", fmt.Sprintf("/tmp/.java_pid%d", held.PID()))
				t.Cleanup(func() { l.Close() })
			case "link":
				err = os.Symlink(target, name)
			case "FIFO":
				err = unix.Mkfifo(name, 0o600)
			case "second name":
				if err = os.WriteFile(name, nil, 0o600); err == nil {
					err = os.Link(name, filepath.Join("/tmp", fmt.Sprintf("second-%d", held.PID())))
					t.Cleanup(func() { _ = os.Remove(filepath.Join("/tmp", fmt.Sprintf("second-%d", held.PID()))) })
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := PerfMap(within(t, time.Minute), held); err == nil {
				t.Error("it was asked")
			}
			if text, err := os.ReadFile(target); err != nil || string(text) != "content" {
				t.Errorf("the file is %q, %v", text, err)
			}
		})
	}
}
