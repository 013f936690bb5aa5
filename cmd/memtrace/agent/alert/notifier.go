package alert

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// NotifierOptions are what a Notifier needs of its caller.
type NotifierOptions struct {
	Log *log.Logger
	// Output takes what a receiver's command says; it bounds it.
	Output func(receiver string) io.Writer
	// Environment is that of commands, without the variables of an alert.
	Environment []string
	UserAgent   string
}

// A Notifier tells receivers, one message at a time each. Its methods may be called by any goroutine.
type Notifier struct {
	opt   NotifierOptions
	ctx   context.Context
	stop  context.CancelFunc
	first time.Duration // wait before the second try of a webhook
	// within is the context of a command that may take so long.
	within func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	work   sync.WaitGroup

	mu      sync.Mutex
	workers map[string]*worker
	closed  bool
}

// worker tells one receiver.
type worker struct {
	Receiver
	*counts
	queue chan *Message
}

type counts struct{ sent, failed, dropped atomic.Uint64 }

// Told is what became of messages to a receiver since it was first named. Sent arrived, failed did not, and dropped
// had no room in the queue.
type Told struct {
	Receiver              string
	Sent, Failed, Dropped uint64
}

const (
	// maxQueue is how many messages wait for a receiver.
	maxQueue = 100
	// lastLook is how long what has begun may go on when the agent ends.
	lastLook = 2 * time.Second
)

// NewNotifier tells nobody yet. The caller closes it.
func NewNotifier(opt NotifierOptions) *Notifier {
	n := &Notifier{opt: opt, workers: make(map[string]*worker), first: time.Second, within: context.WithTimeout}
	n.ctx, n.stop = context.WithCancel(context.Background())
	return n
}

// Apply tells these receivers from now on. One that is as it was goes on; what waits for another one is still sent.
func (n *Notifier) Apply(receivers []Receiver) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	was := n.workers
	n.workers = make(map[string]*worker, len(receivers))
	for i := range receivers {
		r := &receivers[i]
		old := was[r.Name]
		if old != nil && old.equal(r) {
			n.workers[r.Name] = old
			delete(was, r.Name)
			continue
		}
		w := &worker{Receiver: *r, counts: &counts{}, queue: make(chan *Message, maxQueue)}
		if old != nil {
			w.counts = old.counts
		}
		n.workers[r.Name] = w
		n.work.Go(func() { n.run(w) })
	}
	for _, w := range was {
		close(w.queue)
	}
}

// Send puts a message into the queues of those whom it is for.
func (n *Notifier) Send(m *Message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	for name, w := range n.workers {
		if len(m.to) > 0 && !slices.Contains(m.to, name) {
			continue
		}
		select {
		case w.queue <- m:
		default:
			n.opt.Log.Printf("alert %s: %s is not told: %d messages wait for it already",
				m.GroupLabels["alertname"], name, maxQueue)
			w.dropped.Add(1)
		}
	}
}

// Told is what became of messages, by receiver.
func (n *Notifier) Told() (all []Told) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, w := range n.workers {
		all = append(all, Told{name, w.sent.Load(), w.failed.Load(), w.dropped.Load()})
	}
	slices.SortFunc(all, func(x, y Told) int { return cmp.Compare(x.Receiver, y.Receiver) })
	return all
}

// Close gives what waits a moment, and ends what takes longer. It returns when no command runs.
func (n *Notifier) Close() {
	n.mu.Lock()
	if !n.closed {
		n.closed = true
		for _, w := range n.workers {
			close(w.queue)
		}
	}
	n.mu.Unlock()
	late := time.AfterFunc(lastLook, n.stop)
	defer late.Stop()
	n.work.Wait()
	n.stop()
}

// run tells a receiver, until its queue is closed.
func (n *Notifier) run(w *worker) {
	for m := range w.queue {
		if err := n.tell(w, m); err != nil {
			n.opt.Log.Printf("alert %s: %s was not told that it is %s: %v", m.GroupLabels["alertname"], w.Name, m.Status, err)
			w.failed.Add(1) // who sees it finds the line
			continue
		}
		w.sent.Add(1)
	}
}

func (n *Notifier) tell(w *worker, m *Message) error {
	own := *m
	own.Receiver = w.Name
	var body bytes.Buffer
	to := json.NewEncoder(&body)
	to.SetEscapeHTML(false)
	if err := to.Encode(&own); err != nil {
		return err
	}
	if len(w.Command) > 0 {
		return n.runCommand(w, &own, body.Bytes())
	}
	return n.post(w, body.Bytes())
}
