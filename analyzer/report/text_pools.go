package report

import (
	"fmt"

	"github.com/memtrace/memtrace/analyzer"
)

// poolsShown is how many names of pools the text of a process has.
const poolsShown = 12

// addPools adds what the process's pools hold, by name.
func addPools(p *page, proc *analyzer.Process) {
	if len(proc.Pools) == 0 {
		return
	}
	var items []string
	shown := proc.Pools[:min(len(proc.Pools), poolsShown)]
	for i := range shown {
		pool := &shown[i]
		items = append(items, fmt.Sprintf("%s %s in %s (%s)", clean(pool.Name), size(pool.LiveBytes),
			counted(pool.LiveCount, "block", "blocks"), counted(uint64(pool.Pools), "pool", "pools")))
	}
	if more := len(proc.Pools) - len(shown) + proc.PoolsMore; more > 0 {
		items = append(items, fmt.Sprintf("%d more names", more))
	}
	p.flow(plain, "  Pools ", items, ", ")
}
