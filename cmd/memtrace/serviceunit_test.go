//go:build linux && !viewer

package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/memtrace/memtrace/cmd/memtrace/agent"
)

type unitFiles = map[string]string

const (
	ownUnit  = "/etc/systemd/system/memtrace.service"
	itsUnit  = "/usr/lib/systemd/system/memtrace.service"
	oneMore  = ".d/a.conf"
	ofAll    = "/usr/lib/systemd/system/service.d/a.conf"
	setByCtl = "/etc/systemd/system.control/memtrace.service.d/50-MemoryMax.conf"
)

// What counts of a unit is its section [Service], by systemd's order of folders: what systemctl set-property has
// written, and drop-ins for all services, count as well.
func TestUnitFolders(t *testing.T) {
	for what, test := range map[string]struct {
		files unitFiles
		want  string
	}{
		"of a package": {unitFiles{itsUnit: "[Service]\nMemoryMax=1M"}, "1M"},
		"of its own":   {unitFiles{itsUnit: "[Service]\nMemoryMax=1M", ownUnit: "[Service]\nMemoryMax=2M"}, "2M"},
		"a drop-in":    {unitFiles{ownUnit: "[Service]\nMemoryMax=1M", itsUnit + oneMore: "[Service]\nMemoryMax=3M"}, "3M"},
		"by systemctl": {unitFiles{ownUnit: "[Service]\nMemoryMax=1M", setByCtl: "[Service]\nMemoryMax=3M"}, "3M"},
		"of all":       {unitFiles{ownUnit: "[Service]\nMemoryMax=1M", ofAll: "[Service]\nMemoryMax=4M"}, "4M"},
		"its own of all": {unitFiles{ownUnit: "[Service]", ofAll: "[Service]\nMemoryMax=4M",
			itsUnit + oneMore: "[Service]\nMemoryMax=3M"}, "3M"},
		"masked for all": {unitFiles{ownUnit: "[Service]", ofAll: "[Service]\nMemoryMax=4M", ownUnit + oneMore: ""}, ""},
		"no section":     {unitFiles{ownUnit: "[Service]\nMemoryMax=1M", ownUnit + oneMore: "MemoryMax=5M"}, "1M"},
		"another one": {unitFiles{
			ownUnit: "[Unit]\nMemoryMax=5M\n [Service] \nMemoryMax=1M\n[Install]\nMemoryMax=6M"}, "1M"},
		"goes on": {unitFiles{ownUnit: "[Service]\nMemoryMax=\\\n; none\n 7M\\"}, "7M"},
		"of an editor": {unitFiles{ownUnit: "[Service]\nMemoryMax=1M",
			ownUnit + ".d/a.conf~": "[Service]\nMemoryMax=5M"}, "1M"},
	} {
		u := readServiceUnit(unitTree(t, test.files))
		if got := u.last("MemoryMax"); u.file == "" || got != test.want || len(u.unread) > 0 {
			t.Errorf("%s: %q, want %q; %+v", what, got, test.want, u)
		}
	}
}

// Units that can't be read are told, and never taken for one that says nothing: it would give all rights. Nothing
// waits, and nothing is read for ever.
func TestUnitsThatCannotBeRead(t *testing.T) {
	large := "[Service]\n" + strings.Repeat("#", maxUnitFile)
	goesOn := "[Service]\nMemoryMax=1M\nX=" + strings.Repeat("\\\n", maxUnitFile/2-20)
	for what, test := range map[string]struct {
		spoil func(file string) error
		state agent.State
		text  string
	}{
		"another file": {nil, agent.Fine, ""},
		"masked":       {func(f string) error { return os.Symlink("/dev/null", f) }, agent.Less, "is masked"},
		"empty":        {func(f string) error { return os.WriteFile(f, nil, 0o600) }, agent.Less, "is masked"},
		"a loop":       {func(f string) error { return os.Symlink(f, f) }, agent.Wrong, "too many levels of symbolic links"},
		"nowhere":      {func(f string) error { return os.Symlink("/nonexistent/x", f) }, agent.Wrong, "no such file"},
		"a folder":     {func(f string) error { return os.Mkdir(f, 0o700) }, agent.Wrong, "is no file of text"},
		"a pipe":       {func(f string) error { return syscall.Mkfifo(f, 0o600) }, agent.Wrong, "is no file of text"},
		"zeroes":       {func(f string) error { return os.Symlink("/dev/zero", f) }, agent.Wrong, "is no file of text"},
		"large": {func(f string) error { return os.WriteFile(f, []byte(large), 0o600) }, agent.Wrong,
			"larger than 256 KiB"},
		"goes on": {func(f string) error { return os.WriteFile(f, []byte(goesOn), 0o600) }, agent.Fine, ""},
	} {
		root := unitTree(t, unitFiles{itsUnit: "[Service]\nMemoryMax=1M"})
		if test.spoil != nil {
			if err := errors.Join(os.MkdirAll(filepath.Dir(root+ownUnit), 0o700), test.spoil(root+ownUnit)); err != nil {
				t.Fatal(err)
			}
		}
		u := readServiceUnit(root)
		out := u.readable()
		if test.text == "" {
			if len(out) > 0 || u.last("MemoryMax") != "1M" {
				t.Errorf("%s: %+v, %+v", what, out, u)
			}
			continue
		}
		if len(out) != 1 || out[0].State != test.state || !strings.Contains(out[0].Text, test.text) || out[0].Remedy == "" ||
			u.file != "" {
			t.Errorf("%s: %+v, %+v", what, out, u)
		}
	}
}

