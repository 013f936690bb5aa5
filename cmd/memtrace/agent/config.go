package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v3"

	"github.com/memtrace/memtrace/analyzer/threshold"
	"github.com/memtrace/memtrace/cmd/memtrace/agent/alert"
)

// Config is what the agent is to do. The zero value of a field means its default: see Default.
type Config struct {
	Listen      string        `yaml:"listen"`       // address and port
	WebConfig   string        `yaml:"web_config"`   // Prometheus' web configuration: TLS, users; none if empty
	Interval    time.Duration `yaml:"interval"`     // between two passes over all processes
	StallBudget time.Duration `yaml:"stall_budget"` // how long of each second a process's memory lock may be held
	MaxServices int           `yaml:"max_services"` // with metrics of their own; the others are summed
	Services    []Rule        `yaml:"services"`     // in order: the first that matches names a process
	Others      string        `yaml:"others"`       // how the others are named: see below
	Pods        string        `yaml:"pods"`         // the kubelet's folder of logs, which has pods' names

	// Of services whose growth is watched, as a rule asks for it, or as they are among the top.
	MaxWatched    int           `yaml:"max_watched"`     // services; each costs a tracer of its own
	WatchTop      int           `yaml:"watch_top"`       // services without such a rule, those with most of WatchTopBy
	WatchTopBy    string        `yaml:"watch_top_by"`    // see below
	WatchTopLeast Size          `yaml:"watch_top_least"` // of that, to be among them
	SiteMetrics   int           `yaml:"site_metrics"`    // call sites of a service that have metrics of their own
	Data          string        `yaml:"data"`            // folder for recordings and the audit log
	KeepTime      time.Duration `yaml:"keep_time"`       // how long recordings are kept
	KeepSize      Size          `yaml:"keep_size"`       // how much a service's recordings may take

	Alerts    []alert.Rule     `yaml:"alerts"`
	Receivers []alert.Receiver `yaml:"receivers"` // who is told of them
}

// Size is an amount of bytes, in YAML as people write it: 256MiB.
type Size uint64

// UnmarshalYAML is a yaml.Unmarshaler's.
func (s *Size) UnmarshalYAML(n *yaml.Node) error {
	bytes, err := threshold.ParseSize(n.Value)
	if err != nil {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: `%s` is not a size, such as 256MiB", n.Line, n.Value)}}
	}
	*s = Size(bytes)
	return nil
}

// How processes that no rule matches are named.
const (
	OthersUnit    = "unit"    // by pod, systemd unit or container, else by program
	OthersProgram = "program" // by program alone
	OthersNone    = "none"    // not at all: they are summed in the service "other"
)

// By what services are among the top.
const (
	TopByGrowth = "growth" // of anonymous memory and swap, in the last hour
	TopByRSS    = "rss"
)

// Default is what a Config that says nothing means.
func Default() Config {
	return Config{
		Listen: "127.0.0.1:9417", Interval: 10 * time.Second, StallBudget: 2 * time.Millisecond, MaxServices: 200, Others: OthersUnit,
		Pods:       "/var/log/pods",
		MaxWatched: 5, WatchTopBy: TopByGrowth, WatchTopLeast: 256 << 10,
		Data: "/var/lib/memtrace", KeepTime: 14 * 24 * time.Hour, KeepSize: 256 << 20,
	}
}

const (
	maxConfig = 1 << 20 // bytes of a file
	maxRules  = 1000

	minInterval = time.Second
	maxInterval = time.Hour
	// maxMaxServices bounds the series of a scrape: some 20 for each service.
	maxMaxServices = 5000

	maxMaxWatched = 50
	// leastWatchTop is a page: what no watch_top_least is below.
	leastWatchTop  = 4 << 10
	maxSiteMetrics = 100
	leastKeepTime  = time.Hour
	leastKeepSize  = 4 << 20
)

// ReadConfig reads a YAML file. What it doesn't say is as in Default. An error names the file, and the line where there
// is one.
func ReadConfig(path string) (Config, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // to open a FIFO waits for its writer
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return Config{}, fmt.Errorf("read the configuration: %s is no regular file: give one with YAML in it (docs/serve.md)", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration: %w", err)
	}
	c, err := ParseConfig(text)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	if c.WebConfig != "" {
		if err := web.Validate(c.WebConfig); err != nil {
			return Config{}, fmt.Errorf("%s: web_config %s: %w", path, c.WebConfig, err)
		}
	}
	return c, nil
}

