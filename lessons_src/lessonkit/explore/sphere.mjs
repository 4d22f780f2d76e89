// LayerNorm of three numbers, seen in space: onto the plane at right angles to (1, 1, 1), then onto a circle, then onto
// an ellipse.
// An anywidget front-end module: JupyterLab and a page without a kernel run this same file. No library, no network.
// The model holds what `start` lists. `still()` draws the same as text, for viewers that run no script.
// In this order: the mathematics, words, the scene (shapes on a sheet, without colors), two painters, style and page,
// and last the explorable itself: hands, clock, theme.

// ---- What the model holds, and how it starts ----

export const start = {
  x: [1.9, 0.5, 1.5], // the row
  gain: [1.3, 0.5, 0.8],
  bias: [0.3, 0.7, 0.9],
  eps: 1e-5,
  step: 2, // 0: the row, 1: minus its mean, 2: divided, 3: gain and bias
  camera: [10, 24], // turn and height, in degrees
  show: ["cloud"], // of "cloud" (60 other rows) and "softmax" (its triangle)
};

// ---- The mathematics: pure functions, compared with torch by the tests ----

const mean = (x) => x.reduce((a, b) => a + b, 0) / x.length;

/** x minus its mean: the orthogonal projection onto the rows that sum to 0. */
export function project(x) {
  const mu = mean(x);
  return x.map((v) => v - mu);
}

/** LayerNorm of one row: {mu, sigma, flat: x - mu, hat: flat / sqrt(sigma^2 + eps), y: gain hat + bias}. */
export function layerNorm(x, { eps = 1e-5, gain = x.map(() => 1), bias = x.map(() => 0) } = {}) {
  const flat = project(x);
  const variance = mean(flat.map((v) => v * v));
  const hat = flat.map((v) => v / Math.sqrt(variance + eps));
  return { mu: mean(x), sigma: Math.sqrt(variance), flat, hat, y: hat.map((v, i) => gain[i] * v + bias[i]) };
}

/** Shares that sum to 1. The largest number is subtracted first, so that exp cannot overflow. */
export function softmax(x) {
  const largest = Math.max(...x);
  const e = x.map((v) => Math.exp(v - largest));
  return e.map((v) => v / (e.length * mean(e)));
}

const dot = (p, q) => p.reduce((sum, v, i) => sum + v * q[i], 0);
const add = (p, q, factor = 1) => p.map((v, i) => v + factor * q[i]);
const scaled = (p, factor) => p.map((v) => v * factor);
const lerp = (p, q, share) => p.map((v, i) => v + share * (q[i] - v));
const length = (p) => Math.hypot(...p);
const clamp = (v, low, high) => Math.min(high, Math.max(low, v));
const ease = (share) => (share < 0.5 ? 4 * share ** 3 : 1 - 4 * (1 - share) ** 3);

const ORIGIN = [0, 0, 0];
const AXES = [
  [1, 0, 0],
  [0, 1, 0],
  [0, 0, 1],
];
const UP = scaled([1, 1, 1], 1 / Math.sqrt(3)); // of length 1, like the two directions of the plane
const A = scaled([1, -1, 0], 1 / Math.SQRT2);
const B = scaled([1, 1, -2], 1 / Math.sqrt(6));
const RADIUS = Math.sqrt(3); // of the circle
const LIMIT = 2.5; // the ends of x
const FAR = 13; // from the eye to the origin

/**
 * A camera that looks at the origin, (1, 1, 1) upright. camera: [turn, height] in degrees; (cx, cy): the origin in
 * pixels; unit: pixels of a length of 1 there.
 * Returns {at: point -> [x, y, nearness, magnification], move: pixels -> vector, right, toEye}.
 */
export function view(camera, cx, cy, unit) {
  const [turn, height] = scaled(camera, Math.PI / 180);
  const right = add(scaled(A, Math.cos(turn)), B, Math.sin(turn));
  const ahead = add(scaled(B, Math.cos(turn)), A, -Math.sin(turn));
  const above = add(scaled(ahead, Math.sin(height)), UP, Math.cos(height));
  const toEye = add(scaled(UP, Math.sin(height)), ahead, -Math.cos(height));
  const at = (p) => {
    const near = dot(p, toEye);
    const k = FAR / (FAR - near);
    return [cx + unit * k * dot(p, right), cy - unit * k * dot(p, above), near, k];
  };
  const move = (dx, dy, k) => add(scaled(right, dx / (unit * k)), above, -dy / (unit * k));
  return { at, move, right, toEye };
}

/** A closed curve of 96 pieces; point: (cosine, sine) times RADIUS -> a point in space. */
function ring(point) {
  const angles = Array.from({ length: 97 }, (_, i) => (i * 2 * Math.PI) / 96);
  return angles.map((angle) => point(RADIUS * Math.cos(angle), RADIUS * Math.sin(angle)));
}
const CIRCLE = ring((c, s) => add(scaled(A, c), B, s));
const MERIDIANS = [0, 1, 2].map((i) => {
  const across = add(scaled(A, Math.cos((i * Math.PI) / 3)), B, Math.sin((i * Math.PI) / 3));
  return ring((c, s) => add(scaled(across, c), UP, s));
});

/** 60 rows, the same each time (a linear congruential generator, Box and Muller), each with a delay between 0 and 1. */
const CLOUD = (() => {
  let seed = 8;
  const random = () => (seed = (1664525 * seed + 1013904223) % 2 ** 32) / 2 ** 32;
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const row = (lift) => ORIGIN.map(() => clamp(lift + 0.95 * normal(), -LIMIT, LIMIT));
  return Array.from({ length: 60 }, () => ({ x: row(0.8 * normal()), delay: random() }));
})();

/** First the gain, then the bias, as far as share (0 to 1) says. At share 1: gain p + bias. */
export function affine(p, { gain, bias }, share = 1) {
  const [stretched, shifted] = [ease(clamp(2 * share, 0, 1)), ease(clamp(2 * share - 1, 0, 1))];
  return p.map((v, i) => v * (1 + stretched * (gain[i] - 1)) + shifted * bias[i]);
}

