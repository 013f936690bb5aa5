package symbol

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// defaultStoreSize bounds the files of answers of all build IDs together.
	defaultStoreSize = 512 << 20
	// staleAfter is the age at which a file that a write left half done goes.
	staleAfter = time.Hour

	answersSuffix = ".names"
	tempPrefix    = ".new-"
)

// DefaultCacheDir is where answers are kept from one run to the next:
// memtrace/symbols in $XDG_CACHE_HOME, else in ~/.cache.
func DefaultCacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the directory for the symbol cache: %w", err)
	}
	return filepath.Join(dir, "memtrace", "symbols"), nil
}

// store is a directory of files of one kind, such as answers. A nil store
// holds nothing.
type store struct {
	fd     int
	suffix string // of the files' names
	limit  int64
	mu     sync.Mutex // for writing
}

// openStore opens the directory, which it creates if need be.
func openStore(path, suffix string) (*store, error) {
	fd, err := openPrivateDir(path)
	if err != nil {
		return nil, fmt.Errorf("use the symbol cache: %w", err)
	}
	return &store{fd: fd, suffix: suffix, limit: defaultStoreSize}, nil
}

func (s *store) close() {
	if s != nil {
		unix.Close(s.fd)
	}
}

// fileName is where answers on a build ID are, made from what made says.
func fileName(buildID string, made fingerprint) string {
	return fmt.Sprintf("%s-%x%s", buildID[:min(len(buildID), 64)], made[:8], answersSuffix)
}

// read maps a file of answers; nil where there is none that is good. The
// result's memory is to be unmapped.
func (s *store) read(name string, made fingerprint) (*answers, []byte) {
	fd, size := s.open(name, maxAnswersSize)
	if fd < 0 {
		return nil, nil
	}
	defer unix.Close(fd)
	if size < headerSize {
		return nil, nil
	}
	data, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil
	}
	var found *answers
	if err := guard("read "+name, func() (err error) {
		found, err = readAnswers(data, made)
		return err
	}); err != nil {
		_ = unix.Munmap(data)
		return nil, nil
	}
	s.touch(name)
	return found, data
}

// open opens a file that is our own and of at most limit bytes; fd is -1 where
// there is none.
func (s *store) open(name string, limit int64) (fd int, size int64) {
	fd, err := unix.Openat(s.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, 0
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != uint32(unix.Geteuid()) || st.Size > limit {
		unix.Close(fd)
		return -1, 0
	}
	return fd, st.Size
}

// touch notes that a file was of use, which tells what goes first; where it
// can't be noted, the oldest goes.
func (s *store) touch(name string) {
	_ = unix.UtimesNanoAt(s.fd, name, nil, unix.AT_SYMLINK_NOFOLLOW)
}

// write puts a file of answers in the place of the old one, in one step, and
// makes room for it.
func (s *store) write(name string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.makeRoom(int64(len(data)), name); err != nil {
		return err
	}
	temp := tempPrefix + rand.Text()
	fd, err := unix.Openat(s.fd, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("create a file in the symbol cache: %w", err)
	}
	file := os.NewFile(uintptr(fd), temp)
	_, err = file.Write(data)
	// No fsync: a file that a crash of the system leaves empty or in part fails its checksum.
	if err = errors.Join(err, file.Close()); err == nil {
		err = unix.Renameat(s.fd, temp, s.fd, name)
	}
	if err != nil {
		_ = unix.Unlinkat(s.fd, temp, 0)
		return fmt.Errorf("write %s to the symbol cache: %w", name, err)
	}
	return nil
}

// storedFile is one file of the directory.
type storedFile struct {
	name string
	size int64
	used time.Time
}

// makeRoom removes the files unused for longest until size more bytes fit.
// The file called name is about to be replaced.
func (s *store) makeRoom(size int64, name string) error {
	found, err := s.list()
	if err != nil {
		return err
	}
	total := size
	for _, f := range found {
		if f.name != name {
			total += f.size
		}
	}
	slices.SortFunc(found, func(a, b storedFile) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.name, b.name)) })
	for _, f := range found {
		if total <= s.limit {
			return nil
		}
		if f.name == name {
			continue
		}
		if err := unix.Unlinkat(s.fd, f.name, 0); err == nil || errors.Is(err, unix.ENOENT) {
			total -= f.size
		}
	}
	if total > s.limit {
		return fmt.Errorf("make room in the symbol cache: %d bytes don't fit into %d", size, s.limit)
	}
	return nil
}

// list reads the directory's own files and removes what writes left half done.
func (s *store) list() ([]storedFile, error) {
	fd, err := unix.Openat(s.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("list the symbol cache: %w", err)
	}
	dir := os.NewFile(uintptr(fd), "symbol cache")
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list the symbol cache: %w", err)
	}
	var found []storedFile
	for _, name := range names {
		half := strings.HasPrefix(name, tempPrefix)
		if !half && !strings.HasSuffix(name, s.suffix) {
			continue
		}
		var st unix.Stat_t
		if unix.Fstatat(s.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue
		}
		used := time.Unix(st.Mtim.Unix())
		if half && time.Since(used) > staleAfter {
			_ = unix.Unlinkat(s.fd, name, 0)
			continue
		}
		found = append(found, storedFile{name: name, size: st.Size, used: used})
	}
	return found, nil
}
