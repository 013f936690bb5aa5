import { base, byId, copy, counted, el, figure, share, stackText } from './util.js';
import { state, write } from './state.js';

const ROW = 20;
let doc = null, nodes = [], selected = null;
let drawn = ''; // which way round, and of which function
let found = ''; // what was looked for in doc
let wanted = 0; // the step among the hits to be made once those of what is typed are here

const amount = n => doc.unit === 'bytes' ? figure(n, 'bytes') : counted(n, doc.thing);
const describe = n => doc.diff ? change(n) : amount(n.v) + (doc.unit === 'bytes' && n.c ? ' in ' + counted(n.c, doc.thing) : '');
const change = n => [n.g ? '+' + amount(n.g) : '', n.k ? '−' + amount(n.k) : ''].filter(Boolean).join(', ') || 'no change';

// colours of modules: the same for a module in every picture.
function colour(module) {
  if (!module) return 0;
  let h = 0;
  for (const c of base(module).replace(/[-.\d].*$/, '')) h = (h * 31 + c.codePointAt(0)) >>> 0;
  return 1 + h % 8;
}

function diffClass(n) {
  const sum = (n.g || 0) - (n.k || 0), part = n.v ? Math.abs(sum) / n.v : 0;
  return sum === 0 ? 'd0' : (sum > 0 ? 'up' : 'down') + (part > 0.66 ? 3 : part > 0.33 ? 2 : 1);
}

// layout gives nodes their places, as shares of the picture.
function layout(picture) {
  const out = [], open = [];
  let above = picture.zoomed !== '';
  for (const n of picture.nodes) {
    while (open.length && open[open.length - 1].d >= n.d) open.pop();
    const parent = open[open.length - 1];
    const one = { ...n, parent, children: [], used: 0 };
    if (picture.zoomed !== '' && n.id === picture.zoomed) above = false;
    one.above = above;
    one.start = 0;
    one.width = 1;
    if (parent && !above && (picture.zoomed === '' || n.id !== picture.zoomed)) {
      one.start = parent.start + parent.used;
      one.width = parent.v ? parent.width * n.v / parent.v : 0;
      parent.used += one.width;
    }
    if (parent) parent.children.push(one);
    open.push(one);
    out.push(one);
  }
  return out;
}

function paint(picture, upwards, title) {
  const all = layout(picture), deepest = Math.max(...all.map(n => n.d));
  const box = el('div', { class: 'flame', tabindex: '0', role: 'group', 'aria-label': title + ': arrow keys move, Enter zooms, c copies the stack, s shows callers and callees' });
  box.style.height = (deepest + 1) * ROW + 'px';
  const width = byId('view').clientWidth;
  for (const n of all) {
    const px = n.width * width;
    const e = el('div', {
      class: ['f', doc.diff ? diffClass(n) : n.id === '' ? 'rest' : 'c' + colour(n.m), n.above ? 'above' : '', n.h ? 'hit' : '', n.i ? 'inlined' : '', px < 8 ? 'thin' : ''].filter(Boolean).join(' '),
      text: px < 28 ? '' : (n.i ? '↳ ' : '') + n.n,
      title: [n.n + (n.i ? ' (inlined)' : ''), describe(n) + (doc.diff ? '' : ', ' + share(n.v, picture.value)), n.s || n.m].filter(Boolean).join('\n'),
    });
    e.style.left = n.start * 100 + '%';
    e.style.width = n.width * 100 + '%';
    e.style.top = (upwards ? deepest - n.d : n.d) * ROW + 'px';
    e.addEventListener('click', () => choose(n, true));
    e.addEventListener('dblclick', () => zoom(n));
    n.element = e;
    box.append(e);
  }
  box.addEventListener('keydown', e => keys(e, all, upwards));
  nodes.push(...all);
  return box;
}

function keys(e, all, upwards) {
  if (e.ctrlKey || e.altKey || e.metaKey) return;
  const at = selected && all.includes(selected) ? selected : all[0];
  const row = all.filter(n => n.d === at.d);
  const into = at.children[0], out = at.parent;
  const to = { ArrowDown: upwards ? out : into, ArrowUp: upwards ? into : out, ArrowLeft: row[row.indexOf(at) - 1], ArrowRight: row[row.indexOf(at) + 1], Home: all[0] }[e.key];
  if (to) choose(to);
  else if (e.key === 'Enter') zoom(at);
  else if (e.key === 'c' && selected) copy(stackText(path(selected)), byId('copyStack'));
  else if (e.key === 's' && selected) sandwich(selected);
  else if (!e.key.startsWith('Arrow')) return;
  e.preventDefault();
}

