//go:build linux && !viewer

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/cmd/memtrace/agent"
)

// callGroups are the system calls that a unit's filter has to let through for growth and traces, and the groups of
// systemd's that have them (systemd-analyze syscall-filter).
var callGroups = []struct {
	call   string
	groups []string
}{
	{"bpf", []string{"@privileged", "@known"}},
	{"perf_event_open", []string{"@debug", "@known"}},
	{"process_vm_readv", []string{"@ipc", "@system-service", "@known"}},
	{"pidfd_open", []string{"@process", "@system-service", "@known"}},
}

// letsThrough reports whether a filter lets something through, such as a system call (systemd.exec(5),
// SystemCallFilter= and RestrictAddressFamilies=): its first line says whether it names what may pass, or with a ~ what
// may not. Later ones add to that, or take from it.
func letsThrough(lines []string, names ...string) bool {
	through, first := true, true
	for _, line := range lines {
		list, but := strings.CutPrefix(line, "~")
		words := unitWords(list)
		if len(words) == 0 {
			through, first = true, true
			continue
		}
		named, refused := false, but
		for _, word := range words {
			word, err, with := strings.Cut(word, ":") // what is refused is answered by
			if slices.Contains(names, word) {
				named, refused = true, but || with && err != ""
			}
		}
		switch {
		case named:
			through = !refused
		case first:
			through = but
		}
		first = false
	}
	return through
}

// refusedCalls are those of callGroups that its filter refuses.
func (u *serviceUnit) refusedCalls() (refused []string) {
	for _, c := range callGroups {
		if !letsThrough(u.settings["SystemCallFilter"], append([]string{c.call}, c.groups...)...) {
			refused = append(refused, c.call)
		}
	}
	return refused
}

// inUserSpace reports whether it has a user namespace of its own.
func (u *serviceUnit) inUserSpace() bool {
	return u.last("PrivateUsers") != "" && !u.saysNo("PrivateUsers")
}

func (u *serviceUnit) saysNo(name string) bool {
	return slices.Contains([]string{"no", "false", "0", "off", "n", "f"}, strings.ToLower(u.last(name)))
}

// hidesProcesses is the setting that hides others' processes from it, "" for none.
func (u *serviceUnit) hidesProcesses() string {
	how := u.last("ProtectProc")
	switch {
	case u.says("PrivatePIDs"):
		return "PrivatePIDs"
	case u.capabilities()&(1<<capPtrace) != 0 && !u.inUserSpace():
		return "" // hidepid= of proc(5) is not for it
	case how == "ptraceable", u.ownUser() && (how == "invisible" || how == "noaccess"):
		return "ProtectProc"
	}
	return ""
}

// hides is the setting that hides a file from it, "" for none.
func (u *serviceUnit) hides(file string) string {
	below := func(folders ...string) bool {
		return slices.ContainsFunc(folders, func(folder string) bool { return isIn(file, filepath.Clean(folder)) })
	}
	switch home := u.last("ProtectHome"); {
	case (u.says("ProtectHome") || home == "tmpfs") && below("/home", "/root", "/run/user"):
		return "ProtectHome"
	case (u.says("PrivateTmp") || u.says("DynamicUser")) && below("/tmp", "/var/tmp"):
		return "PrivateTmp"
	}
	for _, path := range u.words("InaccessiblePaths") {
		if below(strings.TrimLeft(path, "-+")) {
			return "InaccessiblePaths"
		}
	}
	return ""
}

// examineSandbox looks what the unit's sandbox keeps the agent from.
func examineSandbox(x *agent.Examined, unit *serviceUnit) (out []agent.Finding) {
	add := func(state agent.State, setting, remedy, format string, args ...any) {
		out = append(out, agent.Finding{What: "unit", State: state, NotAllowed: true,
			Text:   fmt.Sprintf("%s= of %s %s", setting, unit.file, fmt.Sprintf(format, args...)),
			Remedy: inService(remedy)})
	}
	wrong := func(setting, remedy, format string, args ...any) { add(agent.Wrong, setting, remedy, format, args...) }
	if by := unit.hidesProcesses(); by != "" {
		remedy := by + "=no"
		if by == "ProtectProc" {
			remedy = "ProtectProc=default"
		}
		wrong(by, remedy, "hides the processes of others")
	}
	if unit.last("ProcSubset") == "pid" {
		state := agent.Less // services are told all the same
		if x.Machine {
			state = agent.Wrong
		}
		add(state, "ProcSubset", "ProcSubset=all", "hides /proc/meminfo and all else that is of no process")
	}
	if refused := unit.refusedCalls(); len(refused) > 0 && (x.Watched > 0 || x.Traces) {
		what := "growth"
		if x.Watched == 0 {
			what = tracesOnAlerts
		}
		wrong("SystemCallFilter", "SystemCallFilter="+strings.Join(refused, " "),
			"refuses %s", strings.Join(refused, ", "))
		if dropIn := dropInFor(what); !slices.Contains(unit.dropIns, dropIn) {
			out[len(out)-1].Remedy = packaged(dropIn) + ", then " + takeEffect
		}
	}
	if families := familiesFor(x.Listen); !slices.ContainsFunc(families, func(family string) bool {
		return letsThrough(unit.settings["RestrictAddressFamilies"], family)
	}) {
		wrong("RestrictAddressFamilies", "RestrictAddressFamilies="+families[0], "doesn't let it listen on %s",
			x.Listen)
	}
	if unit.says("PrivateNetwork") {
		wrong("PrivateNetwork", "PrivateNetwork=no", "lets nobody reach it at %s", x.Listen)
	}
	if !unit.mayBind(x.Listen) {
		wrong("User", "a higher port by listen, or AmbientCapabilities=CAP_NET_BIND_SERVICE and "+
			"CapabilityBoundingSet=CAP_NET_BIND_SERVICE",
			"may not listen on a port below %d: %s", firstFreePort(), x.Listen)
	}
	return out
}

// inService says where settings of a unit go, and how they come to count.
func inService(settings string) string {
	return settings + " in its section [Service], then " + takeEffect
}

// takeEffect has changed units count.
const takeEffect = "systemctl daemon-reload && systemctl restart memtrace"

// familiesFor are the address families of which one has to be there to listen on an address.
func familiesFor(listen string) []string {
	host, _, _ := net.SplitHostPort(listen)
	switch ip := net.ParseIP(host); {
	case ip == nil || ip.IsUnspecified():
		return []string{"AF_INET", "AF_INET6"}
	case ip.To4() == nil:
		return []string{"AF_INET6"}
	}
	return []string{"AF_INET"}
}

// mayBind reports whether its user may listen on a port.
func (u *serviceUnit) mayBind(listen string) bool {
	_, text, _ := net.SplitHostPort(listen)
	port, _ := strconv.Atoi(text)
	return port == 0 || port >= firstFreePort() || u.capabilities()&(1<<capNetBindService) != 0 && !u.inUserSpace()
}

// firstFreePort is the first port that takes no capability (ip_unprivileged_port_start of ip(7)).
func firstFreePort() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if n, bad := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && bad == nil {
		return n
	}
	return 1024
}
