//go:build linux && !viewer

package jvmattach

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
)

// ErrUnknownCommand: the JVM has no Compiler.perfmap.
var ErrUnknownCommand = errors.New("it has no Compiler.perfmap: JDK 17 and newer have")

// PerfMap has a JVM write /tmp/perf-N.map of its own root: the functions that it has compiled by now. The caller has
// made sure that the process is a JVM that answers to SIGQUIT (-XX:+DisableAttachMechanism makes it print its stacks
// instead), and gives the same Wake each time until the process executes another program.
func PerfMap(ctx context.Context, p *procfs.Held, w *Wake) error {
	j, err := open(p)
	if err != nil {
		return fmt.Errorf("ask the JVM of process %d for the names of its code: %w", p.PID(), err)
	}
	defer j.close()
	if err := j.perfMap(ctx, w); err != nil {
		return fmt.Errorf("ask the JVM of process %d for the names of its code: %w", p.PID(), err)
	}
	return nil
}

func (j *jvm) perfMap(ctx context.Context, w *Wake) error {
	if err := j.mayWrite("perf-" + strconv.Itoa(j.inner) + ".map"); err != nil {
		return err
	}
	answer, err := j.ask(ctx, w, "Compiler.perfmap")
	if err == nil && answer != "" {
		err = fmt.Errorf("it answered %.200q", answer)
	}
	if err != nil && strings.Contains(err.Error(), "Unknown diagnostic command") {
		return ErrUnknownCommand
	}
	return err
}

// mayWrite makes sure that the JVM finds no file of the name in its /tmp that is not its user's own: it writes to whatever is there.
func (j *jvm) mayWrite(name string) error {
	var st unix.Stat_t
	err := unix.Fstatat(j.tmp, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return fmt.Errorf("stat /tmp/%s: %w", name, err)
	case st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != j.uid || st.Nlink != 1:
		return fmt.Errorf("/tmp/%s is there and is no file of the JVM's user alone: remove it", name)
	}
	return nil
}
