//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/cmd/memtrace/agent"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/cgroup"
	"github.com/memtrace/memtrace/tracer"
)

// unitRoot is the root directory that systemd's files are looked for in.
var unitRoot = "/"

// doctorServe looks at what --config names, or else at what the unit begins memtrace serve with.
func doctorServe(c *cli.Context) error {
	if c.IsSet("pid") {
		return usageError("--serve looks at the machine, and --pid at a process: give one of them")
	}
	unit := readServiceUnit(unitRoot)
	var opt agent.Options
	var begun []agent.Finding
	if !c.IsSet("config") {
		var said, untold string
		if opt, said, untold = unit.serveOptions(); said != "" {
			begun = append(begun, agent.Finding{What: "unit", Text: unit.file + " begins memtrace serve with " + said +
				", which is looked at"})
		}
		if untold != "" {
			begun = append(begun, agent.Finding{What: "unit", State: agent.Less,
				Text:   unit.file + " begins memtrace serve with " + untold + ", which is known only as it runs",
				Remedy: "name the configuration by doctor --serve --config FILE"})
		}
	}
	begun = append(begun, unit.readable()...)
	if opt.ConfigFile == "" {
		var err error
		if opt.ConfigFile, err = serveConfig(c); err != nil {
			return err
		}
	}
	return diagnoseServe(os.Stdout, opt, &unit, begun)
}

