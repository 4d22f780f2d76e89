// The backward pass of LayerNorm: dy travels back to dx on three paths, which can be switched off one by one.

// prettier-ignore
import {
  ACCENT, INK, box, buttons, clamp, explorable, file, fmt, layerNorm, letters, line, list, mean, moved, range, rect,
  tag, text, upTo,
} from "./host.mjs";

export const start = {
  x: [0.4, -0.8, 2, 1.3, -1.9],
  dy: [-0.6, 1.2, 2.2, 0.9, 0.5],
  gain: null,
  eps: 1e-5,
  paths: ["straight", "mean", "variance"],
  nudged: [],
  marks: false,
};

// ---- The mathematics ----

const PATHS = ["straight", "mean", "variance"];
const sum = (values) => values.reduce((a, b) => a + b, 0);
/** What each path brings to dx. x, dy: D numbers. Returns {straight, mean, variance}, D numbers each; their sum is dx. */
export function backward(x, dy, { eps = 1e-5, gain = null } = {}) {
  const { rstd, hat } = layerNorm(x, { eps });
  const h = dy.map((v, i) => v * (gain?.[i] ?? 1));
  const meanH = mean(h);
  const meanHX = mean(h.map((v, i) => v * hat[i]));
  return {
    straight: h.map((v) => rstd * v),
    mean: h.map(() => -rstd * meanH),
    variance: hat.map((v) => -rstd * v * meanHX),
  };
}

export const combine = (parts, paths = PATHS) => parts.straight.map((_, i) => sum(paths.map((path) => parts[path][i])));

/** How fast the loss, the sum of dy · y, grows when entry i of x grows by delta: measured, without a derivative. */
export function nudge(x, dy, i, { eps = 1e-5, gain = null, delta = smallStep(x, eps) } = {}) {
  const loss = (row) => sum(layerNorm(row, { eps, gain }).y.map((v, j) => v * dy[j]));
  const nudged = x.map((v, j) => (j === i ? v + delta : v));
  return (loss(nudged) - loss(x)) / delta;
}

export function smallStep(x, eps) {
  const { rstd } = layerNorm(x, { eps });
  return 10 ** -(3 + Math.ceil(Math.log10(Math.max(1, rstd))));
}

// ---- Words ----

const short = (v) => fmt(v, Math.abs(v) < 10 ? 2 : Math.abs(v) < 100 ? 1 : 0);
const and = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);
const NAMES = { straight: "straight", mean: "through the mean", variance: "through the variance" };

/** One sentence on the paths, or on the nudge that was asked for last. It does not say what there is to find. */
function sentence({ x, dy, eps, gain, paths }, dx, asked) {
  if (asked !== null) {
    const delta = smallStep(x, eps);
    const digits = Math.round(-Math.log10(delta));
    const slope = nudge(x, dy, asked, { eps, gain });
    const right = combine(backward(x, dy, { eps, gain }))[asked];
    const wrong = Math.abs(right - dx[asked]) > 0.005 * Math.max(1, Math.abs(right));
    return (
      `Feature ${asked + 1} of x grows by ${fmt(delta, digits)}, and the loss changes by ` +
      `${fmt(slope * delta, digits + 2)}: ${fmt(slope)} for 1. dx says ${fmt(dx[asked])}${wrong ? ", which is wrong." : "."}`
    );
  }
  const off = PATHS.filter((path) => !paths.includes(path));
  if (!off.length) return "The gradient dx is the sum of three paths. Drag the bars of x and dy.";
  if (off.length === 3) return "No path is on, so no gradient reaches x.";
  const words = and(off.map((path) => NAMES[path]));
  return `The ${off.length > 1 ? `paths ${words} are` : `path ${words} is`} off. Press a nudge: does dx still say how the loss moves?`;
}

// ---- The picture ----

const TITLE = "The backward pass of LayerNorm, on three paths";
const HEAD = 104; // pixels on the left for the names of the rows
const ROWS = [
  ...["x", "dy"].map((key) => ({ key, height: 112, look: { fill: INK, opacity: 0.4 } })),
  ...PATHS.map((key) => ({ key, height: 80, look: { fill: INK, opacity: 0.55 } })),
  { key: "dx", height: 112, look: { fill: ACCENT } },
  { key: "nudge", height: 44 },
];
ROWS.forEach((row, i) => (row.top = i ? ROWS[i - 1].top + ROWS[i - 1].height : 0));
const ROW = Object.fromEntries(ROWS.map((row) => [row.key, row]));
const HEIGHT = ROW.nudge.top + ROW.nudge.height + 4;
const REACH = 38; // pixels of the longest bar: the same in every row, so that the three paths and their sum can be compared
const OFF = { fill: "none", stroke: INK, "stroke-dasharray": "2 2", opacity: 0.5 }; // a path that is off

