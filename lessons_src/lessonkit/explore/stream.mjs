// Blocks with a skip, x + f(x), and a norm in one of three places: how large the stream, the gradients and the first
// steps of Adam become. Nothing here is recorded: the nets are drawn, run and trained in the browser.

// prettier-ignore
import {
  ACCENT, INK, buttons, explorable, file, label, layerNorm, layerNormBack, letters, moved, normal, points, power,
  radios, slider, tag, text, times, upTo,
} from "./host.mjs";

export const start = {
  place: "pre",
  blocks: 12,
  scale: 1,
  rate: 0.01,
  warmUp: 0,
  seed: 1,
};

const TITLE = "A residual stream with its norm in one of three places";
const [ROWS, WIDTH, CLASSES] = [8, 16, 8]; // a batch of 8 rows of 16 features; each row is a class of its own
const [STEPS, DEEPEST] = [20, 24];
const BETAS = [0.9, 0.98]; // as in lesson 11
const PLACES = ["none", "post", "pre"];

// ---- The mathematics. A matrix is an array, row by row. ----

const drawn = new Map(); // seed: all normal numbers of its deepest net, since drawing takes longer than a pass
function numbers(seed) {
  const size = WIDTH * (ROWS + CLASSES + 2 * DEEPEST * WIDTH);
  if (!drawn.has(seed)) drawn.set(seed, Array.from({ length: size }, normal(seed)));
  return drawn.get(seed);
}

/**
 * Draw a net: {x: (ROWS, WIDTH), head: (WIDTH, CLASSES), weights: blocks times [(WIDTH, WIDTH), (WIDTH, WIDTH)]}.
 * In this order, so that a deeper net starts with the same blocks.
 */
export function drawNet({ seed, blocks, scale }) {
  let at = 0;
  const matrix = (n, size) =>
    numbers(seed)
      .slice(at, (at += n))
      .map((v) => size * v);
  const x = matrix(ROWS * WIDTH, 1);
  const head = matrix(WIDTH * CLASSES, 1 / Math.sqrt(WIDTH));
  const square = () => matrix(WIDTH * WIDTH, scale / Math.sqrt(WIDTH));
  return { x, head, weights: upTo(blocks).map(() => [square(), square()]) };
}

function turned(a, m) {
  const n = a.length / m;
  const out = Array(a.length).fill(0);
  for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) out[j * n + i] = a[i * m + j];
  return out;
}

/** LayerNorm of each row of WIDTH numbers, gain 1 and bias 0. Returns {out, back}; back carries a gradient to x. */
function layerNorms(x) {
  const each = (values, act) => {
    const out = [];
    for (let i = 0; i < ROWS; i++) out.push(...act(values.slice(i * WIDTH, (i + 1) * WIDTH), i));
    return out;
  };
  const rows = [];
  const out = each(x, (row, i) => (rows[i] = layerNorm(row)).hat);
  return { out, back: (dy) => each(dy, (gradient, i) => layerNormBack(gradient, rows[i])) };
}

const identity = (x) => ({ out: x, back: (dy) => dy });

/** Mean cross-entropy of logits (ROWS, CLASSES), row i of class i. Returns {loss, back: its gradient}. */
function crossEntropy(logits) {
  let loss = 0;
  const back = Array(logits.length).fill(0);
  for (let i = 0; i < ROWS; i++) {
    const row = logits.slice(i * CLASSES, (i + 1) * CLASSES);
    const largest = Math.max(...row); // subtracted first, so that exp cannot overflow
    const total = row.reduce((a, b) => a + Math.exp(b - largest), 0);
    loss += (largest + Math.log(total) - row[i]) / ROWS;
    row.forEach((v, j) => (back[i * CLASSES + j] = (Math.exp(v - largest) / total - (i === j)) / ROWS));
  }
  return { loss, back };
}

function norm(values) {
  let sum = 0;
  for (const v of values) sum += v * v;
  return Math.sqrt(sum);
}
/** The root of the mean square: the size of one typical entry of all arrays together. */
const rms = (...arrays) => norm(arrays.map(norm)) / Math.sqrt(arrays.reduce((n, values) => n + values.length, 0));

