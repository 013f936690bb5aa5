// Package threshold parses sizes and conditions as people write them on a
// command line, such as "pss(redis)>2GiB" or "growth>1MiB/min".
//
//	condition = metric [ "(" subject ")" ] comparison quantity
//	metric    = word { "." word }
//	comparison= ">" | ">=" | "<" | "<="
//	quantity  = number [ unit ] [ "/" time ]
//	unit      = "%" | size | time
//
// Which metrics there are, and in which unit each is, is for the caller to
// decide: it asks a Quantity for what it wants (Bytes, Count, …) and gets an
// error that says what was expected.
//
// Sizes are GNU's: B; kB, MB, GB, TB, PB by 1000; KiB, MiB, GiB, TiB, PiB by
// 1024, which K, M, G, T and P are short for. Times: ns, us, ms, s, min, h, d.
//
// Everything here is a pure function, safe for concurrent use.
package threshold
