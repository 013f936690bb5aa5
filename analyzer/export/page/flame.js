
'use strict';
// Zoom, search and the other direction. Names are text in the document already.
(() => {
  const svg = document.documentElement, WIDTH = 1180, LEFT = 10, CHAR = 6.7, ROW = 18;
  const now = document.getElementById('now'), found = document.getElementById('found');
  const trees = [...document.querySelectorAll('.tree')].map(g => ({ g, frames: [...g.children].map(frame) }));
  let tree = trees.find(t => t.g.style.display !== 'none') || trees[0];
  let word = '', typing = false;

  function frame(g) {
    const rect = g.querySelector('rect'), title = g.querySelector('title').textContent, end = title.indexOf('\n');
    return {
      g, rect, text: g.querySelector('text'), title, name: end < 0 ? title : title.slice(0, end),
      x: +rect.getAttribute('x') - LEFT, w: +rect.getAttribute('width'), y: +rect.getAttribute('y'),
    };
  }

  function place(f, x, w) {
    f.rect.setAttribute('x', (LEFT + x).toFixed(2));
    f.rect.setAttribute('width', Math.max(w, 0).toFixed(2));
    const room = Math.floor((w - 6) / CHAR);
    if (room < 3) {
      if (f.text) f.text.textContent = '';
      return;
    }
    if (!f.text) {
      f.text = document.createElementNS('http://www.w3.org/2000/svg', 'text');
      f.text.setAttribute('y', f.y + 13);
      f.g.append(f.text);
    }
    f.text.setAttribute('x', (LEFT + x + 3).toFixed(2));
    const letters = [...f.name];
    f.text.textContent = letters.length <= room ? f.name : letters.slice(0, room - 1).join('') + '…';
  }

  // zoom widens a frame to the whole picture: those above it are as wide, those
  // below grow with it, all others go.
  function zoom(to) {
    for (const f of tree.frames) {
      const above = f.y < to.y && f.x <= to.x + .02 && f.x + f.w >= to.x + to.w - .02;
      const below = f.y >= to.y && f.x >= to.x - .02 && f.x + f.w <= to.x + to.w + .02;
      f.g.style.display = above || below ? '' : 'none';
      f.g.setAttribute('class', above ? 'above' : '');
      if (above) place(f, 0, WIDTH);
      else if (below) place(f, (f.x - to.x) * WIDTH / to.w, f.w * WIDTH / to.w);
    }
  }

  function search() {
    let test = () => false;
    if (word) {
      const low = word.toLowerCase();
      test = name => name.toLowerCase().includes(low);
    }
    let end = -1, share = 0, hits = 0;
    // Frames that are within others that were found count once.
    const list = tree.frames.filter(f => {
      const hit = test(f.name);
      f.rect.classList.toggle('hit', hit);
      return hit;
    });
    for (const f of list.sort((a, b) => a.x - b.x || b.w - a.w)) {
      hits++;
      const from = Math.max(f.x, end), to = f.x + f.w;
      if (to > from) {
        share += to - from;
        end = to;
      }
    }
    found.textContent = word || typing
      ? 'search: ' + word + (typing ? '▏' : '') + (word ? '  ' + hits + (hits === 1 ? ' frame, ' : ' frames, ') + (100 * share / WIDTH).toFixed(1) + ' %' : '') : ' ';
  }

  function invert() {
    tree.g.style.display = 'none';
    tree = trees.find(t => t !== tree);
    tree.g.style.display = '';
    search();
  }

  svg.addEventListener('click', e => {
    const f = tree.frames.find(f => f.rect === e.target);
    if (f) zoom(f);
  });
  svg.addEventListener('mousemove', e => {
    const f = tree.frames.find(f => f.rect === e.target);
    now.textContent = f ? [...f.title.replace(/\n/g, ' · ')].slice(0, 170).join('') : ' ';
  });
  window.addEventListener('keydown', e => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (typing) {
      if (e.key === 'Enter') typing = false;
      else if (e.key === 'Escape') { typing = false; word = ''; }
      else if (e.key === 'Backspace') word = [...word].slice(0, -1).join('');
      else if ([...e.key].length === 1) word += e.key;
      else return;
    } else if (e.key === '/') typing = true;
    else if (e.key === 'i') { invert(); return; }
    else if (e.key === 'Escape') {
      if (word) word = '';
      else for (const t of [tree]) zoom(t.frames[0]);
    } else return;
    e.preventDefault();
    search();
  });
  // What to begin with may stand in the address: picture.svg#q=parse&i
  const from = new URLSearchParams(location.hash.slice(1));
  if (from.has('i')) invert();
  if (from.has('q')) { word = from.get('q'); search(); }
  if (from.has('zoom')) {
    const f = tree.frames.find(f => f.name === from.get('zoom'));
    if (f) zoom(f);
  }
})();
