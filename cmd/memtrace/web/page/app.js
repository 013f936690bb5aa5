import { ask, byId, counted, el, onProgress, size, thousands, time, visible } from './util.js';
import { onChange, state, where, write } from './state.js';
import * as timeline from './timeline.js';
import * as flame from './flame.js';
import * as tables from './tables.js';
import * as leaks from './leaks.js';

const KINDS = {
  live: 'live', peak: 'peak of each site', allocated: 'allocated', freed: 'freed', temporary: 'temporary', leaked: 'leaked', growing: 'growing', resident: 'resident',
  untouched: 'untouched', swapped: 'swapped', faults: 'page faults', mapped: 'mapped outside the allocator',
};
const KEYS = [
  ['1 2 3 4', 'flame graph, tables, leaks, notes'], ['/', 'find'], ['n N', 'next and previous hit'], ['e', 'filter'], ['i', 'inverted'], ['t', 'to the timeline: ← → move, with shift select a span'],
  ['z Z', 'zoom the timeline to the span, and back'], ['g', 'to the flame graph: arrows move, Enter zooms, c copies, s shows callers and callees'], ['Esc', 'undo: leave a field, the zoom, the function, find, then the time'], ['d', 'light or dark'], ['?', 'these keys'],
];
let files = null, summary = null, asking = null, asked = {};

const file = () => files.files[Number(state.f)] || files.files[0];
const options = (select, pairs, value) => {
  select.replaceChildren(...pairs.map(([v, text]) => el('option', { value: v, text })));
  select.value = value;
};

function fail(e) {
  if (e.name === 'AbortError') return;
  byId('error').textContent = visible(e.message);
  byId('error').hidden = false;
}

function problem(e) {
  if (e.name === 'AbortError') return;
  const at = e.from !== undefined && state.filter ? ` (at “${state.filter.slice(e.from, e.to)}”)` : '';
  byId('problem').textContent = visible(e.message + at);
  byId('problem').hidden = false;
  byId('filter').setAttribute('aria-invalid', e.from !== undefined);
  byId('view').classList.remove('stale');
}

// part runs one part of the page; a newer run of it ends the one before.
async function part(name, f) {
  asked[name]?.abort();
  const mine = asked[name] = new AbortController();
  try {
    await f(mine.signal);
  } catch (e) {
    if (!mine.signal.aborted) throw e;
  }
}

