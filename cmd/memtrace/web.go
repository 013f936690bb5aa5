package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/export"
	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/cmd/memtrace/web"
)

const webDescription = "Shows recordings and saved Reports in a browser: memory over time, flame graphs, tables, leaks. The address of the page is the first line " +
	"of stdout; whoever has it can read the files until memtrace ends, by Ctrl-C. Only programs on this machine can reach it, unless --listen says otherwise.\n\n" +
	"FILE is a recording (memtrace record, -o), or a Report in JSON. Several can be compared with each other."

func webFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "listen", Value: "127.0.0.1:0", Usage: "address and port of the page; port 0: any that is free"},
		&cli.BoolFlag{Name: "open", Usage: "open the page in a browser"},
		&cli.StringFlag{Name: "memory", Value: defaultMemory, Usage: "memory that memtrace may use, for all files and all that is asked of them"},
	}
}

func webCommandOf() *cli.Command {
	return &cli.Command{
		Name: "web", Usage: "show recordings and Reports in a browser",
		UsageText: "memtrace web FILE... [--listen ADDRESS] [--open]", Description: webDescription, Flags: webFlags(), Action: webCommand,
	}
}

// maxWebFiles is how many files one page shows: each has a Report in memory.
const maxWebFiles = 16

func webCommand(c *cli.Context) error {
	memory, err := memoryLimit(c)
	switch n := c.NArg(); {
	case err != nil:
		return err
	case n == 0:
		return usageError("web takes recordings or Reports: memtrace web FILE...")
	case n > maxWebFiles:
		return usageError("web shows up to %d files at once, not %d", maxWebFiles, n)
	}
	keepWithin(memory)
	var files []*web.File
	share := web.SharesOf(memory, c.NArg())
	for _, path := range c.Args().Slice() {
		f, err := openForWeb(path, share)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	server := web.New(files, version, share)
	l, url, err := server.Listen(c.String("listen"))
	if err != nil {
		return listenFailed(c.String("listen"), err)
	}
	if at := l.Addr().(*net.TCPAddr); !at.IP.IsLoopback() {
		fmt.Fprintf(os.Stderr, "memtrace: warning: %s can be reached from other machines, without encryption: whoever listens in reads the token\n", at)
	}
	fmt.Println(url)
	fmt.Fprintln(os.Stderr, "memtrace: open this address in a browser; Ctrl-C ends it")
	if c.Bool("open") {
		if err := openBrowser(url); err != nil {
			fmt.Fprintf(os.Stderr, "memtrace: warning: no browser was opened: %s: open the address above\n", render.Clean(err.Error()))
		}
	}
	return server.Serve(c.Context, l)
}

func openForWeb(path string, share web.Shares) (*web.File, error) {
	f, err := openAsCaller(path)
	if err != nil {
		return nil, fmt.Errorf("show a file: %w", err)
	}
	out, err := web.Open(path, f, share, defaultSort)
	switch {
	case errors.Is(err, export.ErrTooLarge):
		return nil, fmt.Errorf("show %s: %w; a larger --memory lets it have more", path, err)
	case errors.Is(err, export.ErrNotReport), errors.Is(err, export.ErrEmpty):
		return nil, fmt.Errorf("show %s: %w; nor is it a recording: memtrace record -o FILE makes one", path, err)
	case err != nil:
		return nil, fmt.Errorf("show %s: %w", path, err)
	}
	return out, nil
}

// listenFailed says what to do about an address that can't be listened on.
func listenFailed(address string, err error) error {
	var wrong *net.AddrError
	if errors.As(err, &wrong) {
		return usageError("--listen %s: %v: it is to be HOST:PORT, such as 127.0.0.1:8080", address, wrong)
	}
	text := err.Error()
	if strings.Contains(text, "address already in use") || strings.Contains(text, "Only one usage of each socket address") {
		return fmt.Errorf("listen on %s: another program has this port: choose another one, or leave --listen out for any that is free", address)
	}
	return fmt.Errorf("show the page: %w", err)
}

// openBrowser has the desktop open an address.
func openBrowser(url string) error {
	name, args := "xdg-open", []string{url}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", url}
	default:
		if os.Geteuid() == 0 {
			return errors.New("browsers don't run as root, and recordings need none: run memtrace web as yourself")
		}
	}
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }()
	return nil
}
