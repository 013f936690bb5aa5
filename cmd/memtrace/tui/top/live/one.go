package live

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/memtrace/memtrace/cmd/memtrace/tui/top"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/collect"
)

// What is read of one process, at most.
const (
	maxThreads  = 10_000
	maxMappings = 100_000
	maxNames    = 16 << 20 // bytes of names that are shown
)

// subject opens the process that is looked at; it is nil where it cannot be.
func (s *Source) subject(out *top.Snapshot, want top.Want) *procfs.Process {
	pid := want.PID
	out.Of = top.Subject{PID: pid}
	if pid <= 0 {
		out.Of.Problem = "choose a process in view 1 first"
		return nil
	}
	p, err := s.fs.Process(pid)
	if err == nil {
		var st procfs.Stat
		st, err = p.Stat()
		if err == nil && want.Start != 0 && st.StartTime != want.Start {
			err = procfs.ErrGone
		}
		if err == nil {
			out.Of.Start, out.Of.Name = st.StartTime, st.Comm
			return p
		}
		_ = p.Close()
	}
	out.Of.Problem = fmt.Sprintf("process %d: %v", pid, reason(err))
	return nil
}

// reason is the cause of an error in few words.
func reason(err error) error {
	for _, cause := range []error{procfs.ErrGone, procfs.ErrKernelThread, procfs.ErrNotSupported} {
		if errors.Is(err, cause) {
			return cause
		}
	}
	return err
}

func (s *Source) addThreads(out *top.Snapshot, want top.Want) {
	p, pid := s.subject(out, want), want.PID
	if p == nil {
		return
	}
	defer p.Close()
	tids, err := p.Tasks()
	if err != nil {
		out.Of.Problem = fmt.Sprintf("threads of process %d: %v", pid, reason(err))
		return
	}
	if len(tids) > maxThreads {
		out.Notes = append(out.Notes, fmt.Sprintf("only the first %d of %d threads are shown", maxThreads, len(tids)))
		tids = tids[:maxThreads]
	}
	stacks, err := readStacks(p)
	uptime := sinceBoot()
	for _, tid := range tids {
		st, readErr := p.TaskStat(tid)
		if readErr != nil {
			continue // it has ended
		}
		t := top.Thread{
			TID: tid, Name: st.Comm, State: st.State, Priority: top.Of(st.Priority), Nice: top.Of(st.Nice),
			CPUTime:     top.Of(int64(st.UTime+st.STime) * int64(procfs.ClockTick)),
			Running:     top.Of(int64(uptime) - int64(st.StartTime)*int64(procfs.ClockTick)),
			MinorFaults: top.Of(st.MinFlt), MajorFaults: top.Of(st.MajFlt), Processor: top.Of(st.Processor),
		}
		t.Node.State = top.Unsupported
		if node, ok := s.cpuNode[st.Processor]; ok {
			t.Node = top.Of(node)
		}
		stacks.place(p, tid, &t, err)
		out.Threads = append(out.Threads, t)
	}
}

// stackVMAs are the writable mappings of a process, in order of address.
type stackVMAs []stackVMA

type stackVMA struct {
	start, end uint64
	name       string
}

func readStacks(p *procfs.Process) (stackVMAs, error) {
	var vmas stackVMAs
	var names procfs.Names
	err := p.Maps(func(v *procfs.VMA) {
		if v.Perms&procfs.Write != 0 && len(vmas) < maxMappings {
			vmas = append(vmas, stackVMA{v.Start, v.End, names.Of(v.Path)})
		}
	})
	return vmas, err
}

// place finds the mapping that a thread's stack pointer is in.
func (vmas stackVMAs) place(p *procfs.Process, tid int, t *top.Thread, mapsErr error) {
	sp, ok, err := p.TaskStackPointer(tid)
	if err == nil {
		err = mapsErr
	}
	state := stateOf(procfs.OutcomeOf(err))
	if err == nil && !ok {
		state = top.Unread // it runs at the moment
	}
	t.StackSize.State, t.StackPlace.State = state, state
	if state != top.Known {
		return
	}
	i := sort.Search(len(vmas), func(i int) bool { return vmas[i].end > sp })
	if i == len(vmas) || sp < vmas[i].start {
		t.StackSize.State, t.StackPlace.State = top.None, top.None
		return
	}
	t.StackSize, t.StackPlace, t.StackName = top.Of(vmas[i].end-vmas[i].start), top.Of(vmas[i].start), vmas[i].name
}

// mapped are the mappings of a process, as far as they are shown.
type mapped struct {
	mappings []top.Mapping
	more     int // that are not
}

// addMappings shows the mappings of a process. Reading them walks its page
// tables, so what was read last stays for as long as the stall budget wants.
func (s *Source) addMappings(out *top.Snapshot, pass *collect.Pass, want top.Want) {
	p, pid := s.subject(out, want), want.PID
	if p == nil {
		return
	}
	_ = p.Close()
	i := slices.IndexFunc(pass.Processes, func(p *collect.Process) bool { return p.PID == pid })
	if i < 0 {
		out.Of.Problem = fmt.Sprintf("process %d: %v", pid, procfs.ErrGone)
		return
	}
	one := *pass
	one.Processes = pass.Processes[i : i+1]
	s.mapped.pass(s.fs, &one, &out.Cost, readMapped)
	h := s.mapped.processes[one.Processes[0].Identity]
	switch {
	case h == nil:
		out.Of.Problem = fmt.Sprintf("process %d has no memory of its own", pid)
	case h.known:
		out.Mappings = h.value.mappings
		addAge(out, pass.At.Sub(h.at), h.value.more)
	case h.outcome == procfs.NotRead:
		out.Of.Problem = fmt.Sprintf("process %d is so large that reading its mappings would exceed the stall budget; --stall-budget 0 reads them", pid)
	default:
		out.Of.Problem = fmt.Sprintf("mappings of process %d: %v", pid, h.outcome)
	}
}

func addAge(out *top.Snapshot, age time.Duration, more int) {
	if age > 2*time.Second {
		out.Notes = append(out.Notes, fmt.Sprintf("read %v ago: unchanged since, or left alone to stay within the stall budget", age.Round(time.Second)))
	}
	if more > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%d more mappings are not shown", more))
	}
}

func readMapped(p *procfs.Process) (mapped, error) {
	var m mapped
	var names procfs.Names
	shown := 0 // bytes of names, each as often as it is shown
	err := p.Smaps(func(v *procfs.VMA) {
		if shown += len(v.Path); len(m.mappings) >= maxMappings || shown > maxNames {
			m.more++
			return
		}
		m.mappings = append(m.mappings, mappingOf(v, names.Of(v.Path)))
	})
	return m, err
}

func mappingOf(v *procfs.VMA, name string) top.Mapping {
	return top.Mapping{
		Start: v.Start, End: v.End, Perms: v.Perms.String(), Kind: v.Kind.String(), Name: name, Offset: v.Offset,
		RSS: top.Of(v.Rss), PSS: top.Of(v.Pss), USS: top.Of(v.USS()), Dirty: top.Of(v.SharedDirty + v.PrivateDirty),
		Swap: top.Of(v.Swap), Huge: top.Of(v.AnonHuge), Locked: top.Of(v.Locked),
	}
}
