//go:build integration && services

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// A tab is a page in Chromium.
type tab struct {
	t    *testing.T
	ctx  context.Context
	mu   sync.Mutex
	said []string // by the console
}

// openTab opens Chromium with an address.
func openTab(t *testing.T, url string) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath(need(t, "chromium")))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	b.do(chromedp.EmulateViewport(1280, 900))
	go func() {
		for m, err := range chromedp.Console(ctx) {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.said = append(b.said, fmt.Sprint(m.Type, ": ", m.Text))
			b.mu.Unlock()
		}
	}()
	b.do(chromedp.Navigate(url))
	return b
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	if b.ctx.Err() == nil && chromedp.FromContext(b.ctx).Target == nil {
		cancel()
		ctx, cancel = b.ctx, func() {}
	}
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// js is what a script of the page gives, as JSON.
func js[T any](b *tab, script string) T {
	b.t.Helper()
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script))
	if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	return out
}

// wait waits until a script gives true.
func (b *tab) wait(script string) {
	b.t.Helper()
	for end := time.Now().Add(15 * time.Second); !js[bool](b, "Boolean("+script+")"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("never: %s\n%s", script, js[string](b, `document.body.innerText.slice(0, 3000)`))
		}
	}
}

// press has the page do what a key does.
func (b *tab) press(key string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(key))
}

// text waits for a text in an element.
func (b *tab) text(selector, want string) {
	b.t.Helper()
	b.wait(fmt.Sprintf("document.querySelector(%q)?.innerText.includes(%q)", selector, want))
}

const hostileName = "<img src=x onerror=document.title='owned'>"

// TestWebInChromium looks at a recording of a program that says what it holds, under a name that is markup.
func TestWebInChromium(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, hostileName)
	if err := exec.Command("cp", testProgram("two_threads"), program).Run(); err != nil {
		t.Fatal(err)
	}
	file, answer := filepath.Join(dir, "two.memtrace"), filepath.Join(dir, "answer")
	out, code := finishLeaks(t, memtraceCommand(t, "record", "--leaks", "-o", file, "--", "sh", "-c", `exec "$0" run >"$1"`, program, answer))
	if code != 0 {
		t.Fatalf("%d: %s", code, out)
	}
	var said struct {
		Total struct {
			Bytes int `json:"live_bytes"`
			Count int `json:"live_count"`
		} `json:"total"`
	}
	text, err := os.ReadFile(answer)
	if err == nil {
		err = json.Unmarshal(text, &said)
	}
	if err != nil || said.Total.Bytes == 0 {
		t.Fatalf("%v: %s", err, text)
	}
	b := openTab(t, showPage(t, file).url)
	checkFirstPicture(b, file)
	checkFlame(b, said.Total.Bytes, said.Total.Count)
	checkTables(b, file)
	checkTimes(b, file)
	checkLeaks(b, file)
	if title := js[string](b, "document.title"); title == "owned" || js[int](b, "document.images.length") != 0 {
		t.Errorf("a name became markup: %s", title)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	// The browser itself tells of the filter that was wrong on purpose.
	if len(b.said) != 1 || !strings.Contains(b.said[0], "400 (Bad Request)") {
		t.Errorf("the console has %q", b.said)
	}
}

// checkFirstPicture compares the tiles and the timeline with report's JSON.
func checkFirstPicture(b *tab, file string) {
	b.t.Helper()
	want := reportedAs(b.t, file)
	live := uint64(0)
	for _, p := range want.Processes {
		live += p.Heap.LiveCount
	}
	b.text("#tiles", commas(int(live))+" blocks")
	b.wait("document.querySelectorAll('#chart path.live').length === 1")
	if address := js[string](b, "location.href"); strings.Contains(address, "token") {
		b.t.Errorf("the address still has the token: %s", address)
	}
	if js[string](b, "document.cookie") != "" {
		b.t.Error("a script can read the cookie")
	}
}

