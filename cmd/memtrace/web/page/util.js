// Names come from the processes that were measured: they are put into the page as text, never as markup.
export const byId = id => document.getElementById(id);

// visible shows what a terminal or the direction of writing would obey as an escape.
export const visible = text => String(text).replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g, c => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));

export function el(tag, props = {}, ...children) {
  const e = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === false || value === null) continue;
    if (key === 'class') e.className = value;
    else if (key === 'text') e.textContent = visible(value);
    else if (key === 'title') e.title = visible(value);
    else if (key.startsWith('on')) e.addEventListener(key.slice(2), value);
    else if (value === true) e.setAttribute(key, '');
    else e.setAttribute(key, value);
  }
  e.append(...children.filter(c => c !== null && c !== undefined).map(c => typeof c === 'string' ? visible(c) : c));
  return e;
}

export function svg(tag, props = {}, ...children) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [key, value] of Object.entries(props)) {
    if (key === 'text') e.textContent = visible(value);
    else e.setAttribute(key, value);
  }
  e.append(...children);
  return e;
}

export const thousands = n => n.toLocaleString('en-US', { maximumFractionDigits: 0 });
export const base = path => (path || '').replace(/^.*\/(?=.)/, '');
export const counted = (n, what) => thousands(n) + ' ' + what + (n === 1 ? '' : what.endsWith('s') ? 'es' : 's');
export const share = (n, whole) => whole ? (100 * n / whole).toFixed(1) + ' %' : '';

export function size(n) {
  const sign = n < 0 ? '−' : '', units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  let i = 0;
  for (n = Math.abs(n); n >= 1023.95 && i < units.length - 1; i++) n /= 1024;
  return sign + (i === 0 || n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2)) + ' ' + units[i];
}

export function time(ns) {
  if (ns < 1e3) return ns + ' ns';
  if (ns < 1e6) return (ns / 1e3).toPrecision(3) + ' µs';
  if (ns < 1e9) return (ns / 1e6).toPrecision(3) + ' ms';
  const s = ns / 1e9;
  if (s < 60) return s.toPrecision(3) + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min ' + (s % 60).toFixed(0) + ' s';
  return Math.floor(s / 3600) + ' h ' + Math.floor(s % 3600 / 60) + ' min';
}

// clock is a time since the start, as exact as the span around it makes sense.
export function clock(ns, span) {
  const digits = span < 1e6 ? 9 : span < 1e9 ? 6 : span < 100e9 ? 3 : span < 1000e9 ? 1 : 0;
  return (ns / 1e9).toFixed(digits) + ' s';
}

export const figure = (n, unit) => unit === 'bytes' ? size(n) : unit === 'time' ? time(n) : unit === 'number' ? String(n || '') : thousands(n);

// Questions that take long are asked again until they are answered; what is under way is told to whoever listens.
const under = new Map();
let told = () => {};
export const onProgress = f => { told = f; };

function tell(key, done) {
  if (done === undefined) under.delete(key);
  else under.set(key, done);
  told([...under.values()]);
}

const sleep = (ms, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, ms);
  signal.addEventListener('abort', () => { clearTimeout(timer); reject(signal.reason); });
});

export async function ask(name, params, signal) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) if (value !== undefined && value !== null && value !== '') query.set(key, value);
  const key = name + '?' + query;
  try {
    for (;;) {
      const answer = await fetch('/api/' + key, { signal });
      if (answer.status === 401) throw new Error('memtrace was started again, or its cookie is gone: open the address that it has printed');
      const doc = await answer.json();
      if (answer.status === 202) {
        tell(key, doc.done);
        await sleep(150, signal);
        continue;
      }
      if (!answer.ok) throw Object.assign(new Error(doc.error), doc);
      return doc;
    }
  } catch (e) {
    if (e instanceof TypeError) throw new Error('memtrace does not answer: it may have ended');
    throw e;
  } finally {
    tell(key);
  }
}

export function link(name, params) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) if (value !== undefined && value !== null && value !== '') query.set(key, value);
  return '/api/' + name + '?' + query;
}

export async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // no clipboard outside of a secure context
    const area = el('textarea', { class: 'sr' });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  const before = button.textContent;
  button.textContent = 'Copied';
  setTimeout(() => { button.textContent = before; }, 1200);
}

export const stackText = steps => [...steps].reverse().map(s => (s.Label || s.n) + ((s.Source || s.s) ? ' (' + (s.Source || s.s) + ')' : (s.Module || s.m) ? ' [' + base(s.Module || s.m) + ']' : '') + ((s.Inlined || s.i) ? ' inlined' : '')).join('\n');
