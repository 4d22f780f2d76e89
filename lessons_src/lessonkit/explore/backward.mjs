// The backward pass of LayerNorm: dy goes back to dx on three paths, which can be cut one by one.

// prettier-ignore
import {
  ACCENT, GREEN, INK, PURPLE, buttons, circle, clamp, explorable, file, fmt, label, layerNorm, letters, line, list, mean,
  moved, points, range, rect, tag, text, upTo,
} from "./host.mjs";

export const start = {
  x: [0.4, -0.8, 2, 1.3, -1.9],
  dy: [-0.6, 1.2, 2.2, 0.9, 0.5],
  gain: null,
  eps: 1e-5,
  paths: ["straight", "mean", "variance"],
  marks: false,
};

// ---- The mathematics ----

const PATHS = ["straight", "mean", "variance"];
const sum = (values) => values.reduce((a, b) => a + b, 0);

/** x̂, h, which is dy times the gain, and the one number of each path: rstd, mean(h) and mean(h x̂). */
function sharedBy(x, dy, { eps = 1e-5, gain } = {}) {
  const { rstd, hat } = layerNorm(x, { eps });
  const h = dy.map((v, i) => v * (gain?.[i] ?? 1));
  return { hat, h, shared: { straight: rstd, mean: mean(h), variance: mean(h.map((v, i) => v * hat[i])) } };
}

/** What each path brings to dx. x, dy: D numbers. Returns {straight, mean, variance}, D numbers each; their sum is dx. */
export function backward(x, dy, how) {
  const { hat, h, shared } = sharedBy(x, dy, how);
  return {
    straight: h.map((v) => shared.straight * v),
    mean: h.map(() => -shared.straight * shared.mean),
    variance: hat.map((v) => -shared.straight * v * shared.variance),
  };
}

const lossOf = (x, dy, how) => sum(layerNorm(x, how).y.map((v, i) => v * dy[i]));
const withEntry = (x, i, value) => x.map((v, j) => (j === i ? value : v));

/** How fast the loss, the sum of dy · y, grows when entry i of x grows by a little: measured, without a derivative. */
export function nudge(x, dy, i, { eps = 1e-5, gain } = {}) {
  const delta = 10 ** -(3 + Math.ceil(Math.log10(Math.max(1, layerNorm(x, { eps }).rstd))));
  const [before, after] = [x, withEntry(x, i, x[i] + delta)].map((row) => lossOf(row, dy, { eps, gain }));
  return (after - before) / delta;
}

/** All that is shown. steps: of each feature, how the paths lead from 0 to dx; slopes: what dx should be, measured. */
function shownOf(state) {
  const { x, dy, paths } = state;
  const parts = backward(x, dy, state);
  const steps = x.map((_, i) => {
    let level = 0;
    return PATHS.map((path) => {
      const [from, to] = [level, level + parts[path][i]];
      if (paths.includes(path)) level = to;
      return { path, from, to, level };
    });
  });
  const dx = steps.map((ways) => ways.at(-1).level);
  const slopes = x.map((_, i) => nudge(x, dy, i, state));
  return { ...state, ...sharedBy(x, dy, state), parts, steps, dx, slopes, loss: lossOf(x, dy, state) };
}

// ---- Words ----

/** What a hand can do, or what it has cut. It does not say what there is to find. */
function sentence({ paths, dx, slopes }) {
  if (paths.length === 3)
    return "Drag dy, and pull x along the loss. Click a path to cut it: is dx still the slope of the loss?";
  const missed = dx.filter((v, i) => Math.abs(slopes[i] - v) > 0.005 * Math.max(1, Math.abs(slopes[i]))).length;
  return `dx misses the slope of the loss in ${missed} of ${dx.length} places.`;
}

// ---- The picture ----

const TITLE = "The backward pass of LayerNorm, on three paths";
const TONES = { straight: INK, mean: GREEN, variance: PURPLE };
// Of a row: its top, the height of its 0, and the pixels of what is as large as its limit.
const ROW = {
  dy: { top: 0, height: 100, zero: 50, reach: 34 },
  dx: { top: 236, zero: 302, reach: 58 },
  loss: { top: 384, height: 136, zero: 446, reach: 48 },
};
const BOX = { top: 145, height: 46, middle: 168 };
const HEIGHT = ROW.loss.top + ROW.loss.height;

