package recording

import (
	"errors"
	"fmt"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Compression says how payloads are compressed. Its numbers stand in files.
type Compression uint8

const (
	Stored Compression = iota
	Zstd
)

// levels are the words of --compression.
var levels = []struct {
	word  string
	level zstd.EncoderLevel // 0: not compressed
}{{"fast", zstd.SpeedFastest}, {"default", zstd.SpeedDefault}, {"best", zstd.SpeedBetterCompression}, {"none", 0}}

// Levels are the words that Options.Level may be, the usual one first.
func Levels() []string {
	var out []string
	for _, l := range levels {
		out = append(out, l.word)
	}
	return out
}

// A compressor compresses payloads; its zero value leaves them as they are.
type compressor struct{ zstd *zstd.Encoder }

func newCompressor(word string) (compressor, error) {
	if word == "" {
		word = levels[0].word
	}
	for _, l := range levels {
		switch {
		case l.word != word:
		case l.level == 0:
			return compressor{}, nil
		default:
			z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(l.level), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
			return compressor{z}, err
		}
	}
	return compressor{}, fmt.Errorf("%q is no level of compression: %s", word, strings.Join(Levels(), ", "))
}

// compress compresses a payload, each of its parts by itself: noise next to what is even would cost both.
func (c compressor) compress(to, raw []byte, parts []int) ([]byte, Compression) {
	if c.zstd == nil {
		return append(to, raw...), Stored
	}
	for _, n := range parts {
		to = c.zstd.EncodeAll(raw[:n], to)
		raw = raw[n:]
	}
	return to, Zstd
}

// A decompressor takes no more memory than a head says, which is bounded.
type decompressor struct{ zstd *zstd.Decoder }

func newDecompressor() decompressor {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxRaw), zstd.WithDecoderLowmem(true))
	return decompressor{must(z, err)}
}

var errCompression = errors.New("its compression is not known")

// decompress returns the payload of a block, in to where that has room.
func (d decompressor) decompress(to []byte, h *head, stored []byte) ([]byte, error) {
	switch h.compression {
	case Stored:
		if h.raw != h.stored {
			return nil, errDamaged
		}
		return append(to[:0], stored...), nil
	case Zstd:
		if cap(to) < int(h.raw) {
			to = make([]byte, 0, h.raw)
		}
		out, err := d.zstd.DecodeAll(stored, to[:0:h.raw])
		if err != nil || len(out) != int(h.raw) {
			return nil, errDamaged
		}
		return out, nil
	}
	return nil, errCompression
}
