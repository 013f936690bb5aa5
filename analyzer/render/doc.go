// Package render writes a Report for people and for programs: one
// file per format, all behind Write. It also formats the one-line form of a
// single event (WriteEvent) and a Report cut to a terminal's size (Screen).
//
// Names in a Report come from the traced program: its thread names, its
// symbols, its paths. Text output quotes every character that is not
// printable, so that no name can move the cursor or recolour the terminal.
//
// Everything here is a pure function of its arguments and safe for concurrent
// use as long as the Report is not modified meanwhile.
package render