function about() {
  const f = file();
  byId('about').textContent = visible([f.host, f.began, f.recording ? time(f.end_ns) + ' recorded' : 'saved Report', f.command?.join(' ')].filter(Boolean).join(' · ').replace(/\s+/g, ' '));
  byId('about').title = byId('about').textContent;
  document.title = visible(f.name.replace(/^.*\//, '') + ' · memtrace');
  options(byId('file'), files.files.map((one, i) => [i, one.name.replace(/^.*\//, '')]), state.f);
  byId('file').title = visible(f.name);
  const others = files.files.map((one, i) => ['f' + i, one.name.replace(/^.*\//, '')]).filter((_, i) => i !== Number(state.f));
  const times = f.recording ? [['start', 'the start'], ...(state.from !== undefined ? [['from', 'the span’s beginning']] : []), ...(state.at !== undefined ? [['end', 'the end']] : [])] : [];
  options(byId('base'), [['', 'nothing'], ...times, ...others], state.base || '');
  byId('filterLabel').hidden = !f.recording || !['flame', 'table'].includes(state.tab);
}

// rss is what the processes have; once all have exited, what the largest one had.
function rss(processes) {
  const living = processes.filter(p => !p.exited), sum = living.reduce((n, p) => n + p.usage.rss, 0);
  if (living.length) return [size(sum), counted(living.length, 'process')];
  if (!processes.length) return ['–', 'no process'];
  return [size(Math.max(...processes.map(p => p.usage.rss))), processes.length === 1 ? 'as it exited' : 'the largest of ' + counted(processes.length, 'process')];
}

function tiles() {
  const r = summary.report, sum = k => summary.totals.find(t => t.kind === k);
  const heap = k => r.processes.reduce((n, p) => n + p.heap[k], 0);
  const one = (title, figure, more, go, bad) => el(go ? 'button' : 'div', { class: 'tile' + (bad ? ' bad' : ''), type: go ? 'button' : undefined, onclick: go }, el('span', { class: 'soft', text: title }), el('b', { text: figure }), el('span', { class: 'soft', text: more }));
  const kind = k => () => write({ tab: 'flame', kind: k, fn: null, fnm: null, zoom: null });
  const verdicts = summary.leaks.filter(l => ['definite', 'indirect', 'possible'].includes(l.kind)), bytes = verdicts.reduce((n, l) => n + l.bytes, 0);
  const growing = summary.leaks.filter(l => ['growing', 'old'].includes(l.kind)).reduce((n, l) => n + l.sites, 0);
  const checked = r.processes.some(p => p.leak_check);
  byId('tiles').replaceChildren(
    one('RSS', ...rss(r.processes)),
    one('Live heap', size(heap('live_bytes')), counted(heap('live_count'), 'block'), kind('live')),
    one('Peak', size(heap('peak_bytes')), r.processes.length === 1 ? 'after ' + time(r.processes[0].heap.peak_at_ns) : 'of each process', kind('peak')),
    one('Allocated', size(heap('alloc_bytes')), counted(heap('alloc_count'), 'call'), kind('allocated')),
    one('Resident heap', size(sum('resident').bytes), size(sum('untouched').bytes) + ' untouched', kind('resident')),
    one('Leaked', checked ? size(bytes) : '–', checked ? verdicts.filter(l => l.count).map(l => thousands(l.count) + ' ' + l.kind).join(', ') : 'not checked', () => write({ tab: 'leaks' }), bytes > 0),
    one('Candidates', thousands(growing), 'growing or old sites', () => write({ tab: 'leaks' })),
    one('Lost', r.events.lost ? thousands(r.events.lost) : 'nothing', r.events.lost ? 'events' : unprobed(r) ? 'without probes for ' + time(unprobed(r)) : r.sampling ? 'sampled: estimates' : 'every block seen', () => write({ tab: 'notes' }), r.events.lost > 0));
  options(byId('pid'), [['', 'all'], ...r.processes.map(p => [p.pid, `${p.comm} (${p.pid})`])], state.pid || '');
  byId('pidLabel').hidden = r.processes.length < 2 && !state.pid;
}

// unprobed is for how long the allocator had no probes, to keep within --max-overhead.
const unprobed = r => (r.overhead?.none_ns || 0) + (r.overhead?.paused_ns || 0);

function notes(view) {
  const r = summary.report, f = file();
  const rows = [['File', f.name], ['memtrace', files.version], ['Host', f.host], ['Kernel', f.kernel], ['Command line', f.command?.join(' ')], ['Window', time(r.window_ns)],
    ['Attached by', r.tracer.attach], ['Stacks by', r.tracer.unwind], ['Events lost', r.events.lost ? thousands(r.events.lost) : 'nothing lost'], ['Call sites', thousands(summary.sites)],
    ['Sampling', r.sampling ? 'by ' + r.sampling.intervals.map(size).join(', ') + ': figures are estimates' : unprobed(r) ? 'none: every block was seen while there were probes' : 'none: every block was seen'],
    ['Without probes', unprobed(r) ? `${time(unprobed(r))} (mode none ${time(r.overhead.none_ns)}, paused ${time(r.overhead.paused_ns)}): no block from before the last such time is known` : ''],
    ['First touched then', r.first_touched ? `${size(r.first_touched.touched_bytes)}, of which ${size(r.first_touched.bytes)} are still there: memtrace report names the sites` : '']];
  const said = [...(f.note ? [f.note] : []), ...r.warnings, ...(r.notes || [])];
  view.replaceChildren(el('table', { class: 'facts' }, el('tbody', {}, ...rows.filter(x => x[1]).map(([k, v]) => el('tr', {}, el('th', { scope: 'row', text: k }), el('td', { class: 'name', text: v }))))),
    el('h2', { text: said.length ? 'What to know of the figures' : 'Nothing else is to be known of the figures.' }), el('ul', {}, ...said.map(t => el('li', { text: t }))));
}

function chips() {
  const one = (text, change) => el('button', { type: 'button', class: 'chip', text: text + ' ×', title: 'Take this back', onclick: () => write(change) });
  const out = [];
  if (state.tab === 'flame') {
    if (state.zoom) out.push(one('zoomed', { zoom: null }));
    if (state.fn) out.push(one('callers and callees of ' + state.fn, { fn: null, fnm: null }));
    if (state.focus) out.push(one('only ' + state.focus, { focus: null }));
    if (state.hide) out.push(one('without ' + state.hide, { hide: null }));
  }
  byId('chips').replaceChildren(...out);
}

function controls() {
  for (const e of document.querySelectorAll('[data-for]')) e.hidden = !e.dataset.for.split(' ').includes(state.tab);
  for (const b of document.querySelectorAll('[role=tab]')) b.setAttribute('aria-selected', b.dataset.tab === state.tab);
  byId('view').setAttribute('aria-labelledby', 'tab-' + state.tab);
  byId('inverted').checked = Boolean(state.inverted);
  for (const key of ['find', 'filter']) if (document.activeElement !== byId(key)) byId(key).value = state[key] || '';
  about();
  chips();
}

// base of a comparison: another file, or another time.
function compared() {
  if (!state.base) return {};
  if (state.base.startsWith('f')) return { base: state.base.slice(1) };
  return { base: state.f, base_at: { start: 0, from: state.from, end: '' }[state.base] };
}

async function view(signal) {
  const panel = byId('view'), tab = state.tab, f = file();
  panel.classList.add('stale');
  byId('problem').hidden = true;
  byId('filter').removeAttribute('aria-invalid');
  let command = '';
  if (tab === 'flame') {
    const find = state.find || '';
    const doc = await ask('flame', { ...where(), kind: state.kind, inverted: state.inverted, focus: state.focus, hide: state.hide, find: state.find, zoom: state.zoom, fn: state.fn, fnm: state.fnm, filter: state.base ? '' : state.filter, ...compared() }, signal);
    options(byId('kind'), doc.kinds.map(k => [k, KINDS[k] || k]), doc.kind);
    flame.show(doc, panel, find);
    command = doc.command;
  } else if (tab === 'table') {
    const doc = await ask('table', tables.params(), signal);
    options(byId('by'), doc.groupings.map(g => [g, g === 'none' ? 'single blocks' : g.replace('_', ' ')]), doc.by);
    tables.show(doc, panel, f.recording);
    command = doc.command;
  } else if (tab === 'leaks') {
    const doc = await ask('leaks', { ...where(), find: state.find }, signal);
    leaks.show(doc, panel, f.recording);
    command = doc.command;
  } else {
    notes(panel);
  }
  panel.classList.remove('stale');
  byId('command').replaceChildren(...(command ? ['The same figures: ', el('code', { text: command })] : []));
  document.body.dataset.ready = String(Number(document.body.dataset.ready || 0) + 1);
}

async function sum(signal) {
  summary = await ask('view', where(), signal);
  tiles();
  timeline.setSpans(summary.report);
  if (state.tab === 'notes') notes(byId('view'));
}

// change shows what has changed; null: anything may have.
function change(keys) {
  const has = (...names) => keys === null || names.some(n => keys.includes(n));
  byId('error').hidden = true;
  controls();
  const time = has('f', 'at', 'from', 'to');
  const first = time ? part('sum', sum).catch(fail) : Promise.resolve();
  if (time || has('pid', 'tfrom', 'tto')) timeline.load(file()).catch(fail);
  if (keys !== null && keys.every(k => ['pid', 'tfrom', 'tto'].includes(k))) return;
  first.then(() => part('view', view)).catch(problem);
}

function theme(next) {
  const now = document.documentElement.dataset.theme || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
  const want = next ? (now === 'dark' ? 'light' : 'dark') : localStorage.getItem('memtrace-theme');
  if (want) document.documentElement.dataset.theme = want;
  if (next) localStorage.setItem('memtrace-theme', want);
}

function help() {
  byId('keys').querySelector('table').replaceChildren(...KEYS.map(([k, text]) => el('tr', {}, el('td', {}, el('kbd', { text: k })), el('td', { class: 'name', text }))));
  byId('keys').showModal();
}

function undo() {
  if (state.tab === 'flame' && state.zoom) write({ zoom: null });
  else if (state.tab === 'flame' && state.fn) write({ fn: null, fnm: null });
  else if (state.find) write({ find: null });
  else if (state.at !== undefined || state.from !== undefined) timeline.clearSelection();
}

function pressed(e) {
  if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || byId('keys').open) return;
  const field = ['INPUT', 'SELECT', 'TEXTAREA'].includes(e.target.tagName) && e.target.type !== 'checkbox';
  if (e.key === 'Escape') {
    if (field) e.target.blur();
    else undo();
    return;
  }
  if (field) return;
  const go = {
    1: () => write({ tab: 'flame' }), 2: () => write({ tab: 'table' }), 3: () => write({ tab: 'leaks' }), 4: () => write({ tab: 'notes' }),
    '/': () => byId('find').focus(), e: () => byId('filter').focus(), i: () => write({ inverted: state.inverted ? null : '1', zoom: null }), n: () => flame.next(1), N: () => flame.next(-1),
    t: () => byId('chart').focus(), z: () => timeline.zoom(true), Z: () => timeline.zoom(false), g: () => document.querySelector('.flame')?.focus(), d: () => theme(true), '?': help,
  }[e.key];
  if (!go) return;
  e.preventDefault();
  go();
}

function listen() {
  for (const b of document.querySelectorAll('[role=tab]')) b.addEventListener('click', () => write({ tab: b.dataset.tab }));
  byId('file').addEventListener('change', e => write({ f: e.target.value, at: null, from: null, to: null, tfrom: null, tto: null, pid: null, zoom: null, base: null }));
  byId('kind').addEventListener('change', e => write({ kind: e.target.value, zoom: null }));
  byId('base').addEventListener('change', e => write({ base: e.target.value, zoom: null }));
  byId('by').addEventListener('change', e => write({ by: e.target.value, sort: null, up: null }));
  byId('inverted').addEventListener('change', e => write({ inverted: e.target.checked ? '1' : null, zoom: null }));
  let timer = 0;
  const find = () => {
    clearTimeout(timer);
    if (byId('find').value !== (state.find || '')) write({ find: byId('find').value }, true);
  };
  byId('find').addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(find, 150); });
  byId('find').addEventListener('keydown', e => { if (e.key === 'Enter') { e.preventDefault(); find(); flame.next(e.shiftKey ? -1 : 1); } });
  byId('filter').addEventListener('change', e => write({ filter: e.target.value.trim(), zoom: null }));
  byId('prev').addEventListener('click', () => flame.next(-1));
  byId('next').addEventListener('click', () => flame.next(1));
  byId('theme').addEventListener('click', () => theme(true));
  byId('help').addEventListener('click', help);
  byId('skip').addEventListener('click', e => { e.preventDefault(); byId('main').focus(); });
  document.addEventListener('keydown', pressed);
  let wide = innerWidth;
  addEventListener('resize', () => {
    if (innerWidth === wide) return;
    wide = innerWidth;
    timeline.draw();
    if (state.tab === 'flame') flame.redraw(byId('view'));
  });
  onProgress(done => {
    byId('progress').hidden = !done.length;
    if (!done.length) return;
    const least = Math.min(...done);
    byId('progress').querySelector('span').textContent = `reading the recording: ${Math.floor(100 * least)} %`;
    byId('progress').querySelector('progress').value = least;
  });
}

async function start() {
  theme(false);
  if (new URLSearchParams(location.search).has('token')) history.replaceState(null, '', location.pathname + location.hash); // the cookie stands for it now
  timeline.start();
  listen();
  onChange(change);
  files = await ask('files', {}, new AbortController().signal);
  byId('fields').replaceChildren(...files.fields.map(f => el('option', { value: f.Name, text: f.Text })));
  change(null);
}

start().catch(fail);
