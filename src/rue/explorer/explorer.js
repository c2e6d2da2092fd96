"use strict";
// Plays a policy step by step and draws where it is. All numbers are in the JSON element `data`, arrays as base64.

const facts = JSON.parse(document.getElementById("data").textContent);
const part = (id) => document.getElementById(id);
const arrays = {};
for (const [name, one] of Object.entries(facts.arrays)) {
  const bytes = Uint8Array.from(atob(one.data), (letter) => letter.charCodeAt(0));
  arrays[name] = new { Int32: Int32Array, Float32: Float32Array, Float64: Float64Array }[one.kind](bytes.buffer);
}
const K = facts.samples.length, goals = new Set(facts.goals);
const graph = { initial: facts.initial, state_label: facts.states, action_label: facts.actions };
for (const name of ["choice_ptr", "action", "trans_ptr", "successor"]) graph[name] = arrays[name];
const policy = RuePlayer.parse({ ...arrays, graph });
const nodes = policy.node_state.length, stateOf = (node) => policy.node_state[node];
const range = (ptr, i) => Array.from({ length: ptr[i + 1] - ptr[i] }, (_, j) => ptr[i] + j);
const row = (name, number) => arrays[name].subarray(number * K, number * K + K); // one number for each sample
const text = (x) => x === null || x === Infinity ? "∞" : x === 0 ? "0" : Math.abs(x) < 1e-3 ? x.toExponential(1) :
  String(Number(x.toPrecision(3)));
const share = (x) => x === 0 || x === 1 ? String(x) : x < 0.005 ? "<0.01" : x > 0.995 ? ">0.99" : x.toFixed(2);

// What may happen at a node.
const entriesOf = (node) => range(policy.entry_ptr, node).map((entry) => ({
  entry, weight: policy.weight[entry], choice: policy.choice[entry], action: facts.actions[graph.action[policy.choice[entry]]],
}));
const outcomesOf = ({ entry, choice }) => range(graph.trans_ptr, choice).map((transition, place) => ({
  transition, place, state: graph.successor[transition], next: policy.next_node[policy.next_ptr[entry] + place],
  prob: row("prob", transition),
}));
const isGoal = (node) => goals.has(stateOf(node));

