package agent

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/memtrace/memtrace/cmd/memtrace/agent/alert"
)

// Field is one key of a configuration, or of a rule in it, for people.
type Field struct {
	Name    string
	Value   string // what its value is called: TIME
	Default string // as written in YAML; empty where there is none
	Text    string // no capital and no full stop
}

// ConfigFields are the keys of a configuration, in the order of Config.
func ConfigFields() []Field { return fields(reflect.ValueOf(Default()), configTexts) }

// RuleFields are the keys of a rule, in the order of Rule.
func RuleFields() []Field { return fields(reflect.ValueOf(Rule{}), ruleTexts) }

// AlertFields are the keys of an alert, in the order of alert.Rule.
func AlertFields() []Field {
	wait := alert.DefaultFor
	return fields(reflect.ValueOf(alert.Rule{For: &wait, Over: alert.DefaultOver, Severity: "warning"}), alertTexts)
}

// TraceFields are the keys of an alert's trace, in the order of alert.Trace.
func TraceFields() []Field { return fields(reflect.ValueOf(alert.DefaultTrace()), traceTexts) }

// ReceiverFields are the keys of a receiver, in the order of alert.Receiver.
func ReceiverFields() []Field {
	return fields(reflect.ValueOf(alert.Receiver{Timeout: alert.DefaultTimeout}), receiverTexts)
}

// A fieldText is what a field's type doesn't say: what it is for, and what its value is called where that is not
// its type's.
type fieldText struct{ value, text string }

var configTexts = map[string]fieldText{
	"listen": {"ADDRESS:PORT", "where to answer; --listen counts first"},
	"web_config": {"FILE", "TLS, users and client certificates, in Prometheus' web configuration format; " +
		"without, plain HTTP for everybody who reaches the address"},
	"interval": {"", fmt.Sprintf("time between two passes over all processes, from %s to %s",
		short(minInterval), short(maxInterval))},
	"stall_budget": {"", "how long of each second a process's memory lock may be held to read PSS and USS, at most 1s"},
	"max_services": {"", fmt.Sprintf("how many services have metrics of their own, at most %d; "+
		"the rest is summed in other. Services that rules name always have their own", maxMaxServices)},
	"services": {"RULES", fmt.Sprintf("a list of rules, at most %d: the first that matches a process names its service",
		maxRules)},
	"others": {OthersUnit + "|" + OthersProgram + "|" + OthersNone, "what a process without a rule belongs to: " +
		"its pod, systemd unit or container, else its program (unit); its program alone (program); the service other (none)"},
	"pods": {"DIR", "where the kubelet keeps the logs of pods, absolute: the names in it are those of namespaces and pods; " +
		"empty to leave pods without names"},
	"max_watched": {"", fmt.Sprintf("how many services have their growth watched, in the order of their rules, then those "+
		"of watch_top, at most %d; each costs a tracer of its own", maxMaxWatched)},
	"watch_top": {"", fmt.Sprintf("how many services without such a rule have their growth watched: those that have grown "+
		"most, by anonymous memory and swap, in the last hour. Only those that nobody but root has named, at most %d",
		maxMaxWatched)},
	"watch_top_by": {TopByGrowth + "|" + TopByRSS, "what they are chosen by: growth, or resident memory (rss)"},
	"watch_top_least": {"", "with less growth in an hour (or less resident memory) than this, at least 4KiB, " +
		"a service is not chosen"},
	"site_metrics": {"", fmt.Sprintf("how many call sites of a watched service have a metric of their own, at most %d",
		maxSiteMetrics)},
	"data": {"DIR", "where recordings and the audit log are kept, absolute; used where growth is watched, or an alert says trace. " +
		"--data counts first"},
	"keep_time": {"", "how long recordings are kept, at least " + short(leastKeepTime)},
	"keep_size": {"", "how much the recordings of one service may take, at least 4MiB"},
	"alerts":    {"ALERTS", "a list of conditions that somebody is to be told of"},
	"receivers": {"RECEIVERS", "a list of who is told; the agent's log has all alerts without one"},
}

