// A sample among its neighbors: BatchNorm moves it when they change, LayerNorm does not. A column is a feature.
// An anywidget front-end module: JupyterLab and a page without a kernel run this same file. No library, no network.

/**
 * The model's keys and what they are at first. sample: its features. neighbors: how many rows are beside it; likeness: 0
 * as they come, 1 copies of the sample; draw: which neighbors. mode: train or eval. running: {mean, variance, batches}, what
 * BatchNorm has kept of the batches that it was trained on.
 */
export const start = {
  sample: [4, -2, 2, 0, 1],
  neighbors: 5,
  likeness: 0.3,
  draw: 1,
  mode: "train",
  running: { mean: [0, 0, 0, 0, 0], variance: [1, 1, 1, 1, 1], batches: 0 },
};

const TITLE = "A sample among its neighbors, in BatchNorm and in LayerNorm";

// ---- The mathematics ----

const EPS = 1e-5;
const MOST = 15; // neighbors
const mean = (x) => x.reduce((sum, v) => sum + v, 0) / x.length;
const variance = (x) => mean(x.map((v) => (v - mean(x)) ** 2));

/** LayerNorm of one row, without gain and bias. */
export function layerNorm(x) {
  const deviation = Math.sqrt(variance(x) + EPS);
  return x.map((v) => (v - mean(x)) / deviation);
}

/** The statistics of each feature of a batch of rows, the variance divided by their number: {mean, variance}. */
export function statistics(rows) {
  const columns = rows[0].map((_, i) => rows.map((row) => row[i]));
  return { mean: columns.map(mean), variance: columns.map(variance) };
}

/** BatchNorm of one row with the statistics of a batch or of the past, without gain and bias. */
export function batchNorm(x, statistics) {
  return x.map((v, i) => (v - statistics.mean[i]) / Math.sqrt(statistics.variance[i] + EPS));
}

/** What BatchNorm keeps after one more batch: nine tenths of the old, one tenth of the new, whose variance is unbiased. */
export function keep(running, rows) {
  const batch = statistics(rows);
  const mix = (old, v) => 0.9 * old + 0.1 * v;
  return {
    mean: running.mean.map((old, i) => mix(old, batch.mean[i])),
    variance: running.variance.map((old, i) => mix(old, (batch.variance[i] * rows.length) / (rows.length - 1))),
    batches: running.batches + 1,
  };
}

/** Fifteen rows of D features, the same for the same draw: around 2 in feature 1, 0 in feature 2, in turn, and wide. */
function crowd(draw, D) {
  let seed = 977 * draw + 11; // a linear congruential generator, and Box and Muller's formula
  const random = () => (seed = (1664525 * seed + 1013904223) % 2 ** 32) / 2 ** 32;
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const number = (i) => Math.min(8, Math.max(-8, (i % 2 ? -1 : 1.5) + 2.6 * normal()));
  return Array.from({ length: MOST }, () => Array.from({ length: D }, (_, i) => number(i)));
}

/** The batch: the sample, then its neighbors, drawn to it by their likeness. */
export function batch({ sample, neighbors, likeness, draw }) {
  const rows = crowd(draw, sample.length).slice(0, neighbors);
  return [sample, ...rows.map((row) => row.map((v, i) => (1 - likeness) * v + likeness * sample[i]))];
}

/** Both norms of the sample: {rows, used: the statistics that BatchNorm uses, batch, layer}. */
function results(state) {
  const rows = batch(state);
  const used = state.mode === "train" ? statistics(rows) : state.running;
  return { rows, used, batch: batchNorm(state.sample, used), layer: layerNorm(state.sample) };
}

// ---- Words ----

function fmt(v) {
  return (+v.toFixed(2) < 0 ? "−" : "") + Math.abs(v).toFixed(2);
}
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : word.endsWith("ch") ? "es" : "s"}`;

/** Where BatchNorm's numbers come from. */
function sentence({ neighbors, likeness, mode, running }) {
  if (mode === "eval") {
    const past = running.batches ? `of the running statistics of ${plural(running.batches, "batch")}` : "of the statistics it begins with, mean 0 and variance 1";
    return `In eval mode BatchNorm makes use ${past}. Neighbors do not matter.`;
  }
  if (!neighbors) return "Alone in its batch a sample is its own mean: BatchNorm makes 0 of each feature. PyTorch refuses to.";
  if (likeness === 1) return "All rows are equal: BatchNorm makes 0 of each feature.";
  return `BatchNorm takes the mean of each feature over ${neighbors + 1} rows, LayerNorm that of the sample's own features.`;
}

