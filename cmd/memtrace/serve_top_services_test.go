//go:build integration && services

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Of two services without a rule that asks for it, the one that leaks is found and watched, and its top line is the
// function that leaks, with no more than the service says that it has leaked. The one that doesn't is never traced.
func TestServeFindsTheServiceThatGrows(t *testing.T) {
	t.Parallel()
	const leaks, idle, enough = "leaky_found", "idle_found", 32 << 10
	quiet := startLeaky(t, copyOf(t, need(t, "cat"), idle))
	service := startLeaky(t, copyAs(t, "slow_leak", leaks))
	// Without others, nothing else on this machine takes part.
	config := fmt.Sprintf("interval: 1s\nothers: none\nwatch_top: 1\nwatch_top_least: 64KiB\n"+
		"services: [{name: shop, program: %[1]s, user: %[3]s}, {name: quiet, program: %[2]s, user: %[3]s}]\n", leaks, idle, sessionUser())
	before := service.leaked(t)
	a := startGrowthAgent(t, config, filepath.Join(t.TempDir(), "data"))
	eventually(t, "the service that leaks is watched", func() bool {
		return strings.Contains(fetchText(t, a.address+"/http_sd"), `"shop"`)
	})
	top := a.growsBy(t, "shop", enough)
	if grew := service.leaked(t) - before; top.Grown > grew+8192 || !strings.HasSuffix(top.File, "slow_leak.c") ||
		!slices.Contains(top.Stack, "handle_request") {
		t.Errorf("%+v; the service has leaked %d bytes", top, grew)
	}
	w := a.growth(t, "shop").Watch
	if !strings.HasPrefix(w.Why, "watch_top: it has grown most, by ") || w.Recording == "" {
		t.Errorf("%+v", w)
	}
	if metrics := fetchText(t, a.address+"/metrics"); !strings.Contains(metrics, `memtrace_watch_up{service="shop"} 1`) ||
		strings.Contains(metrics, `memtrace_watch_up{service="quiet"}`) {
		t.Errorf("metrics %s", metrics)
	}
	recordingHolds(t, a.recordings(t, "shop")[0].File, enough)
	a.end(t)
	pid := service.cmd.Process.Pid
	service.end(t)
	quiet.end(t)
	audit, err := os.ReadFile(filepath.Join(a.data, "audit.jsonl"))
	want := fmt.Sprintf(`"what":"process_traced","service":"shop","why":%q,"pid":%d,"program":%q`, w.Why, pid, leaks)
	if err != nil || !strings.Contains(string(audit), want) || strings.Contains(string(audit), "quiet") {
		t.Errorf("the audit log is to have %s, and nothing of quiet: %s, %v", want, audit, err)
	}
}
