package render

import (
	"time"

	"github.com/memtrace/memtrace/analyzer/matrix"
	"github.com/memtrace/memtrace/analyzer/snapshot"
)

// DiffSchema names the JSON of a diff of snapshots. Sizes are bytes.
const DiffSchema = "memtrace.snapshot-diff/1"

type diffDocument struct {
	Schema     string          `json:"schema"`
	By         matrix.By       `json:"by"`
	Before     diffSide        `json:"before"`
	After      diffSide        `json:"after"`
	SameBoot   bool            `json:"same_boot"`
	Total      diffDeltas      `json:"total"`
	Processes  []diffProcess   `json:"processes"`
	Components []diffComponent `json:"components"`
	Machine    []diffFigure    `json:"machine"`
	Unknown    int             `json:"unknown_processes"`
}

type diffSide struct {
	Host    string    `json:"host"`
	BootID  string    `json:"boot_id"`
	TakenAt time.Time `json:"taken_at"`
}

type delta struct {
	Before uint64 `json:"before"`
	After  uint64 `json:"after"`
	Growth int64  `json:"growth"`
}

type diffDeltas struct {
	RSS  delta `json:"rss"`
	PSS  delta `json:"pss"`
	USS  delta `json:"uss"`
	Swap delta `json:"swap"`
}

type diffProcess struct {
	PID       int          `json:"pid"`
	StartTime uint64       `json:"start_time"`
	Comm      string       `json:"comm"`
	State     matrix.State `json:"state"`
	Why       string       `json:"why,omitempty"`
	*diffDeltas
	Components []diffComponent `json:"components"`
}

type diffComponent struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	diffDeltas
}

type diffFigure struct {
	Name string `json:"name"`
	delta
}

func newDiffDocument(d *matrix.Diff, opt MatrixOptions) *diffDocument {
	doc := &diffDocument{
		Schema: DiffSchema, By: d.By, Before: newSide(d.A), After: newSide(d.B), SameBoot: d.SameBoot, Total: newDeltas(&d.Total),
		Processes: []diffProcess{}, Components: newDiffComponents(d.Components), Machine: []diffFigure{}, Unknown: d.Unknown,
	}
	for _, f := range d.Machine {
		doc.Machine = append(doc.Machine, diffFigure{f.Name, newDelta(f.Delta)})
	}
	for _, c := range topRows(d.Processes, opt.Top) {
		out := diffProcess{
			PID: c.PID, StartTime: c.StartTime, Comm: c.Process().Comm, State: c.State, Components: newDiffComponents(c.Components),
		}
		if c.State == matrix.Unknown {
			out.Why = whyUnknown(&c)
		} else {
			deltas := newDeltas(&c.Deltas)
			out.diffDeltas = &deltas
		}
		doc.Processes = append(doc.Processes, out)
	}
	return doc
}

func newSide(s *snapshot.Snapshot) diffSide {
	return diffSide{s.Machine.Hostname, s.Machine.BootID, s.Begin.UTC()}
}

func newDelta(d matrix.Delta) delta { return delta{d.Before, d.After, d.Growth()} }

func newDeltas(d *matrix.Deltas) diffDeltas {
	return diffDeltas{newDelta(d.RSS), newDelta(d.PSS), newDelta(d.USS), newDelta(d.Swap)}
}

func newDiffComponents(list []matrix.ComponentChange) []diffComponent {
	out := []diffComponent{}
	for i := range list {
		out = append(out, diffComponent{list[i].Name, list[i].Kind.String(), newDeltas(&list[i].Deltas)})
	}
	return out
}

// whyUnknown says which snapshot has no figures of a process, and why.
func whyUnknown(c *matrix.Change) string {
	if c.Before != nil && c.Before.Access != snapshot.Known {
		return "before: " + c.Before.Access.String()
	}
	return "after: " + c.After.Access.String()
}
