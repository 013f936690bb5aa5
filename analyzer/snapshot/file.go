package snapshot

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zstd"
)

// The file: a magic number, a version, and blocks up to one that says the end.
// docs/snapshot.md describes it for others. All integers are little-endian.
//
//	header  magic [8]byte, major uint16, minor uint16
//	block   kind uint32, stored uint32, raw uint32, crc uint32, [stored]byte
//
// crc is CRC-32C of the block's header up to it and of the stored bytes, which
// are zstd's.
const (
	majorVersion = 1
	minorVersion = 0
	headerBytes  = len(Magic) + 4
	frameBytes   = 16
)

// Magic is what every snapshot's file begins with.
const Magic = "memsnap\x1a"

// Kinds of blocks.
const (
	blockMachine    = 1
	blockComponents = 2
	blockProcesses  = 3
	blockChanges    = 4
	blockFrames     = 5
	blockPages      = 6
	blockEnd        = 0xffffffff
)

// What a reader takes; a writer splits blocks long before.
const (
	maxBlock = 64 << 20 // bytes of one block, stored or raw
	maxTotal = 4 << 30  // raw bytes of all blocks
	// splitAt is the raw size at which a writer begins a new block.
	splitAt = 4 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// blockWriter writes the header and blocks.
type blockWriter struct {
	w      io.Writer
	zip    *zstd.Encoder
	stored []byte
	blocks uint64
	bytes  uint64
	err    error
}

func newBlockWriter(w io.Writer) (*blockWriter, error) {
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, fmt.Errorf("write snapshot: %w", err)
	}
	b := &blockWriter{w: w, zip: zip}
	header := binary.LittleEndian.AppendUint16([]byte(Magic), majorVersion)
	b.write(binary.LittleEndian.AppendUint16(header, minorVersion))
	return b, nil
}

func (b *blockWriter) write(data []byte) {
	if b.err != nil {
		return
	}
	n, err := b.w.Write(data)
	b.bytes += uint64(n)
	if err != nil {
		b.err = fmt.Errorf("write snapshot: %w", err)
	}
}

// block writes one block.
func (b *blockWriter) block(kind uint32, raw []byte) {
	if b.err == nil && len(raw) > maxBlock {
		b.err = fmt.Errorf("write snapshot: a block of %d bytes is too large", len(raw))
	}
	if b.err != nil {
		return
	}
	b.stored = b.zip.EncodeAll(raw, b.stored[:0])
	frame := binary.LittleEndian.AppendUint32(make([]byte, 0, frameBytes), kind)
	frame = binary.LittleEndian.AppendUint32(frame, uint32(len(b.stored)))
	frame = binary.LittleEndian.AppendUint32(frame, uint32(len(raw)))
	sum := crc32.Update(crc32.Checksum(frame, castagnoli), castagnoli, b.stored)
	b.write(binary.LittleEndian.AppendUint32(frame, sum))
	b.write(b.stored)
	b.blocks++
}

// close writes the last block, which counts the others: without it a file
// that was cut off between two blocks would look whole.
func (b *blockWriter) close() error {
	e := encoder{}
	e.uint(1, b.blocks)
	b.block(blockEnd, e.buf)
	return errors.Join(b.err, b.zip.Close())
}

// blockReader reads the header and blocks.
type blockReader struct {
	r      *bufio.Reader
	unzip  *zstd.Decoder
	raw    []byte // of the present block
	blocks uint64
	total  uint64
	room   *room
	held   uint64 // bytes of room for the largest block so far, stored and raw
}

