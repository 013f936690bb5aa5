package web

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"net/http"
	"path"
	"sync/atomic"
	"time"
)

//go:embed page
var pageFiles embed.FS

// What clients can take at a time.
const (
	maxConnections = 256
	maxAtWork      = 32 // requests; others wait
	maxHeader      = 32 << 10
)

// A Server shows files.
type Server struct {
	files   []*File
	version string
	guard   guard
	jobs    *jobs
	atWork  chan struct{}
	refused atomic.Uint64 // requests that guard refused
}

// New makes a Server of files.
func New(files []*File, version string, share Shares) *Server {
	return &Server{
		files: files, version: version, guard: guard{token: newToken()},
		jobs: newJobs(share.Answers), atWork: make(chan struct{}, maxAtWork),
	}
}

// Listen opens a TCP port and returns the address of the page, with its token. 0 as a port is any that is free.
func (s *Server) Listen(address string) (net.Listener, string, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, "", err
	}
	s.guard.serves(l.Addr().(*net.TCPAddr), address)
	return &limited{Listener: l, free: make(chan struct{}, maxConnections)}, s.guard.url(), nil
}

// Serve answers until ctx ends, and then waits a moment for answers under way.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.jobs.ctx = ctx
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader, ErrorLog: log.New(discard{}, "", 0),
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := server.Shutdown(last); err != nil {
			_ = server.Close() // a client that reads slowly
		}
		stopped <- nil
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the page: %w", err)
	}
	return <-stopped
}

// discard drops what net/http says of clients that break off.
type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.static("index.html"))
	mux.HandleFunc("GET /page/{name}", func(w http.ResponseWriter, r *http.Request) { s.static(r.PathValue("name"))(w, r) })
	for name, answer := range map[string]answerer{
		"files": s.list, "view": s.view, "timeline": s.timeline, "flame": s.flame, "table": s.table, "leaks": s.leaks, "suppression": s.suppression,
	} {
		mux.Handle("GET /api/"+name, answer)
	}
	mux.HandleFunc("GET /api/table.csv", s.tableCSV)
	return s.guard.wrap(s.bounded(mux), &s.refused)
}

// bounded has the requests that are too many at a time wait for others.
func (s *Server) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.atWork <- struct{}{}:
			defer func() { <-s.atWork }()
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})
}

var contentTypes = map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

// static answers with a part of the page.
func (s *Server) static(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, err := fs.ReadFile(pageFiles, path.Join("page", path.Base(name)))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", contentTypes[path.Ext(name)])
		_, _ = w.Write(data)
	}
}

// limited accepts so many connections at a time.
type limited struct {
	net.Listener
	free chan struct{}
}

// Accept waits for a connection to end where there are too many.
func (l *limited) Accept() (net.Conn, error) {
	l.free <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.free
		return nil, err
	}
	return &counted{Conn: c, free: l.free}, nil
}

type counted struct {
	net.Conn
	free   chan struct{}
	closed atomic.Bool
}

// Close makes room for another connection.
func (c *counted) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		<-c.free
	}
	return c.Conn.Close()
}
