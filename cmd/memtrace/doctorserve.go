//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/cmd/memtrace/agent"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/cgroup"
	"github.com/memtrace/memtrace/tracer"
)

// diagnoseServe says what memtrace serve lacks to do what a configuration asks for.
func diagnoseServe(w io.Writer, file string) error {
	unit := readServiceUnit("/")
	x := agent.Examine(agent.Options{ConfigFile: file})
	sets, err := ownCapabilities()
	if err != nil {
		return err
	}
	all := slices.Concat(x.Findings, examineRights(&x, &unit, sets.effective), examineKernel(&x), examineMemory(&x, &unit))
	if unit.file != "" {
		all = append(madeByUnit(&x, &unit, all), examineUnit(&x, &unit)...)
	}
	fmt.Fprintf(w, "memtrace %s on Linux %s, as user %d: what memtrace serve needs\n\n", version, kernelRelease(),
		os.Geteuid())
	wrong, notAllowed := false, false
	for i := range all {
		f := &all[i]
		printFinding(w, f)
		wrong = wrong || f.State == agent.Wrong
		notAllowed = notAllowed || f.State == agent.Wrong && f.NotAllowed
	}
	switch {
	case notAllowed:
		return &exitError{exitUnsupported, errors.New(cannotServe)}
	case wrong:
		return errors.New(cannotServe)
	}
	fmt.Fprintln(w, "\nNothing keeps memtrace serve from what it is to do.")
	return nil
}

const cannotServe = "memtrace serve can't do here what it is to; see above"

func printFinding(w io.Writer, f *agent.Finding) {
	word := map[agent.State]string{agent.Fine: "fine", agent.Less: "less", agent.Wrong: "WRONG"}[f.State]
	fmt.Fprintf(w, "  %-6s %-16s %s\n", word, f.What, render.Clean(f.Text))
	if f.Remedy != "" {
		fmt.Fprintf(w, "  %-6s %-16s   remedy: %s\n", "", "", render.Clean(f.Remedy))
	}
}

// capPtrace is CAP_SYS_PTRACE.
const capPtrace = 19

// forGrowth are what watching growth takes; nothing of it is a probe.
func forGrowth() []capability {
	return slices.DeleteFunc(needed(), func(c capability) bool { return c.bit == capSysAdmin })
}

// examineRights looks who may do what: this user, and the unit.
func examineRights(x *agent.Examined, unit *serviceUnit, own uint64) []agent.Finding {
	wanted := slices.DeleteFunc(needed(), func(c capability) bool { return c.bit != capPtrace })
	f := []agent.Finding{rightsFor("PSS of all users", wanted, unit, own, agent.Less)}
	if x.Watched > 0 {
		f = append(f, rightsFor("growth", forGrowth(), unit, own, agent.Wrong))
	}
	if x.Traces {
		f = append(f, rightsFor(tracesOnAlerts, needed(), unit, own, agent.Wrong))
	}
	return f
}

// tracesOnAlerts is what an alert with trace asks for.
const tracesOnAlerts = "traces on alerts"

// rightsFor looks whether somebody has all capabilities that something takes. without is what it is to have none.
func rightsFor(what string, wanted []capability, unit *serviceUnit, own uint64, without agent.State) agent.Finding {
	missing := func(set uint64) string {
		return capabilityNames(slices.DeleteFunc(slices.Clone(wanted), func(c capability) bool { return allows(set, c) }))
	}
	lacks, f := missing(own), agent.Finding{What: what, NotAllowed: true}
	dropIn := "growth.conf"
	if what == tracesOnAlerts {
		dropIn = "trace.conf"
	}
	if unit.file == "" {
		if lacks == "" {
			f.Text = "this user has " + capabilityNames(wanted)
			return f
		}
		f.State, f.Text = without, "this user lacks "+lacks
		f.Remedy = "run memtrace serve as root, or by packaging/systemd/memtrace.service (with memtrace-growth.conf for " +
			"growth, memtrace-trace.conf for traces)"
		return f
	}
	unitLacks := missing(unit.capabilities())
	switch {
	case unitLacks == "":
		f.Text = unit.file + " gives " + capabilityNames(wanted)
	case lacks == "":
		f.State, f.Text = agent.Less, fmt.Sprintf("this user has all that it takes, and %s doesn't give %s", unit.file,
			unitLacks)
	default:
		f.State, f.Text = without, fmt.Sprintf("this user lacks %s, and %s doesn't give %s", lacks, unit.file, unitLacks)
	}
	if unitLacks != "" {
		f.Remedy = fmt.Sprintf("packaging/systemd/memtrace-%s as /etc/systemd/system/memtrace.service.d/%s, then "+
			"systemctl daemon-reload && systemctl restart memtrace", dropIn, dropIn)
	}
	return f
}

