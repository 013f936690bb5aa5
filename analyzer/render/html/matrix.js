'use strict';
// Names come from the processes that were measured: they are put into the page
// as text (textContent, title) and never as markup.
// What is not text, such as a character that turns the direction of writing, is shown by its number.
const visible = text => text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, c => '\\u' + c.codePointAt(0).toString(16).padStart(4, '0'));
const doc = JSON.parse(document.getElementById('data').textContent, (key, value) => typeof value === 'string' ? visible(value) : value);
const byId = id => document.getElementById(id);
const state = { figure: 'pss', group: 'process', filter: '', zoom: null };

function size(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (Math.round(n) >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return (i === 0 || n >= 99.95 ? n.toFixed(0) : n >= 9.995 ? n.toFixed(1) : n.toFixed(2)) + ' ' + units[i];
}

function element(tag, className, text) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
}

const base = name => name.replace(/ \(deleted\)$/, '').replace(/^.*\/(?=.)/, '');

// groups makes the two levels of the map: processes with their components, or
// components with their processes.
function groups() {
  const out = new Map();
  for (const p of doc.processes) {
    const who = p.comm + ' (' + p.pid + ')';
    for (const c of p.components) {
      const value = c[state.figure];
      if (!value) continue;
      const [key, name, leaf] = state.group === 'process'
        ? [p.pid, who, { name: base(c.name), long: who + ' · ' + c.name, kind: c.kind, value }]
        : [c.kind + ' ' + c.name + ' ' + (c.device || 0) + ' ' + (c.inode || 0), c.name, { name: who, long: c.name + ' · ' + who, kind: c.kind, value }];
      let g = out.get(key);
      if (!g) out.set(key, g = { key, name, value: 0, leaves: [], kind: c.kind });
      g.value += value;
      g.leaves.push(leaf);
    }
  }
  const wanted = state.filter.toLowerCase();
  return [...out.values()].filter(g => g.name.toLowerCase().includes(wanted)).sort((a, b) => b.value - a.value);
}

// squarify lays items, sorted by value, into a rectangle so that each is as
// near to a square as it gets (Bruls, Huizing and van Wijk, 2000).
function squarify(items, x, y, w, h, place) {
  let total = items.reduce((sum, item) => sum + item.value, 0);
  let i = 0;
  while (i < items.length && w >= 1 && h >= 1 && total > 0) {
    const side = Math.min(w, h), scale = w * h / total;
    let row = 0, sum = 0, worst = Infinity;
    while (i + row < items.length) {
      const next = sum + items[i + row].value, thick = next * scale / side;
      const first = items[i].value * scale / thick, last = items[i + row].value * scale / thick;
      const ratio = Math.max(thick / last, first / thick, last / thick, thick / first);
      if (ratio > worst) break;
      worst = ratio; sum = next; row++;
    }
    const thick = sum * scale / side;
    let at = 0;
    for (const end = i + row; i < end; i++) {
      const length = items[i].value * scale / thick;
      if (w >= h) place(items[i], x, y + at, thick, length); else place(items[i], x + at, y, length, thick);
      at += length;
    }
    if (w >= h) { x += thick; w -= thick; } else { y += thick; h -= thick; }
    total -= sum;
  }
}

function tile(className, text, title, x, y, w, h) {
  const e = element('div', 'tile ' + className, w > 24 && h > 11 ? text : '');
  e.title = title;
  Object.assign(e.style, { left: x + 'px', top: y + 'px', width: w + 'px', height: h + 'px' });
  e.addEventListener('mouseenter', () => { byId('where').textContent = title; });
  return e;
}

const caption = 15; // pixels of a group's title

function drawGroup(map, g, x, y, w, h) {
  if (w < 2 || h < 2) return;
  const box = tile('group', g.name + '  ' + size(g.value), g.name + ': ' + size(g.value), x, y, w, h);
  box.tabIndex = 0;
  const zoom = () => { state.zoom = state.zoom === g.key ? null : g.key; draw(); };
  box.addEventListener('click', zoom);
  box.addEventListener('keydown', e => { if (e.key === 'Enter') zoom(); });
  map.append(box);
  if (w < 8 || h < caption + 6) return;
  g.leaves.sort((a, b) => b.value - a.value);
  squarify(g.leaves, x + 1, y + caption, w - 2, h - caption - 1, (leaf, x, y, w, h) => {
    if (w < 2 || h < 2) return;
    const e = tile('leaf ' + leaf.kind, leaf.name, leaf.long + ' (' + leaf.kind + '): ' + size(leaf.value), x, y, w, h);
    e.addEventListener('click', zoom);
    map.append(e);
  });
}

function draw() {
  const map = byId('map');
  map.replaceChildren();
  let list = groups();
  if (state.zoom !== null && list.some(g => g.key === state.zoom)) list = list.filter(g => g.key === state.zoom);
  byId('sum').textContent = size(list.reduce((sum, g) => sum + g.value, 0)) + ' in ' + list.length + (state.group === 'process' ? ' processes' : ' components');
  squarify(list, 0, 0, map.clientWidth, map.clientHeight, (g, x, y, w, h) => drawGroup(map, g, x, y, w, h));
}

function table() {
  const rows = byId('rows');
  for (const p of doc.processes) {
    const tr = element('tr');
    tr.append(element('td', '', p.pid), element('td', 'name', p.comm), element('td', 'name', p.user));
    for (const figure of ['uss', 'pss', 'rss', 'swap']) {
      tr.append(element('td', '', p[figure] === null ? '?' : size(p[figure])));
    }
    tr.append(element('td', 'name', p.unavailable ? p.unavailable : p.cmdline === null ? '?' : p.cmdline));
    rows.append(tr);
  }
}

function start() {
  byId('title').textContent = 'Memory of ' + doc.host;
  byId('when').textContent = doc.taken_at.replace(/\.\d+Z$/, 'Z') + ', taken in ' + (doc.took_ns / 1e6).toFixed(1) + ' ms, ' + doc.processes.length +
    ' processes, Linux ' + doc.kernel + (doc.estimated ? '; PSS and USS are estimates of this kernel' : '');
  const unread = doc.processes.filter(p => p.unavailable).length;
  byId('unread').textContent = unread ? unread + (unread === 1 ? ' process' : ' processes') + ' could not be read, and no sum has them.' : '';
  for (const kind of ['file', 'anon', 'heap', 'stack', 'shmem', 'other']) {
    const item = element('span', '', '');
    item.append(element('i', kind), kind);
    byId('legend').append(item);
  }
  for (const name of ['figure', 'group']) {
    byId(name).addEventListener('change', e => { state[name] = e.target.value; state.zoom = null; draw(); });
  }
  byId('filter').addEventListener('input', e => { state.filter = e.target.value; draw(); });
  byId('all').addEventListener('click', () => { state.zoom = null; state.filter = byId('filter').value = ''; draw(); });
  addEventListener('resize', draw);
  table();
  draw();
}
start();