func checkFlame(b *tab, bytes, count int) {
	b.t.Helper()
	b.text(".flame", "small_blocks")
	b.text(".flame", hostileName[:12])
	b.do(chromedp.SendKeys("#find", "small_blocks"))
	b.text("#sum", "1 frame found: ")
	b.press("\r")
	b.text("#detail", fmt.Sprintf("in %s blocks", commas(count)))
	b.text("#detail", "781 KiB")
	if bytes>>10 != 781 {
		b.t.Errorf("the program holds %d bytes now: change the test", bytes)
	}
	checkFindWhileTyping(b, commas(count))
	find := func(button string) string {
		return fmt.Sprintf("[...document.querySelectorAll('#detail button')].find(b => b.textContent === %q)", button)
	}
	js[any](b, find("Callers and callees")+".click() || null")
	b.text("#view", "Callees")
	b.wait("document.querySelectorAll('.flame').length === 2")
	js[any](b, "history.back() || null")
	b.wait("document.querySelectorAll('.flame').length === 1")
	b.press("\x1b")
	js[any](b, "document.activeElement.blur() || null")
	b.press("i")
	b.wait("location.hash.includes('inverted=1') && document.querySelector('#inverted').checked && !document.querySelector('.stale')")
	b.press("i")
	js[any](b, "document.querySelector('#find').value = '', document.querySelector('#find').dispatchEvent(new Event('input')), null")
	b.wait("!location.hash.includes('find') && !document.querySelector('.stale')")
	js[any](b, "[...document.querySelectorAll('.f')].find(f => f.textContent === 'small_blocks').dispatchEvent(new MouseEvent('dblclick')), null")
	b.text("#chips", "zoomed")
	js[any](b, "document.querySelector('#chips button').click() || null")
	b.wait("!location.hash.includes('zoom')")
}

// checkFindWhileTyping finds as someone does who types faster than the page, or more slowly: Enter goes to a hit of what
// stands in the field by then, and what was chosen stays so as more is typed.
func checkFindWhileTyping(b *tab, count string) {
	b.t.Helper()
	typed := func(text string) string {
		return fmt.Sprintf("(field => { field.value = %q; field.dispatchEvent(new Event('input')); })"+
			"(document.querySelector('#find'))", text)
	}
	const enter = "document.querySelector('#find').dispatchEvent(" +
		"new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }))"
	chosen := func() { b.wait("document.querySelector('.f.selected')?.textContent === 'small_blocks'") }
	js[any](b, typed("thread_main")+", null")
	b.wait("location.hash.includes('find=thread_main') && !document.querySelector('.stale')")
	js[any](b, typed("small_blo")+", "+enter+", null")
	b.wait("location.hash.includes('find=small_blo')")
	chosen()
	js[any](b, typed("small_blocks")+", null")
	b.wait("location.hash.includes('find=small_blocks') && !document.querySelector('.stale')")
	chosen()
	b.text("#detail", "in "+count+" blocks")
}

// checkTables compares a table with query's JSON, and follows a filter, a mistake in it, and a click on a column.
func checkTables(b *tab, file string) {
	b.t.Helper()
	b.press("2")
	b.wait("document.querySelector('#rows') && document.querySelector('#by').value === 'site'")
	js[any](b, "const by = document.querySelector('#by'); by.value = 'thread'; by.dispatchEvent(new Event('change')); null")
	b.wait("document.querySelector('#rows th').textContent.includes('thread')")
	want := queriedAs(b.t, file, "size < 1KiB", "--by", "thread")
	b.do(chromedp.SendKeys("#filter", "size < 1KiB"))
	js[any](b, "document.activeElement.blur() || null")
	b.text("#rowCount", fmt.Sprintf("%d row", len(want.Groups)))
	b.text("#command", "'size < 1KiB' --by thread")
	for _, g := range want.Groups {
		b.text("#rows", g.Key)
		b.text("#rows", commas(int(g.Count)))
	}
	js[any](b, "document.querySelector('[data-key=count]').click() || null")
	b.wait("document.querySelector('th[aria-sort=descending]')?.textContent.includes('Blocks')")
	js[any](b, "const filter = document.querySelector('#filter'); filter.value = 'size > 3ms'; filter.dispatchEvent(new Event('change')); null")
	b.text("#problem", "size is a size in bytes")
	js[any](b, "filter.value = ''; filter.dispatchEvent(new Event('change')); null")
	b.wait("document.querySelector('#problem').hidden")
}

