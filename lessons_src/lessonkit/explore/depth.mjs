// A digit on its way through fifty layers, and its gradient on its way back: the weight scale decides, or a norm does.
// It sets out by itself, once it is seen, and again with every other norm.

// prettier-ignore
import {
  ACCENT, INK, buttons, circle, clamp, explorable, file, label, layerNorm, layerNormBack, letters, line, moved,
  points, power, radios, rect, slider, tag, text, times, uniform,
} from "./host.mjs";

export const start = { scale: 1, norm: "none", layer: 50, seed: 0 };

const TITLE = "A digit on its way through fifty layers";

// ---- The mathematics ----

export const LAYERS = 50;
export const D = 64; // numbers in a signal, and units in each layer

/** A digit of 8 x 8 pixels, 0 to 16 (g): number 3 of data/digits.npz, which is a 3. */
const PIXELS = "007fd100" + "08d6f400" + "021dd000" + "002fb100" + "0001cc10" + "00001a80" + "00845e90" + "007dd900";

const rms = (x) => Math.sqrt(x.reduce((sum, v) => sum + v * v, 0) / x.length);
const toUnit = (x) => x.map((v) => v / rms(x));

export const digit = toUnit(Float64Array.from(PIXELS, (pixel) => parseInt(pixel, 17)));

/** What draws n standard normal numbers, n even: Box and Muller's formula makes two of two uniform ones. */
function normals(seed) {
  const next = uniform(seed);
  return (n) => {
    const numbers = new Float64Array(n);
    for (let i = 0; i < n; i += 2) {
      const [radius, angle] = [Math.sqrt(-2 * Math.log(next())), 2 * Math.PI * next()];
      numbers[i] = radius * Math.cos(angle);
      numbers[i + 1] = radius * Math.sin(angle);
    }
    return numbers;
  };
}

const nets = new Map(); // what has been drawn, by seed

/** The net of a seed: {weights: of scale 1, (D, D) for each layer, upstream: the gradient from its end, of rms 1}. */
export function net(seed) {
  if (!nets.has(seed)) {
    const draw = normals(seed);
    const weights = Array.from({ length: LAYERS }, () => draw(D * D).map((v) => v / Math.sqrt(D)));
    nets.set(seed, { weights, upstream: toUnit(draw(D)) });
  }
  return nets.get(seed);
}

/**
 * Sends x (D numbers) through the fifty layers, and the gradient back: {signals, gradients}, 51 of each, by layer.
 * A layer is h @ (scale W), then ReLU, with LayerNorm before or after it, or none.
 */
export function run(x, { scale, norm, seed }) {
  const { weights, upstream } = net(seed);
  const scaled = (row) => row.map((v) => scale * v);
  const signals = [x];
  const layers = []; // what the way back needs
  for (const W of weights) {
    const z = scaled(times(signals.at(-1), W, D, D));
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
    let back = after ? layerNormBack(gradients[0], after) : gradients[0];
    back = back.map((v, j) => (gate[j] > 0 ? v : 0));
    if (before) back = layerNormBack(back, before);
    gradients.unshift(scaled(times(weights[layer], back, D, 1)));
  }
  return { signals, gradients };
}

// ---- Words ----

/** A size with two digits: 0.71, or 3.1·10⁻⁸. */
const size = (v) => (v >= 0.01 && v < 1000 ? String(+v.toPrecision(2)) : power(v, 1));
const HALF = [6e-8, 65504]; // the least and the largest positive number of float16

function sentence(sizes) {
  const [signal, gradient] = [sizes.signals[LAYERS], sizes.gradients[0]];
  const fate = (v) => (v < HALF[0] ? ", less than float16 holds" : v > HALF[1] ? ", more than float16 holds" : "");
  return `After fifty layers the signal has rms ${size(signal)}${fate(signal)}. A gradient that sets out with rms 1 comes back with ${size(gradient)}${fate(gradient)}.`;
}

// ---- The picture ----

const [LEFT, LARGE, TALL] = [44, 64, 190]; // pixels: of the axis's numbers, the large picture, the chart
const POWERS = 13; // the chart shows sizes from 10^-13 to 10^13