/** Where row x is at time t, from 0 to 3: at one of the four stations, or between two. A delayed row leaves later. */
export function under(x, state, t, delay = 0) {
  const { flat, hat } = layerNorm(x, { eps: state.eps });
  const leg = Math.max(0, Math.ceil(t) - 1);
  const share = clamp((t - leg - 0.4 * delay) / (delay > 0 ? 0.6 : 1), 0, 1);
  if (leg === 0) return lerp(x, flat, ease(share));
  if (leg === 1) return lerp(flat, hat, ease(share));
  return affine(hat, state, share);
}

/**
 * A row that has the same image as x: x shifted along (1, 1, 1), or stretched away from its mean, as far as the ends
 * of the ranges allow. Returns {to: the row, words}.
 */
export function unseenMove(kind, x) {
  const { mu, flat } = layerNorm(x);
  const inside = (row) => row.every((v) => Math.abs(v) <= LIMIT);
  if (kind === "shift") {
    const amounts = mu > 0 ? [-1.2, 1.2, -0.4, 0.4] : [1.2, -1.2, 0.4, -0.4];
    const amount = amounts.find((c) => inside(x.map((v) => v + c))) ?? amounts.at(-1);
    const words = `Shift: ${fmt(Math.abs(amount), 1)} ${amount > 0 ? "added to" : "taken from"} each number`;
    return { to: x.map((v) => v + amount), words };
  }
  const stretch = (c) => flat.map((v) => mu + c * v);
  const factors = length(flat) > 1.5 ? [0.5] : [1.8, 1.4, 0.5];
  const factor = factors.find((c) => inside(stretch(c))) ?? 0.5;
  return { to: stretch(factor), words: `Stretch: each distance from the mean times ${factor}` };
}

// ---- Words ----

function fmt(v, digits = 2) {
  if (!Number.isFinite(v)) return "0/0";
  return (+v.toFixed(digits) < 0 ? "−" : "") + Math.abs(v).toFixed(digits);
}
const list = (p) => p.map((v) => fmt(v)).join(", ");

function fmtEps(eps) {
  if (eps === 0) return "0";
  if (eps >= 0.00995) return String(+eps.toPrecision(2));
  const [factor, power] = eps.toExponential(0).split("e-");
  const raised = power.replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]);
  return `${factor === "1" ? "" : `${factor}·`}10⁻${raised}`;
}

/** What the step does, in one sentence. n: the LayerNorm of the row. */
function sentence({ step, eps, gain, bias }, n) {
  if (step === 0) return "A row of three numbers is one point in space.";
  if (step === 1)
    return "Subtract the mean: x drops along (1,\u00a01,\u00a01) onto the plane of all rows that sum to 0.";
  if (step === 3) {
    const plain = gain.every((v) => v === 1) && bias.every((v) => v === 0);
    if (plain) return "Gain 1 and bias 0 change nothing. Move a slider of γ or β.";
    return "Gain stretches the three axes, bias shifts: the circle becomes an ellipse somewhere else.";
  }
  if (n.sigma < 1e-9)
    return `All three numbers are equal: nothing is left to scale, and the row ends ${eps ? "in the middle" : "at 0/0"}.`;
  if (length(n.hat) < 1.7)
    return `Divide by √(σ² + ε): with this ε the row stays inside the circle, ${fmt(length(n.hat))} from the middle instead of 1.73.`;
  return "Divide by the deviation: the row slides onto the circle of radius √3, where plane and sphere meet.";
}

/** All numbers, for a screen reader. */
function report({ step, x }, n, words) {
  return `Step ${step} of 3. ${words} x: ${list(x)}. Mean ${fmt(n.mu)}, deviation ${fmt(n.sigma)}. x minus mean: ${list(n.flat)}. x hat: ${list(n.hat)}, length ${fmt(length(n.hat))}. y: ${list(n.y)}.`;
}

// ---- The scene: shapes on a sheet, from far to near ----
// A color is [mix, alpha]: 0 is the ink, 1 the accent, which belongs to LayerNorm's result and the current step alone.
// A shape is {paths | disc | words, fill, stroke, thick, dash, rim}. A rim is cleared around a dot or word, so that no
// line runs into it. A gradient is {from: 4 or 6 numbers as on a canvas, stops: [[where, color], ...]}.

const [INK, ACCENT] = [0, 1];
const fade = (near) => clamp(0.66 + 0.2 * near, 0.25, 1); // the farther, the lighter

/** What draws shapes of points in space, seen by a camera, into `shapes`. */
function sketch(cam) {
  const shapes = [];
  return {
    shapes,
    line: (points, stroke, thick, dash = []) => shapes.push({ paths: [points.map(cam.at)], stroke, thick, dash }),
    fill: (points, fill) => shapes.push({ paths: [points.map(cam.at)], fill }),
    disc: (x, y, radius, look) => shapes.push({ disc: [x, y, radius], ...look }),
    spot(p, radius, fill, rim = 2) {
      const [x, y, , k] = cam.at(p);
      shapes.push({ disc: [x, y, radius * k], fill, rim: rim * k });
    },
    /** A closed flat curve: its far half thin, and fading evenly from its nearest to its farthest point. */
    loop(points, [mix, alpha], thick) {
      const seen = points.map(cam.at);
      const near = seen.reduce((p, q) => (q[2] > p[2] ? q : p));
      const far = seen.reduce((p, q) => (q[2] < p[2] ? q : p));
      const pieces = seen.slice(1).map((p, i) => [seen[i], p]);
      const isFront = ([p, q]) => p[2] + q[2] > 0;
      const stops = [
        [0, [mix, alpha]],
        [1, [mix, 0.28 * alpha]],
      ];
      const stroke = { from: [near[0], near[1], far[0], far[1]], stops };
      shapes.push({ paths: pieces.filter((piece) => !isFront(piece)), stroke, thick: 0.6 * thick });
      shapes.push({ paths: pieces.filter(isFront), stroke, thick });
    },
  };
}

