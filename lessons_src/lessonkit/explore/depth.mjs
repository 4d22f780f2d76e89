// A digit on its way through fifty layers, and its gradient on its way back: the weight scale decides, or a norm does.
// An anywidget front-end module: JupyterLab and a page without a kernel run this same file. No library, no network.

/** The model's keys and what they are at first. norm: none, before or after each ReLU; layer: the one looked at. */
export const start = { scale: 1, norm: "none", layer: 10, seed: 0 };

const TITLE = "A digit on its way through fifty layers";

// ---- The mathematics ----

export const LAYERS = 50;
export const D = 64; // numbers in a signal, and units in each layer
const EPS = 1e-5;

/** A digit of 8 x 8 pixels, 0 to 16 (g): number 3 of data/digits.npz, which is a 3. */
const PIXELS = "007fd100" + "08d6f400" + "021dd000" + "002fb100" + "0001cc10" + "00001a80" + "00845e90" + "007dd900";

const rms = (x) => Math.sqrt(x.reduce((sum, v) => sum + v * v, 0) / x.length);
const toUnit = (x) => x.map((v) => v / rms(x));

/** The digit's 64 numbers, divided by their rms. */
export const digit = toUnit(Float64Array.from(PIXELS, (pixel) => parseInt(pixel, 17)));

/**
 * count standard normal numbers (count is even). Uniform ones come from the generator mulberry32, as (n + 1/2) / 2^32 for
 * its 32-bit integers n; Box and Muller's formula makes two normal ones, cosine first, of two uniform ones.
 */
export function normals(seed, count) {
  let state = seed;
  const uniform = () => {
    state = (state + 0x6d2b79f5) | 0;
    let n = Math.imul(state ^ (state >>> 15), state | 1);
    n ^= n + Math.imul(n ^ (n >>> 7), n | 61);
    return (((n ^ (n >>> 14)) >>> 0) + 0.5) / 2 ** 32;
  };
  const numbers = new Float64Array(count);
  for (let i = 0; i < count; i += 2) {
    const [radius, angle] = [Math.sqrt(-2 * Math.log(uniform())), 2 * Math.PI * uniform()];
    numbers[i] = radius * Math.cos(angle);
    numbers[i + 1] = radius * Math.sin(angle);
  }
  return numbers;
}

const drawn = new Map(); // what net() has drawn, by seed

/** The net of a seed: weights of scale 1, layer by layer (D, D), and the gradient that comes back from its end, of rms 1. */
export function net(seed) {
  if (!drawn.has(seed)) {
    const numbers = normals(seed, LAYERS * D * D + D);
    const upstream = toUnit(numbers.slice(LAYERS * D * D));
    drawn.set(seed, { weights: numbers.subarray(0, LAYERS * D * D).map((v) => v / Math.sqrt(D)), upstream });
  }
  return drawn.get(seed);
}

/** LayerNorm of one row without gain and bias: {hat, deviation}. */
function layerNorm(x) {
  const mu = x.reduce((sum, v) => sum + v, 0) / x.length;
  const deviation = Math.sqrt(x.reduce((sum, v) => sum + (v - mu) ** 2, 0) / x.length + EPS);
  return { hat: x.map((v) => (v - mu) / deviation), deviation };
}

/** The gradient of LayerNorm's input, from that of its output. */
function backThroughNorm(gradient, { hat, deviation }) {
  const mean = gradient.reduce((sum, v) => sum + v, 0) / gradient.length;
  const along = gradient.reduce((sum, v, i) => sum + v * hat[i], 0) / gradient.length;
  return gradient.map((v, i) => (v - mean - hat[i] * along) / deviation);
}

/**
 * Sends x (D numbers) through the fifty layers, and the gradient back: {signals, gradients}, 51 of each, by layer.
 * A layer is h @ (scale W), then ReLU, with LayerNorm before or after it, or none.
 */