const middleOf = (row) => row.top + row.height / 2;
const columnOf = (i, D, width) => HEAD + ((i + 0.5) * (width - HEAD)) / D;
const heightAt = (row, value, limit) => middleOf(row) - (clamp(value, -limit, limit) / limit) * REACH;
const valueAt = (row, pixel, limit) => ((middleOf(row) - pixel) / REACH) * limit;

/** The first of 1, 1.5, 2, 3, 5, 7, 10, 15, ... that is at least v: what the longest bar stands for. */
export function niceLimit(v) {
  if (!(v > 1)) return 1;
  const power = 10 ** Math.floor(Math.log10(v));
  return [1, 1.5, 2, 3, 5, 7, 10].find((step) => step * power >= v * (1 - 1e-12)) * power;
}

/** What every row shows: x, dy, the three parts, dx, the slopes that nudges measure (null where none is asked for). */
function rowsOf(state) {
  const { x, dy, eps, gain, paths, nudged } = state;
  const parts = backward(x, dy, { eps, gain });
  const slopes = x.map((_, i) => (nudged.includes(i) ? nudge(x, dy, i, { eps, gain }) : null));
  return { ...state, ...parts, dx: combine(parts, paths), xHat: layerNorm(x, { eps }).hat, slopes };
}

/** One bar from the middle of its row, its number at the tip where there is room, its grip if it can be dragged. */
function bar(row, center, width, value, limit, look) {
  const centered = { "text-anchor": "middle", "font-size": width < 22 ? 10.5 : 12 };
  const [zero, tip] = [middleOf(row), heightAt(row, value, limit)];
  const shape = rect(center - width / 2, Math.min(zero, tip), width, Math.max(0.8, Math.abs(tip - zero)), look);
  if (PATHS.includes(row.key)) return shape; // no numbers: the sum has them
  const grip = row.key === "dx" ? "" : rect(center - width / 2 - 2, tip - 2.5, width + 4, 5, { rx: 2.5, fill: INK });
  const number = text(center, tip + (value < 0 ? letters() + 3 : -6), short(value), centered);
  return shape + grip + number;
}

/** The whole picture, without its frame. limits: {x, dy, dx}, what the longest bar of a row stands for. */
function drawing(shown, width, limits) {
  const D = shown.x.length;
  const barWidth = Math.min(34, (0.58 * (width - HEAD)) / D);
  const rows = ROWS.slice(0, -1).map((row) => {
    const isPath = PATHS.includes(row.key);
    const off = isPath && !shown.paths.includes(row.key);
    const italic = { "font-family": "Georgia, 'Liberation Serif', serif", "font-style": "italic", "font-size": 19 };
    const name = isPath ? { "font-size": 13, opacity: off ? 0.66 : 1 } : italic;
    const look = off ? OFF : row.look;
    const bars = shown[row.key].map((v, i) =>
      bar(row, columnOf(i, D, width), barWidth, v, limits[row.key] ?? limits.dx, look),
    );
    return [
      line(HEAD, middleOf(row), width, middleOf(row), { opacity: 0.25 }),
      text(isPath ? 26 - 2 * (letters() - 12) : 2, middleOf(row) + letters() / 3 + 1, row.key, { ...name, fill: row.key === "dx" ? ACCENT : INK }),
      ...bars,
    ].join("");
  });
  const signs = upTo(D).map((i) => {
    const [left, right] = [-1, 1].map((side) => columnOf(i, D, width) + (side * barWidth) / 2);
    const [hat, slope] = [shown.xHat[i], shown.slopes[i]];
    const at = heightAt(ROW.dy, hat, limits.dy);
    const mark = !shown.marks ? "" : line(left - 7, at, right + 7, at, { "stroke-width": 2, "stroke-dasharray": "4 2" });
    if (slope === null) return mark;
    const d = `M${(right + 1).toFixed(1)} ${heightAt(ROW.dx, slope, limits.dx).toFixed(1)}l9 -5v10z`;
    return mark + tag("path", { d, fill: INK });
  });
  return [...rows, line(0, ROW.dx.top, width, ROW.dx.top, { "stroke-width": 1.25 }), ...signs].join("\n");
}

