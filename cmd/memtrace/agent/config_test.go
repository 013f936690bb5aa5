package agent

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What a file doesn't say is as in Default, and what it says is taken.
func TestConfig(t *testing.T) {
	c, err := ParseConfig([]byte("interval: 30s\nservices:\n- {name: shop, program: 'shop-*'}\n- {name: db, unit: postgresql@*.service, command: '-D /var'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	d := Default()
	if c.Interval != 30*time.Second || c.Listen != d.Listen || c.StallBudget != d.StallBudget || c.MaxServices != d.MaxServices || c.Others != d.Others {
		t.Errorf("%+v", c)
	}
	if len(c.Services) != 2 || c.Services[0].Name != "shop" || c.Services[1].Unit != "postgresql@*.service" || !c.Services[1].command.MatchString("postgres -D /var/lib") {
		t.Errorf("rules %+v", c.Services)
	}
	for _, text := range []string{"", "# nothing\n", "---\n"} {
		if _, err := ParseConfig([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// What is no regular file is refused at once, as to read a FIFO waits for its writer; a web configuration must be there.
func TestFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	fifo, file := filepath.Join(dir, "fifo"), filepath.Join(dir, "memtrace.yaml")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, dir} {
		if _, err := ReadConfig(path); err == nil || !strings.Contains(err.Error(), path+" is no regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := os.WriteFile(file, []byte("web_config: "+dir+"/none.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadConfig(file); err == nil || !strings.Contains(err.Error(), dir+"/none.yaml") {
		t.Errorf("a web configuration that is not there: %v", err)
	}
}

// A wrong file is refused in words that say where and what.
func TestWrongConfigs(t *testing.T) {
	for text, want := range map[string]string{
		"intervall: 3s":                                   "line 1: there is no field intervall; there are listen, web_config, interval, ",
		"interval: soon":                                  "line 1: `soon` is not a time, such as 10s",
		"services: 3":                                     "line 1: `3` is not a list of rules",
		"max_services: many":                              "line 1: `many` is not a whole number",
		"just text":                                       "is not a field with its value",
		"interval: 1ms":                                   "interval: 1ms is not from 1s to 1h0m0s",
		"listen: here":                                    `listen: "here" is no address with a port`,
		"listen: 127.0.0.1:99999":                         `listen: "127.0.0.1:99999" is no address with a port`,
		"stall_budget: 2s":                                "stall_budget: 2s is no part of a second",
		"max_services: 0":                                 "max_services: 0 is not from 1 to 5000",
		"others: all":                                     `others: "all" is none of unit, program, none`,
		"services: [{program: a}]":                        "rule 1: it has no name",
		"services: [{name: a}]":                           "rule 1: a asks nothing of a process",
		"services: [{name: a, cgroup: /}]":                "rule 1: a asks nothing of a process",
		"services: [{name: other}]":                       "the name other is that of all processes without a service",
		"services: [{name: \"a\\e[1m\"}]":                 "has control characters",
		"services: [{name: a, command: '['}]":             "a: command: error parsing regexp",
		"services: [{name: a, program: '['}]":             `a: program: "[" is no pattern`,
		"services: [{name: a, namespace: '['}]":           `a: namespace: "[" is no pattern`,
		"services: [{name: a, pod: '['}]":                 `a: pod: "[" is no pattern`,
		"pods: here":                                      `line 1: pods: "here" is no path from the root on`,
		"services: [{name: a, cgroup: system.slice}]":     "a control group's path begins with /",
		"services:\n- {name: a,\n   programm: b}":         "line 3: there is no field programm; there are name, program, ",
		"services: [{name: a, program: b, growth: much}]": "line 1: `much` is not true or false",
		"max_watched: 51":                                 "max_watched: 51 is not from 0 to 50",
		"watch_top: 51":                                   "line 1: watch_top: 51 is not from 0 to 50",
		"watch_top_by: size":                              `line 1: watch_top_by: "size" is neither growth nor rss`,
		"watch_top_least: 1B":                             "line 1: watch_top_least: 1 bytes are less than 4KiB",
		"site_metrics: 101":                               "site_metrics: 101 is not from 0 to 100",
		"data: here":                                      `data: "here" is no path from the root on`,
		"keep_time: 1m":                                   "keep_time: 1m0s is less than 1h0m0s",
		"keep_size: much":                                 "line 1: `much` is not a size, such as 256MiB",
		"keep_size: 1MiB":                                 "keep_size: 1048576 bytes are less than 4MiB",
		"a: 1\n---\nb: 2":                                 "there is no field a;",
		"interval: 5s\n---\ninterval: 6s":                 "more than one document",
		"x: " + strings.Repeat("a", maxConfig):            "it has more than",
		"services: &a [*a]":                               "line 1: is not a rule",
		"a: &a [x,x,x,x]\nb: &b [*a,*a,*a]\nc: [*b,*b]":   "there is no field a;",
	} {
		_, err := ParseConfig([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
	path := filepath.Join(t.TempDir(), "memtrace.yaml")
	if _, err := ReadConfig(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := os.WriteFile(path, []byte("intervall: 3s"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadConfig(path); err == nil || !strings.HasPrefix(err.Error(), path+": ") {
		t.Errorf("an error of the file doesn't name it: %v", err)
	}
}

func TestLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:9417": true, "[::1]:1": true, "localhost:1": true, "127.9.9.9:1": true,
		"0.0.0.0:1": false, ":1": false, "10.0.0.5:1": false, "[::]:1": false, "evil.example:1": false, "127.0.0.1.evil.example:1": false, "": false,
	} {
		if IsLoopback(address) != want {
			t.Errorf("IsLoopback(%q) is not %v", address, want)
		}
	}
}