export function run(x, { scale, norm, seed }) {
  const { weights, upstream } = net(seed);
  const signals = [x];
  const layers = []; // what the way back needs
  for (let layer = 0; layer < LAYERS; layer++) {
    const z = new Float64Array(D);
    signals[layer].forEach((v, i) => {
      const row = layer * D * D + i * D;
      for (let j = 0; j < D; j++) z[j] += v * scale * weights[row + j];
    });
    const before = norm === "before" ? layerNorm(z) : null;
    const gate = before?.hat ?? z;
    const open = gate.map((v) => Math.max(0, v));
    const after = norm === "after" ? layerNorm(open) : null;
    layers.push({ before, gate, after });
    signals.push(after?.hat ?? open);
  }
  const gradients = [upstream];
  for (let layer = LAYERS - 1; layer >= 0; layer--) {
    const { before, gate, after } = layers[layer];
    let back = after ? backThroughNorm(gradients[0], after) : gradients[0];
    back = back.map((v, j) => (gate[j] > 0 ? v : 0));
    if (before) back = backThroughNorm(back, before);
    const gradient = new Float64Array(D);
    for (let i = 0; i < D; i++) {
      const row = layer * D * D + i * D;
      for (let j = 0; j < D; j++) gradient[i] += back[j] * scale * weights[row + j];
    }
    gradients.unshift(gradient);
  }
  return { signals, gradients };
}

// ---- Words ----

/** A size with two digits: 0.71, or 3.1·10⁻⁸. */
function fmt(v) {
  if (v >= 0.01 && v < 1000) return String(+v.toPrecision(2));
  const [factor, power] = v.toExponential(1).split("e");
  return `${factor}·10${power.replace("+", "").replace(/./g, (sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)])}`;
}
const HALF = [6e-8, 65504]; // the least and the largest positive number of float16

/** What becomes of the signal, and of the gradient. */
function sentence(sizes) {
  const [signal, gradient] = [sizes.signals[LAYERS], sizes.gradients[0]];
  const fate = (v) => (v < HALF[0] ? ", less than float16 holds" : v > HALF[1] ? ", more than float16 holds" : "");
  return `After fifty layers the signal has rms ${fmt(signal)}${fate(signal)}. A gradient that sets out with rms 1 comes back with ${fmt(gradient)}${fate(gradient)}.`;
}

// ---- The picture ----

const INK = "currentColor";
const ACCENT = "var(--accent)"; // where LayerNorm is
const [LEFT, STRIP, TALL] = [44, 62, 250]; // pixels: of the axis's numbers, the pictures, the chart
const POWERS = 13; // the chart shows sizes from 10^-13 to 10^13

/** An SVG element as text. Numbers are rounded to a hundredth of a pixel. */
function tag(name, attributes, inside = "") {
  const text = Object.entries(attributes).map(([key, v]) => `${key}="${typeof v === "number" ? Math.round(v * 100) / 100 : v}"`);
  return `<${name} ${text.join(" ")}>${inside}</${name}>`;
}
const line = (x1, y1, x2, y2, more) => tag("line", { x1, y1, x2, y2, stroke: INK, ...more });
const text = (x, y, inside, more) => tag("text", { x, y, fill: INK, "font-size": 12, ...more }, inside);

/** Signals as framed pictures of 8 x 8 pixels: white is 0 or less, full ink is 2 or more. pictures: [signal, x, y, side]. */
function pictures(all) {
  const LEVELS = 12;
  const paths = Array.from({ length: LEVELS + 1 }, () => ""); // one path for each level of ink
  for (const [signal, x, y, side] of all) {
    const pixel = side / 8;
    signal.forEach((v, i) => {
      const level = Math.round(LEVELS * Math.min(1, Math.max(0, v / 2)));
      paths[level] += `M${(x + (i % 8) * pixel).toFixed(1)} ${(y + Math.floor(i / 8) * pixel).toFixed(1)}h${pixel.toFixed(2)}v${pixel.toFixed(2)}h-${pixel.toFixed(2)}z`;
    });
  }
  const inks = paths.map((d, level) => (level && d ? tag("path", { d, fill: INK, opacity: level / LEVELS, "shape-rendering": "crispEdges" }) : ""));
  const frames = all.map(([, x, y, side]) => tag("rect", { x: x - 1.5, y: y - 1.5, width: side + 3, height: side + 3, fill: "none", stroke: INK, "stroke-opacity": 0.4 }));
  return inks.join("") + frames.join("");
}

/** Where the chart puts a layer, from left to right, and a size, on a logarithmic scale. */
function place(width) {
  const pitch = (width - LEFT - 30) / LAYERS;
  const side = Math.min(44, Math.floor(5 * pitch) - 5);
  const x = (layer) => LEFT + side / 2 + layer * ((width - LEFT - side - 3) / LAYERS);
  const y = (size) => STRIP + 16 + (TALL / 2) * (1 - Math.min(POWERS, Math.max(-POWERS, Math.log10(size))) / POWERS);
  return { side, x, y };
}