function limitsOf(shown) {
  const largest = (...rows) => Math.max(...rows.flat().map(Math.abs));
  return {
    x: Math.max(2.5, Math.ceil(largest(shown.x))),
    dy: Math.max(2.5, Math.ceil(largest(shown.dy, shown.marks ? shown.xHat : []))),
    dx: niceLimit(largest(shown.straight, shown.mean, shown.variance, shown.dx, shown.slopes)),
  };
}

export function still(changes = {}) {
  const shown = rowsOf({ ...start, ...changes });
  const parts = PATHS.map((path) => `${NAMES[path]}: ${list(shown[path])}`).join("; ");
  const described = `Six rows of ${shown.x.length} bars. x: ${list(shown.x)}. dy: ${list(shown.dy)}. ${parts}. Their sum dx: ${list(shown.dx)}.`;
  return file(TITLE, described, 584, ROW.nudge.top + 16, moved(12, 8, drawing(shown, 560, limitsOf(shown))));
}

// ---- The page ----

const STYLE = `
--side: 270px;
:is(.column, .column input, .path, .nudge) { position: absolute; margin: 0; }
.column { border-radius: 6px; cursor: ns-resize; }
.column input { inset: 0; height: 100%; opacity: 0; pointer-events: none; }
.column:has(:focus-visible) { outline: 2px solid var(--accent); outline-offset: -1px; }
.grip { left: 50%; max-width: 100%; }
.path { left: 0; width: ${HEAD}px; display: flex; align-items: center; cursor: pointer; }
.path input { width: 17px; height: 17px; margin: 0 0 0 2px; accent-color: currentColor; }
.nudge { height: 40px; min-height: 0; padding: 0; font-size: 12px; white-space: nowrap; overflow: hidden; }
.nudge-name { position: absolute; left: 2px; margin: 0; color: inherit; line-height: 1.2; }
td { font-size: 17px; font-weight: 650; text-align: left; }
th { font-size: 12px; color: var(--soft); text-align: left; }
caption { padding: 0; text-align: left; color: inherit; caption-side: top; }`;

/** The page: a range lies unseen on every bar that can be dragged, for keys and for screen readers. */
function page(id, { x }) {
  const features = upTo(x.length);
  const columns = ["x", "dy"].flatMap((key) =>
    features.map(
      (i) =>
        `<label class="column" data-bar="${key}" data-at="${i}">${range(key, `${key}, feature ${i + 1}`, -1, 1, 0.1, i)}<span class="grip"></span></label>`,
    ),
  );
  const paths = PATHS.map(
    (path) =>
      `<label class="path" style="top:${ROW[path].top}px;height:${ROW[path].height}px"><input type="checkbox" data-key="paths" value="${path}" aria-label="path ${NAMES[path]}"></label>`,
  );
  const nudges = features.map(
    (i) => `<button type="button" class="nudge" style="top:${ROW.nudge.top + 4}px"></button>`,
  );
  return `<div class="whole">
    <p class="say"></p>
    <div class="show"><div class="stage">
      <svg aria-hidden="true" height="${HEIGHT}"></svg>
      ${columns.join("")}${paths.join("")}
      <p class="nudge-name" style="top:${ROW.nudge.top + 4}px">nudge x:<br>slope of loss</p>${nudges.join("")}
    </div></div>
    <div class="set">
      <table>
        <caption>Three numbers of dx</caption>
        <tr><th scope="col">mean</th><th scope="col">largest |dx|</th><th scope="col">length</th></tr>
        <tr><td data-number="mean"></td><td data-number="largest"></td><td data-number="length"></td></tr>
      </table>
      ${box("marks", "mark x̂ in the row of dy")}
      ${buttons({ draw: "other numbers", reset: "reset" })}
    </div></div>`;
}

