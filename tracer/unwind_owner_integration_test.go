//go:build integration

package tracer

import (
	"bufio"
	"os/exec"
	"syscall"
	"testing"
)

// inNamespace starts a process in a user namespace that a user has made, as that namespace's root.
func inNamespace(t *testing.T, maker uint32) int {
	t.Helper()
	cmd := exec.Command("unshare", "--user", "--map-root-user", "sh", "-c", "echo ready; read line")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: maker, Gid: maker}}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("user %d makes no user namespace: %v", maker, err)
	}
	return cmd.Process.Pid
}

// Who makes a user namespace answers for all users in it; for one that root makes the namespace does.
func TestAccountInAUserNamespace(t *testing.T) {
	t.Parallel()
	if got := processAccount(inNamespace(t, 4242)); got != (account{uid: 4242}) {
		t.Errorf("a process in user 4242's namespace is %+v's", got)
	}
	first, second := processAccount(inNamespace(t, 0)), processAccount(inNamespace(t, 0))
	if first.ns == 0 || second.ns == 0 || first.ns == second.ns {
		t.Errorf("processes in two namespaces of root's are %+v's and %+v's", first, second)
	}
}
