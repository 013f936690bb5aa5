package blocks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/export"
	"github.com/memtrace/memtrace/analyzer/input"
)

// A survey is what is known of a stream after it was gone through once.
type survey struct {
	options   Options
	processes map[processKey]*process
	list      []*process          // in the order of their first blocks
	byPID     map[uint32]*process // the latest
	last      uint64              // ns since Config.Start: the end
	sizes     sizes
	stacks    *stackTree
	notes     []string

	sites  []bool   // by number: those of blocks
	recent *process // of the block before
}

// A processKey tells processes apart. Children in a group share the number that Reports list them under.
type processKey struct {
	id  int
	pid uint32
}

func keyOf(h *happening) processKey { return processKey{h.Process, h.PID} }

// A process is one that had blocks.
type process struct {
	key      processKey
	number   int // in survey.list
	info     analyzer.ProcessInfo
	births   uint64
	lastExec uint64 // ns since Config.Start; 0: none
	sampled  bool
}

// comm is its name, and never empty.
func (p *process) comm() string {
	if p.info.Comm == "" {
		return "[process]"
	}
	return export.Clip(p.info.Comm)
}

func takeSurvey(play Source, o Options) (*survey, error) {
	s := &survey{options: o, processes: make(map[processKey]*process), byPID: make(map[uint32]*process), stacks: newStackTree()}
	a, last, missing, err := follow(play, o, s)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	s.last, s.notes = last, missing
	if len(s.list) == 0 {
		return nil, s.noBlocks()
	}
	for number, used := range s.sites {
		if !used {
			s.stacks.skip()
			continue
		}
		n, _ := a.Site(uint32(number))
		s.stacks.add(n.Frames, n.Truncated)
	}
	s.stacks.done()
	for _, p := range s.list {
		p.info, _ = a.Info(p.key.pid)
	}
	return s, nil
}

func (s *survey) noBlocks() error {
	if s.options.PID != 0 {
		return fmt.Errorf("%w: no block of PID %d is in the recording", ErrProcess, s.options.PID)
	}
	return fmt.Errorf("%w: the recording has no blocks", ErrProcess)
}

// noteSampled says what a sample means for a process's figures.
func (s *survey) noteSampled(p *process) {
	switch {
	case !p.sampled:
	case s.options.Format == Perfetto:
		s.note("blocks of %s (PID %d) were sampled: all figures are estimates (docs/sampling.md)", p.comm(), p.key.pid)
	default:
		s.note("blocks of %s (PID %d) were sampled: bytes are estimates (docs/sampling.md), and the number of blocks is the sample's", p.comm(), p.key.pid)
	}
}

// note adds what the reader of the file has to know.
func (s *survey) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

func (s *survey) happened(h *happening) {
	p := s.processOf(h)
	if p == nil {
		p = &process{key: keyOf(h), number: len(s.list)}
		s.processes[p.key] = p
		s.list = append(s.list, p)
		s.byPID[p.key.pid] = p
	}
	s.sizes.add(h.Size)
	if h.end {
		return
	}
	p.births++
	p.sampled = p.sampled || h.Interval != 0
	if missing := int(h.Site) + 1 - len(s.sites); missing > 0 {
		s.sites = append(s.sites, make([]bool, missing)...)
	}
	s.sites[h.Site] = true
}

// processOf is the process of a block.
func (s *survey) processOf(h *happening) *process {
	key := keyOf(h)
	if s.recent == nil || s.recent.key != key {
		s.recent = s.processes[key]
	}
	return s.recent
}

func (s *survey) told(in input.Input, _ uint64) {
	execs(in, func(pid uint32, time uint64) {
		if p := s.byPID[pid]; p != nil {
			p.lastExec = time - min(time, s.options.Config.Start)
		}
	})
}

// follow goes through the stream again.
func (s *survey) follow(play Source, to sink) error {
	a, _, _, err := follow(play, s.options, to)
	if err != nil {
		return err
	}
	a.Close()
	return nil
}

// maxNamed bounds the processes that an error names.
const maxNamed = 20

// onlyProcess is the one process that there is, or that was asked for.
func (s *survey) onlyProcess() (*process, error) {
	if s.options.PID != 0 {
		p := s.byPID[s.options.PID]
		if len(s.list) > 1 {
			s.note("%d processes had the PID %d, one after the other: the file is of the last", len(s.list), s.options.PID)
		}
		return p, nil
	}
	if len(s.list) == 1 {
		return s.list[0], nil
	}
	largest := slices.SortedFunc(slices.Values(s.list), func(a, b *process) int { return cmp.Compare(b.births, a.births) })
	var names []string
	for _, p := range largest[:min(len(largest), maxNamed)] {
		names = append(names, fmt.Sprintf("%d (%s, %d allocations)", p.key.pid, p.comm(), p.births))
	}
	if more := len(largest) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return nil, fmt.Errorf("%w: %s holds one, and the recording has %d; name one with --pid: %s",
		ErrProcess, s.options.Format, len(s.list), strings.Join(names, ", "))
}
