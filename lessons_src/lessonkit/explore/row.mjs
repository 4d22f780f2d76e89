// A row of numbers to drag, and what LayerNorm makes of it, feature by feature: a column is a feature.

// prettier-ignore
import {
  ACCENT, INK, buttons, clamp, epsilon, explorable, file, fmt, heads, layerNorm, lerp, letters, line, list, mean,
  moved, namesRoom, numberRow, panel, radios, rect, smooth, text,
} from "./host.mjs";

export const start = {
  x: [5, 1, -1, 4, 1, 2],
  gain: [1, 1, 1, 1, 1, 1],
  bias: [0, 0, 0, 0, 0, 0],
  eps: 1e-5,
  correction: 0,
  parts: ["correction", "eps", "affine"],
};

const TITLE = "A row of numbers and its LayerNorm";
const LIMIT = 10; // the ends of x

// ---- Words ----

const isPlain = ({ gain, bias }) => gain.every((v) => v === 1) && bias.every((v) => v === 0);

function sentence(state, { mu, variance, sigma, hat }) {
  const D = state.x.length;
  const sum = variance * (D - state.correction);
  const divisor = state.correction ? `(${D} − 1)` : D;
  const first = `Mean ${fmt(mu)}. Variance ${fmt(sum)} ÷ ${divisor} = ${fmt(variance)}, so σ = ${fmt(sigma)}.`;
  if (variance < 1e-20) {
    const then = state.eps ? "ε keeps the division possible, and x̂ is 0." : "without ε, x̂ is 0/0.";
    return `${first} All numbers are equal: ${then}`;
  }
  const spread = mean(hat.map((v) => v * v));
  if (Math.abs(spread - 1) < 0.005) return `${first} x̂ has mean 0 and variance 1.`;
  const why = [state.correction && "÷ (D − 1)", state.eps > 0.005 * variance && "ε"].filter(Boolean).join(" and ");
  return `${first} x̂ has mean 0 and, because of ${why}, variance ${fmt(spread, spread < 0.1 ? 3 : 2)}.`;
}

function outcome(words, before, after) {
  const far = Math.max(...after.hat.map((v, i) => Math.abs(v - before.hat[i])));
  if (!Number.isFinite(far)) return `${words}.`;
  if (far < 1e-9) return `${words}. x̂ stands still.`;
  return `${words}. Because of ε, x̂ moves by ${far < 0.001 ? "less than 0.001" : fmt(far, 3)}.`;
}

// ---- The picture ----

const names = namesRoom(52, 3);
const [ABOVE, BELOW] = [190, 150]; // pixels: the panels of x and of y

const above = (state, width, free) =>
  panel({
    name: "x",
    width,
    tall: ABOVE,
    limit: LIMIT,
    D: state.x.length,
    ticks: [-LIMIT, -5, 0, 5, LIMIT],
    left: names.width(),
    free,
  });

const GHOST = { fill: "none", stroke: INK, "stroke-dasharray": "3 3", opacity: 0.8 };

/** The row x with its mean, and σ to both sides of it. before: x as it was, dashed. */
function rowPanel(state, { mu, sigma }, width, before = []) {
  const at = above(state, width).y(mu);
  const { grid, bars, marks } = above(state, width, at);
  const reach = (ABOVE / 2) * (sigma / LIMIT);
  return [
    rect(names.width(), at - reach, width - names.width(), 2 * reach, { fill: INK, opacity: 0.08 }),
    grid,
    bars(state.x, { rx: 2, fill: INK, opacity: 0.4 }),
    bars(before, GHOST),
    line(names.width(), at, width, at, { "stroke-dasharray": "5 4", "stroke-width": 1.5 }),
    marks(state.x, 17, { "stroke-width": 3, "stroke-linecap": "round" }),
    text(names.width() - 8, at + letters() / 3, `μ ${fmt(mu)}`, { "text-anchor": "end", "font-weight": 650 }),
  ].join("");
}

