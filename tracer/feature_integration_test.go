//go:build integration

package tracer

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// kernelVersion is the running kernel's major and minor number.
func kernelVersion(t *testing.T) (major, minor int) {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	release := unix.ByteSliceToString(u.Release[:])
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		t.Fatalf("parse the kernel release %q: %v", release, err)
	}
	return major, minor
}

// A kernel has each feature that its version promises, and a probe that
// answers anything but yes or "not supported" is broken. This is what lets
// other tests go without a mechanism that is not there.
func TestFeaturesMatchKernelVersion(t *testing.T) {
	major, minor := kernelVersion(t)
	for _, f := range Features() {
		var sinceMajor, sinceMinor int
		if _, err := fmt.Sscanf(f.Since, "%d.%d", &sinceMajor, &sinceMinor); err != nil {
			t.Errorf("%s: bad version %q", f.Name, f.Since)
			continue
		}
		promised := major > sinceMajor || major == sinceMajor && minor >= sinceMinor
		err := f.Probe()
		switch {
		case err != nil && !errors.Is(err, ErrNotSupported):
			t.Errorf("%s: the probe could not tell: %v", f.Name, err)
		case err != nil && promised && f.Needs == "":
			t.Errorf("%s came with %s, but this %d.%d has it not: %v", f.Name, f.Since, major, minor, err)
		case err == nil && !promised:
			t.Errorf("%s came with %s, but this %d.%d has it", f.Name, f.Since, major, minor)
		}
		t.Logf("%s: %v", f.Name, err)
	}
}

func TestSomeFaultSourceIsThere(t *testing.T) {
	source, err := ChooseFaultSource("")
	if err != nil || source == FaultOff {
		t.Errorf("no fault source: %v", err)
	}
	t.Logf("page faults by %s", source)
}