/** Signals as framed pictures of 8 x 8 pixels: white is 0 or less, full ink is 2 or more. views: [signal, x, y, side]. */
function pictures(views) {
  const LEVELS = 12;
  const paths = Array.from({ length: LEVELS + 1 }, () => ""); // one path for each level of ink
  for (const [signal, x, y, side] of views) {
    const pixel = side / 8;
    const square = `h${pixel.toFixed(2)}v${pixel.toFixed(2)}h-${pixel.toFixed(2)}z`;
    signal.forEach((v, i) => {
      const level = Math.round(LEVELS * clamp(v / 2, 0, 1));
      paths[level] += `M${points([[x + (i % 8) * pixel, y + Math.floor(i / 8) * pixel]])}${square}`;
    });
  }
  const ink = (d, level) => tag("path", { d, fill: INK, opacity: level / LEVELS, "shape-rendering": "crispEdges" });
  const frame = ([, x, y, side]) =>
    rect(x - 1.5, y - 1.5, side + 3, side + 3, { fill: "none", stroke: INK, "stroke-opacity": 0.4 });
  return [...paths.map((d, level) => (level && d ? ink(d, level) : "")), ...views.map(frame)].join("");
}

/** Where the chart puts a layer, from left to right, and a size, on a logarithmic scale. */
function scales(width) {
  const pitch = (width - LEFT - 30) / LAYERS;
  const side = Math.min(44, Math.floor(5 * pitch) - 5);
  const x = (layer) => LEFT + side / 2 + layer * ((width - LEFT - side - 3) / LAYERS);
  const top = LARGE + side + letters() + 30; // of the chart
  const y = (v) => top + (TALL / 2) * (1 - clamp(Math.log10(v), -POWERS, POWERS) / POWERS);
  return { side, x, y, top, height: top + TALL + 2 * letters() + 12 };
}

/**
 * The signal of one layer large, every fifth small, and the sizes of signal and gradient in all layers.
 * until: how far the digit has come; what is still to come is not drawn.
 */
function drawing({ norm, layer }, { signals, sizes }, width, until = LAYERS) {
  const { side, x, y, top: chart, height } = scales(width);
  const color = norm === "none" ? INK : ACCENT;
  const fifth = signals.map((signal, at) => [at > until ? [] : signal, x(at) - side / 2, LARGE + 14, side]);
  const corner = clamp(x(layer) - LARGE / 2, LEFT, width - LARGE - 2);
  const ticks = [-12, -8, -4, 0, 4, 8, 12].map((exponent) => {
    const at = y(10 ** exponent);
    const number = label(LEFT - 8, at + letters() / 3, exponent ? power(10 ** exponent) : "1", "end");
    return line(LEFT, at, width, at, { opacity: exponent ? 0.13 : 0.5 }) + number;
  });
  const [top, bottom] = [y(HALF[1]), y(HALF[0])];
  const looks = { signal: {}, gradient: { "stroke-dasharray": "2 4", "stroke-linecap": "round" } };
  const curve = (name, until) => {
    const values = sizes[`${name}s`];
    const ends = points(values.slice(0, until + 1).map((v, at) => [x(at), y(v)]));
    const look = { fill: "none", stroke: color, "stroke-width": 2.4, "stroke-linejoin": "round", ...looks[name] };
    return tag("polyline", { points: ends, ...look }) + circle(x(layer), y(values[layer]), 4.5, { fill: color });
  };
  const named = (name, words, at) =>
    line(at - 26, chart - 9, at - 4, chart - 9, { "stroke-width": 2.4, ...looks[name], stroke: color }) +
    text(at, chart - 5, words, { "font-weight": 650, fill: color });
  const fading = Math.max(sizes.signals[25], sizes.gradients[25]) < 1; // the words keep away from the curves
  const said = [`layer ${layer}`, `signal ${size(sizes.signals[layer])}`, `gradient ${size(sizes.gradients[layer])}`];
  const [beyond, anchor] = layer > LAYERS / 2 ? [corner - 10, "end"] : [corner + LARGE + 10, "start"];
  const words = said.slice(0, until < LAYERS ? 2 : 3).map((words, i) => {
    const look = { "text-anchor": anchor, "font-size": 13, "font-weight": i ? 400 : 650 };
    return text(beyond, 18 + i * (letters(13) + 6), words, look);
  });
  return [
    pictures([[signals[layer], corner, 2, LARGE], ...fifth.filter((_, at) => at % 5 === 0)]),
    ...words,
    rect(LEFT, top, width - LEFT, bottom - top, { fill: INK, opacity: 0.06 }),
    ...ticks,
    ...[0, 10, 20, 30, 40, 50].map((at) => label(x(at), chart + TALL + letters() + 4, at)),
    label(x(25), fading ? top + letters(11) + 2 : bottom - 5, "float16 holds these sizes", "middle", { "font-size": 11 }),
    label((LEFT + width) / 2, height - 2, "layer"),
    label(4, chart - 6, "size (rms)", "start"),
    line(x(layer), LARGE + 4, x(layer), LARGE + 12, { opacity: 0.6 }),
    line(x(layer), chart, x(layer), chart + TALL, { opacity: 0.6 }),
    curve("signal", until),
    until < LAYERS ? "" : curve("gradient", until),
    named("signal", "signal →", width - letters() * 15),
    named("gradient", "← gradient", width - letters() * 6),
  ].join("");
}

