// Blocks with a skip, x + f(x), and a norm that a hand puts in one of four places: does the net learn? Nothing here is
// recorded: the nets are drawn and trained in the browser.

// prettier-ignore
import {
  ACCENT, INK, buttons, circle, clamp, explorable, file, label, layerNorm, layerNormBack, lerp, letters, line, moved,
  normal, points, power, rect, slider, tag, text, times, upTo,
} from "./host.mjs";

export const start = {
  place: "post",
  blocks: 24,
  scale: 1,
  rate: 0.03,
  warmUp: 0,
  seed: 2,
};

const TITLE = "A norm in one of four places of a block, and whether the net learns";
const [ROWS, WIDTH, CLASSES] = [8, 16, 8]; // a batch of 8 rows of 16 features; each row is a class of its own
const [STEPS, DEEPEST] = [20, 24];
const BETAS = [0.9, 0.98]; // as in lesson 11
const NAMES = { none: "No norm", post: "Post-LN", peri: "Peri-LN", pre: "Pre-LN" };

// ---- The mathematics. A matrix is an array, row by row. ----

/**
 * Draw a net: {x: (ROWS, WIDTH), head: (WIDTH, CLASSES), weights: blocks times [(WIDTH, WIDTH), (WIDTH, WIDTH)]}.
 * In this order, so that a deeper net starts with the same blocks.
 */
export function drawNet({ seed, blocks, scale }) {
  const next = normal(seed);
  const matrix = (n, size) => Array.from({ length: n }, () => size * next());
  const x = matrix(ROWS * WIDTH, 1);
  const head = matrix(WIDTH * CLASSES, 1 / Math.sqrt(WIDTH));
  const square = () => matrix(WIDTH * WIDTH, scale / Math.sqrt(WIDTH));
  return { x, head, weights: upTo(blocks).map(() => [square(), square()]) };
}

function turned(a, m) {
  const n = a.length / m;
  const out = Array(a.length).fill(0);
  for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) out[j * n + i] = a[i * m + j];
  return out;
}

/** LayerNorm of each row of WIDTH numbers, gain 1 and bias 0. Returns {out, back}; back carries a gradient to x. */
function layerNorms(x) {
  const each = (values, act) => {
    const out = [];
    for (let i = 0; i < ROWS; i++) out.push(...act(values.slice(i * WIDTH, (i + 1) * WIDTH), i));
    return out;
  };
  const rows = [];
  const out = each(x, (row, i) => (rows[i] = layerNorm(row)).hat);
  return { out, back: (dy) => each(dy, (gradient, i) => layerNormBack(gradient, rows[i])) };
}

const identity = (x) => ({ out: x, back: (dy) => dy });

/** Mean cross-entropy of logits (ROWS, CLASSES), row i of class i. Returns {loss, back: its gradient}. */
function crossEntropy(logits) {
  let loss = 0;
  const back = Array(logits.length).fill(0);
  for (let i = 0; i < ROWS; i++) {
    const row = logits.slice(i * CLASSES, (i + 1) * CLASSES);
    const largest = Math.max(...row); // subtracted first, so that exp cannot overflow
    const total = row.reduce((a, b) => a + Math.exp(b - largest), 0);
    loss += (largest + Math.log(total) - row[i]) / ROWS;
    row.forEach((v, j) => (back[i * CLASSES + j] = (Math.exp(v - largest) / total - (i === j)) / ROWS));
  }
  return { loss, back };
}

/**
 * One pass forward and back. A block is x + relu(x W1) W2, its norm on the branch ("pre", and one more at the end), on
 * both ends of the branch ("peri", likewise), after the sum ("post"), or nowhere ("none").
 * Returns {loss, gradients: [dW1, dW2] of each block}.
 */
