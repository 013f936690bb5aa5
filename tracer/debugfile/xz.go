package debugfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/ulikunitz/xz/lzma"
)

// maxDict is the largest LZMA2 dictionary, which is memory taken at once:
// that of xz -9.
const maxDict = 64 << 20

var errXZ = errors.New("not an .xz stream, or one of a kind that is not read")

// Unxz decompresses an .xz stream (XZ file format 1.2.1) of at most limit
// bytes. The container is read here, since its headers say how much memory to
// take; the ELF file inside is checked as any other, so the check of the
// content is skipped.
func Unxz(data []byte, limit int) ([]byte, error) {
	const header = 12
	if len(data) < header || string(data[:6]) != "\xfd7zXZ\x00" {
		return nil, errXZ
	}
	// The size of the check at each block's end, by its type.
	check := []int{0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64}[data[7]&15]
	out := output{limit: limit, dictionaries: maxDicts * max(limit, lzma.MinDictCap)}
	in := bytes.NewReader(data[header:])
	for {
		size, err := in.ReadByte()
		if err != nil {
			return nil, errXZ
		}
		if size == 0 { // the index: no more blocks
			return out.join(), nil
		}
		head := make([]byte, int(size)*4+4)
		head[0] = size
		if _, err := io.ReadFull(in, head[1:]); err != nil {
			return nil, errXZ
		}
		dict, err := dictionary(head)
		if err != nil {
			return nil, err
		}
		if err := out.unlzma(in, dict); err != nil {
			return nil, err
		}
		if _, err := in.Seek(int64((len(data)-header-in.Len()+3)&^3+check), io.SeekStart); err != nil {
			return nil, errXZ
		}
	}
}

// maxDicts is how many dictionaries of the size of the whole output all blocks together may take: each has its own.
const maxDicts = 4

// output is what was decompressed so far, in pieces: one buffer that grows would take several times as much.
type output struct {
	pieces       [][]byte
	size, limit  int
	dictionaries int // bytes of dictionaries that may yet be taken
}

// unlzma decompresses one block, whose dictionary need be no larger than the output.
func (o *output) unlzma(in *bytes.Reader, dict int) error {
	dict = max(min(dict, o.limit), lzma.MinDictCap)
	if o.dictionaries -= dict; o.dictionaries < 0 {
		return errors.New("its blocks need too much memory for their dictionaries")
	}
	r, err := lzma.Reader2Config{DictCap: dict}.NewReader2(in)
	if err != nil {
		return err
	}
	for {
		piece := make([]byte, min(1<<20, o.limit-o.size+1))
		n, err := fill(r, piece)
		if n > 0 {
			o.pieces = append(o.pieces, piece[:n])
		}
		if o.size += n; o.size > o.limit {
			return fmt.Errorf("more than %d bytes decompressed", o.limit)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// fill is io.ReadFull that tells the end of the stream from a stream that is cut off.
func fill(r io.Reader, piece []byte) (n int, err error) {
	for n < len(piece) && err == nil {
		var more int
		more, err = r.Read(piece[n:])
		n += more
	}
	return n, err
}

func (o *output) join() []byte {
	if len(o.pieces) == 1 {
		return o.pieces[0]
	}
	return bytes.Join(o.pieces, nil)
}

// dictionary returns the size of the dictionary that a block header asks for.
// LZMA2 must be its only filter.
func dictionary(head []byte) (int, error) {
	const filterCount, compressedSize, size, lzma2 = 0x03, 0x40, 0x80, 0x21
	body := head[:len(head)-4]
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(head[len(body):]) || head[1]&filterCount != 0 {
		return 0, errXZ
	}
	rest := body[2:]
	for _, field := range []byte{compressedSize, size} {
		if head[1]&field != 0 {
			_, n := binary.Uvarint(rest)
			rest = rest[max(n, 0):]
		}
	}
	if len(rest) < 3 || rest[0] != lzma2 || rest[1] != 1 {
		return 0, errXZ
	}
	bits := uint64(rest[2])
	if bits > 40 {
		return 0, errXZ
	}
	dict := (2 | bits&1) << (bits/2 + 11)
	if dict > maxDict {
		return 0, fmt.Errorf("it needs %d bytes of dictionary", dict)
	}
	return int(max(dict, lzma.MinDictCap)), nil
}
