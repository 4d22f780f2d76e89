// Who shares my mean? Click a number of a tensor, and all that share its statistics turn blue and fly into their mean.

// prettier-ignore
import {
  ACCENT, INK, choice, circle, clamp, explorable, file, fmt, label, layerNorm, lerp, letters, mean, moved, points, radios,
  smooth, tag, text, uniform, upTo,
} from "./host.mjs";

export const start = { tensor: "BTC", over: ["C"], groups: 1, squares: false, cell: [0, 1, 2] };

const TITLE = "Who shares my mean?";

// ---- The mathematics ----

/** The tensors that can be looked at, {axis: size} in order. All sizes of a tensor differ, so that no axis hides. */
export const SHAPES = { BTC: { B: 2, T: 3, C: 4 }, BCHW: { B: 2, C: 4, H: 3, W: 5 } };

/**
 * The means over some axes. groups: into how many parts C is cut first, if it is one of them.
 * Returns {kept: sizes of the tensor of means, means: how many they are, entries: how many numbers make one}.
 */
export function reduced(shape, over, groups) {
  const kept = Object.entries(shape).map(([axis, size]) => (!over.includes(axis) ? size : axis === "C" ? groups : 1));
  const product = (sizes) => sizes.reduce((all, size) => all * size, 1);
  const means = product(kept);
  return { kept, means, entries: product(Object.values(shape)) / means };
}

/** Where the mean of the number at index stands: an index into the tensor of means. */
export function meanOf(index, shape, over, groups) {
  const { kept } = reduced(shape, over, groups);
  return Object.values(shape).map((size, axis) => Math.floor((index[axis] * kept[axis]) / size));
}

export function indexes(sizes) {
  return sizes.reduce((all, size) => all.flatMap((index) => upTo(size).map((i) => [...index, i])), [[]]);
}

const cells = (tensor) => indexes(Object.values(SHAPES[tensor]));

/** The numbers from 0 to 9 that both tensors begin with: {index: number}. */
function numbers() {
  const next = uniform(394); // the first chosen row is 4, 1, 8, 7, of mean 5
  const all = Object.keys(SHAPES).flatMap(cells);
  return Object.fromEntries(all.map((index) => [index, Math.floor(10 * next())]));
}

/** What a norm makes of values, {index: number}: {means, or means of squares, by their index, results by theirs}. */
export function normalize(values, { tensor, over, groups, squares }) {
  const shape = SHAPES[tensor];
  const [shared, means, results] = [{}, {}, {}];
  for (const index of cells(tensor)) (shared[meanOf(index, shape, over, groups)] ??= []).push(index);
  for (const [place, sharing] of Object.entries(shared)) {
    const row = sharing.map((index) => values[index]);
    means[place] = mean(squares ? row.map((v) => v * v) : row);
    const hat = squares ? row.map((v) => v / Math.sqrt(means[place] + 1e-5)) : layerNorm(row).hat;
    sharing.forEach((index, i) => (results[index] = hat[i]));
  }
  return { means, results };
}

// ---- Norms and words ----

const positions = (tensor) => (tensor === "BTC" ? ["T"] : ["H", "W"]);

/** What each norm averages over. On images LayerNorm takes a whole image, as in lesson 2. */
const NORMS = {
  LayerNorm: (tensor) => ({ over: tensor === "BTC" ? ["C"] : ["C", "H", "W"] }),
  BatchNorm: (tensor) => ({ over: ["B", ...positions(tensor)] }),
  InstanceNorm: (tensor) => ({ over: positions(tensor) }),
  GroupNorm: (tensor) => ({ over: ["C", ...positions(tensor)], groups: 2 }),
  RMSNorm: (tensor) => ({ ...NORMS.LayerNorm(tensor), squares: true }),
};
const setting = (name, tensor) => ({ groups: 1, squares: false, ...NORMS[name](tensor) });

export function nameOf({ tensor, over, groups, squares }) {
  const same = (norm) =>
    norm.groups === groups &&
    norm.squares === squares &&
    norm.over.length === over.length &&
    norm.over.every((axis) => over.includes(axis));
  return Object.keys(NORMS).find((name) => same(setting(name, tensor))) ?? "";
}

const NAMES = {
  B: { BTC: "sentence", BCHW: "image" },
  T: "word",
  C: { BTC: "feature", BCHW: "channel" },
  H: "row",
  W: "column",
};
const nameOfAxis = (axis, tensor) => NAMES[axis][tensor] ?? NAMES[axis];
const tuple = (numbers) => `(${numbers.join(", ")})`;
const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

