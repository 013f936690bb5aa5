import { byId, clock, counted, el, size, svg, thousands, ask } from './util.js';
import { state, write } from './state.js';

const TOP = 14, MAIN = 150, GAP = 16, RATE = 44, AXIS = 18, LEFT = 64, RIGHT = 8;
const HEIGHT = TOP + MAIN + GAP + RATE + AXIS;
const TITLES = {
  heap_live: 'live heap', heap_overhead: 'heap overhead', heap_before_attach: 'heap from before', anon_mmap: 'anonymous mappings',
  file: 'files', stack: 'stacks', shmem: 'shared memory', other: 'other',
};
let doc = null, spans = [], end = 0, width = 0, dragging = null, asking = null, shown = '';

const scale = () => (width - LEFT - RIGHT) / (doc.to_ns - doc.from_ns);
const x = ns => LEFT + (ns - doc.from_ns) * scale();
const clamp = (n, low, high) => Math.min(Math.max(n, low), high);
const timeAt = px => Math.round(clamp(doc.from_ns + (px - LEFT) / scale(), doc.from_ns, doc.to_ns));

export async function load(file) {
  byId('course').hidden = !file.recording;
  if (!file.recording) return;
  end = file.end_ns;
  const params = { file: state.f, from: state.tfrom, to: state.tto, pid: state.pid, steps: clamp(Math.round((byId('chart').clientWidth - LEFT) / 1.5), 100, 1500) };
  const key = JSON.stringify([params.file, params.from, params.to, params.pid]);
  if (key === shown) { mark(); return; }
  asking?.abort();
  asking = new AbortController();
  try {
    doc = await ask('timeline', params, asking.signal);
    shown = key;
    draw();
  } catch (e) {
    if (e.name === 'AbortError') return;
    byId('chart').replaceChildren(el('p', { class: 'empty', text: e.message }));
  }
}

// setSpans tells of the times in which the trace sampled or paused.
export function setSpans(report) {
  spans = [...(report.overhead?.spans || []), ...(report.pressure?.spans || [])].filter(s => s.mode !== 'full');
  if (doc) draw();
}

function nice(most, steps) {
  const unit = 2 ** (10 * Math.floor(Math.log2(Math.max(most, 1)) / 10));
  for (const m of [1, 2, 5, 10, 20, 50, 100, 200, 500]) if (most / (m * unit) <= steps) return m * unit;
  return 1024 * unit;
}

function niceTime(span, steps) {
  const unit = 10 ** Math.floor(Math.log10(span / steps));
  return [1, 2, 5, 10].map(m => m * unit).find(s => span / s <= steps);
}

const areas = (at, low, high) => 'M' + at.map((a, i) => a.toFixed(1) + ',' + high[i].toFixed(1)).join('L') + 'L' + [...at.keys()].reverse().map(i => at[i].toFixed(1) + ',' + low[i].toFixed(1)).join('L') + 'Z';

