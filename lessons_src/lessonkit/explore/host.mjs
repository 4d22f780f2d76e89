// What all explorables share: numbers, words, a picture as SVG text, the look of a page, and the host itself, which
// hears hands and keys, asks for frames, and leaves nothing behind. No library, no network.
// A module imports it: the site bundles both, and lessonkit.explore joins both to one script of a notebook's page. Each
// exports start, its parameters as lessonkit.explore describes them, still(changes), its picture as an SVG file, and what
// it computes, which is compared with torch.

// ---- Numbers ----

export const mean = (x) => x.reduce((sum, v) => sum + v, 0) / x.length;
export const clamp = (v, low, high) => Math.min(high, Math.max(low, v));
/** Rows on the straight way from p to q: p at share 0, q at share 1. */
export const lerp = (p, q, share) => p.map((v, i) => (1 - share) * v + share * q[i]);
/** A way that begins and ends slowly. */
export const smooth = (share) => share * share * (3 - 2 * share);
export const upTo = (n) => Array.from({ length: n }, (_, i) => i);

/**
 * LayerNorm of one row x of D numbers; gain and bias: D numbers each, or null for none.
 * correction: the squares are divided by D minus this, 0 in LayerNorm, 1 in torch.var's default.
 * Returns {mu, variance, sigma, rstd, centered, hat, y}. At eps 0 a row of equal numbers is 0/0, NaN.
 */
export function layerNorm(x, { eps = 1e-5, correction = 0, gain = null, bias = null } = {}) {
  const mu = mean(x);
  const centered = x.map((v) => v - mu);
  const variance = centered.reduce((sum, v) => sum + v * v, 0) / (x.length - correction);
  const rstd = 1 / Math.sqrt(variance + eps);
  const hat = centered.map((v) => v * rstd);
  const y = hat.map((v, i) => v * (gain?.[i] ?? 1) + (bias?.[i] ?? 0));
  return { mu, variance, sigma: Math.sqrt(variance), rstd, centered, hat, y };
}

/** The gradient of LayerNorm's input, from that of its output hat (no gain): D numbers. */
export function layerNormBack(gradient, { hat, rstd }) {
  const along = mean(gradient.map((v, i) => v * hat[i]));
  const all = mean(gradient);
  return gradient.map((v, i) => rstd * (v - all - hat[i] * along));
}

/** Matrices, row by row: a (n, k) times b (k, m) is (n, m). */
export function times(a, b, k, m) {
  const n = a.length / k;
  const out = Array(n * m).fill(0);
  for (let i = 0; i < n; i++) {
    for (let l = 0; l < k; l++) {
      const factor = a[i * k + l];
      if (factor === 0) continue; // half of what a ReLU leaves
      for (let j = 0; j < m; j++) out[i * m + j] += factor * b[l * m + j];
    }
  }
  return out;
}

/** Uniform numbers between 0 and 1, the same for a seed everywhere: mulberry32's 32-bit integers n as (n + 1/2) / 2^32. */
export function uniform(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let n = Math.imul(state ^ (state >>> 15), state | 1);
    n ^= n + Math.imul(n ^ (n >>> 7), n | 61);
    return (((n ^ (n >>> 14)) >>> 0) + 0.5) / 2 ** 32;
  };
}

/** Standard normal numbers: the cosine of Box and Muller, one of two uniform ones. */
export function normal(seed) {
  const next = uniform(seed);
  return () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
}

// ---- Words ----

/** A number with a true minus sign and never −0. */
export function fmt(v, digits = 2) {
  if (!Number.isFinite(v)) return "0/0";
  return (+v.toFixed(digits) < 0 ? "−" : "") + Math.abs(v).toFixed(digits);
}
export const list = (row) => Array.from(row, (v) => fmt(v)).join(", ");

/** A number as a factor and a power of ten, 3.1·10⁻⁸; a factor of 1 is left out. */
export function power(v, digits = 0) {
  const [factor, exponent] = v.toExponential(digits).split("e");
  const raised = exponent.replace("+", "").replace(/./g, (sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]);
  return `${factor === "1" ? "" : `${factor}·`}10${raised}`;
}

// ---- The picture: SVG as text, the same in a browser and under Node ----

