'use strict';
// Names come from the processes that were measured: they are put into the page
// as text (textContent, title) and never as markup.
const doc = JSON.parse(document.getElementById('data').textContent);
const byId = id => document.getElementById(id);
const ROW = 19, LEAST = 1, MOST_ROWS = 200;
const state = { kind: 0, inverted: doc.inverted, word: '', zoom: [], sort: 'own' };
let tree = null;

const text = i => doc.strings[i];
const name = frame => frame < 0 ? 'all' : text(doc.frames[frame][0]);
const module_ = frame => frame < 0 ? '' : text(doc.frames[frame][1]);
const base = path => path.replace(/^.*\/(?=.)/, '');
const thousands = n => n.toLocaleString('en-US', { maximumFractionDigits: 0 });
const share = (n, whole) => whole ? (100 * n / whole).toFixed(1) : '0.0';

function size(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return (i === 0 || n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2)) + ' ' + units[i];
}

const kind = () => doc.kinds[state.kind];
const counted = (n, what) => thousands(n) + ' ' + what + (n === 1 ? '' : 's');
const amount = n => kind().count ? counted(n, kind().what) : size(n);
const describe = n => amount(n.sum) + (!kind().count && n.count ? ' in ' + counted(n.count, kind().what) : '');

function element(tag, className, content) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (content !== undefined) e.textContent = content;
  return e;
}

// build makes the tree of the kind that is shown.
function build() {
  const root = { frame: -1, sum: 0, count: 0, own: 0, ownCount: 0, children: new Map(), depth: 0 };
  for (const s of doc.stacks) {
    const count = s.c[state.kind], sum = kind().count ? count : s.b[state.kind];
    if (!sum) continue;
    const path = state.inverted ? [...s.f].reverse() : s.f;
    let at = root;
    at.sum += sum;
    at.count += count;
    for (const frame of path) {
      let next = at.children.get(frame);
      if (!next) at.children.set(frame, next = { frame, sum: 0, count: 0, own: 0, ownCount: 0, children: new Map(), depth: at.depth + 1, parent: at });
      at = next;
      at.sum += sum;
      at.count += count;
    }
    at.own += sum;
  }
  const sort = n => {
    n.list = [...n.children.values()].sort((a, b) => name(a.frame) < name(b.frame) ? -1 : 1);
    n.list.forEach(sort);
  };
  sort(root);
  return root;
}

// focus is the node that is as wide as the picture.
function focus() {
  let at = tree;
  for (const frame of state.zoom) {
    if (!at.children.has(frame)) break;
    at = at.children.get(frame);
  }
  return at;
}

const matches = frame => state.word !== '' && name(frame).toLowerCase().includes(state.word.toLowerCase());

function draw() {
  const flame = byId('flame'), width = flame.clientWidth || 1200, top = focus();
  const parts = document.createDocumentFragment();
  let rows = 0;
  const put = (n, x, w, above) => {
    rows = Math.max(rows, n.depth + 1);
    const e = element('div', 'f c' + (n.frame < 0 ? 0 : doc.frames[n.frame][3]) + (above ? ' above' : '') + (matches(n.frame) ? ' hit' : '') + (w < 10 ? ' thin' : ''), w < 24 ? '' : name(n.frame));
    e.style.left = x + 'px';
    e.style.width = w + 'px';
    e.style.top = n.depth * ROW + 'px';
    e.title = [name(n.frame), describe(n) + ', ' + share(n.sum, tree.sum) + ' %', module_(n.frame)].filter(Boolean).join('\n');
    e.node = n;
    parts.append(e);
  };
  for (let n = top.parent; n; n = n.parent) put(n, 0, width, true);
  const below = (n, x, w) => {
    put(n, x, w, false);
    for (const c of n.list) {
      const cw = w * c.sum / n.sum;
      if (cw >= LEAST) below(c, x, cw);
      x += cw;
    }
  };
  below(top, 0, width);
  flame.replaceChildren(parts);
  flame.style.height = rows * ROW + 'px';
}

// functions sums up by function: what it has itself, and what it and its callees have.
function functions() {
  const out = new Map();
  const walk = (n, within) => {
    let added = false;
    if (n.frame >= 0) {
      let f = out.get(n.frame);
      if (!f) out.set(n.frame, f = { frame: n.frame, own: 0, sum: 0, count: 0 });
      if (!within.has(n.frame)) { // recursion counts once
        f.sum += n.sum;
        f.count += n.count;
        within.add(n.frame);
        added = true;
      }
      if (!state.inverted) f.own += n.own;
      else if (n.depth === 1) f.own += n.sum;
    }
    n.list.forEach(c => walk(c, within));
    if (added) within.delete(n.frame);
  };
  walk(tree, new Set());
  return [...out.values()];
}

