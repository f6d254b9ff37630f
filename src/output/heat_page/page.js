const data = JSON.parse(document.getElementById("data").textContent);
const ROWS = 50, HEIGHT = 16, MARGIN = 56;
const byId = (id) => document.getElementById(id);
const { names, kinds, parents, frames, cells, nodes, weights } = data;
const count = parents.length;

// The ranges, as cells [first, last]; null: not selected.
const state = { a: null, b: null, pickB: false, diff: false, zoom: 0, search: "" };

byId("title").textContent = data.title;
byId("subtitle").textContent = data.subtitle;

const lastCell = cells.length ? cells[cells.length - 1] : 0;
const columns = Math.floor(lastCell / ROWS) + 1;
const perCell = new Map();
let most = 1;
for (let i = 0; i < cells.length; i++) {
  const sum = (perCell.get(cells[i]) || 0) + weights[i];
  perCell.set(cells[i], sum);
  if (sum > most) most = sum;
}

function time(cell) { return (cell * data.cell_ns / 1e9).toFixed(3); }

function amount(value) {
  if (data.unit !== "ns") return value + " " + data.unit;
  if (value >= 1e9) return (value / 1e9).toFixed(3) + " s";
  return value >= 1e6 ? (value / 1e6).toFixed(3) + " ms" : (value / 1e3).toFixed(1) + " us";
}

function percent(part, all) { return all > 0 ? (100 * part / all).toFixed(2) + " %" : "-"; }

// --- the map

const canvas = byId("map");
const cellWidth = Math.max(1, Math.min(48, Math.floor(1100 / columns))), cellHeight = 6;
canvas.width = MARGIN + Math.max(columns * cellWidth, 300) + 8;
canvas.height = ROWS * cellHeight + 24;
const paint = canvas.getContext("2d");

function shade(share) {
  const scale = [[255, 237, 160], [254, 178, 76], [240, 59, 32], [110, 0, 30]];
  const at = Math.min(Math.max(share, 0), 1) * 3, from = Math.min(Math.floor(at), 2);
  const mix = (i) =>
    Math.round(scale[from][i] + (scale[from + 1][i] - scale[from][i]) * (at - from));
  return `rgb(${mix(0)},${mix(1)},${mix(2)})`;
}

function drawMap() {
  paint.fillStyle = "#fff";
  paint.fillRect(0, 0, canvas.width, canvas.height);
  paint.fillStyle = "#fff8f0";
  paint.fillRect(MARGIN, 0, columns * cellWidth, ROWS * cellHeight);
  const box = (cell) => [MARGIN + Math.floor(cell / ROWS) * cellWidth,
    (ROWS - 1 - cell % ROWS) * cellHeight, cellWidth, cellHeight];
  for (const [cell, sum] of perCell) {
    paint.fillStyle = shade(sum / most);
    paint.fillRect(...box(cell));
  }
  for (const [range, colour] of [[state.a, "43,95,158"], [state.b, "176,74,0"]]) {
    if (!range) continue;
    paint.fillStyle = `rgba(${colour},0.35)`;
    const [from, to] = range.map((cell) => Math.floor(cell / ROWS));
    for (let column = from; column <= to; column++) {
      const first = Math.max(range[0], column * ROWS);
      const last = Math.min(range[1], column * ROWS + ROWS - 1);
      const [x, y] = box(last);
      paint.fillRect(x, y, cellWidth, (last - first + 1) * cellHeight);
    }
  }
  paint.fillStyle = "#555";
  paint.font = "11px sans-serif";
  const columnSeconds = data.cell_ns * ROWS / 1e9;
  for (let quarter = 0; quarter <= 4; quarter++) {
    const y = Math.max(ROWS * cellHeight * (1 - quarter / 4), 10);
    paint.fillText((columnSeconds * quarter / 4).toFixed(2) + " s", 8, y);
  }
  const step = Math.max(1, Math.ceil(70 / cellWidth));
  for (let column = 0; column < columns; column += step) {
    const x = MARGIN + column * cellWidth;
    paint.fillText((column * columnSeconds).toFixed(0) + " s", x, ROWS * cellHeight + 16);
  }
}