/** Every fifth signal as a picture, and below them the sizes of signal and gradient in all layers. */
function drawing({ norm, layer }, { signals }, sizes, width) {
  const { side, x, y } = place(width);
  const color = norm === "none" ? INK : ACCENT;
  const strip = pictures(signals.filter((_, at) => at % 5 === 0).map((signal, at) => [signal, x(5 * at) - side / 2, STRIP - side - 6, side]));
  const ticks = [-12, -8, -4, 0, 4, 8, 12].map((power) => {
    const at = y(10 ** power);
    const number = tag("tspan", {}, power ? "10" : "1") + (power ? tag("tspan", { dy: -5, "font-size": 9 }, String(power).replace("-", "−")) : "");
    return line(LEFT, at, width, at, { opacity: power ? 0.13 : 0.5 }) + text(LEFT - 8, at + 4, number, { "text-anchor": "end", opacity: 0.72 });
  });
  const layers = [0, 10, 20, 30, 40, 50].map((at) => text(x(at), STRIP + TALL + 34, at, { "text-anchor": "middle", opacity: 0.72 }));
  const half = tag("rect", { x: LEFT, y: y(HALF[1]), width: width - LEFT, height: y(HALF[0]) - y(HALF[1]), fill: INK, opacity: 0.06 });
  const curve = (values, more) => tag("polyline", { points: values.map((v, at) => `${x(at).toFixed(1)},${y(v).toFixed(1)}`).join(" "), fill: "none", stroke: color, "stroke-width": 2.4, "stroke-linejoin": "round", ...more });
  const dot = (v) => tag("circle", { cx: x(layer), cy: y(v), r: 4.5, fill: color });
  // A curve's name stands where the other curve is not: above the higher one, below the lower one, inside the chart.
  const beside = (values, others, end) => {
    const near = (curve) => curve.slice(...(end ? [-10] : [0, 10])).map(y);
    const [high, low] = [Math.min(...near(values)) - 8, Math.max(...near(values)) + 17];
    const up = Math.min(...near(values)) <= Math.min(...near(others)) ? high > STRIP + 24 : low > STRIP + 12 + TALL;
    return up ? high : low;
  };
  const free = Math.max(sizes.signals[25], sizes.gradients[25]) < 1 ? y(HALF[1]) + 13 : y(HALF[0]) - 5; // away from the curves
  return [
    strip, half, ...ticks, ...layers,
    text(x(25), free, "float16 holds these sizes", { "text-anchor": "middle", opacity: 0.72, "font-size": 11 }),
    text((LEFT + width) / 2, STRIP + TALL + 50, "layer", { "text-anchor": "middle", opacity: 0.72 }),
    line(x(layer), STRIP + 2, x(layer), STRIP + 16 + TALL, { opacity: 0.6 }),
    curve(sizes.signals), curve(sizes.gradients, { "stroke-dasharray": "2 4", "stroke-linecap": "round" }),
    dot(sizes.signals[layer]), dot(sizes.gradients[layer]),
    text(width - 4, beside(sizes.signals, sizes.gradients, true), "signal →", { "text-anchor": "end", "font-weight": 650, fill: color }),
    text(LEFT + 5, beside(sizes.gradients, sizes.signals, false), "← gradient", { "font-weight": 650, fill: color }),
  ].join("");
}
const HEIGHT = STRIP + TALL + 56;

/** All that the picture and the words need: {signals, gradients, sizes: {signals, gradients}}. */
function computed(state) {
  const result = run(digit, state);
  return { ...result, sizes: { signals: result.signals.map(rms), gradients: result.gradients.map(rms) } };
}