const heightAt = (key, value, limits) => ROW[key].zero - clamp((value || 0) / limits[key], -1, 1) * ROW[key].reach;

/** Where things are across the picture: middles of columns, four slots of dx in each, the boxes between them. */
function layout(D, width) {
  const head = 6.5 * letters() - 12; // for the names of the rows
  const pitch = (width - head) / D;
  const tenth = (v) => Math.round(10 * v) / 10; // a shorter file
  const middle = (i) => tenth(head + (i + 0.5) * pitch);
  const thin = Math.min(18, (pitch - 13) / 4);
  const box = Math.min(92, pitch - 10);
  const inside = tenth(Math.floor((D - 1) / 2) * pitch + box / 2); // of both boxes, from the left and from the right
  return {
    head,
    pitch,
    middle,
    thin,
    slot: (i, n) => tenth(middle(i) - 4 + (n - 1.5) * thin),
    half: pitch / 2 - 8,
    boxes: {
      straight: { left: 1, width: head - 8 },
      mean: { left: head + inside - box, width: box },
      variance: { left: width - inside, width: box },
    },
  };
}

/** A path: lines from dy to its slots of dx, as thick as what travels on them, and the box where they meet. */
function pathway(path, shown, { middle, slot, boxes }, limits) {
  const [color, on] = [TONES[path], shown.paths.includes(path)];
  const { left, width } = boxes[path];
  const [center, below, end] = [left + width / 2, BOX.top + BOX.height, ROW.dx.top - 6];
  const bend = (x1, y1, x2, y2) => `C${points([[x1, (y1 + y2) / 2], [x2, (y1 + y2) / 2], [x2, y2]])}`;
  const ends = shown.h.map((_, i) => slot(i, PATHS.indexOf(path)));
  const ways = shown.h.flatMap((h, i) => {
    const from = `M${middle(i)} ${ROW.dy.height}`;
    const out = [`M${center} ${below}${bend(center, below, ends[i], end)}`, shown.parts[path][i]];
    if (path === "straight") return [[`${from}V${below}${bend(middle(i), below, ends[i], end)}`, out[1]]];
    const enters = shown.shared.straight * h * (path === "mean" ? 1 : shown.hat[i]);
    return [[from + bend(middle(i), ROW.dy.height, center, BOX.top), enters], out];
  });
  const thick = (v) => 1 + 8 * Math.min(1, Math.abs(v || 0) / limits.dx);
  const cut = { "stroke-dasharray": "3 4", opacity: 0.5 };
  const look = (width) => ({ stroke: color, ...(on ? { "stroke-width": width } : cut) });
  const hit = { fill: "none", stroke: "transparent", "stroke-width": 11 }; // a finger meets no thin line
  const words = { "text-anchor": "middle", "font-size": width < 54 ? 11 : 12 };
  const squeezed = 0.56 * letters() * path.length > width && { textLength: width - 6, lengthAdjust: "spacingAndGlyphs" };
  const value = `${path === "straight" ? "× " : ""}${fmt(shown.shared[path])}`;
  return [
    ...ways.map(([d, amount]) => tag("path", { d, fill: "none", opacity: 0.6, ...look(thick(amount)) })),
    ...ends.map((at) => tag("path", { d: `M${at - 4.5} ${end - 3}h9l-4.5 8z`, fill: color, opacity: on ? 0.8 : 0.2 })),
    tag("path", { ...hit, d: ways.map(([d]) => d).join(""), "data-path": path }),
    path === "straight" ? line(left + width, BOX.middle, middle(0), BOX.middle, { opacity: 0.6, ...look(1) }) : "",
    rect(left, BOX.top, width, BOX.height, { rx: 7, fill: color, "fill-opacity": on ? 0.16 : 0, ...look(2) }),
    text(center, BOX.middle - 3, path, { ...words, ...squeezed }),
    text(center, BOX.middle + 0.75 * letters() + 3, on ? value : "cut", { ...words, "font-weight": 650 }),
  ].join("");
}