/**
 * One pass forward and back. A block is x + relu(x W1) W2, its norm on the branch ("pre", and one more at the end),
 * after the sum ("post"), or nowhere ("none").
 * Returns {loss, stream: the size of x at the start and after each block, gradients: [dW1, dW2] of each block}.
 */
export function pass({ x, head, weights }, place) {
  const [before, after] = [place === "pre" ? layerNorms : identity, place === "post" ? layerNorms : identity];
  const stream = [rms(x)];
  const tape = [];
  for (const [W1, W2] of weights) {
    const branch = before(x);
    const hidden = times(branch.out, W1, WIDTH, WIDTH).map((v) => Math.max(0, v)); // (ROWS, WIDTH)
    const added = times(hidden, W2, WIDTH, WIDTH); // (ROWS, WIDTH)
    const end = after(x.map((v, i) => v + added[i]));
    tape.push({ branch, hidden, end });
    x = end.out;
    stream.push(rms(x));
  }
  const final = before(x);
  const { loss, back } = crossEntropy(times(final.out, head, WIDTH, CLASSES));

  let dx = final.back(times(back, turned(head, CLASSES), CLASSES, WIDTH)); // (ROWS, WIDTH)
  const gradients = [];
  for (let i = weights.length - 1; i >= 0; i--) {
    const [{ branch, hidden, end }, [W1, W2]] = [tape[i], weights[i]];
    const dSum = end.back(dx);
    const dHidden = times(dSum, turned(W2, WIDTH), WIDTH, WIDTH).map((v, j) => (hidden[j] > 0 ? v : 0));
    gradients.unshift([
      times(turned(branch.out, WIDTH), dHidden, ROWS, WIDTH),
      times(turned(hidden, WIDTH), dSum, ROWS, WIDTH),
    ]);
    const dBranch = branch.back(times(dHidden, turned(W1, WIDTH), WIDTH, WIDTH));
    dx = dSum.map((v, j) => v + dBranch[j]);
  }
  return { loss, stream, gradients };
}

/** Step t of Adam on a matrix W, in place; mean and square hold the running means. Returns what was added. */
function adam(W, gradient, { mean, square }, rate, t) {
  const [c1, c2] = BETAS.map((beta) => 1 - beta ** t);
  const added = Array(W.length).fill(0);
  for (let i = 0; i < W.length; i++) {
    const g = gradient[i];
    mean[i] = BETAS[0] * mean[i] + (1 - BETAS[0]) * g;
    square[i] = BETAS[1] * square[i] + (1 - BETAS[1]) * g * g;
    added[i] = (-rate * (mean[i] / c1)) / (Math.sqrt(square[i] / c2) + 1e-8);
    W[i] += added[i];
  }
  return added;
}

/**
 * The first steps of Adam, one a call of next(). Before the step: {loss, stream, gradient: the length of each block's
 * dW2}. The step: {update: for each block the size (rms) of what it adds to a weight}. In step t the rate is
 * rate · min(1, t / warmUp). After STEPS steps the same once more, without an update.
 */
function* training(settings, place) {
  const net = drawNet(settings);
  const memory = net.weights.map((pair) =>
    pair.map((W) => ({ mean: Array(W.length).fill(0), square: Array(W.length).fill(0) })),
  );
  for (let t = 1; t <= STEPS; t++) {
    const { loss, stream, gradients } = pass(net, place);
    const rate = settings.rate * (settings.warmUp ? Math.min(1, t / settings.warmUp) : 1);
    const update = net.weights.map((pair, b) =>
      rms(...pair.map((W, k) => adam(W, gradients[b][k], memory[b][k], rate, t))),
    );
    yield { loss, stream, gradient: gradients.map(([, dW2]) => norm(dW2)), update };
  }
  yield { loss: pass(net, place).loss };
}

const empty = () => ({ stream: [], gradient: [], loss: [], update: [] });
function keep(result, step) {
  if (!result.loss.length) [result.stream, result.gradient] = [step.stream, step.gradient];
  result.loss.push(step.loss);
  if (step.update) result.update.push(step.update);
}

/** A whole run: {stream and gradient before training, loss: STEPS + 1 numbers, update: STEPS rows, a number a block}. */
export function run(settings, place) {
  const result = empty();
  for (const step of training(settings, place)) keep(result, step);
  return result;
}

// ---- Words ----

const NAMES = { none: "no norm", post: "Post-LN", pre: "Pre-LN" };

