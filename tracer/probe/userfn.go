package probe

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/tracer/event"
)

// UserFunction is an allocation function that the user names.
type UserFunction struct {
	Text   string // as it was given, for messages
	Layer  string // of a layer: which
	Object string // the base name or the path of the file that has it; "" any file
	Symbol string // as the symbol table has it; "" where Addr or Mark says which
	Addr   uint64 // the address that nm and objdump show for it
	Shape  Shape
	Args   [3]uint8 // positions of Shape's arguments, from 1
	Pool   poolUse
	Mark   string // of a USDT probe: PROVIDER:NAME

	lenient bool // of a USDT probe: it may lack the weight
}

// maxUserArgs is how many arguments are passed in registers on both machines.
const maxUserArgs = 6

// ParseAllocFunction reads the description of a function that returns memory:
//
//	[OBJECT!]SYMBOL:WHAT,…   or   OBJECT+0xADDRESS:WHAT,…
//
// WHAT is size=N (argument N, counted from 0, is the size in bytes) or
// size=N*M; ret (the block is returned, which is also meant without it) or
// out=N (it is stored where argument N points to, and 0 is returned); ptr=N
// (the block is given in place of the one in argument N, as by realloc). With
// pool=N and size=N the block ends with the pool in argument N at the latest;
// with pool=NAME, with that in the variable NAME.
//
// [OBJECT!]usdt:PROVIDER:NAME:block=N,size=N[,weight=N] is a USDT probe whose
// arguments are the block, its size and, if the program tells of a sample of
// its blocks alone, for how many bytes it stands.
func ParseAllocFunction(text string) (UserFunction, error) {
	if isMark(text) {
		return parseAllocMark(text)
	}
	f, given, err := parseUser(text, "size", "ret", "out", "ptr", "pool")
	if err != nil {
		return f, err
	}
	size, ok := given["size"]
	if !ok {
		return f, fmt.Errorf("%q does not say which argument is the size: my_alloc:size=0,ret", text)
	}
	out, hasOut := given["out"]
	ptr, hasPtr := given["ptr"]
	_, hasRet := given["ret"]
	pool, hasPool := given["pool"]
	switch {
	case hasPool && (hasOut || hasPtr || len(size) > 1):
		return f, fmt.Errorf("%q: pool goes with size=N and ret alone", text)
	case hasPool && f.Pool.variable != "":
		f.set(PoolCurrent, size[0])
	case hasPool:
		f.set(PoolAlloc, size[0], pool[0])
	case hasOut && (hasRet || hasPtr || len(size) > 1):
		return f, fmt.Errorf("%q: out=N goes with size=N alone", text)
	case hasOut:
		f.set(PosixMemalign, out[0], size[0])
	case hasPtr && len(size) > 1:
		f.set(Reallocarray, ptr[0], size[0], size[1])
	case hasPtr:
		f.set(Realloc, ptr[0], size[0])
	case len(size) > 1:
		f.set(Calloc, size...)
	default:
		f.set(Malloc, size...)
	}
	return f, nil
}

// ParseFreeFunction reads the description of a function that takes memory
// back: [OBJECT!]SYMBOL:ptr=N or OBJECT+0xADDRESS:ptr=N; or pool=N in place of
// ptr=N, for one that ends the pool in argument N with all of its blocks; or
// pool=N,reset, for one that ends the blocks alone. [OBJECT!]usdt:PROVIDER:NAME:ptr=N
// is a USDT probe.
func ParseFreeFunction(text string) (UserFunction, error) {
	if isMark(text) {
		return parseFreeMark(text)
	}
	f, given, err := parseUser(text, "ptr", "pool", "reset")
	if err != nil {
		return f, err
	}
	ptr, ok := given["ptr"]
	pool, isPool := given["pool"]
	_, reset := given["reset"]
	switch {
	case ok && isPool || reset && !isPool || f.Pool.variable != "":
		return f, fmt.Errorf("%q: want ptr=N, pool=N or pool=N,reset", text)
	case isPool:
		f.Pool.change = event.PoolEnded
		if reset {
			f.Pool.change = event.PoolCleared
		}
		f.set(PoolChange, pool[0])
		return f, nil
	case !ok:
		return f, fmt.Errorf("%q does not say which argument is the block: my_free:ptr=0", text)
	}
	f.set(Release, ptr[0])
	return f, nil
}