function cellAt(event) {
  const frame = canvas.getBoundingClientRect();
  const x = (event.clientX - frame.left) * canvas.width / frame.width - MARGIN;
  const y = (event.clientY - frame.top) * canvas.height / frame.height;
  const column = Math.min(Math.max(Math.floor(x / cellWidth), 0), columns - 1);
  const row = Math.min(Math.max(ROWS - 1 - Math.floor(y / cellHeight), 0), ROWS - 1);
  return column * ROWS + row;
}

let start = null, startB = false;
canvas.addEventListener("mousedown", (event) => {
  start = cellAt(event);
  startB = event.shiftKey || state.pickB;
});
canvas.addEventListener("mousemove", (event) => {
  const cell = cellAt(event);
  byId("status").textContent = `${time(cell)} s: ${amount(perCell.get(cell) || 0)}`;
  if (start !== null) { select(start, cell, startB); drawMap(); }
});
window.addEventListener("mouseup", (event) => {
  if (start === null) return;
  select(start, cellAt(event), startB);
  start = null;
  if (startB) { state.pickB = false; state.diff = true; }
  update();
});
canvas.addEventListener("dblclick", () => {
  state.a = state.b = null;
  update();
});

function select(one, other, isB) {
  state[isB ? "b" : "a"] = [Math.min(one, other), Math.max(one, other)];
}

// --- the flame graph

/// Returns the weight of each node in a range of cells, its children included.
function sums(range) {
  const all = new Float64Array(count);
  for (let i = 0; i < cells.length; i++) {
    if (!range || (cells[i] >= range[0] && cells[i] <= range[1])) all[nodes[i]] += weights[i];
  }
  for (let i = count - 1; i > 0; i--) all[parents[i]] += all[i];
  return all;
}

const children = Array.from({ length: count }, () => []);
for (let i = 1; i < count; i++) children[parents[i]].push(i);
const nameOf = (node) => names[frames[node]];
for (const list of children) list.sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));

function colour(node, change) {
  if (change !== null) {
    const strength = Math.min(Math.abs(change) * 8, 1), other = Math.round(235 - 175 * strength);
    return change > 0 ? `rgb(245,${other},${other})` : `rgb(${other},${other},245)`;
  }
  let hash = 0;
  const name = nameOf(node);
  for (let i = 0; i < name.length; i++) hash = (hash * 31 + name.charCodeAt(i)) % 997;
  const light = 60 + hash % 15;
  return ["hsl(12 80% ", "hsl(32 90% ", "hsl(180 55% "][kinds[frames[node]]] + light + "%)";
}

function pattern() {
  if (!state.search) return null;
  try { return new RegExp(state.search); } catch (error) { return undefined; }
}

let shown = { a: sums(null), b: null };

function drawFlame() {
  const isDiff = state.diff && state.b !== null;
  const { a, b } = shown, by = isDiff ? b : a, box = byId("flame");
  const width = Math.max(box.clientWidth || 1100, 300), wanted = pattern();
  box.replaceChildren();
  const place = new Map(), path = [];
  for (let node = state.zoom; node > 0; node = parents[node]) path.unshift(parents[node]);
  let deepest = 0, matched = 0;
  const visit = (node, x, depth, scale, isMatched) => {
    const wide = by[node] * scale;
    if (wide < 0.5) return;
    const found = Boolean(wanted) && node > 0 && wanted.test(nameOf(node));
    if (found && !isMatched) matched += by[node];
    place.set(node, [x, depth, wide, found]);
    deepest = Math.max(deepest, depth);
    for (const child of children[node]) {
      visit(child, x, depth + 1, scale, isMatched || found);
      x += by[child] * scale;
    }
  };
  path.forEach((node, depth) => place.set(node, [0, depth, width, false]));
  if (by[state.zoom] > 0) visit(state.zoom, 0, path.length, width / by[state.zoom], false);
  box.style.height = (deepest + 1) * HEIGHT + "px";
  for (const [node, [x, depth, wide, found]] of place) {
    const frame = document.createElement("div");
    const change = isDiff ? b[node] / (b[0] || 1) - a[node] / (a[0] || 1) : null;
    frame.style.left = x + "px";
    frame.style.width = wide + "px";
    frame.style.top = (deepest - depth) * HEIGHT + "px";
    frame.style.background = colour(node, change);
    if (found) frame.className = "found";
    if (wide > 20) frame.textContent = nameOf(node);
    frame.title = describe(node, isDiff);
    frame.dataset.name = nameOf(node);
    frame.dataset.weight = by[node];
    frame.addEventListener("click", () => { state.zoom = node; drawFlame(); remember(); });
    frame.addEventListener("mouseenter", () => { byId("status").textContent = frame.title; });
    box.append(frame);
  }
  byId("matched").textContent = wanted === undefined ? "not a regular expression"
    : wanted ? `matched: ${percent(matched, by[0])}` : "";
}

