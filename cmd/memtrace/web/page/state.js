// All that is shown stands in the address, so that it can be kept and Back works. What is typed replaces the entry of
// the history, what is chosen makes a new one.
const defaults = { f: '0', tab: 'flame', kind: 'live', by: 'site' };
let listener = () => {};

export function read() {
  return { ...defaults, ...Object.fromEntries(new URLSearchParams(location.hash.slice(1))) };
}

export const state = read();

export function write(change, replace = false) {
  for (const [key, value] of Object.entries(change)) {
    if (value === null || value === undefined || value === '') delete state[key];
    else state[key] = String(value);
  }
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(state)) if (value !== defaults[key]) query.set(key, value);
  for (const [key, value] of Object.entries(defaults)) if (state[key] === undefined) state[key] = value;
  const address = location.pathname + (String(query) ? '#' + query : '');
  if (replace) history.replaceState(null, '', address);
  else history.pushState(null, '', address);
  listener(Object.keys(change));
}

export function onChange(f) {
  listener = f;
  window.addEventListener('popstate', () => {
    for (const key of Object.keys(state)) delete state[key];
    Object.assign(state, read());
    f(null);
  });
}

// where is the part of a question that says which file and time.
export const where = () => ({ file: state.f, at: state.from || state.to ? '' : state.at, from: state.from, to: state.to });