func newBlockReader(r io.Reader, room *room) (*blockReader, error) {
	b := &blockReader{r: bufio.NewReaderSize(r, 64<<10), room: room}
	var header [headerBytes]byte
	if _, err := io.ReadFull(b.r, header[:]); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, ErrNotSnapshot
		}
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	if string(header[:len(Magic)]) != Magic {
		return nil, ErrNotSnapshot
	}
	major := binary.LittleEndian.Uint16(header[len(Magic):])
	if major != majorVersion {
		return nil, fmt.Errorf("%w: its format is version %d, and this memtrace reads version %d: use a newer one", ErrVersion, major, majorVersion)
	}
	var err error
	most := max(min(maxBlock, room.limit), zstd.MinWindowSize)
	b.unzip, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(most),
		zstd.WithDecoderMaxWindow(most))
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	return b, nil
}

func (b *blockReader) close() { b.unzip.Close() }

// next returns the next block, whose bytes are valid until the next call, and
// io.EOF after the end block.
func (b *blockReader) next() (kind uint32, raw []byte, err error) {
	kind, stored, rawLen, err := b.frame()
	if err != nil {
		return 0, nil, err
	}
	if b.total += uint64(rawLen); b.total > maxTotal {
		return 0, nil, fmt.Errorf("%w: it holds more than %d bytes", ErrCorrupt, uint64(maxTotal))
	}
	if cap(b.raw) < int(rawLen) {
		b.raw = make([]byte, 0, rawLen)
	}
	b.raw, err = b.unzip.DecodeAll(stored, b.raw[:0])
	if err != nil || len(b.raw) != int(rawLen) {
		return 0, nil, fmt.Errorf("%w: block %d does not decompress", ErrCorrupt, b.blocks+1)
	}
	if kind == blockEnd {
		return 0, nil, b.checkEnd()
	}
	b.blocks++
	return kind, b.raw, nil
}

// frame reads a block up to its checksum, and checks that.
func (b *blockReader) frame() (kind uint32, stored []byte, rawLen uint32, err error) {
	var frame [frameBytes]byte
	if _, err := io.ReadFull(b.r, frame[:]); err != nil {
		return 0, nil, 0, cutOff(err)
	}
	kind = binary.LittleEndian.Uint32(frame[:])
	length := binary.LittleEndian.Uint32(frame[4:])
	rawLen = binary.LittleEndian.Uint32(frame[8:])
	if length > maxBlock || rawLen > maxBlock {
		return 0, nil, 0, fmt.Errorf("%w: block %d is too long", ErrCorrupt, b.blocks+1)
	}
	if size := uint64(length) + uint64(rawLen); size > b.held {
		if err := b.room.take("blocks", size-b.held); err != nil {
			return 0, nil, 0, err
		}
		b.held = size
	}
	if stored, err = readExactly(b.r, int(length)); err != nil {
		return 0, nil, 0, err
	}
	sum := crc32.Update(crc32.Checksum(frame[:12], castagnoli), castagnoli, stored)
	if sum != binary.LittleEndian.Uint32(frame[12:]) {
		return 0, nil, 0, fmt.Errorf("%w: the checksum of block %d does not match", ErrCorrupt, b.blocks+1)
	}
	return kind, stored, rawLen, nil
}

// readExactly reads n bytes, taking memory only as they come.
func readExactly(r io.Reader, n int) ([]byte, error) {
	var out []byte
	for len(out) < n {
		at := len(out)
		out = append(out, make([]byte, min(n-at, 1<<20))...)
		if _, err := io.ReadFull(r, out[at:]); err != nil {
			return nil, cutOff(err)
		}
	}
	return out, nil
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it was cut off", ErrCorrupt)
	}
	return fmt.Errorf("read snapshot: %w", err)
}

// checkEnd holds the end block's count against what was read.
func (b *blockReader) checkEnd() error {
	var want uint64
	err := eachField(b.raw, func(f field) error {
		if f.number == 1 {
			want = f.v
		}
		return nil
	})
	if err != nil {
		return err
	}
	if want != b.blocks {
		return fmt.Errorf("%w: %d of %d blocks are there", ErrCorrupt, b.blocks, want)
	}
	if _, err := b.r.ReadByte(); err != io.EOF {
		return fmt.Errorf("%w: something follows its end", ErrCorrupt)
	}
	return io.EOF
}