/** The camera at the sheet's scale: as large as x and the ellipse allow. While x is held nothing else may move. */
function sight({ state, t, width, tall, held, unit }) {
  const [cx, cy] = [width / 2, tall * 0.54];
  if (held) return { cam: view(state.camera, cx, cy, unit), unit };
  const full = Math.min(width / 6.4, tall / 5.3);
  const wide = view(state.camera, cx, cy, full);
  const away = ([x, y]) => Math.max(Math.abs(x - cx) / (cx - 20), (cy - y) / (cy - 20), (y - cy) / (tall - cy - 20));
  const inside = [state.x, ...(t > 2 ? CIRCLE.map((p) => affine(p, state, t - 2)) : [])];
  const fitting = full / Math.max(1, ...inside.map((p) => away(wide.at(p))));
  return { cam: view(state.camera, cx, cy, fitting), unit: fitting };
}

/**
 * The whole scene. look: {state, t: from step 0 to 3, glow: 0 to 1 while x is moved unseen, held: whether a hand holds
 * x, unit: of the last scene, width, tall, measure: (words, isMath) -> pixels, memory: Map of the words' last places,
 * jump: whether words may jump}.
 * Returns {shapes, cam, unit, grip: where x is, settled: whether every word has arrived}.
 */
export function scene(look) {
  const { state, t, glow, width, tall } = look;
  const { x, eps } = state;
  const { cam, unit } = sight(look);
  const pen = sketch(cam);
  const n = layerNorm(x, state);
  const now = under(x, state, t);
  const landed = clamp(t - 1, 0, 1); // how much of the row is LayerNorm's result
  const bent = clamp(t - 2, 0, 1); // how much of the circle is an ellipse
  const ellipse = CIRCLE.map((p) => affine(p, state, bent));
  const tips = AXES.map((axis) => scaled(axis, 2.5));
  const [cx, cy] = [width / 2, tall * 0.54];

  drawRoom(pen, { cx, cy, unit, height: state.camera[1] });
  if (glow && n.sigma > 0) drawHalfPlane(pen, cam, n, glow);
  for (const tip of tips) {
    const near = cam.at(tip)[2];
    pen.line([ORIGIN, tip], [INK, 0.66 * fade(near)], 1.1 + 0.3 * near);
  }
  if (state.show.includes("softmax")) {
    pen.fill(AXES, [INK, 0.09]);
    pen.line([...AXES, AXES[0]], [INK, 0.6], 1.25);
  }
  pen.fill(CIRCLE, [ACCENT, 0.05]);
  pen.loop(CIRCLE, [ACCENT, 0.45 + 0.55 * landed - 0.5 * bent], 2.6 - bent);
  if (bent) {
    pen.line(ellipse.map(project), [INK, 0.12 * bent], 3); // its shadow on the plane
    pen.fill(ellipse, [ACCENT, 0.1]);
    pen.loop(ellipse, [ACCENT, 1], 2.8);
  }
  if (state.show.includes("cloud")) drawCloud(pen, cam, state, t);
  drawWay(pen, { state, n, now, t, glow, landed, bent });
  const grip = cam.at(x);
  pen.disc(grip[0], grip[1], 11, { stroke: [INK, look.held ? 0.9 : 0.4], thick: 1.25 });
  pen.spot(x, 6, [INK, 1]);
  if (state.show.includes("softmax")) pen.spot(softmax(x), 4, [INK, 1]);

  const finite = now.every(Number.isFinite);
  const taken = [[grip, 13], [cam.at(finite ? now : x), 9], [cam.at(n.flat), 6]]; // prettier-ignore
  const between = (p, q) => Array.from({ length: 30 }, (_, i) => cam.at(lerp(p, q, i / 29)));
  const rods = [[x, n.flat], [ORIGIN, scaled(UP, 2.5)], [n.flat, n.hat], ...tips.map((tip) => [ORIGIN, tip])]; // prettier-ignore
  const lines = [...rods.flatMap(([p, q]) => between(p, q)), ...[...CIRCLE, ...(bent ? ellipse : [])].map(cam.at)];
  const labels = labelsOf({ state, n, now, t, cam, tips, finite, eps });
  const settled = place(pen.shapes, labels, taken, lines, look);
  return { shapes: pen.shapes, cam, unit, grip, settled };
}

/** The plane with the shadows of the axes, the ball, and the direction (1, 1, 1). */
function drawRoom(pen, { cx, cy, unit, height }) {
  const floor = 3.3 * unit;
  const squash = Math.max(0.02, Math.abs(Math.sin((height * Math.PI) / 180)));
  const light = (from, ...alphas) => ({ from, stops: alphas.map(([where, alpha]) => [where, [INK, alpha]]) });
  pen.disc(cx, cy, floor, { squash, fill: light([0, 0, 0, 0, 0, floor], [0, 0.08], [0.75, 0.06], [1, 0]) });
  for (const axis of AXES) pen.line([ORIGIN, scaled(project(axis), 3.4)], [INK, 0.1], 1);
  const ball = (unit * FAR * RADIUS) / Math.sqrt(FAR * FAR - 3);
  const shine = light([-0.3 * ball, -0.4 * ball, 0.1 * ball, 0, 0, ball], [0, 0], [0.7, 0.02], [1, 0.1]);
  pen.disc(cx, cy, ball, { fill: shine, stroke: [INK, 0.22], thick: 1 });
  for (const meridian of MERIDIANS) pen.loop(meridian, [INK, 0.13], 1);
  pen.line([scaled(UP, -RADIUS), scaled(UP, RADIUS)], [INK, 0.22], 1, [2, 5]);
  pen.line([scaled(UP, RADIUS), scaled(UP, 2.5)], [INK, 0.55], 1, [2, 5]);
}

/** All rows that have x's image: a x + b (1, 1, 1) for every positive a and every b. */
function drawHalfPlane(pen, cam, n, glow) {
  const out = scaled(n.flat, 3 / length(n.flat));
  const stops = [[0, 0.28], [0.6, 0.18], [1, 0]].map(([where, alpha]) => [where, [ACCENT, alpha * glow]]); // prettier-ignore
  const from = [ORIGIN, out].flatMap((p) => cam.at(p).slice(0, 2));
  pen.fill([scaled(UP, -2.2), scaled(UP, 2.5), add(out, UP, 2.5), add(out, UP, -2.2)], { from, stops });
}