// A drop-in that can't be read takes nothing from the rest, and is told. Of a folder full of them, some are read.
func TestDropInsThatCannotBeRead(t *testing.T) {
	files := unitFiles{itsUnit: "[Service]\nMemoryMax=1M"}
	for i := range maxDropIns + 1 {
		files[itsUnit+".d/"+strconv.Itoa(1000+i)+".conf"] = "[Service]\nTasksMax=" + strconv.Itoa(i)
	}
	u := readServiceUnit(unitTree(t, files))
	if len(u.dropIns) != maxDropIns || u.last("TasksMax") != strconv.Itoa(maxDropIns-1) || len(u.unread) != 1 {
		t.Errorf("%d are read, %q, %v", len(u.dropIns), u.last("TasksMax"), u.unread)
	}
	root := unitTree(t, unitFiles{itsUnit: "[Service]\nMemoryMax=1M",
		itsUnit + ".d/b.conf": "[Service]\nMemoryMax=2M"})
	if err := os.Symlink("a.conf", root+itsUnit+".d/a.conf"); err != nil {
		t.Fatal(err)
	}
	u = readServiceUnit(root)
	if out := u.readable(); u.last("MemoryMax") != "2M" || len(out) != 1 || out[0].State != agent.Less ||
		!strings.Contains(out[0].Text, "a.conf: too many levels") {
		t.Errorf("%+v, %+v", u, out)
	}
	closed := serviceUnit{unread: []error{&os.PathError{Op: "open", Path: "/x", Err: syscall.EACCES}}}
	if out := closed.readable(); out[0].State != agent.Less || out[0].Remedy != "ask as root" {
		t.Errorf("%+v", out)
	}
}