function short(v) {
  if (v === undefined) return "…";
  if (!Number.isFinite(v)) return "too large";
  if (v === 0 || (v >= 0.001 && v < 9999.5)) return String(v >= 100 ? Math.round(v) : +v.toPrecision(v < 1 ? 2 : 3));
  return power(v);
}

function sentence({ place, blocks }, { stream, gradient, loss }) {
  const name = NAMES[place][0].toUpperCase() + NAMES[place].slice(1);
  const learned = `, and ${STEPS} steps of Adam take the loss from ${short(loss[0])} to ${short(loss.at(-1))}`;
  return [
    `${name}, ${blocks} blocks: the stream goes from ${short(stream[0])} to ${short(stream.at(-1))}, `,
    `the gradient from ${short(gradient[0])} in the first block to ${short(gradient.at(-1))} in the last one`,
    loss.length > STEPS ? `${learned}.` : ".",
  ].join("");
}

// ---- The picture: four panels ----

const SHOWN_STEPS = [1, 2, 5, 20];
const [PANEL, GAP] = [168, 14]; // height of a panel; between two panels
const INSIDE = { left: 40, right: 58, top: 26, bottom: 22 };

/** A round number at or below (above) v on a logarithmic axis: 1 or 3 times a power of ten. */
function round(v, up) {
  const below = 10 ** Math.floor(Math.log10(v));
  const steps = [1, 3, 10].map((step) => step * below);
  return up ? steps.find((step) => step >= v * 0.9999) : steps.findLast((step) => step <= v * 1.0001);
}

/** The powers of ten between two numbers, every second or third one if there are many. */
function decades(low, high) {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  const every = Math.ceil((last - first + 1) / 5);
  return Array.from({ length: last - first + 1 }, (_, i) => first + i).filter((power) => power % every === 0);
}
const powerOfTen = (exponent) =>
  Math.abs(exponent) < 4 ? String(+(10 ** exponent).toPrecision(1)) : power(10 ** exponent);

const CHOSEN = { stroke: ACCENT, "stroke-width": 2.75, opacity: 1 };
const NOT_CHOSEN = { stroke: INK, "stroke-width": 1.5, opacity: 0.6 };
const DASHES = {
  1: {},
  2: { "stroke-dasharray": "7 3" },
  5: { "stroke-dasharray": "3 3" },
  20: { "stroke-dasharray": "1 4", "stroke-linecap": "round" },
};

/** One panel. curves: [{name, values, look}], values over first, first + 1, ...; guide: {at, name}.
 * What is above the ceiling is not drawn. */
function panel({ left, top, width, title, axis, first, last, curves, guide, ceiling = Infinity }) {
  const beside = (side) => (INSIDE[side] * letters()) / 12;
  const box = {
    left: left + beside("left"),
    right: left + width - beside("right"),
    top: top + beside("top"),
    bottom: top + PANEL - beside("bottom"),
  };
  const values = [...curves.flatMap((curve) => curve.values), guide?.at].filter(
    (v) => v > 0 && v <= ceiling && v < Infinity,
  );
  const low = values.length ? round(Math.min(...values) * 0.9) : 0.1;
  const high = values.length ? round(Math.max(...values) * 1.1, true) : 10;
  const x = (at) => box.left + ((at - first) / Math.max(1, last - first)) * (box.right - box.left);
  const y = (v) => box.bottom - (Math.max(0, Math.log(v / low)) / Math.log(high / low)) * (box.bottom - box.top);
  const path = (d, look) => tag("path", { d, fill: "none", stroke: INK, ...look });
  const across = (at, look) => path(`M${box.left} ${at.toFixed(1)}H${box.right.toFixed(1)}`, look);
  const tick = (at, under, words, anchor) => label(at, under, words, anchor, { opacity: 0.75, "font-size": 11.5 });
  const parts = [
    text(left, top + letters(13), title, { "font-size": 13.5, "font-weight": 600 }),
    across(box.bottom, { opacity: 0.5 }),
    tick(box.left, box.bottom + letters() + 3, first),
    tick(box.right, box.bottom + letters() + 3, last),
    tick((box.left + box.right) / 2, box.bottom + letters() + 3, axis),
  ];
  for (const exponent of decades(low, high)) {
    const at = y(10 ** exponent);
    parts.push(across(at, { opacity: 0.13 }), tick(box.left - 5, at + letters() / 3, powerOfTen(exponent), "end"));
  }
  const names = [];
  if (guide) {
    names.push({ name: guide.name, y: y(guide.at) });
    parts.push(across(y(guide.at), { opacity: 0.5, "stroke-dasharray": "3 3" }));
  }
  for (const { name, values, look } of curves) {
    const ends = values.map((v, i) => [x(first + i), y(v)]).filter((_, i) => values[i] <= ceiling);
    if (ends.length) parts.push(path(`M${points(ends)}`, { "stroke-linejoin": "round", ...look }));
    const chosen = look.stroke === ACCENT;
    if (values.length && !(values.at(-1) <= ceiling)) names.push({ name: `${name} ↑`, y: box.top, chosen });
    else if (ends.length) names.push({ name, y: ends.at(-1)[1], chosen });
  }
  const apart = letters() + 1; // names stand beside the ends of their curves, a line apart at least
  names.sort((a, b) => a.y - b.y);
  names.forEach((name, i) => (name.y = Math.max(name.y, i ? names[i - 1].y + apart : box.top)));
  names.reverse().forEach((name, i) => (name.y = Math.min(name.y, i ? names[i - 1].y - apart : box.bottom)));
  for (const { name, y, chosen } of names)
    parts.push(text(box.right + 6, y + letters() / 3, name, chosen && { fill: ACCENT, "font-weight": 600 }));
  return parts.join("");
}

