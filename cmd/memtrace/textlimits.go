package main

// textFrames is how much of each stack the text shows.
const (
	textFrames = 12
	textStacks = 8
)