/** The column of a feature: dy, how dx comes about, and the loss as this number of x is pulled, with dx as its slope. */
function column(i, shown, { middle, slot, thin, half }, limits) {
  const { x, dy, dx, hat, slopes, steps, marks } = shown;
  const [center, centered] = [middle(i), { "text-anchor": "middle" }];
  const bar = (key, at, width, from, to, look) => {
    const [a, b] = [from, to].map((v) => heightAt(key, v, limits));
    return rect(at - width / 2, Math.min(a, b), width, Math.max(1, Math.abs(a - b)), look);
  };
  const across = (at, reach, y, look) => line(at - reach, y, at + reach, y, look);
  const [tip, mark] = [dy[i], hat[i]].map((v) => heightAt("dy", v, limits));
  const built = steps[i].map(({ path, from, to, level }, n) => {
    const color = TONES[path];
    const cut = { fill: "none", stroke: color, "stroke-dasharray": "2 2" };
    const look = level === to ? { fill: color, opacity: n ? 0.75 : 0.5 } : cut;
    const joint = across((slot(i, n) + slot(i, n + 1)) / 2, thin, heightAt("dx", level, limits), { opacity: 0.5 });
    return bar("dx", slot(i, n), thin - 2, from, to, look) + joint;
  });
  const right = (v) => center + (v / limits.x) * half;
  const curve = curveOf(i, shown, limits.x).map(([v, loss]) => [right(v), heightAt("loss", loss, limits)]);
  const [at, height] = [right(x[i]), heightAt("loss", shown.loss, limits)];
  const steep = (-dx[i] * ROW.loss.reach * limits.x) / (limits.loss * half) || 0;
  const run = Math.min(26, half - 2) / Math.hypot(1, steep);
  return [
    bar("dy", center, Math.min(34, half), 0, dy[i], { fill: INK, opacity: 0.4 }),
    across(center, Math.min(18, half), tip, { "stroke-width": 5, "stroke-linecap": "round" }),
    text(center, tip + (dy[i] < 0 ? letters() + 4 : -6), fmt(dy[i]), centered),
    marks ? across(center, Math.min(25, half + 6), mark, { "stroke-width": 2, "stroke-dasharray": "4 2" }) : "",
    ...built,
    bar("dx", slot(i, 3), thin - 1, 0, dx[i], { fill: ACCENT }),
    tag("path", { d: `M${slot(i, 3) + thin / 2} ${heightAt("dx", slopes[i], limits)}l9 -5v10z`, fill: INK }),
    text(center, ROW.dx.top + 140, fmt(dx[i]), { ...centered, fill: ACCENT, "font-weight": 650 }),
    tag("polyline", { points: points(curve), fill: "none", stroke: INK, opacity: 0.7, "stroke-width": 1.5 }),
    line(at - run, height - run * steep, at + run, height + run * steep, { stroke: ACCENT, "stroke-width": 3.5 }),
    circle(at, height, 6.5, { fill: INK }),
    text(center, HEIGHT - 6, `x${"₁₂₃₄₅₆"[i]} ${fmt(x[i], 1)}`, centered),
  ].join("");
}

/** The loss over entry i of x, where the others stay: pairs [x, loss]. */
const curveOf = (i, shown, end) =>
  upTo(33)
    .map((n) => (n / 16 - 1) * end)
    .map((v) => [v, lossOf(withEntry(shown.x, i, v), shown.dy, shown)]);

