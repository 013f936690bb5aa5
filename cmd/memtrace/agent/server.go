package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v3"
	"golang.org/x/net/netutil"
)

// server answers over HTTP.
type server struct {
	http     *http.Server
	listener net.Listener
	flags    web.FlagConfig
	address  string // as a URL
}

const (
	// maxScrapes is how many scrapes are answered at a time; more get a 503.
	maxScrapes    = 10
	scrapeTimeout = 10 * time.Second
	// maxConnections bounds what idle and hanging clients hold; more wait.
	maxConnections = 256
	readTimeout    = 5 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeader      = 16 << 10
)

// listen takes the address, before anything else is done.
func (a *Agent) listen() (*server, error) {
	c := a.config.Load()
	if c.WebConfig == "" && !IsLoopback(c.Listen) {
		a.log.Printf("warning: everybody who reaches %s can read the figures: give web_config with TLS and users, or listen on 127.0.0.1", c.Listen)
	}
	l, err := net.Listen("tcp", c.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: another program does: end it, or choose another port with --listen", c.Listen)
	}
	if err != nil {
		return nil, err // it names the address
	}
	l = netutil.LimitListener(l, maxConnections)
	a.webConfig = c.WebConfig
	s := &server{
		listener: l, http: a.newHTTPServer(IsLoopback(c.Listen)), flags: web.FlagConfig{WebConfigFile: &a.webConfig},
	}
	scheme := "http"
	if asksFor(c.WebConfig).tls {
		scheme = "https"
	}
	s.address = fmt.Sprintf("%s://%s/", scheme, l.Addr())
	return s, nil
}

// webAsks is what a web configuration asks for.
type webAsks struct {
	tls, users bool     // for a user's name and password
	files      []string // that it names
	key        string   // the secret one of these, "" for none
}

// asksFor reads a web configuration, which is valid.
func asksFor(path string) (asks webAsks) {
	if path == "" {
		return asks
	}
	text, err := os.ReadFile(path)
	var c struct {
		TLS   map[string]any `yaml:"tls_server_config"`
		Users map[string]any `yaml:"basic_auth_users"`
	}
	if err != nil || yaml.Unmarshal(text, &c) != nil {
		return asks
	}
	asks.tls, asks.users = len(c.TLS) > 0, len(c.Users) > 0
	for _, name := range []string{"cert_file", "key_file", "client_ca_file"} {
		file, _ := c.TLS[name].(string)
		if file == "" {
			continue
		}
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(path), file)
		}
		asks.files = append(asks.files, file)
		if name == "key_file" {
			asks.key = file
		}
	}
	return asks
}

// start serves. What ends it comes over the channel.
func (s *server) start() <-chan error {
	ended := make(chan error, 1)
	quiet := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	go func() { ended <- web.Serve(s.listener, s.http, &s.flags, quiet) }()
	return ended
}

// close lets requests end that are being answered, for a second.
func (s *server) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close() // who hangs is cut off
	}
	_ = s.listener.Close() // it is, unless serving never began
}

func (a *Agent) newHTTPServer(loopback bool) *http.Server {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newExporter(a), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, MaxRequestsInFlight: maxScrapes, Timeout: scrapeTimeout, ErrorLog: a.log,
	}))
	mux.HandleFunc("GET /services", a.serveServices)
	mux.HandleFunc("GET /alerts", a.serveAlerts)
	mux.HandleFunc("GET /services/{name}/growth", a.serveGrowth)
	mux.HandleFunc("GET /services/{name}/recordings", a.serveRecordings)
	mux.HandleFunc("GET "+pprofPath, a.servePprof)
	mux.HandleFunc("GET /http_sd", a.serveDiscovery)
	mux.HandleFunc("GET /-/healthy", a.serveHealth)
	mux.HandleFunc("GET /{$}", serveIndex)
	return &http.Server{
		Handler: guard(mux, loopback), ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: 2 * scrapeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: a.log,
	}
}

// guard refuses what a foreign page sends through a browser on this machine: a name of its own that leads to
// 127.0.0.1 (DNS rebinding) is no Host of ours.
func guard(next http.Handler, loopback bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		if loopback && !isLoopbackHost(r.Host) {
			http.Error(w, "memtrace listens on this machine alone: ask it as 127.0.0.1 or localhost", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isLoopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return IsLoopback(net.JoinHostPort(host, "0"))
}

// serveServices gives the latest Snapshot as JSON.
func (a *Agent) serveServices(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, a.latest.Load())
}

// staleAfter is how many intervals may pass without figures until the agent is no longer well.
const staleAfter = 5

// serveHealth says whether the figures are recent.
func (a *Agent) serveHealth(w http.ResponseWriter, _ *http.Request) {
	age, limit := time.Since(a.latest.Load().At), staleAfter*a.config.Load().Interval
	if age > limit {
		http.Error(w, fmt.Sprintf("the figures are %v old, more than %v", age.Round(time.Second), limit), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "well")
}

// indexTitle is how the agent's first page begins, by which another one knows it.
const indexTitle = "memtrace serve\n"

func serveIndex(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprint(w, indexTitle+`
/metrics     for Prometheus
/services    the same figures of services, as JSON
/alerts      alerts as they are now, and what their traces have found, as JSON
/-/healthy   200 while the figures are recent

Of services whose growth is watched:

/services/NAME/growth             the call sites that its growth belongs to, as JSON
/services/NAME/recordings         its recordings, as JSON
/debug/pprof/allocs?service=NAME  its growth as a profile; with &seconds=N, what is new after that time;
                                  with &at=2026-11-27T10:00:00Z, as it was then, by its recording;
                                  with &from=TIME&to=TIME, what was new between; &kind=live or allocated
/http_sd                          those services, for scrapers of profiles
`)
}