/** 60 rows on the same way, with their shadows on the plane as long as they are above or below it. */
function drawCloud(pen, cam, state, t) {
  const landed = clamp(t - 1, 0, 1);
  const rows = CLOUD.map(({ x, delay }) => under(x, state, t, delay)).map((p) => [p, cam.at(p)[2]]);
  rows.sort((p, q) => p[1] - q[1]);
  if (t < 1) for (const [p] of rows) pen.spot(project(p), 1.4, [INK, 0.16 * (1 - t)], 0);
  for (const [p, near] of rows) pen.spot(p, 2.4 + 0.35 * near, [landed, (0.42 + 0.4 * landed) * fade(near)], 0);
}

/** The way of x so far, with a dot at every station. */
function drawWay(pen, { state, n, now, t, glow, landed, bent }) {
  if (t === 0) return;
  pen.line([state.x, t < 1 ? now : n.flat], [INK, 0.6], 1.5);
  pen.line([ORIGIN, n.flat], [INK, 0.3], 1);
  if (!now.every(Number.isFinite)) return;
  if (t > 1) {
    pen.line([n.flat, t < 2 ? now : n.hat], [ACCENT, 0.9], 2.2);
    pen.spot(n.flat, 3, [INK, 0.75]);
  }
  if (t > 2) {
    pen.line([n.hat, affine(n.hat, state, Math.min(bent, 0.5)), now], [ACCENT, 0.75], 1.5, [1, 4]);
    pen.spot(n.hat, 3.5, [ACCENT, 0.9]);
  }
  if (glow) pen.spot(now, 12, [ACCENT, 0.3 * glow], 0); // it stands still
  pen.spot(now, 6.5, [landed, 1]);
}

/** The words of the picture, the most important first: [{key, words, at, color, math}]. */
function labelsOf({ state, n, now, t, cam, tips, finite, eps }) {
  const labels = [];
  const label = (key, p, color, words = key) =>
    labels.push({ key, words, at: cam.at(p), color, math: ["x", "x − μ", "x̂", "y"].includes(key) });
  label("x", state.x, [INK, 1]);
  if (t > 2.5 && finite) label("y", now, [ACCENT, 1]);
  if (t > 1.5 && finite) label("x̂", n.hat, [ACCENT, 1]);
  if (t > 0.5) label("x − μ", n.flat, [INK, 1]);
  tips.forEach((tip, i) => label(`feature ${i + 1}`, tip, [INK, 0.75]));
  label("(1, 1, 1)", scaled(UP, 2.5), [INK, 0.75]);
  if (state.show.includes("softmax")) label("softmax(x)", softmax(state.x), [INK, 1]);
  if (t >= 1 && t <= 2 && Math.abs(n.mu) > 0.2)
    label("mu", lerp(state.x, n.flat, 0.5), [INK, 0.75], `μ = ${fmt(n.mu)}`);
  if (t === 2 && length(add(n.hat, n.flat, -1)) > 0.4)
    label("sigma", lerp(n.flat, n.hat, 0.5), [ACCENT, 1], `÷ ${fmt(Math.sqrt(n.sigma ** 2 + eps))}`);
  const nearest = project(add(cam.toEye, cam.right, -0.9));
  label("radius √3", scaled(nearest, RADIUS / length(nearest)), [ACCENT, 1]);
  return labels;
}

/**
 * Each word goes where it costs least: near its point, on no other word or dot, off the lines, near its last place.
 * discs: [[point, radius], ...] that words keep off; lines: points on lines. Returns whether every word has arrived.
 */
function place(shapes, labels, discs, lines, { width, tall, measure, memory, jump }) {
  const taken = discs.map(([[x, y], r]) => [x - r, y - r, x + r, y + r]);
  let settled = true;
  for (const { key, words, at, color, math } of labels) {
    const [x, y] = at;
    const [w, h] = [measure(words, math) / 2 + 2, math ? 10 : 8]; // half of the word's box
    const last = memory.get(key);
    const near = lines.filter(([a, b]) => Math.abs(a - x) < 2 * w + 40 && Math.abs(b - y) < 2 * h + 40);
    const cost = (to, box) => {
      let total = 50 * Math.max(0, 2 - box[0], 2 - box[1], box[2] - width + 2, box[3] - tall + 2);
      if (last) total += 0.25 * Math.hypot(to[0] - last.to[0], to[1] - last.to[1]);
      for (const other of taken) total += 3 * overlap(box, other);
      for (const [a, b] of near) if (a > box[0] && a < box[2] && b > box[1] && b < box[3]) total += 10;
      return total;
    };
    let best = { total: Infinity };
    for (const away of [math ? 12 : 6, 20, 34]) {
      for (let i = 0; i < 16; i++) {
        const to = [Math.cos((i * Math.PI) / 8) * (away + w), Math.sin((i * Math.PI) / 8) * (away + h)];
        const box = [x + to[0] - w, y + to[1] - h, x + to[0] + w, y + to[1] + h];
        const total = 0.6 * away + cost(to, box);
        if (total < best.total) best = { total, to, box };
      }
    }
    const now = jump || !last ? best.to : lerp(last.now, best.to, 0.3);
    const moving = Math.hypot(now[0] - best.to[0], now[1] - best.to[1]) > 0.3;
    memory.set(key, { to: best.to, now: moving ? now : best.to });
    settled &&= !moving;
    if (best.total > 160) continue; // no room: better no word than two on one another
    taken.push(best.box);
    shapes.push({ words, at: [x + now[0], y + now[1]], math, fill: color, rim: 2 });
  }
  return settled;
}

/** The area that two boxes [left, top, right, bottom] share. */
function overlap(a, b) {
  const w = Math.min(a[2], b[2]) - Math.max(a[0], b[0]);
  const h = Math.min(a[3], b[3]) - Math.max(a[1], b[1]);
  return w > 0 && h > 0 ? w * h : 0;
}

// ---- Two painters of shapes: on a canvas, and as SVG text ----

const FONTS = { math: 'italic 19px Georgia, "Liberation Serif", serif', plain: "12.5px" };