/** How far both norms have moved the sample since the start, in the feature where it is most. */
function moves(now, before) {
  const [batch, layer] = ["batch", "layer"].map((norm) => Math.max(...now[norm].map((v, i) => Math.abs(v - before[norm][i]))));
  const words = (far) => (far < 1e-9 ? "not at all" : `by ${far < 0.005 ? "less than 0.01" : fmt(far)}`);
  return batch + layer ? `Since the start BatchNorm has moved the sample ${words(batch)}, LayerNorm ${words(layer)}.` : "The dashed lines keep where both are now.";
}

// ---- The picture ----

const LABELS = 74; // pixels left of the columns, as wide as the table's first column
const INK = "currentColor";
const ACCENT = "var(--accent)"; // LayerNorm's result
const ORANGE = "var(--orange)"; // BatchNorm's, as in the whole course

/** An SVG element as text. Numbers are rounded to a hundredth of a pixel. */
function tag(name, attributes, inside = "") {
  const text = Object.entries(attributes).map(([key, v]) => `${key}="${typeof v === "number" ? Math.round(v * 100) / 100 : v}"`);
  return `<${name} ${text.join(" ")}>${inside}</${name}>`;
}
const line = (x1, y1, x2, y2, more) => tag("line", { x1, y1, x2, y2, stroke: INK, ...more });
const text = (x, y, inside, more) => tag("text", { x, y, fill: INK, "font-size": 12, ...more }, inside);

/** A panel's place of a value, its grid lines with their numbers, and the middle of each column. */
function panel(width, tall, limit, ticks, D) {
  const y = (v) => (tall / 2) * (1 - Math.min(limit, Math.max(-limit, v)) / limit);
  const center = (i) => LABELS + ((width - LABELS) / D) * (i + 0.5);
  const number = (v) => text(LABELS - 8, y(v) + 4, String(v).replace("-", "−"), { "text-anchor": "end", opacity: 0.72 });
  return { y, center, grid: ticks.map((v) => line(LABELS, y(v), width, y(v), { opacity: v ? 0.13 : 0.6 }) + number(v)).join("") };
}

const [ABOVE, BELOW] = [210, 120]; // pixels: the panel of the batch, and that of a norm

/** Each feature's numbers: the neighbors as dots, the sample as a ring, what BatchNorm subtracts, and σ to both sides. */
function crowdPanel({ sample }, { rows, used }, width) {
  const { y, center, grid } = panel(width, ABOVE, 8, [-8, -4, 0, 4, 8], sample.length);
  const drawn = sample.map((own, i) => {
    const [at, sigma] = [center(i), Math.sqrt(used.variance[i])];
    const [top, foot] = [y(used.mean[i] + sigma), y(used.mean[i] - sigma)];
    const band = tag("rect", { x: at - 24, y: top, width: 48, height: foot - top, fill: ORANGE, opacity: 0.2 });
    const middle = line(at - 24, y(used.mean[i]), at + 24, y(used.mean[i]), { stroke: ORANGE, "stroke-width": 3 });
    const dots = rows.slice(1).map((row, k) => tag("circle", { cx: at - 14 + ((k * 11) % 28), cy: y(row[i]), r: 3, fill: INK, opacity: 0.45 }));
    const ring = tag("circle", { cx: at, cy: y(own), r: 6.5, fill: INK });
    return band + middle + dots.join("") + ring;
  });
  return grid + drawn.join("");
}

/** A norm of the sample as bars; ghost: where they were at the start, if that is to be seen. */
function resultPanel(values, ghost, color, width) {
  const { y, center, grid } = panel(width, BELOW, 3, [-2, 0, 2], values.length);
  const drawn = values.map((v, i) => {
    const bar = tag("rect", { x: center(i) - 13, y: Math.min(y(v), y(0)), width: 26, height: Math.abs(y(v) - y(0)), fill: color, rx: 2 });
    const mark = ghost ? line(center(i) - 19, y(ghost[i]), center(i) + 19, y(ghost[i]), { "stroke-width": 2, "stroke-dasharray": "3 3" }) : "";
    return bar + mark;
  });
  return grid + drawn.join("");
}

