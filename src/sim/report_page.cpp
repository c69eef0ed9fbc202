// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/report_page.hpp"

namespace tranche::sim {

const char* const kPageStyle = R"page(
:root {
  color-scheme: light dark;
  --paper: #ffffff; --card: #f6f6f4; --ink: #1c1c1c; --quiet: #555550; --line: #d5d5d0;
  --idle: #efefec; --stripe: rgba(255,255,255,.72); --halo: rgba(255,255,255,.65);
  --accent: #0b57a4; --taken: #d0021b; --drain: rgba(40,40,40,.2); --good: #14683c; --bad: #a80d20;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #17181a; --card: #212327; --ink: #ececea; --quiet: #b0b0aa; --line: #43464c;
    --idle: #26282c; --stripe: rgba(23,24,26,.6); --halo: rgba(255,255,255,.55);
    --accent: #7fb6f5; --taken: #ea1230; --drain: rgba(255,255,255,.18); --good: #6fd39b;
    --bad: #ff8d98;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", Arial, sans-serif;
  overflow-wrap: anywhere;
}
header, main, footer { max-width: 1280px; margin: 0 auto; padding: 0 clamp(12px, 3vw, 32px); }
header { padding-top: 20px; }
h1 { font-size: clamp(1.25rem, 4vw, 1.7rem); line-height: 1.25; margin: 0 0 4px; }
h2 { font-size: 1.2rem; margin: 40px 0 6px; }
h3 { font-size: .95rem; margin: 0; }
p { margin: 0 0 10px; max-width: 75ch; }
.quiet, figcaption { color: var(--quiet); font-size: .9rem; }
footer { color: var(--quiet); font-size: .85rem; padding-bottom: 32px; margin-top: 32px; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
button, select, input {
  font: inherit; color: var(--ink); background: var(--card); border: 1px solid var(--line);
  border-radius: 6px; min-height: 40px; padding: 4px 12px; max-width: 100%;
}
button { cursor: pointer; }
button:hover { border-color: var(--accent); }
button[aria-pressed="true"] { background: var(--accent); color: var(--paper); border-color: var(--accent); }
.bar { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin: 8px 0; }
.bar label { display: inline-flex; gap: 6px; align-items: center; flex-wrap: wrap; }
#switch { position: sticky; top: 0; z-index: 5; background: var(--paper); padding: 8px 0; margin: 0; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 10px;
  margin: 16px 0; padding: 0; list-style: none; }
.cards li { background: var(--card); border-radius: 8px; padding: 10px 14px; }
.cards b { display: block; font-size: 1.45rem; font-weight: 600; line-height: 1.25;
  font-variant-numeric: tabular-nums; }
.cards small { color: var(--quiet); display: block; line-height: 1.3; }
figure { margin: 0; }
.frame { position: relative; }
#timeline { display: block; width: 100%; touch-action: pan-y; cursor: grab; border-radius: 4px; }
#timeline.dragged { cursor: grabbing; }
#about-run { min-height: 4.6em; white-space: pre-line; margin: 6px 0 0; font-size: .9rem;
  background: var(--card); border-radius: 8px; padding: 8px 12px; }
.legend { display: flex; flex-wrap: wrap; gap: 6px 8px; margin: 10px 0; padding: 0; list-style: none; }
.legend button { display: inline-flex; align-items: center; gap: 7px; font-size: .88rem;
  min-height: 34px; padding: 2px 10px; }
.legend li.mark { display: inline-flex; align-items: center; gap: 7px; font-size: .88rem;
  padding: 2px 8px 2px 2px; }
