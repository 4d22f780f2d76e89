// Blocks with a skip, x + f(x), and a norm in one of three places: how large the stream, the gradients and the first
// steps of Adam become. Nothing here is recorded: the nets are drawn, run and trained in the browser.
// An anywidget front-end module: JupyterLab and a page without a kernel run this same file. No library, no network.
// The model holds what `start` lists. `still()` draws the same as text, for viewers that run no script.

// ---- What the model holds, and how it starts ----

export const start = {
  place: "pre", // the place that is looked at: "none", "post" (after the sum) or "pre" (on the branch)
  blocks: 12, // 2 to 24
  scale: 1, // weight scale: weights are drawn with the standard deviation scale / √WIDTH
  rate: 0.01, // of Adam
  warmUp: 0, // steps in which the rate rises linearly
  seed: 1, // of the weights
};

const [ROWS, WIDTH, CLASSES] = [8, 16, 8]; // a batch of 8 rows of 16 features; each row is a class of its own
const [EPS, STEPS, DEEPEST] = [1e-5, 20, 24];
const BETAS = [0.9, 0.98]; // as in lesson 11
const PLACES = ["none", "post", "pre"];

// ---- The mathematics: pure functions, compared with torch by the tests. A matrix is a Float64Array, row by row. ----

/** Mulberry32, a small generator of numbers in [0, 1): 32 bits of state, the same numbers for a seed everywhere. */
function uniform(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), seed | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const drawn = new Map(); // seed: all normal numbers of its deepest net, since drawing takes longer than a pass

/**
 * Draw a net: {x: (ROWS, WIDTH), head: (WIDTH, CLASSES), weights: blocks times [(WIDTH, WIDTH), (WIDTH, WIDTH)]}.
 * In this order, so that a deeper net starts with the same blocks. Box and Muller, one number of two uniform ones.
 */
export function drawNet({ seed, blocks, scale }) {
  if (!drawn.has(seed)) {
    const next = uniform(seed);
    const normal = () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
    drawn.set(seed, Float64Array.from({ length: WIDTH * (ROWS + CLASSES + 2 * DEEPEST * WIDTH) }, normal));
  }
  let at = 0;
  const matrix = (n, size) =>
    drawn
      .get(seed)
      .slice(at, (at += n))
      .map((v) => size * v);
  const x = matrix(ROWS * WIDTH, 1);
  const head = matrix(WIDTH * CLASSES, 1 / Math.sqrt(WIDTH));
  const one = () => matrix(WIDTH * WIDTH, scale / Math.sqrt(WIDTH));
  return { x, head, weights: Array.from({ length: blocks }, () => [one(), one()]) };
}

/** a (n, k) times b (k, m): (n, m). */
function times(a, b, k, m) {
  const n = a.length / k;
  const out = new Float64Array(n * m);
  for (let i = 0; i < n; i++) {
    for (let l = 0; l < k; l++) {
      const factor = a[i * k + l];
      for (let j = 0; j < m; j++) out[i * m + j] += factor * b[l * m + j];
    }
  }
  return out;
}

/** a (n, m) turned: (m, n). */
function turned(a, m) {
  const n = a.length / m;
  const out = new Float64Array(a.length);
  for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) out[j * n + i] = a[i * m + j];
  return out;
}

/** LayerNorm of each row of WIDTH numbers, gain 1 and bias 0. Returns {out, back}; back carries a gradient to x. */
function layerNorm(x) {
  const out = new Float64Array(x.length);
  const rstd = [];
  for (let i = 0; i < x.length; i += WIDTH) {
    const row = x.subarray(i, i + WIDTH);
    const mean = row.reduce((a, b) => a + b, 0) / WIDTH;
    const variance = row.reduce((a, b) => a + (b - mean) ** 2, 0) / WIDTH;
    rstd.push(1 / Math.sqrt(variance + EPS));
    row.forEach((v, j) => (out[i + j] = (v - mean) * rstd.at(-1)));
  }
  const back = (dy) => {
    const dx = new Float64Array(x.length);
    for (let i = 0; i < x.length; i += WIDTH) {
      let [meanDy, meanDyX] = [0, 0];
      for (let j = i; j < i + WIDTH; j++) {
        meanDy += dy[j] / WIDTH;
        meanDyX += (dy[j] * out[j]) / WIDTH;
      }
      for (let j = i; j < i + WIDTH; j++) dx[j] = rstd[i / WIDTH] * (dy[j] - meanDy - out[j] * meanDyX);
    }
    return dx;
  };
  return { out, back };
}