function pass({ x, head, weights }, place) {
  const at = (...places) => (places.includes(place) ? layerNorms : identity);
  const [before, behind, after] = [at("pre", "peri"), at("peri"), at("post")];
  const tape = [];
  for (const [W1, W2] of weights) {
    const branch = before(x);
    const hidden = times(branch.out, W1, WIDTH, WIDTH).map((v) => Math.max(0, v)); // (ROWS, WIDTH)
    const added = behind(times(hidden, W2, WIDTH, WIDTH)); // (ROWS, WIDTH)
    const end = after(x.map((v, i) => v + added.out[i]));
    tape.push({ branch, hidden, added, end });
    x = end.out;
  }
  const final = before(x);
  const { loss, back } = crossEntropy(times(final.out, head, WIDTH, CLASSES));

  let dx = final.back(times(back, turned(head, CLASSES), CLASSES, WIDTH)); // (ROWS, WIDTH)
  const gradients = [];
  for (let i = weights.length - 1; i >= 0; i--) {
    const [{ branch, hidden, added, end }, [W1, W2]] = [tape[i], weights[i]];
    const dSum = end.back(dx);
    const dAdded = added.back(dSum);
    const dHidden = times(dAdded, turned(W2, WIDTH), WIDTH, WIDTH).map((v, j) => (hidden[j] > 0 ? v : 0));
    gradients.unshift([
      times(turned(branch.out, WIDTH), dHidden, ROWS, WIDTH),
      times(turned(hidden, WIDTH), dAdded, ROWS, WIDTH),
    ]);
    const dBranch = branch.back(times(dHidden, turned(W1, WIDTH), WIDTH, WIDTH));
    dx = dSum.map((v, j) => v + dBranch[j]);
  }
  return { loss, gradients };
}

/** Step t of Adam on a matrix W, in place; mean and square hold the running means. */
function adam(W, gradient, { mean, square }, rate, t) {
  const [c1, c2] = BETAS.map((beta) => 1 - beta ** t);
  for (let i = 0; i < W.length; i++) {
    const g = gradient[i];
    mean[i] = BETAS[0] * mean[i] + (1 - BETAS[0]) * g;
    square[i] = BETAS[1] * square[i] + (1 - BETAS[1]) * g * g;
    W[i] -= (rate * (mean[i] / c1)) / (Math.sqrt(square[i] / c2) + 1e-8);
  }
}

/** The loss before the first step of Adam, then after each. In step t the rate is rate · min(1, t / warmUp). */
function* training(settings, place) {
  const net = drawNet(settings);
  const zeros = (W) => Array(W.length).fill(0);
  const memory = net.weights.map((pair) => pair.map((W) => ({ mean: zeros(W), square: zeros(W) })));
  for (let t = 1; t <= STEPS + 1; t++) {
    const { loss, gradients } = pass(net, place);
    yield loss;
    const rate = settings.rate * (settings.warmUp ? Math.min(1, t / settings.warmUp) : 1);
    net.weights.forEach((pair, b) => pair.forEach((W, k) => adam(W, gradients[b][k], memory[b][k], rate, t)));
  }
}

/** A whole training: STEPS + 1 losses. */
export const run = (settings, place) => [...training(settings, place)];

// ---- Words ----

function short(v) {
  if (!Number.isFinite(v)) return "too large";
  return v && (v < 0.001 || v > 9999) ? power(v) : String(+v.toPrecision(v < 1 ? 2 : 3));
}

function sentence({ place, blocks }, { [place]: losses }) {
  const name = `${NAMES[place]}, ${blocks} blocks`;
  if (losses.length <= STEPS) return `${name}.`;
  const [from, to] = [short(losses[0]), short(losses[STEPS])];
  const learned = losses[STEPS] < 0.9 * GUESSING ? "." : ", no better than guessing.";
  return `${name}: ${STEPS} steps of Adam take the loss from ${from} to ${to}${learned}`;
}

// ---- The picture: the stack, one of its blocks, and the loss ----

const GUESSING = Math.log(CLASSES); // the loss of one who takes all classes to be equally likely
const CEILING = 4; // of the chart; what is above it is not drawn
const [TOP, BOTTOM] = [30, 268]; // of the chart and of the stack
const height = () => BOTTOM + 3 * letters();
const LN = [34, 24]; // a norm's box

/** Where things are: the residual line and the branch of the large block, the slots [x, y] by place, the chart. */
function layout(width) {
  const stack = width >= 520 ? 96 : 0; // pixels of the whole stack, which a phone has no room for
  const [skip, branch] = [stack + 20, stack + 80];
  const slots = { none: [branch, 26], post: [skip, 64], peri: [branch, 162], pre: [branch, 216] };
  const after = [branch, 122]; // the second norm of Peri-LN
  const left = branch + letters() * 8.4;
  return { stack, skip, branch, slots, after, left, right: width - letters() * 4.7, sum: 102 };
}