/** The line of PyTorch that takes these means, and below it the shape that comes out. */
export function code({ tensor, over, groups, squares }) {
  const axes = Object.keys(SHAPES[tensor]);
  if (!over.length) return "x\n# no mean over anything";
  const cut = groups > 1 ? axes.indexOf("C") : axes.length; // unflatten makes two axes of C, the groups and their members
  const dims = axes.flatMap((axis, i) => (over.includes(axis) ? [i + (i >= cut ? 1 : 0)] : []));
  const size = SHAPES[tensor].C;
  const split = groups > 1 ? `.unflatten(${cut}, (${groups}, ${size / groups}))` : "";
  const { kept } = reduced(SHAPES[tensor], over, groups);
  if (groups > 1) kept.splice(cut + 1, 0, 1);
  return `x${split}${squares ? ".square()" : ""}.mean(${dims.length > 1 ? tuple(dims) : dims}, keepdim=True)\n# ${tuple(kept)}`;
}

/** What a change of the number at index did to the chosen one's result, which it was before. */
function outcome({ index, from, to, before }, cell, result) {
  const own = index.join() === cell.join();
  const what = own ? "The chosen number" : "A neighbor";
  const then = Math.abs(result - before) < 1e-9 ? `stands still at ${fmt(result)}` : `moves from ${fmt(before)} to ${fmt(result)}`;
  return `${what} went from ${from} to ${to}: ${own ? "its" : "the chosen number’s"} result ${then}.`;
}

function sentence(state) {
  const shape = SHAPES[state.tensor];
  const { means, entries } = reduced(shape, state.over, state.groups);
  const name = nameOf(state);
  if (!state.over.length) return "No axis: each number is its own mean, and x − μ is 0 everywhere.";
  const taken = plural(means, state.squares ? "mean square" : "mean");
  const lead = `${name ? `${name} takes` : "Over these axes there are"} ${taken}, ${means === 1 ? "" : "each "}of ${plural(entries, "number")}`;
  const rms = state.squares ? ", and no mean is subtracted" : "";
  const sample = nameOfAxis("B", state.tensor);
  const reach = state.over.includes("B")
    ? `This ${sample} shares its ${state.squares ? "mean square" : "mean"} with the other ${sample}.`
    : `No other ${sample} has a part in it.`;
  return `${lead}${rms}. ${reach}`;
}

// ---- The picture ----

const LEFT = 64; // pixels, for the words beside the sheets
const polygon = (corners, more) => tag("polygon", { points: points(corners), ...more });

const centered = (x, y, words, more) =>
  words === "" ? "" : text(x, y + 0.36 * letters(more?.["font-size"]), words, { "text-anchor": "middle", ...more });
const padded = (sizes, first) => [...Array(4 - sizes.length).fill(first), ...sizes];

/**
 * A tensor as standing sheets. The last axis runs to the right (and away), the one before it down; the one before that
 * puts sheets side by side, and a fourth puts rows of sheets below each other.
 * paint(index): attributes of a cell; words(index): what stands in it. right, down: the sides of a cell; pitch: from one
 * sheet to the next. Returns {inside, corners: [[row, place, x, y] of each sheet's upper left one], cellAt(index): the
 * corners of a cell, middle(index)}.
 */
function sheets(sizes, { left, top, right, down, pitch, size }, paint, words) {
  const [rows, across, tall, wide] = padded(sizes, 1);
  const [dx, dy] = right;
  const inside = [];
  const corners = [];
  const from = (row, place) => [left + place * pitch[0], top + row * pitch[1] + wide * dy];
  function cellAt(index) {
    const [row, place, i, j] = padded(index, 0);
    const [x, y] = from(row, place);
    return [[0, 0], [0, 1], [1, 1], [1, 0]].map(([k, l]) => [x + (j + l) * dx, y + (i + k) * down - (j + l) * dy]); // prettier-ignore
  }
  const middle = (index) => lerp(cellAt(index)[0], cellAt(index)[2], 0.5);
  for (const [row, place] of indexes([rows, across])) {
    const [x, y] = from(row, place);
    const at = (i, j, back = 0) => [x + j * dx - 0.16 * dx * back, y + i * down - j * dy - 0.3 * dy * back];
    corners.push([row, place, x, y - wide * dy]);
    inside.push(polygon([at(0, 0), at(0, 0, 1), at(tall, 0, 1), at(tall, 0)], { fill: INK, opacity: 0.34 }));
    inside.push(polygon([at(0, 0), at(0, 0, 1), at(0, wide, 1), at(0, wide)], { fill: INK, opacity: 0.2 }));
    for (const [i, j] of indexes([tall, wide])) {
      const index = [row, place, i, j].slice(4 - sizes.length);
      inside.push(polygon(cellAt(index), paint(index)), centered(...middle(index), words(index), { "font-size": size }));
    }
  }
  return { inside: inside.join(""), corners, cellAt, middle };
}