/** No norm: the same interface. */
const identity = (x) => ({ out: x, back: (dy) => dy });

/** Mean cross-entropy of logits (ROWS, CLASSES), row i of class i. Returns {loss, back: its gradient}. */
function crossEntropy(logits) {
  let loss = 0;
  const back = new Float64Array(logits.length);
  for (let i = 0; i < ROWS; i++) {
    const row = logits.subarray(i * CLASSES, (i + 1) * CLASSES);
    const largest = Math.max(...row); // subtracted first, so that exp cannot overflow
    const total = row.reduce((a, b) => a + Math.exp(b - largest), 0);
    loss += (largest + Math.log(total) - row[i]) / ROWS;
    row.forEach((v, j) => (back[i * CLASSES + j] = (Math.exp(v - largest) / total - (i === j)) / ROWS));
  }
  return { loss, back };
}

/** The length of a matrix, all its entries taken as one row. */
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
  const [before, after] = [place === "pre" ? layerNorm : identity, place === "post" ? layerNorm : identity];
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
  const added = new Float64Array(W.length);
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
    pair.map((W) => ({ mean: new Float64Array(W.length), square: new Float64Array(W.length) })),
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

/** What is drawn of one place: stream and gradient before training, and what steps add to the losses and updates. */
const empty = () => ({ stream: [], gradient: [], loss: [], update: [] });
function keep(result, step) {
  if (!result.loss.length) [result.stream, result.gradient] = [step.stream, step.gradient];
  result.loss.push(step.loss);
  if (step.update) result.update.push(step.update);
}

/**
 * A whole run: {stream: the size before and after each block, gradient: of each block, both before training;
 * loss: STEPS + 1 numbers; update: STEPS rows of one number a block}.
 */
export function run(settings, place) {
  const result = empty();
  for (const step of training(settings, place)) keep(result, step);
  return result;
}

// ---- Words ----

const NAMES = { none: "no norm", post: "Post-LN", pre: "Pre-LN" };

/** A number with two or three digits; one digit and a power of ten where it would be long. */
function fmt(v) {
  if (v === undefined) return "…";
  if (!Number.isFinite(v)) return "too large";
  if (v === 0 || (v >= 0.001 && v < 9999.5)) return String(v >= 100 ? Math.round(v) : +v.toPrecision(v < 1 ? 2 : 3));
  const [factor, power] = v.toExponential(0).split("e");
  return `${factor}·10${power.replace("+", "").replace(/./g, (c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)])}`;
}

/** What the chosen place does to the net, in numbers that are all in the pictures. */
function sentence({ place, blocks }, { stream, gradient, loss }) {
  const name = NAMES[place][0].toUpperCase() + NAMES[place].slice(1);
  const head = `${name}, ${blocks} blocks: the stream goes from ${fmt(stream[0])} to ${fmt(stream.at(-1))}, `;
  const rest =
    loss.length > STEPS
      ? `, and ${STEPS} steps of Adam take the loss from ${fmt(loss[0])} to ${fmt(loss.at(-1))}.`
      : ".";
  return `${head}the gradient from ${fmt(gradient[0])} in the first block to ${fmt(gradient.at(-1))} in the last one${rest}`;
}

// ---- The picture: four panels, SVG as text, the same in a browser and under Node ----

const SHOWN_STEPS = [1, 2, 5, 20];
const [PANEL, GAP] = [168, 14]; // height of a panel; between two panels
const INSIDE = { left: 40, right: 58, top: 26, bottom: 22 };

/** A round number at or below (above) v on a logarithmic axis: 1 or 3 times a power of ten. */
function round(v, up) {
  const power = 10 ** Math.floor(Math.log10(v));
  const steps = [1, 3, 10].map((step) => step * power);
  return up ? steps.find((step) => step >= v * 0.9999) : steps.findLast((step) => step <= v * 1.0001);
}

/** The powers of ten between two numbers, every second or third one if there are many. */
function decades(low, high) {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  const every = Math.ceil((last - first + 1) / 5);
  return Array.from({ length: last - first + 1 }, (_, i) => first + i).filter((power) => power % every === 0);
}
const powerOfTen = (power) =>
  Math.abs(power) < 4 ? String(+(10 ** power).toPrecision(1)) : fmt(10 ** power).replace("1·", "");

