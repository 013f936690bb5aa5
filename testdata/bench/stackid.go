package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/memtrace/memtrace/tracer/probe"
)

// stackidName is the floor with the kernel's own stack walker at malloc's return.
const stackidName = "floor and bpf_get_stackid"

// userStack is BPF_F_USER_STACK of include/uapi/linux/bpf.h.
const userStack = 1 << 8

// ipOffset is where struct pt_regs has the instruction pointer.
func ipOffset() int16 {
	if runtime.GOARCH == "arm64" {
		return 256
	}
	return 128
}

// stackid is the floor, and the map that the stacks go to.
type stackid struct {
	floor
	stacks *ebpf.Map
}

// attachStackid takes a session, since that is what memtrace takes where there is one.
func attachStackid(pid int) (tool, error) {
	stacks, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.StackTrace, KeySize: 4, ValueSize: 127 * 8, MaxEntries: 1 << 14})
	if err != nil {
		return nil, fmt.Errorf("make a map of stacks: %w", err)
	}
	s := &stackid{stacks: stacks}
	_, err = s.attach(pid, func(file *os.File, pid int, probes []probe.Probe) error {
		return s.Session(file, pid, probes, takeStack(stacks))
	})
	if err != nil {
		return nil, errors.Join(err, stacks.Close())
	}
	return s, nil
}

// takeStack is the program of a session that takes a stack at the return.
func takeStack(to *ebpf.Map) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnGetFuncIp.Call(),
		asm.LoadMem(asm.R1, asm.R6, ipOffset(), asm.DWord),
		asm.JEq.Reg(asm.R0, asm.R1, "out"), // the entry
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.LoadMapPtr(asm.R2, to.FD()),
		asm.Mov.Imm(asm.R3, userStack),
		asm.FnGetStackid.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	}
}

func (s *stackid) stop() error { return errors.Join(s.floor.stop(), s.stacks.Close()) }
