//go:build integration && services

package main

import (
	"fmt"
	"testing"
)

// On a terminal, events stand below the titles of their columns; through a pipe they have none.
func TestEventsInATerminalHaveTitles(t *testing.T) {
	t.Parallel()
	c := program(t, "every_function")
	x := startInTerminal(t, fmt.Sprintf("-p %d --events --kind alloc --min-size 900 --function by_malloc", c.cmd.Process.Pid))
	x.run("resize-window", "-x", "140", "-y", "24") // lines are longer than 80 columns
	x.until(`(?m)^ +SECONDS +PID +TID THREAD +KIND +SIZE ADDRESS SITE$`)
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	x.until(fmt.Sprintf(`(?m)^ +\d+\.\d{6} +%[1]d +%[1]d every_function +alloc +1000 0x\S+ by_malloc$`, c.cmd.Process.Pid))
	x.keys("C-c")
	x.until(`ended 0`)
	if err := c.end(); err != nil {
		t.Error(err)
	}
}
