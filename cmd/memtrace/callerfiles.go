package main

import "os"

// openAsCaller opens a file that the user named, for reading.
func openAsCaller(path string) (f *os.File, err error) {
	err = asCaller(func() error { f, err = os.Open(path); return err })
	return f, err
}

// createAsCaller creates a file that the user named, or opens it with other flags.
func createAsCaller(path string, flags int) (f *os.File, err error) {
	err = asCaller(func() error { f, err = os.OpenFile(path, os.O_CREATE|flags, 0o666); return err })
	return f, err
}
