//go:build !(linux && amd64)

package ptraced

// Restart does nothing here: of a call that a stop has broken off, arm64 keeps the first argument nowhere that ptrace
// could read, so calls that the kernel does not restart return EINTR.
func Restart(int) {}