// A line that goes on and on costs no more than its length: its beginning is not copied for each further part.
func TestUnitLinesThatGoOn(t *testing.T) {
	u := serviceUnit{settings: make(map[string][]string)}
	const parts = 1 << 14
	text := "[Service]\nX=" + strings.Repeat("a\\\n", parts)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	u.parse(text)
	runtime.ReadMemStats(&after)
	if got := len(u.last("X")); got != 2*parts-1 {
		t.Errorf("%d bytes", got)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 64*parts {
		t.Errorf("%d bytes of memory for %d of text", took, len(text))
	}
}

// What the unit begins memtrace serve with is what is to be looked at.
func TestServeOptions(t *testing.T) {
	for line, want := range map[string]agent.Options{
		"/usr/bin/memtrace serve": {}, "": {}, "/usr/bin/memtrace top --config /a": {},
		"-/usr/bin/memtrace serve --config /etc/x.yaml --data=/srv/m": {ConfigFile: "/etc/x.yaml", Data: "/srv/m"},
		`/usr/bin/memtrace serve -config "/etc/my x.yaml" --check-config --listen '[::1]:1'`: {
			ConfigFile: "/etc/my x.yaml", Listen: "[::1]:1"},
		"/usr/bin/memtrace serve --data": {}, "/usr/bin/memtrace serve --data m": {Data: "/m"},
		"/usr/bin/memtrace serve --config %E/%p/100%%.yaml --data=%S/m": {
			ConfigFile: "/etc/memtrace/100%.yaml", Data: "/var/lib/m"},
		"/usr/bin/memtrace serve --config %h/x --data /a":              {Data: "/a"},
		"/usr/bin/memtrace serve --config $FILE --listen 127.0.0.1:$$": {Listen: "127.0.0.1:$"},
	} {
		u := serviceUnit{settings: map[string][]string{"ExecStart": {"/bin/false serve --data /x", line}}}
		if got, said, untold := u.serveOptions(); got.ConfigFile != want.ConfigFile || got.Listen != want.Listen ||
			got.Data != want.Data || (said == "") != (got.ConfigFile+got.Listen+got.Data == "") ||
			(untold != "") != (strings.Contains(line, "%h") || strings.Contains(line, "$FILE")) {
			t.Errorf("%s: %q, %q, %+v", line, said, untold, got)
		}
	}
	u := serviceUnit{settings: map[string][]string{
		"ExecStart":   {"/usr/bin/memtrace serve --listen :1"},
		"Environment": {"MEMTRACE_DATA=/a MEMTRACE_SERVE_DATA=/b", `MEMTRACE_LISTEN=:2 "MEMTRACE_CONFIG=/c d"`},
	}}
	if got, _, _ := u.serveOptions(); got.Data != "/b" || got.Listen != ":1" || got.ConfigFile != "/c d" {
		t.Errorf("by variables: %+v", got)
	}
}

// What the sandbox keeps the agent from is told, with what mends it; memtrace's own unit is fine with each of its
// drop-ins.
func TestExamineSandbox(t *testing.T) {
	growth := agent.Examined{Watched: 1, Listen: "127.0.0.1:9417"}
	plain, traces := agent.Examined{Listen: "127.0.0.1:9417"}, agent.Examined{Traces: true, Listen: "[::]:9417"}
	six, low := agent.Examined{Listen: "[::1]:9417"}, agent.Examined{Listen: ":80"}
	for _, test := range []struct {
		x    agent.Examined
		more string // what a drop-in says
		want string // what is wrong
		by   string // what mends it
	}{
		{plain, "", "", ""}, {growth, "packaging/memtrace-growth.conf", "", ""},
		{growth, "", "SystemCallFilter", "packaging/systemd/memtrace-growth.conf"},
		{traces, "", "SystemCallFilter", "packaging/systemd/memtrace-trace.conf"},
		{plain, "SystemCallFilter=~bpf", "", ""},
		{growth, "SystemCallFilter=\nSystemCallFilter=~bpf:EPERM", "SystemCallFilter", "growth.conf"},
		{growth, "SystemCallFilter=@known", "", ""},
		{plain, "ProtectProc=invisible", "", ""}, // CAP_SYS_PTRACE sees them
		{plain, "ProtectProc=invisible\nAmbientCapabilities=", "ProtectProc", "ProtectProc=default"},
		{plain, "ProtectProc=noaccess\nCapabilityBoundingSet=", "ProtectProc", "ProtectProc=default"},
		{plain, "ProtectProc=noaccess\nCapabilityBoundingSet=\nDynamicUser=no", "", ""}, // root
		{plain, "ProtectProc=ptraceable\nCapabilityBoundingSet=\nDynamicUser=no", "ProtectProc", "ProtectProc=default"},
		{plain, "ProtectProc=default\nAmbientCapabilities=", "", ""},
		{agent.Examined{Machine: true}, "ProcSubset=pid", "ProcSubset", "ProcSubset=all"}, {plain, "ProcSubset=all", "", ""},
		{plain, "PrivatePIDs=yes", "PrivatePIDs", "PrivatePIDs=no"},
		{plain, "PrivateUsers=yes\nProtectProc=invisible", "ProtectProc", "ProtectProc=default"},
		{plain, "PrivateNetwork=yes", "PrivateNetwork", "PrivateNetwork=no"},
		{plain, "RestrictAddressFamilies=\nRestrictAddressFamilies=AF_UNIX", "RestrictAddressFamilies", "=AF_INET in"},
		{plain, "RestrictAddressFamilies=\nRestrictAddressFamilies=none", "RestrictAddressFamilies", "=AF_INET in"},
		{six, "RestrictAddressFamilies=~AF_INET6", "RestrictAddressFamilies", "=AF_INET6 in"},
		{plain, "RestrictAddressFamilies=~AF_INET6", "", ""}, {traces, "packaging/memtrace-trace.conf", "", ""},
		{low, "", "User", "CAP_NET_BIND_SERVICE"}, {low, "DynamicUser=no\nCapabilityBoundingSet=~CAP_SYS_ADMIN", "User", ""},
		{low, "AmbientCapabilities=CAP_NET_BIND_SERVICE\nCapabilityBoundingSet=CAP_NET_BIND_SERVICE", "", ""},
	} {
		more := test.more
		if more != "" && !strings.HasPrefix(more, "packaging/") {
			more = "[Service]\n" + more
		}
		u := readServiceUnit(unitTree(t, unitFiles{itsUnit: "packaging/memtrace.service", ownUnit + oneMore: more}))
		var settings []string
		for _, f := range examineSandbox(&test.x, &u) {
			setting, _, _ := strings.Cut(f.Text, "=")
			settings = append(settings, setting)
			if f.State != agent.Wrong || !f.NotAllowed || !strings.Contains(f.Remedy, test.by) {
				t.Errorf("%q: %+v", test.more, f)
			}
		}
		if got := strings.Join(settings, " "); got != test.want {
			t.Errorf("%q, %+v: %q is wrong, want %q", test.more, test.x, got, test.want)
		}
	}
}

// A drop-in that takes calls back from memtrace's own is mended by one more line.
func TestCallsTakenBack(t *testing.T) {
	u := readServiceUnit(unitTree(t, unitFiles{itsUnit: "packaging/memtrace.service",
		itsUnit + ".d/growth.conf": "packaging/memtrace-growth.conf",
		itsUnit + ".d/z.conf":      "[Service]\nSystemCallFilter=~@debug bpf"}))
	x := agent.Examined{Watched: 1, Listen: "127.0.0.1:9417"}
	f := examineSandbox(&x, &u)
	if len(f) != 1 || !strings.HasSuffix(f[0].Text, "refuses bpf, perf_event_open") ||
		!strings.Contains(f[0].Remedy, "SystemCallFilter=bpf perf_event_open in its section [Service]") {
		t.Errorf("%+v", f)
	}
}

// Without what /proc has of the machine, services are told all the same.
func TestUnitWithoutTheMachine(t *testing.T) {
	u := serviceUnit{file: "u", settings: map[string][]string{"ProcSubset": {"pid"}}}
	if f := examineSandbox(&agent.Examined{}, &u); len(f) != 1 || f[0].State != agent.Less {
		t.Errorf("%+v", f)
	}
}

// In a user namespace of its own, no capability of the unit's counts, whatever it gives.
func TestUnitInAUserNamespace(t *testing.T) {
	u := readServiceUnit(unitTree(t, unitFiles{itsUnit: "packaging/memtrace.service",
		ownUnit + oneMore: "packaging/memtrace-growth.conf", ofAll: "[Service]\nPrivateUsers=no",
		ownUnit + ".d/b.conf": "[Service]\nPrivateUsers=self"}))
	f := rightsFor("growth", forGrowth(), &u, able(^uint64(0)), agent.Wrong)
	if f.State != agent.Wrong || !f.NotAllowed || !strings.Contains(f.Text, "PrivateUsers=") ||
		!strings.Contains(f.Remedy, "PrivateUsers=no in its section [Service]") {
		t.Errorf("%+v", f)
	}
	u.settings["AmbientCapabilities"] = append(u.settings["AmbientCapabilities"], "~CAP_BPF")
	if f := rightsFor("growth", forGrowth(), &u, able(^uint64(0)), agent.Wrong); !strings.Contains(f.Text, "CAP_BPF") ||
		!strings.Contains(f.Remedy, "PrivateUsers=no") || !strings.Contains(f.Remedy, "memtrace-growth.conf") {
		t.Errorf("both: %+v", f)
	}
	u.settings["AmbientCapabilities"] = append(u.settings["AmbientCapabilities"], "CAP_BPF")
	u.settings["PrivateUsers"] = []string{"no"}
	if f := rightsFor("growth", forGrowth(), &u, able(^uint64(0)), agent.Wrong); f.State != agent.Fine {
		t.Errorf("without: %+v", f)
	}
}

// Lines of a filter come to what systemd makes of them.
func TestFilterLines(t *testing.T) {
	for _, test := range []struct {
		lines []string
		want  bool
	}{
		{nil, true}, {[]string{"@system-service"}, false}, {[]string{"@system-service", "bpf"}, true},
		{[]string{"~bpf"}, false}, {[]string{"~@privileged"}, false}, {[]string{"~ptrace"}, true},
		{[]string{"~@privileged", "bpf"}, true},
		{[]string{"bpf", "~@privileged"}, false}, {[]string{"@system-service", ""}, true},
		{[]string{"~bpf", "", "@known"}, true}, {[]string{"@known", "~bpf:EPERM"}, false}, {[]string{"~bpf:1"}, false},
		{[]string{"read write bpf"}, true}, {[]string{"", "~"}, true},
	} {
		if got := letsThrough(test.lines, "bpf", "@privileged", "@known"); got != test.want {
			t.Errorf("%q: %v", test.lines, got)
		}
	}
}

// Files that the unit's sandbox hides are no use to it, nor is a program that is not there.
func TestFilesOfAUnit(t *testing.T) {
	const begin = "[Service]\nExecStart=/proc/self/exe serve\n" // it is there
	for _, test := range []struct{ unit, file, want string }{
		{begin, "/home/a/x.yaml", ""}, {begin + "ProtectHome=yes", "/home/a/x.yaml", "ProtectHome"},
		{begin + "ProtectHome=tmpfs", "/root/x.yaml", "ProtectHome"}, {begin + "ProtectHome=read-only", "/root/x.yaml", ""},
		{begin + "ProtectHome=yes", "/homes/x.yaml", ""},
		{begin + "InaccessiblePaths=-/srv /opt", "/srv/x", "InaccessiblePaths"},
		{"[Service]\nExecStart=@/nonexistent/memtrace memtrace serve", "/etc/x",
			"begins /nonexistent/memtrace, which is not there"},
		{"[Service]\nExecStart=/nonexistent/memtrace serve\nRootDirectory=/srv/image", "/etc/x", ""},
		{"[Service]\nExecStart=%h/memtrace serve", "/etc/x", ""},
	} {
		u := readServiceUnit(unitTree(t, unitFiles{ownUnit: test.unit}))
		out := examineUnit(&agent.Examined{Files: []string{test.file}}, &u)
		var said string
		for _, f := range out {
			if said += f.Text; f.State != agent.Wrong || f.Remedy == "" {
				t.Errorf("%q, %s: %+v", test.unit, test.file, f)
			}
		}
		if len(out) > 1 || !strings.Contains(said, test.want) || (said == "") != (test.want == "") {
			t.Errorf("%q, %s: %+v, want %q", test.unit, test.file, out, test.want)
		}
	}
	own := serviceUnit{file: "u", settings: map[string][]string{"DynamicUser": {"yes"}}}
	out := examineUnit(&agent.Examined{Files: []string{"/tmp/x"}, Data: "/var/tmp/y"}, &own)
	if len(out) != 2 || out[0].Text != "PrivateTmp= of u hides /tmp/x" ||
		out[1].Text != "PrivateTmp= of u hides /var/tmp/y" {
		t.Errorf("a DynamicUser= has no /tmp of the machine: %+v", out)
	}
}

// What this user may not do is no fault where the unit may: read its configuration, listen, have its folder.
func TestLeftToTheUnit(t *testing.T) {
	u := readServiceUnit(unitTree(t, unitFiles{itsUnit: "packaging/memtrace.service"}))
	x := agent.Examined{Listen: ":80"}
	for what, want := range map[string]agent.State{agent.Configuration: agent.Less, agent.Port: agent.Wrong,
		"probes": agent.Wrong} {
		f := leftToUnit(&x, &u, []agent.Finding{{What: what, State: agent.Wrong, NotAllowed: true, Remedy: "x"},
			{What: what, State: agent.Wrong}})
		if f[0].State != want || f[1].State != agent.Wrong {
			t.Errorf("%s: %+v", what, f)
		}
	}
	root := serviceUnit{file: "u", settings: map[string][]string{}}
	refused := []agent.Finding{{What: agent.Port, State: agent.Wrong, NotAllowed: true}}
	if f := leftToUnit(&x, &root, refused); f[0].State != agent.Fine {
		t.Errorf("root's unit: %+v", f)
	}
}