export const INK = "currentColor";
export const ACCENT = "var(--accent)"; // LayerNorm's result and what is chosen, and nothing else
export const ORANGE = "var(--orange)"; // BatchNorm's, as in the whole course
export const [GREEN, PURPLE] = ["var(--green)", "var(--purple)"]; // parts of a sum
const FILE_COLORS = { [INK]: "#1f2328", [ACCENT]: "#0072b2", [ORANGE]: "#d55e00", [GREEN]: "#087f60", [PURPLE]: "#a45486" };

let least = 0;
/** Pixels of letters: as many as asked for, or more on a slide. What letters need room for is told in them. */
export const letters = (size = 12) => Math.max(size, least);
/** What draw() returns, with no letters smaller than `size`: a slide is read from the last row. */
export function enlarged(size, draw) {
  least = size;
  const picture = draw();
  least = 0;
  return picture;
}

/** An SVG element as text. Numbers are rounded to a hundredth of a pixel. */
export function tag(name, attributes, inside = "") {
  const text = Object.entries(attributes).map(([key, v]) => `${key}="${typeof v === "number" ? +v.toFixed(2) : v}"`);
  return `<${name} ${text.join(" ")}>${inside}</${name}>`;
}
export const line = (x1, y1, x2, y2, more) => tag("line", { x1, y1, x2, y2, stroke: INK, ...more });
export function text(x, y, inside, more) {
  const look = { x, y, fill: INK, "font-size": 12, ...more };
  return tag("text", { ...look, "font-size": letters(look["font-size"]) }, inside);
}
export const rect = (x, y, width, height, more) => tag("rect", { x, y, width, height, ...more });
export const circle = (cx, cy, r, more) => tag("circle", { cx, cy, r, ...more });
/** Words beside an axis, in the background. anchor: "start", "middle" or "end" of them is at x. */
export const label = (x, y, inside, anchor = "middle", more = {}) =>
  text(x, y, inside, { "text-anchor": anchor, opacity: 0.72, ...more });
export const moved = (x, y, inside) => tag("g", { transform: `translate(${x} ${y})` }, inside);
/** Points [x, y] as the text that polygon, polyline and path understand. */
export const points = (row) => row.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");

/** Room for the names left of a panel's columns and of its table's: pixels, or as many of a slide's letters. */
export const namesRoom = (pixels, wide) => ({
  width: () => Math.max(pixels, wide * letters()),
  style: `tr > :first-child { width: max(${pixels}px, ${wide}em); }`,
});

/**
 * A panel with a column for each of D features, for values from -limit to limit; its numbers are left of `left`.
 * name: the axis' own. free: a height at which no number may stand. Returns {x: middle of a column, y: height of a value, grid, bars, marks}.
 */
export function panel({ width, tall, limit, D, ticks, left, name, free = Infinity }) {
  const x = (i) => left + ((width - left) / D) * (i + 0.5);
  const y = (v) => (tall / 2) * (1 - clamp(v || 0, -limit, limit) / limit);
  const number = (v) => label(left - 8, y(v) + letters() / 3, fmt(v, 1).replace(".0", ""), "end");
  const tick = (v) =>
    line(left, y(v), width, y(v), { opacity: v ? 0.13 : 0.6 }) + (Math.abs(y(v) - free) < letters() + 2 ? "" : number(v));
  const bar = (v, i, half) => [x(i) - half, Math.min(y(v), y(0)), 2 * half, Math.abs(y(v) - y(0))];
  const bars = (values, look, half = 13) => values.map((v, i) => rect(...bar(v, i, half), look)).join("");
  const mark = (v, i, half, look) => (Number.isFinite(v) ? line(x(i) - half, y(v), x(i) + half, y(v), look) : "");
  const marks = (values, half, look) => values.map((v, i) => mark(v, i, half, look)).join("");
  const named = text(0, letters() / 3, name, { "font-style": "italic", "font-weight": 650 });
  return { x, y, grid: named + ticks.map(tick).join(""), bars, marks };
}

/** A picture as an SVG file in the course's colors, for viewers that run no script. */
export function file(title, description, width, height, inside) {
  const margin = 4 * (letters() - 12); // large letters beside an axis need more room than a page leaves them
  width += margin;
  const viewBox = `${-margin} 0 ${width} ${height}`;
  const xmlns = "http://www.w3.org/2000/svg";
  const frame = { xmlns, width, height, viewBox, role: "img", "font-family": "system-ui, sans-serif" };
  const paper = tag("rect", { width: "100%", height: "100%", fill: "#ffffff" });
  const whole = tag("svg", frame, `<title>${title}</title>\n<desc>${description}</desc>\n${paper}\n${inside}\n`);
  return `${Object.entries(FILE_COLORS).reduce((svg, [color, plain]) => svg.replaceAll(color, plain), whole)}\n`;
}

