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
		if fmt.Println("woken"); mode == "silent" {
			<-quit // it listens once the test says so
		}
		listen(mode)
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
	var w Wake
	for i := range 2 {
		if err := PerfMap(within(t, time.Minute), held, &w); err != nil {
			t.Fatal(err)
		}
		if i == 0 && (!lines.Scan() || lines.Text() != "woken") {
			t.Errorf("it said %s", lines.Text())
		}
		if !lines.Scan() || lines.Text() != `asked "1\x00jcmd\x00Compiler.perfmap\x00\x00\x00"` {
			t.Errorf("it said %s", lines.Text())
		}
	}
	if w.Waits() || isThere(t, held) {
		t.Error("the file that asks it to listen is left")
	}
}

// isThere reports whether the file is there that asks a process to listen.
func isThere(t *testing.T, held *procfs.Held) bool {
	t.Helper()
	_, err := os.Lstat(attachName(held))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func attachName(held *procfs.Held) string { return fmt.Sprintf("/tmp/.attach_pid%d", held.PID()) }

// A JVM that does not listen in time is sent no second signal, and the file stays for it until it listens: without
// it, it would print its threads.
func TestSlowJVMIsSignalledOnce(t *testing.T) {
	held, lines := jvmProcess(t, "silent")
	var w Wake
	t.Cleanup(w.Remove)
	ctx, cancel := context.WithCancel(context.Background())
	first := make(chan error, 1)
	go func() { first <- PerfMap(ctx, held, &w) }()
	if !lines.Scan() || lines.Text() != "woken" {
		t.Fatalf("it said %q", lines.Text())
	}
	cancel()
	if err := <-first; !errors.Is(err, ErrNotListening) {
		t.Errorf("%v, want %v", err, ErrNotListening)
	}
	for range 3 {
		if err := PerfMap(within(t, time.Minute), held, &w); !errors.Is(err, ErrNotListening) {
			t.Errorf("%v, want %v", err, ErrNotListening)
		}
	}
	if !w.Waits() || !isThere(t, held) {
		t.Error("the file that asks it to listen is gone")
	}
	left := w // by a trace that ends before
	left.file = &attachFile{dir: -1}
	if left.Leave(); left.Waits() || !isThere(t, held) {
		t.Error("a trace that ends takes the file with it")
	}
	// The next signal is the test's own: a second one of ours would have had it listen, or print "dump", before.
	if err := unix.Kill(held.PID(), unix.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	for ctx := within(t, time.Minute); ; {
		err := PerfMap(ctx, held, &w)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrNotListening) || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "asked ") {
		t.Errorf("it said %q", lines.Text())
	}
	if w.Waits() || isThere(t, held) {
		t.Error("the file that asks it to listen is left")
	}
}

// A stopped process gets no signal, which would wait for it and whatever it runs then.
func TestStoppedJVMIsNotSignalled(t *testing.T) {
	held, lines := jvmProcess(t, "good")
	if err := unix.Kill(held.PID(), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for state := byte(0); state != 'T'; {
		st, err := held.Stat()
		if err != nil {
			t.Fatal(err)
		}
		state = st.State
	}
	var w Wake
	if err := PerfMap(within(t, time.Minute), held, &w); !errors.Is(err, ErrStopped) {
		t.Errorf("%v, want %v", err, ErrStopped)
	}
	if w.Waits() || isThere(t, held) {
		t.Error("the file that asks it to listen is left")
	}
	if err := unix.Kill(held.PID(), unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := PerfMap(within(t, time.Minute), held, &w); err != nil {
		t.Error(err)
	}
	if !lines.Scan() || lines.Text() != "woken" {
		t.Errorf("it said %q", lines.Text())
	}
}

// A file of the same name that another program made stays, whether it was there before or came in the place of ours.
func TestAnothersAttachFileStays(t *testing.T) {
	held, _ := jvmProcess(t, "good")
	name := attachName(held)
	t.Cleanup(func() { _ = os.Remove(name) })
	create := func() {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	create()
	var w Wake
	if err := PerfMap(within(t, time.Minute), held, &w); !errors.Is(err, unix.EEXIST) {
		t.Errorf("%v, want %v", err, unix.EEXIST)
	}
	if !isThere(t, held) {
		t.Fatal("another program's file was removed")
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	j, err := open(held)
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	if w.file, err = j.createAttachFile(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name, name+".old"); err != nil { // so that its inode is not used again
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(name + ".old") })
	create()
	if w.Remove(); !isThere(t, held) {
		t.Error("another program's file was removed")
	}
}

// Whatever a target makes its /tmp, no file is created where its user could create none.
func TestFileIsCreatedWhereItsUserMay(t *testing.T) {
	me, other := os.Getuid(), 12345
	for name, c := range map[string]struct {
		mode     os.FileMode
		uid, gid int
		may      bool
	}{
		"everybody's":           {os.ModeSticky | 0o777, me, me, true},
		"its own":               {0o700, other, me, true},
		"its own, read-only":    {0o577, other, me, false},
		"its group's":           {0o770, me, other, true},
		"its group's, read":     {0o757, me, other, false},
		"another's":             {0o755, me, me, false},
		"another's, write only": {0o772, me, me, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Chmod(dir, c.mode); err != nil {
				t.Fatal(err)
			}
			fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			j := &jvm{tmp: fd, inner: 1, uid: uint32(other), gid: uint32(other)}
			defer j.close()
			// The directory is this test's own: whose it is to be is told by who the target is.
			if c.uid == other {
				j.uid = uint32(me)
			}
			if c.gid == other {
				j.gid = uint32(os.Getgid())
			}
			if err := j.mayCreate(); (err == nil) != c.may {
				t.Errorf("%v", err)
			}
			if c.may {
				return
			}
			if f, err := j.createAttachFile(); !errors.Is(err, errNotItsOwn) {
				t.Errorf("%v, %v", f, err)
			}
			if left, err := os.ReadDir(dir); err == nil && len(left) > 0 {
				t.Errorf("%v is left", left)
			}
		})
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
	if err := PerfMap(within(t, time.Minute), held, new(Wake)); !errors.Is(err, errNoHandler) {
		t.Errorf("%v, want %v", err, errNoHandler)
	}
	if !held.Alive() {
		t.Error("it has ended")
	}
}

// Whatever a JVM answers, or doesn't, asking ends.
func TestHostileJVM(t *testing.T) {
	for mode, want := range map[string]error{"old": ErrUnknownCommand, "endless": nil} {
		t.Run(mode, func(t *testing.T) {
			held, _ := jvmProcess(t, mode)
			err := PerfMap(within(t, time.Minute), held, new(Wake))
			if err == nil || want != nil && !errors.Is(err, want) || len(err.Error()) > 1000 {
				t.Errorf("%v, want %v", err, want)
			}
		})
	}
}

// A socket that another process listens on is not talked to, nor is a JVM made to write to what is no file of its own.
func TestFilesInItsPlace(t *testing.T) {
	const notItsOwn = "is no file of the JVM's user alone"
	for what, want := range map[string]string{
		"socket": "listens in its place", "link": notItsOwn, "FIFO": notItsOwn, "second name": notItsOwn,
	} {
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
				err = answerInItsPlace(t, held)
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
			err = PerfMap(within(t, time.Minute), held, new(Wake))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			if text, err := os.ReadFile(target); err != nil || string(text) != "content" {
				t.Errorf("the file is %q, %v", text, err)
			}
		})
	}
}

// answerInItsPlace listens where a JVM would, as this test's program, and answers as one.
func answerInItsPlace(t *testing.T, held *procfs.Held) error {
	l, err := net.Listen("unix", fmt.Sprintf("/tmp/.java_pid%d", held.PID()))
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			answer(conn, "good")
		}
	}()
	return nil
}
