import { ask, base, copy, counted, el, size, stackText, time, visible } from './util.js';
import { where, write } from './state.js';

const WORDS = {
  definite: 'nothing points to the blocks', indirect: 'only leaked blocks point to them', possible: 'only pointers into their middle were found',
  growing: 'a candidate: live bytes keep rising', old: 'a candidate: older than what the site frees',
};

function suppression(leak) {
  const out = el('pre', { hidden: true });
  const button = el('button', { type: 'button', text: 'Suppression', title: 'The lines for --suppressions that keep it out of later checks', onclick: async () => {
    try {
      out.textContent = visible((await ask('suppression', { ...where(), leak: leak.number })).text);
      out.hidden = false;
      await copy(out.textContent, button);
    } catch (e) {
      out.textContent = visible(e.message);
      out.hidden = false;
    }
  } });
  return [button, out];
}

function facts(l) {
  const out = [];
  if (l.pages) out.push(size(l.pages.resident_bytes) + ' resident');
  if (l.oldest_ns) out.push('oldest ' + time(l.oldest_ns) + ' ago' + (l.newest_ns ? ', newest ' + time(l.newest_ns) + ' ago' : ''));
  if (l.growing && l.growth_bytes_per_s) out.push('grows by ' + size(l.growth_bytes_per_s) + '/s');
  if (l.doubtful) out.push('doubtful: events were lost while the blocks lived');
  if (l.confidence && l.confidence < 1) out.push('confidence ' + l.confidence.toFixed(2));
  return out.join(' · ');
}

function card(l, recording) {
  const [button, text] = suppression(l);
  const verdict = ['definite', 'indirect', 'possible'].includes(l.kind);
  const blocks = recording && verdict && l.function && !/^\[|\\/.test(l.function) ? el('button', { type: 'button', text: 'Blocks and addresses', onclick: () => write({ tab: 'table', by: 'none', find: null, sort: null, filter: `leak == ${JSON.stringify(l.kind)} && function == ${JSON.stringify(l.function)}` }) }) : null;
  return el('article', { class: 'leak k-' + l.kind },
    el('h3', {}, el('span', { class: 'kind', text: l.kind }), el('span', { class: 'figure', text: size(l.bytes) + ' in ' + counted(l.count, 'block') }), el('span', { class: 'where', text: l.function || '[no stack]' }), el('span', { class: 'soft', text: l.comm + ' (' + l.pid + ')' })),
    el('p', { class: 'why', text: l.why }),
    el('p', { class: 'soft', text: facts(l) }),
    ...(l.samples || []).map(s => el('p', { class: 'soft mono', text: s.address + ' ' + s.text + (s.count > 1 ? ' (' + counted(s.count, 'block') + ')' : '') })),
    el('details', {}, el('summary', { text: counted(l.stack.length + (l.more || 0), 'frame') }), el('div', { class: 'stack' }, ...[...l.stack].reverse().map(s => el('div', {}, el('span', { text: s.Label }), s.Inlined ? el('span', { class: 'tag', text: 'inlined' }) : null, ' ', el('span', { class: 'soft', text: s.Source || base(s.Module) }))))),
    el('p', { class: 'buttons' }, el('button', { type: 'button', text: 'Copy the stack', onclick: e => copy(stackText(l.stack), e.target) }), button, blocks), text);
}

export function show(doc, view, recording) {
  const kinds = [...new Set(doc.leaks.map(l => l.kind))];
  const parts = [];
  if (!doc.leaks.length) parts.push(el('p', { class: 'empty', text: doc.checked ? 'The check found no leaks, and no call site grows.' : 'No leak check was made, and no call site grows. memtrace record --leaks checks at the end.' }));
  else if (!doc.checked) parts.push(el('p', { class: 'soft', text: 'No leak check was made (--leaks): these are candidates, from lifetimes alone.' }));
  for (const kind of kinds) {
    const own = doc.leaks.filter(l => l.kind === kind), bytes = own.reduce((sum, l) => sum + l.bytes, 0);
    parts.push(el('h2', { class: 'leakKind' }, kind + ' ', el('span', { class: 'soft', text: WORDS[kind] + ' · ' + size(bytes) + ', ' + counted(own.length, 'call site') })), ...own.map(l => card(l, recording)));
  }
  if (doc.all > doc.leaks.length) parts.push(el('p', { class: 'soft', text: counted(doc.all - doc.leaks.length, 'more leak') + ': find them by a name' }));
  view.replaceChildren(...parts);
}