// examineKernel looks what the kernel has of what is asked for.
func examineKernel(x *agent.Examined) (out []agent.Finding) {
	out = append(out, examineFile("PSS", "/proc/self/smaps_rollup", agent.Less,
		"Linux 4.14 has it; until then PSS costs more to read"))
	without := agent.Less
	if x.Pressure {
		without = agent.Wrong
	}
	out = append(out, examineFile("memory pressure", "/proc/pressure/memory", without,
		"boot with psi=1, a kernel of 4.20 at least with CONFIG_PSI; until then psi.* of alerts is unknown"))
	if x.Watched == 0 && !x.Traces {
		return out
	}
	if fs, err := procfs.New("/proc"); err == nil {
		if err := checkNamespace(fs); err != nil {
			out = append(out, agent.Finding{What: "processes", State: agent.Wrong, Text: err.Error(),
				Remedy: "podman run --pid=host, hostPID: true", NotAllowed: true})
		}
	}
	if x.Traces {
		out = append(out, examineProbes())
	}
	if x.Watched == 0 {
		return append(out, examineFeatures(tracer.Basics())...)
	}
	out = append(out, examineFeatures(tracer.WithoutProbes())...)
	faults, err := tracer.ChooseFaultSource("")
	if err == nil {
		return append(out, agent.Finding{What: "page faults", Text: "are seen by " + string(faults)})
	}
	return append(out, featureFinding("page faults", err, "the kernel needs CONFIG_KPROBES, or on x86 tracepoints"))
}

// examineProbes looks how a trace would set its probes.
func examineProbes() agent.Finding {
	const what = "probes"
	mechanism, err := tracer.ChooseMechanism("")
	if err != nil {
		return featureFinding(what, err, "take a kernel that has uprobes (CONFIG_UPROBE_EVENTS)")
	}
	return agent.Finding{What: what, Text: "are set by " + string(mechanism)}
}

func examineFile(what, path string, without agent.State, remedy string) agent.Finding {
	f, err := os.Open(path)
	if err != nil {
		return agent.Finding{What: what, State: without, Text: err.Error(), Remedy: remedy, NotAllowed: true}
	}
	_ = f.Close()
	return agent.Finding{What: what, Text: path + " is there"}
}

// examineFeatures has one Finding of all that are there, and one of all that this user can't tell.
func examineFeatures(all []tracer.Feature) (out []agent.Finding) {
	const what = "kernel"
	var there, unknown []string
	var why error
	for _, feature := range all {
		switch err := feature.Probe(); {
		case err == nil:
			there = append(there, feature.Name)
		case errors.Is(err, tracer.ErrNotPermitted):
			unknown, why = append(unknown, feature.Name), err
		default:
			out = append(out, featureFinding(what, err, "take a kernel that has it: "+requirement(feature)))
		}
	}
	if len(there) > 0 {
		out = append(out, agent.Finding{What: what, Text: "has " + strings.Join(there, ", ")})
	}
	if len(unknown) > 0 {
		out = append(out, featureFinding(what, fmt.Errorf("%s: %w", strings.Join(unknown, ", "), why), ""))
	}
	return out
}

// featureFinding is about a feature that could not be had. Where that is for want of a capability, it may be there.
func featureFinding(what string, err error, remedy string) agent.Finding {
	if errors.Is(err, tracer.ErrNotPermitted) {
		return agent.Finding{What: what, State: agent.Less, Text: "this user can't tell: " + err.Error(),
			Remedy: "ask as root"}
	}
	return agent.Finding{What: what, State: agent.Wrong, Text: err.Error(), Remedy: remedy, NotAllowed: true}
}

