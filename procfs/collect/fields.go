package collect

// Fields chooses what a pass reads of each process. What /proc/PID/stat tells
// is always read, as it tells processes apart.
type Fields uint16

const (
	// User is UID: /proc/PID/status.
	User Fields = 1 << iota
	// Cmdline is Process.Cmdline: /proc/PID/cmdline, from the target's memory.
	Cmdline
	// Cgroup is Process.Cgroup: /proc/PID/cgroup.
	Cgroup
	// OOMScore is Process.OOMScore: /proc/PID/oom_score.
	OOMScore
	// Shared is Process.Shared: /proc/PID/statm.
	Shared
	// Memory is Process.Memory, with PSS, USS and Swap: /proc/PID/smaps_rollup.
	// It walks the target's page tables, at the cost of a stall.
	Memory
	// InnerPIDs is Process.InnerPIDs: /proc/PID/status, once for each process.
	InnerPIDs

	// Basic is all that takes neither privileges nor walks.
	Basic = User | Cmdline | Cgroup | OOMScore | Shared
	// All is everything but InnerPIDs.
	All = Basic | Memory
)

const fieldCount = 7

// index is the place of a single field.
func (f Fields) index() int {
	for i := range fieldCount {
		if f == 1<<i {
			return i
		}
	}
	return fieldCount
}
