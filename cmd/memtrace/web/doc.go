// Package web is the page for recordings and saved Reports: an HTTP server for the browsers of one person.
//
//	server.go    Serve listens, bounds what clients can take, and ends
//	guard.go     who may ask: the token, the cookie, the Host, the origin, and what a page may do
//	file.go      a file that is shown, and what it can be asked
//	jobs.go      answers that take long: made in the background, kept within bounds
//	ask.go       what of a file a request is about
//	view.go, timeline.go, flame.go, table.go, leaks.go: a question of the page each
//	page/        what the browser runs
//
// The page is sent what it shows, never the events. What names a target gave pass analyzer/render on their way out, and
// the page shows them as text alone. A Server may be used by many goroutines.
package web