func (f *UserFunction) set(s Shape, args ...uint8) {
	f.Shape = s
	copy(f.Args[:], args)
}

// parseUser reads what both kinds have in common. The values are positions of
// arguments, from 1; two of them where one is N*M.
func parseUser(text string, keys ...string) (UserFunction, map[string][]uint8, error) {
	f := UserFunction{Text: text}
	at := strings.LastIndexByte(text, ':')
	if at <= 0 {
		return f, nil, fmt.Errorf("%q is not of the form FUNCTION:%s=N", text, keys[0])
	}
	if err := f.parseName(text[:at]); err != nil {
		return f, nil, fmt.Errorf("%q: %w", text, err)
	}
	given := map[string][]uint8{}
	for part := range strings.SplitSeq(text[at+1:], ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		positions, err := f.parseValue(key, value)
		known := false
		for _, k := range keys {
			known = known || k == key
		}
		_, twice := given[key]
		switch {
		case !known:
			err = fmt.Errorf("%q is none of %s", key, strings.Join(keys, ", "))
		case twice:
			err = fmt.Errorf("%s is given twice", key)
		}
		if err != nil {
			return f, nil, fmt.Errorf("%q: %w", text, err)
		}
		given[key] = positions
	}
	return f, given, nil
}

func (f *UserFunction) parseName(name string) error {
	if object, symbol, ok := strings.Cut(name, "!"); ok {
		if object == "" || symbol == "" {
			return errors.New("OBJECT!SYMBOL lacks one of both")
		}
		f.Object, name = object, symbol
		if !isMark(symbol) {
			f.Symbol = symbol
			return nil
		}
	}
	if mark, ok := strings.CutPrefix(name, markPrefix); ok {
		return f.parseMark(mark)
	}
	if at := strings.LastIndex(name, "+0x"); at > 0 {
		addr, err := strconv.ParseUint(name[at+3:], 16, 64)
		if err != nil || addr == 0 {
			return fmt.Errorf("%q is no address", name[at+1:])
		}
		f.Object, f.Addr = name[:at], addr
		return nil
	}
	f.Symbol = name
	return nil
}

// parseValue reads one value: positions, but for the name of a variable.
func (f *UserFunction) parseValue(key, value string) ([]uint8, error) {
	if key == "pool" && value != "" && (value[0] < '0' || value[0] > '9') {
		if len(value) >= maxKnownName {
			return nil, fmt.Errorf("pool=%s: names of variables have less than %d bytes", value, maxKnownName)
		}
		f.Pool.variable = value
		return nil, nil
	}
	if f.Mark != "" {
		return parsePositions(key, value, maxStaticArgs)
	}
	return parsePositions(key, value, maxUserArgs)
}

func parsePositions(key, value string, limit uint64) ([]uint8, error) {
	if key == "ret" || key == "reset" {
		if value != "" {
			return nil, fmt.Errorf("%s takes no value", key)
		}
		return []uint8{0}, nil
	}
	var positions []uint8
	factors := strings.Split(value, "*")
	if len(factors) > 2 || len(factors) == 2 && key != "size" {
		return nil, fmt.Errorf("%s=%s: want %s=N", key, value, key)
	}
	for _, factor := range factors {
		n, err := strconv.ParseUint(factor, 10, 8)
		switch {
		case err != nil || n >= maxStaticArgs:
			return nil, fmt.Errorf("%s=%s: arguments are counted from 0 to %d", key, value, limit-1)
		case n >= limit:
			return nil, fmt.Errorf("%s=%s: arguments are counted from 0 to %d, those passed in registers", key, value, limit-1)
		}
		positions = append(positions, uint8(n)+1)
	}
	return positions, nil
}