/** One panel. curves: [{name, values, kind}], values over first, first + 1, ...; kind: its class. guide: {at, name}.
 * What is above the ceiling is not drawn. */
function panel({ left, top, width, title, axis, first, last, curves, guide, ceiling = Infinity }) {
  const box = {
    left: left + INSIDE.left,
    right: left + width - INSIDE.right,
    top: top + INSIDE.top,
    bottom: top + PANEL - INSIDE.bottom,
  };
  const seen = [...curves.flatMap(({ values }) => values), guide?.at].filter(
    (v) => v > 0 && v <= ceiling && v < Infinity,
  );
  const [low, high] = seen.length ? [round(Math.min(...seen) * 0.9), round(Math.max(...seen) * 1.1, true)] : [0.1, 10];
  const x = (at) => box.left + ((at - first) / Math.max(1, last - first)) * (box.right - box.left);
  const y = (v) => box.bottom - (Math.max(0, Math.log(v / low)) / Math.log(high / low)) * (box.bottom - box.top);
  const text = (a, b, words, kind) => `<text class="${kind}" x="${a.toFixed(1)}" y="${b.toFixed(1)}">${words}</text>`;
  const across = (b, kind) => `<path class="${kind}" d="M${box.left} ${b.toFixed(1)}H${box.right.toFixed(1)}"/>`;
  const out = [text(left, top + 13, title, "title"), across(box.bottom, "axis")];
  for (const power of decades(low, high)) {
    const b = y(10 ** power);
    out.push(across(b, "grid"), text(box.left - 5, b + 4, powerOfTen(power), "tick left"));
  }
  out.push(
    text(box.left, box.bottom + 15, first, "tick"),
    text(box.right, box.bottom + 15, last, "tick"),
    text((box.left + box.right) / 2, box.bottom + 15, axis, "tick"),
  );
  if (guide) out.push(across(y(guide.at), "guide"));
  const labels = guide ? [{ name: guide.name, y: y(guide.at), kind: "" }] : [];
  for (const { name, values, kind } of curves) {
    const points = values.map((v, i) => [x(first + i), y(v)]).filter((_, i) => values[i] <= ceiling);
    const line = points.map((point) => point.map((v) => v.toFixed(1)).join(" ")).join("L");
    if (line) out.push(`<path class="curve ${kind}" d="M${line}"/>`);
    const above = values.length && !(values.at(-1) <= ceiling);
    if (above) labels.push({ name: `${name} ↑`, y: box.top, kind });
    else if (line) labels.push({ name, y: points.at(-1)[1], kind });
  }
  labels.sort((a, b) => a.y - b.y); // names stand beside the ends of their curves, 13 pixels apart at least
  labels.forEach((label, i) => (label.y = Math.max(label.y, i ? labels[i - 1].y + 13 : box.top)));
  labels.reverse().forEach((label, i) => (label.y = Math.min(label.y, i ? labels[i - 1].y - 13 : box.bottom)));
  for (const label of labels) out.push(text(box.right + 6, label.y + 4, label.name, `name ${label.kind}`));
  return out.join("");
}

/** All panels: {markup, height}. results: {none, post, pre}, each {stream, gradient, loss, update}, as far as computed. */
function drawing({ place, blocks }, results, width) {
  const across = width >= 560 ? 2 : 1;
  const size = (width - (across - 1) * GAP) / across;
  const order = [...PLACES.filter((other) => other !== place), place]; // the chosen one on top
  const of = (key) =>
    order.map((other) => ({ name: NAMES[other], values: results[other][key], kind: other === place ? "chosen" : "" }));
  const steps = SHOWN_STEPS.filter((t) => results[place].update.length >= t);
  const updates = steps.map((t) => ({
    name: `step ${t}`,
    values: results[place].update[t - 1],
    kind: `chosen step-${t}`,
  }));
  const panels = [
    { title: "size of the stream", axis: "after block", first: 0, last: blocks, curves: of("stream") },
    { title: "gradient of W₂", axis: "in block", first: 1, last: blocks, curves: of("gradient") },
    {
      title: `loss on the same ${ROWS} rows`,
      axis: "after step of Adam",
      first: 0,
      last: STEPS,
      curves: of("loss"),
      guide: { at: Math.log(CLASSES), name: "guessing" },
      ceiling: Math.max(10, ...results[place].loss),
    },
    {
      title: `what a step adds to a weight, ${NAMES[place]}`,
      axis: "in block",
      first: 1,
      last: blocks,
      curves: updates,
    },
  ];
  const markup = panels.map((one, i) =>
    panel({ ...one, left: (i % across) * (size + GAP), top: Math.floor(i / across) * (PANEL + GAP), width: size }),
  );
  return { markup: markup.join(""), height: (4 / across) * (PANEL + GAP) - GAP };
}

