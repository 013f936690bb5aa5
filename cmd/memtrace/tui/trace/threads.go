package trace

import (
	"slices"
	"strconv"

	"github.com/memtrace/memtrace/analyzer/render"
)

// Threads takes what threads have done by the next Report, those that allocated most first. sampled says that this is of a sample of
// the blocks. The slice must not change any more.
func (m *Screen) Threads(threads []render.ThreadSum, sampled bool) {
	m.latestThreads, m.sampledThreads = threads, sampled
}

func (m *Screen) threadList() list {
	filter := m.filters[threadsView]
	all := slices.DeleteFunc(slices.Clone(m.threads), func(t render.ThreadSum) bool {
		return !matches(filter, t.Name, strconv.Itoa(t.TID), strconv.Itoa(t.PID))
	})
	rest := ""
	if m.sampledThreads {
		rest = "blocks of the sample alone"
	}
	return list{
		keys: keysOf(len(all), func(i int) string { return strconv.Itoa(all[i].PID) + "/" + strconv.Itoa(all[i].TID) }),
		table: func(from, to int) render.Table {
			return render.ThreadTable(all[from:to], len(m.shown.Processes) > 1, m.width)
		},
		empty: m.none(m.noSites()),
		rest:  rest,
	}
}