// ---- The page ----

// The colors are mixed with the page's own ink, so they are darker on a light page and lighter on a dark one.
// Where it lives, its stored picture is for print alone.
const STYLE = `
@media screen { [data-explore]:has(> .ln) > :not(.ln) { display: none; } }
@media print { [data-explore] > .ln { display: none; } }
.ln {
  --accent: color-mix(in srgb, currentColor 20%, #0086d4);
  --orange: color-mix(in srgb, currentColor 8%, #d55e00);
  --green: color-mix(in srgb, currentColor 22%, #009e73);
  --purple: color-mix(in srgb, currentColor 22%, #cc67a7);
  --soft: color-mix(in srgb, currentColor 68%, transparent);
  --line: color-mix(in srgb, currentColor 20%, transparent);
  --faint: color-mix(in srgb, currentColor 8%, transparent);
  --math: italic 17px/1.3 Georgia, "Liberation Serif", serif;
  container-type: inline-size; max-width: 900px; color: inherit; font-size: 14px; line-height: 1.45;
  * { box-sizing: border-box; }
  :focus-visible, .track label:has(:focus-visible) { outline: 2px solid var(--accent); outline-offset: 2px; }
  .whole { display: flex; flex-direction: column; gap: 8px 28px; }
  @container (max-width: 639px) {
    .show { order: -1; }
    @media (min-height: 560px) { /* the picture stays while its controls are used */
      .show { position: sticky; z-index: 1; background: var(--pst-color-background, var(--jp-layout-color0, Canvas)); }
    }
  }
  @container (min-width: 760px) {
    .whole { display: grid; grid-template: "show say" auto "show set" 1fr / minmax(0, 1fr) var(--side, 280px); }
    .show { grid-area: show; }
  }
  svg { display: block; width: 100%; overflow: visible; outline: none; }
  .stage { position: relative; touch-action: pan-y; user-select: none; -webkit-user-select: none; border-radius: 8px; }
  .grip { position: absolute; width: 44px; height: 44px; translate: -50% -50%; touch-action: none; }
  .say { min-height: var(--say, 5.8em); margin: 0; font-size: 15px; text-wrap: pretty; }
  .hint, legend, .slider span, thead :is(th, td) { margin: 0; padding: 0 0 2px; color: var(--soft); font-size: 12px; }
  .hint { padding: 0 0 6px; text-align: center; }
  table { width: 100%; margin: 4px 0; border: 0; border-collapse: collapse; table-layout: fixed; font: inherit; font-variant-numeric: tabular-nums; }
  tr { background: none; border: 0; }
  tr.rule { border-top: 1px solid var(--line); }
  tr.result > * { color: var(--accent); }
  tr.now > * { font-weight: 650; }
  th, td { padding: 1px 2px; border: 0; text-align: center; font-weight: 400; line-height: 1.3; background: none; color: inherit; }
  tr > :first-child { padding-left: 0; text-align: left; white-space: nowrap; }
  .math tbody th, .eps span { font: var(--math); }
  output { display: block; color: inherit; }
  fieldset { border: 0; margin: 0 0 10px; padding: 0; min-width: 0; }
  .track { display: grid; grid-template-columns: repeat(var(--columns), 1fr); border: 1px solid var(--line); border-radius: 8px; }
  .track label { position: relative; display: grid; place-items: center; min-height: 36px; margin: 0; border-radius: 7px; }
  .track input { position: absolute; inset: 0; width: 100%; height: 100%; margin: 0; opacity: 0; cursor: pointer; }
  .track label:has(:checked) { background: color-mix(in srgb, currentColor 12%, transparent); box-shadow: inset 0 -3px var(--accent); font-weight: 650; }
  .track label:has(:disabled), button:disabled { opacity: 0.45; cursor: default; }
  .box { display: flex; gap: 8px; align-items: center; min-height: 32px; margin: 0; cursor: pointer; }
  .box input { width: 17px; height: 17px; margin: 0 2px; accent-color: currentColor; }
  .slider { display: grid; grid-template-columns: 1fr auto; margin: 0 0 8px; }
  .slider input { grid-column: 1 / 3; }
  .eps { display: grid; grid-template-columns: 24px 1fr 4em; align-items: center; margin-bottom: 10px; }
  .eps output { text-align: right; }
  .acts { display: flex; flex-wrap: wrap; gap: 8px; }
  button { flex: auto; min-height: 36px; padding: 0 8px; border: 1px solid var(--line); border-radius: 8px; background: none; color: inherit; font: inherit; cursor: pointer; }
  button:enabled:hover, .track label:hover { background: var(--faint); }
  input[type=range] { appearance: none; display: block; width: 100%; height: 20px; margin: 0; border-radius: 6px; background: none; color: inherit; cursor: pointer; }
  input[type=range]::-webkit-slider-runnable-track { height: 3px; border-radius: 2px; background: var(--line); }
  input[type=range]::-moz-range-track { height: 3px; border-radius: 2px; background: var(--line); }
  input[type=range]::-webkit-slider-thumb { appearance: none; width: 14px; height: 14px; margin-top: -5.5px; border-radius: 50%; background: currentColor; }
  input[type=range]::-moz-range-thumb { width: 14px; height: 14px; border: 0; border-radius: 50%; background: currentColor; }
  .unseen { position: absolute; width: 1px; height: 1px; margin: 0; padding: 0; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
  @container (min-width: 520px) and (max-width: 759px) {
    .say { min-height: 2.9em; }
    .set { display: grid; grid-template-columns: 1fr 1fr; gap: 0 28px; align-items: end; }
  }
  @container (max-width: 340px) { td, .track label { padding-inline: 0; font-size: 12px; } td { font-size: 11px; } }
  @media (pointer: coarse) { button, .track label, .box { min-height: 44px; } input[type=range] { height: 32px; } }
  @media (forced-colors: active) { input[type=range] { appearance: auto; } .track label:has(:checked) { outline: 2px solid Highlight; } }
}`;