const SHAPES = `
  path { fill: none; stroke: currentColor; }
  path.axis { opacity: 0.5; }
  path.grid { opacity: 0.13; }
  path.guide { opacity: 0.5; stroke-dasharray: 3 3; }
  path.curve { stroke-width: 1.5; opacity: 0.6; stroke-linejoin: round; }
  path.chosen { stroke: var(--accent); stroke-width: 2.75; opacity: 1; }
  path.step-2 { stroke-width: 2; stroke-dasharray: 7 3; }
  path.step-5 { stroke-width: 2; stroke-dasharray: 3 3; }
  path.step-20 { stroke-width: 2; stroke-dasharray: 1 4; stroke-linecap: round; }
  text { fill: currentColor; font-size: 12px; }
  text.title { font-size: 13.5px; font-weight: 600; }
  text.tick { text-anchor: middle; opacity: 0.75; font-size: 11.5px; }
  text.left { text-anchor: end; }
  text.chosen { fill: var(--accent); font-weight: 600; }`;

/** The same rules for an SVG file: in plain colors, and for this file alone, since a page may hold several. */
const FILE_SHAPES = SHAPES.replaceAll("var(--accent)", "#0672b2").replace(/\n {2}/g, "\n  .ln-stream-file ");

/** The picture of a state as an SVG file of its own. */
export function still(state = {}, width = 760) {
  const settings = { ...start, ...state };
  const results = Object.fromEntries(PLACES.map((place) => [place, run(settings, place)]));
  const { markup, height } = drawing(settings, results, width);
  const words = PLACES.map((place) => sentence({ ...settings, place }, results[place])).join(" ");
  return `<svg xmlns="http://www.w3.org/2000/svg" class="ln-stream-file" color="#1f2328" font-family="system-ui, sans-serif" viewBox="-12 -8 ${width + 24} ${height + 20}" width="${width + 24}" role="img">
<title>A residual stream with its norm in one of three places</title>
<desc>Four line charts: size of the stream, gradient, loss, and change of a weight, over the blocks or steps. ${words}</desc>
<style>${FILE_SHAPES}
</style>
<rect x="-12" y="-8" width="100%" height="100%" fill="#ffffff"/>
${markup.replaceAll("><", ">\n<")}
</svg>
`;
}

// ---- The page around the picture ----