/** Where the norm's two boxes rest, on one another but for Peri-LN. */
const rest = ({ slots, after }, place) => (place === "peri" ? [slots.pre, after] : [slots[place], slots[place]]);

const path = (d, more) => tag("path", { d, fill: "none", stroke: INK, ...more });
const boxed = ([x, y], w, h, more) => rect(x - w / 2, y - h / 2, w, h, { rx: 5, fill: "none", stroke: INK, ...more });
const middle = ([x, y], words, more) => text(x, y + letters() / 3, words, { "text-anchor": "middle", ...more });

/** All blocks, small: the residual line, their branches, and blue dots where their norms are. */
function whole({ place, blocks }) {
  const pitch = Math.min(40, (BOTTOM - TOP) / blocks);
  const [before, behind, after] = [[24, 0.25], [24, 0.7], [12, 0.96]];
  const dots = { none: [], post: [after], peri: [before, behind], pre: [before] }[place];
  const each = upTo(blocks).map((i) => {
    const y = (share) => +(BOTTOM - (i + share) * pitch).toFixed(1);
    const norms = dots.map(([x, share]) => circle(x, y(share), Math.min(3, pitch / 4), { fill: ACCENT }));
    return path(`M12 ${y(0.1)}H24V${y(0.8)}H12`, { opacity: 0.55 }) + norms.join("");
  });
  const top = BOTTOM - blocks * pitch;
  return [
    path(`M12 ${BOTTOM + 6}V${top - 8}`, { "stroke-width": 1.5 }),
    ...each,
    line(32, top, 84, TOP, { opacity: 0.25 }), // the uppermost is the large one
    line(32, top + pitch, 84, BOTTOM, { opacity: 0.25 }),
  ].join("");
}

/** One block, large, with its four slots; norms: where the norm's two boxes are. */
function block({ place, blocks }, { stack, skip, branch, slots, sum }, [first, second]) {
  const norms = points([first]) === points([second]) ? [first] : [first, second];
  const slot = (key) => {
    const [x, y] = slots[key];
    const chosen = key === place ? { fill: ACCENT, "font-weight": 650 } : { opacity: 0.72 };
    const [w, h] = key === "peri" ? [46, 40] : [LN[0] + 4, LN[1] + 4];
    const name = text(x + 27, y + letters() / 3, NAMES[key], chosen);
    return boxed([x, y], w, h, { "stroke-dasharray": "3 3", opacity: 0.5 }) + name;
  };
  const norm = (at) =>
    boxed(at, ...LN, { fill: ACCENT, "fill-opacity": 0.16, stroke: ACCENT, "stroke-width": 2 }) +
    middle(at, "LN", { fill: ACCENT, "font-weight": 650 });
  /** A line upward at x that leaves out the boxes on it: [y, half of its height]. */
  const up = (x, from, to, boxes, more) => {
    const here = norms.filter((at) => Math.abs(at[0] - x) < LN[0] / 2).map((at) => [at[1], LN[1] / 2]);
    const gaps = [...boxes, ...here].sort(([y], [other]) => other - y);
    const pieces = gaps.map(([y, half]) => `V${Math.min(from, y + half)}M${x} ${y - half}`);
    return path(`M${x} ${from}${pieces.join("")}V${to}`, more);
  };
  const ends = path(`M${skip - 4} ${TOP - 22}l4 -6l4 6`) + path(`M${skip + 18} ${sum - 4}l-7 4l7 4`);
  return [
    stack ? whole({ place, blocks }) : "",
    up(skip, BOTTOM, TOP - 28, [[sum, 9]], { "stroke-width": 2 }),
    path(`M${skip} ${BOTTOM - 18}H${branch}M${branch} ${sum}H${skip + 9}`),
    up(branch, BOTTOM - 18, sum, [[slots.peri[1], 14]]),
    ends,
    circle(skip, sum, 9, { fill: "none", stroke: INK }),
    path(`M${skip - 9} ${sum}h18M${skip} ${sum - 9}v18`),
    boxed(slots.peri, 34, 28, { fill: INK, "fill-opacity": 0.12 }),
    middle(slots.peri, "f", { "font-style": "italic", "font-size": 15 }),
    ...Object.keys(slots).map(slot),
    ...norms.map(norm),
    text(stack ? 0 : skip - 16, BOTTOM + 12 + letters(), `${stack ? "" : "one of "}${blocks} blocks`, { "font-weight": 650 }),
  ].join("");
}