/** All panels: {markup, height}. results: {none, post, pre}, each {stream, gradient, loss, update}, as far as computed. */
function drawing({ place, blocks }, results, width) {
  const across = width >= 560 ? 2 : 1;
  const size = (width - (across - 1) * GAP) / across;
  const order = [...PLACES.filter((other) => other !== place), place]; // the chosen one on top
  const look = (other) => (other === place ? CHOSEN : NOT_CHOSEN);
  const of = (key) => order.map((other) => ({ name: NAMES[other], values: results[other][key], look: look(other) }));
  const steps = SHOWN_STEPS.filter((t) => results[place].update.length >= t);
  const updates = steps.map((t) => ({
    name: `step ${t}`,
    values: results[place].update[t - 1],
    look: { ...CHOSEN, "stroke-width": t > 1 ? 2 : 2.75, ...DASHES[t] },
  }));
  const changes = `what a step adds to a weight${size < 300 ? "" : `, ${NAMES[place]}`}`;
  const ceiling = Math.max(10, ...results[place].loss);
  const losses = { curves: of("loss"), guide: { at: Math.log(CLASSES), name: "guessing" }, ceiling };
  const panels = [
    { title: "size of the stream", axis: "after block", first: 0, last: blocks, curves: of("stream") },
    { title: "gradient of W₂", axis: "in block", first: 1, last: blocks, curves: of("gradient") },
    { title: `loss on the same ${ROWS} rows`, axis: "after step of Adam", first: 0, last: STEPS, ...losses },
    { title: changes, axis: "in block", first: 1, last: blocks, curves: updates },
  ];
  const markup = panels.map((about, i) =>
    panel({ ...about, left: (i % across) * (size + GAP), top: Math.floor(i / across) * (PANEL + GAP), width: size }),
  );
  return { markup: markup.join("\n"), height: (4 / across) * (PANEL + GAP) - GAP };
}

export function still(changes = {}) {
  const settings = { ...start, ...changes };
  const results = Object.fromEntries(PLACES.map((place) => [place, run(settings, place)]));
  const { markup, height } = drawing(settings, results, 760);
  const words = PLACES.map((place) => sentence({ ...settings, place }, results[place])).join(" ");
  const described = `Four line charts: size of the stream, gradient, loss, and change of a weight, over the blocks or steps. ${words}`;
  return file(TITLE, described, 784, height + 20, moved(12, 8, markup));
}

// ---- The page ----

