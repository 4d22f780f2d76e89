// The backward pass of LayerNorm: dy travels back to dx on three paths, which can be switched off one by one.
// An anywidget front-end module: JupyterLab and a page without a kernel run this same file. No library, no network.
// The model holds what `start` lists. `still()` draws the same as text, for viewers that run no script.

// ---- What the model holds, and how it starts ----

export const start = {
  x: [0.4, -0.8, 2, 1.3, -1.9], // one row; D numbers, at least 3
  dy: [-0.6, 1.2, 2.2, 0.9, 0.5], // what comes back from the loss, D numbers
  gain: null, // D numbers; null: all 1
  eps: 1e-5,
  paths: ["straight", "mean", "variance"], // the paths that are on
  nudged: [], // the features, counted from 0, whose nudge is shown
  marks: false, // whether the row of dy shows where x̂ is
};

// ---- The mathematics: pure functions, compared with torch by the tests ----

const PATHS = ["straight", "mean", "variance"];
const sum = (values) => values.reduce((a, b) => a + b, 0);
const average = (values) => sum(values) / values.length;

/** LayerNorm of one row, without a bias. Returns {mean, variance, rstd, xHat, y}. */
export function forward(x, { eps = 1e-5, gain = null } = {}) {
  const mean = average(x);
  const centered = x.map((v) => v - mean);
  const variance = average(centered.map((c) => c * c));
  const rstd = 1 / Math.sqrt(variance + eps);
  const xHat = centered.map((c) => c * rstd);
  return { mean, variance, rstd, xHat, y: xHat.map((v, i) => v * (gain?.[i] ?? 1)) };
}

/** What each path brings to dx. x, dy: D numbers. Returns {straight, mean, variance}, D numbers each; their sum is dx. */
export function backward(x, dy, { eps = 1e-5, gain = null } = {}) {
  const { rstd, xHat } = forward(x, { eps, gain });
  const h = dy.map((v, i) => v * (gain?.[i] ?? 1));
  const meanH = average(h);
  const meanHX = average(h.map((v, i) => v * xHat[i]));
  return {
    straight: h.map((v) => rstd * v),
    mean: h.map(() => -rstd * meanH),
    variance: xHat.map((v) => -rstd * v * meanHX),
  };
}

/** The sum of the paths that are on: D numbers, zeros where none is. */
export const combine = (parts, paths = PATHS) => parts.straight.map((_, i) => sum(paths.map((path) => parts[path][i])));

/** Three numbers of a row: its mean, its largest entry by size, its length. */
export function summary(dx) {
  return { mean: average(dx), largest: Math.max(...dx.map(Math.abs)), length: Math.hypot(...dx) };
}

/** How fast the loss, the sum of dy · y, grows when entry i of x grows by delta: measured, without a derivative. */
export function nudge(x, dy, i, { eps = 1e-5, gain = null, delta = smallStep(x, eps) } = {}) {
  const loss = (row) => sum(forward(row, { eps, gain }).y.map((v, j) => v * dy[j]));
  const moved = x.map((v, j) => (j === i ? v + delta : v));
  return (loss(moved) - loss(x)) / delta;
}

/** A power of ten that is small beside the row's deviation, 0.001 at most. */
export function smallStep(x, eps) {
  const { rstd } = forward(x, { eps });
  return Number.isFinite(rstd) ? 10 ** -(3 + Math.ceil(Math.log10(Math.max(1, rstd)))) : 1e-3;
}

// ---- Words ----

const fmt = (v, digits = 2) => {
  if (!Number.isFinite(v)) return "0/0";
  const text = Math.abs(v).toFixed(digits);
  return (v < 0 && Number(text) !== 0 ? "−" : "") + text;
};
/** The same with fewer digits where the number is large. */
const short = (v) => fmt(v, Math.abs(v) < 10 ? 2 : Math.abs(v) < 100 ? 1 : 0);
const list = (values) => values.map((v) => fmt(v)).join(", ");
const and = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);
const NAMES = { straight: "straight", mean: "through the mean", variance: "through the variance" };

