// A sample among its neighbors: BatchNorm moves it when they change, LayerNorm does not. A column is a feature.

// prettier-ignore
import {
  ACCENT, INK, ORANGE, buttons, circle, clamp, explorable, file, fmt, heads, layerNorm, lerp, line, list, mean, moved,
  normal, numberRow, panel, radios, rect, slider, smooth, text, upTo,
} from "./host.mjs";

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

/** The statistics of each feature of a batch of rows, the variance divided by their number: {mean, variance}. */
export function statistics(rows) {
  const columns = rows[0].map((_, i) => rows.map((row) => row[i]));
  return { mean: columns.map(mean), variance: columns.map((column) => layerNorm(column).variance) };
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

/** Fifteen rows of D features, the same for the same draw: around 1.5 in feature 1, −1 in feature 2, in turn, and wide. */
function crowd(draw, D) {
  const next = normal(draw);
  const number = (i) => clamp((i % 2 ? -1 : 1.5) + 2.6 * next(), -8, 8);
  return upTo(MOST).map(() => upTo(D).map(number));
}

/** The batch: the sample, then its neighbors, drawn to it by their likeness. */
export function batch({ sample, neighbors, likeness, draw }) {
  const rows = crowd(draw, sample.length).slice(0, neighbors);
  return [sample, ...rows.map((row) => lerp(row, sample, likeness))];
}

/** Both norms of the sample: {rows, used: the statistics that BatchNorm uses, batch, layer}. */
function results(state) {
  const rows = batch(state);
  const used = state.mode === "train" ? statistics(rows) : state.running;
  return { rows, used, batch: batchNorm(state.sample, used), layer: layerNorm(state.sample).hat };
}

// ---- Words ----

function sentence({ neighbors, likeness, mode, running }) {
  if (mode === "eval") {
    const past = running.batches
      ? `of the running statistics of ${running.batches} batch${running.batches === 1 ? "" : "es"}`
      : "of the statistics it begins with, mean 0 and variance 1";
    return `In eval mode BatchNorm makes use ${past}. Neighbors do not matter.`;
  }
  if (!neighbors)
    return "Alone in its batch a sample is its own mean: BatchNorm makes 0 of each feature. PyTorch refuses to.";
  if (likeness === 1) return "All rows are equal: BatchNorm makes 0 of each feature.";
  return `BatchNorm takes the mean of each feature over ${neighbors + 1} rows, LayerNorm that of the sample's own features.`;
}

/** How far both norms have moved the sample since the start, in the feature where it is most. */
function moves(now, before) {
  const [batch, layer] = ["batch", "layer"].map((norm) =>
    Math.max(...now[norm].map((v, i) => Math.abs(v - before[norm][i]))),
  );
  const words = (far) => (far < 1e-9 ? "not at all" : `by ${far < 0.005 ? "less than 0.01" : fmt(far)}`);
  return batch + layer
    ? `Since the start BatchNorm has moved the sample ${words(batch)}, LayerNorm ${words(layer)}.`
    : "The dashed lines keep where both are now.";
}

// ---- The picture ----

const LABELS = 74; // pixels left of the columns, as wide as the table's first column
const [ABOVE, BELOW] = [210, 120]; // pixels: the panel of the batch, and that of a norm

const columns = (D, width, tall, limit, ticks) => panel({ width, tall, limit, D, ticks, left: LABELS });

/** Each feature's numbers: the neighbors as dots, the sample as a ring, what BatchNorm subtracts, and σ to both sides. */
function crowdPanel({ sample }, { rows, used }, width) {
  const { y, x, grid } = columns(sample.length, width, ABOVE, 8, [-8, -4, 0, 4, 8]);
  const drawn = sample.map((own, i) => {
    const [at, mu, sigma] = [x(i), used.mean[i], Math.sqrt(used.variance[i])];
    const [top, bottom] = [y(mu + sigma), y(mu - sigma)];
    const dot = (row, k) => circle(at - 14 + ((k * 11) % 28), y(row[i]), 3, { fill: INK, opacity: 0.45 });
    return [
      rect(at - 24, top, 48, bottom - top, { fill: ORANGE, opacity: 0.2 }),
      line(at - 24, y(mu), at + 24, y(mu), { stroke: ORANGE, "stroke-width": 3 }),
      ...rows.slice(1).map(dot),
      circle(at, y(own), 6.5, { fill: INK }),
    ].join("");
  });
  return grid + drawn.join("");
}

/** A norm of the sample as bars; ghost: where they were at the start, if that is to be seen. */
function resultPanel(values, ghost, fill, width) {
  const { grid, bars, marks } = columns(values.length, width, BELOW, 3, [-2, 0, 2]);
  return grid + bars(values, { fill, rx: 2 }) + marks(ghost, 19, { "stroke-width": 2, "stroke-dasharray": "3 3" });
}

export function still(changes = {}) {
  const state = { ...start, ...changes };
  const width = 560;
  const now = results(state);
  const part = (y, words, space, inside) => text(LABELS, y, words, { "font-size": 14 }) + moved(0, y + space, inside);
  const parts = [
    part(22, `a sample (large) among ${state.neighbors} neighbors`, 18, crowdPanel(state, now, width)),
    part(292, "BatchNorm of the sample", 12, resultPanel(now.batch, [], ORANGE, width)),
    part(456, "LayerNorm of the sample", 12, resultPanel(now.layer, [], ACCENT, width)),
  ];
  const described = `The five features of a sample among ${state.neighbors} neighbors, with BatchNorm and LayerNorm of the sample as bars.`;
  return file(TITLE, described, width, 610, parts.join("\n"));
}

// ---- The page ----

const STYLE = `
tr > :first-child { width: ${LABELS}px; font-size: 12px; }
.from td { padding: 6px 0 2px; }
[data-key=batch] > * { color: color-mix(in srgb, currentColor 40%, #d55e00); }
[data-key=layer] > * { color: var(--accent); }
.say { min-height: 8.8em; }
button { flex-basis: 40%; }`;

const ROWS = [
  ["sample", "sample"],
  ["mean", "mean"],
  ["deviation", "σ"],
  ["batch", "BatchNorm"],
  ["layer", "LayerNorm"],
];

function page(id, { sample }) {
  const D = sample.length;
  const rows = ROWS.map(([key, sign]) => numberRow(D, { key, sign }));
  const bars = (norm) =>
    `<tr class="from" aria-hidden="true"><td colspan="${D + 1}"><svg class="${norm}" height="${BELOW}"></svg></td></tr>`;
  return `<div class="whole">
  <p class="say"></p>
  <div class="show">
    <p class="hint">One sample (large) among its neighbors (small). A column is a feature.</p>
    <svg class="stage" aria-hidden="true" height="${ABOVE}"></svg>
    <table><thead><tr><td></td>${heads(D)}</tr></thead>
      <tbody>${rows.slice(0, 3).join("")}</tbody>
      <tbody>${bars("batch")}${rows[3]}${bars("layer")}${rows[4]}</tbody></table></div>
  <div class="set">
    ${slider("neighbors", "neighbors in the batch", 0, MOST, 1)}
    ${slider("likeness", "how much they are like the sample", 0, 1, 0.05)}
    ${radios(id, "mode", "BatchNorm", ["train", "eval"].map((mode) => [mode, mode]))}
    ${buttons({ others: "other neighbors", train: "train on a batch", reset: "reset" })}
  </div></div>`;
}

function connect({ stage, first, state, find, change, fill, tell }) {
  const [batched, layered, train] = ["svg.batch", "svg.layer", "[data-act=train]"].map(find);
  const before = results(first);
  let ride = null; // other neighbors on their way to their places: {from, share}

  function draw({ width, dt, calm }) {
    const now = state();
    const result = results(now);
    let shown = result;
    if (ride) {
      ride.share = calm ? 1 : Math.min(1, ride.share + dt / 0.5);
      const between = (from, to) => lerp(from, to, smooth(ride.share));
      const { rows, used, batch } = ride.from;
      shown = {
        rows: result.rows.map((row, k) => between(rows[k] ?? row, row)),
        used: { mean: between(used.mean, result.used.mean), variance: between(used.variance, result.used.variance) },
        batch: between(batch, result.batch),
      };
      if (ride.share === 1) ride = null;
    }
    stage.innerHTML = crowdPanel(now, shown, width);
    batched.innerHTML = resultPanel(shown.batch, before.batch, ORANGE, width);
    layered.innerHTML = resultPanel(result.layer, before.layer, ACCENT, width);
    const { used, batch, layer } = result;
    fill({ sample: now.sample, mean: used.mean, deviation: used.variance.map(Math.sqrt), batch, layer });
    train.disabled = now.mode === "eval" || !now.neighbors;
    const words = `${sentence(now)} ${moves(result, before)}`;
    tell(words, `${words} BatchNorm of the sample: ${list(batch)}. LayerNorm: ${list(layer)}.`);
    return ride !== null;
  }
  /** A change on whose way the neighbors can be followed. */
  function go(values) {
    const now = state();
    ride = { from: results(now), share: 0 };
    change(values(now));
  }
  const acts = {
    others: () => go(({ draw }) => ({ draw: draw + 1 })),
    train: () => go((now) => ({ running: keep(now.running, batch(now)), draw: now.draw + 1 })),
  };
  return { draw, acts, stop: () => (ride = null) };
}

const ranges = { neighbors: { words: String }, likeness: { words: (v) => `${Math.round(100 * v)} %` } };
export default explorable({ name: "batch", title: TITLE, start, style: STYLE, ranges, page, connect });
