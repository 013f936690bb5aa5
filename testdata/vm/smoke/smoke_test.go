//go:build integration

// Package smoke checks that a test VM is what the other tests take for granted.
package smoke

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// root is the top of the checkout; tests run in their package's folder.
const root = "../../.."

func TestKernelHasBTF(t *testing.T) {
	info, err := os.Stat("/sys/kernel/btf/vmlinux")
	if err != nil {
		t.Fatalf("this kernel cannot run CO-RE programs: %v", err)
	}
	if info.Size() == 0 {
		t.Fatal("/sys/kernel/btf/vmlinux is empty")
	}
}

func TestKernelHasUprobes(t *testing.T) {
	if _, err := os.Stat("/sys/bus/event_source/devices/uprobe/type"); err != nil {
		t.Fatalf("no uprobe PMU: %v", err)
	}
}

// The programs print what they did: this runs each libc's loader and libraries.
func TestProgramsRun(t *testing.T) {
	for _, program := range []string{"two_threads", "cxx_containers", "escape", "every_function_static"} {
		out, err := exec.Command(root+"/build/testdata/"+program, "run").Output()
		if err != nil {
			t.Errorf("run %s: %v", program, err)
			continue
		}
		if want := `"final":true`; !strings.Contains(string(out), want) {
			t.Errorf("%s printed %q, which has no %s", program, out, want)
		}
	}
}