// in says whether the function may be in the file that its process maps as
// path.
func (f UserFunction) in(file string) bool {
	return f.Object == "" || f.Object == file || !strings.Contains(f.Object, "/") && f.Object == path.Base(file)
}

// name is what the function's probe is called.
func (f UserFunction) name() string {
	switch {
	case f.Mark != "":
		return f.Mark
	case f.Symbol == "":
		return fmt.Sprintf("%s+%#x", f.Object, f.Addr)
	}
	return f.Symbol
}

// asked are the functions that are looked for in one file, beside those that
// memtrace knows.
type asked struct {
	symbols   map[string]UserFunction
	addrs     map[uint64]UserFunction
	marks     map[string]UserFunction // USDT probes
	variables map[string]bool         // that hold pools or arguments of USDT probes
	longest   int
}

func askedIn(file string, all []UserFunction) asked {
	a := asked{symbols: map[string]UserFunction{}, addrs: map[uint64]UserFunction{}, marks: map[string]UserFunction{}, variables: map[string]bool{}}
	for _, f := range all {
		switch {
		case !f.in(file):
		case f.Mark != "":
			a.marks[f.Mark] = f
		case f.Symbol == "":
			a.addrs[f.Addr] = f
		default:
			a.symbols[f.Symbol] = f
			a.longest = max(a.longest, len(f.Symbol))
		}
		if f.Pool.variable != "" && f.in(file) {
			a.variables[f.Pool.variable] = true
		}
	}
	return a
}

// any says whether the file's own symbols must be known.
func (a asked) any() bool { return len(a.symbols)+len(a.addrs)+len(a.variables) > 0 }

// addUser records a symbol that the user asked for.
func (s *symbols) addUser(name []byte, found symbol) {
	f, ok := s.asked.symbols[string(name)]
	if !ok {
		f, ok = s.asked.addrs[found.addr]
	}
	if !ok {
		return
	}
	found.function = function{name: f.name(), shape: f.Shape, args: f.Args, pool: f.Pool}
	found.family = User
	found.layer, found.inlined = f.Layer, f.inlined(found.size)
	s.users = append(s.users, found)
}

// addUsers adds the functions that the user asked for to those to be probed.
// Of a function that is given by its address it must be certain that an
// instruction begins there: a probe in the midst of one breaks the program.
func (im *image) addUsers(o *Object, known entries, syms *symbols) {
	found, spoilt := map[uint64]bool{}, map[string]string{}
	for _, s := range syms.users {
		if s.inlined != "" {
			spoilt[s.layer] = s.inlined // of which a part would be worse than nothing
		}
	}
	for _, s := range syms.users {
		found[s.addr] = true
		switch {
		case s.ifunc:
			o.skip(s.name, "an indirect function: its code is chosen at run time")
		case im.segment(s.addr) == nil:
			o.skip(s.name, "defined outside the code")
		case spoilt[s.layer] != "":
			o.skip(s.name, spoilt[s.layer])
		case s.pool.variable != "" && syms.variables[s.pool.variable] == 0:
			o.skip(s.name, noVariable(s.pool))
		default:
			known[s.addr] = s
		}
	}
	for addr, f := range syms.asked.addrs {
		switch {
		case found[addr]:
		case im.segment(addr) == nil || !im.beginsFunction(addr):
			o.skip(f.name(), "no function is known to begin there")
		case f.Pool.variable != "" && syms.variables[f.Pool.variable] == 0:
			o.skip(f.name(), noVariable(f.Pool))
		default:
			known[addr] = symbol{function: function{name: f.name(), shape: f.Shape, args: f.Args, pool: f.Pool}, addr: addr, family: User}
		}
	}
}

// beginsFunction says whether the table of .eh_frame_hdr has a function that
// begins at addr.
func (im *image) beginsFunction(addr uint64) bool {
	table, base := im.frameTable()
	for ; len(table) >= frameEntry; table = table[frameEntry:] {
		if base+uint64(int64(int32(im.order.Uint32(table)))) == addr {
			return true
		}
	}
	return false
}