/**
 * y, with x̂ as a mark beside it where gain and bias have moved it. limit: the ends of the panel. before: y as it was,
 * dashed, a little wider, so that a result that stands still is seen to stand in its place.
 */
function resultPanel(state, { hat, y }, width, limit, before = []) {
  const ticks = limit > 4 ? [-limit / 2, 0, limit / 2] : [-2, -1, 0, 1, 2];
  const name = isPlain(state) ? "x̂" : "y";
  const { grid, bars, marks } = panel({ name, width, tall: BELOW, limit, D: y.length, ticks, left: names.width() });
  return grid + bars(y, { rx: 2, fill: ACCENT }) + bars(before, GHOST, 17) + (isPlain(state) ? "" : marks(hat, 17, { "stroke-width": 2 }));
}

function limitOf({ y, hat }) {
  const far = Math.max(0, ...[...y, ...hat].filter(Number.isFinite).map(Math.abs));
  return [3, 6, 12, 24].find((limit) => far <= limit) ?? 48;
}

export function still(changes = {}) {
  const state = { ...start, ...changes };
  const width = 560;
  const result = layerNorm(state.x, state);
  const { x } = above(state, width);
  const words = (at, y, inside, more) => text(at, y, inside, { "font-size": 14, ...more });
  const row = (values, y, more) => values.map((v, i) => words(x(i), y, fmt(v), { "text-anchor": "middle", ...more }));
  const described = `A row of ${state.x.length} numbers as bars, with their mean and σ, and below them LayerNorm of the row as bars.`;
  const parts = [
    words(names.width(), 22, "the row x"),
    moved(0, 38, rowPanel(state, result, width)),
    ...row(state.x, 246),
    words(names.width(), 286, "LayerNorm of it", { fill: ACCENT }),
    moved(0, 298, resultPanel(state, result, width, limitOf(result))),
    ...row(result.y, 466, { fill: ACCENT }),
  ];
  return file(TITLE, described, width, 482, parts.join(""));
}

// ---- The page ----

const STYLE = `
.stage { cursor: ns-resize; }
.below { margin-top: 24px; }
button { flex-basis: 40%; }
${names.style}`;

// The table reads as the formula: a name, its sign, its ends where it can be changed, and the part that shows it.
const ROWS = [
  { key: "x", sign: "x", ends: [-LIMIT, LIMIT] },
  { key: "centered", sign: "x − μ" },
  { key: "hat", sign: "x̂", look: "result" },
  { key: "gain", sign: "γ", ends: [-1, 3], part: "affine", look: "rule" },
  { key: "bias", sign: "β", ends: [-3, 3], part: "affine" },
  { key: "y", sign: "y", part: "affine", look: "rule result" },
];

function page(id, { x, parts }) {
  const rows = ROWS.filter(({ part }) => !part || parts.includes(part)).map((row) => numberRow(x.length, row, 0.1));
  const divisors = ["÷ D", "÷ (D − 1)"].map((words, i) => [i, words]);
  return `<div class="whole">
    <p class="say"></p>
    <div class="show">
      <p class="hint">Drag the bars; double click resets.</p>
      <div class="stage" aria-hidden="true"><svg height="${ABOVE}"></svg>${'<div class="grip"></div>'.repeat(x.length)}</div>
      <table class="math"><thead><tr><td></td>${heads(x.length)}</tr></thead><tbody>${rows.join("")}</tbody></table>
      <svg class="below" height="${BELOW}" aria-hidden="true"></svg>
    </div>
    <div class="set">
      ${parts.includes("correction") ? radios(id, "correction", "The variance: the sum of the squares", divisors) : ""}
      ${parts.includes("eps") ? epsilon() : ""}
      ${buttons({ shift: "shift all", stretch: "stretch all", outlier: "one outlier", reset: "reset" })}
    </div></div>`;
}

