import { base, byId, copy, counted, el, figure, link, stackText, thousands, visible } from './util.js';
import { state, where, write } from './state.js';

export const params = () => ({ ...where(), by: state.by, sort: state.sort, up: state.up, filter: state.filter, find: state.find });

function header(doc) {
  return el('tr', {}, ...doc.columns.map((c, i) => {
    const on = c.key === doc.sort;
    const cell = el('th', { scope: 'col', class: c.unit === 'text' ? 'name' : '', 'aria-sort': on ? (state.up ? 'ascending' : 'descending') : false });
    cell.append(el('button', { type: 'button', text: c.title + (on ? (state.up ? ' ▴' : ' ▾') : ''), 'data-key': c.key, onclick: () => write({ sort: c.key, up: on && !state.up ? '1' : null }) }));
    return cell;
  }));
}

function stack(row) {
  const button = el('button', { type: 'button', text: 'Copy the stack', onclick: e => copy(stackText(row.stack), e.target) });
  const own = [...row.stack].reverse().find(s => s.Label === row.key);
  return el('div', { class: 'stack' },
    ...[...row.stack].reverse().map(s => el('div', {}, el('span', { text: s.Label }), s.Inlined ? el('span', { class: 'tag', text: 'inlined' }) : null, ' ', el('span', { class: 'soft', text: s.Source || base(s.Module) }))),
    row.more ? el('div', { class: 'soft', text: counted(row.more, 'more frame') }) : null,
    el('p', { class: 'buttons' }, button, own ? el('button', { type: 'button', text: 'Callers and callees', onclick: () => write({ tab: 'flame', fn: own.Label, fnm: own.Module }) }) : null));
}

// narrower is the filter that finds the blocks of a row.
function narrower(doc, key) {
  const quoted = JSON.stringify(key), by = { site: 'function', function: 'function', file: 'file', module: 'module', comm: 'comm' }[doc.by];
  if (key.startsWith('[') || /\\/.test(key)) return null;
  return by ? `${by} == ${quoted}` : ['pid', 'thread', 'free_thread'].includes(doc.by) ? `${doc.by} == ${key}` : null;
}

function row(doc, r, most, recording) {
  const texts = r.texts || [], line = el('tr');
  const name = el('td', { class: 'name', title: r.key });
  const only = recording && doc.by !== 'none' ? narrower(doc, r.key) : null;
  if (r.stack) name.append(el('details', {}, el('summary', { text: r.key }), stack(r)));
  else name.append(visible(r.key));
  if (only) name.append(' ', el('button', { type: 'button', class: 'small', text: 'filter', title: 'Only these blocks: ' + only, onclick: () => write({ filter: state.filter ? `(${state.filter}) && ${only}` : only, find: null }) }));
  line.append(name, ...texts.map(t => el('td', { class: 'name', text: t })));
  r.cells.forEach((v, i) => {
    const c = doc.columns[i + 1 + texts.length], cell = el('td', { text: v === 0 && c.unit !== 'bytes' ? '·' : figure(v, c.unit), title: c.unit === 'bytes' ? thousands(v) + ' bytes' : undefined });
    if (c.key === doc.sort && most > 0) {
      cell.className = 'bar-cell';
      const bar = el('i');
      bar.style.width = 100 * v / most + '%';
      cell.prepend(bar);
    }
    line.append(cell);
  });
  return line;
}

export function show(doc, view, recording) {
  byId('csv').href = link('table.csv', params());
  const at = doc.columns.findIndex(c => c.key === doc.sort), texts = doc.rows[0]?.texts?.length || 0;
  const most = at > texts ? Math.max(...doc.rows.map(r => r.cells[at - 1 - texts])) : 0;
  const shown = doc.rows.length < doc.matching ? `the first ${thousands(doc.rows.length)} of ${thousands(doc.matching)} rows (CSV has all)` : counted(doc.matching, 'row');
  view.replaceChildren(
    el('p', { class: 'soft figure', id: 'rowCount', text: shown + (doc.all > doc.matching ? ` of ${thousands(doc.all)}` : '') }),
    doc.rows.length ? el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Table by ' + doc.by }, el('table', { id: 'rows' }, el('thead', {}, header(doc)), el('tbody', {}, ...doc.rows.map(r => row(doc, r, most, recording))))) : el('p', { class: 'empty', text: 'Nothing fulfils this.' }),
    ...doc.notes.map(n => el('p', { class: 'soft note', text: n })));
}