// An input with a data-key shows a value of the model and changes it; with a data-i, entry i of a list.
const keyed = (key, i) => `data-key="${key}"${i === undefined ? "" : ` data-i="${i}"`}`;

/** A range for a key of the model, or for entry i of a list. */
export const range = (key, label, low, high, step, i) =>
  `<input type="range" ${keyed(key, i)} min="${low}" max="${high}" step="${step}" aria-label="${label}">`;
/** The same with its name and its value above it. */
export const slider = (key, label, low, high, step) =>
  `<label class="slider"><span>${label}</span><output></output>${range(key, label, low, high, step)}</label>`;
/** A range for eps: powers of ten from 10⁻⁶ to 10, and 0 at its left end. RANGES.eps is what it shows. */
export const epsilon = () =>
  `<div class="eps"><span aria-hidden="true">ε</span>${range("eps", "epsilon", -6.1, 1, 0.01)}<output></output></div>`;
/** Table heads of D features; seen: whether they say more than their number. */
export const heads = (D, seen) =>
  upTo(D).map((i) => `<th scope="col"><span class="${seen ? "" : "unseen"}">feature </span>${i + 1}</th>`).join("");
/** A table's row of D numbers, which hands.fill writes; where it has ends, with a range below each. words: of these. */
export function numberRow(D, { key, sign, look = "", ends, words = sign }, step) {
  const under = (i) => (ends ? range(key, `${words} of feature ${i + 1}`, ...ends, step, i) : "");
  const cells = upTo(D).map((i) => `<td><output></output>${under(i)}</td>`);
  return `<tr data-key="${key}" class="${look}"><th scope="row">${sign}</th>${cells.join("")}</tr>`;
}
/** Radios of a key in a row, or boxes, or what attributes make of them. options: [value, label, attributes]. */
export function choice(legend, options, attributes, type = "radio", columns = options.length) {
  const boxes = options.map(
    ([value, label, more = ""]) =>
      `<label>${label}<input type="${type}" value="${value}" ${attributes} ${more}></label>`,
  );
  return `<fieldset><legend>${legend}</legend><div class="track" style="--columns: ${columns}">${boxes.join("")}</div></fieldset>`;
}
/** Radios of a key. id: the explorable's, since names of radios belong to a whole page. */
export const radios = (id, key, legend, options) => choice(legend, options, `name="${id}-${key}" data-key="${key}"`);
/** A box for a key that is true or false, or for one value of a key that is a list. */
export const box = (key, label, value) =>
  `<label class="box"><input type="checkbox" data-key="${key}" value="${value}">${label}</label>`;
