package alert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func large(t *testing.T) *Rule {
	t.Helper()
	r := &Rule{Name: "large", When: "rss(*)>1KiB"}
	if err := r.Prepare(nil); err != nil {
		t.Fatal(err)
	}
	return r
}

// What receivers get is what Alertmanager sends for the same alerts: testdata has what Debian's 0.25 sent. Annotations are
// an alert's own.
func TestMessageIsAlertmanagers(t *testing.T) {
	text, err := os.ReadFile("testdata/alertmanager-0.25.json")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Date(2026, 11, 28, 3, 0, 0, 0, time.UTC)
	r := large(t)
	all := Source{Instance: "host1", URL: "http://127.0.0.1:9417/"}.Messages([]Change{
		{Rule: r, Service: "db", Firing: true, Began: began}, {Rule: r, Service: "shop", Firing: true, Began: began},
	})
	if len(all) != 1 {
		t.Fatalf("%d messages", len(all))
	}
	ours := *all[0]
	ours.Receiver, ours.ExternalURL = "chat", "http://monitor.example:9093"
	ours.Alerts[0].Annotations = map[string]string{"summary": "t"}
	ours.Alerts[1].Annotations = map[string]string{"summary": "s"}
	ours.CommonAnnotations = map[string]string{}
	got, err := json.Marshal(&ours)
	if err != nil {
		t.Fatal(err)
	}
	if want := bytes.TrimSpace(text); !bytes.Equal(got, want) {
		t.Errorf("it is\n%s\nand Alertmanager's\n%s", got, want)
	}
}

// What begins and what is over are messages of their own, and many alerts are cut and counted.
func TestMessagesAreGroupedAndBounded(t *testing.T) {
	r := large(t)
	var changes []Change
	for i := range 250 {
		changes = append(changes, Change{Rule: r, Service: fmt.Sprint(i), Firing: i >= 2, Ended: begin})
	}
	all := Source{Instance: "host1"}.Messages(changes)
	if len(all) != 2 || all[0].Status != "resolved" || len(all[0].Alerts) != 2 || all[1].Status != "firing" || len(all[1].Alerts) != maxAlerts || all[1].TruncatedAlerts != 148 {
		t.Errorf("%d messages: %+v", len(all), all)
	}
}

func TestSummaries(t *testing.T) {
	r := large(t)
	s := Source{Instance: "host1"}
	for _, c := range []struct {
		change Change
		want   string
	}{
		{Change{Rule: r, Service: "a", Firing: true, Figure: 3 << 20, Known: true}, `large of "a" on host1: rss(*)>1KiB is 3.0MiB`},
		{Change{Rule: r, Service: "a", Figure: 1000, Known: true}, `large of "a" on host1 is over: rss(*)>1KiB is 1000.0B`},
		{Change{Rule: r, Service: "a"}, `large of "a" on host1 is over: the service or the rule is gone`},
	} {
		if got := s.Summary(&c.change); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	many := Change{Rule: r, Service: "a", Firing: true, Sites: []string{"a", "b", "c", "d"}}
	a := s.alert(&many)
	if a.Annotations["site_1"] != "a" || a.Annotations["site_3"] != "c" || slices.Contains(variables(&Message{Alerts: []Alert{a}}), "d") || a.Annotations["site_4"] != "" {
		t.Errorf("%+v", a)
	}
	if v := variables(&Message{Status: "firing", Alerts: []Alert{a}}); !slices.Contains(v, "MEMTRACE_SERVICE=a") || !strings.HasPrefix(v[0], "MEMTRACE_ALERT=large") {
		t.Errorf("%q", v)
	}
}