/** The whole picture, without its frame. limits: what is drawn as long as the reach of its row. */
function drawing(shown, width, limits) {
  const where = layout(shown.x.length, width);
  const italic = { "font-family": "Georgia, 'Liberation Serif', serif", "font-style": "italic", "font-size": 19 };
  const axis = (name, color, ...words) => {
    const { zero } = ROW[name];
    return [
      line(where.head, zero, width, zero, { opacity: 0.25 }),
      text(2, zero + 3, name, { ...italic, fill: color }),
      ...words.map((one, n) => label(2, zero + 4 + (n + 1) * (letters(11) + 3), one, "start", { "font-size": 11 })),
    ];
  };
  const level = heightAt("loss", shown.loss, limits);
  return [
    ...axis("dy", INK, "loss per y"),
    ...axis("dx", ACCENT, "loss per x", "◂ measured"),
    ...axis("loss", INK, fmt(shown.loss)),
    line(where.head, level, width, level, { opacity: 0.5, "stroke-dasharray": "2 4" }),
    ...PATHS.map((path) => pathway(path, shown, where, limits)).reverse(),
    ...shown.x.map((_, i) => column(i, shown, where, limits)),
  ].join("\n");
}

function limitsOf(shown) {
  const { x, dy, hat, slopes, steps, marks } = shown;
  const largest = (...rows) => Math.max(...rows.flat().map(Math.abs));
  const ends = { x: Math.max(2.5, largest(x)), dy: Math.max(2.5, largest(dy, marks ? hat : [])) };
  const losses = x.map((_, i) => curveOf(i, shown, ends.x).map(([, loss]) => loss || 0));
  const levels = steps.flat().map(({ to }) => to);
  return { ...ends, dx: 1.2 * largest(slopes, levels) || 1, loss: largest(...losses) || 1 };
}

export function still(changes = {}) {
  const shown = shownOf({ ...start, ...changes });
  const rows = { dy: shown.dy, ...shown.parts, dx: shown.dx, x: shown.x };
  const numbers = Object.entries(rows).map(([name, row]) => `${name}: ${list(row)}`);
  const described = `Lines lead from bars of dy to dx: straight, through a mean, and through a variance. What they bring adds up to dx, the slope of the loss over each x. ${numbers.join("; ")}.`;
  return file(TITLE, described, 584, HEIGHT + 16, moved(12, 8, drawing(shown, 560, limitsOf(shown))));
}

// ---- The page ----

const STYLE = `
--side: 270px;
.stage { overflow: clip; overflow-clip-margin: 6px; }
:is(.column, .path), :is(.column, .path) input { position: absolute; margin: 0; }
:is(.column, .path) { border-radius: 7px; cursor: ns-resize; }
:is(.column, .path) input { inset: 0; height: 100%; opacity: 0; pointer-events: none; }
:is(.column, .path):has(:focus-visible) { outline: 2px solid var(--accent); outline-offset: 1px; }
[data-bar=x] { cursor: ew-resize; }
.path, [data-path] { cursor: pointer; }
.grip { max-width: 100%; }
td { font-size: 17px; font-weight: 650; text-align: left; }
th { font-size: 12px; color: var(--soft); text-align: left; }
caption { padding: 0; text-align: left; color: inherit; caption-side: top; }`;

/** The page: a control lies unseen on all that a hand can change, for keys and for screen readers. */
function page(id, { x }) {
  const columns = (key) =>
    upTo(x.length).map(
      (i) =>
        `<label class="column" data-bar="${key}" data-at="${i}">${range(key, `${key}, feature ${i + 1}`, -1, 1, 0.1, i)}<span class="grip"></span></label>`,
    );
  const paths = PATHS.map(
    (path) =>
      `<label class="path" style="top:${BOX.top}px;height:${BOX.height}px"><input type="checkbox" data-key="paths" value="${path}" aria-label="path: ${path}"></label>`,
  );
  return `<div class="whole">
    <p class="say"></p>
    <div class="show"><div class="stage">
      <svg aria-hidden="true" height="${HEIGHT}"></svg>
      ${[...columns("dy"), ...columns("x"), ...paths].join("")}
    </div></div>
    <div class="set">
      <table>
        <caption>Three numbers of dx</caption>
        <tr><th scope="col">mean</th><th scope="col">largest |dx|</th><th scope="col">length</th></tr>
        <tr><td></td><td></td><td></td></tr>
      </table>
      ${buttons({ draw: "other numbers", reset: "reset" })}
    </div></div>`;
}

