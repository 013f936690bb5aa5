// Package grafana checks the dashboard in this folder.
package grafana

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

type datasource struct{ Type, UID string }

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               datasource
	GridPos                  struct{ H, W, X, Y int }
	Targets                  []struct {
		RefID, Expr string
		Datasource  datasource
	}
}

type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Templating    struct {
		List []struct {
			Name, Type, Definition string
		}
	}
	Panels []panel
}

func read(t *testing.T) (d dashboard, text []byte) {
	t.Helper()
	text, err := os.ReadFile("memtrace.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d, text
}

// What Grafana puts in place of its variables, for a parser.
var filled = strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$service", ".*")

// Each panel asks in PromQL, at the chosen source, for the chosen instances.
func TestPanels(t *testing.T) {
	d, _ := read(t)
	var ids []int
	asked := 0
	for i := range d.Panels {
		p := &d.Panels[i]
		if p.Title == "" || slices.Contains(ids, p.ID) {
			t.Errorf("panel %d, %q", p.ID, p.Title)
		}
		ids = append(ids, p.ID)
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || len(p.Targets) == 0 || p.Datasource != (datasource{"prometheus", "${datasource}"}) {
			t.Errorf("%s: %+v", p.Title, p)
		}
		for _, target := range p.Targets {
			asked++
			if target.Datasource != p.Datasource || !strings.Contains(target.Expr, `instance=~"$instance"`) {
				t.Errorf("%s: %s: it isn't asked of what is chosen", p.Title, target.Expr)
			}
			expr := filled.Replace(target.Expr)
			if strings.Contains(expr, "$") {
				t.Errorf("%s: %s: there is no such variable", p.Title, target.Expr)
			}
			if _, err := parser.NewParser(parser.Options{}).ParseExpr(expr); err != nil {
				t.Errorf("%s: %s: %v", p.Title, target.Expr, err)
			}
		}
	}
	if asked < 40 {
		t.Errorf("%d questions", asked)
	}
}

// No two panels lie on one another, and none beside the page.
func TestPanelsHaveTheirPlaces(t *testing.T) {
	d, _ := read(t)
	taken := make(map[[2]int]string)
	for _, p := range d.Panels {
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, is := taken[[2]int{x, y}]; is || x >= 24 {
					t.Fatalf("%q lies on %q", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

// It is taken by any Grafana: the source and what is shown are chosen there, and nothing of the one that made it is in
// it.
func TestDashboardIsOfNoGrafana(t *testing.T) {
	d, text := read(t)
	var names []string
	for _, v := range d.Templating.List {
		names = append(names, v.Type+" "+v.Name)
		if metric := strings.TrimPrefix(v.Definition, "label_values("); v.Type == "query" && metric == v.Definition {
			t.Errorf("%s: %q", v.Name, v.Definition)
		}
	}
	if !slices.Equal(names, []string{"datasource datasource", "query instance", "query service"}) {
		t.Errorf("variables %v", names)
	}
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 39 || bytes.Contains(text, []byte("__inputs")) {
		t.Errorf("%q, %q, %d", d.UID, d.Title, d.SchemaVersion)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		t.Fatal(err)
	}
	if _, has := keys["id"]; has {
		t.Error("it has the number of one Grafana's")
	}
}
