package symbol

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"sort"
)

// A file of answers, little-endian:
//
//	header   64 bytes: magic 8, CRC-32C of all that follows it 4, addresses 4,
//	         frames 4, bytes of strings 4, fingerprint 32, zero 8
//	addresses, ascending: address 8, index of its first frame 4, frames 4
//	frames   function 4, mangled 4, file 4 (offsets in the strings), line 4, inlined 4
//	strings  length 4 and text, the first one empty
//
// It is read where it is mapped: a look-up touches a few pages of it.
const (
	answersMagic = "mtnames\x01" // the last byte is the version
	headerSize   = 64
	addressSize  = 16
	frameSize    = 20
	sumStart     = 12 // what the checksum covers

	// maxAnswers bounds the addresses of a file, maxAnswersSize its bytes.
	maxAnswers     = 1 << 17
	maxAnswersSize = 64 << 20
	// maxAnswerFrames is the most frames of an address (as DWARF gives).
	maxAnswerFrames = 512
)

var (
	errAnswers      = errors.New("damaged")
	errOtherAnswers = errors.New("made from other files")
	castagnoli      = crc32.MakeTable(crc32.Castagnoli)
)

// fingerprint tells what answers were made from.
type fingerprint [32]byte

// answers is a mapped file of answers. It was checked against its checksum,
// and is still read with bounds.
type answers struct {
	addrs, frames, strings []byte
	n                      int
}

// readAnswers checks data, which stays in use.
func readAnswers(data []byte, made fingerprint) (*answers, error) {
	if len(data) < headerSize || string(data[:8]) != answersMagic {
		return nil, errAnswers
	}
	le := binary.LittleEndian
	n, frames, text := uint64(le.Uint32(data[12:])), uint64(le.Uint32(data[16:])), uint64(le.Uint32(data[20:]))
	addrsEnd := headerSize + n*addressSize
	framesEnd := addrsEnd + frames*frameSize
	if framesEnd+text != uint64(len(data)) || crc32.Checksum(data[sumStart:], castagnoli) != le.Uint32(data[8:]) {
		return nil, errAnswers
	}
	if fingerprint(data[24:56]) != made {
		return nil, errOtherAnswers
	}
	return &answers{addrs: data[headerSize:addrsEnd], frames: data[addrsEnd:framesEnd], strings: data[framesEnd:], n: int(n)}, nil
}

func (a *answers) address(i int) uint64 {
	return binary.LittleEndian.Uint64(a.addrs[i*addressSize:])
}

// find returns the index of addr.
func (a *answers) find(addr uint64) (int, bool) {
	i := sort.Search(a.n, func(i int) bool { return a.address(i) >= addr })
	return i, i < a.n && a.address(i) == addr
}

// at copies the frames of address i; nil where they can't be right.
func (a *answers) at(i int) []Frame {
	le := binary.LittleEndian
	entry := a.addrs[i*addressSize:]
	first, count := uint64(le.Uint32(entry[8:])), uint64(le.Uint32(entry[12:]))
	if count == 0 || count > maxAnswerFrames || (first+count)*frameSize > uint64(len(a.frames)) {
		return nil
	}
	found := make([]Frame, count)
	for i := range found {
		f := a.frames[(first+uint64(i))*frameSize:]
		found[i] = Frame{
			Function: a.text(le.Uint32(f)), Mangled: a.text(le.Uint32(f[4:])), File: a.text(le.Uint32(f[8:])),
			Line: int(le.Uint32(f[12:])), Inlined: le.Uint32(f[16:]) != 0,
		}
	}
	return found
}

func (a *answers) text(off uint32) string {
	if uint64(off)+4 > uint64(len(a.strings)) {
		return ""
	}
	s := a.strings[off:]
	n := binary.LittleEndian.Uint32(s)
	if uint64(n) > uint64(len(s)-4) {
		return ""
	}
	return string(s[4 : 4+n])
}

// answersWriter lays a file of answers out.
type answersWriter struct {
	addrs, frames, strings []byte
	count                  uint32
	offsets                map[string]uint32
}

// writeAnswers returns a file that holds all; nil where it would be too large.
func writeAnswers(all map[uint64][]Frame, made fingerprint) []byte {
	w := answersWriter{offsets: map[string]uint32{}}
	w.text("")
	order := make([]uint64, 0, len(all))
	for addr := range all {
		order = append(order, addr)
	}
	slices.Sort(order)
	for _, addr := range order {
		w.add(addr, all[addr])
		if len(w.addrs)+len(w.frames)+len(w.strings) > maxAnswersSize-headerSize {
			return nil
		}
	}
	return w.finish(made)
}

func (w *answersWriter) add(addr uint64, frames []Frame) {
	le := binary.LittleEndian
	w.addrs = le.AppendUint64(w.addrs, addr)
	w.addrs = le.AppendUint32(w.addrs, w.count)
	w.addrs = le.AppendUint32(w.addrs, uint32(len(frames)))
	w.count += uint32(len(frames))
	for _, f := range frames {
		inlined := uint32(0)
		if f.Inlined {
			inlined = 1
		}
		for _, v := range [...]uint32{w.text(f.Function), w.text(f.Mangled), w.text(f.File), uint32(f.Line), inlined} {
			w.frames = le.AppendUint32(w.frames, v)
		}
	}
}

// text returns the offset of s, which is kept once.
func (w *answersWriter) text(s string) uint32 {
	if off, ok := w.offsets[s]; ok {
		return off
	}
	off := uint32(len(w.strings))
	w.strings = binary.LittleEndian.AppendUint32(w.strings, uint32(len(s)))
	w.strings = append(w.strings, s...)
	w.offsets[s] = off
	return off
}

func (w *answersWriter) finish(made fingerprint) []byte {
	le := binary.LittleEndian
	out := make([]byte, headerSize, headerSize+len(w.addrs)+len(w.frames)+len(w.strings))
	copy(out, answersMagic)
	le.PutUint32(out[12:], uint32(len(w.addrs)/addressSize))
	le.PutUint32(out[16:], w.count)
	le.PutUint32(out[20:], uint32(len(w.strings)))
	copy(out[24:], made[:])
	out = append(append(append(out, w.addrs...), w.frames...), w.strings...)
	seal(out)
	return out
}

// seal writes the checksum.
func seal(file []byte) {
	binary.LittleEndian.PutUint32(file[8:], crc32.Checksum(file[sumStart:], castagnoli))
}
