package tui

import (
	"os"

	"golang.org/x/term"
)

// Usable reports whether f is a terminal that can be repainted in place.
// getenv is os.Getenv.
func Usable(f *os.File, getenv func(string) string) bool {
	return capable(getenv) && term.IsTerminal(int(f.Fd()))
}

func capable(getenv func(string) string) bool {
	name := getenv("TERM")
	return name != "" && name != "dumb"
}

// UseColor reports whether the environment allows colour: see https://no-color.org.
func UseColor(getenv func(string) string) bool {
	return capable(getenv) && getenv("NO_COLOR") == ""
}