// Random numbers from 0 to 1 that depend on the number of the episode alone (mulberry32).
function source(seed) {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

// One episode, played by RuePlayer: the places so far, each with its belief, the cost, and the regret in each sample.
class Episode {
  constructor(sample, prior, seed) {
    this.sample = sample;
    this.player = new RuePlayer(policy, source(seed));
    this.beliefs = new RuePlayer.Belief((transition) => [...row("prob", transition)], prior);
    this.places = [{ node: this.player.node, log: this.beliefs.log, belief: this.beliefs.value, cost: 0, paid: new Float64Array(K), said: "" }];
  }
  get now() { return this.places[this.places.length - 1]; }
  get ended() { return isGoal(this.now.node); }
  step() {
    if (this.ended) return;
    this.player.act();
    const entry = this.player.entry, chances = this.player.outcomes().map((one) => row("prob", one.transition)[this.sample]);
    if (!chances.some((p) => p > 0)) return; // what was chosen before is impossible in this sample, and so is all that follows
    this.note(entry, this.player.draw(chances).transition);
  }
  take(taken, outcome) {
    this.player.entry = taken.entry;
    this.player.observe(outcome.state, outcome.place);
    this.note(taken.entry, outcome.transition);
  }
  note(entry, transition) {
    const before = this.now, choice = policy.choice[entry], gap = row("gap", choice);
    const seen = range(graph.trans_ptr, choice).filter((one, place) => // an observer sees the state and the node, no more
      graph.successor[one] === graph.successor[transition] && policy.next_node[policy.next_ptr[entry] + place] === this.player.node);
    this.beliefs.update(seen);
    this.places.push({
      node: this.player.node, entry, transition, log: this.beliefs.log, belief: this.beliefs.value,
      cost: before.cost + row("cost", choice)[this.sample], paid: before.paid.map((sum, k) => sum + gap[k]),
      said: `${facts.actions[graph.action[choice]]} to ${facts.states[graph.successor[transition]]}`,
    });
  }
  back() {
    if (this.places.length === 1) return;
    this.places.pop();
    this.player.move(this.now.node);
    this.beliefs.log = this.now.log;
  }
}

let episode, seed = 1, timer = null;
const prior = () => facts.priors[part("prior").selectedIndex].values;
function restart() {
  pause();
  episode = new Episode(part("sample").selectedIndex, prior(), seed);
  show();
}
function pause() {
  clearInterval(timer);
  timer = null;
  part("play").textContent = "Play";
  part("play").setAttribute("aria-pressed", "false");
  part("news").setAttribute("aria-live", "polite");
}
function play() {
  if (timer !== null || episode.ended) { pause(); show(); return; }
  part("play").textContent = "Pause";
  part("play").setAttribute("aria-pressed", "true");
  part("news").setAttribute("aria-live", "off"); // too fast to be read aloud; the end is
  timer = setInterval(() => { episode.step(); if (episode.ended) pause(); show(); }, Number(part("speed").value));
}
function stepOnce() { pause(); episode.step(); show(); }
function goBack() { pause(); episode.back(); show(); }
function choose(taken, outcome) { pause(); episode.take(taken, outcome); show(); }

// Figures and sentences.
function show() {
  const now = episode.now, belief = now.belief, state = facts.states[stateOf(now.node)];
  part("time").textContent = episode.places.length - 1;
  part("state").textContent = state;
  part("number").textContent = now.node;
  part("cost").textContent = text(now.cost);
  part("paid").textContent = text(now.paid[episode.sample]);
  part("expected").textContent = text(facts.regret[episode.sample]);
  for (const id of ["step", "play"]) part(id).disabled = episode.ended;
  for (const id of ["back", "again"]) part(id).disabled = episode.places.length === 1;
  part("news").textContent = sentence(now, belief, state);
  showActions(now, belief);
  showBeliefs();
  showSamples(now, belief);
  if (facts.map) drawMap();
  drawNear();
  if (whole) drawWhole();
}
function sentence(now, belief, state) {
  const likely = belief.indexOf(Math.max(...belief)), steps = episode.places.length - 1;
  const known = belief.filter((one) => one > belief[likely] - 1e-9).length > 1 ? "No sample is the most likely one."
    : `Most likely: sample ${facts.samples[likely]} (${share(belief[likely])}).`;
  const begin = now.said ? `Step ${steps}: ${now.said}.` : `Start in ${state}.`;
  if (!episode.ended) return `${begin} ${known}`;
  return `${begin} Goal after ${steps} steps: ${facts.unit} ${text(now.cost)}, regret ${text(now.paid[episode.sample])}. ${known}`;
}
function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  const { style, ...rest } = properties;
  Object.assign(made, rest);
  for (const [key, value] of Object.entries(style ?? {})) made.style.setProperty(key, value);
  made.append(...children);
  return made;
}
function showActions(now, belief) {
  const box = part("actions"), held = box.contains(document.activeElement);
  box.replaceChildren();
  if (episode.ended) box.append(element("p", { textContent: "The goal is reached. Restart, or play a new episode." }));
  for (const taken of entriesOf(now.node)) {
    const list = element("ul", { className: "outcomes" });
    const outcomes = outcomesOf(taken).sort((a, b) => b.prob[episode.sample] - a.prob[episode.sample]);
    for (const outcome of outcomes) {
      const here = outcome.prob[episode.sample], mean = belief.reduce((sum, b, k) => sum + b * outcome.prob[k], 0);
      const numbers = here > 0 ? `${share(here)} here, ${share(mean)} expected` : `never here, ${share(mean)} expected`;
      const button = element("button", { type: "button", className: here > 0 ? "outcome" : "outcome never",
        style: { "--share": `${100 * here}%` } },
        element("span", { textContent: facts.states[outcome.state] }), element("small", { textContent: numbers }));
      button.addEventListener("click", () => choose(taken, outcome));
      list.append(element("li", {}, button));
    }
    const chance = element("small", { textContent: `taken with probability ${share(taken.weight)}` });
    const bar = element("span", { className: "bar", ariaHidden: "true" },
      element("i", { style: { width: `${100 * taken.weight}%` } }));
    box.append(element("div", { className: "action" }, element("h3", {}, taken.action, chance, bar), list));
  }
  // The button that was pressed is gone: the focus moves to the first outcome, or to Restart.
  if (held) (box.querySelector("button") ?? part("again")).focus();
}

