// A row of numbers to drag, and what LayerNorm makes of it, feature by feature: a column is a feature.
// An anywidget front-end module: JupyterLab and a page without a kernel run this same file. No library, no network.

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

// ---- The mathematics ----

const mean = (x) => x.reduce((sum, v) => sum + v, 0) / x.length;

/**
 * LayerNorm of one row x of D numbers; gain and bias: D numbers each.
 * correction: the squares are divided by D minus this, 0 in LayerNorm, 1 in torch.var's default.
 * Returns {mu, variance, centered, hat, y}. At eps 0 a row of equal numbers is 0/0, NaN.
 */
export function layerNorm(x, { eps, correction, gain, bias }) {
  const mu = mean(x);
  const centered = x.map((v) => v - mu);
  const variance = centered.reduce((sum, v) => sum + v * v, 0) / (x.length - correction);
  const hat = centered.map((v) => v / Math.sqrt(variance + eps));
  return { mu, variance, centered, hat, y: hat.map((v, i) => gain[i] * v + bias[i]) };
}

// ---- Words ----

const LIMIT = 10; // the ends of x
const clamp = (v, low, high) => Math.min(high, Math.max(low, v));
const round = (v) => Math.round(v * 100) / 100;

/** A number with a true minus sign and never −0. */
function fmt(v, digits = 2) {
  if (!Number.isFinite(v)) return "0/0";
  return (+v.toFixed(digits) < 0 ? "−" : "") + Math.abs(v).toFixed(digits);
}
const short = (v) => fmt(v, 1).replace(/\.0$/, "");

function fmtEps(eps) {
  if (eps === 0) return "0";
  if (eps >= 0.00995) return String(+eps.toPrecision(2));
  const [factor, power] = eps.toExponential(0).split("e-");
  const raised = power.replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]);
  return `${factor === "1" ? "" : `${factor}·`}10⁻${raised}`;
}

/** Whether gain and bias leave x̂ as it is. */
const isPlain = ({ gain, bias }) => gain.every((v) => v === 1) && bias.every((v) => v === 0);