/** One sentence on the paths, or on the nudge that was asked for last. It does not say what there is to find. */
function sentence({ x, dy, eps, gain, paths }, dx, asked) {
  if (!dx.every(Number.isFinite)) return "All numbers of x are equal and ε is 0: the deviation is 0, and dx is 0/0.";
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

// ---- The picture: SVG as text, the same in a browser and under Node ----

const HEAD = 104; // pixels on the left for the names of the rows
const ROWS = [
  { key: "x", name: "x", height: 112 },
  { key: "dy", name: "dy", height: 112 },
  { key: "straight", name: "straight", height: 80 },
  { key: "mean", name: "mean", height: 80 },
  { key: "variance", name: "variance", height: 80 },
  { key: "dx", name: "dx", height: 112 },
  { key: "nudge", name: "nudge", height: 44 },
];
ROWS.forEach((row, i) => (row.top = i ? ROWS[i - 1].top + ROWS[i - 1].height : 0));
const ROW = Object.fromEntries(ROWS.map((row) => [row.key, row]));
const HEIGHT = ROW.nudge.top + ROW.nudge.height + 4;
const REACH = 38; // pixels of the longest bar: the same in every row, so that the three paths and their sum can be compared

const clamp = (v, low, high) => Math.min(high, Math.max(low, v));
const columnOf = (i, D, width) => HEAD + ((i + 0.5) * (width - HEAD)) / D;
const heightAt = (row, value, limit) => row.top + row.height / 2 - (clamp(value, -limit, limit) / limit) * REACH;
const valueAt = (row, pixel, limit) => ((row.top + row.height / 2 - pixel) / REACH) * limit;

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
  return {
    ...state,
    ...parts,
    dx: combine(parts, paths),
    xHat: forward(x, { eps, gain }).xHat,
    slopes: x.map((_, i) => (nudged.includes(i) ? nudge(x, dy, i, { eps, gain }) : null)),
  };
}

const text = (x, y, words, attributes = "") =>
  `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${attributes}>${words}</text>`;

/** One bar from the middle of its row, its number at the tip where there is room, its grip if it can be dragged. */
function bar(row, middle, width, value, limit, kind) {
  if (!Number.isFinite(value)) return text(middle, row.top + row.height / 2 + 4, "0/0", 'class="number"');
  const [zero, tip] = [row.top + row.height / 2, heightAt(row, value, limit)];
  const shape = `<rect class="${kind}" x="${(middle - width / 2).toFixed(1)}" width="${width.toFixed(1)}" y="${Math.min(zero, tip).toFixed(1)}" height="${Math.max(0.8, Math.abs(tip - zero)).toFixed(1)}"/>`;
  if (PATHS.includes(row.key)) return shape; // no numbers: the sum has them
  const grip =
    kind === "input"
      ? `<rect class="grip-mark" x="${(middle - width / 2 - 2).toFixed(1)}" width="${(width + 4).toFixed(1)}" y="${(tip - 2.5).toFixed(1)}" height="5" rx="2.5"/>`
      : "";
  return (
    shape +
    grip +
    text(middle, tip + (value < 0 ? 15 : -6), short(value), `class="number${width < 22 ? " small" : ""}"`)
  );
}