// Beliefs over time, as one stacked bar for each step. A sample keeps its colour; those that were never likely share one.
const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c8c00", "#7a5195"];
const REST = "#a0a0a0", BAR = 16, HIGH = 150, MOST_BARS = 600, LIKELY = 0.1;
function colours(beliefs) {
  const found = new Map([[episode.sample, COLOURS[0]]]), least = K <= COLOURS.length ? 0 : LIKELY;
  for (const belief of beliefs) {
    const order = [...belief.keys()].filter((k) => belief[k] > least).sort((a, b) => belief[b] - belief[a]);
    for (const k of order) if (!found.has(k) && found.size < COLOURS.length) found.set(k, COLOURS[found.size]);
  }
  return found;
}
function vector(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
function showBeliefs() {
  const first = Math.max(0, episode.places.length - MOST_BARS);
  const beliefs = episode.places.slice(first).map((place) => place.belief), colour = colours(beliefs), ordered = [...colour.keys()];
  const width = Math.max(beliefs.length * BAR + 36, 200);
  const svg = vector("svg", { width, height: HIGH + 28, role: "img", "aria-label": part("news").textContent });
  for (const level of [0, 0.5, 1])
    svg.append(vector("text", { x: 24, y: 12 + HIGH * (1 - level), "text-anchor": "end" }, String(level)));
  beliefs.forEach((belief, i) => {
    let top = 8;
    const add = (size, fill, words) => {
      const bar = vector("rect", { x: 30 + i * BAR, y: top, width: BAR - 2, height: Math.max(size * HIGH, 0), fill });
      bar.append(vector("title", {}, words));
      svg.append(bar);
      top += size * HIGH;
    };
    for (const k of ordered)
      if (belief[k] > 0) add(belief[k], colour.get(k), `step ${first + i}: sample ${facts.samples[k]} ${share(belief[k])}`);
    const rest = belief.reduce((sum, b, k) => sum + (colour.has(k) ? 0 : b), 0);
    if (rest > 0) add(rest, REST, `step ${first + i}: others ${share(rest)}`);
    if ((first + i) % 5 === 0)
      svg.append(vector("text", { x: 30 + i * BAR + BAR / 2, y: HIGH + 23, "text-anchor": "middle" }, String(first + i)));
  });
  const box = part("beliefs");
  box.replaceChildren(svg);
  box.scrollLeft = width;
  const entry = (fill, words) => element("li", {}, element("b", { style: { background: fill } }), words);
  const names = ordered.map((k) => entry(colour.get(k), `sample ${facts.samples[k]}${k === episode.sample ? ", the true one" : ""}`));
  part("legend").replaceChildren(...names, ...(K > ordered.length ? [entry(REST, "others")] : []));
}
const MOST_ROWS = 40;
function showSamples(now, belief) {
  const finite = facts.regret.filter((r) => r !== null), widest = Math.max(...finite, 1e-300);
  let order = [...belief.keys()];
  if (K > MOST_ROWS) order = order.sort((a, b) => belief[b] - belief[a]).slice(0, MOST_ROWS);
  part("rows").replaceChildren(...order.map((k) => {
    const cell = (words, size) => element("td", { className: size === undefined ? "number" : "number filled",
      textContent: words, style: size === undefined ? {} : { "--share": `${100 * size}%` } });
    const regret = facts.regret[k];
    return element("tr", { className: k === episode.sample ? "true" : "" },
      element("th", { scope: "row", textContent: facts.samples[k] + (k === episode.sample ? " (true)" : "") }),
      cell(share(belief[k]), belief[k]), cell(text(now.paid[k])), cell(text(regret), regret === null ? 1 : regret / widest));
  }));
}

// The map: cells with the costs of the sample, what is in the way, currents, the path, and what may come next.
const canvas = part("map");
const cellState = facts.map ? new Map([...arrays.cell].map((cell, state) => [cell, state]).filter((pair) => pair[0] >= 0)) : null;
function look(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
function mapSize() {
  const wide = canvas.parentElement.clientWidth, high = Math.min(innerHeight * 0.8, 620);
  return Math.max(Math.min(wide / facts.map.columns, high / facts.map.rows, 90), 4);
}
function centre(state, size) {
  const cell = arrays.cell[state], columns = facts.map.columns;
  return [(cell % columns + 0.5) * size, (Math.floor(cell / columns) + 0.5) * size];
}
function drawMap() {
  const { rows, columns, scale, heading } = facts.map, size = mapSize(), ratio = devicePixelRatio || 1;
  canvas.setAttribute("aria-label", `Map. ${part("news").textContent}`);
  canvas.width = Math.round(columns * size * ratio);
  canvas.height = Math.round(rows * size * ratio);
  canvas.style.width = `${columns * size}px`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const at = (values, state) => values[state * K + episode.sample];
  let low = Infinity, high = -Infinity;
  for (const c of arrays.entryCost ?? []) { low = Math.min(low, c); high = Math.max(high, c); }
  for (let cell = 0; cell < rows * columns; cell++) {
    const state = cellState.get(cell), x = (cell % columns) * size, y = Math.floor(cell / columns) * size;
    if (state === undefined) { pen.fillStyle = "#c9c9c9"; pen.fillRect(x, y, size, size); continue; }
    const level = arrays.entryCost && high > low ? (at(arrays.entryCost, state) - low) / (high - low) : 0;
    pen.fillStyle = scale[Math.round(level * (scale.length - 1))];
    pen.fillRect(x, y, size, size);
    const blocked = arrays.obstacle ? at(arrays.obstacle, state) : 0;
    if (blocked > 0) {
      pen.fillStyle = `rgba(58, 58, 58, ${blocked})`;
      pen.fillRect(x + size * 0.14, y + size * 0.14, size * 0.72, size * 0.72);
    }
  }
  pen.strokeStyle = "rgba(0, 0, 0, .14)";
  pen.lineWidth = 1;
  pen.beginPath();
  for (let i = 0; i <= columns; i++) { pen.moveTo(i * size, 0); pen.lineTo(i * size, rows * size); }
  for (let i = 0; i <= rows; i++) { pen.moveTo(0, i * size); pen.lineTo(columns * size, i * size); }
  pen.stroke();
  if (arrays.east && arrays.north) drawCurrents(pen, size, at);
  drawPath(pen, size, heading);
  for (const state of facts.goals) if (arrays.cell[state] >= 0) drawStar(pen, ...centre(state, size), size * 0.36);
}
function arrow(pen, x, y, angle, length, width) { // angle clockwise from north, in radians
  const dx = Math.sin(angle), dy = -Math.cos(angle), head = Math.min(length * 0.5, width * 4);
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(x + dx * (length - head), y + dy * (length - head));
  pen.lineWidth = width;
  pen.stroke();
  pen.beginPath();
  pen.moveTo(x + dx * length, y + dy * length);
  for (const side of [-1, 1])
    pen.lineTo(x + dx * (length - head) - side * dy * head * 0.5, y + dy * (length - head) + side * dx * head * 0.5);
  pen.fill();
}
function drawCurrents(pen, size, at) {
  const speeds = [...cellState.values()].map((state) => Math.hypot(at(arrays.east, state), at(arrays.north, state)));
  const fast = [...speeds].sort((a, b) => a - b)[Math.floor(speeds.length * 0.9)] || 1;
  pen.strokeStyle = pen.fillStyle = "rgba(0, 90, 150, .55)";
  for (const state of cellState.values()) {
    const east = at(arrays.east, state), north = at(arrays.north, state), [x, y] = centre(state, size);
    const length = Math.min(Math.hypot(east, north) / fast, 1) * size * 0.8, angle = Math.atan2(east, north);
    if (length > 2) arrow(pen, x - Math.sin(angle) * length / 2, y + Math.cos(angle) * length / 2, angle, length, Math.max(1, size * 0.03));
  }
}
function drawStar(pen, x, y, radius) {
  pen.beginPath();
  for (let i = 0; i < 10; i++) {
    const r = i % 2 ? radius * 0.42 : radius, angle = Math.PI * (i / 5);
    pen.lineTo(x + r * Math.sin(angle), y - r * Math.cos(angle));
  }
  pen.closePath();
  pen.fillStyle = "#009e73";
  pen.strokeStyle = "#fff";
  pen.lineWidth = 1;
  pen.fill();
  pen.stroke();
}
function drawPath(pen, size, heading) {
  const on = (node) => arrays.cell[stateOf(node)] >= 0;
  const path = episode.places.filter((place) => on(place.node)).map((place) => centre(stateOf(place.node), size));
  if (!path.length) return;
  for (const [colour, width] of [["#fff", 0.16], ["#0072b2", 0.09]]) {
    pen.strokeStyle = colour;
    pen.lineWidth = Math.max(size * width, 2);
    pen.lineJoin = pen.lineCap = "round";
    pen.beginPath();
    path.forEach(([x, y]) => pen.lineTo(x, y));
    pen.stroke();
  }
  const ring = (x, y, radius, fill, stroke) => {
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.fillStyle = fill;
    pen.strokeStyle = stroke;
    pen.lineWidth = 2;
    pen.fill();
    pen.stroke();
  };
  ring(...path[0], size * 0.14, "#fff", "#1a1a1a");
  const now = episode.now;
  if (!on(now.node)) return;
  const [x, y] = centre(stateOf(now.node), size);
  for (const { taken, outcome } of nextOutcomes(now.node)) {
    if (arrays.cell[outcome.state] < 0 || !(outcome.prob[episode.sample] > 0)) continue;
    const [a, b] = centre(outcome.state, size), inner = size * 0.42;
    pen.strokeStyle = "#d55e00";
    pen.lineWidth = Math.max(1, size * 0.1 * outcome.prob[episode.sample] * taken.weight);
    pen.strokeRect(a - inner, b - inner, 2 * inner, 2 * inner);
  }
  ring(x, y, size * 0.22, "#0072b2", "#fff");
  if (heading) for (const taken of entriesOf(now.node)) {
    pen.strokeStyle = pen.fillStyle = "#d55e00";
    const turn = heading[graph.action[taken.choice]] * Math.PI / 180;
    arrow(pen, x, y, turn, size * (0.35 + 0.55 * taken.weight), Math.max(2, size * 0.08));
  }
}
function nextOutcomes(node) {
  return entriesOf(node).flatMap((taken) => outcomesOf(taken).map((outcome) => ({ taken, outcome })));
}
function takeFirst(fits) {
  const found = nextOutcomes(episode.now.node).filter(({ outcome }) => fits(outcome));
  const chance = ({ taken, outcome }) => taken.weight * (outcome.prob[episode.sample] + 1e-9);
  found.sort((a, b) => chance(b) - chance(a));
  if (found.length) choose(found[0].taken, found[0].outcome);
}

// Two drawings of boxes in columns: what is near, and, if it is small, the graph of all nodes or of all states.
const MOST_DRAWN = 40, MOST_JOINED = 80, MOST_AHEAD = 12, BOX = { wide: 132, high: 40, across: 190, down: 54 };
const stateCount = new Set(policy.node_state).size;
let whole = nodes <= MOST_DRAWN ? (node) => node : !facts.map && stateCount <= MOST_DRAWN ? stateOf : null;
const edges = new Map(), deeds = new Map(); // of the whole graph: where each box leads, and what is done there
for (let node = 0; whole && node < nodes; node++) {
  const own = edges.get(whole(node)) ?? new Set(), does = deeds.get(whole(node)) ?? new Set();
  for (const { taken, outcome } of nextOutcomes(node)) { own.add(whole(outcome.next)); does.add(taken.action); }
  edges.set(whole(node), own);
  deeds.set(whole(node), does);
}
if ([...edges.values()].reduce((sum, own) => sum + own.size, 0) > MOST_JOINED) whole = null;
function wholeColumns() {
  const seen = new Set([...policy.start_node].map(whole)), columns = [[...seen]];
  while (columns.at(-1).length) {
    const next = new Set();
    for (const id of columns.at(-1)) for (const one of edges.get(id)) if (!seen.has(one)) next.add(one);
    next.forEach((one) => seen.add(one));
    columns.push([...next]);
  }
  return columns.slice(0, -1);
}
function route(from, to) { // ahead: from side to side; within a column: beside it; back: below
  const a = from.x + BOX.wide, b = from.y + BOX.high / 2, c = to.x, d = to.y + BOX.high / 2;
  if (c > a) return `M${a} ${b}C${(a + c) / 2} ${b} ${(a + c) / 2} ${d} ${c} ${d}`;
  if (c === from.x) return `M${a} ${b}C${a + 40} ${b} ${a + 40} ${d} ${a} ${d}`;
  const low = Math.max(from.y, to.y) + BOX.high + 22, half = BOX.wide / 2;
  return `M${from.x + half} ${from.y + BOX.high}C${from.x + half} ${low} ${c + half} ${low} ${c + half} ${to.y + BOX.high}`;
}
function drawBoxes(box, columns, joins, words) {
  const tallest = Math.max(...columns.map((column) => column.length)), cut = (t, most) => t.length > most ? `${t.slice(0, most - 1)}…` : t;
  const size = { width: columns.length * BOX.across - BOX.across + BOX.wide + 44, height: tallest * BOX.down + 12 };
  const svg = vector("svg", { ...size, role: "img", "aria-label": words });
  columns.forEach((column, i) => column.forEach((one, j) => {
    one.x = 8 + i * BOX.across;
    one.y = 6 + (j + (tallest - column.length) / 2) * BOX.down;
  }));
  for (const [from, to, kind] of joins) svg.append(vector("path", { d: route(from, to), class: kind }));
  for (const one of columns.flat()) {
    const group = vector("g", { class: `node ${one.kind}`, transform: `translate(${one.x} ${one.y})` },
      vector("title", {}, `${one.name}: ${one.does}`), vector("rect", { width: BOX.wide, height: BOX.high, rx: 4 }),
      vector("text", { x: 8, y: 17 }, cut(one.name, 18)), vector("text", { x: 8, y: 33, class: "small" }, cut(one.does, 20)));
    if (one.take) group.addEventListener("click", one.take);
    svg.append(group);
  }
  box.replaceChildren(svg);
  const here = columns.flat().find((one) => one.kind.includes("now"));
  if (here) box.scrollTo(here.x - box.clientWidth / 3, here.y - box.clientHeight / 2);
}
const deed = (node) => isGoal(node) ? "goal" : [...new Set(entriesOf(node).map((one) => one.action))].join(" or ");
function drawNear() {
  const now = episode.now.node, ahead = new Map();
  const past = episode.places.slice(-3).map(({ node }) => ({ name: facts.states[stateOf(node)], does: deed(node), kind: "past" }));
  past.at(-1).kind = "now";
  for (const { taken, outcome } of nextOutcomes(now))
    ahead.set(outcome.next, (ahead.get(outcome.next) ?? 0) + taken.weight * outcome.prob[episode.sample]);
  const next = [...ahead].sort((a, b) => b[1] - a[1]).slice(0, MOST_AHEAD).map(([node, chance]) => ({
    name: facts.states[stateOf(node)], does: `${share(chance)} · ${deed(node)}`, kind: "next",
    take: () => takeFirst((outcome) => outcome.next === node),
  }));
  const joins = [...past.slice(1).map((one, i) => [past[i], one, "went"]), ...next.map((one) => [past.at(-1), one, "next"])];
  drawBoxes(part("near"), [...past.map((one) => [one]), ...(next.length ? [next] : [])], joins, "The last steps, and what may come next");
}
function drawWhole() {
  const now = whole(episode.now.node), been = new Set(episode.places.map((one) => whole(one.node)));
  const next = new Set(nextOutcomes(episode.now.node).map(({ outcome }) => whole(outcome.next)));
  const walked = new Set(episode.places.slice(1).map((one, i) => `${whole(episode.places[i].node)} ${whole(one.node)}`));
  const boxes = new Map(), state = (id) => whole === stateOf ? id : stateOf(id);
  const columns = wholeColumns().map((column) => column.map((id) => {
    const kind = id === now ? "now" : next.has(id) ? "next" : been.has(id) ? "past" : "";
    const does = goals.has(state(id)) ? "goal" : [...deeds.get(id)].join(" or ");
    const take = kind === "next" ? () => takeFirst((outcome) => whole(outcome.next) === id) : null;
    const one = { name: facts.states[state(id)], does, kind: goals.has(state(id)) ? `${kind} goal` : kind, take };
    boxes.set(id, one);
    return one;
  }));
  const joins = [];
  for (const [id, from] of boxes) for (const one of edges.get(id))
    if (one !== id) joins.push([from, boxes.get(one), walked.has(`${id} ${one}`) ? "went" : id === now ? "next" : ""]);
  drawBoxes(part("graph"), columns, joins, `The whole graph; now at ${facts.states[stateOf(episode.now.node)]}`);
}

// Controls.
facts.samples.forEach((name, k) => part("sample").add(new Option(`${name} (regret ${text(facts.regret[k])})`)));
part("sample").selectedIndex = facts.worst;
facts.priors.forEach((one) => part("prior").add(new Option(one.name)));
part("step").addEventListener("click", stepOnce);
part("play").addEventListener("click", play);
part("back").addEventListener("click", goBack);
part("again").addEventListener("click", restart);
part("fresh").addEventListener("click", () => { seed += 1; restart(); });
for (const id of ["sample", "prior"]) part(id).addEventListener("change", restart);
part("speed").addEventListener("change", () => { if (timer !== null) { pause(); play(); } });
document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.target !== document.body && event.target !== canvas) return;
  const does = { ArrowRight: stepOnce, ArrowLeft: goBack, Home: restart, " ": play }[event.key];
  if (does) { event.preventDefault(); does(); }
});
if (facts.map) {
  canvas.addEventListener("click", (event) => {
    const frame = canvas.getBoundingClientRect(), size = frame.width / facts.map.columns;
    const cell = Math.floor((event.clientY - frame.top) / size) * facts.map.columns + Math.floor((event.clientX - frame.left) / size);
    takeFirst((outcome) => arrays.cell[outcome.state] === cell);
  });
  const signs = [arrays.entryCost ? "the darker a cell, the more it costs to enter" : "", arrays.obstacle ? "dark squares: obstacles" : "",
    arrays.east ? "thin arrows: currents" : "", "blue: the path so far", "orange: the action, and the cells that it may lead to (click one)"];
  const [across, down] = facts.map.axis;
  part("map-key").textContent = `Across: ${across}; down: ${down}. In the true sample; ${signs.filter(Boolean).join("; ")}.`;
  addEventListener("resize", drawMap);
}
if (whole) {
  part("whole").hidden = false;
  part("graph-key").textContent = `${whole === stateOf ? "All states that the policy visits" : "All nodes of the policy"}: ` +
    "the name of the state above, what is done there below. Filled: now. Outlined: what may come next; click it.";
}
restart();