/**
 * The block, and below it the block of its means, each under what it is the mean of. Returns {inside, height}.
 * values: the numbers in the cells. at: the cell that keys and hands change. share: how far the blue numbers have flown.
 */
function drawing(state, width, values, at = state.cell, share = 1) {
  const { tensor, over, groups, cell } = state;
  const shape = SHAPES[tensor];
  const [rows, across, tall, wide] = padded(Object.values(shape), 1);
  const { kept } = reduced(shape, over, groups);
  const mine = meanOf(cell, shape, over, groups).join();
  const paint = (mean) => {
    const shade = mean.reduce((sum, i) => sum + i, 0) % 2 ? 0.26 : 0.1; // neighbors take turns
    const lit = mean.join() === mine;
    const edge = { stroke: INK, "stroke-width": 0.6, "stroke-opacity": 0.75 };
    return { fill: lit ? ACCENT : INK, "fill-opacity": lit ? 0.6 : shade, ...edge };
  };
  const [dx, dy, down, gap] = (tensor === "BTC" ? [48, 13, 44, 44] : [18, 7, 26, 30]).map(
    (v) => v * Math.min(1.3, (width - LEFT - 2) / 450),
  );
  const pitch = [wide * dx + gap, tall * down + wide * dy + Math.max(24, 0.7 * gap)];
  const size = clamp(0.62 * dx, 10, 15);
  const block = sheets(
    Object.values(shape),
    { left: LEFT, top: 22, right: [dx, dy], down, pitch, size },
    (index) => ({ ...paint(meanOf(index, shape, over, groups)), "data-cell": index }),
    (index) => values[index],
  );

  const [last, before, sheet] = Object.keys(shape).reverse();
  const words = [];
  const edge = -3.5 * (letters() - 12); // words beside the sheets begin here
  for (const [row, place, x, y] of block.corners) {
    const whole = `${nameOfAxis(sheet, tensor)} ${place + 1}`;
    const name = place && 0.6 * letters() * whole.length > pitch[0] ? place + 1 : whole;
    if (row === 0) words.push(text(x + (wide * dx) / 2, y - 8, name, { "text-anchor": "middle" }));
    if (place === 0 && rows > 1) words.push(text(edge, y + wide * dy + 14, `${nameOfAxis("B", tensor)} ${row + 1}`));
  }
  const side = 22 + wide * dy + (tall * down) / 2 + (rows > 1 ? letters() + 4 : 4);
  words.push(label(LEFT - 13, side, `${before} = ${shape[before]}`, "end"));
  words.push(text(LEFT + (wide * dx) / 2, 24 + letters() + wide * dy + tall * down, `${last} = ${shape[last]}`, { opacity: 0.72 }));

  const frame = { fill: "none", stroke: INK, "stroke-width": 3, "stroke-linejoin": "round", "pointer-events": "none" };
  words.push(polygon(block.cellAt(cell), frame));
  if (at.join() !== cell.join()) words.push(polygon(block.cellAt(at), { ...frame, "stroke-dasharray": "4 4" }));

  // A group of sheets that share their means has them in its middle.
  const top = 22 + rows * pitch[1] + 14;
  const [, together] = padded(kept, 1);
  const step = (pitch[0] * across) / together;
  const scale = tensor === "BTC" ? 0.6 : 0.8; // of the block's size
  const small = { right: [scale * dx, scale * dy], down: scale * down, pitch: [step, scale * pitch[1]], size: 11 };
  const left = LEFT + (step - gap) / 2 - 0.5 * scale * dx * kept.at(-1);
  words.push(
    text(edge, top + letters(), state.squares ? "the mean" : "the"),
    text(edge, top + 2 * letters() + 3, state.squares ? "squares" : "means"),
  );
  const found = normalize(values, state).means;
  const mean = (index) => fmt(found[index], found[index] < 9.995 ? 2 : 1);
  const inside = scale * dx > 2.2 * letters(11); // or the chosen mean's number stands beside its cell
  const blue = (index) => index.join() === mine;
  const means = sheets(kept, { ...small, left, top }, paint, (index) => (inside && (share === 1 || !blue(index)) ? mean(index) : ""));
  const goal = mine.split(",").map(Number);
  const [x, y] = means.middle(goal);
  if (share < 1) {
    for (const index of cells(tensor)) {
      if (!blue(meanOf(index, shape, over, groups))) continue;
      const at = lerp(block.middle(index), [x, y], share);
      words.push(circle(...at, 0.6 * size, { fill: ACCENT, opacity: 0.6 }), centered(...at, values[index]));
    }
  } else if (!inside) {
    const right = x + scale * dx * (kept.at(-1) - goal.at(-1) - 0.5) + 4;
    words.push(text(right, y + letters() / 3, mean(goal), { fill: ACCENT, "font-weight": 650 }));
  }
  return { inside: block.inside + means.inside + words.join(""), height: top + scale * rows * pitch[1] + 6 };
}