/** The whole picture, without its frame. limits: {x, dy, dx}, what the longest bar of a row stands for. */
function drawing(shown, width, limits) {
  const D = shown.x.length;
  const barWidth = Math.min(34, (0.58 * (width - HEAD)) / D);
  const out = [];
  for (const row of ROWS.slice(0, -1)) {
    const isPath = PATHS.includes(row.key);
    const off = isPath && !shown.paths.includes(row.key);
    const middle = row.top + row.height / 2;
    const kind = { x: "input", dy: "input", dx: "result" }[row.key] ?? (off ? "part off" : "part");
    out.push(`<line class="zero" x1="${HEAD}" x2="${width}" y1="${middle}" y2="${middle}"/>`);
    out.push(
      text(
        isPath ? 26 : 2,
        middle + 5,
        row.name,
        `class="name ${isPath ? "path-name" : "letter"} ${off ? "off" : ""} ${row.key === "dx" ? "accent" : ""}"`,
      ),
    );
    const limit = limits[row.key] ?? limits.dx;
    for (let i = 0; i < D; i++) out.push(bar(row, columnOf(i, D, width), barWidth, shown[row.key][i], limit, kind));
  }
  out.push(`<line class="sum" x1="0" x2="${width}" y1="${ROW.dx.top}" y2="${ROW.dx.top}"/>`);
  for (let i = 0; i < D; i++) {
    const middle = columnOf(i, D, width);
    if (shown.marks && Number.isFinite(shown.xHat[i])) {
      const y = heightAt(ROW.dy, shown.xHat[i], limits.dy).toFixed(1);
      out.push(
        `<path class="mark" d="M${(middle - barWidth / 2 - 7).toFixed(1)} ${y}h${(barWidth + 14).toFixed(1)}"/>`,
      );
    }
    if (shown.slopes[i] !== null && Number.isFinite(shown.slopes[i])) {
      const y = heightAt(ROW.dx, shown.slopes[i], limits.dx);
      out.push(`<path class="measured" d="M${(middle + barWidth / 2 + 1).toFixed(1)} ${y.toFixed(1)}l9 -5v10z"/>`);
    }
  }
  return out.join("");
}

const SHAPES = `
  rect.input { fill: currentColor; opacity: 0.4; }
  rect.part { fill: currentColor; opacity: 0.55; }
  rect.part.off { fill: none; stroke: currentColor; stroke-dasharray: 2 2; opacity: 0.5; }
  rect.result { fill: var(--accent); }
  rect.grip-mark { fill: currentColor; }
  line.zero { stroke: currentColor; opacity: 0.25; }
  line.sum { stroke: currentColor; stroke-width: 1.25; }
  path.mark { stroke: currentColor; stroke-width: 2; stroke-dasharray: 4 2; }
  path.measured { fill: currentColor; }
  text { fill: currentColor; font-size: 13px; }
  text.number { font-size: 12px; text-anchor: middle; font-variant-numeric: tabular-nums; }
  text.small { font-size: 10.5px; }
  text.letter { font: italic 19px Georgia, "Liberation Serif", serif; }
  text.off { opacity: 0.66; }
  text.accent { fill: var(--accent); }`;

/** The same rules for an SVG file: in plain colors, and for this file alone, since a page may hold several. */
const FILE_SHAPES = SHAPES.replaceAll("var(--accent)", "#0672b2").replace(/\n {2}/g, "\n  .ln-backward-file ");

/** The picture of a state as an SVG file of its own. */
export function still(state = {}, width = 560) {
  const shown = rowsOf({ ...start, ...state });
  const parts = PATHS.map((path) => `${NAMES[path]}: ${list(shown[path])}`).join("; ");
  const height = ROW.nudge.top + 8;
  return `<svg xmlns="http://www.w3.org/2000/svg" class="ln-backward-file" color="#1f2328" font-family="system-ui, sans-serif" viewBox="-12 -8 ${width + 24} ${height + 8}" width="${width + 24}" role="img">
<title>The backward pass of LayerNorm, on three paths</title>
<desc>Six rows of ${shown.x.length} bars. x: ${list(shown.x)}. dy: ${list(shown.dy)}. ${parts}. Their sum dx: ${list(shown.dx)}.</desc>
<style>${FILE_SHAPES}
  .ln-backward-file .path-name { transform: translateX(-24px); }
</style>
<rect x="-12" y="-8" width="100%" height="100%" fill="#ffffff"/>
${drawing(shown, width, limitsOf(shown)).replaceAll("><", ">\n<")}
</svg>
`;
}

function limitsOf(shown) {
  const largest = (rows) => Math.max(...rows.flat().filter(Number.isFinite).map(Math.abs));
  return {
    x: Math.max(2.5, Math.ceil(largest([shown.x]))),
    dy: Math.max(2.5, Math.ceil(largest([shown.dy]))),
    dx: niceLimit(largest([shown.straight, shown.mean, shown.variance, shown.dx, shown.slopes.map((v) => v ?? 0)])),
  };
}

// ---- The page around the picture ----

