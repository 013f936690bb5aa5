package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// atSecure is set where a program has rights that its caller has not
// (include/uapi/linux/auxvec.h).
const atSecure = 23

// hasCallersRights reports whether memtrace may do no more than who called it:
// neither file capabilities nor a set-user-ID bit gave it rights.
func hasCallersRights() bool {
	auxv, err := unix.Auxv()
	if err != nil {
		return os.Getuid() == 0
	}
	for _, pair := range auxv {
		if pair[0] == atSecure {
			return pair[1] == 0
		}
	}
	return true
}

// asCaller runs f with the rights of who called memtrace: what a user names may
// only be opened where the user could open it. f must start no goroutine that
// opens anything.
func asCaller(f func() error) error {
	if hasCallersRights() {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		// Rights are the thread's own. If they don't come back, it must not be used
		// for anything else: it ends with the goroutine that it is locked to.
		runtime.LockOSThread()
		restore, err := dropRights()
		if err == nil {
			err = f()
		}
		if restored := restore(); restored == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// dropRights takes all effective capabilities from the calling thread, and lets it
// reach files as the real user. It returns what gives both back.
func dropRights() (restore func() error, err error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var had [2]unix.CapUserData
	if err := unix.Capget(&header, &had[0]); err != nil {
		return func() error { return nil }, fmt.Errorf("take on the caller's rights: %w", err)
	}
	group, _ := unix.SetfsgidRetGid(unix.Getgid())
	user, _ := unix.SetfsuidRetUid(unix.Getuid())
	none := had
	none[0].Effective, none[1].Effective = 0, 0
	if err = unix.Capset(&header, &none[0]); err != nil {
		err = fmt.Errorf("take on the caller's rights: %w", err)
	}
	restore = func() error {
		err := unix.Capset(&header, &had[0])
		if now, _ := unix.SetfsuidRetUid(user); now != unix.Getuid() {
			err = errors.Join(err, errors.New("the file system's user was another"))
		}
		if now, _ := unix.SetfsgidRetGid(group); now != unix.Getgid() {
			err = errors.Join(err, errors.New("the file system's group was another"))
		}
		return err
	}
	return restore, err
}

// openAsCaller opens a file that the user named, for reading.
func openAsCaller(path string) (f *os.File, err error) {
	err = asCaller(func() error { f, err = os.Open(path); return err })
	return f, err
}

// createAsCaller creates a file that the user named, or opens it with other flags.
func createAsCaller(path string, flags int) (f *os.File, err error) {
	err = asCaller(func() error { f, err = os.OpenFile(path, os.O_CREATE|flags, 0o666); return err })
	return f, err
}