.swatch { display: inline-block; width: 22px; height: 13px; border-radius: 2px; flex: none; }
.swatch.open { background-image: repeating-linear-gradient(135deg, var(--stripe) 0 2.3px, transparent 2.3px 6px); }
.swatch.taken { border-right: 3px solid var(--taken); border-radius: 2px 0 0 2px; }
.swatch.idle { background: var(--idle); border: 1px solid var(--line); }
.swatch.drain { background: var(--drain); border: 1px solid var(--line); }
.chart { width: 100%; display: block; }
.chart text { fill: var(--ink); font-size: 12px; }
.chart .quiet { fill: var(--quiet); }
.chart .grid { stroke: var(--line); fill: none; stroke-width: 1; }
.chart .funded { stroke: var(--ink); fill: none; stroke-width: 1.6; stroke-dasharray: 5 3; }
.chart .demand { stroke: var(--quiet); fill: none; stroke-width: 1; }
.many { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(300px, 100%), 1fr)); gap: 14px; }
.many figure { background: var(--card); border-radius: 8px; padding: 10px 12px; min-width: 0; }
table { border-collapse: collapse; width: 100%; margin: 10px 0; font-size: .92rem; }
caption { text-align: left; color: var(--quiet); font-size: .9rem; padding-bottom: 4px; }
th, td { text-align: right; padding: 5px 8px; border-bottom: 1px solid var(--line);
  font-variant-numeric: tabular-nums; vertical-align: top; }
th:first-child, td:first-child { text-align: left; }
thead th { font-weight: 600; border-bottom: 2px solid var(--line); }
tbody th { font-weight: 500; }
td small { color: var(--quiet); display: block; }
.warn { border-left: 4px solid var(--bad); background: var(--card); padding: 8px 14px; border-radius: 0 8px 8px 0; }
.warn li { color: var(--bad); }
[hidden] { display: none !important; }
@media (max-width: 700px) {
  table.wide, table.wide caption, table.wide tbody, table.wide tr, table.wide td, table.wide th { display: block; text-align: left; }
  table.wide thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  table.wide tr { border-bottom: 1px solid var(--line); padding: 8px 0; display: grid;
    grid-template-columns: repeat(auto-fill, minmax(130px, 1fr)); }
  table.wide tbody th { grid-column: 1 / -1; font-weight: 600; padding: 2px 0; border: 0; }
  table.wide td { border: 0; padding: 2px 8px 2px 0; }
  table.wide td::before { content: attr(data-label) " "; color: var(--quiet); font-size: .82rem; display: block; }
}
@media (prefers-reduced-motion: no-preference) { button { transition: border-color .1s; } }
@media print { .bar, #about-run { display: none; } }
)page";