// ParseConfig parses a file's text. Unknown fields are errors: a word that is misspelt would watch nothing.
func ParseConfig(text []byte) (Config, error) {
	c := Default()
	if len(text) > maxConfig {
		return Config{}, fmt.Errorf("it has more than %d bytes", maxConfig)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return Config{}, inWords(err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return Config{}, errors.New("it has more than one document: keep what stands before the line ---")
	}
	return c, withLine(c.check(), text)
}

// check refuses what can't be meant, and makes the rules ready.
func (c *Config) check() error {
	if _, port, err := net.SplitHostPort(c.Listen); err != nil || !isPort(port) {
		return wrongIn("listen", "%q is no address with a port, such as 127.0.0.1:9417", c.Listen)
	}
	switch {
	case c.Interval < minInterval || c.Interval > maxInterval:
		return wrongIn("interval", "%v is not from %v to %v", c.Interval, minInterval, maxInterval)
	case c.StallBudget <= 0 || c.StallBudget > time.Second:
		return wrongIn("stall_budget", "%v is no part of a second, such as 2ms", c.StallBudget)
	case c.MaxServices < 1 || c.MaxServices > maxMaxServices:
		return wrongIn("max_services", "%d is not from 1 to %d", c.MaxServices, maxMaxServices)
	case len(c.Services) > maxRules:
		return wrongIn("services", "%d rules are more than %d", len(c.Services), maxRules)
	case c.Others != OthersUnit && c.Others != OthersProgram && c.Others != OthersNone:
		return wrongIn("others", "%q is none of %s, %s, %s", c.Others, OthersUnit, OthersProgram, OthersNone)
	case c.Pods != "" && !filepath.IsAbs(c.Pods):
		return wrongIn("pods", "%q is no path from the root on, such as /var/log/pods", c.Pods)
	}
	if err := c.checkGrowth(); err != nil {
		return err
	}
	for i := range c.Services {
		if err := c.Services[i].prepare(); err != nil {
			return &wrongField{[]any{"services", i}, fmt.Errorf("services: rule %d: %w", i+1, err)}
		}
	}
	return c.checkAlerts()
}

// checkGrowth is check of what is about services whose growth is watched.
func (c *Config) checkGrowth() error {
	switch {
	case c.MaxWatched < 0 || c.MaxWatched > maxMaxWatched:
		return wrongIn("max_watched", "%d is not from 0 to %d", c.MaxWatched, maxMaxWatched)
	case c.WatchTop < 0 || c.WatchTop > maxMaxWatched:
		return wrongIn("watch_top", "%d is not from 0 to %d", c.WatchTop, maxMaxWatched)
	case c.WatchTopBy != TopByGrowth && c.WatchTopBy != TopByRSS:
		return wrongIn("watch_top_by", "%q is neither %s nor %s", c.WatchTopBy, TopByGrowth, TopByRSS)
	case c.WatchTopLeast < leastWatchTop:
		return wrongIn("watch_top_least", "%d bytes are less than 4KiB", c.WatchTopLeast)
	case c.SiteMetrics < 0 || c.SiteMetrics > maxSiteMetrics:
		return wrongIn("site_metrics", "%d is not from 0 to %d", c.SiteMetrics, maxSiteMetrics)
	case !filepath.IsAbs(c.Data):
		return wrongIn("data", "%q is no path from the root on, such as /var/lib/memtrace", c.Data)
	case c.KeepTime < leastKeepTime:
		return wrongIn("keep_time", "%v is less than %v", c.KeepTime, leastKeepTime)
	case c.KeepSize < leastKeepSize:
		return wrongIn("keep_size", "%d bytes are less than 4MiB", c.KeepSize)
	}
	return nil
}

// watches reports whether the growth of any service may be watched.
func (c *Config) watches() bool {
	names, _ := c.watched()
	return len(names) > 0 || min(c.WatchTop, c.MaxWatched) > 0
}

// roomForTop is how many services watch_top may have watched, beside those of rules.
func (c *Config) roomForTop() int {
	ruled, _ := c.watched()
	return min(c.WatchTop, c.MaxWatched-len(ruled))
}

// watched are the services whose rules ask for growth, in the order of their rules, and how many more there would be.
func (c *Config) watched() (names []string, omitted int) {
	for i := range c.Services {
		if r := &c.Services[i]; r.Growth && !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}
	most := min(c.MaxWatched, len(names))
	return names[:most], len(names) - most
}

// traces reports whether any alert may have a service traced.
func (c *Config) traces() bool {
	return slices.ContainsFunc(c.Alerts, func(r alert.Rule) bool { return r.Trace != nil })
}

// tracesOf reports whether an alert may have this service traced.
func (c *Config) tracesOf(service string) bool {
	for i := range c.Alerts {
		if c.Alerts[i].Traces(service) {
			return true
		}
	}
	return false
}

// names reports whether a rule has this name.
func (c *Config) names(service string) bool {
	return slices.ContainsFunc(c.Services, func(r Rule) bool { return r.Name == service })
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// IsLoopback reports whether an address can be reached from this machine alone.
func IsLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}
