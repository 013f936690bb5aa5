package config

// Resolve says which entry is in force for a flag; nil where none is. layers are what the sources say, the one that counts
// most first. Within a source, an entry for the command counts before one for all commands, and that only if the
// flag can take its value.
func Resolve(f *Flag, layers ...[]Entry) *Entry {
	if f.Never != "" {
		return nil
	}
	for _, entries := range layers {
		if e := f.in(entries); e != nil {
			return e
		}
	}
	return nil
}

func (f *Flag) in(entries []Entry) *Entry {
	var general *Entry
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Flag != f.Name:
		case e.Command == f.Command:
			return e
		case e.Command == "" && f.refuse(e.Values) == nil:
			general = e
		}
	}
	return general
}
