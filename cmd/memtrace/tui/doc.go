// Package tui holds what memtrace's screens share: whether there is a
// terminal to draw on (terminal.go), colours (theme.go), bars and sparklines
// (chars.go) and the layout of help pages (help.go). The screens are the
// packages below: top shows the machine, trace a trace.
package tui
