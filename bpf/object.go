package bpf

// Object returns the compiled programs and maps as an ELF file.
func Object() []byte { return _MemtraceBytes }