const STYLE = `
.ln-stream {
  --accent: color-mix(in srgb, currentColor 20%, #0086d4); /* darker on a light page, lighter on a dark one */
  --soft: color-mix(in srgb, currentColor 66%, transparent);
  --edge: color-mix(in srgb, currentColor 22%, transparent);
  max-width: 900px; font-size: 14px; line-height: 1.45; color: inherit;
  & * { box-sizing: border-box; }
  .controls { display: grid; grid-template-columns: 1fr 1fr; gap: 8px 20px; align-items: end; margin: 0 0 14px; }
  :is(.track, .buttons) { grid-column: span 2; }
  &.wide .controls { grid-template-columns: repeat(4, 1fr); }
  .track { display: grid; grid-template-columns: repeat(3, 1fr); min-width: 0; margin: 0; padding: 0; border: 1px solid var(--edge); border-radius: 8px; }
  .track label { position: relative; display: grid; place-items: center; min-height: 36px; margin: 0; border-radius: 7px; }
  .track input { position: absolute; inset: 0; width: 100%; height: 100%; margin: 0; opacity: 0; cursor: pointer; }
  .track label:has(:checked) { background: color-mix(in srgb, currentColor 12%, transparent); box-shadow: inset 0 -3px var(--accent); font-weight: 650; }
  .track label:not(:has(:checked)):hover, button:hover { background: color-mix(in srgb, currentColor 8%, transparent); }
  .track label:has(:focus-visible), :focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
  .range { display: grid; grid-template-columns: 1fr auto; margin: 0; }
  .range input { grid-column: 1 / -1; width: 100%; height: 24px; margin: 0; accent-color: currentColor; cursor: pointer; }
  output { color: inherit; font-variant-numeric: tabular-nums; }
  .buttons { display: flex; gap: 8px; }
  &.wide .buttons { justify-self: end; order: -1; }
  &.wide .track { order: -1; }
  button { flex: auto; min-height: 36px; padding: 0 8px; white-space: nowrap; font: inherit; color: inherit; background: none; border: 1px solid var(--edge); border-radius: 8px; cursor: pointer; }
  input, button { color: inherit; }
  svg { display: block; width: 100%; overflow: visible; } ${SHAPES}
  .say { min-height: 4.4em; margin: 10px 0; font-size: 15px; text-wrap: pretty; }
  table { width: 100%; margin: 0; border-collapse: collapse; font: inherit; font-size: 13px; font-variant-numeric: tabular-nums; }
  tr { border: 0; background: none; }
  :is(th, td) { padding: 3px 4px; border: 0; background: none; color: inherit; font-weight: 400; text-align: right; vertical-align: bottom; line-height: 1.25; }
  tr > :first-child { padding-left: 0; text-align: left; white-space: nowrap; }
  thead > tr > * { font-size: 12px; color: var(--soft); }
  &:not(.wide) :is(th, td) { padding: 3px 2px; font-size: 11.5px; }
  tbody tr { border-top: 1px solid var(--edge); }
  .chosen > * { color: var(--accent); font-weight: 650; }
  .unseen { position: absolute; width: 1px; height: 1px; margin: 0; padding: 0; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
  @media (pointer: coarse) { button, .track label { min-height: 44px; } .range input { height: 36px; } }
  @media (forced-colors: active) { .track label:has(:checked) { outline: 2px solid Highlight; } }
}`;

/** The four ranges: the model's key, its name, the range's ends and step, from a range's value to the model's and back. */
const RANGES = [
  { key: "blocks", name: "blocks", low: 2, high: DEEPEST, step: 1, from: (v) => v, to: (v) => v },
  { key: "scale", name: "weight scale", low: 0.2, high: 2, step: 0.05, from: (v) => v, to: (v) => v },
  {
    key: "rate",
    name: "rate of Adam",
    low: -3,
    high: -1,
    step: 0.1,
    from: (v) => +(10 ** v).toPrecision(2),
    to: Math.log10,
  },
  { key: "warmUp", name: "steps of warm-up", low: 0, high: STEPS, step: 1, from: (v) => v, to: (v) => v },
];
const COLUMNS = [
  ["stream at the end", ({ stream }) => stream.at(-1)],
  ["gradient, first block", ({ gradient }) => gradient[0]],
  ["gradient, last block", ({ gradient }) => gradient.at(-1)],
  ["loss at first", ({ loss }) => loss[0]],
  [`loss after ${STEPS} steps`, ({ loss }) => loss[STEPS]],
];

function page(id) {
  const places = PLACES.map(
    (place) => `<label>${NAMES[place]}<input type="radio" name="${id}" value="${place}"></label>`,
  );
  const ranges = RANGES.map(
    ({ key, name, low, high, step }) =>
      `<label class="range">${name}<output></output><input type="range" data-key="${key}" min="${low}" max="${high}" step="${step}" aria-label="${name}"></label>`,
  );
  const rows = PLACES.map(
    (place) =>
      `<tr data-place="${place}"><th scope="row">${NAMES[place]}</th>${COLUMNS.map(() => "<td></td>").join("")}</tr>`,
  );
  return `<style>${STYLE}</style>
    <div class="controls">
      <fieldset class="track"><legend class="unseen">Place of the norm</legend>${places.join("")}</fieldset>
      ${ranges.join("")}
      <div class="buttons"><button type="button" data-act="draw">other weights</button><button type="button" data-act="reset">reset</button></div>
    </div>
    <svg aria-hidden="true"></svg>
    <p class="say"></p>
    <table>
      <thead><tr><td></td>${COLUMNS.map(([name]) => `<th scope="col">${name}</th>`).join("")}</tr></thead>
      <tbody>${rows.join("")}</tbody>
    </table>
    <p class="unseen" role="status"></p>`;
}

