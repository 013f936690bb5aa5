//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"golang.org/x/sys/unix"
)

// serviceUnit is what systemd would run memtrace serve by: the unit's file and its drop-ins. systemd is not asked.
type serviceUnit struct {
	file     string              // "": there is none that could be read
	settings map[string][]string // of its section [Service]
	dropIns  []string            // names of those that count
	unread   []error             // what of it could not be read
	masked   string              // the file that says that there is none
}

const serviceUnitName = "memtrace.service"

// unitFolders are where units are, what counts first before the rest (systemd.unit(5)); systemctl set-property writes
// to those of control.
var unitFolders = []string{
	"/etc/systemd/system.control", "/run/systemd/system.control", "/run/systemd/transient", "/run/systemd/generator.early",
	"/etc/systemd/system", "/etc/systemd/system.attached", "/run/systemd/system", "/run/systemd/system.attached",
	"/run/systemd/generator", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system",
	"/run/systemd/generator.late",
}

// What is read of units is bounded: a unit has some kilobytes, and few drop-ins.
const (
	maxUnitFile = 256 << 10
	maxDropIns  = 100
)

var errMasked = errors.New("it is empty, or /dev/null")

// readServiceUnit reads it below a root directory.
func readServiceUnit(root string) serviceUnit {
	u := serviceUnit{settings: make(map[string][]string)}
	for _, folder := range unitFolders {
		file := filepath.Join(root, folder, serviceUnitName)
		if _, err := os.Lstat(file); isNotThere(err) {
			continue
		}
		// The first counts, also where it can't be read.
		switch err := u.read(file); {
		case errors.Is(err, errMasked):
			return serviceUnit{masked: file}
		case err != nil:
			return serviceUnit{unread: []error{err}}
		}
		u.file = file
		break
	}
	if u.file == "" {
		return serviceUnit{}
	}
	u.readDropIns(root)
	return u
}

// readDropIns reads them in the order of their names, whatever folder they are in. Of one name the first counts; those
// of the unit count before those of all services.
func (u *serviceUnit) readDropIns(root string) {
	found := make(map[string]string) // by name
	for _, of := range []string{serviceUnitName, "service"} {
		for _, folder := range unitFolders {
			dir := filepath.Join(root, folder, of+".d")
			names, err := namesIn(dir)
			if err != nil {
				u.unread = append(u.unread, err)
			}
			for _, name := range names {
				if strings.HasSuffix(name, ".conf") && found[name] == "" {
					found[name] = filepath.Join(dir, name)
				}
			}
		}
	}
	for i, name := range slices.Sorted(maps.Keys(found)) {
		if i == maxDropIns {
			u.unread = append(u.unread, fmt.Errorf("%s has more than %d drop-ins", serviceUnitName, maxDropIns))
			return
		}
		switch err := u.read(found[name]); {
		case err == nil:
			u.dropIns = append(u.dropIns, name)
		case !errors.Is(err, errMasked):
			u.unread = append(u.unread, err)
		}
	}
}

// namesIn lists a folder, if there is one.
func namesIn(dir string) ([]string, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if isNotThere(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(10 * maxDropIns)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

// read takes the settings of a file.
func (u *serviceUnit) read(file string) error {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe has no writer
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case isNull(info) || info.Mode().IsRegular() && info.Size() == 0:
		return errMasked
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no file of text", file)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxUnitFile+1))
	switch {
	case err != nil:
		return err
	case len(text) > maxUnitFile:
		return fmt.Errorf("%s is larger than %d KiB", file, maxUnitFile>>10)
	}
	u.parse(string(text))
	return nil
}

func isNotThere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func isNull(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == unix.Mkdev(1, 3)
}

// parse takes the settings of the section [Service] (systemd.syntax(7)). An empty one takes back what was set before,
// and is kept.
func (u *serviceUnit) parse(text string) {
	service := false
	var begun strings.Builder                        // a line that goes on
	for line := range strings.Lines(text + "\n\n") { // the last one ends, too
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		more, goesOn := strings.CutSuffix(line, `\`)
		begun.WriteString(more)
		if goesOn {
			begun.WriteByte(' ')
			continue
		}
		line = begun.String()
		begun.Reset()
		if strings.HasPrefix(line, "[") {
			service = line == "[Service]"
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !ok || !service: // systemd warns of it
		case value == "":
			u.settings[name] = []string{""}
		default:
			u.settings[name] = append(u.settings[name], value)
		}
	}
}

// words are those of all lines of a setting. Quotes hold one together.
func (u *serviceUnit) words(name string) (out []string) {
	for _, line := range u.settings[name] {
		out = append(out, unitWords(line)...)
	}
	return out
}

func unitWords(line string) (out []string) {
	var word []rune
	var quote rune
	within, escaped := false, false
	for _, r := range line {
		switch {
		case escaped:
			word, escaped = append(word, r), false
		case r == '\\':
			within, escaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word = append(word, r)
		case !within && (r == '"' || r == '\''):
			within, quote = true, r
		case unicode.IsSpace(r):
			if within {
				out, word, within = append(out, string(word)), nil, false
			}
		default:
			word, within = append(word, r), true
		}
	}
	if within {
		out = append(out, string(word))
	}
	return out
}

func (u *serviceUnit) last(name string) string {
	if all := u.settings[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

func (u *serviceUnit) says(name string) bool {
	return slices.Contains([]string{"yes", "true", "1", "on", "y", "t"}, strings.ToLower(u.last(name)))
}