var ruleTexts = map[string]fieldText{
	"name":      {"NAME", "what the service is called; required"},
	"program":   {"PATTERN", "the program's name as ps -o comm shows it, at most 15 letters: nginx, kworker*"},
	"command":   {"REGEXP", "found anywhere in the command line"},
	"unit":      {"PATTERN", "the systemd unit: postgresql@*.service"},
	"container": {"ID", "the ID of a container or a pod, or its first digits; or its name where the control group has it"},
	"cgroup":    {"PATH", "a control group and all below it, as in /proc/PID/cgroup: /kubepods.slice"},
	"namespace": {"PATTERN", "the Kubernetes namespace of the pod: shop-*"},
	"pod":       {"PATTERN", "the pod's name: postgres-0, shop-*"},
	"user":      {"USER", "whose process it is, by name or number; unit and container then go by this user's own groups, too"},
	"growth":    {"", "true to find the call stacks that the service's growth belongs to. It asks nothing of a process"},
}

var alertTexts = map[string]fieldText{
	"name": {"NAME", "a name of its own; required"},
	"when": {"CONDITION", "a figure and its limit: swap>80%, psi.some.avg10>10, rss(shop)>2GiB, growth(*)>1MiB/h, " +
		"processes(db)<1; required. docs/serve.md has all figures"},
	"for":      {"", "how long the condition is met before the alert fires, and isn't before it is over, at most 168h"},
	"over":     {"", "the span that growth and oom_kills are about, from 1m to 168h"},
	"severity": {"WORD", "for receivers"},
	"to":       {"NAMES", "a list of receivers; all without one"},
	"trace": {"TIME|FIELDS", "of an alert about services: trace each one in full, for this time, as the alert begins to fire for it. " +
		"A time, such as 1m, or fields: see Traces"},
}

var traceTexts = map[string]fieldText{
	"for":   {"", "how long, from 1s to 10m"},
	"leaks": {"", "false to leave out the leak check at the end"},
	"max_overhead": {"SHARE", "what the probes may take of the service's own processor time, from 0.1% to 1000%: where they would take " +
		"more, allocations are sampled, or page faults alone are seen, or nothing"},
	"every": {"", "a service is traced once in this time at most, whatever fires, from 1m to 168h; all that one user has named " +
		"count as one"},
}

var receiverTexts = map[string]fieldText{
	"name":         {"NAME", "a name of its own; required"},
	"command":      {"ARGUMENTS", "a program by its whole path, and its arguments, as a list; no shell"},
	"webhook":      {"URL", "an address that messages are sent to by POST"},
	"webhook_file": {"FILE", "a file that has the address, which is often a secret"},
	"token_file":   {"FILE", "a file with a token, for Authorization: Bearer"},
	"timeout":      {"", "of a command, or of one try of a webhook, at most 5m"},
}

// fields describes the fields of a struct that YAML sets.
func fields(of reflect.Value, texts map[string]fieldText) []Field {
	var out []Field
	for i := range of.NumField() {
		name := of.Type().Field(i).Tag.Get("yaml")
		if name == "" {
			continue
		}
		f := Field{Name: name, Value: texts[name].value, Text: texts[name].text}
		var kind string
		kind, f.Default = shown(of.Field(i))
		if f.Value == "" {
			f.Value = kind
		}
		out = append(out, f)
	}
	return out
}

// shown is what a value of this type is called, and this one as YAML has it.
func shown(v reflect.Value) (kind, text string) {
	switch v := v.Interface().(type) {
	case time.Duration:
		return "TIME", short(v)
	case *time.Duration:
		return "TIME", short(*v)
	case Size:
		if v%(1<<20) != 0 {
			return "SIZE", fmt.Sprintf("%dKiB", v>>10)
		}
		return "SIZE", fmt.Sprintf("%dMiB", v>>20)
	case int:
		return "NUMBER", fmt.Sprint(v)
	case bool:
		return "true|false", fmt.Sprint(v)
	case string:
		return "TEXT", v
	}
	return "", ""
}

// short is a duration without the units that are zero: 336h.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
