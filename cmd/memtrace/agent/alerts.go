package agent

import (
	"io"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/memtrace/memtrace/cmd/memtrace/agent/alert"
)

// alerts look at each pass, and tell the log and receivers of what begins and what is over.
type alerts struct {
	book     *alert.Book
	notifier *alert.Notifier
	source   alert.Source
	agent    *Agent
}

func (x *alerts) prepare(a *Agent, c *Config) {
	x.agent, x.book = a, alert.NewBook(c.Alerts)
	x.notifier = alert.NewNotifier(alert.NotifierOptions{
		Log: a.log, Environment: childEnvironment(), UserAgent: "memtrace/" + a.opt.Version,
		Output: func(receiver string) io.Writer { return &lineLog{to: a.log, prefix: "receiver " + receiver + ": "} },
	})
	if x.source.Instance, _ = os.Hostname(); x.source.Instance == "" {
		x.source.Instance = "localhost"
	}
}

// start tells receivers from now on, by which address the agent answers.
func (x *alerts) start(c *Config, address string) {
	x.source.URL = address
	x.notifier.Apply(c.Receivers)
}

func (x *alerts) reload(c *Config, now time.Time) {
	x.book.Reload(c.Alerts, now)
	x.notifier.Apply(c.Receivers)
}

func (x *alerts) close() { x.notifier.Close() }

func (x *alerts) check(f *alert.Figures) []alert.Change {
	changes := x.book.Check(f)
	for i := range changes {
		word := "is over"
		if changes[i].Firing {
			word = "fires"
		}
		x.agent.log.Printf("alert %s: %s", word, marked(x.source.Summary(&changes[i])))
	}
	for _, m := range x.source.Messages(changes) {
		x.notifier.Send(m)
	}
	return changes
}

// figures are what alerts can be about.
func (a *Agent) figures(s *Snapshot) *alert.Figures {
	m := &s.Machine
	f := &alert.Figures{At: s.At, Memory: m.memory, Pressure: m.Pressure, OOMKills: m.OOMKills, Omitted: s.Omitted}
	for i := range s.Services {
		v := &s.Services[i]
		of := alert.Service{
			Name: v.Name, Processes: v.Processes, RSS: v.RSS, PSS: v.PSS, Anon: v.Anon, USS: v.USS,
			Swap: v.Swap, Unread: v.Unread,
		}
		if w := a.watches.of(v.Name); w != nil {
			if state := w.State(); state.Up {
				of.Grown, of.Sites = &state.Grown, w.topSites
			}
		}
		f.Services = append(f.Services, of)
	}
	return f
}

// topSites names the lines of code with most growth.
func (w *watch) topSites() (names []string) {
	top, _ := w.ledger.sites(3)
	for i := range top {
		if top[i].Grown > 0 {
			names = append(names, marked(top[i].name))
		}
	}
	return names
}

// serveAlerts gives all alerts as they are now, as JSON.
func (a *Agent) serveAlerts(w http.ResponseWriter, r *http.Request) {
	type state struct {
		alert.State
		Trace *TraceState `json:"trace,omitempty"` // the last one
	}
	all := []state{}
	for _, s := range a.alerts.book.States() {
		t := a.traces.of(s.Alert, s.Service)
		if t != nil && t.Found != nil {
			a.auditRead(r, s.Service)
		}
		all = append(all, state{s, t})
	}
	writeJSON(w, map[string]any{"alerts": all})
}

// alertMetrics are those of alerts and their receivers.
var alertMetrics = []metric{
	{
		"memtrace_alerts", "Services, or the machine, by alert and what it is: pending, firing, or unknown, as the figure can't be told.",
		prometheus.GaugeValue, []string{"alert", "state"}, emitAlerts,
	},
	ofReceivers("memtrace_alert_messages_sent_total", "Messages that a receiver has taken.",
		func(t *alert.Told) uint64 { return t.Sent }),
	ofReceivers("memtrace_alert_messages_failed_total", "Messages that a receiver has not taken, in all tries.",
		func(t *alert.Told) uint64 { return t.Failed }),
	ofReceivers("memtrace_alert_messages_dropped_total", "Messages that were not sent, as too many wait for the receiver.",
		func(t *alert.Told) uint64 { return t.Dropped }),
}

func emitAlerts(a *Agent, _ *Snapshot, emit func(float64, ...string)) {
	count := make(map[[2]string]float64)
	for _, s := range a.alerts.book.States() {
		count[[2]string{s.Alert, s.State}]++
		if s.Unknown != "" {
			count[[2]string{s.Alert, "unknown"}]++
		}
	}
	rules := a.config.Load().Alerts
	for i := range rules {
		for _, state := range []string{alert.Pending, alert.Firing, "unknown"} {
			emit(count[[2]string{rules[i].Name, state}], rules[i].Name, state)
		}
	}
}

func ofReceivers(name, help string, value func(*alert.Told) uint64) metric {
	collect := func(a *Agent, _ *Snapshot, emit func(float64, ...string)) {
		for _, t := range a.alerts.notifier.Told() {
			emit(float64(value(&t)), t.Receiver)
		}
	}
	return metric{name, help, prometheus.CounterValue, []string{"receiver"}, collect}
}
