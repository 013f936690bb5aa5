//go:build linux && !viewer

package jvmattach

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
)

// maxAnswer bounds what a JVM answers, in bytes.
const maxAnswer = 64 << 10

// jvm is a process that is asked, and what of it has to be known for that.
type jvm struct {
	process *procfs.Held
	inner   int // its PID as it sees it itself
	uid     uint32
	gid     uint32
	tmp     int // its /tmp: a descriptor of O_PATH
}

// open looks at a process. The caller closes what it returns.
func open(p *procfs.Held) (*jvm, error) {
	status, err := p.Status()
	if err != nil {
		return nil, err
	}
	j := &jvm{process: p, inner: p.PID(), uid: status.Uid[1], gid: status.Gid[1]}
	if n := len(status.NSpid); n > 0 {
		j.inner = status.NSpid[n-1]
	}
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", p.PID()), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open its root directory: %w", err)
	}
	defer func() { _ = unix.Close(root) }()
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	}
	if j.tmp, err = unix.Openat2(root, "tmp", &how); err != nil {
		return nil, fmt.Errorf("open its /tmp: %w", err)
	}
	if !p.Alive() { // then the PID may have been another's
		j.close()
		return nil, procfs.ErrGone
	}
	return j, nil
}

func (j *jvm) close() { _ = unix.Close(j.tmp) }

// ask has the JVM execute a diagnostic command, and returns what it answers.
func (j *jvm) ask(ctx context.Context, w *Wake, command string) (string, error) {
	conn, err := j.listening(ctx, w)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	const version = "1"
	if _, err := io.WriteString(conn, strings.Join([]string{version, "jcmd", command, "", "", ""}, "\x00")); err != nil {
		return "", fmt.Errorf("send the command: %w", err)
	}
	answer, err := io.ReadAll(io.LimitReader(conn, maxAnswer))
	if err != nil {
		return "", fmt.Errorf("read its answer: %w", err)
	}
	code, text, _ := strings.Cut(string(answer), "\n")
	if code != "0" {
		return "", fmt.Errorf("it answered %.200q", string(answer))
	}
	return text, nil
}

// connect connects to the JVM where it listens. The error is ENOENT or ECONNREFUSED where it doesn't.
func (j *jvm) connect(ctx context.Context) (*net.UnixConn, error) {
	name := ".java_pid" + strconv.Itoa(j.inner)
	fd, err := unix.Openat(j.tmp, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /tmp/%s: %w", name, err)
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("stat /tmp/%s: %w", name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK || st.Uid != j.uid {
		return nil, fmt.Errorf("/tmp/%s is no socket of the JVM's user", name)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, fmt.Errorf("connect to /tmp/%s: %w", name, err)
	}
	own := conn.(*net.UnixConn)
	if err := j.checkPeer(own); err != nil {
		_ = own.Close()
		return nil, err
	}
	return own, nil
}

// checkPeer makes sure that the JVM itself is at the other end.
func (j *jvm) checkPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("ask who listens: %w", failed)
	}
	if int(peer.Pid) != j.process.PID() {
		return fmt.Errorf("process %d listens in its place", peer.Pid)
	}
	return nil
}