export const buttons = (acts) =>
  `<div class="acts">${Object.entries(acts)
    .map(([act, label]) => `<button type="button" data-act="${act}">${label}</button>`)
    .join("")}</div>`;

// ---- The host ----

/** How a range shows a value of the model: from and to the range's number, and in words. */
const PLAIN = { from: (v) => v, to: (v) => v, words: fmt };
const EPS = {
  from: (v) => (v < -6 ? 0 : 10 ** v),
  to: (v) => (v > 0 ? Math.log10(v) : -6.1),
  words: (v) => (v === 0 ? "0" : v >= 0.00995 ? String(+v.toPrecision(2)) : power(v)),
};

/**
 * Brings an explorable to life in each place of the page that waits for it, [data-explore=NAME] with parameters as JSON
 * in data-state, and returns {render}, which builds it anywhere.
 * name: its class is ln-NAME. title: its name for a screen reader. start: the model's keys and what they are at first.
 * style: CSS of its own, stronger than STYLE wherever that of a second explorable stands on the page. ranges: {key:
 * {from, to, words}} where PLAIN does not do. page(id, first): HTML with the class stage on the picture and say on the
 * sentence. connect(hands) is called once and returns
 * - draw({width, dt, calm}): draws the model in `width` pixels, `dt` seconds after the last frame, without motion if
 *   calm; it returns whether it needs a frame more, since something moves;
 * - acts: {name of a button: what it does}; "reset" goes back to the start in any case;
 * - stop: called before a hand changes something; also(key, value): what changes with it.
 */