const STYLE = `
.ln-backward {
  --accent: color-mix(in srgb, currentColor 20%, #0086d4); /* darker on a light page, lighter on a dark one */
  --soft: color-mix(in srgb, currentColor 66%, transparent);
  --edge: color-mix(in srgb, currentColor 22%, transparent);
  display: grid; gap: 12px 28px; max-width: 900px; font-size: 14px; line-height: 1.45; color: inherit;
  & * { box-sizing: border-box; }
  &.wide { grid-template-columns: minmax(0, 1fr) 270px; align-items: center; }
  .stage { position: relative; touch-action: pan-y; user-select: none; -webkit-user-select: none; }
  input, button { color: inherit; }
  svg { display: block; width: 100%; overflow: visible; } ${SHAPES}
  .column, .path, .nudge { position: absolute; margin: 0; border-radius: 6px; }
  .column { cursor: ns-resize; }
  .column input { position: absolute; inset: 0; width: 100%; height: 100%; margin: 0; opacity: 0; pointer-events: none; }
  .grip { position: absolute; left: 50%; width: 44px; height: 44px; margin: -22px 0 0 -22px; touch-action: none; }
  .path { left: 0; display: flex; align-items: center; cursor: pointer; }
  .path input { width: 17px; height: 17px; margin: 0 0 0 2px; accent-color: currentColor; cursor: pointer; }
  .nudge { height: 40px; padding: 0; font: inherit; font-size: 12px; white-space: nowrap; overflow: hidden; color: inherit; background: none; border: 1px solid var(--edge); cursor: pointer; }
  .nudge-name { position: absolute; left: 2px; margin: 0; color: inherit; line-height: 1.2; }
  .act { flex: 1; min-height: 36px; padding: 0 12px; font: inherit; color: inherit; background: none; border: 1px solid var(--edge); border-radius: 8px; cursor: pointer; }
  :is(.nudge, .act):hover { background: color-mix(in srgb, currentColor 8%, transparent); }
  :is(.column, .path):has(:focus-visible), :is(.nudge, .act):focus-visible { outline: 2px solid var(--accent); outline-offset: -1px; }
  .say { min-height: 5.8em; margin: 0 0 8px; font-size: 15px; text-wrap: pretty; }
  table { width: 100%; margin: 0 0 12px; table-layout: fixed; border-collapse: collapse; font: inherit; font-variant-numeric: tabular-nums; }
  :is(th, td) { padding: 2px 0; border: 0; background: none; color: inherit; font-weight: 400; text-align: left; }
  tr { border: 0; background: none; } th { font-size: 12px; color: var(--soft); } td { font-size: 17px; font-weight: 650; }
  caption { padding: 0; text-align: left; color: inherit; caption-side: top; }
  .line { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; }
  .marks { display: flex; flex-basis: 100%; gap: 8px; align-items: center; min-height: 32px; margin: 0; cursor: pointer; }
  .marks input { width: 17px; height: 17px; margin: 0 2px; accent-color: currentColor; }
  .unseen { position: absolute; width: 1px; height: 1px; margin: 0; padding: 0; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
  @media (pointer: coarse) { .act, .marks { min-height: 44px; } }
}`;

/** The page for D features. A range lies unseen on every bar that can be dragged: for keys and for screen readers. */
function page(D) {
  const features = Array.from({ length: D }, (_, i) => i);
  const columns = ["x", "dy"].flatMap((key) =>
    features.map(
      (i) =>
        `<label class="column" data-key="${key}" data-i="${i}"><input type="range" step="0.1" aria-label="${key}, feature ${i + 1}"><span class="grip"></span></label>`,
    ),
  );
  const paths = PATHS.map(
    (path) =>
      `<label class="path" style="top:${ROW[path].top}px;height:${ROW[path].height}px;width:${HEAD}px"><input type="checkbox" value="${path}" aria-label="path ${NAMES[path]}"></label>`,
  );
  const nudges = features.map((i) => `<button type="button" class="nudge" data-i="${i}"></button>`);
  return `<style>${STYLE}</style>
    <div class="stage">
      <svg aria-hidden="true" height="${HEIGHT}"></svg>
      ${columns.join("")}${paths.join("")}
      <p class="nudge-name" style="top:${ROW.nudge.top + 4}px">nudge x:<br>slope of loss</p>${nudges.join("")}
    </div>
    <div>
      <table>
        <caption>Three numbers of dx</caption>
        <tr><th scope="col">mean</th><th scope="col">largest |dx|</th><th scope="col">length</th></tr>
        <tr><td data-number="mean"></td><td data-number="largest"></td><td data-number="length"></td></tr>
      </table>
      <p class="say"></p>
      <div class="line">
        <label class="marks"><input type="checkbox" data-marks>mark x̂ in the row of dy</label>
        <button type="button" class="act" data-act="draw">other numbers</button>
        <button type="button" class="act" data-act="reset">reset</button>
      </div>
      <p class="unseen" role="status"></p>
    </div>`;
}

