package agent

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/cmd/memtrace/agent/alert"
)

// What is wrong with alerts and receivers is said by line and field.
func TestWrongAlerts(t *testing.T) {
	for text, want := range map[string]string{
		"alerts: 3": "line 1: `3` is not a list: begin each with a dash",
		"alerts:\n- {name: a, when: swap>80%,\n   forr: 3s}":                                  "line 3: there is no field forr; there are name, when, for, over, severity, to",
		"alerts:\n- name: a\n  when: swap>80%\n  for: soon":                                   "line 4: `soon` is not a time, such as 10s",
		"alerts:\n- name: a\n  when: swap>80%\n- name: b\n  when: swop>80%":                   "line 5: alerts: alert 2: when: there is no figure swop of the machine",
		"alerts:\n- when: swap>80%":                                                           "line 2: alerts: alert 1: it has no name",
		"alerts:\n- name: a":                                                                  "line 2: alerts: alert 1: a has no condition",
		"alerts:\n- name: a\n  when: growth(*)>1MiB":                                          "line 3: alerts: alert 1: when: a rate is wanted",
		"alerts:\n- name: a\n  when: swap>80%\n  for: -1s":                                    "line 4: alerts: alert 1: for: -1s is not from 0s to ",
		"alerts:\n- name: a\n  when: swap>80%\n  over: 1h":                                    "line 4: alerts: alert 1: over: it is for growth and oom_kills",
		"alerts:\n- name: a\n  when: swap>80%\n  to: [x]":                                     "line 4: alerts: alert 1: to: there is no receiver \"x\"",
		"alerts:\n- {name: a, when: swap>80%}\n- {name: a, when: swap>90%}":                   "line 3: alerts: alert 2: name: a is there twice",
		"receivers:\n- name: a\n  commandd: x":                                                "line 3: there is no field commandd; there are name, command, webhook, ",
		"receivers:\n- name: a\n  command: x":                                                 "line 3: `x` is not a list",
		"receivers:\n- name: a\n  command: [x]":                                               "line 3: receivers: receiver 1: command: \"x\" is no path from the root on",
		"receivers:\n- name: a\n  command: [/nothing]":                                        "line 3: receivers: receiver 1: command: stat /nothing: no such file",
		"receivers:\n- name: a\n  webhook: x":                                                 "line 3: receivers: receiver 1: webhook: it is no address",
		"receivers:\n- name: a\n  webhook: http://x\n  timeout: 1ms":                          "line 4: receivers: receiver 1: timeout: 1ms is not from 1s",
		"interval: 3s\nservices:\n- {name: a, program: b}\n- {name: a}":                       "line 4: services: rule 2: a asks nothing",
		"interval: 3s\nmax_services: 0":                                                       "line 2: max_services: 0 is not from 1 to 5000",
		"services:\n- &r {name: a, program: b}\nalerts:\n- &x {name: a, when: swap>8%}\n- *x": "line 4: alerts: alert 2: name: a is there twice",
	} {
		_, err := ParseConfig([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	c, err := ParseConfig([]byte("alerts:\n- {name: a, when: pss(shop)>2GiB, for: 0s, to: [b]}\nreceivers:\n- {name: b, command: [/bin/true, -x]}\n"))
	if err != nil || len(c.Alerts) != 1 || *c.Alerts[0].For != 0 || c.Receivers[0].Command[1] != "-x" {
		t.Errorf("%+v, %v", c, err)
	}
}

// An agent tells a webhook that a service is there, once, also after its configuration was read again, and that it is over
// once the rule is gone. What is read and what is scraped say the same.
func TestAgentTellsAWebhook(t *testing.T) {
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan alert.Message, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m alert.Message
		text, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(text, &m)
		}
		if err != nil {
			t.Error(err)
		}
		told <- m
	}))
	t.Cleanup(server.Close)
	rest := "services: [{name: the tests, program: '" + strings.TrimSpace(string(comm)) + "'}]\ninterval: 1h\nothers: none\nreceivers: [{name: chat, webhook: '" + server.URL + "'}]\n"
	rule := "alerts: [{name: large, when: rss(the tests)>1MiB, for: 0s, severity: page}, {name: none, when: rss(nobody)>1}]\n"
	a, address, reload := running(t, rest+rule)
	m := <-told
	if al := m.Alerts[0]; m.Status != "firing" || m.Receiver != "chat" || m.ExternalURL != address+"/" || al.Labels["service"] != "the tests" || al.Labels["severity"] != "page" || al.StartsAt.IsZero() {
		t.Errorf("%+v", m)
	}
	_, text, _ := get(t, address+"/alerts", "")
	var is struct{ Alerts []alert.State }
	if err := json.Unmarshal([]byte(text), &is); err != nil || len(is.Alerts) != 2 || is.Alerts[0].State != "firing" || is.Alerts[0].Unit != "bytes" || is.Alerts[1].Unknown == "" {
		t.Errorf("%s, %v", text, err)
	}
	_, metrics, _ := get(t, address+"/metrics", "")
	for sample, want := range map[string]float64{
		`memtrace_alerts{alert="large",state="firing"}`: 1, `memtrace_alerts{alert="large",state="pending"}`: 0,
		`memtrace_alerts{alert="none",state="unknown"}`: 1, `memtrace_alert_messages_dropped_total{receiver="chat"}`: 0,
	} {
		if v := valueOf(t, metrics, sample); v != want {
			t.Errorf("%s %v, want %v", sample, v, want)
		}
	}
	rewrite := func(config string) {
		if err := os.WriteFile(a.opt.ConfigFile, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		reload <- os.Interrupt
		reload <- os.Interrupt // taken once the first was handled
	}
	rewrite(strings.Replace(rest, "1h", "1s", 1) + rule)
	for passes := a.own.passes.Load(); a.own.passes.Load() < passes+2; time.Sleep(10 * time.Millisecond) {
	}
	rewrite(strings.Replace(rest, "1h", "1s", 1))
	if m := <-told; m.Status != "resolved" || m.Alerts[0].EndsAt.IsZero() || m.GroupLabels["alertname"] != "large" {
		t.Errorf("it was told twice, or wrong: %+v", m)
	}
}
