//go:build linux && !viewer

package analyzer

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A process without a runtime is not looked at again until it has mapped code.
func TestNoRuntimeIsRemembered(t *testing.T) {
	p := openSelf(t)
	var r runtimeReader
	if found, _ := r.read(p); found != nil {
		t.Fatalf("this test has the runtime %+v", found)
	}
	for range 2 {
		if found, _ := r.read(p); found != nil || r.answer != nil {
			t.Fatalf("found %+v", found)
		}
		if r.begin(p) {
			t.Fatal("it is looked at again")
		}
	}
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	code, err := unix.Mmap(int(exe.Fd()), 0, 1<<16, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(code) }()
	if !r.begin(p) {
		t.Fatal("it is not looked at again, though it has mapped code")
	}
	<-r.answer
}

// While a process has not answered, samples do without, also those of the program that it executes next: there is one
// read at a time.
func TestRuntimeThatDoesNotAnswer(t *testing.T) {
	p := openSelf(t)
	r := runtimeReader{answer: make(chan runtimeAnswer, 1)}
	for range 3 {
		if found, parts := r.read(p); found == nil || found.Problem == "" || parts != nil {
			t.Fatalf("%+v, %v", found, parts)
		}
	}
	waits := r.answer
	r = r.ofNextProgram()
	if found, _ := r.read(p); found == nil || found.Problem == "" || r.answer != waits {
		t.Fatalf("%+v", found)
	}
	waits <- runtimeAnswer{} // that of the program before
	for r.without == 0 {     // it is read beside, and not waited for
		r.read(p)
	}
	if found, _ := r.read(p); found != nil {
		t.Errorf("%+v", found)
	}
}
