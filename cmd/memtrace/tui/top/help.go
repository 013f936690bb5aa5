package top

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/cmd/memtrace/tui"
)

var keyHelp = []string{
	"# Keys                                           (↑↓ scroll, any other key closes)",
	"1 … 9, Tab     views                   ↑ ↓ PgUp PgDn Home End   move (also j k)",
	"< >, ← →       sort by another column  r   reverse the order",
	"/              filter                  Esc clear the filter, go back",
	"Space, f       freeze, go on           + - refresh less often, more often",
	"t m            threads, mappings of the process under the cursor",
	"c              command lines with the path, without, or names alone",
	"Enter          trace the process under the cursor; Ctrl-C comes back here",
	"               on a program or a cgroup: its processes",
	"h ? F1, q      this page, quit         mouse: rows, titles, views, wheel",
	"",
	"# Filter",
	"redis 812      name or command line has redis, and 812; a number is also a PID",
	"user:web       also pid:812, cgroup:/system.slice, name:redis; !word: without it",
	"",
	"# Marks",
	"?  no permission: root or CAP_SYS_PTRACE (from 6.15 CAP_PERFMON) reads it",
	"…  not read yet, or left out to stay within the stall budget   -  there is none",
	">  at least: some parts could not be read      ~  the kernel only estimates it",
	"~  dim: it was read before the memory changed, and waits for the stall budget",
	"",
}

// helpText is the help page of a view: keys, then its columns. What doesn't fit
// into width goes on in the next line.
func helpText(v View, width int) []string {
	var lines []string
	for _, line := range keyHelp {
		lines = append(lines, tui.FitHelp(line, width)...)
	}
	lines = append(lines, "# Columns of "+infoOf(v).tab)
	for _, c := range infoOf(v).table(&Snapshot{}, options{}).Columns {
		title := c.Title
		if title == "" {
			title = "(bar)"
		}
		lines = append(lines, tui.Explained(title, c.Doc, width)...)
	}
	return lines
}

// ColumnHelp lists the views and their columns for --help.
func ColumnHelp() string {
	var b strings.Builder
	for i, v := range views {
		fmt.Fprintf(&b, "  %s %s\n      %s\n", strconv.Itoa(i+1), render.Pad(string(v.view), 11, false),
			strings.Join(v.view.SortKeys(), ", "))
	}
	return b.String()
}
