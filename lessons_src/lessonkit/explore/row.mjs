// A row of numbers to drag, and what LayerNorm makes of it, feature by feature: a column is a feature.
// An anywidget front-end module: JupyterLab and a page without a kernel run this same file, with host.mjs.

// prettier-ignore
import {
  ACCENT, INK, buttons, clamp, epsilon, explorable, file, fmt, layerNorm, lerp, letters, line, list, mean, radios,
  range, smooth, tag, text, upTo,
} from "./host.mjs";

/** The model's keys and what they are at first. parts: which of correction, eps and affine may be changed. */
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

/** Whether gain and bias leave x̂ as it is. */
const isPlain = ({ gain, bias }) => gain.every((v) => v === 1) && bias.every((v) => v === 0);

/** The row's two numbers, in one or two sentences. */
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

/** What a button did to x, and whether x̂ noticed. */
function outcome(words, before, after) {
  const moved = Math.max(...after.hat.map((v, i) => Math.abs(v - before.hat[i])));
  if (!Number.isFinite(moved)) return `${words}.`;
  if (moved < 1e-9) return `${words}. x̂ stands still.`;
  return `${words}. Because of ε, x̂ moves by ${moved < 0.001 ? "less than 0.001" : fmt(moved, 3)}.`;
}

// ---- The picture ----

const LABELS = 52; // pixels left of the columns, as wide as the table's first column
const ABOVE = { tall: 190, limit: LIMIT }; // the panel of x
const BELOW = 150; // pixels: the panel of y

/** The middle of column i of a row of D. */
const middle = (i, D, width) => LABELS + ((width - LABELS) / D) * (i + 0.5);
/** The height in pixels at which a panel of limits ±limit shows v. */
const height = (v, { tall, limit }) => (tall / 2) * (1 - clamp(v, -limit, limit) / limit);

/** A panel of bars. ticks: values with a grid line; free: a height that no number may touch. */
function bars(values, panel, width, ticks, look, free = Infinity) {
  const grid = ticks.map((v) => {
    const y = height(v, panel);
    const words = fmt(v, 1).replace(".0", "");
    const number = text(LABELS - 8, y + letters() / 3, words, { "text-anchor": "end", opacity: 0.72 });
    return line(LABELS, y, width, y, { opacity: v ? 0.13 : 0.6 }) + (Math.abs(y - free) < letters() + 2 ? "" : number);
  });
  const drawn = values.map((v, i) => {
    const [y, zero] = [height(Number.isFinite(v) ? v : 0, panel), panel.tall / 2];
    const x = middle(i, values.length, width) - 13;
    return tag("rect", { x, y: Math.min(y, zero), width: 26, height: Math.abs(y - zero), rx: 2, ...look });
  });
  return [...grid, ...drawn].join("");
}

/** Short lines across the columns at these values. */
function marks(values, panel, width, look) {
  return values
    .filter(Number.isFinite)
    .map((v, i) => {
      const [x, y] = [middle(i, values.length, width), height(v, panel)];
      return line(x - 17, y, x + 17, y, look);
    })
    .join("");
}

/** The row x with its mean, and σ to both sides of it. */
function rowPanel({ x }, { mu, sigma }, width) {
  const [y, reach] = [height(mu, ABOVE), (ABOVE.tall / 2) * (sigma / LIMIT)];
  const band = { x: LABELS, y: y - reach, width: width - LABELS, height: 2 * reach, fill: INK, opacity: 0.08 };
  return [
    tag("rect", band),
    bars(x, ABOVE, width, [-LIMIT, -5, 0, 5, LIMIT], { fill: INK, opacity: 0.4 }, y),
    line(LABELS, y, width, y, { "stroke-dasharray": "5 4", "stroke-width": 1.5 }),
    marks(x, ABOVE, width, { "stroke-width": 3, "stroke-linecap": "round" }),
    text(LABELS - 8, y + letters() / 3, `μ ${fmt(mu)}`, { "text-anchor": "end", "font-weight": 650 }),
  ].join("");
}

/** y, with x̂ as a mark beside it where gain and bias have moved it. limit: the ends of the panel. */
function resultPanel(state, { hat, y }, width, limit) {
  const panel = { tall: BELOW, limit };
  const ticks = limit > 4 ? [-limit / 2, 0, limit / 2] : [-2, -1, 0, 1, 2];
  return (
    bars(y, panel, width, ticks, { fill: ACCENT }) +
    (isPlain(state) ? "" : marks(hat, panel, width, { "stroke-width": 2 }))
  );
}

/** The least limit, of a few, at which y and x̂ fit. */
function limitOf({ y, hat }) {
  const far = Math.max(0, ...[...y, ...hat].filter(Number.isFinite).map(Math.abs));
  return [3, 6, 12, 24].find((limit) => far <= limit) ?? 48;
}