/** The loss over the steps of Adam, all axes fixed. losses: of each place, as far as they are to be drawn. */
function chart({ place }, { left, right }, losses) {
  const x = (step) => left + (step / STEPS) * (right - left);
  const y = (loss) => BOTTOM - (loss / CEILING) * (BOTTOM - TOP);
  const order = [...Object.keys(NAMES).filter((other) => other !== place), place]; // the chosen one on top
  const curve = (key) => {
    const ways = losses[key].slice(1).map((loss, i) => {
      const [from, rise] = [losses[key][i], loss - losses[key][i]];
      const crossing = clamp((CEILING - from) / rise || 0, 0, 1); // of the ceiling
      const ends = [from > CEILING ? crossing : 0, loss > CEILING ? crossing : 1];
      if (from > CEILING && !(loss <= CEILING)) return "";
      return `M${points(ends.map((share) => [x(i + share), y(from + share * rise)]))}`;
    });
    const look = key === place ? { stroke: ACCENT, "stroke-width": 3 } : { opacity: 0.55, "stroke-width": 1.5 };
    const last = losses[key].at(-1);
    const shown = key === place && last <= CEILING;
    const dot = shown && circle(x(losses[key].length - 1), y(last), 4.5, { fill: ACCENT });
    return path(ways.join(""), { "stroke-linecap": "round", ...look }) + (dot || "");
  };
  const known = order.filter((key) => losses[key].length);
  const names = known.map((key) => {
    const last = losses[key].at(-1);
    return last <= CEILING ? { key, words: NAMES[key], y: y(last) } : { key, words: `${NAMES[key]} ↑`, y: TOP };
  });
  const apart = letters() + 2; // names stand beside the ends of their curves, a line apart at least
  names.sort((a, b) => b.y - a.y);
  names.forEach((name, i) => (name.y = Math.min(name.y, i ? names[i - 1].y - apart : BOTTOM)));
  const grid = upTo(CEILING + 1).map((loss) => {
    const number = label(left - 7, y(loss) + letters() / 3, loss, "end");
    return line(left, y(loss), right, y(loss), { opacity: loss ? 0.13 : 0.6 }) + number;
  });
  return [
    ...grid,
    ...[0, STEPS / 2, STEPS].map((step) => label(x(step), BOTTOM + letters() + 4, step)),
    label((left + right) / 2, BOTTOM + 2 * letters() + 8, "step of Adam"),
    label(left - 14, TOP - 12, "loss", "start"),
    line(left, y(GUESSING), right, y(GUESSING), { "stroke-dasharray": "6 4" }),
    label(x(12), y(GUESSING) + letters() + 4, "guessing"),
    ...order.map(curve),
    ...names.map(({ key, words, y }) =>
      text(right + 8, y + letters() / 3, words, key === place && { fill: ACCENT, "font-weight": 650 }),
    ),
  ].join("");
}

const drawing = (state, losses, at, norms) => `${block(state, at, norms)}\n${chart(state, at, losses)}`;

export function still(changes = {}) {
  const state = { ...start, ...changes };
  const losses = Object.fromEntries(Object.keys(NAMES).map((place) => [place, run(state, place)]));
  const at = layout(700);
  const described = [
    `A residual block with four places for a norm, here ${NAMES[state.place]}, and a line chart of the loss.`,
    ...Object.keys(NAMES).map((place) => sentence({ ...state, place }, losses)),
  ];
  return file(TITLE, described.join(" "), 724, height() + 20, moved(12, 10, drawing(state, losses, at, rest(at, state.place))));
}

// ---- The page ----

const STYLE = `
.slot { position: absolute; width: 44px; height: 44px; translate: -50% -50%; touch-action: none; border-radius: 8px; }
.slot input { position: absolute; inset: 0; width: 100%; height: 100%; margin: 0; opacity: 0; cursor: grab; }
.slot:has(:focus-visible) { outline: 2px solid var(--accent); }
.controls { display: grid; grid-template-columns: 1fr 1fr; gap: 8px 20px; align-items: end; margin-top: 10px; }
.acts { grid-column: span 2; }
.slider { margin: 0; }
.say { min-height: 2.9em; margin-top: 8px; }
@container (min-width: 560px) {
  .controls { grid-template-columns: repeat(4, 1fr); }
  .acts { grid-column: span 4; justify-self: end; }
}`;