/** The row's two numbers, in one or two sentences. */
function sentence(state, result) {
  const D = state.x.length;
  const sum = result.variance * (D - state.correction);
  const divisor = state.correction ? `(${D} − 1)` : D;
  const first = `Mean ${fmt(result.mu)}. Variance ${fmt(sum)} ÷ ${divisor} = ${fmt(result.variance)}, so σ = ${fmt(Math.sqrt(result.variance))}.`;
  if (result.variance < 1e-20) return `${first} All numbers are equal: ${state.eps ? "ε keeps the division possible, and x̂ is 0." : "without ε, x̂ is 0/0."}`;
  const spread = mean(result.hat.map((v) => v * v));
  if (Math.abs(spread - 1) < 0.005) return `${first} x̂ has mean 0 and variance 1.`;
  const why = [state.correction && "÷ (D − 1)", state.eps > 0.005 * result.variance && "ε"].filter(Boolean);
  return `${first} x̂ has mean 0 and, because of ${why.join(" and ")}, variance ${fmt(spread, spread < 0.1 ? 3 : 2)}.`;
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
const INK = "currentColor";
const ACCENT = "var(--accent)"; // LayerNorm's result, and nothing else

/** An SVG element as text. Numbers are rounded to a hundredth of a pixel. */
function tag(name, attributes, inside = "") {
  const text = Object.entries(attributes).map(([key, v]) => `${key}="${typeof v === "number" ? round(v) : v}"`);
  return `<${name} ${text.join(" ")}>${inside}</${name}>`;
}
const line = (x1, y1, x2, y2, more) => tag("line", { x1, y1, x2, y2, stroke: INK, ...more });
const text = (x, y, inside, more) => tag("text", { x, y, fill: INK, "font-size": 12, ...more }, inside);

/** The height in pixels at which a panel of limits ±limit shows v. */
const height = (v, { tall, limit }) => (tall / 2) * (1 - v / limit);

/** One panel of bars. panel: {width, tall, limit}; ticks: values with a grid line; free: a height that no number may touch. */
function bars(values, panel, ticks, color, opacity, free = Infinity) {
  const wide = (panel.width - LABELS) / values.length;
  const zero = height(0, panel);
  const grid = ticks.map((v) => {
    const y = height(v, panel);
    const number = text(LABELS - 8, y + 4, short(v), { "text-anchor": "end", opacity: 0.72 });
    return line(LABELS, y, panel.width, y, { opacity: v ? 0.13 : 0.6 }) + (Math.abs(y - free) < 14 ? "" : number);
  });
  const drawn = values.map((v, i) => {
    const y = height(clamp(Number.isFinite(v) ? v : 0, -panel.limit, panel.limit), panel);
    const size = { x: LABELS + wide * (i + 0.5) - 13, width: 26, y: Math.min(y, zero), height: Math.abs(y - zero) };
    return tag("rect", { ...size, fill: color, opacity, rx: 2 });
  });
  return grid.join("") + drawn.join("");
}

/** The row x with its mean, and σ to both sides of it. */
function rowPanel(state, result, width) {
  const panel = { width, tall: 190, limit: LIMIT };
  const mu = height(result.mu, panel);
  const sigma = (panel.tall / 2) * (Math.sqrt(result.variance) / LIMIT);
  const wide = (width - LABELS) / state.x.length;
  const band = tag("rect", { x: LABELS, y: mu - sigma, width: width - LABELS, height: 2 * sigma, fill: INK, opacity: 0.08 });
  const ends = state.x.map((v, i) => {
    const center = LABELS + wide * (i + 0.5);
    return line(center - 17, height(v, panel), center + 17, height(v, panel), { "stroke-width": 3, "stroke-linecap": "round" });
  });
  const words = text(LABELS - 8, mu + 4, `μ ${fmt(result.mu)}`, { "text-anchor": "end", "font-weight": 650 });
  const middle = line(LABELS, mu, width, mu, { "stroke-dasharray": "5 4", "stroke-width": 1.5 });
  const drawn = bars(state.x, panel, [-LIMIT, -5, 0, 5, LIMIT], INK, 0.4, mu);
  return { panel, inside: band + drawn + middle + ends.join("") + words };
}

/** y, with x̂ as a mark beside it where gain and bias have moved it. limit: the ends of the panel. */
function resultPanel(state, result, width, limit) {
  const panel = { width, tall: 150, limit };
  const wide = (width - LABELS) / state.x.length;
  const ticks = limit > 4 ? [-limit, 0, limit].map((v) => v / 2) : [-2, -1, 0, 1, 2];
  const marks = isPlain(state) ? [] : result.hat.filter(Number.isFinite).map((v, i) => {
    const center = LABELS + wide * (i + 0.5);
    const y = height(clamp(v, -limit, limit), panel);
    return line(center - 17, y, center + 17, y, { "stroke-width": 2 });
  });
  return { panel, inside: bars(result.y, panel, ticks, ACCENT, 1) + marks.join("") };
}

/** The least limit, of a few, at which y and x̂ fit. */
function limitOf(result) {
  const far = Math.max(...[...result.y, ...result.hat].map((v) => (Number.isFinite(v) ? Math.abs(v) : 0)));
  return [3, 6, 12, 24].find((limit) => far <= limit) ?? 48;
}

/** The explorable as a whole SVG, for viewers that run no script. given: what differs from the start. */
export function still(given = {}) {
  const state = { ...start, ...given };
  const width = 560;
  const result = layerNorm(state.x, state);
  const [above, below] = [rowPanel(state, result, width), resultPanel(state, result, width, limitOf(result))];
  const wide = (width - LABELS) / state.x.length;
  const numbers = (values, y, more) => values.map((v, i) => text(LABELS + wide * (i + 0.5), y, fmt(v), { "text-anchor": "middle", ...more })).join("");
  const parts = [
    tag("rect", { width: "100%", height: "100%", fill: "#ffffff" }),
    text(LABELS, 22, "the row x", { "font-size": 14 }),
    tag("g", { transform: "translate(0 38)" }, above.inside),
    numbers(state.x, 246, { "font-size": 14 }),
    text(LABELS, 286, "LayerNorm of it", { "font-size": 14, fill: ACCENT }),
    tag("g", { transform: "translate(0 298)" }, below.inside),
    numbers(result.y, 466, { "font-size": 14, fill: ACCENT }),
  ];
  const size = { xmlns: "http://www.w3.org/2000/svg", width, height: 482, viewBox: `0 0 ${width} 482`, "font-family": "system-ui, sans-serif" };
  const described = `A row of ${state.x.length} numbers as bars, with their mean and σ, and below them LayerNorm of the row as bars.`;
  return tag("svg", { ...size, role: "img" }, `<title>${TITLE}</title><desc>${described}</desc>` + parts.join("")).replaceAll(ACCENT, "#0672b2").replaceAll(INK, "#1f2328");
}

// ---- The page ----

// The accent is a blue mixed with the page's own ink, so it is darker on a light page and lighter on a dark one.
const STYLE = `
.ln-row {
  --accent: color-mix(in srgb, currentColor 20%, #0086d4);
  --soft: color-mix(in srgb, currentColor 68%, transparent);
  --line: color-mix(in srgb, currentColor 20%, transparent);
  --math: italic 17px/1.3 Georgia, "Liberation Serif", serif;
  container-type: inline-size; max-width: 900px; color: inherit; font-size: 14px; line-height: 1.45;
  * { box-sizing: border-box; }
  :focus-visible, .track label:has(:focus-visible) { outline: 2px solid var(--accent); outline-offset: 2px; }
  .whole { display: grid; gap: 8px 28px; }
  @container (min-width: 640px) { .whole { grid-template: "show say" auto "show set" 1fr / minmax(0, 1fr) 270px; } .show { grid-area: show; } }
  svg { display: block; width: 100%; overflow: visible; }
  .stage { position: relative; touch-action: pan-y; user-select: none; -webkit-user-select: none; cursor: ns-resize; }
  .grip { position: absolute; width: 44px; height: 44px; margin: -22px; touch-action: none; }
  table { width: 100%; margin: 4px 0; border: 0; border-collapse: collapse; table-layout: fixed; font: inherit; font-variant-numeric: tabular-nums; }
  tr { background: none; border: 0; }
  tr.rule { border-top: 1px solid var(--line); }
  th, td { padding: 1px 2px; border: 0; text-align: center; font-weight: 400; line-height: 1.3; background: none; color: inherit; }
  tr > :first-child { width: ${LABELS}px; text-align: left; padding-left: 0; white-space: nowrap; }
  tbody th, .eps span { font: var(--math); }
  tr.result > * { color: var(--accent); }
  output { display: block; color: inherit; }
  .say { min-height: 5.8em; margin: 0; font-size: 15px; text-wrap: pretty; }
  .hint, thead :is(th, td) { margin: 0 0 6px; color: var(--soft); font-size: 12px; text-align: center; }
  fieldset { border: 0; margin: 0 0 10px; padding: 0; min-width: 0; }
  legend { padding: 0 0 2px; color: var(--soft); font-size: 12px; }
  .track { display: grid; grid-auto-flow: column; grid-auto-columns: 1fr; border: 1px solid var(--line); border-radius: 8px; }
  .track label { position: relative; display: grid; place-items: center; min-height: 36px; margin: 0; border-radius: 7px; }
  .track input { position: absolute; inset: 0; width: 100%; height: 100%; margin: 0; opacity: 0; cursor: pointer; }
  .track label:has(:checked) { background: color-mix(in srgb, currentColor 12%, transparent); box-shadow: inset 0 -3px var(--accent); font-weight: 650; }
  .eps { display: grid; grid-template-columns: 24px 1fr 4em; align-items: center; margin-bottom: 10px; }
  .eps output { text-align: right; }
  .acts { display: grid; grid-template-columns: 1fr 1fr; gap: 8px; }
  button { min-height: 36px; padding: 0 10px; border: 1px solid var(--line); border-radius: 8px; background: none; color: inherit; font: inherit; cursor: pointer; }
  button:hover, .track label:hover { background: color-mix(in srgb, currentColor 8%, transparent); }
  input[type=range] { appearance: none; display: block; width: 100%; height: 20px; margin: 0; border-radius: 6px; background: none; color: inherit; cursor: pointer; }
  input[type=range]::-webkit-slider-runnable-track { height: 3px; border-radius: 2px; background: var(--line); }
  input[type=range]::-moz-range-track { height: 3px; border-radius: 2px; background: var(--line); }
  input[type=range]::-webkit-slider-thumb { appearance: none; width: 14px; height: 14px; margin-top: -5.5px; border-radius: 50%; background: currentColor; }
  input[type=range]::-moz-range-thumb { width: 14px; height: 14px; border: 0; border-radius: 50%; background: currentColor; }
  .unseen { position: absolute; width: 1px; height: 1px; margin: 0; padding: 0; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
  @media (pointer: coarse) { button, .track label { min-height: 44px; } input[type=range] { height: 32px; } }
  @media (forced-colors: active) { input[type=range] { appearance: auto; } .track label:has(:checked) { outline: 2px solid Highlight; } }
}`;

// The table reads as the formula: a name, its sign, its ends where it can be changed, and the part that shows it.
const ROWS = [
  { key: "x", sign: "x", low: -LIMIT, high: LIMIT, step: 0.1 },
  { key: "centered", sign: "x − μ" },
  { key: "hat", sign: "x̂", looks: "result" },
  { key: "gain", sign: "γ", low: -1, high: 3, step: 0.1, part: "affine", looks: "rule" },
  { key: "bias", sign: "β", low: -3, high: 3, step: 0.1, part: "affine" },
  { key: "y", sign: "y", part: "affine", looks: "rule result" },
];

function page(id, D, parts) {
  const features = Array.from({ length: D }, (_, i) => i + 1);
  const cell = (row, i) => {
    const range = `<input type="range" min="${row.low}" max="${row.high}" step="${row.step}" aria-label="${row.sign} of feature ${i}">`;
    return `<td><output></output>${row.step ? range : ""}</td>`;
  };
  const rows = ROWS.filter((row) => !row.part || parts.includes(row.part)).map((row) => `
    <tr data-key="${row.key}" class="${row.looks ?? ""}"><th scope="row">${row.sign}</th>${features.map((i) => cell(row, i)).join("")}</tr>`);
  const correction = `<fieldset><legend>The variance: the sum of the squares</legend><div class="track">
    <label>÷ D<input type="radio" name="${id}" value="0"></label><label>÷ (D − 1)<input type="radio" name="${id}" value="1"></label></div></fieldset>`;
  const eps = `<div class="eps"><span aria-hidden="true">ε</span><input type="range" min="-6.1" max="1" step="0.1" aria-label="epsilon"><output></output></div>`;
  return `<style>${STYLE}</style><div class="whole">
    <p class="say"></p>
    <div class="show">
      <p class="hint">Drag the bars. A column is a feature.</p>
      <div class="stage" aria-hidden="true"><svg></svg>${'<div class="grip"></div>'.repeat(D)}</div>
      <table><thead><tr><td></td>${features.map((i) => `<th scope="col"><span class="unseen">feature </span>${i}</th>`).join("")}</tr></thead><tbody>${rows.join("")}</tbody></table>
      <svg class="below" aria-hidden="true"></svg>
    </div>
    <div class="set">
      ${parts.includes("correction") ? correction : ""}${parts.includes("eps") ? eps : ""}
      <div class="acts"><button type="button" data-act="shift">shift all</button><button type="button" data-act="stretch">stretch all</button>
        <button type="button" data-act="outlier">one outlier</button><button type="button" data-act="reset">reset</button></div>
      <p class="unseen" role="status"></p>
    </div></div>`;
}

// ---- The explorable ----

/** Builds the explorable in el and returns the function that takes it away. */
function render({ model, el }) {
  const KEYS = Object.keys(start);
  const get = () => Object.fromEntries(KEYS.map((key) => [key, model.get(key)]));
  const first = get();
  const D = first.x.length;
  const gone = new AbortController();
  const on = (node, event, act) => node.addEventListener(event, act, { signal: gone.signal });
  const root = document.createElement("div");
  root.className = "ln-row";
  root.innerHTML = page(`ln-${Math.random().toString(36).slice(2)}`, D, first.parts);
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", TITLE);
  el.append(root);
  const [stage, picture, below, say, status] = [".stage", ".stage svg", ".below", ".say", "[role=status]"].map((selector) => root.querySelector(selector));
  const [grips, eps] = [[...root.querySelectorAll(".grip")], root.querySelector(".eps input")];
  const cells = [...root.querySelectorAll("tbody tr")].map((tr) => ({ key: tr.dataset.key, outputs: [...tr.querySelectorAll("output")], inputs: [...tr.querySelectorAll("input")] }));

  let [frame, telling, unsaved] = [0, 0, false];
  let ride = null; // a button's change of x under way: {from, to, began}
  let note = {}; // what the last button did: words, and the state, as text, for which they hold
  let hold = null; // the bar that the pointer holds
  let limit = 3; // the ends of the lower panel; they stay while a bar is held

  function request() {
    frame ||= requestAnimationFrame(tick);
  }
  /** Sets values of the model; they are saved once a frame. */
  function change(values) {
    for (const key in values) model.set(key, values[key]);
    unsaved = true;
    request();
  }
  /** Changes one number by hand: whatever a button does is over. */
  function put(key, i, v) {
    ride = null;
    change({ [key]: model.get(key).map((old, j) => (j === i ? v : old)) });
  }

  function tick(now) {
    frame = 0;
    if (ride) {
      ride.began ??= now;
      const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
      const share = calm ? 1 : Math.min(1, (now - ride.began) / 700);
      const eased = share * share * (3 - 2 * share);
      change({ x: ride.to.map((v, i) => (share < 1 ? ride.from[i] + eased * (v - ride.from[i]) : v)) });
      note.holds = JSON.stringify(get());
      if (share === 1) ride = null;
    }
    draw();
    if (unsaved) model.save_changes();
    unsaved = false;
    if (ride) request();
  }

  const write = (node, words) => { if (node.textContent !== words) node.textContent = words; };

  function draw() {
    const width = stage.clientWidth;
    if (!width) return; // not on the page yet; its size will ask again
    const state = get();
    const result = layerNorm(state.x, state);
    if (!hold) limit = limitOf(result);
    const [above, under] = [rowPanel(state, result, width), resultPanel(state, result, width, limit)];
    for (const [node, { panel, inside }] of [[picture, above], [below, under]]) {
      node.style.height = `${panel.tall}px`;
      node.innerHTML = inside;
    }
    grips.forEach((grip, i) => {
      grip.style.left = `${LABELS + ((width - LABELS) / D) * (i + 0.5)}px`;
      grip.style.top = `${height(state.x[i], above.panel)}px`;
    });
    const values = { ...state, ...result };
    for (const { key, outputs, inputs } of cells) {
      outputs.forEach((node, i) => write(node, fmt(values[key][i])));
      inputs.forEach((node, i) => { node.value = values[key][i]; node.setAttribute("aria-valuetext", fmt(values[key][i])); });
    }
    if (eps) {
      eps.value = state.eps > 0 ? Math.log10(state.eps) : -6.1;
      eps.setAttribute("aria-valuetext", fmtEps(state.eps));
      write(eps.nextElementSibling, fmtEps(state.eps));
    }
    for (const radio of root.querySelectorAll("[type=radio]")) radio.checked = +radio.value === state.correction;
    const words = note.holds === JSON.stringify(state) && note.words ? note.words : sentence(state, result);
    write(say, words);
    clearTimeout(telling); // a screen reader is told once the hand rests
    const list = (numbers) => numbers.map((v) => fmt(v)).join(", ");
    telling = setTimeout(() => write(status, `${words} x: ${list(state.x)}. x hat: ${list(result.hat)}. y: ${list(result.y)}.`), 700);
  }

  // Where LayerNorm cannot see it, and where it can: each button's new x, from the x of now.
  const acts = {
    shift(x) {
      const by = [2, -2, 1, -1, 0].find((c) => x.every((v) => Math.abs(v + c) <= LIMIT));
      return [x.map((v) => round(v + by)), by > 0 ? `${by} was added to each number` : `${-by} was taken from each number`];
    },
    stretch(x) {
      const by = Math.max(...x.map(Math.abs)) * 2 <= LIMIT ? 2 : 0.5;
      return [x.map((v) => v * by), by > 1 ? "Each number was doubled" : "Each number was halved"];
    },
    outlier(x) {
      const far = x.indexOf(Math.max(...x));
      return [x.map((v, i) => (i === far ? LIMIT : v)), ""];
    },
    reset: () => [first.x, ""],
  };
  for (const button of root.querySelectorAll("button")) {
    on(button, "click", () => {
      const { act } = button.dataset;
      const state = { ...get(), x: ride?.to ?? model.get("x") };
      if (act === "reset") change(first);
      const [to, words] = acts[act](state.x);
      ride = { from: state.x, to };
      note = { words: words && outcome(words, layerNorm(state.x, state), layerNorm(to, state)) };
      request();
    });
  }
  for (const { key, inputs } of cells) inputs.forEach((input, i) => on(input, "input", () => put(key, i, +input.value)));
  if (eps) on(eps, "input", () => change({ eps: eps.value < -6 ? 0 : 10 ** eps.value }));
  for (const radio of root.querySelectorAll("[type=radio]")) on(radio, "change", () => change({ correction: +radio.value }));

  // A finger drags a bar's end and scrolls the page elsewhere; a mouse drags a bar anywhere in its column.
  on(stage, "pointerdown", (event) => {
    const box = stage.getBoundingClientRect();
    const i = Math.floor(((event.clientX - box.left - LABELS) / (box.width - LABELS)) * D);
    if (event.button || i < 0 || (event.pointerType === "touch" && !event.target.classList.contains("grip"))) return;
    stage.setPointerCapture(event.pointerId);
    hold = { i: Math.min(i, D - 1), y: event.clientY, from: model.get("x")[Math.min(i, D - 1)], unit: box.height / (2 * LIMIT) };
  });
  on(stage, "pointermove", (event) => {
    if (hold) put("x", hold.i, clamp(Math.round(10 * (hold.from + (hold.y - event.clientY) / hold.unit)) / 10, -LIMIT, LIMIT));
  });
  for (const end of ["pointerup", "pointercancel"]) on(stage, end, () => { hold = null; request(); });
  // Or a letter would be one of JupyterLab's commands.
  on(root, "keydown", (event) => { if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation(); });

  const size = new ResizeObserver(request);
  size.observe(stage);
  for (const key of KEYS) model.on(`change:${key}`, request);
  draw();
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
