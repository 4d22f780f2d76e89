// LayerNorm of three numbers, seen in space: onto the plane at right angles to (1, 1, 1), then onto a circle, then onto
// an ellipse.

// prettier-ignore
import {
  ACCENT, INK, buttons, clamp, epsilon, explorable, file, fmt, heads, layerNorm, lerp, letters, list, mean,
  normal, numberRow, radios, tag, uniform, upTo,
} from "./host.mjs";

const TITLE = "LayerNorm of three numbers, in space";

export const start = {
  x: [1.9, 0.5, 1.5],
  gain: [1.3, 0.5, 0.8],
  bias: [0.3, 0.7, 0.9],
  eps: 1e-5,
  step: 2,
  camera: [10, 24],
  show: ["cloud"],
};

// ---- The mathematics ----

export function project(x) {
  const mu = mean(x);
  return x.map((v) => v - mu);
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
const cross = (p, q) => upTo(3).map((i) => p[(i + 1) % 3] * q[(i + 2) % 3] - p[(i + 2) % 3] * q[(i + 1) % 3]);
const length = (p) => Math.hypot(...p);
const ease = (share) => (share < 0.5 ? 4 * share ** 3 : 1 - 4 * (1 - share) ** 3);

const ORIGIN = [0, 0, 0];
const AXES = upTo(3).map((i) => upTo(3).map((j) => +(i === j)));
const UP = scaled([1, 1, 1], 1 / Math.sqrt(3)); // of length 1, like the two directions of the plane
const A = scaled([1, -1, 0], 1 / Math.SQRT2);
const B = scaled([1, 1, -2], 1 / Math.sqrt(6));
const RADIUS = Math.sqrt(3); // of the circle
const LIMIT = 2.5; // the ends of x
const MOST_EPS = 1e-3; // up to it x̂ is the same on a half-plane, as far as an eye can tell
const FAR = 13; // from the eye to the origin

/**
 * A camera that looks at the origin, (1, 1, 1) upright. camera: [turn, height] in degrees; (cx, cy): the origin in
 * pixels; unit: pixels of a length of 1 there.
 * Returns {at: point -> [x, y, nearness, magnification], right, toEye}.
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
  return { at, right, toEye };
}

/** A closed curve of 96 pieces; point: (cosine, sine) times RADIUS -> a point in space. */
function ring(point) {
  const angles = upTo(97).map((i) => (i * 2 * Math.PI) / 96);
  return angles.map((angle) => point(RADIUS * Math.cos(angle), RADIUS * Math.sin(angle)));
}
const CIRCLE = ring((c, s) => add(scaled(A, c), B, s));
const MERIDIANS = [0, 1, 2].map((i) => {
  const across = add(scaled(A, Math.cos((i * Math.PI) / 3)), B, Math.sin((i * Math.PI) / 3));
  return ring((c, s) => add(scaled(across, c), UP, s));
});

/** 60 rows, the same each time, each with a delay between 0 and 1. */
const CLOUD = (() => {
  const [next, delay] = [normal(8), uniform(8)];
  const row = (lift) => ORIGIN.map(() => clamp(lift + 0.95 * next(), -LIMIT, LIMIT));
  return upTo(60).map(() => ({ x: row(0.8 * next()), delay: delay() }));
})();

/** First the gain, then the bias, as far as share (0 to 1) says. At share 1: gain p + bias. */
export function affine(p, { gain, bias }, share = 1) {
  const [stretched, shifted] = [ease(clamp(2 * share, 0, 1)), ease(clamp(2 * share - 1, 0, 1))];
  return p.map((v, i) => v * (1 + stretched * (gain[i] - 1)) + shifted * bias[i]);
}

/** Where row x is at time t, from 0 to 3: at one of the four stations, or between two. A delayed row leaves later. */
export function under(x, state, t, delay = 0) {
  const { centered, hat } = layerNorm(x, { eps: state.eps });
  const leg = Math.max(0, Math.ceil(t) - 1);
  const share = clamp((t - leg - 0.4 * delay) / (delay > 0 ? 0.6 : 1), 0, 1);
  if (leg === 0) return lerp(x, centered, ease(share));
  if (leg === 1) return lerp(centered, hat, ease(share));
  return affine(hat, state, share);
}

/** The direction away from the line of (1, 1, 1) at an angle: of length 1, in the plane. */
const outward = (angle) => add(scaled(A, Math.cos(angle)), B, Math.sin(angle));

/** A row as {mu: its mean, spread: how far it is from the line of (1, 1, 1), angle: on which side of it}. */
function polar(x) {
  const centered = project(x);
  return { mu: mean(x), spread: length(centered), angle: Math.atan2(dot(centered, B), dot(centered, A)) };
}

/** The row there; spread is negative beyond the line. At the ends of the ranges the angle does not give way. */
export function placed({ mu, spread, angle }) {
  const out = outward(angle);
  const most = (2 * LIMIT) / (Math.max(...out) - Math.min(...out));
  const centered = scaled(out, clamp(spread, -most, most));
  const at = clamp(mu, -LIMIT - Math.min(...centered), LIMIT - Math.max(...centered));
  return centered.map((v) => clamp(Math.round((v + at) * 1e6) / 1e6, -LIMIT, LIMIT));
}

/**
 * How far to go from p along the directions u and v to be seen at (x, y): [along u, along v]. Least squares keep small
 * what a picture hardly shows: along a direction that points at the eye a pixel would be a mile.
 */
function reach(cam, p, [u, v], [x, y], unit) {
  const rest = (0.1 * unit) ** 2;
  let way = [0, 0];
  for (let i = 0; i < 4; i++) {
    const here = add(add(p, u, way[0]), v, way[1]);
    const seen = cam.at(here);
    const [a, b] = [u, v].map((d) => [0, 1].map((k) => (cam.at(add(here, d, 0.01))[k] - seen[k]) / 0.01));
    const left = [x - seen[0], y - seen[1]].map((v, k) => v + a[k] * way[0] + b[k] * way[1]);
    const [aa, ab, bb] = [dot(a, a) + rest, dot(a, b), dot(b, b) + rest];
    const [al, bl] = [dot(a, left), dot(b, left)];
    way = [(al * bb - bl * ab) / (aa * bb - ab * ab), (bl * aa - al * ab) / (aa * bb - ab * ab)];
  }
  return way;
}

/** What x does by itself at first: [seconds, then what its mean, its spread and its angle go to from where it was]. */
const FILM = [
  [1.4, -1.8, 1, 0],
  [1.1, 0, 1, 0],
  [0.9, 0, 2, 0],
  [1.1, 0, 0.4, 0],
  [0.8, 0, 1, 0],
  [1.6, 0, 1, -2],
  [1.3, 0, 1, 0],
];
const PAUSE = 0.3; // seconds after each

/** The row of the film that begins at x, seconds later; null once it is over. */
export function filmed(x, seconds) {
  const { mu, spread, angle } = polar(x);
  let from = [0, 1, 0];
  for (const [lasts, ...to] of FILM) {
    if (seconds < lasts + PAUSE) {
      const [lower, factor, turned] = lerp(from, to, ease(Math.min(1, seconds / lasts)));
      return placed({ mu: mu + lower, spread: spread * factor, angle: angle + turned });
    }
    [from, seconds] = [to, seconds - lasts - PAUSE];
  }
  return null;
}

/** What has been done to a row, and what x̂ makes of it. Returns {shift, stretch, turn, still: booleans, words}. */
function deed(from, to, eps) {
  const [before, after] = [from, to].map((x) => layerNorm(x, { eps }));
  const moved = length(add(after.hat, before.hat, -1));
  const along = dot(before.centered, after.centered) / (length(before.centered) * length(after.centered));
  if (Number.isNaN(along)) return { words: "" }; // equal numbers are on no side
  const shift = Math.abs(after.mu - before.mu) > 0.1;
  const stretch = Math.abs(after.sigma - before.sigma) > 0.1;
  const [turn, flip, still] = [Math.abs(along) < 0.9999, along < -0.9999, moved < 0.01];
  if (turn) return { turn, words: "Turn: x goes around the line (1, 1, 1), and x̂ goes along." };
  if (flip) return { stretch, words: "x is beyond the line (1, 1, 1), and x̂ has changed sides." };
  const what = [shift && "Shift: the mean changes. ", stretch && "Stretch: the deviation changes. "].filter(Boolean);
  const image = still ? "x̂ stands still." : `Because of ε, x̂ moves by ${fmt(moved)}.`;
  return { shift, stretch, still, words: what.length ? what.join("") + image : "" };
}

// ---- Words ----

function sentence({ step, eps }, n) {
  if (step === 0) return "A row of three numbers is one point in space.";
  if (step === 1)
    return "Subtract the mean: x drops along (1,\u00a01,\u00a01) onto the plane of all rows that sum to 0.";
  if (step === 3)
    return "Gain stretches the three axes, bias shifts: the circle becomes an ellipse somewhere else.";
  if (n.sigma < 1e-9)
    return `All three numbers are equal: nothing is left to scale, and the row ends ${eps ? "in the middle" : "at 0/0"}.`;
  if (length(n.hat) < 1.7)
    return `Divide by √(σ² + ε): with this ε the row stays inside the circle, ${fmt(length(n.hat))} from the middle instead of 1.73.`;
  return "Divide by the deviation: the row slides onto the circle of radius √3, where plane and sphere meet.";
}

function report({ step, x }, n, words) {
  return `Step ${step} of 3. ${words} x: ${list(x)}. Mean ${fmt(n.mu)}, deviation ${fmt(n.sigma)}. x minus mean: ${list(n.centered)}. x hat: ${list(n.hat)}, length ${fmt(length(n.hat))}. y: ${list(n.y)}.`;
}

// ---- The scene, from far to near ----
// A color is [mix, alpha]: INKED, 0, or TINTED, 1, which belongs to LayerNorm's result and the current step alone, or on
// the way from one to the other. A gradient is {from: 4 numbers for a linear, 6 for a radial one, stops: [[where, color]]}.

const [INKED, TINTED] = [0, 1];
const fade = (near) => clamp(0.66 + 0.2 * near, 0.25, 1); // the farther, the lighter
const hue = ([mix]) =>
  mix % 1 ? `color-mix(in srgb, ${ACCENT} ${Math.round(100 * mix)}%, ${INK})` : mix ? ACCENT : INK;

/** What draws points in space, seen by a camera, as SVG. id: begins names that a page has once. */
function sketch(cam, width, tall, id) {
  const [defs, below, above, holes] = [[], [], [], []];
  function paint(name, look) {
    if (!look) return { [name]: "none" };
    if (Array.isArray(look)) return { [name]: hue(look), [`${name}-opacity`]: look[1] };
    const linear = look.from.length === 4;
    const own = `${id}-${defs.length}`;
    const names = linear ? ["x1", "y1", "x2", "y2"] : ["fx", "fy", "fr", "cx", "cy", "r"];
    const from = Object.fromEntries(names.map((key, i) => [key, look.from[i]]));
    const stops = look.stops.map(([offset, color]) =>
      tag("stop", { offset, "stop-color": hue(color), "stop-opacity": color[1] }),
    );
    const about = { id: own, gradientUnits: "userSpaceOnUse", ...from };
    defs.push(tag(linear ? "linearGradient" : "radialGradient", about, stops.join("")));
    return { [name]: `url(#${own})` };
  }
  function path(pieces, { fill, stroke, thick, dash = [] }) {
    const look = { ...paint("fill", fill), ...paint("stroke", stroke) };
    if (stroke) look["stroke-width"] = thick;
    if (dash.length) look["stroke-dasharray"] = dash.join(" ");
    const d = pieces.map((piece) => `M${piece.map(([x, y]) => `${+x.toFixed(2)} ${+y.toFixed(2)}`).join("L")}`);
    if (d.length) below.push(tag("path", { d: d.join(""), ...look }));
  }
  /** A rim is cleared around a dot or word, so that no line runs into it: a hole in a mask on all that is below. */
  function disc(x, y, r, { squash = 1, fill, stroke, thick, rim }) {
    const transform = `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(1 ${+squash.toFixed(2)})`;
    const look = { ...paint("fill", fill), ...paint("stroke", stroke), ...(stroke && { "stroke-width": thick }) };
    if (rim) holes.push(tag("circle", { transform, r: r + rim }));
    (rim ? above : below).push(tag("circle", { transform, r, ...look }));
  }
  return {
    disc,
    line: (points, stroke, thick, dash) => path([points.map(cam.at)], { stroke, thick, dash }),
    fill: (points, fill) => path([points.map(cam.at)], { fill }),
    spot(p, radius, fill, rim = 2) {
      const [x, y, , k] = cam.at(p);
      disc(x, y, radius * k, { fill, rim: rim * k });
    },
    /** A closed flat curve: its far half thin, and fading evenly from its nearest to its farthest point. */
    loop(points, [mix, alpha], thick) {
      const seen = points.map(cam.at);
      const near = seen.reduce((p, q) => (q[2] > p[2] ? q : p));
      const far = seen.reduce((p, q) => (q[2] < p[2] ? q : p));
      const pieces = seen.slice(1).map((p, i) => [seen[i], p]);
      const isFront = ([p, q]) => p[2] + q[2] > 0;
      const stops = [0, 1].map((where) => [where, [mix, (where ? 0.28 : 1) * alpha]]);
      const stroke = { from: [near[0], near[1], far[0], far[1]], stops };
      path(pieces.filter((piece) => !isFront(piece)), { stroke, thick: 0.6 * thick });
      path(pieces.filter(isFront), { stroke, thick });
    },
    word(words, [x, y], color, math) {
      const italic = { "font-family": "Georgia, 'Liberation Serif', serif", "font-style": "italic", "font-size": letters(19) };
      const look = { x, y, "dominant-baseline": "central", ...(math ? italic : { "font-size": letters(12.5) }) };
      holes.push(tag("text", { stroke: "#000", "stroke-width": 4, ...look }, words));
      above.push(tag("text", { ...paint("fill", color), ...paint("stroke"), ...look }, words));
    },
    svg() {
      const size = { width, height: tall };
      const whole = { id: `${id}-rims`, maskUnits: "userSpaceOnUse", x: 0, y: 0, ...size };
      const mask = tag("mask", whole, tag("rect", { ...size, fill: "#fff" }) + holes.join(""));
      const masked = tag("g", { mask: `url(#${id}-rims)` }, below.join("\n"));
      const look = { "text-anchor": "middle", "stroke-linejoin": "round", "stroke-linecap": "round" };
      return tag("g", look, [tag("defs", {}, defs.join("\n") + mask), masked, ...above].join("\n"));
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
 * The whole scene. look: {state, t: from step 0 to 3, done: a deed or null, glow: 0 to 1 while x or x̂ is held, held:
 * whether it is, unit: of the last scene, width, tall, id, memory: Map of the words' last places, jump: whether words may
 * jump}. Returns {svg, cam, unit, grips: where x and x̂ are, settled: whether every word has arrived}.
 */
function scene(look) {
  const { state, t, done, glow, width, tall, id } = look;
  const { x, eps } = state;
  const { cam, unit } = sight(look);
  const pen = sketch(cam, width, tall, id);
  const n = layerNorm(x, state);
  const now = under(x, state, t);
  const landed = clamp(t - 1, 0, 1); // how much of the row is LayerNorm's result
  const bent = clamp(t - 2, 0, 1); // how much of the circle is an ellipse
  const ellipse = CIRCLE.map((p) => affine(p, state, bent));
  const tips = AXES.map((axis) => scaled(axis, 2.5));
  const [cx, cy] = [width / 2, tall * 0.54];

  drawRoom(pen, { cx, cy, unit, height: state.camera[1] });
  if (glow && n.sigma > 0 && t >= 2) drawUnseen(pen, cam, state, n, glow);
  for (const tip of tips) {
    const near = cam.at(tip)[2];
    pen.line([ORIGIN, tip], [INKED, 0.66 * fade(near)], 1.1 + 0.3 * near);
  }
  if (state.show.includes("softmax")) {
    pen.fill(AXES, [INKED, 0.09]);
    pen.line([...AXES, AXES[0]], [INKED, 0.6], 1.25);
  }
  pen.fill(CIRCLE, [TINTED, 0.05]);
  pen.loop(CIRCLE, [TINTED, 0.45 + 0.55 * landed - 0.5 * bent], 2.6 - bent);
  if (bent) {
    pen.line(ellipse.map(project), [INKED, 0.12 * bent], 3); // its shadow on the plane
    pen.fill(ellipse, [TINTED, 0.1]);
    pen.loop(ellipse, [TINTED, 1], 2.8);
  }
  if (state.show.includes("cloud")) drawCloud(pen, cam, state, t);
  drawWay(pen, { state, n, now, t, glow, landed, bent });
  const grip = cam.at(x);
  const heads = drawHandles(pen, cam, state, n, t);
  pen.disc(grip[0], grip[1], 11, { stroke: [INKED, look.held ? 0.9 : 0.4], thick: 1.25 });
  pen.spot(x, 6, [INKED, 1]);
  if (state.show.includes("softmax")) pen.spot(softmax(x), 4, [INKED, 1]);

  const finite = now.every(Number.isFinite);
  const taken = [
    [grip, 13],
    ...heads.map((p) => [cam.at(p), 0.12 * unit]),
    [cam.at(finite ? now : x), 9],
    [cam.at(n.centered), 6],
    [cam.at(softmax(x)), state.show.includes("softmax") ? 5 : 0],
  ];
  const between = (p, q) => Array.from({ length: 30 }, (_, i) => cam.at(lerp(p, q, i / 29)));
  const rods = [[x, n.centered], [ORIGIN, scaled(UP, 2.5)], [n.centered, n.hat], ...tips.map((tip) => [ORIGIN, tip])];
  const lines = [...rods.flatMap(([p, q]) => between(p, q)), ...[...CIRCLE, ...(bent ? ellipse : [])].map(cam.at)];
  const labels = labelsOf({ state, n, now, t, cam, tips, finite, eps, done, glow });
  const settled = place(pen, labels, taken, lines, look);
  return { svg: pen.svg(), cam, unit, grips: [grip, t > 1.5 && finite ? cam.at(n.hat) : null], settled };
}

/** The plane with the shadows of the axes, the ball, and the direction (1, 1, 1). */
function drawRoom(pen, { cx, cy, unit, height }) {
  const floor = 3.3 * unit;
  const squash = Math.max(0.02, Math.abs(Math.sin((height * Math.PI) / 180)));
  const light = (from, ...alphas) => ({ from, stops: alphas.map(([where, alpha]) => [where, [INKED, alpha]]) });
  pen.disc(cx, cy, floor, { squash, fill: light([0, 0, 0, 0, 0, floor], [0, 0.08], [0.75, 0.06], [1, 0]) });
  for (const axis of AXES) pen.line([ORIGIN, scaled(project(axis), 3.4)], [INKED, 0.1], 1);
  const ball = (unit * FAR * RADIUS) / Math.sqrt(FAR * FAR - 3);
  const shine = light([-0.3 * ball, -0.4 * ball, 0.1 * ball, 0, 0, ball], [0, 0], [0.7, 0.02], [1, 0.1]);
  pen.disc(cx, cy, ball, { fill: shine, stroke: [INKED, 0.22], thick: 1 });
  for (const meridian of MERIDIANS) pen.loop(meridian, [INKED, 0.13], 1);
  pen.line([scaled(UP, -RADIUS), scaled(UP, RADIUS)], [INKED, 0.22], 1, [2, 5]);
  pen.line([scaled(UP, RADIUS), scaled(UP, 2.5)], [INKED, 0.55], 1, [2, 5]);
}

/** All rows that have x's image: a x + b (1, 1, 1) for every positive a and every b; with a large ε only a is 1. */
function drawUnseen(pen, cam, { x, eps }, n, glow) {
  if (eps > MOST_EPS) return pen.line([add(x, UP, -4), add(x, UP, 4)], [TINTED, 0.4 * glow], 3);
  const out = scaled(n.centered, 3.1 / length(n.centered));
  const stops = [0.3, 0.22, 0].map((alpha, i) => [[0, 0.7, 1][i], [TINTED, alpha * glow]]);
  const from = [ORIGIN, out].flatMap((p) => cam.at(p).slice(0, 2));
  pen.fill([scaled(UP, -2.3), scaled(UP, 2.5), add(out, UP, 2.5), add(out, UP, -2.3)], { from, stops });
}

/**
 * Arrow heads at x, along (1, 1, 1) and away from it, and at x̂, along the circle: the ways that a hand can move them.
 * Returns the places of those at x, which words keep off.
 */
function drawHandles(pen, cam, { x }, n, t) {
  const { spread, angle } = polar(x);
  const out = outward(angle);
  const head = (p, along, color) => {
    const side = cross(along, cam.toEye);
    const across = scaled(side, 0.1 / Math.max(0.01, length(side)));
    const base = add(p, along, 0.3);
    pen.fill([add(p, along, 0.48), add(base, across), add(base, across, -1)], color);
    return add(p, along, 0.38);
  };
  if (spread && t > 1.5) for (const way of [1.67, -1.67]) head(n.hat, outward(angle + way), [TINTED, 1]);
  const ways = [UP, out].flatMap((along) => [along, scaled(along, -1)]);
  return ways.slice(0, spread ? 4 : 2).map((along) => head(x, along, [INKED, 0.7]));
}

/** 60 rows on the same way, with their shadows on the plane as long as they are above or below it. */
function drawCloud(pen, cam, state, t) {
  const landed = clamp(t - 1, 0, 1);
  const rows = CLOUD.map(({ x, delay }) => under(x, state, t, delay)).map((p) => [p, cam.at(p)[2]]);
  rows.sort((p, q) => p[1] - q[1]);
  if (t < 1) for (const [p] of rows) pen.spot(project(p), 1.4, [INKED, 0.16 * (1 - t)], 0);
  for (const [p, near] of rows) pen.spot(p, 2.4 + 0.35 * near, [landed, (0.42 + 0.4 * landed) * fade(near)], 0);
}

function drawWay(pen, { state, n, now, t, glow, landed, bent }) {
  if (t === 0) return;
  pen.line([state.x, t < 1 ? now : n.centered], [INKED, 0.6], 1.5);
  pen.line([ORIGIN, n.centered], [INKED, 0.3], 1);
  if (!now.every(Number.isFinite)) return;
  if (t > 1) {
    pen.line([n.centered, t < 2 ? now : n.hat], [TINTED, 0.9], 2.2);
    pen.spot(n.centered, 3, [INKED, 0.75]);
  }
  if (t > 2) {
    pen.line([n.hat, affine(n.hat, state, Math.min(bent, 0.5)), now], [TINTED, 0.75], 1.5, [1, 4]);
    pen.spot(n.hat, 3.5, [TINTED, 0.9]);
  }
  if (glow) pen.spot(now, 12, [TINTED, 0.3 * glow], 0); // it stands still
  pen.spot(now, 6.5, [landed, 1]);
}

/** The words of the picture, the most important first: [{key, words, at, color, math}]. */
function labelsOf({ state, n, now, t, cam, tips, finite, eps, done, glow }) {
  const labels = [];
  const label = (key, p, color, words = key) =>
    labels.push({ key, words, at: cam.at(p), color, math: ["x", "x − μ", "x̂", "y"].includes(key) });
  label("x", state.x, [INKED, 1]);
  if (t > 2.5 && finite) label("y", now, [TINTED, 1]);
  if (t > 1.5 && finite) label("x̂", n.hat, [TINTED, 1]);
  const out = outward(polar(state.x).angle);
  if (done?.still && t >= 2) label("stands still", now, [TINTED, glow]);
  const unseen = eps > MOST_EPS ? add(state.x, UP, -1) : add(scaled(out, 1.6), UP, 2.1);
  if (glow && t >= 2) label("every x here: same x̂", unseen, [TINTED, glow]);
  if (state.show.includes("softmax")) label("softmax(x)", softmax(state.x), [INKED, 1]);
  const free = !done?.words; // all ways are open; then the one that is gone is named
  if (free || done.shift) label("shift", add(state.x, UP, 0.5), [INKED, 1]);
  if (free || done.stretch) label("stretch", add(state.x, out, 0.5), [INKED, 1]);
  if ((free || done.turn) && t > 1.5 && finite) label("turn", n.hat, [TINTED, 1]);
  if (t > 0.5) label("x − μ", n.centered, [INKED, 1]);
  tips.forEach((tip, i) => label(`feature ${i + 1}`, tip, [INKED, 0.75]));
  label("(1, 1, 1)", scaled(UP, 2.5), [INKED, 0.75]);
  const [top, foot] = [state.x, n.centered].map(cam.at);
  if (t >= 1 && t <= 2 && Math.hypot(top[0] - foot[0], top[1] - foot[1]) > 24)
    label("mu", lerp(state.x, n.centered, 0.5), [INKED, 0.75], `μ = ${fmt(n.mu)}`);
  if (t === 2 && length(add(n.hat, n.centered, -1)) > 0.4)
    label("sigma", lerp(n.centered, n.hat, 0.5), [TINTED, 1], `÷ ${fmt(Math.sqrt(n.sigma ** 2 + eps))}`);
  const nearest = project(add(cam.toEye, cam.right, -0.9));
  label("radius √3", scaled(nearest, RADIUS / length(nearest)), [TINTED, 1]);
  return labels;
}

/**
 * Each word goes where it costs least: near its point, on no other word or dot, off the lines, near its last place.
 * discs: [[point, radius], ...] that words keep off; lines: points on lines. Returns whether every word has arrived.
 */
function place(pen, labels, discs, lines, { width, tall, memory, jump }) {
  const taken = discs.map(([[x, y], r]) => [x - r, y - r, x + r, y + r]);
  let settled = true;
  for (const { key, words, at, color, math } of labels) {
    const [x, y] = at;
    const wide = words.length * (math ? 9 : (6.6 * letters(12.5)) / 12.5); // measured roughly, without a page
    const [w, h] = [wide / 2 + 2, math ? 10 : letters() - 4]; // half of the word's box
    const last = memory.get(key);
    const near = lines.filter(([a, b]) => Math.abs(a - x) < 2 * w + 40 && Math.abs(b - y) < 2 * h + 40);
    const cost = (to, area) => {
      let total = 50 * Math.max(0, 2 - area[0], 2 - area[1], area[2] - width + 2, area[3] - tall + 2);
      if (last) total += 0.25 * Math.hypot(to[0] - last.to[0], to[1] - last.to[1]);
      for (const other of taken) total += 3 * overlap(area, other);
      for (const [a, b] of near) if (a > area[0] && a < area[2] && b > area[1] && b < area[3]) total += 10;
      return total;
    };
    let best = { total: Infinity };
    for (const away of [math ? 12 : 6, 20, 34]) {
      for (let i = 0; i < 16; i++) {
        const to = [Math.cos((i * Math.PI) / 8) * (away + w), Math.sin((i * Math.PI) / 8) * (away + h)];
        const area = [x + to[0] - w, y + to[1] - h, x + to[0] + w, y + to[1] + h];
        const total = 0.6 * away + cost(to, area);
        if (total < best.total) best = { total, to, area };
      }
    }
    const now = jump || !last ? best.to : lerp(last.now, best.to, 0.3);
    const moving = Math.hypot(now[0] - best.to[0], now[1] - best.to[1]) > 0.3;
    memory.set(key, { to: best.to, now: moving ? now : best.to });
    settled &&= !moving;
    if (best.total > 160) continue; // no room: better no word than two on one another
    taken.push(best.area);
    pen.word(words, [x + now[0], y + now[1]], color, math);
  }
  return settled;
}

function overlap(a, b) {
  const w = Math.min(a[2], b[2]) - Math.max(a[0], b[0]);
  const h = Math.min(a[3], b[3]) - Math.max(a[1], b[1]);
  return w > 0 && h > 0 ? w * h : 0;
}

export function still(changes = {}) {
  const state = { ...start, ...changes };
  const [width, tall] = [596, 513];
  const look = { state, t: state.step, done: null, glow: 0, width, tall, id: "sphere", memory: new Map(), jump: true };
  const n = layerNorm(state.x, state);
  const described = `Three axes, a ball, and through its middle the plane at right angles to (1, 1, 1), on which it cuts a circle. ${report(state, n, sentence(state, n))}`;
  return file(TITLE, described, width, tall, scene(look).svg);
}

// ---- The page ----

const STYLE = `
--side: 304px;
.show { align-self: center; }
.stage { cursor: grab; }
svg { overflow: hidden; }
.grip { left: 0; top: 0; min-height: 0; padding: 0; border: 0; border-radius: 50%; background: none; color: var(--accent); cursor: move; }
.grip.x { z-index: 1; }
.hint { padding: 2px; pointer-events: none; }
.steps { display: flex; gap: 8px; }
.steps button { flex: 0; }
.steps fieldset { flex: 1; margin: 0; }
.steps .track label { font: var(--math); }
.say { min-height: 4.35em; margin: 10px 0 4px; }
tr > :first-child, .eps > :first-child { width: 3.6em; }
.ahead > * { color: var(--soft); }
.eps { margin: 4px 0 0; padding-top: 4px; border-top: 1px solid var(--line); }
.acts { margin-top: 10px; }
.acts button { flex: none; }`;

/** The table reads as the formula: x, x − μ, x̂, γ, β, y. A row with ends has sliders. */
const ROWS = [
  { key: "x", sign: "x", ends: [-LIMIT, LIMIT] },
  { key: "centered", sign: "x − μ" },
  { key: "hat", sign: "x̂", look: "result" },
  { key: "gain", sign: "γ", words: "gain", ends: [-1, 2], look: "rule" },
  { key: "bias", sign: "β", words: "bias", ends: [-2, 2] },
  { key: "y", sign: "y", look: "rule result" },
];
const STEPS = [
  ["x", "the row"],
  ["− μ", "step 1, subtract the mean"],
  ["÷ σ", "step 2, divide"],
  ["γ, β", "step 3, gain and bias"],
];
const REACHED = { x: 0, centered: 1, hat: 2, y: 3, gain: 3, bias: 3 }; // the step from which a row of the table counts

function page(id) {
  const steps = STEPS.map(([sign, words], i) => [i, sign, `aria-label="${sign}: ${words}"`]);
  const rows = ROWS.map((row) => numberRow(3, row, 0.05));
  return `<div class="whole">
    <div class="show"><div class="stage" tabindex="0" role="application" aria-label="Picture. Arrow keys turn the camera." aria-describedby="${id}-state">
      <svg aria-hidden="true"></svg>
      <button class="grip x" type="button" aria-label="Point x. Arrow keys up and down shift it, left and right stretch it."></button>
      <button class="grip hat" type="button" aria-label="Its image x hat. Arrow keys turn it, and x with it."></button>
      <p class="hint">Drag x, x̂, or the background. Double click: back to the start.</p>
    </div></div>
    <div class="set">
      <div class="steps"><button type="button" data-act="play" aria-label="Play the three steps"><span aria-hidden="true">▶\uFE0E</span></button>
        ${radios(id, "step", '<span class="unseen">Steps of LayerNorm</span>', steps)}</div>
      <p class="say"></p>
      <table class="math" aria-label="Numbers. Up and down arrows go from slider to slider.">
        <thead><tr><td></td>${heads(3, true)}</tr></thead>
        <tbody>${rows.join("")}</tbody>
      </table>
      ${epsilon()}
      ${buttons({ reset: "reset" })}
    </div></div>`;
}

function connect({ id, root, stage, first, state, find, all, on, change, fill, tell, drag }) {
  const [picture, gripX, gripHat] = ["svg", ".grip.x", ".grip.hat"].map(find);
  const rows = all("tbody tr");
  let t = first.step; // where the picture is, from step 0 to 3
  let playing = 0; // seconds until the next step is played; 0: not playing
  // Seconds of the film, which waits until it is seen; null: over. Beside softmax it would answer what a lesson asks.
  let film = first.show.includes("softmax") ? null : -1;
  let from = null; // the row with which a hand, or the film, began
  let done = null; // what it has done since, or did last
  let glow = 0; // how bright its half-plane is
  let [unit, cam, angle] = [0, null, polar(first.x).angle];
  const memory = new Map(); // the last places of the words

  /** Whether the middle of the picture is on the screen. */
  function isSeen() {
    const { top, bottom } = stage.getBoundingClientRect();
    return top + bottom > 0 && top + bottom < 2 * innerHeight;
  }

  /** Time goes on by dt seconds. Returns whether something is under way. */
  function advance(dt, jump) {
    const { step } = state();
    const left = step - t;
    if (left) {
      const stride = Math.min(Math.abs(left), 0.9 * dt * Math.max(1, Math.abs(left)));
      t = jump || Math.abs(left) < 1e-3 ? step : t + Math.sign(left) * stride;
    } else if (playing && (playing -= dt) <= 0) {
      playing = step < 2 ? 0.9 : 0;
      change({ step: step + 1 });
    }
    if (film !== null && !jump && (film > -1 || isSeen()) && (film += dt) > 0) {
      const x = filmed(first.x, film);
      [film, from] = x ? [film, first.x] : [null, null];
      change({ x: x ?? first.x });
    }
    const aim = from ? 1 : 0;
    glow = jump ? aim : clamp(glow + (aim ? 3 : -3) * dt, 0, 1);
    return t !== state().step || playing > 0 || (film ?? -1) > -1 || glow !== aim;
  }

  function draw({ width, dt, calm }) {
    const moving = advance(dt, calm);
    const now = state();
    const tall = Math.round(clamp(width * 0.88, 250, 510));
    const latest = from && deed(from, now.x, now.eps);
    if (!done || !from || latest.words) done = latest;
    const busy = held()?.place || film > 0;
    const result = scene({ state: now, t, done, glow, held: busy, unit, width, tall, id, memory, jump: calm });
    ({ cam, unit } = result);
    picture.setAttribute("height", tall);
    picture.innerHTML = result.svg;
    [gripX, gripHat].forEach((grip, i) => {
      const place = result.grips[i];
      grip.hidden = !place;
      if (place) grip.style.transform = `translate(${place[0]}px, ${place[1]}px)`;
    });

    const n = layerNorm(now.x, now);
    if (n.sigma > 1e-3 && held()?.grip !== gripX) angle = polar(now.x).angle;
    fill({ ...now, ...n });
    for (const { classList, dataset } of rows) {
      classList.toggle("now", Object.keys(REACHED)[now.step] === dataset.key);
      classList.toggle("ahead", REACHED[dataset.key] > now.step);
    }
    const words = done?.words || sentence(now, n);
    tell(words, report(now, n, words));
    return moving || !result.settled;
  }

  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  function turn(from, dx, dy) {
    change({ camera: [((from[0] + dx + 540) % 360) - 180, clamp(from[1] + dy, -15, 80)] });
  }
  /** The film ends at the first touch, with x where it is. */
  function touch() {
    if (film !== null) change({});
    film = null;
  }
  /** What was under way ends when a hand does something else. */
  function halt() {
    touch();
    [playing, from] = [0, null];
  }
  for (const event of ["pointerdown", "keydown"]) on(root, event, touch);
  /** A hand takes x or x̂. Returns where x is; of equal numbers the angle is what it was. */
  function take() {
    halt();
    [from, done] = [state().x, null];
    return { ...polar(from), ...(layerNorm(from).sigma > 1e-3 ? {} : { angle }) };
  }
  const held = drag(
    stage,
    ({ target, clientX, clientY }) => {
      if (!cam) return null;
      const grip = [gripX, gripHat].find((one) => one === target);
      if (!grip) return { key: "camera", was: state().camera, x: clientX, y: clientY };
      const place = take();
      const [x, y] = cam.at(grip === gripX ? from : layerNorm(from, state()).hat);
      return { key: "x", was: from, grip, place, x: clientX - x, y: clientY - y };
    },
    ({ clientX, clientY }, { key, was, grip, place, x, y }) => {
      if (key === "camera") return turn(was, (x - clientX) * 0.4, (clientY - y) * 0.3);
      const { left, right, top, bottom } = stage.getBoundingClientRect();
      const to = [clamp(clientX, left + 16, right - 16) - x, clamp(clientY, top + 16, bottom - 16) - y];
      if (grip === gripX) {
        const ways = reach(cam, was, [UP, outward(place.angle)], to, unit);
        const [up, out] = ways.map((way) => way - clamp(way, -0.1, 0.1)); // or a shift would stretch a little
        return change({ x: placed({ ...place, mu: place.mu + up / Math.sqrt(3), spread: place.spread + out }) });
      }
      change({ x: placed({ ...place, angle: nearest(to, angle) }) });
    },
    ({ key, was }) => change({ [key]: was }),
  );
  /** The angle near another at which the circle is seen nearest to a place. */
  function nearest([x, y], angle) {
    const size = length(layerNorm(from, state()).hat);
    const angles = upTo(121).map((i) => angle + (i - 60) / 100);
    const away = (one) => {
      const [a, b] = cam.at(scaled(outward(one), size));
      return Math.hypot(a - x, b - y);
    };
    return angles.reduce((best, one) => (away(one) < away(best) ? one : best));
  }
  on(stage, "keydown", (event) => {
    const arrow = ARROWS[event.key];
    if (!arrow || !cam) return;
    event.preventDefault();
    const [right, down] = arrow;
    if (event.target === stage) return turn(state().camera, -5 * right, 5 * down);
    const place = take();
    if (event.target === gripHat) place.angle += 0.1 * (right - down);
    else {
      place.mu -= 0.1 * down;
      place.spread += 0.2 * right * (dot(outward(place.angle), cam.right) < 0 ? -1 : 1);
    }
    change({ x: placed(place) });
  });

  const acts = {
    play() {
      [t, playing] = [0, 0.6];
      change({ step: 0 });
    },
  };
  function also(key) {
    const step = { gain: 3, bias: 3, eps: Math.max(2, state().step) }[key];
    return step === undefined ? {} : { step };
  }
  return { draw, acts, stop: halt, also };
}

export default explorable({ name: "sphere", title: TITLE, start, style: STYLE, page, connect });
