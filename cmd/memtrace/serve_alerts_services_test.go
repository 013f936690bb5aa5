//go:build integration && services

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/cmd/memtrace/agent/alert"
)

// An agent with a user of its own tells a command of a leak, by its line of code. The command is of that user, and has none of
// the agent's capabilities.
func TestServeTellsACommandOfALeak(t *testing.T) {
	t.Parallel()
	const name = "leaky_alert"
	service := startLeaky(t, copyAs(t, "slow_leak", name))
	command, data := unprivileged(t, capabilitiesOf(t, "memtrace.service", "memtrace-growth.conf")...)
	told := filepath.Join(filepath.Dir(data), "told")
	if err := errors.Join(os.Mkdir(told, 0o700), os.Chown(told, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	config := "interval: 1s\nservices: [{name: shop, program: " + name + ", growth: true}]\n" +
		"alerts: [{name: shop grows, when: grown(shop)>8KiB, for: 1s}, {name: too fast, when: growth(shop)>1GiB/s, for: 0s}]\n" +
		"receivers: [{name: keep, command: [/bin/sh, -c, 'cat >" + told + "/part; grep -E \"^(Uid|CapEff|CapAmb)\" /proc/self/status >" + told + "/who; " +
		"mv " + told + "/part \"" + told + "/$MEMTRACE_ALERT\"']}]\n"
	a := startGrowthAgent(t, config, data, command...)
	var text []byte
	eventually(t, "the command is told", func() bool {
		var err error
		text, err = os.ReadFile(told + "/shop grows")
		return err == nil
	})
	var m alert.Message
	if err := json.Unmarshal(text, &m); err != nil || len(m.Alerts) != 1 {
		t.Fatalf("%s: %v", text, err)
	}
	if is := m.Alerts[0]; m.Status != "firing" || is.Labels["service"] != "shop" || !strings.HasPrefix(is.Annotations["site_1"], "remember ") {
		t.Errorf("it does not name the line that leaks: %s", text)
	}
	who, err := os.ReadFile(told + "/who")
	if want := fmt.Sprintf("Uid:\t%[1]s\t%[1]s\t%[1]s\t%[1]s\nCapEff:\t%016[2]d\nCapAmb:\t%016[2]d\n", "65534", 0); err != nil || string(who) != want {
		t.Errorf("the command was\n%s, want\n%s; %v", who, want, err)
	}
	if text, err := os.ReadFile(told + "/too fast"); err == nil {
		t.Errorf("what does not leak so fast was told: %s", text)
	}
	check := exec.Command("promtool", "check", "metrics")
	check.Stdin = strings.NewReader(fetchText(t, a.address+"/metrics"))
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v: %s", err, out)
	}
	service.end(t)
	a.end(t)
	if said := a.said.String(); !strings.Contains(said, `alert fires: shop grows of "shop" on `) {
		t.Errorf("the log has nothing of it: %s", said)
	}
}
