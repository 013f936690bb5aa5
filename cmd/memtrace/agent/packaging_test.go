package agent

import (
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// The configuration in the manifests for Kubernetes is one that the agent takes, also with the lines that are commented
// out, and it listens where a scraper reaches it.
func TestConfigurationOfTheManifests(t *testing.T) {
	var config string
	for document := range strings.SplitSeq(packaged(t, "kubernetes/memtrace.yaml"), "\n---\n") {
		var is struct {
			Kind string            `yaml:"kind"`
			Data map[string]string `yaml:"data"`
		}
		if err := yaml.Unmarshal([]byte(document), &is); err != nil {
			t.Fatal(err)
		}
		if is.Kind == "ConfigMap" {
			config = is.Data["memtrace.yaml"]
		}
	}
	uncommented := regexp.MustCompile(`(?m)^( *)# (web_config:|- )`).ReplaceAllString(config, "$1$2")
	for _, text := range []string{config, uncommented} {
		c := parsed(t, text)
		if IsLoopback(c.Listen) || len(c.Services) == 0 {
			t.Errorf("%+v of\n%s", c, text)
		}
	}
	if c := parsed(t, uncommented); c.WebConfig == "" || len(c.Services) < 2 || c.Pods != Default().Pods {
		t.Errorf("%+v of\n%s", c, uncommented)
	}
}

func packaged(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../packaging", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Alert rules and the dashboard ask for metrics that there are, by labels that they have.
func TestMetricsOfRulesAndDashboard(t *testing.T) {
	labels := map[string][]string{
		// Of the process collector, and what Prometheus itself says of a scrape.
		"process_cpu_seconds_total": nil, "process_resident_memory_bytes": nil, "process_start_time_seconds": nil, "up": nil,
	}
	for _, m := range metrics {
		labels[m.name] = m.labels
	}
	comment := regexp.MustCompile(`(?m)^.*(description|summary)"?: .*$`)
	name := regexp.MustCompile(`\b((?:memtrace|process)_[a-z_]+|up)\b(?:\{([^}]*)\})?`)
	label := regexp.MustCompile(`([a-z_]+) *(?:=~|!~|!=|=)`)
	for file, least := range map[string]int{
		"prometheus/memtrace.rules.yaml": 9, "grafana/memtrace.json": 40,
	} {
		var asked []string
		text := strings.ReplaceAll(comment.ReplaceAllString(packaged(t, file), ""), `\"`, `"`)
		for _, found := range name.FindAllStringSubmatch(text, -1) {
			has, ok := labels[found[1]]
			if !ok {
				t.Errorf("%s: there is no metric %s", file, found[1])
			}
			for _, l := range label.FindAllStringSubmatch(found[2], -1) {
				if l[1] != "instance" && l[1] != "job" && !slices.Contains(has, l[1]) {
					t.Errorf("%s: %s has no label %s", file, found[1], l[1])
				}
			}
			asked = append(asked, found[1])
		}
		slices.Sort(asked)
		if n := len(slices.Compact(asked)); n < least {
			t.Errorf("%s asks for %d metrics", file, n)
		}
	}
}

// Parca and Alloy ask for what the agent serves, and for nothing else: each of them has five kinds of profiles that are
// asked for unless the configuration says otherwise (Parca's pkg/config, Alloy's pyroscope.scrape).
func TestScrapersOfProfilesAskForWhatThereIs(t *testing.T) {
	var parca struct {
		Scrape []struct {
			Discovery []struct {
				URL     string        `yaml:"url"`
				Refresh time.Duration `yaml:"refresh_interval"`
			} `yaml:"http_sd_configs"`
			Profiling struct {
				Kinds map[string]profileKind `yaml:"pprof_config"`
			} `yaml:"profiling_config"`
			Job      string        `yaml:"job_name"`
			Interval time.Duration `yaml:"scrape_interval"`
		} `yaml:"scrape_configs"`
		Storage map[string]any `yaml:"object_storage"`
	}
	d := yaml.NewDecoder(strings.NewReader(packaged(t, "parca/parca.yaml")))
	d.KnownFields(true)
	if err := d.Decode(&parca); err != nil || len(parca.Scrape) != 1 || len(parca.Scrape[0].Discovery) != 1 {
		t.Fatalf("%v: %+v", err, parca)
	}
	alloy := packaged(t, "alloy/memtrace.alloy")
	kinds := make(map[string]profileKind)
	for _, found := range regexp.MustCompile(`profile\.(\w+) \{\n([^}]*)\}`).FindAllStringSubmatch(alloy, -1) {
		_, path, _ := strings.Cut(found[2], `path    = "`)
		path, _, _ = strings.Cut(path, `"`)
		kinds[found[1]] = profileKind{strings.Contains(found[2], "enabled = true"), path}
	}
	listed := regexp.MustCompile(`(?s)discovery\.http "memtrace" \{.*?url += "([^"]*)"`).FindStringSubmatch(alloy)
	if listed == nil {
		t.Fatalf("where it finds them is not in\n%s", alloy)
	}
	a, address, _ := running(t, "interval: 1h")
	known(t, a, "shop", &Feed{})
	for who, c := range map[string]struct {
		url   string
		kinds map[string]profileKind
	}{
		"Parca": {parca.Scrape[0].Discovery[0].URL, parca.Scrape[0].Profiling.Kinds}, "Alloy": {listed[1], kinds},
	} {
		want := map[string]profileKind{
			"memory": {true, pprofPath}, "block": {}, "goroutine": {}, "mutex": {}, "process_cpu": {},
		}
		if !maps.Equal(c.kinds, want) {
			t.Errorf("%s asks for %v, want %v", who, c.kinds, want)
		}
		at, err := url.Parse(c.url)
		if err != nil || at.Host != Default().Listen {
			t.Errorf("%s finds the services at %s: %v", who, c.url, err)
			continue
		}
		status, body, _ := get(t, address+at.Path, "")
		if status != 200 || !strings.Contains(body, `"shop"`) {
			t.Errorf("%s is told %d: %s", who, status, body)
		}
	}
}

type profileKind struct {
	Enabled bool   `yaml:"enabled"`
	Path    string `yaml:"path"`
}