// examineMemory compares what the agent and its tracers may take with their limit.
func examineMemory(x *agent.Examined, unit *serviceUnit) []agent.Finding {
	if limit := unit.memory(); limit > 0 {
		return []agent.Finding{memoryFinding(x, limit, "MemoryMax of "+unit.file)}
	}
	limit, group := ownLimit()
	if limit == 0 {
		return []agent.Finding{{What: "memory", Text: fmt.Sprintf("no control group bounds it; with %s at their "+
			"most it takes %d MiB", tracersText(x), x.Memory>>20)}}
	}
	return []agent.Finding{memoryFinding(x, limit, "the limit of control group "+group)}
}

func memoryFinding(x *agent.Examined, limit uint64, where string) agent.Finding {
	f := agent.Finding{What: "memory", Text: fmt.Sprintf("%s is %d MiB; with %s at their most it takes %d", where,
		limit>>20, tracersText(x), x.Memory>>20)}
	if limit < x.Memory {
		f.State, f.Remedy = agent.Less, fmt.Sprintf("raise it to %d MiB, or lower max_watched: the kernel kills tracers "+
			"otherwise", x.Memory>>20)
	}
	return f
}

func tracersText(x *agent.Examined) string {
	text := render.Counted(uint64(x.Watched), "tracer", "tracers")
	if x.Traces {
		text += " and a trace"
	}
	return text
}

// ownLimit is the smallest limit of this process's control group and those above it, 0 where there is none.
func ownLimit() (limit uint64, group string) {
	fs, err := procfs.New("/proc")
	if err != nil {
		return 0, ""
	}
	self, err := fs.Process(os.Getpid())
	if err != nil {
		return 0, ""
	}
	defer self.Close()
	own, err := self.Cgroup()
	if err != nil {
		return 0, ""
	}
	h, err := cgroup.Open("/sys/fs/cgroup")
	if err != nil {
		return 0, ""
	}
	defer h.Close()
	for at := own; ; at = filepath.Dir(at) {
		var g cgroup.Group
		known := h.Read(at, &g) == nil && g.Max.Outcome == procfs.Known && !g.Max.Unlimited
		if known && (limit == 0 || g.Max.Bytes < limit) {
			limit, group = g.Max.Bytes, at
		}
		if at == "/" || at == "." {
			return limit, group
		}
	}
}

// examineUnit looks whether the unit's own user can read what it has to, and has its folder.
func examineUnit(x *agent.Examined, unit *serviceUnit) (out []agent.Finding) {
	const readSearch = 2 // CAP_DAC_READ_SEARCH
	if unit.ownUser() && unit.capabilities()&(1<<readSearch) == 0 {
		for _, file := range x.Files {
			if at := closedAt(file); at != "" {
				out = append(out, agent.Finding{
					What: "unit", State: agent.Less, Text: fmt.Sprintf("the user of %s may not read %s", unit.file, at),
					Remedy: "give it to a group of the unit's (SupplementaryGroups=), or let others read it if it is no secret",
				})
			}
		}
	}
	writable := unit.makes(x.Data) || strings.Contains(strings.Join(unit.settings["ReadWritePaths"], " "), x.Data)
	if x.Data != "" && unit.ownUser() && !writable {
		out = append(out, agent.Finding{
			What: "unit", State: agent.Less, Text: fmt.Sprintf("%s has no StateDirectory= for %s", unit.file, x.Data),
			Remedy: "StateDirectory=memtrace and data: /var/lib/memtrace, as in packaging/systemd/memtrace-growth.conf",
		})
	}
	return out
}

// madeByUnit takes the folder for recordings for no fault where this user may not make it, and systemd does.
func madeByUnit(x *agent.Examined, unit *serviceUnit, all []agent.Finding) []agent.Finding {
	for i := range all {
		if f := &all[i]; f.What == agent.DataFolder && f.State == agent.Wrong && f.NotAllowed && unit.makes(x.Data) {
			f.State, f.Text = agent.Less, fmt.Sprintf("%s; by %s systemd makes it", f.Text, unit.file)
		}
	}
	return all
}

// closedAt is the file, or the folder above it, that others may not read or pass; "" where they may.
func closedAt(file string) string {
	need := os.FileMode(0o004)
	for at := filepath.Clean(file); ; at, need = filepath.Dir(at), 0o001 {
		if info, err := os.Stat(at); err == nil && info.Mode().Perm()&need == 0 {
			return at
		}
		if at == "/" || at == "." {
			return ""
		}
	}
}