const char* const kPageScript = R"page(
'use strict';
(() => {
const page = JSON.parse(document.getElementById('record').textContent);
const byId = id => document.getElementById(id);
const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const NONE = 4294967295;
let shown = 0;                       // which record
let lit = new Set();                 // teams that are picked in the legend

const colourOf = (team, shade) => team === NONE ? page.no_team : page.colours[team % page.colours.length][shade];
const span = s => {
  if (s < 120) return Math.round(s) + ' s';
  if (s < 7200) return (s / 60).toFixed(s < 600 ? 1 : 0) + ' min';
  if (s < 172800) return (s / 3600).toFixed(1) + ' h';
  return (s / 86400).toFixed(1) + ' d';
};
const two = n => String(n).padStart(2, '0');
const clock = s => two(Math.floor(s / 3600)) + ':' + two(Math.floor(s / 60) % 60);
const dated = page.dates_from;
const instant = at => {
  if (at >= dated) return new Date(at * 1000).toISOString().slice(0, 16).replace('T', ' ');
  const day = Math.floor(at / 86400);
  return 'd' + day + ' ' + clock(at - day * 86400);
};
const axisText = (at, step) => {
  const day = Math.floor(at / 86400), ofDay = at - day * 86400;
  if (ofDay !== 0) return clock(ofDay) + (step < 60 ? ':' + two(ofDay % 60) : '');
  if (at >= dated) return new Date(at * 1000).toISOString().slice(5, 10);
  return day === 0 && step < 86400 ? '00:00' : 'day ' + day;
};
const STEPS = [1, 5, 10, 30, 60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
  172800, 345600, 604800, 1209600, 2419200, 7862400];
const stepFor = (seconds, marks) => STEPS.find(s => seconds / s <= marks) ||
  Math.ceil(seconds / marks / 86400) * 86400;

// ---- The timeline.
const canvas = byId('timeline'), pen = canvas.getContext('2d');
const aboutRun = byId('about-run'), view = { from: 0, to: 1 };
let layout = null, picked = -1, stripes = null, queued = false;

const STRIDE = 6;                    // row, rows, begin, length, open after, job
const record = () => page.records[shown];
const prepared = new Map();
function lines() {
  if (prepared.has(shown)) return prepared.get(shown);
  const rec = record(), flat = rec.bars, count = flat.length / STRIDE;
  const begin = new Float64Array(count);
  let last = rec.begin;
  for (let i = 0; i < count; ++i) begin[i] = last += flat[i * STRIDE + 2];
  let longest = 0;
  for (let i = 0; i < count; ++i) longest = Math.max(longest, flat[i * STRIDE + 3]);
  const firstRow = [], nodeOf = [];
  let rows = 0;
  rec.nodes.forEach(([, gpus], n) => {
    firstRow.push(rows);
    for (let k = 0; k < gpus; ++k) nodeOf.push(n);
    rows += gpus;
  });
  const made = { flat, begin, count, longest, firstRow, nodeOf, rows };
  prepared.set(shown, made);
  return made;
}
function arrange() {
  const width = canvas.parentElement.clientWidth, made = lines();
  const rowHeight = Math.max(Math.min(2.4, 1600 / made.rows), Math.min(15, 640 / Math.max(1, made.rows)));
  const gap = Math.min(3, rowHeight / 2);
  const left = width < 560 ? 34 : 58;
  const height = made.rows * rowHeight + Math.max(0, record().nodes.length - 1) * gap;
  const scale = window.devicePixelRatio || 1;
  layout = { width, left, rowHeight, gap, height, scale, plot: Math.max(40, width - left - 2) };
  canvas.style.height = Math.ceil(height + 26) + 'px';
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(Math.ceil(height + 26) * scale);
  stripes = makeStripes();
  draw();
}
function makeStripes() {
  const size = Math.round((layout.rowHeight < 6 ? 5 : 8) * layout.scale), tile = document.createElement('canvas');
  tile.width = tile.height = size;
  const p = tile.getContext('2d');
  p.strokeStyle = style('--stripe');
  p.lineWidth = size * 0.34;
  p.beginPath();
  for (const d of [-size, 0, size]) { p.moveTo(d - 1, size + 1); p.lineTo(d + size + 1, -1); }
  p.stroke();
  const pattern = pen.createPattern(tile, 'repeat');
  pattern.setTransform(new DOMMatrix().scale(1 / layout.scale));
  return pattern;
}
const rowY = row => row * layout.rowHeight + lines().nodeOf[row] * layout.gap;
const xOf = at => layout.left + (at - view.from) / (view.to - view.from) * layout.plot;
const atOf = x => view.from + (x - layout.left) / layout.plot * (view.to - view.from);

function draw() {
  queued = false;
  const rec = record(), made = lines(), L = layout;
  pen.setTransform(L.scale, 0, 0, L.scale, 0, 0);
  pen.clearRect(0, 0, L.width, L.height + 26);
  const ink = style('--ink'), quiet = style('--quiet'), taken = style('--taken');
  pen.fillStyle = style('--idle');
  rec.nodes.forEach(([, gpus], n) => {
    if (gpus) pen.fillRect(L.left, rowY(made.firstRow[n]), L.plot, gpus * L.rowHeight);
  });
  // Time.
  const step = stepFor(view.to - view.from, Math.max(2, L.plot / 74));
  pen.font = '12px system-ui, "DejaVu Sans", sans-serif';
  pen.textBaseline = 'top';
  pen.strokeStyle = style('--line');
  for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
    const x = xOf(at);
    pen.beginPath(); pen.moveTo(x, 0); pen.lineTo(x, L.height + 5); pen.stroke();
    const text = axisText(at, step), half = pen.measureText(text).width / 2;
    pen.fillStyle = ink;
    pen.textAlign = 'left';
    pen.fillText(text, Math.min(Math.max(x - half, 0), L.width - 2 * half - 1), L.height + 9);
  }
  // Runs.
  pen.save();
  pen.beginPath(); pen.rect(L.left, 0, L.plot, L.height); pen.clip();
  const spacing = L.rowHeight >= 6 ? 1 : L.rowHeight * 0.12;
  const edges = [], labels = [], open = [];
  let edgeRoom = 0;                  // width of the runs that end at a red edge
  const lastX = new Float64Array(made.rows).fill(-1);
  for (let i = 0; i < made.count; ++i) {
    const begin = made.begin[i];
    if (begin > view.to) break;
    const k = i * STRIDE, length = made.flat[k + 3];
    if (begin + length < view.from) continue;
    const job = rec.jobs[made.flat[k + 5] >> 1];
    const x0 = Math.max(xOf(begin), L.left - 4), x1 = Math.min(xOf(begin + length), L.width + 4);
    const row = made.flat[k], rows = made.flat[k + 1], y = rowY(row);
    const w = x1 - x0, cut = w > 3 ? 0.6 : 0;
    if (w < 0.7 && lastX[row] >= Math.floor(x0 * 2)) continue;   // drawn already, as far as one sees
    lastX[row] = Math.floor(x0 * 2);
    const h = rows * L.rowHeight - spacing;
    const dim = lit.size && !lit.has(job[1]);
    pen.globalAlpha = dim ? 0.16 : 1;
    pen.fillStyle = colourOf(job[1], job[2]);
    pen.fillRect(x0, y, Math.max(w - cut, 0.5), h);
    const openFrom = made.flat[k + 4];
    if (openFrom < length && !dim) {
      const xo = Math.max(x0, xOf(begin + openFrom));
      if (x1 - cut > xo) open.push(xo, y, x1 - cut - xo, h);
    }
    if (made.flat[k + 5] & 1 && !dim && x1 < L.width + 2) { edges.push(x1 - cut, y, h); edgeRoom += w; }
    if (w >= 44 && h >= 11 && !dim) labels.push([x0, y, w, h, job]);
  }
  pen.globalAlpha = 1;
  pen.fillStyle = stripes;
  for (let i = 0; i < open.length; i += 4) pen.fillRect(open[i], open[i + 1], open[i + 2], open[i + 3]);
  pen.strokeStyle = taken;
  const widest = Math.min(edges.length > 900 ? 1.6 : 2.4, L.rowHeight >= 6 ? 2.4 : L.rowHeight >= 3 ? 1.6 : 1.1);
  pen.lineWidth = Math.max(1, Math.min(widest, edgeRoom / Math.max(1, edges.length / 3) / 6));
  pen.beginPath();
  for (let i = 0; i < edges.length; i += 3) { pen.moveTo(edges[i], edges[i + 1]); pen.lineTo(edges[i], edges[i + 1] + edges[i + 2]); }
  pen.stroke();
  pen.lineWidth = 1;
  pen.fillStyle = style('--drain');
  for (const [node, at, back] of rec.drains) {
    const gpus = rec.nodes[node][1], x0 = xOf(at), x1 = xOf(back < 0 ? rec.end : back);
    if (gpus) pen.fillRect(x0, rowY(made.firstRow[node]), x1 - x0, gpus * L.rowHeight);
  }
  pen.font = '10px system-ui, "DejaVu Sans", sans-serif';
  pen.lineWidth = 2.5; pen.lineJoin = 'round'; pen.strokeStyle = style('--halo');
  pen.textBaseline = 'alphabetic'; pen.textAlign = 'left';
  for (const [x, y, w, h, job] of labels) {
    const from = Math.max(x, L.left), room = Math.min(x + w, L.width) - from - 8;
    let text = job[0] + (job[1] === NONE ? '' : ' ' + page.teams[job[1]]);
    if (pen.measureText(text).width > room) text = job[0];
    if (pen.measureText(text).width > room) continue;
    const ty = y + Math.min(h / 2 + 3.6, 13);
    pen.strokeText(text, from + 4, ty);
    pen.fillStyle = '#1c1c1c';
    pen.fillText(text, from + 4, ty);
  }
  if (picked >= 0 && picked < made.count) {
    const k = picked * STRIDE, b = made.begin[picked];
    pen.strokeStyle = ink; pen.lineWidth = 2;
    pen.strokeRect(xOf(b), rowY(made.flat[k]), Math.max(2, xOf(b + made.flat[k + 3]) - xOf(b)), made.flat[k + 1] * L.rowHeight);
  }
  pen.restore();
  // Nodes.
  pen.font = '12px system-ui, "DejaVu Sans", sans-serif';
  pen.textAlign = 'right'; pen.textBaseline = 'middle'; pen.fillStyle = quiet;
  let free = 0;
  rec.nodes.forEach(([name, gpus], n) => {
    const middle = rowY(made.firstRow[n] || 0) + gpus * L.rowHeight / 2;
    if (!gpus || middle - 7 < free) return;
    free = middle + 8;
    let text = name;
    while (text.length > 1 && pen.measureText(text).width > L.left - 6) text = text.slice(1);
    pen.fillText(text, L.left - 5, middle);
  });
  canvas.dataset.from = view.from;
  canvas.dataset.to = view.to;
}
const redraw = () => { if (!queued) { queued = true; requestAnimationFrame(draw); } };
let said = 0;
function look(from, to) {
  const rec = record(), whole = rec.end - rec.begin;
  const width = Math.min(whole, Math.max(to - from, Math.min(whole, 60)));
  const middle = (from + to) / 2;
  view.from = Math.min(Math.max(middle - width / 2, rec.begin), rec.end - width);
  view.to = view.from + width;
  redraw();
  clearTimeout(said);
  said = setTimeout(() => {
    byId('shown').textContent = width >= whole ? 'All of it is shown, ' + span(whole) + '.'
      : instant(Math.round(view.from)) + ' to ' + instant(Math.round(view.to)) + ' is shown, ' + span(width) + '.';
  }, 120);
}
const zoom = (by, at = (view.from + view.to) / 2) =>
  look(at - (at - view.from) / by, at + (view.to - at) / by);
const pan = part => { const d = (view.to - view.from) * part; look(view.from + d, view.to + d); };
const whole = () => look(record().begin, record().end);

function describe(i) {
  const rec = record(), made = lines(), k = i * STRIDE, job = rec.jobs[made.flat[k + 5] >> 1];
  const begin = made.begin[i], length = made.flat[k + 3], openFrom = made.flat[k + 4];
  return job[0] + (job[5] ? ' ' + job[5] : '') + ', ' + job[3] + (job[3] === 1 ? ' GPU, ' : ' GPUs, ') +
    (job[1] === NONE ? 'no budget' : page.teams[job[1]]) + (job[4] ? ', user ' + job[4] : '') + '\n' +
    instant(begin) + ' to ' + instant(begin + length) + ', ' + span(length) +
    (made.flat[k + 5] & 1 ? ', then preempted' : '') + '\n' +
    (openFrom === 0 ? 'free or past its contract: may be interrupted all the time' :
      openFrom < length ? 'protected for ' + span(openFrom) + ', then may be interrupted' : 'protected all the time');
}
function pick(i) {
  if (i === picked) return;
  picked = i;
  aboutRun.textContent = i < 0 ? aboutRun.dataset.hint : describe(i);
  redraw();
}
function barAt(x, y) {
  const made = lines(), at = atOf(x), slack = (view.to - view.from) / layout.plot;
  if (x < layout.left) return -1;
  for (let i = made.count - 1; i >= 0; --i) {
    const k = i * STRIDE, b = made.begin[i];
    if (b > at + slack) continue;
    if (b < at - made.longest - slack) break;
    if (at > b + made.flat[k + 3] + slack) continue;
    const top = rowY(made.flat[k]);
    if (y >= top && y < top + made.flat[k + 1] * layout.rowHeight) return i;
  }
  return -1;
}
const place = event => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
const fingers = new Map();
canvas.addEventListener('pointerdown', event => {
  fingers.set(event.pointerId, place(event));
  canvas.setPointerCapture(event.pointerId);
  canvas.classList.add('dragged');
});
canvas.addEventListener('pointermove', event => {
  const here = place(event), was = fingers.get(event.pointerId);
  if (!was) { pick(barAt(...here)); return; }
  if (fingers.size === 1) {
    const d = (was[0] - here[0]) / layout.plot * (view.to - view.from);
    look(view.from + d, view.to + d);
  } else if (fingers.size === 2) {
    const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
    const before = Math.abs(was[0] - other[0]), now = Math.abs(here[0] - other[0]);
    if (before > 8 && now > 8) zoom(now / before, atOf((here[0] + other[0]) / 2));
  }
  fingers.set(event.pointerId, here);
});
for (const kind of ['pointerup', 'pointercancel'])
  canvas.addEventListener(kind, event => {
    const was = fingers.get(event.pointerId);
    if (kind === 'pointerup' && was && fingers.size === 1) pick(barAt(...place(event)));
    fingers.delete(event.pointerId);
    if (!fingers.size) canvas.classList.remove('dragged');
  });
canvas.addEventListener('wheel', event => {
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.004)), atOf(place(event)[0]));
  } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    event.preventDefault();
    pan((event.deltaX || event.deltaY) / layout.plot);
  }
}, { passive: false });
canvas.addEventListener('dblclick', event => zoom(2, atOf(place(event)[0])));
function next(direction) {
  const made = lines();
  let i = picked < 0 ? (direction > 0 ? -1 : made.count) : picked;
  for (i += direction; i >= 0 && i < made.count; i += direction) {
    const end = made.begin[i] + made.flat[i * STRIDE + 3];
    if (end >= view.from && made.begin[i] <= view.to) { pick(i); return; }
  }
}
canvas.addEventListener('keydown', event => {
  const keys = {
    '+': () => zoom(1.6), '=': () => zoom(1.6), '-': () => zoom(1 / 1.6), '_': () => zoom(1 / 1.6),
    ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), Home: whole, '0': whole,
    n: () => next(1), p: () => next(-1), Escape: () => pick(-1),
  };
  if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
byId('zoom-in').onclick = () => zoom(1.6);
byId('zoom-out').onclick = () => zoom(1 / 1.6);
byId('pan-left').onclick = () => pan(-0.4);
byId('pan-right').onclick = () => pan(0.4);
byId('zoom-all').onclick = whole;
for (const button of document.querySelectorAll('#teams button'))
  button.onclick = () => {
    const team = Number(button.dataset.team);
    lit.has(team) ? lit.delete(team) : lit.add(team);
    button.setAttribute('aria-pressed', lit.has(team));
    redraw();
  };

// ---- Charts.
const SVG = 'http://www.w3.org/2000/svg';
function make(kind, attributes, parent, text) {
  const made = document.createElementNS(SVG, kind);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}
const round = v => Math.round(v * 10) / 10;
function chart(holder, height, label) {
  const width = Math.max(200, holder.clientWidth);
  holder.textContent = '';
  const svg = make('svg', { class: 'chart', width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label }, holder);
  return { svg, width, height };
}
const LINES = [[0, ''], [5, '7 3'], [2, '2 3'], [7, '9 3 2 3'], [8, ''], [14, '4 2'], [4, '7 3'], [9, '2 3']];
function waits() {
  const choice = byId('wait-lines').value, rec = record();
  const series = choice === '' ? rec.waits.filter(w => w.curve.length).slice(0, 8).map(w => ({ name: w.name, ...w }))
    : page.records.map(r => ({ ...r.waits.find(w => w.name === choice), name: r.policy })).filter(w => w.curve && w.curve.length);
  const words = series.map(s => `${s.name}: half within ${span(s.p50)}, 90 % within ${span(s.p90)}`).join('; ');
  const { svg, width, height } = chart(byId('waits'), 300,
    'Share of the jobs that started within a time, ' + (choice === '' ? 'by class, policy ' + rec.policy : 'class ' + choice + ' by policy') + '. ' + words);
  const left = 42, right = width - 12, top = 10, bottom = height - 44;
  const most = Math.max(60, ...series.map(s => s.curve[s.curve.length - 1]));
  const x = s => left + Math.log(Math.max(1, s)) / Math.log(most) * (right - left);
  const y = q => bottom - q / 100 * (bottom - top);
  for (const q of [0, 25, 50, 75, 90, 100]) {
    make('path', { class: 'grid', d: `M${left} ${y(q)}H${right}` }, svg);
    if (q !== 100 || bottom - top > 150) make('text', { x: left - 6, y: y(q) + 4, 'text-anchor': 'end' }, svg, q + ' %');
  }
  let free = left - 30;
  for (const [s, text] of [[1, '1 s'], [10, '10 s'], [60, '1 min'], [600, '10 min'], [3600, '1 h'], [21600, '6 h'], [86400, '1 d'], [604800, '7 d'], [2592000, '30 d']]) {
    if (s > most) break;
    make('path', { class: 'grid', d: `M${x(s)} ${top}V${bottom}` }, svg);
    if (x(s) - 20 > free && x(s) + 20 < width) {
      make('text', { x: x(s), y: bottom + 17, 'text-anchor': 'middle' }, svg, text);
      free = x(s) + 20;
    }
  }
  make('text', { x: (left + right) / 2, y: height - 8, 'text-anchor': 'middle', class: 'quiet' }, svg, 'started within (logarithmic)');
  const list = byId('wait-legend');
  list.textContent = '';
  series.forEach((s, i) => {
    const [hue, dash] = LINES[i];
    const colour = page.line_colours[hue];
    let d = '';
    s.curve.forEach((seconds, q) => { d += (q ? 'L' : 'M') + round(x(seconds)) + ' ' + round(y(q * 100 / (s.curve.length - 1))); });
    make('path', { d, fill: 'none', stroke: colour, 'stroke-width': 2.6, 'stroke-dasharray': dash, 'stroke-linejoin': 'round' }, svg);
    const item = document.createElement('li');
    item.className = 'mark';
    const swatch = make('svg', { width: 34, height: 12, 'aria-hidden': 'true' }, item);
    make('path', { d: 'M0 6H34', stroke: colour, 'stroke-width': 3, 'stroke-dasharray': dash }, swatch);
    item.appendChild(document.createTextNode(`${s.name} (${s.count}): p50 ${span(s.p50)}, p90 ${span(s.p90)}`));
    list.appendChild(item);
  });
}
// Means over stretches, so that a line has no more points than its width shows.
function coarse(values, by) {
  if (by < 2) return values;
  const out = [];
  for (let i = 0; i < values.length; i += by) {
    const part = values.slice(i, i + by);
    out.push(part.reduce((sum, v) => sum + v, 0) / part.length);
  }
  return out;
}
// Where point i begins, in pixels; the first and the last stretch may be cut by the record's ends.
const pointX = (rec, by, left, right) => i => {
  const at = rec.hours_from + i * by * rec.step_seconds;
  return left + Math.min(1, Math.max(0, (at - rec.begin) / (rec.end - rec.begin))) * (right - left);
};
function steps(values, x, y) {
  let d = '';
  values.forEach((v, i) => { d += (i ? 'L' : 'M') + round(x(i)) + ' ' + round(y(v)) + 'H' + round(x(i + 1)); });
  return d;
}
function area(low, high, x, y) {
  let back = '';
  for (let i = low.length - 1; i >= 0; --i) back += 'L' + round(x(i + 1)) + ' ' + round(y(low[i])) + 'H' + round(x(i));
  return steps(high, x, y) + back + 'Z';
}
function timeMarks(svg, rec, left, right, top, bottom, room) {
  const step = stepFor(rec.end - rec.begin, Math.max(2, (right - left) / room));
  for (let at = Math.ceil(rec.begin / step) * step; at <= rec.end; at += step) {
    const x = left + (at - rec.begin) / (rec.end - rec.begin) * (right - left);
    make('path', { class: 'grid', d: `M${round(x)} ${top}V${bottom + 3}` }, svg);
    const anchor = x > right - 18 ? 'end' : x < left + 18 ? 'start' : 'middle';
    make('text', { x: round(x), y: bottom + 16, 'text-anchor': anchor }, svg, axisText(at, step));
  }
}
function shares() {
  const rec = record(), series = rec.budgets;
  const holder = byId('shares');
  if (!series.length) return;
  const gpus = rec.nodes.reduce((sum, n) => sum + n[1], 0);
  {
    const { svg, width, height } = chart(holder, 260, 'GPUs held over time, stacked by budget. ' +
      series.map(b => `${b.name} ${round(b.held)} of ${round(b.funded_mean)} funded`).join('; '));
    const left = 42, right = width - 8, top = 8, bottom = height - 24;
    const by = Math.max(1, Math.ceil(series[0].charged.length / ((right - left) / 3)));
    const x = pointX(rec, by, left, right);
    const y = v => bottom - v / Math.max(1, gpus) * (bottom - top);
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      make('path', { class: 'grid', d: `M${left} ${y(gpus * part)}H${right}` }, svg);
      make('text', { x: left - 6, y: y(gpus * part) + 4, 'text-anchor': 'end' }, svg, round(gpus * part));
    }
    let low = coarse(series[0].charged, by).map(() => 0);
    for (const b of series) {
      const charged = coarse(b.charged, by), free = coarse(b.free, by);
      const high = low.map((v, i) => v + charged[i] + free[i]);
      const drawn = make('path', { d: area(low, high, x, y), fill: b.colour, stroke: style('--paper'), 'stroke-width': 0.4 }, svg);
      make('title', {}, drawn, b.name);
      low = high;
    }
    timeMarks(svg, rec, left, right, top, bottom, 74);
  }
  const many = byId('budgets');
  many.textContent = '';
  for (const b of series) {
    const figure = document.createElement('figure'), head = document.createElement('h3');
    head.textContent = b.name;
    const held = document.createElement('div');
    figure.append(head, held);
    const caption = document.createElement('figcaption');
    caption.textContent = `funded ${round(b.funded_mean)} GPUs, charged ${round(b.charged_mean)}, free ${round(b.held - b.charged_mean)}` +
      (b.delivered === null ? '' : `; delivered ${round(b.delivered * 100)} % of owed`);
    figure.appendChild(caption);
    many.appendChild(figure);
    const { svg, width, height } = chart(held, 120, b.name + ': ' + caption.textContent);
    const left = 30, right = width - 4, top = 6, bottom = height - 22;
    const by = Math.max(1, Math.ceil(b.charged.length / ((right - left) / 4)));
    const charged = coarse(b.charged, by), free = coarse(b.free, by);
    const total = charged.map((v, i) => v + free[i]);
    const most = Math.max(1, ...total, ...b.funded) * 1.08;
    const x = pointX(rec, by, left, right);
    const y = v => bottom - Math.min(v, most) / most * (bottom - top);
    for (const part of [0, 0.5, 1]) {
      make('text', { x: left - 5, y: y(most * part) + (part === 1 ? 9 : 4), 'text-anchor': 'end', class: 'quiet' }, svg, Math.round(most * part));
      make('path', { class: 'grid', d: `M${left} ${round(y(most * part))}H${right}` }, svg);
    }
    timeMarks(svg, rec, left, right, top, bottom, 82);
    make('path', { d: area(charged.map(() => 0), charged, x, y), fill: b.colour }, svg);
    const drawn = area(charged, total, x, y);
    make('path', { d: drawn, fill: b.colour, 'fill-opacity': 0.45 }, svg);
    make('path', { d: drawn, fill: 'url(#free-stripes)' }, svg);
    make('path', { class: 'demand', d: steps(coarse(b.demand, by), x, y) }, svg);
    make('path', { class: 'funded', d: steps(coarse(b.funded, by), x, y) }, svg);
  }
}
function show(index) {
  shown = index;
  picked = -1;
  aboutRun.textContent = aboutRun.dataset.hint;
  for (const part of document.querySelectorAll('[data-record]')) part.hidden = Number(part.dataset.record) !== index;
  arrange();
  look(view.from, view.to);
  waits();
  shares();
}
for (const button of document.querySelectorAll('#switch button'))
  button.onclick = () => {
    for (const other of document.querySelectorAll('#switch button')) other.setAttribute('aria-pressed', other === button);
    show(Number(button.dataset.show));
  };
byId('wait-lines').onchange = waits;
let lastWidth = document.documentElement.clientWidth;
addEventListener('resize', () => {
  if (document.documentElement.clientWidth === lastWidth) return;
  lastWidth = document.documentElement.clientWidth;
  arrange(); waits(); shares();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { arrange(); waits(); shares(); });
view.from = record().begin;
view.to = Math.max(record().begin + 1, record().end);
show(0);
document.documentElement.dataset.ready = 'yes';
})();
)page";

}  // namespace tranche::sim
