// A sample among its neighbors: BatchNorm moves it when they change, LayerNorm does not. A column is a feature.

// prettier-ignore
import {
  ACCENT, INK, ORANGE, buttons, circle, clamp, explorable, file, fmt, heads, layerNorm, lerp, line, list, mean, moved,
  namesRoom, normal, numberRow, panel, radios, rect, slider, smooth, text, upTo,
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
const LIMIT = 8; // the ends of x

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
  const number = (i) => clamp((i % 2 ? -1 : 1.5) + 2.6 * next(), -LIMIT, LIMIT);
  return upTo(MOST).map(() => upTo(D).map(number));
}

/** The batch: the sample, then its neighbors, drawn to it by their likeness. pulled: {"row,feature": where a hand put it}. */
export function batch({ sample, neighbors, likeness, draw }, pulled = {}) {
  const rows = crowd(draw, sample.length).slice(0, neighbors);
  const near = rows.map((row) => lerp(row, sample, likeness));
  return [sample, ...near.map((row, k) => row.map((v, i) => pulled[[k + 1, i]] ?? v))];
}

/** Both norms of the sample: {rows, used: the statistics that BatchNorm uses, batch, layer}. */
function results(state, pulled) {
  const rows = batch(state, pulled);
  const used = state.mode === "train" ? statistics(rows) : state.running;
  return { rows, used, batch: batchNorm(state.sample, used), layer: layerNorm(state.sample).hat };
}

// ---- Words ----