/** The explorable as a whole SVG, for viewers that run no script. given: what differs from the start. */
export function still(given = {}) {
  const state = { ...start, ...given };
  const [width, height] = [600, HEIGHT + 24];
  const result = computed(state);
  const inside = tag("rect", { width: "100%", height: "100%", fill: "#ffffff" }) + tag("g", { transform: "translate(12 12)" }, drawing(state, result, result.sizes, width - 24));
  const size = { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, sans-serif" };
  const described = `A digit in every fifth of fifty layers, and a chart of sizes at weight scale ${state.scale}. ${sentence(result.sizes)}`;
  return tag("svg", { ...size, role: "img" }, `<title>${TITLE}</title><desc>${described}</desc>` + inside).replaceAll(ACCENT, "#0672b2").replaceAll(INK, "#1f2328");
}

// ---- The page ----

// The accent is a blue mixed with the page's own ink, so it is darker on a light page and lighter on a dark one.
const STYLE = `
.ln-depth {
  --accent: color-mix(in srgb, currentColor 20%, #0086d4);
  --soft: color-mix(in srgb, currentColor 68%, transparent);
  --line: color-mix(in srgb, currentColor 20%, transparent);
  container-type: inline-size; max-width: 900px; color: inherit; font-size: 14px; line-height: 1.45;
  * { box-sizing: border-box; }
  :focus-visible, .track label:has(:focus-visible) { outline: 2px solid var(--accent); outline-offset: 2px; }
  .whole { display: grid; gap: 8px 28px; }
  @container (min-width: 640px) { .whole { grid-template: "show say" auto "show set" 1fr / minmax(0, 1fr) 280px; } .show { grid-area: show; } }
  svg { display: block; width: 100%; }
  .stage { height: ${HEIGHT}px; touch-action: pan-y; cursor: ew-resize; user-select: none; -webkit-user-select: none; }
  .stage svg { height: 100%; }
  .hint { margin: 0 0 6px; color: var(--soft); font-size: 12px; text-align: center; }
  .say { min-height: 7.3em; margin: 0; font-size: 15px; text-wrap: pretty; }
  fieldset { border: 0; margin: 0 0 8px; padding: 0; min-width: 0; }
  legend, .slider span, thead th { padding: 0 0 2px; color: var(--soft); font-size: 12px; }
  .slider { display: grid; grid-template-columns: 1fr auto; margin: 0 0 8px; }
  .slider input { grid-column: 1 / 3; }
  .track { display: grid; grid-auto-flow: column; grid-auto-columns: 1fr; border: 1px solid var(--line); border-radius: 8px; }
  .track label { position: relative; display: grid; place-items: center; min-height: 36px; margin: 0; border-radius: 7px; }
  .track input { position: absolute; inset: 0; width: 100%; height: 100%; margin: 0; opacity: 0; cursor: pointer; }
  .track label:has(:checked) { background: color-mix(in srgb, currentColor 12%, transparent); box-shadow: inset 0 -3px var(--accent); font-weight: 650; }
  .near { display: grid; grid-template-columns: 100px 1fr; gap: 16px; align-items: center; margin-bottom: 10px; }
  .near svg { width: 100px; height: 100px; }
  table { width: 100%; margin: 0; border: 0; border-collapse: collapse; font: inherit; font-variant-numeric: tabular-nums; }
  tr { background: none; border: 0; }
  th, td { padding: 2px 0; border: 0; text-align: right; font-weight: 400; line-height: 1.3; background: none; color: inherit; white-space: nowrap; }
  tr > :first-child { text-align: left; }
  tr.now > * { font-weight: 650; }
  .acts { display: grid; grid-template-columns: repeat(3, auto); gap: 8px; }
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

const NORMS = [["none", "none"], ["before", "before ReLU"], ["after", "after ReLU"]];
const slider = (key, words, low, high, step) => `<label class="slider"><span>${words}</span><output></output>
  <input type="range" data-key="${key}" min="${low}" max="${high}" step="${step}" aria-label="${words}"></label>`;

const page = (id) => `<style>${STYLE}</style><div class="whole">
  <p class="say"></p>
  <div class="show"><p class="hint">A digit on its way through fifty layers. Drag across the chart to choose a layer.</p>
    <div class="stage" aria-hidden="true"><svg></svg></div></div>
  <div class="set">
    ${slider("scale", "weight scale", 0.8, 2.4, 0.01)}
    <fieldset><legend>LayerNorm</legend><div class="track">
      ${NORMS.map(([value, label]) => `<label>${label}<input type="radio" name="${id}" value="${value}"></label>`).join("")}</div></fieldset>
    ${slider("layer", "layer", 0, LAYERS, 1)}
    <div class="near"><svg aria-hidden="true"></svg>
      <table><thead><tr><th scope="col">layer</th><th scope="col">signal</th><th scope="col">gradient</th></tr></thead>
      <tbody>${"<tr><th scope=\"row\"></th><td></td><td></td></tr>".repeat(3)}</tbody></table></div>
    <div class="acts"><button type="button" data-act="play">play</button><button type="button" data-act="draw">other weights</button><button type="button" data-act="reset">reset</button></div>
    <p class="unseen" role="status"></p>
  </div></div>`;

// ---- The explorable ----

/** Builds the explorable in el and returns the function that takes it away. */
function render({ model, el }) {
  const KEYS = Object.keys(start);
  const get = () => Object.fromEntries(KEYS.map((key) => [key, model.get(key)]));
  const first = get();
  const gone = new AbortController();
  const on = (node, event, act) => node.addEventListener(event, act, { signal: gone.signal });
  const root = document.createElement("div");
  root.className = "ln-depth";
  root.innerHTML = page(`ln-${Math.random().toString(36).slice(2)}`);
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", TITLE);
  el.append(root);
  const [stage, picture, near, say, status] = [".stage", ".stage svg", ".near svg", ".say", "[role=status]"].map((selector) => root.querySelector(selector));
  const [sliders, radios, rows] = ["[type=range]", "[type=radio]", "tbody tr"].map((selector) => [...root.querySelectorAll(selector)]);
  let [frame, telling, unsaved] = [0, 0, false];
  let play = null; // when the digit set out, while it is on its way
  let known = {}; // the last result, and what it was computed for
  let held = null; // the pointer that chooses a layer

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
    if (play) {
      play.began ??= now;
      const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
      const layer = calm ? LAYERS : Math.min(LAYERS, Math.floor((now - play.began) / 80));
      if (layer !== model.get("layer")) change({ layer });
      if (layer === LAYERS) play = null;
    }
    draw();
    if (unsaved) model.save_changes();
    unsaved = false;
    if (play) request();
  }
  const write = (node, words) => { if (node.textContent !== words) node.textContent = words; };

  function draw() {
    const width = stage.clientWidth;
    if (!width) return; // not on the page yet; its size will ask again
    const state = get();
    const asked = `${state.scale} ${state.norm} ${state.seed}`;
    if (known.asked !== asked) known = { asked, ...computed(state) };
    const { sizes, signals } = known;
    picture.innerHTML = drawing(state, known, sizes, width);
    near.innerHTML = pictures([[signals[state.layer], 2, 2, 96]]);
    [0, state.layer, LAYERS].forEach((layer, i) => {
      [layer, fmt(sizes.signals[layer]), fmt(sizes.gradients[layer])].forEach((words, j) => write(rows[i].cells[j], String(words)));
      rows[i].classList.toggle("now", i === 1);
    });
    for (const input of sliders) {
      const words = input.dataset.key === "scale" ? state.scale.toFixed(2) : String(state.layer);
      input.value = state[input.dataset.key];
      input.setAttribute("aria-valuetext", words);
      write(input.previousElementSibling, words);
    }
    for (const radio of radios) radio.checked = radio.value === state.norm;
    const words = sentence(sizes);
    write(say, words);
    clearTimeout(telling); // a screen reader is told once the hand rests
    const here = `In layer ${state.layer} the signal has rms ${fmt(sizes.signals[state.layer])}, the gradient ${fmt(sizes.gradients[state.layer])}.`;
    telling = setTimeout(() => write(status, `Weight scale ${state.scale.toFixed(2)}. ${words} ${here}`), 700);
  }

  for (const input of sliders) on(input, "input", () => { play = null; change({ [input.dataset.key]: +input.value }); });
  for (const radio of radios) on(radio, "change", () => change({ norm: radio.value }));
  const acts = {
    play() { play = {}; request(); },
    draw() { change({ seed: model.get("seed") + 1 }); },
    reset() { play = null; change(first); },
  };
  for (const button of root.querySelectorAll("button")) on(button, "click", acts[button.dataset.act]);
  function choose(event) {
    const { x } = place(stage.clientWidth);
    const share = (event.clientX - stage.getBoundingClientRect().left - x(0)) / (x(LAYERS) - x(0));
    play = null;
    change({ layer: Math.min(LAYERS, Math.max(0, Math.round(LAYERS * share))) });
  }
  on(stage, "pointerdown", (event) => {
    if (event.button) return;
    stage.setPointerCapture(event.pointerId);
    held = event.pointerId;
    choose(event);
  });
  on(stage, "pointermove", (event) => { if (held === event.pointerId) choose(event); });
  for (const end of ["pointerup", "pointercancel"]) on(stage, end, () => { held = null; });
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