/** The explorable as a whole SVG, for viewers that run no script. given: what differs from the start. */
export function still(given = {}) {
  const state = { ...start, ...given };
  const [width, height] = [560, 610];
  const now = results(state);
  const title = (y, words) => text(LABELS, y, words, { "font-size": 14 });
  const parts = [
    tag("rect", { width: "100%", height: "100%", fill: "#ffffff" }),
    title(22, `a sample (large dots) among ${state.neighbors} neighbors`),
    tag("g", { transform: "translate(0 40)" }, crowdPanel(state, now, width)),
    title(292, "BatchNorm of the sample"),
    tag("g", { transform: "translate(0 304)" }, resultPanel(now.batch, null, ORANGE, width)),
    title(456, "LayerNorm of the sample"),
    tag("g", { transform: "translate(0 468)" }, resultPanel(now.layer, null, ACCENT, width)),
  ];
  const size = { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, sans-serif" };
  const described = `The five features of a sample among ${state.neighbors} neighbors, with BatchNorm and LayerNorm of the sample as bars.`;
  const whole = tag("svg", { ...size, role: "img" }, `<title>${TITLE}</title><desc>${described}</desc>` + parts.join(""));
  return whole.replaceAll(ACCENT, "#0672b2").replaceAll(ORANGE, "#d55e00").replaceAll(INK, "#1f2328");
}

// ---- The page ----

// Both colors are mixed with the page's own ink, so they are darker on a light page and lighter on a dark one.
const STYLE = `
.ln-batch {
  --accent: color-mix(in srgb, currentColor 20%, #0086d4);
  --orange: color-mix(in srgb, currentColor 8%, #d55e00);
  --soft: color-mix(in srgb, currentColor 68%, transparent);
  --line: color-mix(in srgb, currentColor 20%, transparent);
  container-type: inline-size; max-width: 900px; color: inherit; font-size: 14px; line-height: 1.45;
  * { box-sizing: border-box; }
  :focus-visible, .track label:has(:focus-visible) { outline: 2px solid var(--accent); outline-offset: 2px; }
  .whole { display: grid; gap: 8px 28px; }
  @container (min-width: 640px) { .whole { grid-template: "show say" auto "show set" 1fr / minmax(0, 1fr) 280px; } .show { grid-area: show; } }
  svg { display: block; width: 100%; overflow: visible; }
  .hint { margin: 0 0 10px; color: var(--soft); font-size: 12px; text-align: center; }
  table { width: 100%; margin: 4px 0; border: 0; border-collapse: collapse; table-layout: fixed; font: inherit; font-variant-numeric: tabular-nums; }
  tr { background: none; border: 0; }
  th, td { padding: 1px 2px; border: 0; text-align: center; font-weight: 400; line-height: 1.3; background: none; color: inherit; }
  thead :is(th, td) { color: var(--soft); font-size: 12px; }
  tr > :first-child { width: ${LABELS}px; padding-left: 0; text-align: left; font-size: 12px; white-space: nowrap; }
  .from td { padding: 6px 0 2px; }
  [data-key=batch] > * { color: color-mix(in srgb, currentColor 40%, #d55e00); }
  [data-key=layer] > * { color: var(--accent); }
  .say { min-height: 8.8em; margin: 0; font-size: 15px; text-wrap: pretty; }
  fieldset { border: 0; margin: 0 0 10px; padding: 0; min-width: 0; }
  legend, .slider span { padding: 0 0 2px; color: var(--soft); font-size: 12px; }
  .slider { display: grid; grid-template-columns: 1fr auto; margin: 0 0 8px; }
  .slider input { grid-column: 1 / 3; }
  .track { display: grid; grid-auto-flow: column; grid-auto-columns: 1fr; border: 1px solid var(--line); border-radius: 8px; }
  .track label { position: relative; display: grid; place-items: center; min-height: 36px; margin: 0; border-radius: 7px; }
  .track input { position: absolute; inset: 0; width: 100%; height: 100%; margin: 0; opacity: 0; cursor: pointer; }
  .track label:has(:checked) { background: color-mix(in srgb, currentColor 12%, transparent); box-shadow: inset 0 -3px var(--accent); font-weight: 650; }
  .acts { display: grid; grid-template-columns: 1fr 1fr; gap: 8px; }
  button { min-height: 36px; padding: 0 10px; border: 1px solid var(--line); border-radius: 8px; background: none; color: inherit; font: inherit; cursor: pointer; }
  button:disabled { opacity: 0.45; cursor: default; }
  button:enabled:hover, .track label:hover { background: color-mix(in srgb, currentColor 8%, transparent); }
  input[type=range] { appearance: none; display: block; width: 100%; height: 20px; margin: 0; border-radius: 6px; background: none; color: inherit; cursor: pointer; }
  input[type=range]::-webkit-slider-runnable-track { height: 3px; border-radius: 2px; background: var(--line); }
  input[type=range]::-moz-range-track { height: 3px; border-radius: 2px; background: var(--line); }
  input[type=range]::-webkit-slider-thumb { appearance: none; width: 14px; height: 14px; margin-top: -5.5px; border-radius: 50%; background: currentColor; }
  input[type=range]::-moz-range-thumb { width: 14px; height: 14px; border: 0; border-radius: 50%; background: currentColor; }
  .unseen { position: absolute; width: 1px; height: 1px; margin: 0; padding: 0; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
  @media (pointer: coarse) { button, .track label { min-height: 44px; } input[type=range] { height: 32px; } }
  @media (forced-colors: active) { input[type=range] { appearance: auto; } .track label:has(:checked) { outline: 2px solid Highlight; } }
}`;

// The numbers below the picture, a column a feature.
const ROWS = [["sample", "sample"], ["mean", "mean"], ["deviation", "σ"], ["batch", "BatchNorm"], ["layer", "LayerNorm"]];
const slider = (key, words, high, step) => `<label class="slider"><span>${words}</span><output></output>
  <input type="range" data-key="${key}" min="0" max="${high}" step="${step}" aria-label="${words}"></label>`;

function page(id, D) {
  const features = Array.from({ length: D }, (_, i) => i + 1);
  const rows = ROWS.map(([key, words]) => `<tr data-key="${key}"><th scope="row">${words}</th>${"<td></td>".repeat(D)}</tr>`);
  return `<style>${STYLE}</style><div class="whole">
  <p class="say"></p>
  <div class="show">
    <p class="hint">One sample (large) among its neighbors (small). A column is a feature.</p>
    <svg class="crowd" aria-hidden="true" style="height: ${ABOVE}px"></svg>
    <table><thead><tr><td></td>${features.map((i) => `<th scope="col"><span class="unseen">feature </span>${i}</th>`).join("")}</tr></thead>
      <tbody>${rows.slice(0, 3).join("")}</tbody>
      <tbody><tr class="from" aria-hidden="true"><td colspan="${D + 1}"><svg class="batch" style="height: ${BELOW}px"></svg></td></tr>${rows[3]}
        <tr class="from" aria-hidden="true"><td colspan="${D + 1}"><svg class="layer" style="height: ${BELOW}px"></svg></td></tr>${rows[4]}</tbody></table></div>
  <div class="set">
    ${slider("neighbors", "neighbors in the batch", MOST, 1)}
    ${slider("likeness", "how much they are like the sample", 1, 0.05)}
    <fieldset><legend>BatchNorm</legend><div class="track">
      ${["train", "eval"].map((mode) => `<label>${mode}<input type="radio" name="${id}" value="${mode}"></label>`).join("")}</div></fieldset>
    <div class="acts"><button type="button" data-act="others">other neighbors</button><button type="button" data-act="train">train on a batch</button><button type="button" data-act="reset">reset</button></div>
    <p class="unseen" role="status"></p>
  </div></div>`;
}

// ---- The explorable ----

/** Builds the explorable in el and returns the function that takes it away. */
function render({ model, el }) {
  const KEYS = Object.keys(start);
  const get = () => Object.fromEntries(KEYS.map((key) => [key, model.get(key)]));
  const first = get();
  const before = results(first);
  const gone = new AbortController();
  const on = (node, event, act) => node.addEventListener(event, act, { signal: gone.signal });
  const root = document.createElement("div");
  root.className = "ln-batch";
  root.innerHTML = page(`ln-${Math.random().toString(36).slice(2)}`, first.sample.length);
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", TITLE);
  el.append(root);
  const [crowded, batched, layered, say, status, train] = [".crowd", ".batch", ".layer", ".say", "[role=status]", "[data-act=train]"].map((selector) => root.querySelector(selector));
  const [sliders, radios, lines] = ["[type=range]", "[type=radio]", "tr[data-key]"].map((selector) => [...root.querySelectorAll(selector)]);
  let [frame, telling, unsaved] = [0, 0, false];
  let ride = null; // other neighbors on their way to their places: {from, began}

  function request() {
    frame ||= requestAnimationFrame(tick);
  }
  /** Sets values of the model; they are saved once a frame. */
  function change(values) {
    for (const key in values) model.set(key, values[key]);
    unsaved = true;
    request();
  }
  function tick(now) {
    frame = 0;
    if (ride) ride.began ??= now;
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const share = ride && !calm ? Math.min(1, (now - ride.began) / 500) : 1;
    draw(share * share * (3 - 2 * share));
    if (share === 1) ride = null;
    if (unsaved) model.save_changes();
    unsaved = false;
    if (ride) request();
  }
  const write = (node, words) => { if (node.textContent !== words) node.textContent = words; };

  /** share: how much of their way other neighbors have gone. */
  function draw(share) {
    const width = crowded.clientWidth;
    if (!width) return; // not on the page yet; its size will ask again
    const state = get();
    const now = results(state);
    const between = (from, to) => to.map((v, i) => from[i] + share * (v - from[i]));
    const shown = !ride || ride.from.rows.length !== now.rows.length ? now : {
      rows: now.rows.map((row, k) => between(ride.from.rows[k], row)),
      used: { mean: between(ride.from.used.mean, now.used.mean), variance: between(ride.from.used.variance, now.used.variance) },
      batch: between(ride.from.batch, now.batch),
      layer: now.layer,
    };
    crowded.innerHTML = crowdPanel(state, shown, width);
    batched.innerHTML = resultPanel(shown.batch, before.batch, ORANGE, width);
    layered.innerHTML = resultPanel(shown.layer, before.layer, ACCENT, width);
    const values = { sample: state.sample, mean: now.used.mean, deviation: now.used.variance.map(Math.sqrt), batch: now.batch, layer: now.layer };
    for (const tr of lines) values[tr.dataset.key].forEach((v, i) => write(tr.cells[i + 1], fmt(v)));
    for (const input of sliders) {
      const v = state[input.dataset.key];
      const words = input.dataset.key === "likeness" ? `${Math.round(100 * v)} %` : String(v);
      input.value = v;
      input.setAttribute("aria-valuetext", words);
      write(input.previousElementSibling, words);
    }
    for (const radio of radios) radio.checked = radio.value === state.mode;
    train.disabled = state.mode === "eval" || !state.neighbors;
    const words = `${sentence(state)} ${moves(now, before)}`;
    write(say, words);
    clearTimeout(telling); // a screen reader is told once the hand rests
    const list = (numbers) => numbers.map(fmt).join(", ");
    telling = setTimeout(() => write(status, `${words} BatchNorm of the sample: ${list(now.batch)}. LayerNorm: ${list(now.layer)}.`), 700);
  }

  for (const input of sliders) on(input, "input", () => { ride = null; change({ [input.dataset.key]: +input.value }); });
  for (const radio of radios) on(radio, "change", () => change({ mode: radio.value }));
  const acts = {
    others: (state) => ({ draw: state.draw + 1 }),
    train: (state) => ({ running: keep(state.running, batch(state)), draw: state.draw + 1 }),
    reset: () => first,
  };
  for (const button of root.querySelectorAll("button")) {
    on(button, "click", () => {
      const state = get();
      ride = { from: results(state) };
      change(acts[button.dataset.act](state));
    });
  }
  // Or a letter would be one of JupyterLab's commands.
  on(root, "keydown", (event) => { if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation(); });

  const size = new ResizeObserver(request);
  size.observe(crowded);
  for (const key of KEYS) model.on(`change:${key}`, request);
  draw(1);
  return () => { // nothing stays: no listener, no frame, no timer, no observer
    gone.abort();
    cancelAnimationFrame(frame);
    clearTimeout(telling);
    size.disconnect();
    root.remove();
    for (const key of KEYS) model.off(`change:${key}`, request);
  };
}
export default { render };
