package tracer

import "github.com/memtrace/memtrace/tracer/unwind"

// userFrame takes the innermost frame from a thread's general registers (struct
// user_regs_struct: r15 r14 r13 r12 rbp rbx … rip cs eflags rsp).
func userFrame(words []uint64) (f frame, pc uint64, ok bool) {
	const rip, rsp = 16, 19
	if len(words) <= rsp {
		return f, 0, false
	}
	for i, reg := range [unwind.SavedRegisters]int{4, 5, 3, 2, 1, 0} { // rbp rbx r12 r13 r14 r15
		f.saved[i] = words[reg]
	}
	f.sp = words[rsp]
	return f, words[rip], true
}

// SavedAcrossCalls picks those general registers that a call leaves as they are (System V ABI for
// x86-64, 3.2.1). The others, the vector registers among them, nobody has a use for once a call is made.
func SavedAcrossCalls(words []uint64) ([]uint64, bool) {
	f, _, ok := userFrame(words)
	return f.saved[:], ok
}

// UsedByExec picks those general registers that a thread has a use for at the first instruction of execve, fexecve or
// execveat: their arguments, and what a call leaves as it is.
func UsedByExec(words []uint64) ([]uint64, bool) {
	const rcx, rdx, rdi = 11, 12, 14
	used, ok := SavedAcrossCalls(words)
	if !ok {
		return nil, false
	}
	used = append(used, words[rdi], execArguments(words), words[rdx])
	if descriptor := int64(int32(words[rdi])); words[rdi] == uint64(descriptor) || words[rdi] == uint64(uint32(descriptor)) {
		used = append(used, words[rcx]) // execveat has one more
	}
	return used, true
}

// execArguments is where execve's list of arguments is.
func execArguments(words []uint64) uint64 {
	const rsi = 13
	return words[rsi]
}