function connect({ stage, first, state, find, all, change, fill, tell, drag }) {
  const [picture, below] = [".stage svg", ".below"].map(find);
  const grips = all(".grip");
  const D = first.x.length;
  let ride = null; // a button's change of x under way: {from, to, share}
  let before = null; // the state that a button or a hand began with, drawn dashed until something else is changed
  let note = {}; // what the last button did: words, and the state, as text, for which they hold
  let limit = 3; // the ends of the lower panel; they only grow while a bar is held

  // A finger drags a bar's end and scrolls the page elsewhere; a mouse drags a bar anywhere in its column.
  const held = drag(
    stage,
    (event) => {
      const box = stage.getBoundingClientRect();
      const i = Math.floor(((event.clientX - box.left - names.width()) / (box.width - names.width())) * D);
      if (i < 0 || i >= D || (event.pointerType === "touch" && !event.target.classList.contains("grip"))) return null;
      stop();
      before = state();
      return { i, y: event.clientY, from: state().x[i], unit: box.height / (2 * LIMIT) };
    },
    (event, { i, y, from, unit }) => {
      const v = clamp(Math.round(10 * (from + (y - event.clientY) / unit)) / 10, -LIMIT, LIMIT);
      change({ x: state().x.map((old, j) => (j === i ? v : old)) });
    },
  );

  function draw({ width, dt, calm }) {
    if (ride) {
      ride.share = calm ? 1 : Math.min(1, ride.share + dt / 0.7);
      change({ x: ride.share < 1 ? lerp(ride.from, ride.to, smooth(ride.share)) : ride.to });
      note.holds = JSON.stringify(state());
      if (ride.share === 1) ride = null;
    }
    const now = state();
    const ghost = before && layerNorm(before.x, before);
    const result = layerNorm(now.x, now);
    limit = Math.max(held() ? limit : 0, limitOf(result), ghost ? limitOf(ghost) : 0);
    picture.innerHTML = rowPanel(now, result, width, before?.x);
    below.innerHTML = resultPanel(now, result, width, limit, ghost?.y);
    const { x, y } = above(now, width);
    const size = `${Math.min(44, (width - names.width()) / D)}px`;
    grips.forEach(({ style }, i) => Object.assign(style, { left: `${x(i)}px`, top: `${y(now.x[i])}px`, width: size }));
    fill({ ...now, ...result });
    const words = note.words && note.holds === JSON.stringify(now) ? note.words : sentence(now, result);
    tell(words, `${words} x: ${list(now.x)}. x hat: ${list(result.hat)}. y: ${list(result.y)}.`);
    return ride !== null;
  }
  /** What a button has begun is done at once. */
  function stop() {
    if (ride) change({ x: ride.to });
    ride = before = null;
  }
  /** x goes to new numbers; words: what was done to it, if LayerNorm might not see it. */
  function go(to, words) {
    const now = state();
    ride = { from: now.x, to, share: 0 };
    before = now;
    note = { words: words && outcome(words, layerNorm(now.x, now), layerNorm(to, now)) };
  }
  const acts = {
    shift() {
      const { x } = state();
      const by = [2, -2, 1, -1, 0].find((c) => x.every((v) => Math.abs(v + c) <= LIMIT));
      go(
        x.map((v) => +(v + by).toFixed(2)),
        by > 0 ? `${by} was added to each number` : `${-by} was taken from each number`,
      );
    },
    stretch() {
      const { x } = state();
      const by = Math.max(...x.map(Math.abs)) * 2 <= LIMIT ? 2 : 0.5;
      go(
        x.map((v) => v * by),
        by > 1 ? "Each number was doubled" : "Each number was halved",
      );
    },
    outlier() {
      const { x } = state();
      const far = x.indexOf(Math.max(...x));
      go(x.map((v, i) => (i === far ? LIMIT : v)));
    },
  };
  return { draw, acts, stop };
}

export default explorable({ name: "row", title: TITLE, start, style: STYLE, page, connect });
