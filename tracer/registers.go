package tracer

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
)

// ThreadRegisters are the general registers of a thread as it last entered the
// kernel: of one that waits there, those that it will go on with.
type ThreadRegisters struct {
	TID   int
	Words []uint64
}

// Registers reads the registers of a process's threads without stopping them,
// by a BPF iterator over tasks. The error wraps ErrNotSupported before Linux 5.15.
func Registers(pid int) ([]ThreadRegisters, error) {
	data, err := iterateRegisters(pid)
	if err != nil {
		return nil, classify("reading registers by a BPF iterator", "5.15", "", err)
	}
	const record = 8 + registersBytes
	out := make([]ThreadRegisters, 0, len(data)/record)
	for ; len(data) >= record; data = data[record:] {
		t := ThreadRegisters{TID: int(binary.NativeEndian.Uint64(data))}
		for at := 8; at < record; at += 8 {
			t.Words = append(t.Words, binary.NativeEndian.Uint64(data[at:]))
		}
		out = append(out, t)
	}
	return out, nil
}

func iterateRegisters(pid int) ([]byte, error) {
	spec, err := registersProgram(pid)
	if err != nil {
		return nil, err
	}
	prog, err := newProgram(spec)
	if err != nil {
		return nil, fmt.Errorf("load the iterator: %w", err)
	}
	defer prog.Close()
	iter, err := link.AttachIter(link.IterOptions{Program: prog})
	if err != nil {
		return nil, fmt.Errorf("attach the iterator: %w", err)
	}
	defer iter.Close()
	reader, err := iter.Open()
	if err != nil {
		return nil, fmt.Errorf("open the iterator: %w", err)
	}
	defer reader.Close()
	data, err := io.ReadAll(io.LimitReader(reader, maxRegisters))
	if err != nil {
		return nil, fmt.Errorf("read the iterator: %w", err)
	}
	return data, nil
}

// maxRegisters bounds what is read: 300,000 threads.
const maxRegisters = 64 << 20

// registersProgram writes the thread's ID and registers for each thread of a
// process:
//
//	int each(struct bpf_iter__task *ctx) {
//		struct { u64 tid; u8 regs[registersBytes]; } out;
//		struct task_struct *task = ctx->task;
//		if (!task || task->tgid != pid) return 0;
//		out.tid = task->pid;
//		bpf_probe_read_kernel(out.regs, sizeof out.regs, bpf_task_pt_regs(task));
//		bpf_seq_write(ctx->meta->seq, &out, sizeof out);
//		return 0;
//	}
func registersProgram(pid int) (*ebpf.ProgramSpec, error) {
	tid, tgid, err := taskOffsets()
	if err != nil {
		return nil, err
	}
	const out = -(8 + registersBytes)
	return &ebpf.ProgramSpec{
		Name: "registers", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: "task", License: "GPL",
		Instructions: asm.Instructions{
			asm.LoadMem(asm.R6, asm.R1, 8, asm.DWord), // ctx->task
			asm.JEq.Imm(asm.R6, 0, "end"),
			asm.LoadMem(asm.R7, asm.R1, 0, asm.DWord), // ctx->meta
			asm.LoadMem(asm.R7, asm.R7, 0, asm.DWord), // meta->seq
			asm.LoadMem(asm.R1, asm.R6, tgid, asm.Word),
			asm.JNE.Imm(asm.R1, int32(pid), "end"),
			asm.LoadMem(asm.R1, asm.R6, tid, asm.Word),
			asm.StoreMem(asm.RFP, out, asm.R1, asm.DWord),
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.FnTaskPtRegs.Call(),
			asm.Mov.Reg(asm.R3, asm.R0),
			asm.Mov.Reg(asm.R1, asm.RFP),
			asm.Add.Imm(asm.R1, out+8),
			asm.Mov.Imm(asm.R2, registersBytes),
			asm.FnProbeReadKernel.Call(),
			asm.Mov.Reg(asm.R1, asm.R7),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, out),
			asm.Mov.Imm(asm.R3, 8+registersBytes),
			asm.FnSeqWrite.Call(),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
			asm.Return(),
		},
	}, nil
}

// taskOffsets are where the kernel at hand keeps a thread's and its process's ID.
func taskOffsets() (tid, tgid int16, err error) {
	spec, err := kernelTypes.Kernel()
	if err != nil {
		return 0, 0, fmt.Errorf("load the kernel's BTF: %w", err)
	}
	var task *btf.Struct
	if err := spec.TypeByName("task_struct", &task); err != nil {
		return 0, 0, err
	}
	for _, m := range task.Members {
		switch m.Name {
		case "pid":
			tid = int16(m.Offset.Bytes())
		case "tgid":
			tgid = int16(m.Offset.Bytes())
		}
	}
	if tid == 0 || tgid == 0 {
		return 0, 0, fmt.Errorf("find pid and tgid in task_struct: %w", btf.ErrNotFound)
	}
	return tid, tgid, nil
}