export function draw() {
  if (!doc) return;
  const chart = byId('chart');
  width = Math.max(chart.clientWidth, 240);
  const most = Math.max(1, ...doc.samples.map(s => s.rss), ...doc.steps.map(s => s.live_bytes)) * 1.04;
  const y = v => TOP + MAIN - v / most * MAIN;
  const picture = svg('svg', { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, 'aria-hidden': 'true' });
  picture.append(svg('defs', {}, svg('pattern', { id: 'hatch', width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' }, svg('rect', { width: 2, height: 6, class: 'hatch' }))));
  const step = nice(most, 4);
  for (let v = 0; v <= most; v += step) {
    picture.append(svg('line', { x1: LEFT, x2: width - RIGHT, y1: y(v), y2: y(v), class: 'grid' }), svg('text', { x: LEFT - 6, y: y(v) + 4, class: 'tick end', text: v ? size(v) : '0' }));
  }
  stacked(picture, y);
  if (doc.steps.length) {
    picture.append(svg('path', { class: 'live', d: 'M' + doc.steps.map(s => x(Math.min(s.from_ns + doc.step_ns, doc.to_ns)).toFixed(1) + ',' + y(s.live_bytes).toFixed(1)).join('L') }));
  }
  rates(picture);
  bands(picture);
  const tick = niceTime(doc.to_ns - doc.from_ns, Math.max(3, Math.floor((width - LEFT) / 110)));
  for (let t = Math.ceil(doc.from_ns / tick) * tick; t <= doc.to_ns; t += tick) {
    picture.append(svg('line', { x1: x(t), x2: x(t), y1: HEIGHT - AXIS, y2: HEIGHT - AXIS + 4, class: 'axis' }), svg('text', { x: x(t), y: HEIGHT - 2, class: 'tick ' + (x(t) > width - 40 ? 'end' : 'middle'), text: label(t, tick) }));
  }
  picture.append(svg('rect', { id: 'chosen', y: TOP, height: HEIGHT - TOP - AXIS }), svg('line', { id: 'cursor', y1: TOP, y2: HEIGHT - AXIS, class: 'cursor', visibility: 'hidden' }));
  chart.replaceChildren(picture);
  legend();
  table();
  mark();
}

const label = (t, tick) => (t / 1e9).toFixed(clamp(-Math.floor(Math.log10(tick / 1e9)), 0, 9)) + ' s';

function stacked(picture, y) {
  if (!doc.samples.length) {
    picture.append(svg('text', { x: LEFT + 8, y: TOP + 14, class: 'tick', text: 'no sample of its memory in this span: only the live heap is shown' }));
    return;
  }
  const at = doc.samples.map(s => x(s.at_ns));
  if (at.length === 1) at.push(at[0] + 2);
  const of = i => doc.samples.length === 1 ? [i(doc.samples[0]), i(doc.samples[0])] : doc.samples.map(i);
  let low = of(() => 0);
  doc.parts.forEach((name, i) => {
    const high = of(s => s.parts[i]).map((v, j) => v + low[j]);
    picture.append(svg('path', { class: 'part p-' + name, d: areas(at, low.map(y), high.map(y)) }));
    low = high;
  });
}

// rates draws what is allocated above the line, and what is freed below.
function rates(picture) {
  const middle = TOP + MAIN + GAP + RATE / 2, most = Math.max(1, ...doc.steps.flatMap(s => [s.born_bytes, s.ended_bytes]));
  const bar = (s, v, sign, what) => {
    const h = v / most * RATE / 2;
    if (h > 0.2) picture.append(svg('rect', { x: x(s.from_ns), width: Math.max(1, doc.step_ns * scale() - 0.5), y: sign > 0 ? middle - h : middle, height: h, class: what }));
  };
  for (const s of doc.steps) {
    bar(s, s.born_bytes, 1, 'born');
    bar(s, s.ended_bytes, -1, 'ended');
  }
  picture.append(svg('line', { x1: LEFT, x2: width - RIGHT, y1: middle, y2: middle, class: 'axis' }), svg('text', { x: LEFT - 6, y: middle + 4, class: 'tick end', text: size(most * 1e9 / doc.step_ns) + '/s' }));
}

// What was seen in the spans that are not traced in full.
const MODES = { none: 'none: the allocator had no probes, and page faults told who touched memory first', paused: 'paused: nothing was seen' };
const modeTitle = s => MODES[s.mode] || s.mode + ': one block every ' + size(s.interval) + ' was recorded';

function bands(picture) {
  const band = (from, to, what, title) => {
    if (to < doc.from_ns || from > doc.to_ns) return;
    const left = x(Math.max(from, doc.from_ns)), right = x(Math.min(to, doc.to_ns));
    picture.append(svg('rect', { x: left, width: Math.max(2, right - left), y: TOP, height: HEIGHT - TOP - AXIS, class: 'band ' + what }, svg('title', { text: title })));
  };
  for (const b of doc.bands) band(b.from_ns, b.to_ns, b.what, b.what === 'lost' ? counted(b.events, 'event') + ' of process ' + b.pid + ' lost' : 'not recorded: paused');
  for (const s of spans) band(s.from_ns, s.to_ns, s.mode, modeTitle(s));
  for (const m of doc.marks) {
    if (m.what === 'fork' && doc.marks.length > 200) continue;
    picture.append(svg('path', { d: `M${x(m.at_ns) - 4},2h8l-4,8z`, class: 'mark m-' + m.what }, svg('title', { text: clock(m.at_ns, doc.to_ns - doc.from_ns) + ': ' + m.text })));
  }
}

function legend() {
  const used = doc.parts.filter((_, i) => doc.samples.some(s => s.parts[i] > 0));
  const one = (what, text) => el('span', {}, el('i', { class: what }), text);
  const marks = [...new Set(doc.marks.map(m => m.what))].map(m => one('k-mark m-' + m, m === 'check' ? 'leak check' : m));
  byId('legend').replaceChildren(...used.map(p => one('p-' + p, TITLES[p] || p)), one('k-live', 'traced live heap'), one('k-born', 'allocated'), one('k-ended', 'freed'), ...marks,
    ...(doc.bands.length || spans.length ? [one('k-band', 'not all was seen')] : []),
    ...(doc.omitted ? [el('span', { text: counted(doc.omitted, 'mark') + ' left out: zoom in' })] : []));
}

function table() {
  const head = ['Time', 'RSS', ...doc.parts.map(p => TITLES[p] || p)];
  const rows = doc.samples.slice(0, 1500).map(s => el('tr', {}, el('td', { text: clock(s.at_ns, doc.to_ns - doc.from_ns) }), el('td', { text: size(s.rss) }), ...s.parts.map(v => el('td', { text: size(v) }))));
  byId('courseTable').replaceChildren(el('table', {}, el('thead', {}, el('tr', {}, ...head.map(h => el('th', { text: h, scope: 'col' })))), el('tbody', {}, ...rows)));
}

// mark shows what is selected.
export function mark() {
  const span = state.from !== undefined || state.to !== undefined, from = Number(state.from || 0), to = Number(state.to || end);
  byId('selection').textContent = span ? `${clock(from, to - from)} to ${clock(to, to - from)}` : state.at !== undefined ? 'at ' + clock(Number(state.at), end) : 'at the end';
  byId('at').value = span ? from / 1e9 + '-' + to / 1e9 : state.at !== undefined ? Number(state.at) / 1e9 : '';
  byId('zoomIn').disabled = !span;
  byId('zoomOut').disabled = state.tfrom === undefined && state.tto === undefined;
  byId('clear').disabled = !span && state.at === undefined;
  const chosen = byId('chosen');
  if (!doc || !chosen) return;
  const left = span ? from : Number(state.at ?? end), right = span ? to : left;
  const a = x(clamp(left, doc.from_ns, doc.to_ns)), b = x(clamp(right, doc.from_ns, doc.to_ns));
  chosen.setAttribute('x', span ? a : a - 1);
  chosen.setAttribute('width', span ? Math.max(2, b - a) : 2);
  chosen.setAttribute('class', span ? 'span' : 'instant');
}

function read(ns) {
  const step = doc.steps[clamp(Math.floor((ns - doc.from_ns) / doc.step_ns), 0, doc.steps.length - 1)];
  let sample = null;
  for (const s of doc.samples) if (s.at_ns <= ns) sample = s;
  const parts = sample ? doc.parts.map((p, i) => [TITLES[p] || p, sample.parts[i]]).filter(p => p[1]).sort((a, b) => b[1] - a[1]).slice(0, 3).map(p => p[0] + ' ' + size(p[1])) : [];
  const text = [clock(ns, doc.to_ns - doc.from_ns)];
  if (sample) text.push('RSS ' + size(sample.rss) + ' (' + parts.join(', ') + ')');
  if (step) text.push('live ' + size(step.live_bytes) + ' in ' + counted(step.live_count, 'block'), thousands(step.born_count) + ' allocated, ' + thousands(step.ended_count) + ' freed');
  const faults = doc.faults[Math.floor((ns - doc.from_ns) / doc.step_ns)];
  if (faults) text.push(counted(faults, 'fault'));
  byId('reading').textContent = text.join(' · ');
}

function select(a, b) {
  const [from, to] = a < b ? [a, b] : [b, a];
  if (to - from < 3 / scale()) write({ at: to >= end ? null : to, from: null, to: null, zoom: null });
  else write({ at: null, from, to: Math.min(to, end), zoom: null });
}

function keys(e) {
  if (!doc || e.ctrlKey || e.altKey || e.metaKey) return;
  const step = (doc.to_ns - doc.from_ns) / 100, span = state.from !== undefined, at = Number(state.at ?? state.to ?? end);
  const move = e.key === 'ArrowLeft' ? -step : e.key === 'ArrowRight' ? step : 0;
  if (move && e.shiftKey) select(span ? Number(state.from) : at, Math.round(clamp((span ? Number(state.to) : at) + move, 0, end)));
  else if (move) select(...Array(2).fill(Math.round(clamp(at + move, 0, end))));
  else if (e.key === 'Home') select(0, 0);
  else if (e.key === 'End') write({ at: null, from: null, to: null });
  else return;
  e.preventDefault();
  read(Number(state.at ?? state.to ?? end));
}

// typed reads a time or a span as a person writes it, in seconds.
function typed(text) {
  const m = /^\s*(\d+(?:\.\d+)?)\s*s?\s*(?:(?:-|–|\.\.|to)\s*(\d+(?:\.\d+)?)\s*s?)?\s*$/.exec(text);
  const ns = s => Math.round(clamp(Number(s) * 1e9, 0, end));
  if (text.trim() === '' || text.trim() === 'end') write({ at: null, from: null, to: null });
  else if (m && m[2] !== undefined && ns(m[1]) < ns(m[2])) write({ at: null, from: ns(m[1]), to: ns(m[2]) });
  else if (m && m[2] === undefined) write({ at: ns(m[1]), from: null, to: null });
  else mark();
}

export function zoom(into) {
  if (into && state.from !== undefined) write({ tfrom: state.from, tto: state.to });
  else if (!into) write({ tfrom: null, tto: null });
}

export const clearSelection = () => write({ at: null, from: null, to: null, zoom: null });

export function start() {
  const chart = byId('chart');
  const px = e => e.clientX - chart.getBoundingClientRect().left;
  chart.addEventListener('pointerdown', e => {
    if (!doc || e.button !== 0) return;
    dragging = timeAt(px(e));
    chart.setPointerCapture(e.pointerId);
  });
  chart.addEventListener('pointermove', e => {
    if (!doc || !byId('cursor')) return;
    const t = timeAt(px(e)), cursor = byId('cursor');
    cursor.setAttribute('x1', x(t));
    cursor.setAttribute('x2', x(t));
    cursor.setAttribute('visibility', 'visible');
    read(t);
    if (dragging === null) return;
    const chosen = byId('chosen');
    chosen.setAttribute('class', 'span');
    chosen.setAttribute('x', Math.min(x(dragging), x(t)));
    chosen.setAttribute('width', Math.abs(x(dragging) - x(t)));
  });
  chart.addEventListener('pointerup', e => {
    if (dragging === null) return;
    const from = dragging;
    dragging = null;
    select(from, timeAt(px(e)));
  });
  chart.addEventListener('pointercancel', () => { dragging = null; mark(); });
  chart.addEventListener('pointerleave', () => byId('cursor')?.setAttribute('visibility', 'hidden'));
  chart.addEventListener('keydown', keys);
  byId('at').addEventListener('change', e => typed(e.target.value));
  byId('zoomIn').addEventListener('click', () => zoom(true));
  byId('zoomOut').addEventListener('click', () => zoom(false));
  byId('clear').addEventListener('click', clearSelection);
  byId('pid').addEventListener('change', e => write({ pid: e.target.value }));
}
