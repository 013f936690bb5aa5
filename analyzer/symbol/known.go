package symbol

import (
	"crypto/sha256"
	"fmt"
	"hash/crc32"

	"golang.org/x/sys/unix"
)

// known is the answers on one module that outlive the run: those of earlier
// runs, mapped, and those that were added. A nil known has and keeps nothing.
// It is guarded by its module.
type known struct {
	store   *store
	name    string
	made    fingerprint
	data    []byte // mapped file
	old     *answers
	asked   []uint64 // a bit for each of the old answers
	fresh   map[uint64][]Frame
	spoiled bool // something could not be read: the answers are not for ever
}

// openKnown finds the answers on a module. Files without a build ID, and small
// ones without DWARF, which take no time to read, have none.
func openKnown(s *store, m *module, names Names) *known {
	const smallFile = 1 << 20
	if s == nil || len(m.img.buildID) < 16 {
		return nil
	}
	if !m.img.hasDWARF() && m.debug == nil && len(m.img.file.data) < smallFile {
		return nil
	}
	k := &known{store: s, made: m.fingerprint(names), fresh: map[uint64][]Frame{}}
	k.name = fileName(m.img.buildID, k.made)
	if k.old, k.data = s.read(k.name, k.made); k.old != nil {
		k.asked = make([]uint64, (k.old.n+63)/64)
	}
	return k
}

// fingerprint tells all that answers depend on. A build ID is only what a file
// says of itself: who may write a file could pretend it is another one, and
// have its names shown for that. So the answers on the files of other users,
// and on files that processes with another root see, are kept apart. There root may
// be anybody: those answers are on this very inode, as it was when it changed last,
// which no user can set.
func (m *module) fingerprint(names Names) fingerprint {
	text := fmt.Sprintf("%s names %d, owner %d, foreign %v, file %d %08x", m.img.buildID, names,
		m.file.owner, m.view.foreign(), len(m.file.data), headersSum(m.img))
	for _, other := range []*image{m.debug, m.dwarf.alt} {
		if other != nil {
			text += fmt.Sprintf(", with %d %d %d %s", other.file.owner, other.file.key.size, other.file.key.mtime.Nano(), other.buildID)
		}
	}
	if m.view.foreign() {
		for _, img := range []*image{m.img, m.debug, m.dwarf.alt} {
			if img != nil {
				text += fmt.Sprintf(", inode %d:%d %d", img.file.key.dev, img.file.key.ino, img.file.changed.Nano())
			}
		}
	}
	return sha256.Sum256([]byte(text))
}

// headersSum is a checksum of what is cheap to read of a file: its headers.
func headersSum(img *image) (sum uint32) {
	for _, p := range img.elf.Progs {
		sum = crc32.Update(sum, castagnoli, fmt.Append(nil, p.ProgHeader))
	}
	for _, s := range img.elf.Sections {
		sum = crc32.Update(sum, castagnoli, fmt.Append(nil, s.SectionHeader))
	}
	return sum
}

// find returns the frames of addr; nil where they are not known. Module,
// build ID and offset are left to the caller.
func (k *known) find(addr uint64) (found []Frame) {
	if k == nil || k.old == nil {
		return nil
	}
	err := guard("read "+k.name, func() error {
		i, ok := k.old.find(addr)
		if !ok {
			return nil
		}
		k.asked[i/64] |= 1 << (i % 64)
		found = k.old.at(i)
		return nil
	})
	if err != nil {
		k.old, k.asked = nil, nil
		return nil
	}
	return found
}

// add keeps the frames of addr for the next run.
func (k *known) add(addr uint64, frames []Frame) {
	if k == nil || k.spoiled || len(k.fresh) >= maxAnswers || len(frames) > maxAnswerFrames {
		return
	}
	k.fresh[addr] = frames
}

// spoil has nothing of this run kept: a file was damaged or cut short.
func (k *known) spoil() {
	if k != nil {
		k.spoiled, k.fresh = true, nil
	}
}

// close writes what was added, with the old answers beside it, and lets go.
func (k *known) close() (err error) {
	if k == nil {
		return nil
	}
	if len(k.fresh) > 0 {
		err = guard("write "+k.name, k.save)
	}
	if k.data != nil {
		_ = unix.Munmap(k.data)
	}
	*k = known{spoiled: true}
	return err
}

func (k *known) save() error {
	// Where not all fit, old answers that nobody asked for go first.
	k.merge(func(i int) bool { return k.asked[i/64]&(1<<(i%64)) != 0 })
	k.merge(func(int) bool { return true })
	data := writeAnswers(k.fresh, k.made)
	if data == nil {
		return fmt.Errorf("the names of one file take more than %d bytes", maxAnswersSize)
	}
	return k.store.write(k.name, data)
}

// merge adds old answers that are fit.
func (k *known) merge(fit func(int) bool) {
	if k.old == nil {
		return
	}
	for i := range k.old.n {
		if len(k.fresh) >= maxAnswers {
			return
		}
		addr := k.old.address(i)
		if _, ok := k.fresh[addr]; !ok && fit(i) {
			if frames := k.old.at(i); frames != nil {
				k.fresh[addr] = frames
			}
		}
	}
}
