package trace

import (
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
)

const (
	// frame is how long the renderer gathers changes: Reports come at the interval, and keys one by one.
	frame = 100 * time.Millisecond
	// stopPatience bounds how long Stop waits for a terminal that takes no output.
	stopPatience = 500 * time.Millisecond
	// busyWait is how often it is looked whether a slow terminal can take the next Report.
	busyWait = 20 * time.Millisecond
)

// Terminal shows a Screen on a terminal, from Start to Stop.
type Terminal struct {
	program *tea.Program
	out     *output
	mail    chan update   // at most one waits
	missed  atomic.Uint64 // Reports that were not shown, as the terminal took nothing
	quit    chan struct{}
	stop    sync.Once
	done    chan struct{} // the program has ended
	hangup  chan os.Signal
}

// An update is what the Screen shows next.
type update struct {
	report  *report.Report
	threads []render.ThreadSum
	sampled bool
}

// Start takes the terminal. o.End is also called when the terminal is gone. Stop must follow.
func Start(file *os.File, o Options) *Terminal {
	if o.End == nil {
		o.End = func() {}
	}
	end := sync.OnceFunc(o.End)
	o.End = end
	t := &Terminal{mail: make(chan update, 1), quit: make(chan struct{}), done: make(chan struct{}), hangup: make(chan os.Signal, 1)}
	t.out = newOutput(file, end)
	options := []tea.ProgramOption{tea.WithOutput(t.out), tea.WithoutSignalHandler(), tea.WithFPS(int(time.Second / frame))}
	if o.Keyless {
		options = append(options, tea.WithInput(nil))
	}
	t.program = tea.NewProgram(&model{screen: NewScreen(o), out: t.out}, options...)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(t.hangup, syscall.SIGHUP)
	}
	go t.run(end)
	go t.forward(end)
	return t
}

// run shows the screen until the user or Stop ends it. Whatever else ends it, such as a
// terminal that is gone, ends the trace: nobody could.
func (t *Terminal) run(end func()) {
	defer close(t.done)
	if _, err := t.program.Run(); err != nil {
		end()
	}
}

// forward hands on each Report once the terminal has taken what came before it, or the latest of several.
func (t *Terminal) forward(end func()) {
	for {
		select {
		case <-t.quit:
			return
		case <-t.hangup:
			end()
		case u := <-t.mail:
			u, ok := t.latest(u)
			if !ok {
				return
			}
			t.program.Send(reportMsg{u, time.Now(), t.missed.Load()})
		}
	}
}

// latest waits for the terminal, and returns the latest update then; false after Stop.
func (t *Terminal) latest(u update) (update, bool) {
	for {
		idle, dropped := t.out.idle()
		if dropped {
			t.program.Send(tea.ClearScreen())
		}
		if idle {
			return u, true
		}
		select {
		case <-t.quit:
			return update{}, false
		case u = <-t.mail:
			t.missed.Add(1)
		case <-time.After(busyWait):
		}
	}
}

// Show shows r, and what threads have done until then (see Screen.Threads), as soon as the terminal can take it, and returns at once. Neither
// must change afterwards. If an earlier Report still waits, r replaces it.
func (t *Terminal) Show(r *report.Report, threads []render.ThreadSum, sampled bool) {
	for {
		select {
		case t.mail <- update{r, threads, sampled}:
			return
		default:
		}
		select {
		case <-t.mail:
			t.missed.Add(1)
		default:
		}
	}
}

// Stop gives the terminal back as it was. It waits for that at most half a second for the program and as
// long for the terminal. Its error is the first that the terminal returned, or says that it takes no output.
func (t *Terminal) Stop() error {
	t.stop.Do(func() {
		t.out.close()
		close(t.quit)
		go t.program.Quit()
		signal.Stop(t.hangup)
	})
	select {
	case <-t.done:
	case <-time.After(2 * stopPatience): // it waits half a second itself, for a read that doesn't end
	}
	return t.out.end(stopPatience)
}

// model makes a Screen a tea.Model.
type model struct {
	screen  *Screen
	out     *output
	resizes int
	resumed chan struct{} // closed once a Ctrl-Z is over
}

// messages of the model to itself, and of the Terminal to it.
type (
	reportMsg struct {
		update
		at     time.Time
		missed uint64
	}
	ageMsg     struct{}
	repaintMsg struct{ resizes int }
)

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return age() }

// age has the screen say how old its figures are.
func age() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return ageMsg{} }) }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case reportMsg:
		m.screen.Threads(msg.threads, msg.sampled)
		m.screen.Show(msg.report, msg.at, msg.missed)
	case ageMsg:
		return m, age()
	case tea.WindowSizeMsg:
		m.screen.Resize(msg.Width, msg.Height)
		// As in package top: the renderer never clears what it drew right of its old edge.
		m.resizes++
		resizes := m.resizes
		return m, tea.Tick(4*frame, func(time.Time) tea.Msg { return repaintMsg{resizes} })
	case repaintMsg:
		if msg.resizes == m.resizes {
			return m, tea.ClearScreen
		}
	case tea.ResumeMsg:
		m.out.suspend(false)
		close(m.resumed)
	case tea.PasteMsg:
		m.screen.Paste(msg.Content)
	case tea.KeyPressMsg:
		if msg.String() == "ctrl+z" {
			return m, m.suspend()
		}
		m.screen.Key(msg.String(), msg.Text)
		if m.screen.Ending() {
			return m, tea.Quit
		}
	}
	return m, nil
}

// suspend stops the process, as the shell expects of Ctrl-Z. The kernel doesn't where no shell is there to
// let it go on; then nobody sends the SIGCONT that tea.Suspend waits for.
//
// While memtrace is stopped, children of the traced processes that it holds would stand still: then
// it ignores SIGTSTP, and the screen says so.
func (m *model) suspend() tea.Cmd {
	if signal.Ignored(syscall.SIGTSTP) {
		m.screen.Say("Ctrl-Z is ignored: while memtrace is stopped, new children of the traced processes would wait for it")
		return nil
	}
	m.out.suspend(true) // the shell must find its own screen
	m.resumed = make(chan struct{})
	go func(resumed chan struct{}) {
		again := time.NewTicker(time.Second)
		defer again.Stop()
		for {
			select {
			case <-resumed:
				return
			case <-again.C:
				_ = syscall.Kill(os.Getpid(), syscall.SIGCONT)
			}
		}
	}(m.resumed)
	return tea.Suspend
}

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.screen.Lines(time.Now()), "\n"))
	v.AltScreen = true
	v.WindowTitle = "memtrace"
	return v
}