function connect({ stage, first, state, find, all, on, change, write, tell, drag }) {
  const [columns, boxes, numbers] = [".column", ".path", "td"].map(all);
  const D = first.x.length;
  let [limits, where] = [limitsOf(shownOf(first)), layout(D, 560)];

  function draw({ width }) {
    const shown = shownOf(state());
    const fresh = limitsOf(shown);
    // While a bar is held a scale may only grow.
    for (const key in fresh) limits[key] = held() ? Math.max(limits[key], fresh[key]) : fresh[key];
    where = layout(D, width);
    find("svg").innerHTML = drawing(shown, width, limits);
    const { head, pitch, half } = where;
    for (const { style, dataset, children } of columns) {
      const { bar: key, at } = dataset;
      const value = shown[key][at];
      const [row, shows, right] = key === "dy" ? ["dy", value, 0] : ["loss", shown.loss, (value / limits.x) * half];
      const { top, height } = ROW[row];
      const tip = heightAt(row, shows, limits) - top;
      style.cssText = `left:${head + at * pitch}px;width:${pitch}px;top:${top}px;height:${height}px`;
      Object.assign(children[0], { min: -limits[key], max: limits[key] });
      children[1].style.cssText = `left:${pitch / 2 + right}px;top:${tip}px`;
    }
    boxes.forEach(({ style }, n) => {
      const { left, width } = where.boxes[PATHS[n]];
      Object.assign(style, { left: `${left}px`, width: `${width}px` });
    });
    const { dx } = shown;
    const three = [mean(dx), Math.max(...dx.map(Math.abs)), Math.hypot(...dx)].map((v) => fmt(v));
    numbers.forEach((cell, n) => write(cell, three[n]));
    const words = sentence(shown);
    const measured = `Slopes of the loss: ${list(shown.slopes)}. dx: ${list(dx)}`;
    tell(words, `${words} ${measured}. Its mean ${three[0]}, largest entry ${three[1]}, length ${three[2]}.`);
  }

  /** dy as it is, or x̂ where a mark of it is no farther than this: no hand is so exact. */
  function snapped(dy, far) {
    const { x, eps, marks } = state();
    const { hat } = layerNorm(x, { eps });
    return marks ? dy.map((v, i) => (Math.abs(v - hat[i]) <= far ? hat[i] : v)) : dy;
  }
  const also = (key, values) => (key === "dy" ? { dy: snapped(values, 0.05) } : {}); // half a step of its range
  /** The value under a pointer: dy is dragged up and down, x to the sides. */
  function under({ clientX, clientY }, { bar, at }) {
    const { left, top } = stage.getBoundingClientRect();
    const { zero, reach } = ROW.dy;
    const up = (top + zero - clientY) / reach;
    return limits[bar] * (bar === "dy" ? up : (clientX - left - where.middle(+at)) / where.half);
  }
  function put({ bar, at }, value) {
    const row = withEntry(state()[bar], +at, clamp(Math.round(value * 100) / 100, -limits[bar], limits[bar]));
    change({ [bar]: bar === "dy" ? snapped(row, 0.1) : row });
  }
  // A mouse takes hold anywhere in a column, a finger only of what it moves, so that the page can scroll.
  const held = drag(
    stage,
    (event) => {
      const of = event.target.closest(".column")?.dataset;
      const gripped = event.target.matches(".grip");
      if (!of || (event.pointerType === "touch" && !gripped)) return null;
      return { of, offset: gripped ? state()[of.bar][of.at] - under(event, of) : 0 };
    },
    (event, { of, offset }) => put(of, under(event, of) + offset),
  );
  on(stage, "click", ({ target }) => {
    const { path } = target.dataset;
    if (path) change({ paths: PATHS.filter((one) => state().paths.includes(one) !== (one === path)) });
  });
  const random = (limit) => upTo(D).map(() => Math.round((2 * Math.random() - 1) * 0.8 * limit * 10) / 10);
  const acts = { draw: () => change({ x: random(2.5), dy: random(2.5) }) };
  return { draw, acts, also };
}

export default explorable({ name: "backward", title: TITLE, start, style: STYLE, page, connect });
