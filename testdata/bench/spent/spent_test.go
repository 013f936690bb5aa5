package spent

import (
	"os/exec"
	"testing"
)

// The shell's own time and that of the child it waits for are told apart: each
// of them counts, one of them twenty times as far.
func TestChildrenAreToldApart(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", `i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done; /bin/sh -c 'i=0; while [ $i -lt 800000 ]; do i=$((i+1)); done'; true`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s, err := Wait(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if s.Own <= 0 || s.Children < 4*s.Own {
		t.Errorf("the shell took %v s and its child %v s, which counts 20 times as far", s.Own, s.Children)
	}
	if s.All() > 60 {
		t.Errorf("both took %v s", s.All())
	}
}
