//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs/ownthread"
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
func asCaller(f func() error) (err error) {
	if hasCallersRights() {
		return f()
	}
	ownthread.Do(func() { // rights are the thread's own, and end with it
		if err = dropRights(os.Getuid(), os.Getgid()); err == nil {
			err = f()
		}
	})
	return err
}

// asOther has root run f with no more rights than a user has, and in no other group than this one. What holds for f of
// asCaller holds here.
func asOther(uid, gid int, f func() error) (err error) {
	// The kernel takes the whole process for one with secrets of two users from then on.
	if dumpable, _ := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); dumpable == 1 {
		defer func() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) }()
	}
	ownthread.Do(func() {
		if err = unix.Setgroups(nil); err != nil { // of this thread alone
			err = fmt.Errorf("take on the rights of user %d: %w", uid, err)
			return
		}
		if err = dropRights(uid, gid); err == nil {
			err = f()
		}
	})
	return err
}

// dropRights takes all effective capabilities from the calling thread, and has it
// reach files as a user and group.
func dropRights(uid, gid int) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("take on the caller's rights: %w", err)
	}
	// These say what was before, whether they have done it or not: -1 only asks.
	_, _ = unix.SetfsgidRetGid(gid)
	_, _ = unix.SetfsuidRetUid(uid)
	group, _ := unix.SetfsgidRetGid(-1)
	user, _ := unix.SetfsuidRetUid(-1)
	if user != uid || group != gid {
		return errors.New("take on the caller's rights: the kernel reaches files as somebody else")
	}
	data[0].Effective, data[1].Effective = 0, 0
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("take on the caller's rights: %w", err)
	}
	return nil
}