export function still(changes = {}) {
  const state = { ...start, ...changes };
  const picture = drawing(state, 528, numbers());
  const { means, entries } = reduced(SHAPES[state.tensor], state.over, state.groups);
  const height = Math.ceil(picture.height) + 50;
  const shared = `share ${means === 1 ? "the only mean" : `one of ${means} means`}${state.squares ? " of squares" : ""}`;
  const words = text(16, height - 20, `The ${entries} blue numbers ${shared}.`, { "font-size": 14 });
  const described = `A tensor ${tuple(Object.keys(SHAPES[state.tensor]))} drawn as sheets of cells. The ${entries} numbers that ${shared} are blue.`;
  return file(TITLE, described, 560, height, moved(16, 6, picture.inside) + words);
}

// ---- The page ----

const STYLE = `
--side: 320px; --say: 7.3em;
[data-cell] { cursor: ns-resize; touch-action: none; }
svg text { pointer-events: none; font-variant-numeric: tabular-nums; }
label[hidden] { display: none; }
code { display: block; min-height: 4.6em; white-space: pre-line; padding: 6px 8px; border-radius: 6px; overflow-wrap: anywhere; background: var(--faint); color: inherit; font: 12.5px/1.45 ui-monospace, monospace; }`;

const TENSORS = Object.entries(SHAPES).map(([tensor, shape]) => [tensor, tuple(Object.keys(shape))]);
const AXES = Object.entries({ B: 2, T: 3, C: 4, H: 3, W: 5 }).map(([axis, size]) => [axis, `${axis} = ${size}`]);
const each = (values) => values.map((value) => [value, value]);

const page = (id) => `<div class="whole">
  <p class="say"></p>
  <div class="show"><p class="hint"></p>
    <div class="stage" tabindex="0" role="application" aria-label="The cells of a tensor. Arrow keys move from cell to cell, Enter chooses one, plus and minus change its number." aria-describedby="${id}-state"><svg aria-hidden="true"></svg></div></div>
  <div class="set">
    ${radios(id, "tensor", "The tensor", TENSORS)}
    ${choice("A norm", each(Object.keys(NORMS)), `name="${id}-norm"`, "radio", 3)}
    <div class="axes">${choice("The mean runs over", AXES, 'data-key="over"', "checkbox")}</div>
    ${radios(id, "groups", "C is cut into groups", each([1, 2, 4]))}
    <code></code>
  </div></div>`;