const slot = (id) => (place) => `<label class="slot">
  <input type="radio" name="${id}-place" data-key="place" value="${place}" aria-label="${NAMES[place]}"></label>`;
const page = (id) => `<p class="hint">Drag LN to another place, or click one: does the net learn?</p>
  <div class="stage"><svg height="${height()}" aria-hidden="true"></svg>
    <div role="radiogroup" aria-label="Place of the norm">${Object.keys(NAMES).map(slot(id)).join("")}</div></div>
  <p class="say"></p>
  <div class="controls">
    ${slider("blocks", "blocks", 2, DEEPEST, 1)}
    ${slider("scale", "weight scale", 0.2, 2, 0.05)}
    ${slider("rate", "rate of Adam", -3, -1, 0.1)}
    ${slider("warmUp", "steps of warm-up", 0, STEPS, 1)}
    ${buttons({ draw: "other weights", reset: "reset" })}
  </div>`;

function connect({ stage, state, find, all, change, tell, drag }) {
  const svg = find("svg");
  const slots = all(".slot");
  let losses = {}; // of each place, filled as they are computed
  let runs = []; // the trainings that are not over: [place, its generator]
  let computed = ""; // the settings that `losses` belongs to
  let [last, grown] = ["", 0]; // the place drawn last, and how many steps of its curve
  let [hand, norms] = [null, null]; // where the hand holds the norm, and where its boxes are

  /** The chosen place first, in slices, so that no frame waits. */
  function compute() {
    const { place, ...settings } = state();
    if (computed !== JSON.stringify(settings)) {
      if (computed) grown = STEPS; // a slider's answer does not wait
      computed = JSON.stringify(settings);
      losses = Object.fromEntries(Object.keys(NAMES).map((key) => [key, []]));
      runs = Object.keys(NAMES).map((key) => [key, training(settings, key)]);
    }
    runs.sort(([key], [other]) => (other === place) - (key === place));
    const end = performance.now() + 5;
    while (runs.length && performance.now() < end) {
      const [key, steps] = runs[0];
      const { value, done } = steps.next();
      if (done) runs.shift();
      else losses[key].push(value);
    }
  }
  function draw({ width, dt, calm }) {
    const now = state();
    if (now.place !== last) [last, grown] = [now.place, 0];
    compute();
    grown = calm ? STEPS : Math.min(STEPS, grown + 14 * dt);
    const at = layout(width);
    svg.setAttribute("height", height()); // a slide says only now how large its letters are
    slots.forEach((slot, i) => {
      const [x, y] = Object.values(at.slots)[i];
      Object.assign(slot.style, { left: `${x}px`, top: `${y}px` });
    });
    if (!held()) hand = null;
    const targets = hand ? [hand, hand] : rest(at, now.place);
    const off = norms ? Math.max(...targets.flatMap((to, i) => to.map((v, j) => Math.abs(v - norms[i][j])))) : 0;
    const jump = calm || hand || off < 0.5 || !norms;
    norms = jump ? targets : norms.map((from, i) => lerp(from, targets[i], Math.min(1, 14 * dt)));
    svg.innerHTML = drawing(now, { ...losses, [now.place]: losses[now.place].slice(0, grown + 1) }, at, norms);
    tell(sentence(now, losses));
    return runs.length > 0 || grown < STEPS || !jump;
  }
  function put(event) {
    const { left, top } = stage.getBoundingClientRect();
    hand = [event.clientX - left, event.clientY - top];
    const far = ([, [x, y]]) => Math.hypot(x - hand[0], y - hand[1]);
    const [[place]] = Object.entries(layout(stage.clientWidth).slots).sort((a, b) => far(a) - far(b));
    change({ place });
    find(`[value=${place}]`).focus({ preventScroll: true }); // so that arrow keys go on from here
    return true;
  }
  const held = drag(stage, (event) => event.target.closest(".slot") && put(event), put);
  return { draw, acts: { draw: () => change({ seed: state().seed + 1 }) } };
}

const ranges = {
  blocks: { words: String },
  warmUp: { words: String },
  scale: { words: short },
  rate: { from: (v) => +(10 ** v).toPrecision(2), to: Math.log10, words: short },
};
export default explorable({ name: "stream", title: TITLE, start, style: STYLE, ranges, page, connect });