// TestWebNamesSpansWithoutProbes looks at a recording that had to do without probes for some time.
func TestWebNamesSpansWithoutProbes(t *testing.T) {
	t.Parallel()
	file, _ := recorded(t, []string{"--max-overhead", "1%"}, testProgram("grow_busily"), "run")
	r := reportedAs(t, file)
	if r.Overhead.NoneNS == 0 || r.Touched == nil {
		t.Fatalf("nothing to show: %+v, %+v", r.Overhead, r.Touched)
	}
	b := openTab(t, showPage(t, file).url)
	b.text("#tiles", "without probes for ")
	b.wait("[...document.querySelectorAll('#chart .band title')]" +
		".some(t => t.textContent.startsWith('none: the allocator had no probes'))")
	b.press("4")
	b.text("#view", "no block from before the last such time is known")
	b.text("#view", "memtrace report names the sites")
}

// checkTimes selects a span by dragging, and a time by its keys.
func checkTimes(b *tab, file string) {
	b.t.Helper()
	b.press("1")
	js[any](b, `const chart = document.querySelector('#chart'), box = chart.getBoundingClientRect();
		const at = (type, part) => chart.dispatchEvent(new PointerEvent(type, { clientX: box.left + 64 + (box.width - 72) * part, clientY: box.top + 60, pointerId: 1, button: 0, bubbles: true }));
		chart.setPointerCapture = () => {}; at('pointerdown', 0.2); at('pointermove', 0.5); at('pointerup', 0.8); null`)
	b.text("#selection", " to ")
	b.text("#command", "--from ")
	b.wait("document.querySelector('#chosen.span')")
	command := js[string](b, "document.querySelector('#command code').textContent")
	from, to := between(command, "--from ", " "), strings.TrimSpace(command[strings.Index(command, "--to ")+5:])
	want := queriedAs(b.t, file, "born"+between(command, "'born", "'"), "--from", from, "--to", to)
	b.text("#sum", "in "+commas(int(want.Total.LiveCount))+" block")
	b.press("z")
	b.wait("location.hash.includes('tfrom=') && !document.querySelector('#zoomOut').disabled")
	b.press("Z")
	b.press("\x1b")
	b.text("#selection", "at the end")
	js[any](b, "const when = document.querySelector('#at'); when.value = '0.001'; when.dispatchEvent(new Event('change')); null")
	b.text("#selection", "at 0.001")
	b.press("\x1b")
	b.text("#selection", "at the end")
}

// between is what stands after a text until another.
func between(s, from, to string) string {
	_, rest, _ := strings.Cut(s, from)
	rest, _, _ = strings.Cut(rest, to)
	return rest
}

// checkLeaks compares the verdicts with report's JSON.
func checkLeaks(b *tab, file string) {
	b.t.Helper()
	b.press("3")
	b.wait("document.querySelector('#tab-leaks').getAttribute('aria-selected') === 'true' && !document.querySelector('.stale')")
	want := reportedAs(b.t, file)
	b.wait(fmt.Sprintf("document.querySelectorAll('.leak').length === %d", min(len(want.Leaks), 300)))
	for _, l := range want.Leaks[:min(len(want.Leaks), 5)] {
		b.text("#view", commas(int(l.Count))+" block")
	}
}