function describe(node, isDiff) {
  const { a, b } = shown;
  if (!isDiff) return `${nameOf(node)}: ${amount(a[node])}, ${percent(a[node], a[0])}`;
  const change = 100 * (b[node] / (b[0] || 1) - a[node] / (a[0] || 1));
  return `${nameOf(node)}: A ${percent(a[node], a[0])}, B ${percent(b[node], b[0])}, ` +
    `${change > 0 ? "+" : ""}${change.toFixed(2)} points`;
}

function update() {
  shown = { a: sums(state.a), b: state.b ? sums(state.b) : null };
  if (!state.b) state.diff = false;
  const range = (of) => `${time(of[0])} s to ${time(of[1] + 1)} s`;
  const all = state.a ? range(state.a) : "all";
  byId("range_a").textContent = `A: ${all}, ${amount(shown.a[0])}`;
  byId("range_b").textContent = state.b ? "B: " + range(state.b) + ", " + amount(shown.b[0]) : "";
  byId("pick_b").setAttribute("aria-pressed", state.pickB);
  byId("diff").setAttribute("aria-pressed", state.diff);
  byId("diff").disabled = byId("swap").disabled = !state.b;
  drawMap();
  drawFlame();
  remember();
}

// --- the address: the selection can be kept as a link

function remember() {
  const parts = [];
  for (const name of ["a", "b"]) if (state[name]) parts.push(`${name}=${state[name].join("-")}`);
  if (state.diff) parts.push("diff=1");
  if (state.zoom) parts.push("zoom=" + state.zoom);
  if (state.search) parts.push("search=" + encodeURIComponent(state.search));
  try { history.replaceState(null, "", "#" + parts.join("&")); } catch (error) { /* not allowed */ }
}

function recall() {
  for (const part of location.hash.slice(1).split("&")) {
    const [name, value = ""] = part.split("=");
    const range = /^(\d+)-(\d+)$/.exec(value);
    if ((name === "a" || name === "b") && range) {
      const [from, to] = [range[1], range[2]].map((cell) => Math.min(Number(cell), ROWS * columns - 1));
      select(from, to, name === "b");
    }
    if (name === "diff") state.diff = true;
    if (name === "zoom" && /^\d+$/.test(value) && Number(value) < count) state.zoom = Number(value);
    if (name === "search") { try { state.search = decodeURIComponent(value); } catch (error) { } }
  }
  byId("search").value = state.search;
}

byId("pick_b").addEventListener("click", () => { state.pickB = !state.pickB; update(); });
byId("diff").addEventListener("click", () => { state.diff = !state.diff; update(); });
byId("swap").addEventListener("click", () => {
  [state.a, state.b] = [state.b, state.a];
  update();
});
byId("reset").addEventListener("click", () => {
  Object.assign(state, { a: null, b: null, pickB: false, diff: false, zoom: 0, search: "" });
  byId("search").value = "";
  update();
});
byId("search").addEventListener("input", (event) => {
  state.search = event.target.value;
  drawFlame();
  remember();
});
window.addEventListener("resize", drawFlame);
recall();
update();
