package trace

import "github.com/memtrace/memtrace/cmd/memtrace/tui"

var keyHelp = []string{
	"# Keys",
	"q, Ctrl-C      end the trace; its result stays on the terminal",
	"h ? F1         this page               Space, f   freeze, go on",
	"↑ ↓ j k        move, also PgUp PgDn Home End",
	"Enter          a site's stack, history, sizes and lifetimes; a group's sites",
	"Esc            back: page, filter, group, view",
	"1 … 7, Tab     views                   l m p n t  growth and leaks, mapped, pools, notes, threads",
	"s r            sort by the next figure, reverse the order",
	"g              group by function, caller, file, module, size, or not",
	"/              filter: words in any frame of the stack; !word: without it",
	"+ -            update less often, more often",
	"",
	"# The lines at the top",
	"RSS            by kind; the figures add up as they stand",
	"Heap           blocks that were allocated since the attach and not freed",
	"Look at        what grows fastest, or what holds most",
	"",
	"# Columns",
	"LIVE COUNT     bytes and blocks that nobody has freed",
	"±              one standard error, where blocks are sampled",
	"Δ              change of LIVE since the update before",
	"RES            of LIVE, in memory; ? not looked yet",
	"ALLOCS FREES   since the attach",
	"TEMP           freed before their thread's next allocation",
	"OLDEST         age of the oldest live block",
	"TREND          LIVE at the last updates, from 120 columns on",
	"RATE           bytes that a thread allocated a second, since the update before",
	"GROWS          how fast the live bytes of a site keep rising",
	"",
}

// helpText is the help page. What doesn't fit into width goes on in the next line.
func helpText(width int) []string {
	var lines []string
	for _, line := range keyHelp {
		lines = append(lines, tui.FitHelp(line, width)...)
	}
	return lines
}