function table() {
  const order = {
    own: (a, b) => b.own - a.own || b.sum - a.sum, sum: (a, b) => b.sum - a.sum || b.own - a.own, count: (a, b) => b.count - a.count,
    name: (a, b) => name(a.frame) < name(b.frame) ? -1 : 1, module: (a, b) => module_(a.frame) < module_(b.frame) ? -1 : 1,
  };
  const all = functions().filter(f => state.word === '' || matches(f.frame)).sort(order[state.sort]);
  const rows = all.slice(0, MOST_ROWS).map(f => {
    const row = element('tr'), where = text(doc.frames[f.frame][2]), file = module_(f.frame);
    for (const cell of [amount(f.own), share(f.own, tree.sum), amount(f.sum), share(f.sum, tree.sum), f.count ? thousands(f.count) : '']) row.append(element('td', '', cell));
    const named = element('td', 'name', name(f.frame)), placed = element('td', 'name', where || file);
    named.title = name(f.frame);
    placed.title = file;
    row.append(named, placed);
    row.addEventListener('click', () => { byId('search').value = state.word = name(f.frame); show(); });
    return row;
  });
  byId('rows').replaceChildren(...rows);
  byId('more').textContent = all.length > rows.length ? thousands(all.length - rows.length) + ' more functions: search for them' : '';
  byId('countHead').textContent = kind().what[0].toUpperCase() + kind().what.slice(1) + 's';
}

// found is what the frames that were found hold; those within others count once.
function found() {
  let sum = 0, hits = 0;
  const walk = (n, within) => {
    const hit = matches(n.frame);
    if (hit) hits++;
    if (hit && !within) sum += n.sum;
    n.list.forEach(c => walk(c, within || hit));
  };
  walk(tree, false);
  return counted(hits, 'frame') + ' found: ' + amount(sum) + ', ' + share(sum, tree.sum) + ' %';
}

function legend() {
  const seen = new Map();
  for (const f of doc.frames) if (f[3] && !seen.has(f[3])) seen.set(f[3], text(f[1]));
  byId('legend').replaceChildren(...[...seen].sort((a, b) => a[0] - b[0]).map(([color, path]) => {
    const e = element('span', '', base(path));
    e.title = path;
    e.prepend(element('i', 'c' + color));
    return e;
  }));
}

function show() {
  tree = build();
  byId('sum').textContent = state.word ? found() : kind().title + ': ' + describe(tree);
  byId('inverted').checked = state.inverted;
  byId('kind').value = state.kind;
  draw();
  table();
  const at = new URLSearchParams({ kind: kind().kind });
  if (state.inverted) at.set('i', '1');
  if (state.word) at.set('q', state.word);
  history.replaceState(null, '', '#' + at);
}

function reset() {
  if (state.word) byId('search').value = state.word = '';
  else state.zoom = [];
  show();
}

function start() {
  document.title = 'memtrace: ' + doc.title;
  byId('title').textContent = doc.title;
  byId('subtitle').textContent = doc.subtitle;
  doc.kinds.forEach((k, i) => {
    const o = element('option', '', k.title);
    o.value = i;
    byId('kind').append(o);
    if (k.kind === doc.kind) state.kind = i;
  });
  const at = new URLSearchParams(location.hash.slice(1));
  const wanted = doc.kinds.findIndex(k => k.kind === at.get('kind'));
  if (wanted >= 0) state.kind = wanted;
  if (at.has('i')) state.inverted = at.get('i') !== '0';
  byId('search').value = state.word = at.get('q') || '';
  byId('kind').addEventListener('change', e => { state.kind = +e.target.value; show(); });
  byId('inverted').addEventListener('change', e => { state.inverted = e.target.checked; state.zoom = []; show(); });
  byId('search').addEventListener('input', e => { state.word = e.target.value; show(); });
  byId('reset').addEventListener('click', () => { state.zoom = []; show(); });
  byId('flame').addEventListener('click', e => {
    if (!e.target.node) return;
    state.zoom = [];
    for (let n = e.target.node; n.parent; n = n.parent) state.zoom.unshift(n.frame);
    show();
  });
  byId('flame').addEventListener('mouseover', e => { byId('now').textContent = e.target.title || ''; });
  for (const th of document.querySelectorAll('th')) {
    th.addEventListener('click', () => { state.sort = th.dataset.key.replace('Share', ''); table(); });
  }
  window.addEventListener('resize', draw);
  document.addEventListener('keydown', e => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === 'Escape') { byId('search').blur(); reset(); return; }
    if (e.target.tagName === 'INPUT' && e.target.type === 'search') return;
    if (e.key === '/') { e.preventDefault(); byId('search').focus(); } else if (e.key === 'i') { state.inverted = !state.inverted; state.zoom = []; show(); }
  });
  legend();
  show();
}

start();