function sentence({ neighbors, mode, running }, { used }) {
  if (mode === "eval") {
    const past = running.batches
      ? `of the running statistics of ${running.batches} batch${running.batches === 1 ? "" : "es"}`
      : "of the statistics it begins with, mean 0 and variance 1";
    return `In eval mode BatchNorm makes use ${past}. Neighbors do not matter.`;
  }
  if (!neighbors)
    return "Alone in its batch a sample is its own mean: BatchNorm makes 0 of each feature. PyTorch refuses to.";
  if (Math.max(...used.variance) < 1e-12) return "All rows are equal: BatchNorm makes 0 of each feature.";
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

const names = namesRoom(74, 5.8);
const [ABOVE, BELOW] = [210, 120]; // pixels: the panel of the batch, and that of a norm

const columns = (name, D, width, tall, limit, ticks) => panel({ name, width, tall, limit, D, ticks, left: names.width() });
const crowdColumns = (D, width) => columns("x", D, width, ABOVE, LIMIT, [-LIMIT, -4, 0, 4, LIMIT]);
/** How far a row's dot is from the middle of a column: the sample's is there, its neighbors' are spread. */
const aside = (row) => (row ? ((row - 1) * 11) % 28 - 14 : 0);

/**
 * Each feature's numbers: the neighbors as dots, the sample as a large one, what BatchNorm subtracts, and σ to both sides;
 * an arrow says that the axis ends before σ does. hand: [row, feature] that is held, or was last.
 */
function crowdPanel({ sample }, { rows, used }, width, hand = []) {
  const { y, x, grid } = crowdColumns(sample.length, width);
  const drawn = sample.map((own, i) => {
    const [at, mu, sigma] = [x(i), used.mean[i], Math.sqrt(used.variance[i])];
    const [top, bottom] = [y(mu + sigma), y(mu - sigma)];
    const cut = (beyond, height, sign) => (beyond ? text(at, height, sign, { "text-anchor": "middle", fill: ORANGE }) : "");
    const dot = (row, k) => {
      const held = hand[0] === k + 1 && hand[1] === i;
      const look = { fill: INK, opacity: held ? 0.9 : 0.45 };
      return circle(at + aside(k + 1), y(row[i]), held ? 5 : 3.5, look) + grip(at + aside(k + 1), y(row[i]));
    };
    return [
      rect(at - 24, top, 48, bottom - top, { fill: ORANGE, opacity: 0.2 }),
      line(at - 24, y(mu), at + 24, y(mu), { stroke: ORANGE, "stroke-width": 3 }),
      ...rows.slice(1).map(dot),
      circle(at, y(own), 6.5, { fill: INK }) + grip(at, y(own)),
      cut(mu + sigma > LIMIT, 0, "▲"),
      cut(mu - sigma < -LIMIT, ABOVE + 8, "▼"),
    ].join("");
  });
  return grid + drawn.join("");
}

const grip = (x, y) => circle(x, y, 14, { fill: "transparent", class: "grip-dot" });

/** Where the axis of both norms ends: beyond all that is drawn. */
function limitOf(rows) {
  const far = Math.max(...rows.flat().map(Math.abs));
  return 3 * 2 ** Math.max(0, Math.ceil(Math.log2(far / 3)));
}

/** A norm of the sample as bars; ghost: where they were at the start, if that is to be seen. */
function resultPanel(values, ghost, fill, width, limit) {
  const end = (2 * limit) / 3;
  const { grid, bars, marks } = columns("x̂", values.length, width, BELOW, limit, [-end, 0, end]);
  return grid + bars(values, { fill, rx: 2 }) + marks(ghost, 19, { "stroke-width": 2, "stroke-dasharray": "3 3" });
}

export function still(changes = {}) {
  const state = { ...start, ...changes };
  const width = 560;
  const now = results(state);
  const limit = limitOf([now.batch, now.layer]);
  const part = (y, words, space, inside) => text(names.width(), y, words, { "font-size": 14 }) + moved(0, y + space, inside);
  const parts = [
    part(22, `a sample (large) among ${state.neighbors} neighbors`, 18, crowdPanel(state, now, width)),
    part(292, "BatchNorm of the sample", 12, resultPanel(now.batch, [], ORANGE, width, limit)),
    part(456, "LayerNorm of the sample", 12, resultPanel(now.layer, [], ACCENT, width, limit)),
  ];
  const described = `The five features of a sample among ${state.neighbors} neighbors, with BatchNorm and LayerNorm of the sample as bars.`;
  return file(TITLE, described, width, 610, parts.join("\n"));
}

// ---- The page ----

const STYLE = `
${names.style}
tr > :first-child { font-size: 12px; }
.from td { padding: 24px 0 2px; }
.grip-dot { cursor: ns-resize; touch-action: none; }
[data-key=batch] > * { color: color-mix(in srgb, currentColor 40%, #d55e00); }
[data-key=layer] > * { color: var(--accent); }
--say: 8.8em;
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
    <p class="hint">Drag a neighbor (small) or the sample (large).</p>
    <svg class="stage" tabindex="0" role="application" height="${ABOVE}" aria-describedby="${id}-state" aria-label="Rows of a batch. Left and right choose a feature, up and down move a neighbor there."></svg>
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

function connect({ stage, first, state, find, on, change, fill, tell, drag }) {
  const [batched, layered, train] = ["svg.batch", "svg.layer", "[data-act=train]"].map(find);
  const before = results(first);
  let ride = null; // other neighbors on their way to their places: {from, share}
  let pulled = {}; // numbers of neighbors that a hand has put elsewhere, as batch takes them
  let hand = []; // [row, feature] that was last held
  let limit = 3; // the ends of both lower panels; they only grow while a dot is held

  function put(v) {
    const [row, feature] = hand;
    const to = clamp(Math.round(10 * v) / 10, -LIMIT, LIMIT);
    if (row) pulled = { ...pulled, [hand]: to };
    change({ sample: state().sample.map((old, i) => (!row && i === feature ? to : old)) });
  }
  const held = drag(
    stage,
    (event) => {
      ride = null;
      const box = stage.getBoundingClientRect();
      const [across, down] = [event.clientX - box.left, event.clientY - box.top];
      const { x, y } = crowdColumns(first.sample.length, box.width);
      const dots = batch(state(), pulled).flatMap((values, row) => values.map((v, i) => ({ row, i, v, x: x(i) + aside(row), y: y(v) })));
      const far = (dot) => Math.hypot(dot.x - across, dot.y - down);
      const nearest = dots.reduce((best, dot) => (far(dot) < far(best) ? dot : best));
      if (far(nearest) > 16) return null;
      hand = [nearest.row, nearest.i];
      return { from: nearest.v, down: event.clientY };
    },
    (event, { from, down }) => put(from + ((down - event.clientY) * 2 * LIMIT) / ABOVE),
  );
  on(stage, "keydown", (event) => {
    const [across, up] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 0.5], ArrowDown: [0, -0.5] }[event.key] ?? [];
    const rows = batch(state(), pulled);
    if (across === undefined || rows.length === 1) return;
    event.preventDefault();
    const [row, feature] = [rows[hand[0]] ? hand[0] || 1 : 1, hand[1] ?? 0];
    hand = [row, (feature + across + first.sample.length) % first.sample.length];
    put(rows[row][hand[1]] + up);
  });

  function draw({ width, dt, calm }) {
    const now = state();
    const result = results(now, pulled);
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
    limit = Math.max(held() ? limit : 0, limitOf([shown.batch, before.batch, result.layer, before.layer]));
    stage.innerHTML = crowdPanel(now, shown, width, hand);
    batched.innerHTML = resultPanel(shown.batch, before.batch, ORANGE, width, limit);
    layered.innerHTML = resultPanel(result.layer, before.layer, ACCENT, width, limit);
    const { used, batch, layer } = result;
    fill({ sample: now.sample, mean: used.mean, deviation: used.variance.map(Math.sqrt), batch, layer });
    train.disabled = now.mode === "eval" || !now.neighbors;
    const words = `${sentence(now, result)} ${moves(result, before)}`;
    tell(words, `${words} BatchNorm of the sample: ${list(batch)}. LayerNorm: ${list(layer)}.`);
    return ride !== null;
  }
  function letGo() {
    pulled = {};
    hand = [];
  }
  /** A change on whose way the neighbors can be followed. */
  function go(values) {
    const now = state();
    ride = { from: results(now, pulled), share: 0 };
    change(values(now));
    letGo();
  }
  const acts = {
    others: () => go(({ draw }) => ({ draw: draw + 1 })),
    train: () => go((now) => ({ running: keep(now.running, batch(now, pulled)), draw: now.draw + 1 })),
    reset: letGo,
  };
  const also = (key) => (key === "likeness" && letGo(), {});
  return { draw, acts, also, stop: () => (ride = null) };
}

const ranges = { neighbors: { words: String }, likeness: { words: (v) => `${Math.round(100 * v)} %` } };
export default explorable({ name: "batch", title: TITLE, start, style: STYLE, ranges, page, connect });