function computed(state) {
  const result = run(digit, state);
  return { ...result, sizes: { signals: result.signals.map(rms), gradients: result.gradients.map(rms) } };
}

export function still(changes = {}) {
  const state = { ...start, ...changes };
  const result = computed(state);
  const described = `A digit in every fifth of fifty layers, and a chart of sizes at weight scale ${state.scale}. ${sentence(result.sizes)}`;
  return file(TITLE, described, 600, scales(576).height + 24, moved(12, 12, drawing(state, result, 576)));
}

// ---- The page ----

const STYLE = `
.stage { cursor: ew-resize; }
--say: 7.3em;
@container (max-width: 639px) { .say { order: 1; min-height: 0; } }`;

const NORMS = Object.entries({ none: "none", before: "before ReLU", after: "after ReLU" });

const page = (id) => `<div class="whole">
  <p class="say"></p>
  <div class="show"><p class="hint">Drag across the chart to choose a layer.</p>
    <div class="stage" aria-hidden="true"><svg></svg></div></div>
  <div class="set">
    ${slider("scale", "weight scale", 0.8, 2.4, 0.01)}
    ${radios(id, "norm", "LayerNorm", NORMS)}
    ${slider("layer", "layer", 0, LAYERS, 1)}
    ${buttons({ play: "play", draw: "other weights", reset: "reset" })}
  </div></div>`;

function connect({ stage, state, find, change, tell, drag }) {
  const picture = find("svg");
  let [norm, sent] = ["", null]; // the norm drawn last; for how many seconds the digit has been on its way, while it is
  let known = {}; // the last result, and what it was computed for

  const seen = () => {
    const { top, height } = stage.getBoundingClientRect();
    return top + height / 2 < innerHeight;
  };
  function draw({ width, dt, calm }) {
    const now = state();
    if (now.norm !== norm) [norm, sent] = [now.norm, 0];
    const asked = `${now.scale} ${now.norm} ${now.seed}`;
    if (known.asked !== asked) known = { asked, ...computed(now) };
    const waits = sent === 0 && !seen();
    if (sent !== null && !waits) sent += dt;
    const way = Math.floor(sent / 0.07);
    if (calm || way >= LAYERS) sent = null;
    const shown = sent === null ? now : { ...now, layer: way };
    picture.setAttribute("height", scales(width).height);
    picture.innerHTML = drawing(shown, known, width, shown === now ? LAYERS : way);
    const words = sentence(known.sizes);
    const { signals, gradients } = known.sizes;
    const here = `In layer ${now.layer} the signal has rms ${size(signals[now.layer])}, the gradient ${size(gradients[now.layer])}.`;
    tell(words, `Weight scale ${now.scale.toFixed(2)}. ${words} ${here}`);
    return sent !== null && !waits;
  }
  const stop = () => (sent = null);
  const play = () => {
    sent = 0;
    change({ layer: LAYERS });
  };
  const acts = { play, draw: () => change({ seed: state().seed + 1 }) };
  function choose(event) {
    const { x } = scales(stage.clientWidth);
    const share = (event.clientX - stage.getBoundingClientRect().left - x(0)) / (x(LAYERS) - x(0));
    stop();
    change({ layer: clamp(Math.round(LAYERS * share), 0, LAYERS) });
    return true;
  }
  drag(stage, choose, choose);
  return { draw, acts, stop };
}

const ranges = { layer: { words: String } };
export default explorable({ name: "depth", title: TITLE, start, style: STYLE, ranges, page, connect });
