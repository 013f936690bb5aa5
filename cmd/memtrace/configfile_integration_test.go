//go:build integration

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/memtrace/memtrace/procfs/proctest"
)

// Users that need not exist.
const (
	behindSudo  = 4242
	anotherUser = 4343
)

// wellRead is what memtrace config says of a value of a file that is in force.
const wellRead = "config.yaml:1"

// A configuration sets root's defaults if it is root's, or is that of who called sudo; and is read with no more rights than theirs.
func TestConfigurationIsOfTheCaller(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("password: hunter2\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, link  string
		owner, mode int
		sudo        string // SUDO_UID and SUDO_GID
		want        string // of stdout and stderr
	}{
		{name: "root's own", want: wellRead},
		{name: "root's behind sudo", sudo: "4242", mode: 0o644, want: wellRead},
		{name: "the caller's behind sudo", owner: behindSudo, sudo: "4242", want: wellRead},
		{name: "the caller's and his group's", owner: behindSudo, mode: 0o664, sudo: "4242", want: "others than its owner may write it"},
		{name: "another's behind sudo", owner: anotherUser, mode: 0o644, sudo: "4242", want: "it belongs to user 4343"},
		{name: "another's that he can't read", owner: anotherUser, sudo: "4242", want: "permission denied"},
		{name: "a user's without sudo", owner: behindSudo, want: "it belongs to user 4242"},
		{name: "sudo by root", owner: behindSudo, sudo: "0", want: "it belongs to user 4242"},
		{name: "a link to what he can't read", link: secret, sudo: "4242", want: "permission denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := openDirectory(t)
			path := filepath.Join(dir, "memtrace", "config.yaml")
			writeConfig(t, path, c.link, c.owner, c.mode)
			said := configSays(t, dir, nil, c.sudo, strings.TrimPrefix(c.want, wellRead))
			if !strings.Contains(said, c.want) || strings.Contains(said, "hunter2") {
				t.Errorf("memtrace config says\n%s\nwant %q", said, c.want)
			}
			if c.want != wellRead && strings.Contains(said, "--interval") {
				t.Errorf("memtrace config has values from it:\n%s", said)
			}
		})
	}
}

// A memtrace with more rights than its caller reads what the caller can read, and does not believe what he says of sudo.
func TestConfigurationOfSetUserID(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		owner, mode int
		sudo, want  string
	}{
		{name: "his own", owner: behindSudo, want: wellRead},
		{name: "root's alone", mode: 0o600, want: "permission denied"},
		{name: "another's", owner: anotherUser, mode: 0o644, sudo: "4343", want: "it belongs to user 4343"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := openDirectory(t)
			writeConfig(t, filepath.Join(dir, "memtrace", "config.yaml"), "", c.owner, c.mode)
			as := &syscall.Credential{Uid: behindSudo, Gid: behindSudo}
			said := configSays(t, dir, as, c.sudo, strings.TrimPrefix(c.want, wellRead))
			if !strings.Contains(said, c.want) {
				t.Errorf("memtrace config says\n%s\nwant %q", said, c.want)
			}
		})
	}
}

// What a configuration names is opened with the rights of who wrote it: behind sudo, not with root's.
func TestConfiguredFilesAreOpenedForTheCaller(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, sudo, want string
		typed            bool
	}{
		{name: "root's own", want: "line 1 is neither"},
		{name: "behind sudo", sudo: "4242", want: "permission denied"},
		{name: "behind sudo, on the command line", sudo: "4242", typed: true, want: "line 1 is neither"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := openDirectory(t)
			path, secret := filepath.Join(dir, "memtrace", "config.yaml"), filepath.Join(dir, "memtrace", "secret")
			writeConfig(t, path, "", 0, 0o644)
			for name, text := range map[string]string{path: "suppressions: secret\n", secret: "hunter2\n"} {
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			args := []string{"trace"}
			if c.typed {
				args = append(args, "--suppressions", secret)
			}
			said, err := asCallerOfSudo(t, nil, dir, c.sudo, args...).CombinedOutput()
			if err == nil || !strings.Contains(string(said), c.want) {
				t.Errorf("memtrace trace: %v, and says\n%s\nwant %q", err, said, c.want)
			}
		})
	}
}

// A directory that the reader may not enter says nothing for or against a file in it: HOME may be another user's.
func TestConfigurationOutOfReach(t *testing.T) {
	t.Parallel()
	dir := openDirectory(t)
	writeConfig(t, filepath.Join(dir, "memtrace", "config.yaml"), "", 0, 0)
	if err := os.Chmod(filepath.Join(dir, "memtrace"), 0o700); err != nil {
		t.Fatal(err)
	}
	want := "config.yaml is not read: permission denied to look into its directory"
	if said := configSays(t, dir, nil, "4242", ""); !strings.Contains(said, want) {
		t.Errorf("memtrace config says\n%s\nwant %q", said, want)
	}
}

// openDirectory is one that any user can enter.
func openDirectory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "memtrace")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func writeConfig(t *testing.T, path, link string, owner, mode int) {
	t.Helper()
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if link != "" {
		if err := os.Symlink(link, path); err != nil {
			t.Fatal(err)
		}
		return
	}
	if mode == 0 {
		mode = 0o600
	}
	if err := os.WriteFile(path, []byte("interval: 5s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, owner, owner); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, os.FileMode(mode)); err != nil {
		t.Fatal(err)
	}
}

// configSays runs memtrace config: as root, or set-user-ID root as another user. It fails where a file is
// refused, and only there.
func configSays(t *testing.T, dir string, as *syscall.Credential, sudo, refused string) string {
	t.Helper()
	said, err := asCallerOfSudo(t, as, dir, sudo, "config").CombinedOutput()
	if (refused != "") != (err != nil) {
		t.Errorf("memtrace config: %v", err)
	}
	return string(said)
}

// asCallerOfSudo is memtrace with a configuration: as root, or set-user-ID root as another user; behind sudo, if
// that names a user.
func asCallerOfSudo(t *testing.T, as *syscall.Credential, dir, sudo string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if as != nil {
		self = setUserID(t, self)
	}
	cmd := exec.Command(self, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	cmd.Env = append(os.Environ(), asMemtrace+"=1", "XDG_CONFIG_HOME="+dir)
	if sudo != "" {
		cmd.Env = append(cmd.Env, "SUDO_UID="+sudo, "SUDO_GID="+sudo)
	}
	return cmd
}

// setUserID is a copy of a program that runs with root's rights, whoever starts it.
func setUserID(t *testing.T, program string) string {
	t.Helper()
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(openDirectory(t), "memtrace")
	if err := proctest.WriteProgram(copied, text); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(copied, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	return copied
}
