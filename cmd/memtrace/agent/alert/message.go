package alert

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"
)

// Message is what receivers are told: Alertmanager's webhook message, version 4.
// https://prometheus.io/docs/alerting/latest/configuration/#webhook_config
type Message struct {
	Receiver          string            `json:"receiver"`
	Status            string            `json:"status"` // firing, resolved
	Alerts            []Alert           `json:"alerts"`
	GroupLabels       map[string]string `json:"groupLabels"`
	CommonLabels      map[string]string `json:"commonLabels"`
	CommonAnnotations map[string]string `json:"commonAnnotations"`
	ExternalURL       string            `json:"externalURL"`
	Version           string            `json:"version"`
	GroupKey          string            `json:"groupKey"`
	TruncatedAlerts   int               `json:"truncatedAlerts"` // alerts of the message that are not in it

	to []string
}

// Alert is one of them.
type Alert struct {
	Status       string            `json:"status"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"` // zero while it fires
	GeneratorURL string            `json:"generatorURL"`
	Fingerprint  string            `json:"fingerprint"`
}

const (
	statusFiring   = "firing"
	statusResolved = "resolved"
	// maxAlerts is how many a message has.
	maxAlerts = 100
	maxSites  = 3
)

// Source is who tells.
type Source struct {
	Instance string // name of the machine
	URL      string // of the agent, with its last slash
}

// Messages groups changes: a rule's that fire are one message, and those that are over another.
func (s Source) Messages(changes []Change) (out []*Message) {
	type group struct {
		key    string
		firing bool
	}
	byGroup := make(map[group]*Message)
	for i := range changes {
		c := &changes[i]
		g := group{c.Rule.key(), c.Firing}
		m := byGroup[g]
		if m == nil {
			m = s.message(c)
			byGroup[g], out = m, append(out, m)
		}
		if len(m.Alerts) == maxAlerts {
			m.TruncatedAlerts++
			continue
		}
		m.Alerts = append(m.Alerts, s.alert(c))
	}
	for _, m := range out {
		m.CommonLabels = common(m.Alerts, func(a *Alert) map[string]string { return a.Labels })
		m.CommonAnnotations = common(m.Alerts, func(a *Alert) map[string]string { return a.Annotations })
	}
	return out
}

func (s Source) message(c *Change) *Message {
	return &Message{
		Status: status(c), GroupLabels: map[string]string{"alertname": c.Rule.Name}, ExternalURL: s.URL, Version: "4",
		GroupKey: fmt.Sprintf("{}:{alertname=%q}", c.Rule.Name), to: c.Rule.To,
	}
}

func status(c *Change) string {
	if c.Firing {
		return statusFiring
	}
	return statusResolved
}

func (s Source) alert(c *Change) Alert {
	r := c.Rule
	a := Alert{
		Status: status(c), StartsAt: c.Began.UTC(), EndsAt: c.Ended.UTC(), GeneratorURL: s.URL + "alerts",
		Labels:      map[string]string{"alertname": r.Name, "severity": r.severity(), "instance": s.Instance},
		Annotations: map[string]string{"summary": s.Summary(c), "condition": r.condition.String()},
	}
	if c.Service != "" {
		a.Labels["service"] = c.Service
	}
	if c.Known {
		a.Annotations["figure"], a.Annotations["limit"] = number(c.Figure), number(r.figure.limit)
		a.Annotations["unit"] = r.figure.unit.String()
	}
	for i, site := range c.Sites[:min(len(c.Sites), maxSites)] {
		a.Annotations[fmt.Sprintf("site_%d", i+1)] = site
	}
	a.Fingerprint = fingerprint(a.Labels)
	return a
}

// Summary is a change in a sentence.
func (s Source) Summary(c *Change) string {
	of := s.Instance
	if c.Service != "" {
		of = fmt.Sprintf("%q on %s", c.Service, s.Instance)
	}
	r := c.Rule
	switch {
	case c.Firing:
		return fmt.Sprintf("%s of %s: %s is %s", r.Name, of, r.condition.String(), text(c.Figure, r.figure.unit))
	case c.Known:
		return fmt.Sprintf("%s of %s is over: %s is %s", r.Name, of, r.condition.String(), text(c.Figure, r.figure.unit))
	}
	return fmt.Sprintf("%s of %s is over: the service or the rule is gone", r.Name, of)
}

func number(v float64) string { return fmt.Sprintf("%.6g", v) }

// common are the pairs that all alerts have.
func common(alerts []Alert, of func(*Alert) map[string]string) map[string]string {
	out := maps.Clone(of(&alerts[0]))
	for i := range alerts[1:] {
		maps.DeleteFunc(out, func(k, v string) bool { return of(&alerts[i+1])[k] != v })
	}
	return out
}

// fingerprint is Alertmanager's: FNV-1a over names and values, each ended by a byte that is in neither.
func fingerprint(labels map[string]string) string {
	h := fnv.New64a()
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		_, _ = h.Write([]byte(name + "\xff" + labels[name] + "\xff"))
	}
	return fmt.Sprintf("%016x", h.Sum64())
}
