package export

import (
	"io"
	"slices"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
)

// speedscopeSchema says where the format is described.
const speedscopeSchema = "https://www.speedscope.app/file-format-schema.json"

type speedscopeFile struct {
	Schema   string              `json:"$schema"`
	Name     string              `json:"name"`
	Exporter string              `json:"exporter"`
	Active   int                 `json:"activeProfileIndex"`
	Shared   speedscopeShared    `json:"shared"`
	Profiles []speedscopeProfile `json:"profiles"`
}

type speedscopeShared struct {
	Frames []speedscopeFrame `json:"frames"`
}

type speedscopeFrame struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

type speedscopeProfile struct {
	Type    string   `json:"type"`
	Name    string   `json:"name"`
	Unit    string   `json:"unit"`
	Start   int64    `json:"startValue"`
	End     int64    `json:"endValue"`
	Samples [][]int  `json:"samples"` // frames from the process inward
	Weights []uint64 `json:"weights"`
}

// writeSpeedscope writes a profile for each kind that the Report has.
func writeSpeedscope(w io.Writer, r *report.Report, opt Options) error {
	stacks := stacksOf(r)
	out := speedscopeFile{
		Schema: speedscopeSchema, Name: processesOf(r), Exporter: "memtrace " + opt.Version,
		Shared: speedscopeShared{Frames: []speedscopeFrame{}},
	}
	paths := speedscopePaths(stacks, &out.Shared)
	for _, k := range kinds {
		if k.kind != opt.kind() && total(stacks, k.kind).figure(k.kind) == 0 {
			continue
		}
		if k.kind == opt.kind() {
			out.Active = len(out.Profiles)
		}
		out.Profiles = append(out.Profiles, speedscopeOf(stacks, paths, k.kind))
	}
	data, err := render.EncodeJSON(out, "", false)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

func speedscopeOf(stacks []stack, paths [][]int, k Kind) speedscopeProfile {
	p := speedscopeProfile{Type: "sampled", Name: kinds[k.index()].title, Unit: "bytes", Samples: [][]int{}, Weights: []uint64{}}
	if k.counts() {
		p.Unit = "none"
	}
	var sum uint64
	for i := range stacks {
		if v := stacks[i].weights[k.index()].figure(k); v > 0 {
			p.Samples, p.Weights = append(p.Samples, paths[i]), append(p.Weights, v)
			sum = add(sum, v)
		}
	}
	p.End = signed(sum)
	return p
}

// speedscopePaths writes frames into the shared table, and returns each stack as indexes into it.
func speedscopePaths(stacks []stack, shared *speedscopeShared) [][]int {
	index := make(map[speedscopeFrame]int)
	of := func(f speedscopeFrame) int {
		at, ok := index[f]
		if !ok {
			at = len(shared.Frames)
			index[f] = at
			shared.Frames = append(shared.Frames, f)
		}
		return at
	}
	out := make([][]int, len(stacks))
	for i := range stacks {
		s := &stacks[i]
		steps := s.path(true)
		first := len(steps) - len(s.frames)
		for j, step := range steps {
			f := speedscopeFrame{Name: step.label, File: step.module}
			if len(s.frames) > 0 && j >= first {
				if frame := s.frames[len(steps)-1-j]; frame.File != "" {
					f.File, f.Line = clip(frame.File), frame.Line
				}
			}
			out[i] = append(out[i], of(f))
		}
		out[i] = slices.Clip(out[i])
	}
	return out
}