/** Paint on a canvas. palette: {ink: [r, g, b], accent: [r, g, b], font: of plain words}. */
function paint(pen, shapes, { ink, accent, font }) {
  const css = ([mix, alpha]) => `rgba(${lerp(ink, accent, mix).map(Math.round)}, ${alpha})`;
  function style(look) {
    if (Array.isArray(look)) return css(look);
    const gradient =
      look.from.length === 4 ? pen.createLinearGradient(...look.from) : pen.createRadialGradient(...look.from);
    for (const [where, color] of look.stops) gradient.addColorStop(where, css(color));
    return gradient;
  }
  function cleared(draw) {
    pen.globalCompositeOperation = "destination-out";
    draw();
    pen.globalCompositeOperation = "source-over";
  }
  function trace({ paths, disc, squash = 1 }, wider = 0) {
    pen.beginPath();
    if (disc) {
      pen.translate(disc[0], disc[1]);
      pen.scale(1, squash);
      pen.arc(0, 0, disc[2] + wider, 0, 7);
    }
    for (const path of paths ?? []) path.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  }
  Object.assign(pen, { lineJoin: "round", lineCap: "round", textAlign: "center", textBaseline: "middle" });
  for (const shape of shapes) {
    const { words, at, math, fill, stroke, thick, dash = [], rim } = shape;
    if (words) {
      Object.assign(pen, {
        font: math ? FONTS.math : `${FONTS.plain} ${font}`,
        lineWidth: 2 * rim,
        fillStyle: css(fill),
      });
      cleared(() => pen.strokeText(words, ...at));
      pen.fillText(words, ...at);
      continue;
    }
    pen.save();
    if (rim) {
      pen.save();
      trace(shape, rim);
      cleared(() => pen.fill());
      pen.restore();
    }
    trace(shape);
    if (fill) {
      pen.fillStyle = style(fill);
      pen.fill();
    }
    if (stroke) {
      pen.setLineDash(dash);
      pen.lineWidth = thick;
      pen.strokeStyle = style(stroke);
      pen.stroke();
    }
    pen.restore();
  }
}

const SVG_FONTS = {
  math: `font-family="Georgia, 'Liberation Serif', serif" font-style="italic" font-size="19"`,
  plain: 'font-family="system-ui, sans-serif" font-size="12.5"',
};

/** The shapes as SVG text. Rims are holes in a mask that lies on everything but dots and words. */
function svgOf(shapes, width, tall) {
  const [defs, below, above, holes] = [[], [], [], []];
  const r = (v) => +v.toFixed(2);
  const hue = ([mix]) => (mix < 0.5 ? "#1f2328" : "#0072b2");
  function style(name, look) {
    if (!look) return `${name}="none"`;
    if (Array.isArray(look)) return `${name}="${hue(look)}" ${name}-opacity="${r(look[1])}"`;
    const id = `sphere-${defs.length}`;
    const kind = look.from.length === 4 ? "linearGradient" : "radialGradient";
    const names = look.from.length === 4 ? ["x1", "y1", "x2", "y2"] : ["fx", "fy", "fr", "cx", "cy", "r"];
    const from = names.map((key, i) => `${key}="${r(look.from[i])}"`).join(" ");
    const stops = look.stops.map(
      ([at, color]) => `<stop offset="${at}" stop-color="${hue(color)}" stop-opacity="${r(color[1])}"/>`,
    );
    defs.push(`<${kind} id="${id}" gradientUnits="userSpaceOnUse" ${from}>${stops.join("")}</${kind}>`);
    return `${name}="url(#${id})"`;
  }
  for (const { paths, disc, squash = 1, words, at, math, fill, stroke, thick, dash = [], rim } of shapes) {
    const looks = [style("fill", fill), style("stroke", stroke), stroke && `stroke-width="${r(thick)}"`]
      .concat(dash.length ? `stroke-dasharray="${dash.join(" ")}"` : [])
      .filter(Boolean)
      .join(" ");
    if (words) {
      const text = `${math ? SVG_FONTS.math : SVG_FONTS.plain} x="${r(at[0])}" y="${r(at[1])}" dominant-baseline="central">${words}</text>`;
      holes.push(`<text stroke="#000" stroke-width="${2 * rim}" ${text}`);
      above.push(`<text ${looks} ${text}`);
    } else if (disc) {
      const moved = `transform="translate(${r(disc[0])} ${r(disc[1])})${squash === 1 ? "" : ` scale(1 ${r(squash)})`}"`;
      if (rim) holes.push(`<circle ${moved} r="${r(disc[2] + rim)}"/>`);
      (rim ? above : below).push(`<circle ${moved} r="${r(disc[2])}" ${looks}/>`);
    } else if (paths.length) {
      const d = paths.map((path) => `M${path.map(([x, y]) => `${r(x)} ${r(y)}`).join("L")}`).join("");
      below.push(`<path d="${d}" ${looks}/>`);
    }
  }
  return `<defs>
${defs.join("\n")}
<mask id="sphere-rims" maskUnits="userSpaceOnUse" x="0" y="0" width="${width}" height="${tall}">
<rect width="${width}" height="${tall}" fill="#fff"/>
${holes.join("\n")}
</mask>
</defs>
<g mask="url(#sphere-rims)">
${below.join("\n")}
</g>
${above.join("\n")}`;
}

