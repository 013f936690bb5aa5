package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/memtrace/memtrace/analyzer/threshold"
	"github.com/memtrace/memtrace/cmd/memtrace/agent/alert"
)

// A Finding is what a look at one thing that the agent needs came to.
type Finding struct {
	What   string // such as port
	State  State
	Text   string // what was looked at, and what is wrong with it
	Remedy string // what to do next; "" where all is well
	// NotAllowed says that it takes another kernel or other privileges.
	NotAllowed bool
}

// State is how well a thing is.
type State uint8

const (
	Fine  State = iota
	Less        // the agent runs, and does less than it is to, or is safe to do
	Wrong       // it does not run, or not what the configuration asks for
)

// Examined is what an agent would go by.
type Examined struct {
	Findings []Finding
	Watched  int      // services whose growth may be watched at a time
	Traces   bool     // an alert has services traced
	Memory   uint64   // bytes that the agent and its tracers may take
	Pressure bool     // an alert is about memory pressure
	Machine  bool     // an alert is about a figure of the machine's
	Files    []string // that it reads: its configuration, and what that names
	Data     string   // folder of recordings; "": none is needed
	Listen   string   // address and port
}

// Examine looks whether an agent could run with these options, and changes nothing. A configuration that is wrong is
// the first finding; the others then are about the defaults.
func Examine(opt Options) Examined {
	var x Examined
	a := Agent{opt: opt}
	c, err := a.readConfig()
	if err != nil {
		x.add(unreadable(err))
		c = Default()
		if opt.Listen != "" {
			c.Listen = opt.Listen
		}
		if opt.Data != "" {
			c.Data = opt.Data
		}
	} else {
		x.add(c.examined(opt.ConfigFile))
	}
	x.about(&c, opt.ConfigFile)
	x.add(examinePort(&c))
	x.add(c.examineWeb()...)
	x.add(c.examineData())
	for i := range c.Receivers {
		x.add(examineReceiver(&c.Receivers[i]))
	}
	return x
}

// unreadable is about a configuration that is wrong, or that this user may not read.
func unreadable(err error) Finding {
	f := Finding{Configuration, Wrong, err.Error() + ". What follows is about the defaults", "mend it: memtrace.yaml(5)",
		false}
	switch {
	case errors.Is(err, fs.ErrPermission):
		f.Remedy, f.NotAllowed = "ask as root, or as the user of the agent", true
	case errors.Is(err, fs.ErrNotExist):
		f.Remedy = "name a file that is there by --config"
	}
	return f
}

func (x *Examined) add(f ...Finding) { x.Findings = append(x.Findings, f...) }

// What the agent may take, and beside the limits of its parts the kernel for them: see packaging/systemd. Bytes.
const (
	ownMemory    = 100 << 20
	tracerKernel = 32 << 20
	traceKernel  = (96 + 100) << 20 // rings, and maps and tables
)

// sizeOf is a limit that a part is begun with.
func sizeOf(limit string) uint64 {
	bytes, _ := threshold.ParseSize(limit) // a constant, which can be parsed
	return bytes
}

func (x *Examined) about(c *Config, file string) {
	ruled, _ := c.watched()
	x.Watched = len(ruled) + c.roomForTop()
	x.Memory, x.Listen = ownMemory, c.Listen
	x.Traces = c.traces()
	if c.watches() || x.Traces {
		x.Data = c.Data
	}
	if x.Watched > 0 {
		x.Memory += uint64(x.Watched)*(sizeOf(tracerMemory)+tracerKernel) + sizeOf(pastMemory)
	}
	if x.Traces {
		x.Memory += sizeOf(fullMemory) + traceKernel
	}
	for i := range c.Alerts {
		when := c.Alerts[i].When
		x.Pressure = x.Pressure || strings.HasPrefix(when, "psi.")
		x.Machine = x.Machine || !strings.Contains(when, "(") // of a service there stands which one
	}
	files := append([]string{file, c.WebConfig}, asksFor(c.WebConfig).files...)
	for i := range c.Receivers {
		files = append(files, c.Receivers[i].WebhookFile, c.Receivers[i].TokenFile)
	}
	for _, f := range files {
		if f != "" {
			x.Files = append(x.Files, f)
		}
	}
}

func fine(what, format string, args ...any) Finding {
	return Finding{What: what, Text: fmt.Sprintf(format, args...)}
}

func (c *Config) examined(file string) Finding {
	if file == "" {
		return fine(Configuration, "none: everything has its default, and nothing is traced")
	}
	ruled, _ := c.watched()
	return fine(Configuration, "%s is right: %s; services whose growth is watched: %d by rules, %d at most by watch_top; "+
		"alerts: %d", file, rules(len(c.Services)), len(ruled), c.roomForTop(), len(c.Alerts))
}

// examinePort listens for an instant. Where somebody else does, it asks who.
func examinePort(c *Config) Finding {
	const what = Port
	l, err := net.Listen("tcp", c.Listen)
	switch {
	case err == nil:
		_ = l.Close()
		if c.WebConfig == "" && !IsLoopback(c.Listen) {
			return Finding{what, Less, c.Listen + " is free, and everybody who reaches it can read the figures",
				"give web_config with TLS and users, or listen on 127.0.0.1", false}
		}
		return fine(what, "%s is free", c.Listen)
	case errors.Is(err, syscall.EADDRINUSE):
		return examineOwner(c.Listen)
	case errors.Is(err, syscall.EACCES):
		return Finding{what, Wrong, err.Error(), "choose a port above 1023 by listen or --listen", true}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return Finding{what, Wrong, err.Error(), "no interface of this machine has the address: choose another by listen " +
			"or --listen", false}
	}
	return Finding{what, Wrong, err.Error(), "choose another address by listen or --listen", false}
}

