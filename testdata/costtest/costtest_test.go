package costtest

import (
	"strings"
	"testing"
	"time"
)

// told keeps what a test would have failed with.
type told struct {
	testing.TB
	errors []string
}

func (t *told) Helper() {}

func (t *told) Errorf(format string, _ ...any) { t.errors = append(t.errors, format) }

var kept []byte

func TestBound(t *testing.T) {
	const longest = 50 * time.Millisecond
	for what, c := range map[string]struct {
		do   func()
		want string
	}{
		"little": {func() { kept = make([]byte, 1<<20) }, ""},
		"much memory": {func() {
			for range 3 {
				kept = make([]byte, 8<<20)
			}
		}, "bytes"},
		"much time": {func() {
			for began := threadTime(t); threadTime(t) < began+longest+1; {
			}
		}, "processor time"},
	} {
		heard := &told{TB: t}
		end := bound(heard, longest, 16<<20)
		c.do()
		end()
		if text := strings.Join(heard.errors, "\n"); (text == "") != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %q, want %q", what, text, c.want)
		}
	}
}