/** The explorable as a whole SVG, for viewers that run no script. changes: what differs from the start. */
export function still(changes = {}) {
  const state = { ...start, ...changes };
  const width = 560;
  const result = layerNorm(state.x, state);
  const words = (y, inside, more) => text(LABELS, y, inside, { "font-size": 14, ...more });
  const numbers = (values, y, more) =>
    values.map((v, i) =>
      text(middle(i, values.length, width), y, fmt(v), { "text-anchor": "middle", "font-size": 14, ...more }),
    );
  const described = `A row of ${state.x.length} numbers as bars, with their mean and σ, and below them LayerNorm of the row as bars.`;
  const parts = [
    words(22, "the row x"),
    tag("g", { transform: "translate(0 38)" }, rowPanel(state, result, width)),
    ...numbers(state.x, 246),
    words(286, "LayerNorm of it", { fill: ACCENT }),
    tag("g", { transform: "translate(0 298)" }, resultPanel(state, result, width, limitOf(result))),
    ...numbers(result.y, 466, { fill: ACCENT }),
  ];
  return file(TITLE, described, width, 482, parts.join(""));
}

// ---- The page ----

const STYLE = `
.stage { cursor: ns-resize; }
button { flex-basis: 40%; }
tr > :first-child { width: ${LABELS}px; }`;

// The table reads as the formula: a name, its sign, its ends where it can be changed, and the part that shows it.
const ROWS = [
  { key: "x", sign: "x", ends: [-LIMIT, LIMIT] },
  { key: "centered", sign: "x − μ" },
  { key: "hat", sign: "x̂", looks: "result" },
  { key: "gain", sign: "γ", ends: [-1, 3], part: "affine", looks: "rule" },
  { key: "bias", sign: "β", ends: [-3, 3], part: "affine" },
  { key: "y", sign: "y", part: "affine", looks: "rule result" },
];

function page(id, { x, parts }) {
  const features = upTo(x.length);
  const heads = features.map((i) => `<th scope="col"><span class="unseen">feature </span>${i + 1}</th>`);
  const rows = ROWS.filter(({ part }) => !part || parts.includes(part)).map(({ key, sign, ends, looks = "" }) => {
    const cells = features.map(
      (i) => `<td><output></output>${ends ? range(key, `${sign} of feature ${i + 1}`, ...ends, 0.1, i) : ""}</td>`,
    );
    return `<tr data-key="${key}" class="${looks}"><th scope="row">${sign}</th>${cells.join("")}</tr>`;
  });
  const divisors = [
    [0, "÷ D"],
    [1, "÷ (D − 1)"],
  ];
  return `<div class="whole">
    <p class="say"></p>
    <div class="show">
      <p class="hint">Drag the bars. A column is a feature.</p>
      <div class="stage" aria-hidden="true"><svg height="${ABOVE.tall}"></svg>${'<div class="grip"></div>'.repeat(x.length)}</div>
      <table class="math"><thead><tr><td></td>${heads.join("")}</tr></thead><tbody>${rows.join("")}</tbody></table>
      <svg class="below" height="${BELOW}" aria-hidden="true"></svg>
    </div>
    <div class="set">
      ${parts.includes("correction") ? radios(id, "correction", "The variance: the sum of the squares", divisors) : ""}
      ${parts.includes("eps") ? epsilon() : ""}
      ${buttons({ shift: "shift all", stretch: "stretch all", outlier: "one outlier", reset: "reset" })}
    </div></div>`;
}

// ---- The explorable ----

function connect({ stage, first, state, find, all, change, write, tell, drag }) {
  const [picture, below] = [".stage svg", ".below"].map(find);
  const [grips, rows] = [all(".grip"), all("tr[data-key]")];
  const D = first.x.length;
  let ride = null; // a button's change of x under way: {from, to, share}
  let note = {}; // what the last button did: words, and the state, as text, for which they hold
  let limit = 3; // the ends of the lower panel; they stay while a bar is held

  // A finger drags a bar's end and scrolls the page elsewhere; a mouse drags a bar anywhere in its column.
  const held = drag(
    stage,
    (event) => {
      const box = stage.getBoundingClientRect();
      const i = Math.floor(((event.clientX - box.left - LABELS) / (box.width - LABELS)) * D);
      if (i < 0 || i >= D || (event.pointerType === "touch" && !event.target.classList.contains("grip"))) return null;
      stop();
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
    const result = layerNorm(now.x, now);
    if (!held()) limit = limitOf(result);
    picture.innerHTML = rowPanel(now, result, width);
    below.innerHTML = resultPanel(now, result, width, limit);
    grips.forEach((grip, i) => {
      const wide = Math.min(44, (width - LABELS) / D);
      Object.assign(grip.style, {
        left: `${middle(i, D, width)}px`,
        top: `${height(now.x[i], ABOVE)}px`,
        width: `${wide}px`,
      });
    });
    const values = { ...now, ...result };
    for (const row of rows) values[row.dataset.key].forEach((v, i) => write(row.cells[i + 1].firstChild, fmt(v)));
    const words = note.words && note.holds === JSON.stringify(now) ? note.words : sentence(now, result);
    tell(words, `${words} x: ${list(now.x)}. x hat: ${list(result.hat)}. y: ${list(result.y)}.`);
    return ride !== null;
  }
  /** What a button has begun is done at once. */
  function stop() {
    if (ride) change({ x: ride.to });
    ride = null;
  }
  /** x goes to new numbers; words: what was done to it, if LayerNorm might not see it. */
  function go(to, words) {
    const now = state();
    ride = { from: now.x, to, share: 0 };
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
