package main

import (
	"bufio"
	"io"
	"os"

	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/analyzer/snapshot"
)

// content is what a file has, by its first bytes.
type content string

const (
	aSnapshot  content = "a snapshot (the memory of all processes)"
	aReport    content = "a Report (the call sites of a trace)"
	aRecording content = "a recording (all that a trace saw)"
	// anything else is left to what opens Reports: it says what is wrong.
	anything content = "neither a Report nor a snapshot"
)

// contentOf looks into a file. What can be read only once, such as a pipe, is not looked into.
func contentOf(path string) content {
	path, _ = splitInstant(path)
	if path == "-" {
		return anything
	}
	var info os.FileInfo
	err := asCaller(func() (err error) { info, err = os.Stat(path); return err })
	if err != nil || !info.Mode().IsRegular() {
		return anything
	}
	f, err := openAsCaller(path)
	if err != nil {
		return anything
	}
	defer func() { _ = f.Close() }()
	return contentOfReader(f)
}

// recordingBegin is how many bytes tell a recording.
const recordingBegin = 8

// maxSpace bounds the white space that JSON may begin with, in bytes.
const maxSpace = 1 << 10

func contentOfReader(r io.Reader) content {
	in := bufio.NewReaderSize(io.LimitReader(r, maxSpace), maxSpace)
	if begin, err := in.Peek(len(snapshot.Magic)); err == nil && string(begin) == snapshot.Magic {
		return aSnapshot
	}
	if begin, err := in.Peek(recordingBegin); err == nil && recording.Is(begin) {
		return aRecording
	}
	for {
		switch b, err := in.ReadByte(); {
		case err != nil:
			return anything
		case b == ' ' || b == '\t' || b == '\r' || b == '\n':
		case b == '{':
			return aReport
		default:
			return anything
		}
	}
}
