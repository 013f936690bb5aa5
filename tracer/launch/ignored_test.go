package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestIgnored: what a caller has a program ignore is found in it, though the runtime has handlers of its own by
// then, and again when it is looked for twice. It fails where a runtime no longer notes it as it did.
func TestIgnored(t *testing.T) {
	if os.Getenv("IGNORED_IN_A_CHILD") != "" {
		for range 2 {
			signals, err := Ignored()
			fmt.Println(numbers(signals), err)
		}
		os.Exit(0)
	}
	for _, want := range []string{"", "12 13", "1 2 3 10 12 15 35 36 40 64"} {
		script := fmt.Sprintf(`for s in %s; do trap '' $s; done; grep SigIgn /proc/$$/status; exec "$@"`, want)
		if want == "" {
			script = `grep SigIgn /proc/$$/status; exec "$@"`
		}
		cmd := exec.Command("sh", "-c", script, "sh", os.Args[0], "-test.run=^TestIgnored$")
		cmd.Env = append(os.Environ(), "IGNORED_IN_A_CHILD=1")
		out, err := cmd.CombinedOutput()
		status, said, _ := strings.Cut(string(out), "\n")
		// The test's own caller may have it ignore some, too.
		kernels, parse := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(status, "SigIgn:")), 16, 64)
		if err != nil || parse != nil {
			t.Fatalf("ignoring %q: %v, %v: %s", want, err, parse, out)
		}
		for _, number := range strings.Fields(want) {
			if n, _ := strconv.Atoi(number); kernels&(1<<(n-1)) == 0 {
				t.Fatalf("the shell does not ignore signal %s: %s", number, status)
			}
		}
		if line := fmt.Sprintln(signalsOf(kernels), error(nil)); said != line+line {
			t.Errorf("ignoring %q: the program said %q, want %q twice", want, said, line)
		}
	}
}

// signalsOf lists the signals of a mask of the kernel's.
func signalsOf(mask uint64) (out []int) {
	for n := range 64 {
		if mask&(1<<n) != 0 {
			out = append(out, n+1)
		}
	}
	return out
}

func numbers[T ~int](signals []T) (out []int) {
	for _, s := range signals {
		out = append(out, int(s))
	}
	return out
}

// TestFindIgnoredInDoubt: two places that are like the runtime's note are none.
func TestFindIgnoredInDoubt(t *testing.T) {
	note := make([]uint64, maxSignal+1)
	after := make([]uint64, maxSignal+1)
	for number := range after {
		if inPattern(number) {
			after[number] = ignored
		}
	}
	if signals, err := findIgnored(note, after); err != nil || len(signals) != 0 {
		t.Errorf("one note: %v, %v", signals, err)
	}
	_, err := findIgnored(append(note, note...), append(after, after...))
	if !errors.Is(err, ErrIgnoredUnknown) || !strings.Contains(err.Error(), "2 places") {
		t.Errorf("two notes: %v", err)
	}
	if _, err := findIgnored(note, note); !errors.Is(err, ErrIgnoredUnknown) {
		t.Errorf("no note: %v", err)
	}
}