function connect({ id, stage, state, find, all, on, change, write, tell, drag }) {
  const [picture, track, line, hint] = ["svg", ".axes .track", "code", ".hint"].map(find);
  const [norms, axes, groups] = [`[name=${id}-norm]`, "[data-key=over]", "[data-key=groups]"].map(all);
  let values = numbers();
  let at = null; // the cell that was last changed, or reached by keys, if it is not the chosen one
  let changed = null; // what a hand changed last: {index, from, to, before: the chosen one's result}
  let [share, target] = [1, ""]; // of the blue numbers' way, and their mean

  const result = () => normalize(values, state()).results[state().cell];
  const take = (index) => ({ index, from: values[index], before: result() });
  function stop() {
    at = changed = null;
  }
  function put({ index, from, before }, by) {
    const to = clamp(from + by, 0, 9);
    at = index;
    values = { ...values, [index]: to };
    changed = to === from ? null : { index, from, to, before };
    change({});
  }
  function choose(cell) {
    stop();
    share = 0;
    change({ cell });
  }

  function draw({ width, dt, calm }) {
    const now = state();
    const shape = SHAPES[now.tensor];
    for (const { value, parentElement } of axes) parentElement.hidden = !shape[value];
    track.style.setProperty("--columns", Object.keys(shape).length);
    const aim = JSON.stringify({ ...now, cell: meanOf(now.cell, shape, now.over, now.groups) });
    if (aim !== target) [target, share] = [aim, 0];
    share = calm ? 1 : Math.min(1, share + dt / 0.9);
    const { inside, height } = drawing(now, width, values, at ?? now.cell, smooth(share));
    picture.setAttribute("height", height);
    picture.innerHTML = inside;
    for (const input of norms) input.checked = input.value === nameOf(now);
    for (const input of groups) input.disabled = !now.over.includes("C");
    write(line, code(now));
    const words = `${sentence(now)} ${changed ? outcome(changed, now.cell, result()) : `The chosen number becomes ${fmt(result())}.`}`;
    const place = (index) => Object.keys(shape).map((axis, i) => `${nameOfAxis(axis, now.tensor)} ${index[i] + 1}`).join(", ");
    write(hint, `Click a cell: what shares its mean is blue. Drag a number up or down. Chosen: ${place(now.cell)}.`);
    const { entries } = reduced(shape, now.over, now.groups);
    const here = at ?? now.cell;
    const report = `Chosen: ${place(now.cell)}. It shares its statistics with ${entries - 1} others.`;
    tell(words, `${words} ${report} ${place(here)} holds ${values[here]}.`);
    return share < 1;
  }

  on(stage, "pointerup", () => held()?.moved === false && choose(held().index)); // heard before drag lets go
  const held = drag(
    stage,
    ({ target, clientY }) => {
      const index = target.dataset.cell?.split(",").map(Number);
      return index && { ...take(index), y: clientY, moved: false };
    },
    ({ clientY }, hold) => {
      const by = Math.round((hold.y - clientY) / 9);
      hold.moved ||= by !== 0;
      if (hold.moved) put(hold, by);
    },
  );
  // One step in the picture: at the end of a sheet the next one begins, as far as there is one.
  const ARROWS = { ArrowLeft: [-1, -1, -3], ArrowRight: [-1, 1, -3], ArrowUp: [-2, -1, -4], ArrowDown: [-2, 1, -4] };
  const STEPS = { "+": 1, "=": 1, "-": -1 };
  on(stage, "keydown", (event) => {
    const { tensor, cell } = state();
    const from = at ?? cell;
    if (STEPS[event.key]) put(take(from), STEPS[event.key]);
    else if (event.key === "Enter" && !event.shiftKey) choose(from);
    const [axis, by, beyond] = ARROWS[event.key] ?? [];
    if (!axis) return;
    event.preventDefault();
    const sizes = Object.values(SHAPES[tensor]);
    const to = [...from];
    const inside = (at) => to[at] + by >= 0 && to[at] + by < sizes[at];
    const [here, next] = [sizes.length + axis, sizes.length + beyond];
    if (inside(here)) to[here] += by;
    else if (next >= 0 && inside(next)) {
      to[next] += by;
      to[here] = by > 0 ? 0 : sizes[here] - 1;
    }
    [at, changed] = [to, null];
    change({});
  });
  for (const input of norms)
    on(input, "change", () => {
      stop();
      change(setting(input.value, state().tensor));
    });
  /** What else a change of tensor, axes or groups means: a norm stays the same one on other axes. */
  function also(key, value) {
    const now = state();
    if (key === "tensor") {
      const cell = value === "BTC" ? [0, 1, 2] : [0, 1, 1, 2];
      return { cell, ...setting(nameOf(now) || "LayerNorm", value) };
    }
    return { squares: false, ...(key === "over" && { groups: value.includes("C") ? now.groups : 1 }) };
  }
  return { draw, also, stop, acts: { reset: () => (values = numbers()) } };
}

export default explorable({ name: "block", title: TITLE, start, style: STYLE, page, connect });