// examineOwner asks whoever listens.
func examineOwner(listen string) Finding {
	const what, other = Port, "end it, or choose another port by listen or --listen"
	host, port, _ := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	client := http.Client{
		Timeout: 2 * time.Second, Transport: &http.Transport{}, // without a proxy
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Get((&url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: "/"}).String())
	if err != nil {
		return Finding{what, Wrong, fmt.Sprintf("listen on %s: another program does, which is no memtrace serve: %v", listen,
			err), other, false}
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 4096))
	switch {
	case strings.HasPrefix(string(text), indexTitle):
		return fine(what, "a memtrace serve runs already, and answers at %s", listen)
	case answer.StatusCode == http.StatusUnauthorized || strings.Contains(string(text), "HTTPS server"):
		return Finding{what, Less, fmt.Sprintf("listen on %s: a web server with TLS or users does, a memtrace serve maybe",
			listen), other, false}
	}
	return Finding{what, Wrong, fmt.Sprintf("listen on %s: another web server does", listen), other, false}
}

// examineWeb looks who can read what the web configuration keeps to itself. That it is right is known.
func (c *Config) examineWeb() (out []Finding) {
	if c.WebConfig == "" {
		return nil
	}
	for _, f := range []string{c.WebConfig, asksFor(c.WebConfig).key} {
		if f != "" {
			out = append(out, examineSecret("web_config", f, "is right"))
		}
	}
	return out
}

// examineSecret looks whether everybody may read a file.
func examineSecret(what, file, well string) Finding {
	info, err := os.Stat(file)
	if err != nil {
		return Finding{what, Wrong, err.Error(), "name a file that is there", false}
	}
	if info.Mode().Perm()&0o004 != 0 {
		return Finding{what, Less, file + " can be read by everybody on this machine", "chmod o-r " + file, false}
	}
	return fine(what, "%s %s", file, well)
}

// What Findings are called that a unit may make good.
const (
	Configuration = "configuration"
	Port          = "port"
	DataFolder    = "data folder" // for recordings
)

// examineData looks whether recordings can be kept.
func (c *Config) examineData() Finding {
	const what = DataFolder
	if !c.watches() && !c.traces() {
		return fine(what, "none is needed: nothing asks for growth by call stack or a trace")
	}
	another := "or name another folder by data or --data"
	there := c.Data // or the next above it that is
	info, err := os.Stat(there)
	for errors.Is(err, fs.ErrNotExist) && there != "/" {
		there = filepath.Dir(there)
		info, err = os.Stat(there)
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return Finding{what, Less, fmt.Sprintf("%v: this user can't tell how %s is", err, c.Data), "ask as root", false}
	case err != nil:
		return Finding{what, Wrong, err.Error(), "mend it, " + another, false}
	case !info.IsDir():
		return Finding{what, Wrong, fmt.Sprintf("%s is no folder", there), "remove it, " + another, false}
	case there == c.Data && info.Mode().Perm()&0o022 != 0:
		return Finding{what, Wrong, there + " can be written to by others, who could put files in the way of recordings",
			"chmod 700 " + there, false}
	}
	const write, search = 2, 1 // W_OK and X_OK of access(2)
	if err := syscall.Access(there, write|search); err != nil {
		return Finding{what, Wrong, fmt.Sprintf("write to %s as user %d: %v", there, os.Getuid(), err),
			fmt.Sprintf("sudo install -d -m 0700 -o USER %s, with the user of the agent, %s", c.Data, another), true}
	}
	free, err := freeIn(there)
	switch {
	case err != nil:
		return Finding{what, Less, err.Error(), another[3:], false}
	case free < leastFree:
		return Finding{what, Less, fmt.Sprintf("the disk of %s has %d MiB left, less than %d: %s", there, free>>20,
			leastFree>>20, c.withoutRoom()), "make room, " + another, false}
	case there != c.Data:
		return fine(what, "%s is made at the start, in %s, which has %d MiB left", c.Data, there, free>>20)
	}
	return fine(what, "%s can be written to, and has %d MiB left", c.Data, free>>20)
}

// withoutRoom is what becomes of recordings that there is no room for.
func (c *Config) withoutRoom() string {
	growth, traces := "growth is watched, and nothing is recorded", "traces that alerts ask for fail"
	switch {
	case !c.traces():
		return growth
	case !c.watches():
		return traces
	}
	return growth + ", and " + traces
}

// examineReceiver looks at what a receiver names. No message is sent.
func examineReceiver(r *alert.Receiver) Finding {
	what := "receiver " + r.Name
	const execute = 1 // X_OK of access(2)
	switch {
	case len(r.Command) > 0:
		if err := syscall.Access(r.Command[0], execute); err != nil {
			return Finding{what, Wrong, fmt.Sprintf("run %s as user %d: %v", r.Command[0], os.Getuid(), err),
				"chmod +x it, or name another program", true}
		}
		return fine(what, "%s can be run", r.Command[0])
	case r.TokenFile != "":
		if f := examineSecret(what, r.TokenFile, "is there"); f.State != Fine {
			return f
		}
	}
	if r.WebhookFile != "" {
		return examineSecret(what, r.WebhookFile, "has an address")
	}
	return fine(what, "its address can be one; nothing was sent to it")
}
