package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

// scene is so many processes: `sleep`, or ones with memory of their own.
type scene struct {
	name      string
	processes int
	mib       int
}

// start starts them; stop ends those that were started.
func (sc scene) start() (stop func(), err error) {
	var started []*exec.Cmd
	stop = func() {
		for _, cmd := range started {
			_ = cmd.Process.Kill()
		}
		for _, cmd := range started {
			_ = cmd.Wait()
		}
	}
	for range sc.processes {
		cmd := exec.Command("sleep", "3600")
		if sc.mib > 0 {
			cmd = exec.Command("/proc/self/exe", "child", strconv.Itoa(sc.mib))
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return stop, err
		}
		if err := cmd.Start(); err != nil {
			return stop, err
		}
		started = append(started, cmd)
		if sc.mib > 0 {
			if _, err := fmt.Fscanln(out, new(string)); err != nil {
				return stop, fmt.Errorf("child: %w", err)
			}
		}
	}
	return stop, settled(started)
}

// settled waits until all are what they were started as, and sleep.
func settled(started []*exec.Cmd) error {
	for _, cmd := range started {
		for {
			where, err := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", cmd.Process.Pid))
			if err != nil {
				return err
			}
			if len(where) > 1 {
				break
			}
			if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid)); err != nil || bytes.Contains(stat, []byte(") Z ")) {
				return fmt.Errorf("process %d of the scene has ended", cmd.Process.Pid)
			}
		}
	}
	return nil
}

// child loops, or takes so many MiB in pages of 4 KiB and waits to be killed.
func child(mib string) {
	if mib == "loop" {
		fmt.Fprintln(os.Stderr, "bench: loop:", loop())
		os.Exit(1)
	}
	n, err := strconv.Atoi(mib)
	if err != nil {
		os.Exit(2)
	}
	mem, err := unix.Mmap(-1, 0, n<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		os.Exit(1)
	}
	_ = unix.Madvise(mem, unix.MADV_NOHUGEPAGE)
	for i := 0; i < len(mem); i += 4096 {
		mem[i] = 1
	}
	fmt.Println("ready")
	for { // until it is killed
		_ = unix.Pause()
	}
}
