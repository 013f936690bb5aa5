package probe

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"golang.org/x/arch/x86/x86asm"
)

// marks are the USDT probes of a file that are about memory, or asked for.
type marks struct {
	asked, others []StaticProbe
	skipped       []Skip // of those that are asked for
}

// readMarks reads them, and asks for the variables that their arguments need.
// What is amiss with notes is no reason not to trace the file.
func (im *image) readMarks() (m marks) {
	all, skipped, err := im.staticProbes()
	for _, p := range all {
		f, asked := im.asked.marks[p.name()]
		switch {
		case asked:
			m.asked = append(m.asked, p)
			im.askVariables(p, f)
		case p.isAboutMemory():
			m.others = append(m.others, p)
		}
	}
	for _, s := range skipped {
		if _, asked := im.asked.marks[s.Name]; asked {
			m.skipped = append(m.skipped, s)
		}
	}
	if err != nil {
		for name := range im.asked.marks {
			m.skipped = append(m.skipped, Skip{name, err.Error()})
		}
	}
	return m
}

func (im *image) askVariables(p StaticProbe, f UserFunction) {
	for _, position := range f.Args {
		if position == 0 || int(position) > len(p.Args) {
			continue
		}
		if _, symbol, err := parseStaticArg(p.Args[position-1], im.file.Machine); err == nil && symbol != "" {
			im.asked.variables[symbol] = true
		}
	}
}

// addMarks adds the USDT probes that are asked for to those of the object:
// all, or, where one can't be probed, none, as a part would be worse than nothing.
func (im *image) addMarks(o *Object, m marks, variables map[string]uint64) {
	o.Skipped = append(o.Skipped, m.skipped...)
	spoilt := len(m.skipped) > 0
	var probes []Probe
	for _, p := range m.asked {
		mark, err := im.mark(p, im.asked.marks[p.name()], variables)
		if err == nil && slices.ContainsFunc(o.Probes, func(other Probe) bool { return other.Offset == mark.Offset }) {
			err = errors.New("a function is probed at its place")
		}
		if err != nil {
			o.skip(p.name(), err.Error())
			spoilt = true
			continue
		}
		if !slices.ContainsFunc(probes, func(other Probe) bool { return other.Offset == mark.Offset }) {
			probes = append(probes, mark)
		}
	}
	if spoilt {
		for _, p := range probes {
			o.skip(p.Name, "another USDT probe of the file that goes with it can't be")
		}
		return
	}
	o.Probes = append(o.Probes, probes...)
	sort.Slice(o.Probes, func(i, j int) bool { return o.Probes[i].Entry < o.Probes[j].Entry })
}

// mark makes a Probe of a USDT probe.
func (im *image) mark(p StaticProbe, f UserFunction, variables map[string]uint64) (Probe, error) {
	out := Probe{Name: p.name(), Family: User, Shape: f.Shape, Entry: p.Offset, Offset: p.Offset, Semaphore: p.Semaphore}
	var ok bool
	if out.Cost, ok = im.nopAt(p.addr); !ok {
		return out, errors.New("the instruction at its place is no nop, so that a probe there might break the program")
	}
	var used []string
	for i, position := range f.Args {
		switch {
		case position == 0:
			continue
		case int(position) <= len(p.Args):
		case i == weightArg && f.lenient:
			continue
		default:
			return out, fmt.Errorf("it has %d arguments, of which %d is wanted, counted from 0", len(p.Args), position-1)
		}
		arg, symbol, err := parseStaticArg(p.Args[position-1], im.file.Machine)
		if err != nil {
			return out, err
		}
		if symbol != "" {
			at := variables[symbol]
			if at == 0 {
				return out, fmt.Errorf("its argument %s is not understood: the file has no one variable of that name", p.Args[position-1])
			}
			arg.Value, arg.Pending = arg.Value+int64(at-p.addr), false
		}
		out.Static[i] = arg
		used = append(used, p.Args[position-1])
	}
	out.Instruction = "nop, " + strings.Join(used, " ")
	if p.Semaphore != 0 {
		out.Instruction += fmt.Sprintf(", semaphore at %#x", p.Semaphore)
	}
	return out, nil
}

// weightArg is the place in Probe.Static of what a block stands for.
const weightArg = 2

// nopAt says whether there is an instruction that does nothing, and what the
// kernel makes of it. Those of arm64 are stepped up to 6.12.
func (im *image) nopAt(addr uint64) (Cost, bool) {
	if im.file.Machine == elf.EM_AARCH64 {
		code := im.code(addr, 4)
		return Stepped, len(code) == 4 && binary.LittleEndian.Uint32(code) == 0xd503201f
	}
	in, err := decodeX86(im.code(addr, 16), addr)
	if err != nil || in.Op != x86asm.NOP || in.endbr64 {
		return Stepped, false
	}
	if in.emulated() {
		return Emulated, true
	}
	return Stepped, true
}
