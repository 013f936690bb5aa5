package launch

import (
	"fmt"
	"io"
	"os/exec"
	"testing"
)

// BenchmarkWatched measures what a watch costs a program: for a signal that it
// handles, a thread that it makes, and a child that it forks.
func BenchmarkWatched(b *testing.B) {
	for _, c := range []struct {
		name  string
		watch bool
		hooks Hooks
	}{
		{"untouched", false, Hooks{}},
		{"watched", true, Hooks{AtExit: func(Ending) {}}},
		{"watched with its children", true, Hooks{AtExit: func(Ending) {}, NewChild: func(int) {}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			// Its parent is a shell: were it our own child, we would reap it.
			cmd := exec.Command("sh", "-c", `exec 3<&0; "$0" measure <&3 & echo $!; wait`, buildEnds(b))
			in, err := cmd.StdinPipe()
			if err != nil {
				b.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				b.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			defer func() { _ = in.Close(); _ = cmd.Wait() }()
			var pid int
			if _, err := fmt.Fscan(out, &pid); err != nil {
				b.Fatal(err)
			}
			if c.watch {
				w, err := Attend([]int{pid}, c.hooks)
				if err != nil {
					b.Fatal(err)
				}
				defer w.Close()
			}
			var sum [3]float64
			for b.Loop() {
				var ns [3]float64
				if _, err := io.WriteString(in, "x"); err != nil {
					b.Fatal(err)
				}
				if _, err := fmt.Fscan(out, &ns[0], &ns[1], &ns[2]); err != nil {
					b.Fatal(err)
				}
				for i := range ns {
					sum[i] += ns[i]
				}
			}
			for i, unit := range []string{"ns/signal", "ns/thread", "ns/child"} {
				b.ReportMetric(sum[i]/float64(b.N), unit)
			}
		})
	}
}
