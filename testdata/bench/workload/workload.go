// Package workload has real programs and something for each to do, for the
// benchmarks that trace them.
package workload

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

// A Workload is a program and something for it to do.
type Workload struct {
	Name, What string
	Needs      []string // commands, or files with wildcards
	// Command makes ready in dir what the program needs and returns its arguments.
	Command func(dir string) ([]string, error)
	Input   func(dir string) (*os.File, error) // the program's stdin
	// Load drives a service, which End then ends.
	Load func(dir string) error
	End  syscall.Signal
}

// There reports whether the machine has what the workload needs.
func (w *Workload) There() bool {
	for _, need := range w.Needs {
		if _, err := Find(need); err != nil {
			return false
		}
	}
	return true
}

// Find returns the path of a command, or the last file that a pattern matches.
func Find(need string) (string, error) {
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

// PostgresBin is the server; its tools are beside it.
const PostgresBin = "/usr/lib/postgresql/*/bin/postgres"

// All lists the workloads.
func All() []Workload {
	return []Workload{
		{Name: "redis", What: "redis-benchmark: set, lpush, sadd, hset, zadd", Needs: []string{"redis-server", "redis-benchmark"},
			Command: RedisServer, Load: redisLoad, End: syscall.SIGTERM},
		{Name: "PostgreSQL", What: "pgbench, a connection for each transaction", Needs: []string{PostgresBin, "setpriv"},
			Command: postgresServer, Load: postgresLoad, End: syscall.SIGINT},
		{Name: "nginx", What: "wrk, connections kept and not", Needs: []string{"/usr/sbin/nginx", "wrk"},
			Command: nginxServer, Load: nginxLoad, End: syscall.SIGTERM},
		{Name: "python3", What: "json, xml, re, sqlite3, ssl", Needs: []string{"/usr/bin/python3"}, Command: python},
		{Name: "sqlite3", What: "inserts, joins, sorts", Needs: []string{"sqlite3"}, Command: SQLite, Input: sqliteInput},
		{Name: "cc1plus", What: "-O2, regex, maps, iostreams", Needs: []string{"g++"}, Command: Compiler},
		{Name: "Chromium", What: "headless, a page with scripts", Needs: []string{"chromium"}, Command: chromium},
	}
}

// Run runs a command to its end.
func Run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, out)
	}
	return nil
}

// Write writes a file in dir and returns its path.
func Write(dir, name, text string) (string, error) {
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, []byte(text), 0o644)
}

// Listens waits for a service's socket.
func Listens(network, address string) error {
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

// RedisServer is redis on a socket in dir, without a disk.
func RedisServer(dir string) ([]string, error) {
	return []string{"redis-server", "--port", "0", "--unixsocket", filepath.Join(dir, "sock"), "--dir", dir, "--save", "",
		"--logfile", filepath.Join(dir, "log")}, nil
}

func redisLoad(dir string) error {
	sock := filepath.Join(dir, "sock")
	if err := Listens("unix", sock); err != nil {
		return err
	}
	return Run("redis-benchmark", "-s", sock, "-q", "-n", "60000", "-r", "20000", "-d", "100", "-t", "set,lpush,sadd,hset,zadd")
}

func postgresServer(dir string) ([]string, error) {
	if err := InitPostgres(dir); err != nil {
		return nil, err
	}
	return PostgresServer(dir)
}

// asPostgres begins a command that the server's user is to run.
var asPostgres = []string{"setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"}

// InitPostgres makes a database cluster in dir, which becomes the server's user's.
func InitPostgres(dir string) error {
	postgres, err := Find(PostgresBin)
	if err != nil {
		return err
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	if err := Run("chown", "postgres:", dir, data); err != nil {
		return err
	}
	initdb := append(asPostgres[1:len(asPostgres):len(asPostgres)], filepath.Join(filepath.Dir(postgres), "initdb"), "-A", "trust", "-N", "-D", data)
	return Run(asPostgres[0], initdb...)
}

// PostgresServer is PostgreSQL on the cluster and a socket in dir.
func PostgresServer(dir string) ([]string, error) {
	postgres, err := Find(PostgresBin)
	return append(asPostgres[:len(asPostgres):len(asPostgres)], postgres, "-D", filepath.Join(dir, "data"), "-k", dir,
		"-c", "listen_addresses=", "-c", "fsync=off", "-c", "jit=off"), err
}

func postgresLoad(dir string) error {
	if err := FillPostgres(dir); err != nil {
		return err
	}
	_, err := Pgbench(dir, "-n", "-C", "-c", "2", "-T", "15")
	return err
}

// FillPostgres makes pgbench's tables, once the server is ready.
func FillPostgres(dir string) error {
	if err := Listens("unix", filepath.Join(dir, ".s.PGSQL.5432")); err != nil {
		return err
	}
	var err error
	for range 60 { // it listens before it is ready
		if _, err = Pgbench(dir, "-i", "-s", "1", "-q"); err == nil {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	return err
}

// Pgbench runs pgbench against the server in dir and returns what it says.
func Pgbench(dir string, args ...string) (string, error) {
	bin, err := Find(filepath.Dir(PostgresBin) + "/pgbench")
	if err != nil {
		return "", err
	}
	cmd := exec.Command(bin, append(append([]string{"-h", dir, "-U", "postgres"}, args...), "postgres")...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("pgbench: %w: %s", err, out)
	}
	return string(out), nil
}

func nginxServer(dir string) ([]string, error) {
	config := fmt.Sprintf(`daemon off; worker_processes 1; pid %[1]s/pid; error_log %[1]s/log;
events { worker_connections 256; }
http { access_log off; client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
gzip on; gzip_min_length 1; gzip_types text/plain; default_type text/plain; keepalive_requests 20;
server { listen 127.0.0.1:%[2]s; root %[1]s; } }`, dir, nginxPort)
	if _, err := Write(dir, "index.html", strings.Repeat("a page of text\n", 400)); err != nil {
		return nil, err
	}
	path, err := Write(dir, "nginx.conf", config)
	return []string{"/usr/sbin/nginx", "-c", path}, err
}

const nginxPort = "18099"

func nginxLoad(string) error {
	if err := Listens("tcp", "127.0.0.1:"+nginxPort); err != nil {
		return err
	}
	return Run("wrk", "-t1", "-c8", "-d12s", "-H", "Accept-Encoding: gzip", "http://127.0.0.1:"+nginxPort+"/index.html")
}