function connect({ stage, first, state, find, all, on, change, write, tell, drag }) {
  const svg = find("svg");
  const [columns, nudges, numbers] = [".column", ".nudge", "[data-number]"].map(all);
  const D = first.x.length;
  const limits = limitsOf(rowsOf(first));
  let asked = null; // the feature whose nudge was asked for last
  const stop = () => (asked = null);

  function draw({ width }) {
    const shown = rowsOf(state());
    const fresh = limitsOf(shown);
    for (const key of ["x", "dy"]) limits[key] = Math.max(limits[key], fresh[key]);
    limits.dx = held() ? Math.max(limits.dx, fresh.dx) : fresh.dx; // while a bar is held the scale may only grow
    svg.innerHTML = drawing(shown, width, limits);
    const columnWidth = (width - HEAD) / D;
    const across = (i, gap) => ({ left: `${HEAD + i * columnWidth + gap}px`, width: `${columnWidth - 2 * gap}px` });
    for (const column of columns) {
      const { bar: key, at } = column.dataset;
      const { top, height } = ROW[key];
      Object.assign(column.style, { ...across(at, 0), top: `${top}px`, height: `${height}px` });
      const [input, grip] = column.children;
      Object.assign(input, { min: -limits[key], max: limits[key] });
      grip.style.top = `${heightAt(ROW[key], shown[key][at], limits[key]) - top}px`;
    }
    nudges.forEach((button, i) => {
      const slope = shown.slopes[i];
      Object.assign(button.style, across(i, 3));
      button.setAttribute("aria-pressed", slope !== null);
      const measured = slope === null ? "" : `: the loss changes by ${fmt(slope)} for 1`;
      button.setAttribute("aria-label", `nudge feature ${i + 1}${measured}`);
      if (slope === null) write(button, columnWidth < 48 ? "+" : "nudge");
      else write(button, columnWidth < 40 ? fmt(slope, 1) : short(slope));
    });
    const { dx } = shown;
    const three = { mean: mean(dx), largest: Math.max(...dx.map(Math.abs)), length: Math.hypot(...dx) };
    for (const cell of numbers) write(cell, fmt(three[cell.dataset.number]));
    const words = sentence(shown, dx, asked);
    const rows = `x: ${list(shown.x)}. dy: ${list(shown.dy)}. Paths on: ${and(shown.paths) || "none"}. dx: ${list(dx)}`;
    const { mean: middle, largest, length } = three;
    tell(words, `${words} ${rows}. Mean of dx ${fmt(middle)}, largest entry ${fmt(largest)}, length ${fmt(length)}.`);
  }

  // Pointers: a mouse may take a bar anywhere in its column; a finger takes its tip, or taps, so that the page can scroll.
  const pixel = (event) => event.clientY - stage.getBoundingClientRect().top;
  const columnAt = ({ target }) => {
    const { bar: key, at } = target.closest?.(".column")?.dataset ?? {};
    return key && { key, at: Number(at) };
  };
  /** dy as it is, or x̂ where a mark of it is no farther than this: no hand is so exact. */
  function snapped(dy, far) {
    const { x, eps, marks } = state();
    const { hat } = layerNorm(x, { eps });
    return marks ? dy.map((v, i) => (Math.abs(v - hat[i]) <= far ? hat[i] : v)) : dy;
  }
  function put({ key, at }, value) {
    stop();
    const bounded = clamp(Math.round(value * 100) / 100, -limits[key], limits[key]);
    const row = state()[key].map((old, i) => (i === at ? bounded : old));
    change({ [key]: key === "dy" ? snapped(row, 0.1) : row });
  }
  const also = (key, values) => (key === "dy" ? { dy: snapped(values, 0.05) } : {}); // half a step of its range
  const held = drag(
    stage,
    (event) => {
      const column = columnAt(event);
      if (!column) return null;
      const tip = heightAt(ROW[column.key], state()[column.key][column.at], limits[column.key]);
      const near = Math.abs(pixel(event) - tip) < 22;
      if (event.pointerType === "touch" && !near) return null;
      if (!near) put(column, valueAt(ROW[column.key], pixel(event), limits[column.key]));
      return { ...column, offset: near ? tip - pixel(event) : 0 };
    },
    (event, bar) => put(bar, valueAt(ROW[bar.key], pixel(event) + bar.offset, limits[bar.key])),
  );
  on(stage, "click", (event) => {
    const column = columnAt(event);
    if (!column || event.pointerType !== "touch" || event.target.matches(".grip")) return; // a tap beside the tip
    put(column, valueAt(ROW[column.key], pixel(event), limits[column.key]));
  });
  nudges.forEach((button, i) => {
    on(button, "click", () => {
      const { nudged } = state();
      const others = nudged.filter((other) => other !== i);
      asked = others.length < nudged.length ? null : i;
      change({ nudged: asked === null ? others : [...others, i] });
    });
  });
  const random = (limit) => upTo(D).map(() => Math.round((2 * Math.random() - 1) * 0.8 * limit * 10) / 10);
  const acts = { draw: () => change({ x: random(limits.x), dy: random(limits.dy) }) };
  return { draw, acts, stop, also };
}

export default explorable({ name: "backward", title: TITLE, start, style: STYLE, page, connect });