// ---- The explorable ----

/** Builds the explorable in el and returns the function that takes it away. */
function render({ model, el }) {
  const KEYS = Object.keys(start);
  const get = (key) => model.get(key) ?? start[key];
  const state = () => Object.fromEntries(KEYS.map((key) => [key, get(key)]));
  const first = state();
  const gone = new AbortController();
  const on = (node, event, act) => node.addEventListener(event, act, { signal: gone.signal });
  const root = Object.assign(document.createElement("div"), {
    className: "ln-stream",
    innerHTML: page(`ln-${Math.random().toString(36).slice(2)}`),
  });
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "A residual stream with its norm in one of three places");
  el.append(root);
  const all = (selector) => [...root.querySelectorAll(selector)];
  const [svg, say, status] = ["svg", ".say", "[role=status]"].map((selector) => root.querySelector(selector));

  let [frame, unsaved, visible, telling, width] = [0, false, true, 0, 0]; // what is under way
  let results = {}; // place: {stream, gradient, loss, update}, filled as it is computed
  let runs = []; // the trainings that are not over: [place, its generator]
  let computed = ""; // the settings that `results` belongs to

  function request() {
    if (!frame && visible && !gone.signal.aborted) frame = requestAnimationFrame(tick);
  }
  function change(changes) {
    for (const [key, value] of Object.entries(changes)) model.set(key, value);
    unsaved = true;
    request();
  }
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
      const end = performance.now() + 5;
      while (runs.length && performance.now() < end) if (!next(runs[0])) runs.shift();
    }
  }
  function tick() {
    frame = 0;
    compute();
    if (width) draw();
    if (unsaved) model.save_changes();
    unsaved = false;
    if (runs.length) request();
  }

  const write = (node, words) => node.textContent !== words && (node.textContent = words);
  function draw() {
    const settings = state();
    if (runs.length && matchMedia("(prefers-reduced-motion: reduce)").matches && svg.innerHTML)
      return controls(settings);
    const { markup, height } = drawing(settings, results, width);
    svg.setAttribute("height", height);
    svg.innerHTML = markup;
    for (const row of all("[data-place]")) {
      row.classList.toggle("chosen", row.dataset.place === settings.place);
      COLUMNS.forEach(([, of], i) => write(row.cells[i + 1], fmt(of(results[row.dataset.place]))));
    }
    controls(settings);
    const words = sentence(settings, results[settings.place]);
    write(say, words);
    clearTimeout(telling); // said once the hand rests
    telling = setTimeout(() => write(status, words), 700);
  }
  function controls(settings) {
    for (const radio of all("[type=radio]")) radio.checked = radio.value === settings.place;
    for (const { key, to } of RANGES) {
      const input = root.querySelector(`[data-key=${key}]`);
      input.value = to(settings[key]);
      input.setAttribute("aria-valuetext", fmt(settings[key]));
      write(input.previousElementSibling, fmt(settings[key]));
    }
  }

  for (const radio of all("[type=radio]")) on(radio, "change", () => change({ place: radio.value }));
  for (const { key, from } of RANGES)
    on(root.querySelector(`[data-key=${key}]`), "input", (event) =>
      change({ [key]: from(Number(event.target.value)) }),
    );
  const acts = { draw: () => change({ seed: get("seed") + 1 }), reset: () => change(first) };
  for (const button of all("[data-act]")) on(button, "click", acts[button.dataset.act]);
  on(root, "keydown", (event) => {
    // unmodified keys stay here: JupyterLab would take "a" as a command
    if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
  });

  // Size, sight, and the way out.
  const size = new ResizeObserver(() => {
    root.classList.toggle("wide", root.clientWidth >= 560);
    width = svg.clientWidth;
    request();
  });
  const sight = new IntersectionObserver((entries) => {
    visible = entries.at(-1).isIntersecting;
    request();
  });
  size.observe(root);
  sight.observe(root);
  for (const key of KEYS) model.on(`change:${key}`, request);
  return () => {
    gone.abort();
    cancelAnimationFrame(frame);
    clearTimeout(telling);
    for (const observer of [size, sight]) observer.disconnect();
    for (const key of KEYS) model.off(`change:${key}`, request);
    root.remove();
  };
}

export default { render };
