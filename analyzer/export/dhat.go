package export

import (
	"fmt"
	"io"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
)

// dhatFile is version 2 of what Valgrind's dhat writes, in its shape without the
// lifetimes of blocks ("bklt"): a Report has no sums of those.
type dhatFile struct {
	Version   int         `json:"dhatFileVersion"`
	Mode      string      `json:"mode"`
	Verb      string      `json:"verb"`
	Lifetimes bool        `json:"bklt"`
	Accesses  bool        `json:"bkacc"`
	Bytes     string      `json:"bu"`
	BytesLong string      `json:"bsu"`
	Blocks    string      `json:"bksu"`
	Time      string      `json:"tu"`
	TimeLong  string      `json:"Mtu"`
	Command   string      `json:"cmd"`
	PID       int         `json:"pid"`
	End       uint64      `json:"te"`
	Points    []dhatPoint `json:"pps"`
	Frames    []string    `json:"ftbl"`
}

// dhatPoint is a stack with its bytes and blocks.
type dhatPoint struct {
	Bytes  uint64 `json:"tb"`
	Blocks uint64 `json:"tbk"`
	Stack  []int  `json:"fs"` // innermost first
}

// writeDHAT writes one kind, for dh_view.html.
func writeDHAT(w io.Writer, r *report.Report, opt Options) error {
	k, stacks := opt.kind(), stacksOf(r)
	out := dhatFile{
		Version: 2, Mode: "memtrace", Verb: kinds[k.index()].title, Bytes: "byte", BytesLong: "bytes", Blocks: "blocks",
		Time: "ns", TimeLong: "Ms", Command: processesOf(r), End: r.WindowNS, Points: []dhatPoint{}, Frames: []string{"[root]"},
	}
	// dh_view counts Mtu as a million of tu.
	if len(r.Processes) > 0 {
		out.PID = r.Processes[0].PID
	}
	index := make(map[string]int)
	of := func(text string) int {
		at, ok := index[text]
		if !ok {
			at = len(out.Frames)
			index[text] = at
			out.Frames = append(out.Frames, text)
		}
		return at
	}
	for i := range stacks {
		w := stacks[i].weights[k.index()]
		if w.figure(k) == 0 {
			continue
		}
		point := dhatPoint{Bytes: w.bytes, Blocks: w.count}
		for _, text := range stacks[i].lines() {
			point.Stack = append(point.Stack, of(text))
		}
		out.Points = append(out.Points, point)
	}
	data, err := render.EncodeJSON(out, "", false)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// lines are a stack as Valgrind writes frames, "0x1234: function (file:line)", the
// innermost first and the process last.
func (s *stack) lines() []string {
	path := s.path(true)
	var out []string
	for i := len(path) - 1; i >= 0; i-- {
		inner := len(path) - 1 - i
		if inner >= len(s.frames) {
			out = append(out, "0x0: "+path[i].label)
			continue
		}
		f := s.frames[inner]
		where := source(f)
		if where == "" && f.Module != "" {
			where = "in " + clip(f.Module)
		}
		text := fmt.Sprintf("0x%X: %s", f.Offset, path[i].label)
		if where != "" {
			text += " (" + where + ")"
		}
		out = append(out, text)
	}
	return out
}