// ---- The explorable ----

/** Builds the explorable in el and returns the function that takes it away. */
function render({ model, el }) {
  const get = (key) => model.get(key) ?? start[key];
  const state = () => Object.fromEntries(Object.keys(start).map((key) => [key, get(key)]));
  const first = state();
  const D = first.x.length;
  const gone = new AbortController();
  const on = (node, event, act) => node.addEventListener(event, act, { signal: gone.signal });
  const root = Object.assign(document.createElement("div"), { className: "ln-backward", innerHTML: page(D) });
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "The backward pass of LayerNorm, on three paths");
  el.append(root);
  const find = (selector) => root.querySelector(selector);
  const all = (selector) => [...root.querySelectorAll(selector)];
  const [stage, svg, say, status] = [".stage", "svg", ".say", "[role=status]"].map(find);
  const [columns, nudges] = [all(".column"), all(".nudge")];

  let [frame, unsaved, visible, telling] = [0, false, true, 0]; // what is under way
  let hold = null; // {key, i, offset}: the bar that a pointer holds
  let asked = null; // the feature whose nudge was asked for last
  const limits = limitsOf(rowsOf(first));
  let width = 0;

  function request() {
    if (!frame && visible && !gone.signal.aborted) frame = requestAnimationFrame(tick);
  }
  function change(changes) {
    for (const [key, value] of Object.entries(changes)) model.set(key, value);
    unsaved = true;
    request();
  }
  function put(key, i, value) {
    asked = null;
    const bounded = clamp(Math.round(value * 100) / 100, -limits[key], limits[key]);
    change({ [key]: get(key).map((old, j) => (j === i ? bounded : old)) });
  }
  function tick() {
    frame = 0;
    if (width) draw();
    if (unsaved) model.save_changes();
    unsaved = false;
  }

  const write = (node, words) => node.textContent !== words && (node.textContent = words);
  function draw() {
    const shown = rowsOf(state());
    const fresh = limitsOf(shown);
    for (const key of ["x", "dy"]) limits[key] = Math.max(limits[key], fresh[key]);
    limits.dx = hold ? Math.max(limits.dx, fresh.dx) : fresh.dx; // while a bar is held the scale may only grow
    svg.innerHTML = drawing(shown, width, limits);
    const columnWidth = (width - HEAD) / D;
    for (const column of columns) {
      const { key, i } = column.dataset;
      const row = ROW[key];
      const [input, grip] = column.children;
      Object.assign(column.style, {
        left: `${HEAD + i * columnWidth}px`,
        width: `${columnWidth}px`,
        top: `${row.top}px`,
        height: `${row.height}px`,
      });
      Object.assign(input, { min: -limits[key], max: limits[key], value: shown[key][i] });
      input.setAttribute("aria-valuetext", fmt(shown[key][i]));
      grip.style.top = `${heightAt(row, shown[key][i], limits[key]) - row.top}px`;
    }
    nudges.forEach((button, i) => {
      const slope = shown.slopes[i];
      Object.assign(button.style, {
        left: `${HEAD + i * columnWidth + 3}px`,
        width: `${columnWidth - 6}px`,
        top: `${ROW.nudge.top + 4}px`,
      });
      button.setAttribute("aria-pressed", slope !== null);
      button.setAttribute(
        "aria-label",
        `nudge feature ${i + 1}${slope === null ? "" : `: the loss changes by ${fmt(slope)} for 1`}`,
      );
      const measured = columnWidth < 40 ? (v) => fmt(v, 1) : short;
      write(button, slope !== null ? measured(slope) : columnWidth < 48 ? "+" : "nudge");
    });
    for (const box of all(".path input")) box.checked = shown.paths.includes(box.value);
    find("[data-marks]").checked = shown.marks;
    tell(shown);
  }
  function tell(shown) {
    const numbers = summary(shown.dx);
    const words = sentence(shown, shown.dx, asked);
    for (const cell of all("[data-number]")) write(cell, fmt(numbers[cell.dataset.number]));
    write(say, words);
    clearTimeout(telling); // said once the hand rests
    const report = `${words} x: ${list(shown.x)}. dy: ${list(shown.dy)}. Paths on: ${and(shown.paths) || "none"}. dx: ${list(shown.dx)}. Mean of dx ${fmt(numbers.mean)}, largest entry ${fmt(numbers.largest)}, length ${fmt(numbers.length)}.`;
    telling = setTimeout(() => write(status, report), 700);
  }

  // Pointers: a mouse may take a bar anywhere in its column; a finger takes its tip, or taps, so that the page can scroll.
  const pixel = (event) => event.clientY - stage.getBoundingClientRect().top;
  for (const column of columns) {
    const { key } = column.dataset;
    const i = Number(column.dataset.i);
    on(column, "pointerdown", (event) => {
      const tip = heightAt(ROW[key], get(key)[i], limits[key]);
      const near = Math.abs(pixel(event) - tip) < 22;
      if (event.button || (event.pointerType === "touch" && !near)) return;
      column.setPointerCapture(event.pointerId);
      hold = { key, i, id: event.pointerId, offset: near ? tip - pixel(event) : 0 };
      if (!near) put(key, i, valueAt(ROW[key], pixel(event), limits[key]));
    });
    on(column, "pointermove", (event) => {
      if (hold?.id === event.pointerId) put(key, i, valueAt(ROW[key], pixel(event) + hold.offset, limits[key]));
    });
    for (const end of ["pointerup", "pointercancel"]) on(column, end, () => ((hold = null), request()));
    on(column, "click", (event) => {
      if (event.pointerType !== "touch" || event.target.matches(".grip")) return; // a tap beside the tip
      put(key, i, valueAt(ROW[key], pixel(event), limits[key]));
    });
    on(column.firstElementChild, "input", (event) => put(key, i, Number(event.target.value)));
  }
  on(root, "keydown", (event) => {
    // unmodified keys stay here: JupyterLab would take "a" as a command
    if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
  });
  const toggled = (items, item) => (items.includes(item) ? items.filter((other) => other !== item) : [...items, item]);
  for (const box of all(".path input"))
    on(box, "change", () => change({ paths: PATHS.filter((path) => toggled(get("paths"), box.value).includes(path)) }));
  nudges.forEach((button, i) =>
    on(button, "click", () => {
      asked = get("nudged").includes(i) ? null : i;
      change({ nudged: toggled(get("nudged"), i) });
    }),
  );
  on(find("[data-marks]"), "change", (event) => change({ marks: event.target.checked }));
  const random = (limit) =>
    Array.from({ length: D }, () => Math.round((2 * Math.random() - 1) * 0.8 * limit * 10) / 10);
  const acts = { draw: () => change({ x: random(limits.x), dy: random(limits.dy) }), reset: () => change(first) };
  for (const button of all("[data-act]")) on(button, "click", () => ((asked = null), acts[button.dataset.act]()));

  // Size, sight, and the way out.
  const size = new ResizeObserver(() => {
    root.classList.toggle("wide", root.clientWidth >= 660);
    width = stage.clientWidth;
    request();
  });
  const sight = new IntersectionObserver((entries) => {
    visible = entries.at(-1).isIntersecting;
    request();
  });
  for (const node of [root, stage]) size.observe(node);
  sight.observe(root);
  for (const key of Object.keys(start)) model.on(`change:${key}`, request);
  return () => {
    gone.abort();
    cancelAnimationFrame(frame);
    clearTimeout(telling);
    for (const observer of [size, sight]) observer.disconnect();
    for (const key of Object.keys(start)) model.off(`change:${key}`, request);
    root.remove();
  };
}

export default { render };