/** The picture of a state as an SVG file of its own. Words are measured roughly: there is no canvas under Node. */
export function still(state = {}, width = 596) {
  const full = { ...start, ...state };
  const tall = Math.round(width * 0.86);
  const measure = (words, math) => words.length * (math ? 9 : 6.6);
  const { shapes } = scene({ state: full, t: full.step, glow: 0, width, tall, measure, memory: new Map(), jump: true });
  const n = layerNorm(full.x, full);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${tall}" width="${width}" role="img" text-anchor="middle" stroke-linejoin="round" stroke-linecap="round">
<title>LayerNorm of three numbers, in space</title>
<desc>Three axes, a ball, and through its middle the plane at right angles to (1, 1, 1), on which it cuts a circle. ${report(full, n, sentence(full, n))}</desc>
<rect width="100%" height="100%" fill="#ffffff"/>
${svgOf(shapes, width, tall)}
</svg>
`;
}

// ---- The page around the picture ----

const STYLE = `
.ln-sphere {
  --soft: color-mix(in srgb, currentColor 66%, transparent);
  --edge: color-mix(in srgb, currentColor 20%, transparent);
  --math: italic 17px/1.3 Georgia, "Liberation Serif", serif;
  display: grid; gap: 8px 28px; max-width: 900px; font-size: 14px; line-height: 1.45; color: inherit; transition: color 1ms;
  & * { box-sizing: border-box; }
  &.wide { grid-template-columns: minmax(0, 1fr) 304px; align-items: center; }
  :is(input, button, output) { color: inherit; }
  :focus-visible, .track label:has(:focus-visible) { outline: 2px solid var(--accent); outline-offset: 2px; }

  .stage { position: relative; touch-action: pan-y; cursor: grab; user-select: none; -webkit-user-select: none; border-radius: 8px; }
  canvas { display: block; width: 100%; }
  .grip { position: absolute; left: -22px; top: -22px; width: 44px; height: 44px; padding: 0; border: 0; border-radius: 50%; background: none; touch-action: none; cursor: move; }
  .hint { margin: 0; padding: 2px; text-align: center; }
  :is(.hint, small, thead th) { font-size: 12px; color: var(--soft); pointer-events: none; }

  .steps { display: flex; gap: 8px; min-width: 0; margin: 0; padding: 0; border: 0; }
  .track { flex: 1; display: grid; grid-template-columns: repeat(4, 1fr); border: 1px solid var(--edge); border-radius: 8px; }
  .track label { position: relative; display: grid; place-items: center; min-height: 36px; margin: 0; border-radius: 7px; font: var(--math); }
  .track input { position: absolute; inset: 0; width: 100%; height: 100%; margin: 0; opacity: 0; cursor: pointer; }
  .track label:has(:checked) { background: var(--accent); color: var(--on-accent); }
  :is(.act, .track label:not(:has(:checked))):hover { background: color-mix(in srgb, currentColor 8%, transparent); }
  .act { min-height: 36px; padding: 0 12px; font: inherit; background: none; border: 1px solid var(--edge); border-radius: 8px; cursor: pointer; }
  .say { min-height: 4.35em; margin: 10px 0 4px; font-size: 15px; text-wrap: pretty; }

  table { width: 100%; margin: 0; border: 0; border-collapse: collapse; table-layout: fixed; font: inherit; font-variant-numeric: tabular-nums; }
  tr { background: none; border: 0; }
  tr.rule { border-top: 1px solid var(--edge); }
  :is(th, td) { padding: 1px 4px; border: 0; background: none; color: inherit; font-weight: 400; line-height: 1.3; text-align: center; }
  tr > :first-child { width: 3.6em; padding-left: 0; text-align: left; white-space: nowrap; }
  :is(tbody th, .eps span) { font: var(--math); }
  .image > * { color: var(--accent); }
  .ahead > * { color: var(--soft); }
  .now > * { font-weight: 650; }
  output { display: block; }
  input[type=range] { display: block; width: 100%; height: 20px; margin: 0; accent-color: currentColor; cursor: pointer; }
  .eps { display: grid; grid-template-columns: 3.6em 1fr 4em; align-items: center; margin-top: 4px; padding-top: 4px; border-top: 1px solid var(--edge); }
  .eps output { text-align: right; }

  .line { display: flex; flex-wrap: wrap; gap: 4px 8px; align-items: center; margin-top: 8px; }
  .line .act { flex: 1; }
  .line label { display: flex; gap: 6px; align-items: center; min-height: 28px; margin: 0 6px 0 0; cursor: pointer; }
  .line input { width: 15px; height: 15px; margin: 0; accent-color: currentColor; }
  small { flex-basis: 100%; }
  .unseen { position: absolute; width: 1px; height: 1px; margin: 0; padding: 0; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
  @media (pointer: coarse) { :is(.act, .track label, .line label) { min-height: 44px; } input[type=range] { height: 32px; } }
  @media (forced-colors: active) { .track label:has(:checked) { outline: 2px solid Highlight; } }
}`;

/** The table reads as the formula: x, x − μ, x̂, γ, β, y. A row with ends has sliders. */
const ROWS = [
  { key: "x", sign: "x", slides: { words: "x of", low: -LIMIT, high: LIMIT } },
  { key: "flat", sign: "x − μ" },
  { key: "hat", sign: "x̂", look: "image" },
  { key: "gain", sign: "γ", look: "rule", slides: { words: "gain of", low: -1, high: 2 } },
  { key: "bias", sign: "β", slides: { words: "bias of", low: -2, high: 2 } },
  { key: "y", sign: "y", look: "rule image" },
];
const STEPS = [
  { sign: "x", words: "the row", row: "x" },
  { sign: "− μ", words: "step 1, subtract the mean", row: "flat" },
  { sign: "÷ σ", words: "step 2, divide", row: "hat" },
  { sign: "γ, β", words: "step 3, gain and bias", row: "y" },
];
const REACHED = { flat: 1, hat: 2, gain: 3, bias: 3, y: 3 }; // the step from which a row of the table counts

function page(id) {
  const steps = STEPS.map(
    ({ sign, words }) => `<label>${sign}<input type="radio" name="${id}-step" aria-label="${sign}: ${words}"></label>`,
  );
  const range = ({ words, low, high }, i) =>
    `<input type="range" min="${low}" max="${high}" step="0.05" aria-label="${words} feature ${i}">`;
  const rows = ROWS.map(({ key, sign, look = "", slides }) => {
    const cells = [1, 2, 3].map((i) => `<td><output></output>${slides ? range(slides, i) : ""}</td>`);
    return `<tr data-key="${key}" class="${look}"><th scope="row">${sign}</th>${cells.join("")}</tr>`;
  });
  return `<style>${STYLE}</style>
    <div class="stage" tabindex="0" role="application" aria-label="Picture. Arrow keys turn the camera." aria-describedby="${id}-state">
      <canvas aria-hidden="true"></canvas>
      <button class="grip" type="button" aria-label="Point x. Arrow keys move it in the plane of the picture."></button>
      <p class="hint">Drag x. Drag the background to turn the camera.</p>
    </div>
    <div>
      <fieldset class="steps">
        <legend class="unseen">Steps of LayerNorm</legend>
        <button type="button" class="act" data-act="play" aria-label="Play the three steps"><span aria-hidden="true">▶\uFE0E</span></button>
        <div class="track">${steps.join("")}</div>
      </fieldset>
      <p class="say"></p>
      <table>
        <thead><tr><td></td>${[1, 2, 3].map((i) => `<th scope="col">feature ${i}</th>`).join("")}</tr></thead>
        <tbody>${rows.join("")}</tbody>
      </table>
      <div class="eps"><span aria-hidden="true">ε</span><input type="range" min="-6.1" max="1" step="0.1" aria-label="epsilon"><output></output></div>
      <div class="line">
        <small>What LayerNorm cannot see:</small>
        <button type="button" class="act" data-act="shift">shift x</button>
        <button type="button" class="act" data-act="stretch">stretch x</button>
      </div>
      <div class="line">
        <label><input type="checkbox" value="cloud">60 rows</label>
        <label><input type="checkbox" value="softmax">softmax</label>
        <button type="button" class="act" data-act="reset">reset</button>
      </div>
      <p class="unseen" id="${id}-state" role="status"></p>
    </div>`;
}

// ---- The explorable ----

/** Builds the explorable in el and returns the function that takes it away. */
function render({ model, el }) {
  const KEYS = Object.keys(start);
  const get = (key) => model.get(key) ?? start[key];
  const state = () => Object.fromEntries(KEYS.map((key) => [key, get(key)]));
  const first = state();
  const gone = new AbortController();
  const on = (node, event, act) => node.addEventListener(event, act, { signal: gone.signal });
  const id = `ln-${Math.random().toString(36).slice(2)}`;
  const root = Object.assign(document.createElement("div"), { className: "ln-sphere", innerHTML: page(id) });
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "LayerNorm of three numbers, in space");
  el.append(root);
  const all = (selector) => [...root.querySelectorAll(selector)];
  const [stage, canvas, grip, say, status, eps] = [
    ".stage",
    "canvas",
    ".grip",
    ".say",
    "[role=status]",
    ".eps input",
  ].map((selector) => root.querySelector(selector));
  const pen = canvas.getContext("2d");
  const [radios, rows] = [all("[type=radio]"), all("tbody tr")];

  let t = first.step; // where the picture is, from step 0 to 3
  let playing = 0; // seconds until the next step is played; 0: not playing
  let ride = null; // {from, to, age}: a move of x that LayerNorm does not see
  let [note, glow] = ["", 0]; // what this move showed, and how bright its half-plane is
  let hold = null; // {kind, id, x, y, from, k}: what a pointer holds
  let [width, tall, unit, cam] = [0, 0, 0, null];
  let [frame, last, visible, unsaved, telling] = [0, 0, true, false, 0];
  let palette = null; // {ink, accent, font}
  const memory = new Map(); // the last places of the words
  const widths = new Map(); // of words, measured once

  function request() {
    if (frame || !visible || gone.signal.aborted) return;
    if (performance.now() - last > 100) last = performance.now(); // after a rest the clock starts anew
    frame = requestAnimationFrame(tick);
  }
  function change(changes) {
    for (const [key, value] of Object.entries(changes)) model.set(key, value);
    unsaved = true;
    request();
  }
  function put(key, i, value) {
    stop();
    const values = get(key).map((old, j) => (j === i ? value : old));
    change(key === "x" ? { x: values } : { [key]: values, step: 3 });
  }
  /** What was under way ends when a hand does something else. */
  function stop() {
    [note, ride, playing] = ["", null, 0];
  }

  // The clock: one frame only when something asks for it.
  function advance(dt, jump) {
    const step = get("step");
    const left = step - t;
    if (left) {
      const stride = Math.min(Math.abs(left), 0.9 * dt * Math.max(1, Math.abs(left)));
      t = jump || Math.abs(left) < 1e-3 ? step : t + Math.sign(left) * stride;
    } else if (playing && (playing -= dt) <= 0) {
      playing = step < 2 ? 0.9 : 0;
      change({ step: step + 1 });
    }
    if (ride) {
      ride.age += jump ? 1 : dt / 1.3;
      const arrived = ride.age >= 1;
      change({ x: arrived ? ride.to.map((v) => Math.round(v * 1e4) / 1e4) : lerp(ride.from, ride.to, ease(ride.age)) });
      if (arrived) ride = null;
    }
    const aim = note ? 1 : 0;
    glow = jump ? aim : clamp(glow + (aim ? 3 : -3) * dt, 0, 1);
    return t !== get("step") || playing > 0 || ride !== null || glow !== aim;
  }
  function tick(now) {
    const dt = clamp((now - last) / 1000, 0.001, 0.05);
    [frame, last] = [0, now];
    const jump = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const moving = advance(dt, jump);
    const settled = !width || draw(jump);
    if (unsaved) model.save_changes(); // once a frame
    unsaved = false;
    if (moving || !settled) request();
  }

  // The picture and the text that goes with it.
  function measure(words, math) {
    const font = math ? FONTS.math : `${FONTS.plain} ${palette.font}`;
    if (!widths.has(font + words)) {
      pen.font = font;
      widths.set(font + words, pen.measureText(words).width);
    }
    return widths.get(font + words);
  }
  function draw(jump) {
    const look = { state: state(), t, glow, held: hold?.kind === "x", unit, width, tall, measure, memory, jump };
    const result = scene(look);
    ({ cam, unit } = result);
    const size = [width, tall].map((pixels) => Math.round(pixels * devicePixelRatio));
    if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
    pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    pen.clearRect(0, 0, width, tall); // the canvas has no background: the page's shows
    paint(pen, result.shapes, palette);
    grip.style.transform = `translate(${result.grip[0]}px, ${result.grip[1]}px)`;
    tell(look.state);
    return result.settled;
  }
  const write = (node, words) => node.textContent !== words && (node.textContent = words);
  function tell(now) {
    const n = layerNorm(now.x, now);
    const values = { ...now, ...n };
    const words = note || sentence(now, n);
    for (const row of rows) {
      const { key } = row.dataset;
      row.classList.toggle("now", STEPS[now.step].row === key);
      row.classList.toggle("ahead", REACHED[key] > now.step);
      values[key].forEach((v, i) => {
        const [output, input] = row.cells[i + 1].children;
        write(output, fmt(v));
        if (input) input.value = v;
        input?.setAttribute("aria-valuetext", fmt(v));
      });
    }
    eps.value = now.eps > 0 ? Math.log10(now.eps) : -6.1;
    eps.setAttribute("aria-valuetext", fmtEps(now.eps));
    write(eps.nextElementSibling, fmtEps(now.eps));
    radios[now.step].checked = true;
    for (const box of all("[type=checkbox]")) box.checked = now.show.includes(box.value);
    write(say, words);
    clearTimeout(telling); // said once the hand rests
    telling = setTimeout(() => write(status, report(now, n, words)), 700);
  }

  // Hands: pointer and keys.
  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const bounded = (x) => x.map((v) => clamp(Math.round(v * 100) / 100, -LIMIT, LIMIT));
  function turn(from, dx, dy) {
    change({ camera: [((from[0] + dx + 540) % 360) - 180, clamp(from[1] + dy, -15, 80)] });
  }
  on(stage, "pointerdown", (event) => {
    if (event.button || !cam) return;
    const kind = event.target === grip ? "x" : "camera";
    event.target.setPointerCapture(event.pointerId);
    hold = { kind, id: event.pointerId, x: event.clientX, y: event.clientY, from: get(kind), k: cam.at(get("x"))[3] };
    if (kind === "x") stop();
  });
  on(stage, "pointermove", (event) => {
    if (hold?.id !== event.pointerId) return;
    if (hold.kind === "camera") return turn(hold.from, (hold.x - event.clientX) * 0.4, (event.clientY - hold.y) * 0.3);
    const box = stage.getBoundingClientRect();
    const px = clamp(event.clientX, box.left + 16, box.right - 16);
    const py = clamp(event.clientY, box.top + 16, box.bottom - 16);
    change({ x: bounded(add(hold.from, cam.move(px - hold.x, py - hold.y, hold.k))) });
  });
  on(stage, "pointerup", () => {
    hold = null;
    request();
  });
  on(stage, "pointercancel", () => {
    if (hold) change({ [hold.kind]: hold.from }); // the finger scrolls the page
    hold = null;
  });
  on(stage, "keydown", (event) => {
    const arrow = ARROWS[event.key];
    if (!arrow || !cam) return;
    event.preventDefault();
    if (event.target !== grip) return turn(get("camera"), -5 * arrow[0], 5 * arrow[1]);
    stop();
    change({ x: bounded(add(get("x"), cam.move(arrow[0] * unit * 0.1, arrow[1] * unit * 0.1, 1))) });
  });
  on(root, "keydown", (event) => {
    // unmodified keys stay here: JupyterLab would take "a" as a command
    if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
  });

  // Controls.
  function moveUnseen(kind) {
    const { to, words } = unseenMove(kind, get("x"));
    const [before, after] = [get("x"), to].map((x) => layerNorm(x, { eps: get("eps") }).hat);
    const moved = length(add(after, before, -1));
    stop();
    change({ step: Math.max(2, get("step")) });
    ride = { from: get("x"), to, age: 0 };
    note =
      moved > 0.0005
        ? `${words}. Because of ε, x̂ moves by ${fmt(moved, 3)}.`
        : `${words}. x̂ stands still, as for every row of the blue half-plane.`;
  }
  const acts = {
    shift: () => moveUnseen("shift"),
    stretch: () => moveUnseen("stretch"),
    reset() {
      stop();
      change(first);
    },
    play() {
      stop();
      [t, playing] = [0, 0.6];
      change({ step: 0 });
    },
  };
  for (const button of all("[data-act]")) on(button, "click", acts[button.dataset.act]);
  radios.forEach((radio, step) =>
    on(radio, "change", () => {
      playing = 0;
      change({ step });
    }),
  );
  for (const row of rows) {
    row
      .querySelectorAll("input")
      .forEach((input, i) => on(input, "input", () => put(row.dataset.key, i, +input.value)));
  }
  on(eps, "input", () => change({ eps: eps.value < -6 ? 0 : 10 ** eps.value, step: Math.max(2, get("step")) }));
  for (const box of all("[type=checkbox]")) {
    on(box, "change", () => {
      const others = get("show").filter((name) => name !== box.value);
      change({ show: box.checked ? [...others, box.value] : others });
    });
  }

  // Theme, size, sight, and the way out.
  function theme() {
    const probe = document.createElement("canvas").getContext("2d");
    const style = getComputedStyle(root);
    probe.fillStyle = style.color; // the ink is the color that the page gives; light ink means a dark page
    probe.fillRect(0, 0, 1, 1);
    const ink = [...probe.getImageData(0, 0, 1, 1).data].slice(0, 3);
    const dark = dot(ink, [0.3, 0.6, 0.1]) > 128;
    palette = { ink, accent: dark ? [77, 166, 226] : [0, 114, 178], font: style.fontFamily };
    root.style.setProperty("--accent", `rgb(${palette.accent})`);
    root.style.setProperty("--on-accent", dark ? "#10151a" : "#fff");
    request();
  }
  on(root, "transitionend", (event) => {
    if (event.target === root && event.propertyName === "color") theme(); // its color is the page's
  });
  const dress = new MutationObserver(theme); // JupyterLab and Sphinx tell their theme by an attribute of html or body
  for (const node of [document.documentElement, document.body]) dress.observe(node, { attributes: true });
  const size = new ResizeObserver(() => {
    root.classList.toggle("wide", root.clientWidth >= 640);
    width = stage.clientWidth;
    tall = Math.round(clamp(width * 0.88, 250, 510));
    canvas.style.height = `${tall}px`;
    request();
  });
  const seen = new IntersectionObserver((entries) => {
    visible = entries.at(-1).isIntersecting;
    cancelAnimationFrame(frame);
    frame = 0;
    request();
  });
  for (const node of [root, stage]) size.observe(node);
  seen.observe(root);
  const heard = [...KEYS.map((key) => [`change:${key}`, request]), ["change:step", () => (note = "")]];
  for (const [event, act] of heard) model.on(event, act);
  theme();
  return () => {
    gone.abort();
    cancelAnimationFrame(frame);
    clearTimeout(telling);
    for (const observer of [size, seen, dress]) observer.disconnect();
    for (const [event, act] of heard) model.off(event, act);
    root.remove();
  };
}

export default { render };
