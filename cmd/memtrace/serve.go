//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/cmd/memtrace/agent"
)

// defaultServeConfig is read where it exists and no other is named.
const defaultServeConfig = "/etc/memtrace/memtrace.yaml"

const serveDescription = "Watches the memory of all services of this machine for as long as it runs, and tells Prometheus at /metrics. " +
	"It reads /proc within a stall budget, and costs its targets nothing else. Of services whose rules say growth: true, or that grow most (watch_top), it finds the call " +
	"stacks that their growth belongs to, without a probe, keeps recordings, and has profiles for go tool pprof, Parca and Pyroscope.\n\n" +
	"Alerts in the configuration tell a command or a webhook when memory, pressure, a service's size or its growth have crossed a limit for some " +
	"time; one with trace: 1m has the service traced in full for that time as it begins, with a leak check at the end. " +
	"Growth and traces take more rights than the rest (docs/serve.md).\n\n" +
	"It listens on this machine alone unless told otherwise. Services are systemd's units, containers and programs, unless " + defaultServeConfig + " " +
	"has rules of its own. SIGHUP and a changed file have it read again; one that is wrong leaves the old in force. " +
	"memtrace.yaml(5) lists its keys."

func serveFlags() []cli.Flag {
	return []cli.Flag{
		&cli.PathFlag{Name: "config", Usage: "read this file instead of " + defaultServeConfig},
		&cli.StringFlag{Name: "listen", Usage: "answer at this address and port, instead of the configuration's (127.0.0.1:9417)"},
		&cli.PathFlag{Name: "data", Usage: "keep recordings and the audit log in this folder, instead of the configuration's (/var/lib/memtrace)"},
		&cli.BoolFlag{Name: "check-config", Usage: "say what is wrong with the configuration, and end"},
	}
}

func serveCommand(c *cli.Context) error {
	if err := refuseArguments(c); err != nil {
		return err
	}
	file, err := serveConfig(c)
	if err != nil {
		return err
	}
	if c.Bool("check-config") {
		return checkServeConfig(file)
	}
	data := c.Path("data")
	if data != "" {
		if data, err = filepath.Abs(data); err != nil {
			return err
		}
	}
	a, err := agent.New(agent.Options{
		ConfigFile: file, Listen: c.String("listen"), Data: data, Version: version, Log: log.New(os.Stderr, "memtrace: ", 0),
		Ready: func(address string) {
			fmt.Println(address)
			tellSystemd(daemon.SdNotifyReady)
		},
		Alive: func() { tellSystemd(daemon.SdNotifyWatchdog) },
		Lacks: lackedRights,
	})
	if err != nil {
		return err
	}
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	err = a.Run(c.Context, reload)
	tellSystemd(daemon.SdNotifyStopping)
	return errors.Join(err, a.Close())
}

// serveConfig is the file to read, "" for none.
func serveConfig(c *cli.Context) (string, error) {
	if c.IsSet("config") {
		return c.Path("config"), nil
	}
	_, err := os.Stat(defaultServeConfig)
	switch {
	case err == nil:
		return defaultServeConfig, nil
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	}
	return "", fmt.Errorf("read the configuration: %w", err)
}

func checkServeConfig(file string) error {
	if file == "" {
		return usageError("there is no %s: name a file with --config FILE; without one, everything has its default", defaultServeConfig)
	}
	if _, err := agent.ReadConfig(file); err != nil {
		return err
	}
	fmt.Printf("%s: fine\n", file)
	return nil
}

// tellSystemd tells the service manager, if there is one.
func tellSystemd(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		fmt.Fprintf(os.Stderr, "memtrace: tell systemd %s: %v\n", state, err)
	}
}
