package main

// defaultSort is the order of sites where none is asked for.
const defaultSort = "live"

// textFrames is how much of each stack the text shows.
const (
	textFrames = 12
	textStacks = 8
)
