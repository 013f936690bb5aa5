package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A workload is a program and something for it to do.
type workload struct {
	name, what string
	needs      []string // commands, or files with wildcards
	// command makes ready in dir what the program needs and returns its arguments.
	command func(dir string) ([]string, error)
	input   func(dir string) (*os.File, error) // the program's stdin
	// load drives a service, which end then ends.
	load func(dir string) error
	end  syscall.Signal
}

// there reports whether the machine has what the workload needs.
func (w *workload) there() bool {
	for _, need := range w.needs {
		if _, err := find(need); err != nil {
			return false
		}
	}
	return true
}

// find returns the path of a command, or the last file that a pattern matches.
func find(need string) (string, error) {
	if !strings.Contains(need, "/") {
		return exec.LookPath(need)
	}
	found, err := filepath.Glob(need)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s: %w", need, os.ErrNotExist)
	}
	if err != nil {
		return "", err
	}
	return found[len(found)-1], nil
}

const postgresBin = "/usr/lib/postgresql/*/bin/postgres"

func workloads() []workload {
	return []workload{
		{name: "redis", what: "redis-benchmark: set, lpush, sadd, hset, zadd", needs: []string{"redis-server", "redis-benchmark"},
			command: redisServer, load: redisLoad, end: syscall.SIGTERM},
		{name: "PostgreSQL", what: "pgbench, a connection for each transaction", needs: []string{postgresBin, "setpriv"},
			command: postgresServer, load: postgresLoad, end: syscall.SIGINT},
		{name: "nginx", what: "wrk, connections kept and not", needs: []string{"/usr/sbin/nginx", "wrk"},
			command: nginxServer, load: nginxLoad, end: syscall.SIGTERM},
		{name: "python3", what: "json, xml, re, sqlite3, ssl", needs: []string{"/usr/bin/python3"}, command: python},
		{name: "sqlite3", what: "inserts, joins, sorts", needs: []string{"sqlite3"}, command: sqlite, input: sqliteInput},
		{name: "cc1plus", what: "-O2, regex, maps, iostreams", needs: []string{"g++"}, command: compiler},
		{name: "Chromium", what: "headless, a page with scripts", needs: []string{"chromium"}, command: chromium},
	}
}

func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, out)
	}
	return nil
}

func write(dir, name, text string) (string, error) {
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, []byte(text), 0o644)
}

// listens waits for a service's socket.
func listens(network, address string) error {
	var err error
	for range 600 {
		var conn net.Conn
		if conn, err = net.Dial(network, address); err == nil {
			return conn.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("the service does not listen: %w", err)
}

func redisServer(dir string) ([]string, error) {
	return []string{"redis-server", "--port", "0", "--unixsocket", filepath.Join(dir, "sock"), "--dir", dir, "--save", "",
		"--logfile", filepath.Join(dir, "log")}, nil
}

func redisLoad(dir string) error {
	sock := filepath.Join(dir, "sock")
	if err := listens("unix", sock); err != nil {
		return err
	}
	return command("redis-benchmark", "-s", sock, "-q", "-n", "60000", "-r", "20000", "-d", "100", "-t", "set,lpush,sadd,hset,zadd")
}

func postgresServer(dir string) ([]string, error) {
	postgres, err := find(postgresBin)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	as := []string{"setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"}
	if err := command("chown", "postgres:", dir, data); err != nil {
		return nil, err
	}
	initdb := append(as[1:], filepath.Join(filepath.Dir(postgres), "initdb"), "-A", "trust", "-N", "-D", data)
	if err := command(as[0], initdb...); err != nil {
		return nil, err
	}
	return append(as, postgres, "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "jit=off"), nil
}

func postgresLoad(dir string) error {
	if err := listens("unix", filepath.Join(dir, ".s.PGSQL.5432")); err != nil {
		return err
	}
	bin, err := find(filepath.Dir(postgresBin) + "/pgbench")
	if err != nil {
		return err
	}
	for range 60 { // it listens before it is ready
		if err = command(bin, "-h", dir, "-U", "postgres", "-i", "-s", "1", "-q", "postgres"); err == nil {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	return command(bin, "-h", dir, "-U", "postgres", "-n", "-C", "-c", "2", "-T", "15", "postgres")
}

func nginxServer(dir string) ([]string, error) {
	config := fmt.Sprintf(`daemon off; worker_processes 1; pid %[1]s/pid; error_log %[1]s/log;
events { worker_connections 256; }
http { access_log off; client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
gzip on; gzip_min_length 1; gzip_types text/plain; default_type text/plain; keepalive_requests 20;
server { listen 127.0.0.1:%[2]s; root %[1]s; } }`, dir, nginxPort)
	if _, err := write(dir, "index.html", strings.Repeat("a page of text\n", 400)); err != nil {
		return nil, err
	}
	path, err := write(dir, "nginx.conf", config)
	return []string{"/usr/sbin/nginx", "-c", path}, err
}

const nginxPort = "18099"

func nginxLoad(string) error {
	if err := listens("tcp", "127.0.0.1:"+nginxPort); err != nil {
		return err
	}
	return command("wrk", "-t1", "-c8", "-d12s", "-H", "Accept-Encoding: gzip", "http://127.0.0.1:"+nginxPort+"/index.html")
}