export function explorable({ name, title, start, style, ranges = {}, page, connect }) {
  const KEYS = Object.keys(start);

  /** Builds the explorable in el and returns the function that takes it away. model: an object that hands change. */
  function render({ model, el }) {
    const state = () => Object.fromEntries(KEYS.map((key) => [key, model[key]]));
    const first = state();
    const gone = new AbortController();
    const on = (node, event, act) => node.addEventListener(event, act, { signal: gone.signal });
    const id = `ln-${Math.random().toString(36).slice(2)}`;
    const root = Object.assign(document.createElement("div"), { className: `ln ln-${name}` });
    root.innerHTML = `<style>${STYLE}.ln.ln-${name} {${style}}</style>${page(id, first)}<p class="unseen" id="${id}-state" role="status"></p>`;
    root.setAttribute("role", "group");
    root.tabIndex = -1; // so keys after a click or a drag are not JupyterLab's
    root.setAttribute("aria-label", title);
    el.append(root);
    const find = (selector) => root.querySelector(selector);
    const all = (selector) => [...root.querySelectorAll(selector)];
    const [stage, say, status] = [".stage", ".say", "[role=status]"].map(find);
    let [frame, last, visible, telling] = [0, 0, true, 0];

    function request() {
      if (visible && !gone.signal.aborted) frame ||= requestAnimationFrame(tick);
    }
    function change(values) {
      Object.assign(model, values);
      request();
    }
    const write = (node, words) => {
      if (node.textContent !== words) node.textContent = words;
    };
    /** Writes numbers into the rows of a table: {key: numbers}. */
    const fill = (values) =>
      all("tr[data-key]").forEach(({ dataset, cells }) =>
        values[dataset.key].forEach((v, i) => write(cells[i + 1].firstChild, fmt(v))),
      );
    /** The sentence, and what a screen reader is told once the hand rests. */
    function tell(words, report = words) {
      write(say, words);
      clearTimeout(telling);
      telling = setTimeout(() => write(status, report), 700);
    }
    /**
     * A pointer that holds a node: begin(event) returns what is held, or nothing; move(event, what) follows.
     * lost(what): the finger scrolls the page instead. Returns a function that returns what is held now.
     */
    function drag(node, begin, move, lost = () => {}) {
      let [pointer, held] = [null, null];
      on(node, "pointerdown", (event) => {
        held = (!event.button && begin(event)) || null;
        pointer = event.pointerId;
        if (held) node.setPointerCapture(pointer);
      });
      on(node, "pointermove", (event) => held && event.pointerId === pointer && move(event, held));
      for (const end of ["pointerup", "pointercancel"]) {
        on(node, end, () => {
          if (held && end === "pointercancel") lost(held);
          held = null;
          request();
        });
      }
      return () => held;
    }

    const hands = { id, root, stage, first, state, find, all, on, change, fill, write, tell, drag };
    const { draw, acts = {}, stop = () => {}, also = () => ({}) } = connect(hands);

    const inputs = all("input[data-key]").map((input) => {
      const { key, i } = input.dataset;
      const listed = input.type === "checkbox" && Array.isArray(start[key]);
      const { from, to, words } = { ...PLAIN, ...(key === "eps" && EPS), ...ranges[key] };
      function put() {
        stop();
        let value = typeof start[key] === "number" ? from(+input.value) : input.value;
        if (input.type === "checkbox") value = input.checked;
        if (listed) value = all(`[data-key=${key}]:checked`).map((box) => box.value);
        if (i) value = model[key].map((old, j) => (j === +i ? from(+input.value) : old));
        change({ [key]: value, ...also(key, value) });
      }
      on(input, input.type === "range" ? "input" : "change", put);
      const output = input.type === "range" ? input.parentElement.querySelector("output") : null;
      return () => {
        const value = i ? model[key][i] : model[key];
        if (input.type === "radio") input.checked = input.value === String(value);
        else if (input.type === "checkbox") input.checked = listed ? value.includes(input.value) : value;
        else {
          input.value = to(value);
          input.setAttribute("aria-valuetext", words(value));
          if (output) write(output, words(value));
        }
      };
    });
    function press(act) {
      stop();
      if (act === "reset") change(first);
      acts[act]?.();
      request();
    }
    for (const button of all("[data-act]")) on(button, "click", () => press(button.dataset.act));
    on(stage, "dblclick", () => press("reset"));
    // The sliders of a table or of a picture are one Tab stop: left and right change one, up and down go to the next.
    const sliders = all(":is(table, .stage) [type=range]");
    sliders.forEach((slider, i) => {
      slider.tabIndex = i && -1;
      on(slider, "focus", () => sliders.forEach((other) => (other.tabIndex = other === slider ? 0 : -1)));
      on(slider, "keydown", (event) => {
        const way = { ArrowUp: -1, ArrowDown: 1 }[event.key];
        if (!way) return;
        event.preventDefault();
        sliders[(i + way + sliders.length) % sliders.length].focus();
      });
    });
    // A letter would be one of JupyterLab's commands. Escape leaves, and so does Shift+Enter, which runs the cell.
    on(root, "keydown", (event) => {
      const cell = root.closest(".jp-Cell");
      if (event.key === "Escape" || (cell && event.key === "Enter" && event.shiftKey)) {
        event.target.blur();
        cell?.focus();
      } else if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
    });

    function tick(now) {
      const dt = clamp((now - last) / 1000, 0.001, 0.05);
      [frame, last] = [0, now];
      const width = stage.clientWidth;
      if (width < 150) return; // not on the page yet, or too narrow to be read; its size will ask again
      const picture = stage.closest(".show"); // where it sticks, a high one leaves its controls a third of the screen
      if (picture) picture.style.top = `${Math.min(0, 0.65 * innerHeight - picture.offsetHeight)}px`;
      least = parseFloat(getComputedStyle(root).getPropertyValue("--letters")) || 0; // a slide has large ones
      const moving = draw({ width, dt, calm: matchMedia("(prefers-reduced-motion: reduce)").matches });
      for (const show of inputs) show();
      if (moving) request();
    }
    const size = new ResizeObserver(request);
    const sight = new IntersectionObserver(
      (entries) => {
        visible = entries.at(-1).isIntersecting;
        request();
      },
      { threshold: [0, 0.25, 0.5] }, // a film waits until it can be seen
    );
    size.observe(stage);
    sight.observe(root);
    return () => {
      // nothing stays: no listener, no frame, no timer, no observer
      gone.abort();
      cancelAnimationFrame(frame);
      clearTimeout(telling);
      for (const observer of [size, sight]) observer.disconnect();
      root.remove();
    };
  }
  for (const el of globalThis.document?.querySelectorAll(`[data-explore="${name}"]:not(:has(> .ln))`) ?? []) {
    el.closest(".jp-RenderedHTMLCommon")?.classList.remove("jp-RenderedHTMLCommon"); // JupyterLab's look of tables
    render({ model: { ...structuredClone(start), ...JSON.parse(el.dataset.state) }, el });
  }
  return { render };
}
