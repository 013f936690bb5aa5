package main

import (
	"os"

	"golang.org/x/term"
)

// terminalWidth is that of stdout, 0 where it is no terminal.
func terminalWidth() int {
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 0
	}
	return width
}
