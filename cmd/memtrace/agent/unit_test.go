package agent

import (
	"os"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/threshold"
)

// settingsOf are a systemd unit's, the last of each; lists are not told apart from those.
func settingsOf(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../../packaging/systemd/" + file)
	if err != nil {
		t.Fatal(err)
	}
	settings := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			settings[name] = value
		}
	}
	return settings
}

// bytesOf reads a size as systemd does: K, M and G are powers of 1024 (systemd.resource-control(5)).
func bytesOf(t *testing.T, size string) uint64 {
	t.Helper()
	if strings.ContainsAny(size[len(size)-1:], "KMGT") {
		size += "iB"
	}
	n, err := threshold.ParseSize(size)
	if err != nil {
		t.Fatalf("%q: %v", size, err)
	}
	return n
}

// The unit has room for the agent and as many tracers as it runs by default, at their most. One that the kernel kills
// takes no other one along, and none is killed with SIGKILL while it writes.
func TestUnitHasRoomForTracers(t *testing.T) {
	alone, growth := settingsOf(t, "memtrace.service"), settingsOf(t, "memtrace-growth.conf")
	const kernel = 32 << 20 // BPF maps of a tracer, with some 20 processors
	least := bytesOf(t, alone["MemoryMax"]) + uint64(Default().MaxWatched)*(bytesOf(t, tracerMemory)+kernel) +
		maxPasts*bytesOf(t, pastMemory)
	if most := bytesOf(t, growth["MemoryMax"]); most < least {
		t.Errorf("MemoryMax is %d MiB; the agent and its tracers may take %d", most>>20, least>>20)
	}
	if growth["OOMPolicy"] != "continue" {
		t.Errorf("OOMPolicy=%s: systemd stops the unit when a tracer is killed", growth["OOMPolicy"])
	}
	trace := settingsOf(t, "memtrace-trace.conf")
	// Drop-ins are read in the order of their names, so that this one has the last word: it has room for growth, too.
	least = bytesOf(t, growth["MemoryMax"]) + bytesOf(t, fullMemory) + 96<<20 + 100<<20
	if most := bytesOf(t, trace["MemoryMax"]); most < least || trace["OOMPolicy"] != "continue" {
		t.Errorf("MemoryMax is %d MiB; with a trace, %d may be taken; OOMPolicy=%s", most>>20, least>>20, trace["OOMPolicy"])
	}
	for file, settings := range map[string]map[string]string{
		"memtrace.service": alone, "memtrace-growth.conf": growth, "memtrace-trace.conf": trace,
	} {
		if mode, set := settings["KillMode"]; set && mode != "control-group" {
			t.Errorf("%s has KillMode=%s: tracers get no SIGTERM before SIGKILL", file, mode)
		}
	}
}
