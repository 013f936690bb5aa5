package render

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/memtrace/memtrace/analyzer/matrix"
	"github.com/memtrace/memtrace/analyzer/snapshot"
)

// MatrixSchema names the JSON of a matrix. Sizes are bytes, times nanoseconds.
const MatrixSchema = "memtrace.matrix/1"

// matrixDocument is the JSON of a matrix. Figures that are not known are null.
type matrixDocument struct {
	Schema     string          `json:"schema"`
	Host       string          `json:"host"`
	Kernel     string          `json:"kernel"`
	BootID     string          `json:"boot_id"`
	TakenAt    time.Time       `json:"taken_at"`
	TookNS     int64           `json:"took_ns"`
	PageSize   uint64          `json:"page_size"`
	Estimated  bool            `json:"estimated"` // PSS and USS, by the kernel
	Machine    figures         `json:"machine"`
	Processes  []matrixProcess `json:"processes"`
	Came       []passing       `json:"came"`
	Went       []passing       `json:"went"`
	Warnings   []string        `json:"warnings"`
	KernelOnly int             `json:"kernel_threads"`
	Zombies    int             `json:"zombies"`
	Pages      *pageDocument   `json:"pages,omitempty"`
}

type matrixProcess struct {
	PID        int               `json:"pid"`
	StartTime  uint64            `json:"start_time"`
	Comm       string            `json:"comm"`
	User       string            `json:"user"`
	Cmdline    *string           `json:"cmdline"`
	Cgroup     *string           `json:"cgroup"`
	USS        *uint64           `json:"uss"`
	PSS        *uint64           `json:"pss"`
	RSS        *uint64           `json:"rss"`
	Swap       *uint64           `json:"swap"`
	Anon       *uint64           `json:"anon"`
	Tables     uint64            `json:"page_tables"`
	Statm      uint64            `json:"rss_counter"` // the kernel's own counter, always readable
	Unread     string            `json:"unavailable,omitempty"`
	Why        string            `json:"why,omitempty"`
	Moved      int64             `json:"rss_moved"`
	HoldNS     int64             `json:"hold_ns"`
	Components []matrixComponent `json:"components"`
}

type matrixComponent struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"`
	USS      uint64 `json:"uss"`
	PSS      uint64 `json:"pss"`
	RSS      uint64 `json:"rss"`
	Swap     uint64 `json:"swap"`
	Anon     uint64 `json:"anon"`
	Size     uint64 `json:"size"`
	Mappings int    `json:"mappings"`
	Device   uint64 `json:"device,omitempty"`
	Inode    uint64 `json:"inode,omitempty"`
}

type passing struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"start_time"`
	Comm      string `json:"comm"`
}

// figures is an object of names and numbers, in their order.
type figures []snapshot.Figure

func (f figures) MarshalJSON() ([]byte, error) {
	m := make(map[string]uint64, len(f))
	for _, one := range f {
		m[one.Name] = one.Value
	}
	return json.Marshal(m)
}

func matrixJSON(t *matrix.Table, opt MatrixOptions) ([]byte, error) {
	if opt.Table == tablePages && t.Snapshot.Pages == nil {
		return nil, errNoPages
	}
	return encodeDocument(newMatrixDocument(t, opt))
}

func encodeDocument(doc any) ([]byte, error) { return EncodeJSON(doc, "  ", false) }

func newMatrixDocument(t *matrix.Table, opt MatrixOptions) *matrixDocument {
	s := t.Snapshot
	doc := &matrixDocument{
		Schema: MatrixSchema, Host: ValidText(s.Machine.Hostname), Kernel: s.Machine.Kernel, BootID: s.Machine.BootID,
		TakenAt: s.Begin.UTC(), TookNS: int64(s.Took()), PageSize: s.Machine.PageSize, Estimated: s.Machine.Averaged,
		Machine: s.Machine.Before, Processes: []matrixProcess{}, Came: passings(s.Changes.Came), Went: passings(s.Changes.Went),
		Warnings: orEmpty(s.Warnings), KernelOnly: s.KernelThreads, Zombies: s.Zombies,
		Pages: newPageDocument(s, opt),
	}
	for _, p := range topRows(t.Rows, opt.Top) {
		doc.Processes = append(doc.Processes, newMatrixProcess(s, p))
	}
	return doc
}

func newMatrixProcess(s *snapshot.Snapshot, p *snapshot.Process) matrixProcess {
	out := matrixProcess{
		PID: p.PID, StartTime: p.StartTime, Comm: ValidText(p.Comm), User: ValidText(p.User), Tables: p.Usage.Tables, Statm: p.Resident,
		Moved: p.Moved(), HoldNS: int64(p.Hold), Components: []matrixComponent{},
	}
	if p.CmdlineAccess == snapshot.Known {
		text := ValidText(strings.Join(p.Cmdline, " "))
		out.Cmdline = &text
	}
	if p.CgroupAccess == snapshot.Known {
		group := ValidText(p.Cgroup)
		out.Cgroup = &group
	}
	if p.Access != snapshot.Known {
		out.Unread, out.Why = p.Access.String(), ValidText(p.Why)
		return out
	}
	u := &p.Usage
	out.USS, out.PSS, out.RSS, out.Swap, out.Anon = &u.USS, &u.PSS, &u.RSS, &u.Swap, &u.Anon
	for i := range p.Uses {
		u := &p.Uses[i]
		c := &s.Components[u.Component]
		out.Components = append(out.Components, matrixComponent{
			Name: ValidText(c.Name), Kind: c.Kind.String(), USS: u.USS, PSS: u.PSS, RSS: u.RSS, Swap: u.Swap, Anon: u.Anon,
			Size: u.Size, Mappings: u.Mappings, Device: c.Device, Inode: c.Inode,
		})
	}
	return out
}

func passings(list []snapshot.Passing) []passing {
	out := []passing{}
	for _, p := range list {
		out = append(out, passing{p.PID, p.StartTime, ValidText(p.Comm)})
	}
	return out
}