function zoom(n) {
  if (n.id !== '' && !state.fn) write({ zoom: n.d === 0 ? null : n.id });
}

const sandwich = n => { if (n.id !== '' && n.d > 0) write({ fn: n.n, fnm: n.m, zoom: null }); };

const path = n => {
  const out = [];
  for (let at = n; at.parent; at = at.parent) out.unshift(at);
  return state.inverted ? out.reverse() : out;
};

function choose(n, focused) {
  selected?.element?.classList.remove('selected');
  selected = n;
  n.element.classList.add('selected');
  if (!focused) n.element.scrollIntoView({ block: 'nearest' });
  const act = (text, f, title) => el('button', { type: 'button', text, title, onclick: f });
  const copyButton = el('button', { type: 'button', id: 'copyStack', text: 'Copy the stack', title: 'c', onclick: e => copy(stackText(path(n)), e.target) });
  const buttons = n.id === '' || n.d === 0 ? [] : [
    state.fn ? null : act('Zoom', () => zoom(n), 'Enter, or a double click'), act('Callers and callees', () => sandwich(n), 's'),
    act('Only these', () => write({ focus: n.n, zoom: null })), act('Without these', () => write({ hide: n.n, zoom: null })), copyButton,
  ];
  byId('detail').replaceChildren(
    el('p', {}, el('b', { text: n.n }), n.i ? el('span', { class: 'tag', text: 'inlined' }) : null, ' ', el('span', { class: 'soft', text: [n.s, n.m].filter(Boolean).join(' · ') })),
    el('p', { class: 'figure', text: describe(n) + (doc.diff ? '' : ' · ' + share(n.v, doc.picture.value) + (n.o ? ' · itself ' + amount(n.o) : '')) }),
    el('p', { class: 'buttons' }, ...buttons.filter(Boolean)));
}

// next goes to the next frame that was found; by -1 to the previous one.
export function next(by) {
  if ((state.find || '') !== found) {
    wanted = by;
    return;
  }
  const hits = nodes.filter(n => n.h);
  if (!hits.length) return;
  const at = hits.indexOf(selected);
  choose(hits[at < 0 ? (by > 0 ? 0 : hits.length - 1) : (at + by + hits.length) % hits.length]);
}

function heading() {
  const p = doc.picture, parts = [];
  if (doc.diff) parts.push('grew by ' + amount(p.grown) + ', shrank by ' + amount(p.shrunk));
  else parts.push(amount(p.value) + (doc.unit === 'bytes' && p.count ? ' in ' + counted(p.count, doc.thing) : ''));
  if (state.find) parts.push(counted(p.found.frames, 'frame') + ' found: ' + [amount(p.found.value), share(p.found.value, p.value)].filter(Boolean).join(', '));
  if (p.smaller) parts.push(counted(p.smaller, 'frame') + ' too small to draw: zoom in');
  return parts.join(' · ');
}

// show draws an answer; find is what was looked for. What was chosen stays so where it is still there.
export function show(answer, view, find) {
  const way = [state.inverted, state.fn, state.fnm].join(' '), chosen = selected && way === drawn ? selected.id : '';
  doc = answer;
  found = find;
  drawn = way;
  nodes = [];
  selected = null;
  const parts = [el('p', { id: 'sum', class: 'figure', text: heading() })];
  if (doc.picture.value === 0) {
    parts.push(el('p', { class: 'empty', text: state.fn ? 'None of it is through this function.' : doc.diff ? 'Nothing changed.' : 'There is nothing of this kind here. Choose another kind, time or filter.' }));
  } else if (doc.callers) {
    parts.push(el('h3', { text: 'Callers of ' + state.fn }), paint(doc.callers, true, 'Callers'), el('h3', { text: 'Callees' }), paint(doc.picture, false, 'Callees'));
  } else {
    parts.push(paint(doc.picture, false, 'Flame graph'));
  }
  if (doc.diff) parts.push(el('p', { class: 'soft key' }, el('i', { class: 'up3' }), 'grew ', el('i', { class: 'down3' }), 'shrank'));
  parts.push(el('div', { id: 'detail', 'aria-live': 'polite' }, el('p', { class: 'soft', text: doc.picture.value ? 'A click chooses a frame, a double click zooms.' : '' })), ...doc.notes.map(n => el('p', { class: 'soft note', text: n })));
  view.replaceChildren(...parts);
  const again = chosen && nodes.find(n => n.id === chosen);
  if (again) choose(again, true);
  if (wanted && (state.find || '') === found) {
    next(wanted);
    wanted = 0;
  }
}

export const redraw = view => { if (doc) show(doc, view, found); };
