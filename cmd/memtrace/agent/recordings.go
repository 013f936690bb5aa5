package agent

import (
	"net/http"
	"slices"
)

// serveRecordings lists a service's recordings, of its growth and of traces. They are read where they are: this would give
// them to everybody who reaches the agent, and they can be read by its user alone.
func (a *Agent) serveRecordings(w http.ResponseWriter, r *http.Request) {
	service := r.PathValue("name")
	var all []Segment
	var err error
	if h := a.watches.folder(); h != nil {
		all, err = h.recordings(service)
	}
	traced := slices.ContainsFunc(all, func(s Segment) bool { return s.Kind == kindTrace })
	if !traced && a.watchOf(w, service) == nil {
		return
	}
	a.auditRead(r, service)
	if err != nil {
		a.log.Printf("%v", err)
		http.Error(w, "the recordings can't be listed; the agent's log says why", http.StatusInternalServerError)
		return
	}
	if all == nil {
		all = []Segment{}
	}
	writeJSON(w, all)
}