const STYLE = `
.controls { display: grid; grid-template-columns: 1fr 1fr; gap: 8px 20px; align-items: end; margin: 0 0 14px; }
:is(fieldset, .acts) { grid-column: span 2; margin: 0; }
.slider { margin: 0; }
.say { min-height: 4.4em; margin: 10px 0; }
button { flex-basis: 0; white-space: nowrap; }
table { margin: 0; table-layout: auto; font-size: 13px; }
th, td { padding: 3px 2px; font-size: 11.5px; text-align: right; vertical-align: bottom; line-height: 1.25; }
tr > :first-child { text-align: left; }
@container (max-width: 340px) { th, td { padding: 3px 1px; font-size: 9.5px; } }
tbody tr { border-top: 1px solid var(--line); }
tr.chosen > * { color: var(--accent); font-weight: 650; }
@container (min-width: 560px) {
  .controls { grid-template-columns: repeat(4, 1fr); }
  .acts { order: -1; justify-self: end; }
  fieldset { order: -1; }
  th, td { padding: 3px 4px; font-size: 13px; }
}`;

const COLUMNS = [
  ["stream at the end", ({ stream }) => stream.at(-1)],
  ["gradient, first block", ({ gradient }) => gradient[0]],
  ["gradient, last block", ({ gradient }) => gradient.at(-1)],
  ["loss at first", ({ loss }) => loss[0]],
  [`loss after ${STEPS} steps`, ({ loss }) => loss[STEPS]],
];

function page(id) {
  const heads = COLUMNS.map(([name]) => `<th scope="col">${name}</th>`);
  const rows = PLACES.map(
    (place) =>
      `<tr data-place="${place}"><th scope="row">${NAMES[place]}</th>${"<td></td>".repeat(COLUMNS.length)}</tr>`,
  );
  const places = PLACES.map((place) => [place, NAMES[place]]);
  return `<div class="controls">
      ${radios(id, "place", '<span class="unseen">Place of the norm</span>', places)}
      ${slider("blocks", "blocks", 2, DEEPEST, 1)}
      ${slider("scale", "weight scale", 0.2, 2, 0.05)}
      ${slider("rate", "rate of Adam", -3, -1, 0.1)}
      ${slider("warmUp", "steps of warm-up", 0, STEPS, 1)}
      ${buttons({ draw: "other weights", reset: "reset" })}
    </div>
    <div class="stage"><svg aria-hidden="true"></svg></div>
    <p class="say"></p>
    <table>
      <thead><tr><td></td>${heads.join("")}</tr></thead>
      <tbody>${rows.join("")}</tbody>
    </table>`;
}

function connect({ state, find, all, change, write, tell }) {
  const svg = find("svg");
  const rows = all("[data-place]");
  let results = {}; // place: {stream, gradient, loss, update}, filled as it is computed
  let runs = []; // the trainings that are not over: [place, its generator]
  let computed = ""; // the settings that `results` belongs to

  /** The first step of each place at once, which gives the sizes; the others in slices, so that no frame waits. */
  function compute() {
    const { place, ...settings } = state();
    const next = ([key, steps]) => {
      const { value } = steps.next();
      if (value) keep(results[key], value);
      return value;
    };
    if (computed !== JSON.stringify(settings)) {
      computed = JSON.stringify(settings);
      results = Object.fromEntries(PLACES.map((key) => [key, empty()]));
      runs = [place, ...PLACES.filter((other) => other !== place)].map((key) => [key, training(settings, key)]);
      runs.forEach(next);
    } else {
      const end = performance.now() + 4;
      while (runs.length && performance.now() < end) if (!next(runs[0])) runs.shift();
    }
  }
  function draw({ width, calm }) {
    compute();
    if (runs.length && calm && svg.innerHTML) return true; // no curves that grow
    const now = state();
    const { markup, height } = drawing(now, results, width);
    svg.setAttribute("height", height);
    svg.innerHTML = markup;
    for (const row of rows) {
      const { place } = row.dataset;
      row.classList.toggle("chosen", place === now.place);
      COLUMNS.forEach(([, of], i) => write(row.cells[i + 1], short(of(results[place]))));
    }
    tell(sentence(now, results[now.place]));
    return runs.length > 0;
  }
  return { draw, acts: { draw: () => change({ seed: state().seed + 1 }) } };
}

const whole = { words: String };
const ranges = {
  blocks: whole,
  warmUp: whole,
  scale: { words: short },
  rate: { from: (v) => +(10 ** v).toPrecision(2), to: Math.log10, words: short },
};
export default explorable({ name: "stream", title: TITLE, start, style: STYLE, ranges, page, connect });
