package tui

import (
	"os"
	"testing"
)

func TestEnvironment(t *testing.T) {
	for _, c := range []struct {
		env            map[string]string
		capable, color bool
	}{
		{map[string]string{"TERM": "xterm-256color"}, true, true},
		{map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, true, false},
		{map[string]string{"TERM": "dumb"}, false, false},
		{map[string]string{}, false, false},
	} {
		getenv := func(key string) string { return c.env[key] }
		if capable(getenv) != c.capable || UseColor(getenv) != c.color {
			t.Errorf("%v: capable %v, color %v", c.env, capable(getenv), UseColor(getenv))
		}
	}
}

func TestFileIsNoTerminal(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if Usable(f, func(string) string { return "xterm" }) {
		t.Error("/dev/null passes as a terminal")
	}
}