// diagnoseServe says what memtrace serve lacks to do what a configuration asks for.
func diagnoseServe(w io.Writer, opt agent.Options, unit *serviceUnit, begun []agent.Finding) error {
	x := agent.Examine(opt)
	s, err := ownSurroundings()
	if err != nil {
		return err
	}
	all := slices.Concat(begun, x.Findings, examineRights(&x, unit, &s), examineKernel(&x, &s), examineMemory(&x, unit))
	if unit.file != "" {
		all = slices.Concat(leftToUnit(&x, unit, all), examineUnit(&x, unit), examineUnitUser(&x, unit),
			examineSandbox(&x, unit))
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

// readable says what of the unit could not be read.
func (u *serviceUnit) readable() (out []agent.Finding) {
	const what, see = "unit", "systemctl cat memtrace shows what systemd makes of it"
	if u.masked != "" {
		return []agent.Finding{{What: what, State: agent.Less, Remedy: "systemctl unmask memtrace",
			Text: u.masked + " is masked: systemd begins no memtrace serve by it"}}
	}
	for _, err := range u.unread {
		f := agent.Finding{What: what, State: agent.Less, Remedy: "mend it: " + see,
			Text: err.Error() + ": what it says is not known"}
		switch {
		case errors.Is(err, fs.ErrPermission):
			f.Remedy = "ask as root"
		case u.file == "":
			f.State, f.Text = agent.Wrong, err.Error()+": systemd has no unit of it"
		}
		out = append(out, f)
	}
	return out
}

func printFinding(w io.Writer, f *agent.Finding) {
	word := map[agent.State]string{agent.Fine: "fine", agent.Less: "less", agent.Wrong: "WRONG"}[f.State]
	fmt.Fprintf(w, "  %-6s %-16s %s\n", word, f.What, render.Clean(f.Text))
	if f.Remedy != "" {
		fmt.Fprintf(w, "  %-6s %-16s   remedy: %s\n", "", "", render.Clean(f.Remedy))
	}
}

// forGrowth are what watching growth takes; nothing of it is a probe.
func forGrowth() []capability {
	return slices.DeleteFunc(needed(), func(c capability) bool { return c.bit == capSysAdmin })
}

// examineRights looks who may do what: this user, and the unit.
func examineRights(x *agent.Examined, unit *serviceUnit, s *surroundings) []agent.Finding {
	wanted := slices.DeleteFunc(needed(), func(c capability) bool { return c.bit != capPtrace })
	f := []agent.Finding{rightsFor(pssOfAll, wanted, unit, s, agent.Less)}
	if x.Watched > 0 {
		f = append(f, rightsFor("growth", forGrowth(), unit, s, agent.Wrong))
	}
	if x.Traces {
		f = append(f, rightsFor(tracesOnAlerts, needed(), unit, s, agent.Wrong))
	}
	return f
}

const (
	pssOfAll = "PSS of all users"
	// tracesOnAlerts is what an alert with trace asks for.
	tracesOnAlerts = "traces on alerts"
)

// rightsFor looks whether somebody has all capabilities that something takes: the unit, or this user where there is
// none. without is what it is to lack one.
func rightsFor(
	what string, wanted []capability, unit *serviceUnit, s *surroundings, without agent.State,
) agent.Finding {
	missing := func(set uint64) []capability {
		return slices.DeleteFunc(slices.Clone(wanted), func(c capability) bool { return allows(set, c) })
	}
	lacks, f := missing(s.sets.effective), agent.Finding{What: what, NotAllowed: true}
	if unit.file == "" {
		switch {
		case len(lacks) > 0:
			f.State, f.Text = without, "this user lacks "+capabilityNames(lacks)
			f.Remedy = s.remedyOr("run memtrace serve as root, or by packaging/systemd/memtrace.service (with " +
				"memtrace-growth.conf for growth, memtrace-trace.conf for traces)")
		case what != pssOfAll && (s.inUserSpace || len(s.filtered) > 0):
			f.State, f.Text, f.Remedy = without, lackedRights(), s.remedyOr("")
		default:
			f.Text = "this user has " + capabilityNames(wanted)
		}
		return f
	}
	unitLacks := missing(unit.capabilities())
	switch {
	case unit.inUserSpace():
		f.State, f.Text = without, "PrivateUsers= of "+unit.file+" keeps its capabilities from counting outside of it"
		f.Remedy = inService("PrivateUsers=no")
		if len(unitLacks) > 0 {
			f.Text += ", and it doesn't give " + capabilityNames(unitLacks)
			f.Remedy = "PrivateUsers=no in its section [Service], then " + unit.remedy(what, unitLacks)
		}
		return f
	case len(unitLacks) == 0:
		f.Text = unit.file + " gives " + capabilityNames(wanted)
		return f
	case len(lacks) == 0:
		f.Text = fmt.Sprintf("%s doesn't give %s, which this user has", unit.file, capabilityNames(unitLacks))
	default:
		f.Text = fmt.Sprintf("%s doesn't give %s, nor has this user %s", unit.file, capabilityNames(unitLacks),
			capabilityNames(lacks))
	}
	f.State, f.Remedy = without, unit.remedy(what, unitLacks)
	return f
}

// remedy says what gives it capabilities: a drop-in of memtrace's, or a line of its own where none has them, or where
// it has that drop-in and takes them back.
func (u *serviceUnit) remedy(what string, lacks []capability) string {
	file := dropInFor(what)
	has := slices.Contains(u.dropIns, file)
	var steps, others []string
	uncommented := ""
	for _, c := range lacks {
		switch {
		case c.bit == capSysAdmin && what == tracesOnAlerts:
			uncommented = ", with # removed from its lines of CAP_SYS_ADMIN"
		case has || c.bit == capPtrace || c.bit == capSysAdmin || c.bit == capSysResource:
			others = append(others, c.name)
		}
	}
	if len(others) < len(lacks) {
		steps = append(steps, packaged(file)+uncommented)
	}
	if len(others) > 0 {
		names := strings.Join(others, " ")
		last := ""
		if has {
			last = ", in a file whose name comes last in /etc/systemd/system/memtrace.service.d"
		}
		steps = append(steps, "AmbientCapabilities="+names+" and CapabilityBoundingSet="+names+
			" in its section [Service]"+last)
	}
	return strings.Join(append(steps, takeEffect), ", then ")
}

// dropInFor is the name of memtrace's drop-in for something.
func dropInFor(what string) string {
	if what == tracesOnAlerts {
		return "trace.conf"
	}
	return "growth.conf"
}

// packaged says where a drop-in is had, and where it goes.
func packaged(dropIn string) string {
	return "packaging/systemd/memtrace-" + dropIn + " as /etc/systemd/system/memtrace.service.d/" + dropIn
}

// examineKernel looks what the kernel has of what is asked for.
func examineKernel(x *agent.Examined, s *surroundings) (out []agent.Finding) {
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
		out = append(out, examineProbes(s))
	}
	if x.Watched == 0 {
		return append(out, examineFeatures(tracer.Basics(), s)...)
	}
	out = append(out, examineFeatures(tracer.WithoutProbes(), s)...)
	faults, err := tracer.ChooseFaultSource("")
	if err == nil {
		return append(out, agent.Finding{What: "page faults", Text: "are seen by " + string(faults)})
	}
	return append(out, featureFinding("page faults", err, s, "the kernel needs CONFIG_KPROBES, or on x86 tracepoints"))
}

// examineProbes looks how a trace would set its probes.
func examineProbes(s *surroundings) agent.Finding {
	const what = "probes"
	mechanism, err := tracer.ChooseMechanism("")
	if err != nil {
		return featureFinding(what, err, s, "take a kernel that has uprobes (CONFIG_UPROBE_EVENTS)")
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
func examineFeatures(all []tracer.Feature, s *surroundings) (out []agent.Finding) {
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
			out = append(out, featureFinding(what, err, s, "take a kernel that has it: "+requirement(feature)))
		}
	}
	if len(there) > 0 {
		out = append(out, agent.Finding{What: what, Text: "has " + strings.Join(there, ", ")})
	}
	if len(unknown) > 0 {
		f := featureFinding(what, fmt.Errorf("%s: %w", strings.Join(unknown, ", "), why), s, "")
		if f.State == agent.Less { // why it was refused is the same for all
			f.Text += " whether it has " + strings.Join(unknown, ", ")
		}
		out = append(out, f)
	}
	return out
}

// featureFinding is about a feature that could not be had. Where that is for want of a capability, it may be there. Who
// has all of them is refused for another reason, as memtrace serve would be.
func featureFinding(what string, err error, s *surroundings, remedy string) agent.Finding {
	refused := errors.Is(err, tracer.ErrNotPermitted)
	if refused && len(missingFrom(s.sets.effective)) > 0 {
		return agent.Finding{
			What: what, State: agent.Less, Text: "this user can't tell", Remedy: s.remedyOr("ask as root"),
		}
	}
	if refused {
		remedy = s.remedyOr("no capability is missing: see whether the kernel's lockdown " +
			"(/sys/kernel/security/lockdown) or a security module refuses it")
	}
	return agent.Finding{What: what, State: agent.Wrong, Text: err.Error(), Remedy: remedy, NotAllowed: true}
}

// examineMemory compares what the agent and its tracers may take with their limit: that of the unit, if there is one.
func examineMemory(x *agent.Examined, unit *serviceUnit) []agent.Finding {
	limit, by := unit.memory()
	where, none := by+" of "+unit.file, unit.file+" has no MemoryMax"
	if unit.file == "" {
		var group string
		limit, group = ownLimit()
		where, none = "the limit of control group "+group, "no control group bounds it"
	}
	if limit == 0 {
		return []agent.Finding{{What: "memory", Text: none + "; " + mostText(x)}}
	}
	return []agent.Finding{memoryFinding(x, limit, where)}
}

// leastToBegin is what the agent takes to begin at all: with 24 MiB, its program was read from the disk again and
// again, and it was not ready after 8 s; with 28 it was.
const leastToBegin = 32 << 20

func memoryFinding(x *agent.Examined, limit uint64, where string) agent.Finding {
	f := agent.Finding{What: "memory", Text: fmt.Sprintf("%s is %d MiB; %s", where, limit>>20, mostText(x))}
	if limit >= x.Memory {
		return f
	}
	f.State, f.Remedy = agent.Less, fmt.Sprintf("raise it to %d MiB", x.Memory>>20)
	if x.Watched > 0 {
		f.Remedy += ", or lower max_watched"
	}
	switch {
	case limit < leastToBegin:
		f.State, f.Text = agent.Wrong, f.Text+", and no agent begins with so little"
	case x.Watched > 0 || x.Traces:
		f.Remedy += ": the kernel kills tracers otherwise"
	default:
		f.Remedy += ": the kernel kills the agent otherwise"
	}
	return f
}

// mostText says what memtrace serve takes at most.
func mostText(x *agent.Examined) string {
	var with []string
	if x.Watched > 0 {
		with = append(with, render.Counted(uint64(x.Watched), "tracer", "tracers"))
	}
	if x.Traces {
		with = append(with, "a trace")
	}
	switch {
	case len(with) == 0:
		return fmt.Sprintf("it takes %d MiB at most", x.Memory>>20)
	case len(with) == 1 && x.Watched <= 1:
		return fmt.Sprintf("with %s at its most it takes %d MiB", with[0], x.Memory>>20)
	}
	return fmt.Sprintf("with %s at their most it takes %d MiB", strings.Join(with, " and "), x.Memory>>20)
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

func wrongUnit(remedy, format string, args ...any) agent.Finding {
	return agent.Finding{What: "unit", State: agent.Wrong, Text: fmt.Sprintf(format, args...), Remedy: remedy}
}

// examineUnit looks whether the unit's program is there, and whether it sees what the agent reads and writes.
func examineUnit(x *agent.Examined, unit *serviceUnit) (out []agent.Finding) {
	wrong := func(remedy, format string, args ...any) { out = append(out, wrongUnit(remedy, format, args...)) }
	program := unit.program()
	if _, err := os.Stat(program); program != "" && isNotThere(err) {
		wrong("install memtrace there, or "+inService("ExecStart= and below it ExecStart="+ownPath()+" serve"),
			"%s begins %s, which is not there", unit.file, program)
	}
	for _, file := range append(slices.Clone(x.Files), program) {
		if by := unit.hides(file); by != "" {
			wrong("move it, as to /etc/memtrace or, if it is the program, to /usr/bin",
				"%s= of %s hides %s", by, unit.file, file)
		}
	}
	if by := unit.hides(x.Data); by != "" {
		wrong(stateDirectory, "%s= of %s hides %s", by, unit.file, x.Data)
	}
	return out
}

// stateDirectory is what gives a unit a folder for recordings.
const stateDirectory = "StateDirectory=memtrace and data: /var/lib/memtrace, as in " +
	"packaging/systemd/memtrace-growth.conf"

// examineUnitUser looks whether the unit's own user can read what it has to, and has its folder. The agent doesn't
// begin without.
func examineUnitUser(x *agent.Examined, unit *serviceUnit) (out []agent.Finding) {
	const readSearch = 2 // CAP_DAC_READ_SEARCH
	user := unit.user()
	wrong := func(remedy, format string, args ...any) { out = append(out, wrongUnit(remedy, format, args...)) }
	if unit.ownUser() && unit.capabilities()&(1<<readSearch) == 0 {
		for _, file := range x.Files {
			if at := closedAt(file, &user); at != "" {
				wrong("give it to a group of the unit's (SupplementaryGroups=) that may read it, or let others read it "+
					"if it is no secret", "the user of %s may not read %s", unit.file, at)
			}
		}
	}
	if x.Data == "" || unit.makes(x.Data) {
		return out
	}
	if !unit.letsWrite(x.Data) {
		wrong(stateDirectory, "%s has no StateDirectory= for %s, and doesn't let it be written to", unit.file, x.Data)
	} else if unit.ownUser() && !mayMake(x.Data, &user) {
		wrong(stateDirectory, "%s has no StateDirectory= for %s, and its user may not write there", unit.file, x.Data)
	}
	return out
}

// mayMake reports whether a user may write to a folder, or make it.
func mayMake(folder string, user *unitUser) bool {
	for at := folder; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err == nil {
			return user.may(info, 0o3)
		}
		if !errors.Is(err, fs.ErrNotExist) || at == "/" || at == "." {
			return true // that can't be told
		}
	}
}

// leftToUnit takes for no fault what this user may not do, and the unit may: systemd makes its folder for recordings,
// and its user may read what this one can't, and listen.
func leftToUnit(x *agent.Examined, unit *serviceUnit, all []agent.Finding) []agent.Finding {
	for i := range all {
		f := &all[i]
		if f.State != agent.Wrong || !f.NotAllowed {
			continue
		}
		switch {
		case f.What == agent.DataFolder && unit.makes(x.Data):
			*f = agent.Finding{What: f.What, Text: "systemd makes " + x.Data + " by " + unit.file}
		case f.What == agent.Port && unit.mayBind(x.Listen):
			*f = agent.Finding{
				What: f.What, Text: "this user may not listen on " + x.Listen + ", and " + unit.file + " may",
			}
		case f.What == agent.Configuration:
			f.State = agent.Less
		}
	}
	return all
}

// closedAt is the file, or the folder above it, that a user may not read or pass; "" where he may.
func closedAt(file string, user *unitUser) string {
	need := os.FileMode(0o4)
	for at := filepath.Clean(file); ; at, need = filepath.Dir(at), 0o1 {
		if info, err := os.Stat(at); err == nil && !user.may(info, need) {
			return at
		}
		if at == "/" || at == "." {
			return ""
		}
	}
}
