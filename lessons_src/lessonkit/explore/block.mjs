// Who shares my mean? Point at a number of a tensor, and all that share its statistics light up.
// An anywidget front-end module: JupyterLab and a page without a kernel run this same file. No library, no network.

/** The model's keys and what they are at first. over: the axes that the mean runs over; groups: of C; cell: an index. */
export const start = { tensor: "BTC", over: ["C"], groups: 1, squares: false, cell: [0, 1, 2] };

const TITLE = "Who shares my mean?";

// ---- The mathematics ----

/** The tensors that can be looked at, {axis: size} in order. All sizes of a tensor differ, so that no axis hides. */
export const SHAPES = { BTC: { B: 2, T: 3, C: 4 }, BCHW: { B: 2, C: 4, H: 3, W: 5 } };

/**
 * The means over some axes. groups: into how many parts C is cut first, if it is one of them.
 * Returns {kept: sizes of the tensor of means, count: how many they are, entries: how many numbers make one}.
 */
export function reduced(shape, over, groups) {
  const kept = Object.entries(shape).map(([axis, size]) => (!over.includes(axis) ? size : axis === "C" ? groups : 1));
  const product = (sizes) => sizes.reduce((all, size) => all * size, 1);
  const count = product(kept);
  return { kept, count, entries: product(Object.values(shape)) / count };
}

/** Where the mean of the number at index stands: an index into the tensor of means. */
export function meanOf(index, shape, over, groups) {
  const { kept } = reduced(shape, over, groups);
  return Object.values(shape).map((size, axis) => Math.floor((index[axis] * kept[axis]) / size));
}

/** All indexes of a tensor of these sizes, the last axis fastest. */
export function indexes(sizes) {
  return sizes.reduce((all, size) => all.flatMap((index) => Array.from({ length: size }, (_, i) => [...index, i])), [[]]);
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

/** The norm that averages like this, or "" if none has a name. */
export function nameOf({ tensor, over, groups, squares }) {
  const same = (norm) => norm.groups === groups && norm.squares === squares && norm.over.length === over.length && norm.over.every((axis) => over.includes(axis));
  return Object.keys(NORMS).find((name) => same(setting(name, tensor))) ?? "";
}

const NAMES = { B: { BTC: "sentence", BCHW: "image" }, T: "word", C: { BTC: "feature", BCHW: "channel" }, H: "row", W: "column" };
const nameOfAxis = (axis, tensor) => NAMES[axis][tensor] ?? NAMES[axis];
const tuple = (numbers) => `(${numbers.join(", ")})`;
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

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

/** What is averaged, and who is in it. */
function sentence(state) {
  const shape = SHAPES[state.tensor];
  const { count, entries } = reduced(shape, state.over, state.groups);
  const name = nameOf(state);
  if (!state.over.length) return "No axis: each number is its own mean, and x − μ is 0 everywhere.";
  const means = plural(count, state.squares ? "mean square" : "mean");
  const lead = `${name ? `${name} takes` : "Over these axes there are"} ${means}, ${count === 1 ? "" : "each "}of ${plural(entries, "number")}`;
  const rms = state.squares ? ", and no mean is subtracted" : "";
  const sample = nameOfAxis("B", state.tensor);
  const reach = state.over.includes("B") ? `This ${sample} shares its ${state.squares ? "mean square" : "mean"} with the other ${sample}.` : `No other ${sample} has a part in it.`;
  return `${lead}${rms}. ${reach}`;
}

// ---- The picture ----

const INK = "currentColor";
const ACCENT = "var(--accent)"; // what shares the statistics of the cell that is pointed at
const LEFT = 64; // pixels, for the words beside the sheets

/** An SVG element as text. Numbers are rounded to a hundredth of a pixel. */
function tag(name, attributes, inside = "") {
  const text = Object.entries(attributes).map(([key, v]) => `${key}="${typeof v === "number" ? Math.round(v * 100) / 100 : v}"`);
  return `<${name} ${text.join(" ")}>${inside}</${name}>`;
}
const text = (x, y, inside, more) => tag("text", { x, y, fill: INK, "font-size": 12, ...more }, inside);
const polygon = (points, more) => tag("polygon", { points: points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" "), ...more });

/** Four sizes (or places) of a tensor that may have three. */
const padded = (sizes, first) => [...Array(4 - sizes.length).fill(first), ...sizes];

/**
 * A tensor as standing sheets. The last axis runs to the right (and away), the one before it down; the one before that
 * puts sheets side by side, and a fourth puts rows of sheets below each other.
 * paint(index): attributes of a cell. right, down: the sides of a cell; pitch: from one sheet to the next.
 * Returns {inside, sheets: [{index, x, y}]}, the upper left corners.
 */
function sheets(sizes, { left, top, right, down, pitch }, paint) {
  const [rows, across, tall, wide] = padded(sizes, 1);
  const [dx, dy] = right;
  const inside = [];
  const corners = [];
  for (const [row, place] of indexes([rows, across])) {
    const [x, y] = [left + place * pitch[0], top + row * pitch[1] + wide * dy];
    const at = (i, j, back = 0) => [x + j * dx - 0.16 * dx * back, y + i * down - j * dy - 0.3 * dy * back];
    corners.push({ index: [row, place], x, y: y - wide * dy });
    inside.push(polygon([at(0, 0), at(0, 0, 1), at(tall, 0, 1), at(tall, 0)], { fill: INK, opacity: 0.34 }));
    inside.push(polygon([at(0, 0), at(0, 0, 1), at(0, wide, 1), at(0, wide)], { fill: INK, opacity: 0.2 }));
    for (const [i, j] of indexes([tall, wide])) {
      const index = [row, place, i, j].slice(4 - sizes.length);
      inside.push(polygon([at(i, j), at(i, j + 1), at(i + 1, j + 1), at(i + 1, j)], paint(index)));
    }
  }
  return { inside: inside.join(""), sheets: corners };
}

/** The block, and below it the block of its means, each under what it is the mean of. Returns {inside, height}. */
function drawing(state, width) {
  const { tensor, over, groups, cell } = state;
  const shape = SHAPES[tensor];
  const [rows, across, tall, wide] = padded(Object.values(shape), 1);
  const { kept } = reduced(shape, over, groups);
  const mine = meanOf(cell, shape, over, groups).join();
  const paint = (mean) => {
    const shade = mean.reduce((sum, i) => sum + i, 0) % 2 ? 0.26 : 0.1; // neighbors take turns
    const lit = mean.join() === mine;
    return { fill: lit ? ACCENT : INK, "fill-opacity": lit ? 0.85 : shade, stroke: INK, "stroke-width": 0.6, "stroke-opacity": 0.75 };
  };
  const [dx, dy, down, gap] = (tensor === "BTC" ? [48, 13, 44, 44] : [18, 7, 26, 30]).map((v) => v * Math.min(1, (width - LEFT - 2) / 450));
  const pitch = [wide * dx + gap, tall * down + wide * dy + Math.max(24, 0.7 * gap)];
  const block = sheets(Object.values(shape), { left: LEFT, top: 22, right: [dx, dy], down, pitch }, (index) => ({ ...paint(meanOf(index, shape, over, groups)), "data-cell": index }));

  const [last, before, sheet] = Object.keys(shape).reverse();
  const words = [];
  for (const { index: [row, place], x, y } of block.sheets) {
    const name = `${nameOfAxis(sheet, tensor)} ${place + 1}`;
    if (row === 0) words.push(text(x + (wide * dx) / 2, y - 8, name, { "text-anchor": "middle" }));
    if (place === 0 && rows > 1) words.push(text(0, y + wide * dy + 14, `${nameOfAxis("B", tensor)} ${row + 1}`));
  }
  const side = 22 + wide * dy + (tall * down) / 2 + (rows > 1 ? 16 : 4);
  words.push(text(LEFT - 13, side, `${before} = ${shape[before]}`, { "text-anchor": "end", opacity: 0.72 }));
  words.push(text(LEFT + (wide * dx) / 2, 36 + wide * dy + tall * down, `${last} = ${shape[last]}`, { opacity: 0.72 }));

  // The cell that is pointed at: its corner, and a frame around it.
  const [row, place, i, j] = padded(cell, 0);
  const [x, y] = [LEFT + place * pitch[0] + j * dx, 22 + row * pitch[1] + wide * dy + i * down - j * dy];
  const frame = [[x, y], [x + dx, y - dy], [x + dx, y - dy + down], [x, y + down]];
  words.push(polygon(frame, { fill: "none", stroke: INK, "stroke-width": 3, "stroke-linejoin": "round", "pointer-events": "none" }));

  // A group of sheets that share their means has them in its middle.
  const top = 22 + rows * pitch[1] + 14;
  const [, together] = padded(kept, 1);
  const step = (pitch[0] * across) / together;
  const share = tensor === "BTC" ? 0.6 : 0.8; // of the block's size
  const small = { right: [share * dx, share * dy], down: share * down, pitch: [step, share * pitch[1]] };
  const left = LEFT + (step - gap) / 2 - 0.5 * share * dx * kept.at(-1);
  words.push(text(0, top + 12, state.squares ? "the mean" : "the"), text(0, top + 27, state.squares ? "squares" : "means"));
  const means = sheets(kept, { ...small, left, top }, paint);
  return { inside: block.inside + means.inside + words.join(""), height: top + share * rows * pitch[1] + 6 };
}

/** The explorable as a whole SVG, for viewers that run no script. given: what differs from the start. */
export function still(given = {}) {
  const state = { ...start, ...given };
  const picture = drawing(state, 528);
  const { count, entries } = reduced(SHAPES[state.tensor], state.over, state.groups);
  const [width, height] = [560, Math.ceil(picture.height) + 50];
  const shared = `share ${count === 1 ? "the only mean" : `one of ${count} means`}`;
  const words = text(16, height - 20, `The ${entries} blue numbers ${shared}${state.squares ? " of squares" : ""}.`, { "font-size": 14 });
  const inside = tag("rect", { width: "100%", height: "100%", fill: "#ffffff" }) + tag("g", { transform: "translate(16 6)" }, picture.inside) + words;
  const size = { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, sans-serif" };
  const described = `A tensor ${tuple(Object.keys(SHAPES[state.tensor]))} drawn as sheets of cells. The ${entries} numbers that ${shared} are blue.`;
  return tag("svg", { ...size, role: "img" }, `<title>${TITLE}</title><desc>${described}</desc>` + inside).replaceAll(ACCENT, "#0672b2").replaceAll(INK, "#1f2328");
}

// ---- The page ----

// The accent is a blue mixed with the page's own ink, so it is darker on a light page and lighter on a dark one.
const STYLE = `
.ln-block {
  --accent: color-mix(in srgb, currentColor 20%, #0086d4);
  --soft: color-mix(in srgb, currentColor 68%, transparent);
  --line: color-mix(in srgb, currentColor 20%, transparent);
  container-type: inline-size; max-width: 900px; color: inherit; font-size: 14px; line-height: 1.45;
  * { box-sizing: border-box; }
  :focus-visible, .track label:has(:focus-visible) { outline: 2px solid var(--accent); outline-offset: 2px; }
  .whole { display: grid; gap: 8px 28px; }
  @container (min-width: 640px) { .whole { grid-template: "show say" auto "show set" 1fr / minmax(0, 1fr) 320px; } .show { grid-area: show; } }
  svg { display: block; width: 100%; }
  .stage { touch-action: pan-y; user-select: none; -webkit-user-select: none; border-radius: 8px; }
  [data-cell] { cursor: pointer; }
  .hint { margin: 0 0 6px; color: var(--soft); font-size: 12px; text-align: center; }
  .say { min-height: 5.8em; margin: 0; font-size: 15px; text-wrap: pretty; }
  fieldset { border: 0; margin: 0 0 8px; padding: 0; min-width: 0; }
  legend { padding: 0 0 2px; color: var(--soft); font-size: 12px; }
  .track { display: grid; grid-template-columns: repeat(var(--columns), 1fr); border: 1px solid var(--line); border-radius: 8px; }
  .track label { position: relative; display: grid; place-items: center; min-height: 36px; margin: 0; border-radius: 7px; }
  .track label:hover { background: color-mix(in srgb, currentColor 8%, transparent); }
  .track input { position: absolute; inset: 0; width: 100%; height: 100%; margin: 0; opacity: 0; cursor: pointer; }
  .track label:has(:checked) { background: color-mix(in srgb, currentColor 12%, transparent); box-shadow: inset 0 -3px var(--accent); font-weight: 650; }
  .track label:has(:disabled) { opacity: 0.45; }
  code { display: block; min-height: 4.6em; white-space: pre-line; padding: 6px 8px; border-radius: 6px; overflow-wrap: anywhere; background: color-mix(in srgb, currentColor 6%, transparent); color: inherit; font: 12.5px/1.45 ui-monospace, monospace; }
  .unseen { position: absolute; width: 1px; height: 1px; margin: 0; padding: 0; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
  @media (pointer: coarse) { .track label { min-height: 44px; } }
  @media (forced-colors: active) { .track label:has(:checked) { outline: 2px solid Highlight; } }
}`;

/** A row of radios or checkboxes. options: [value, label]. */
function choice(legend, type, name, options, columns) {
  const boxes = options.map(([value, label]) => `<label>${label}<input type="${type}" name="${name}" value="${value}"></label>`);
  return `<fieldset><legend>${legend}</legend><div class="track" style="--columns: ${columns}">${boxes.join("")}</div></fieldset>`;
}

const page = (id) => `<style>${STYLE}</style><div class="whole">
  <p class="say"></p>
  <div class="show"><p class="hint">Point at a cell. All that share its mean are blue.</p>
    <div class="stage" tabindex="0" role="application" aria-label="The cells of a tensor. Arrow keys move from cell to cell." aria-describedby="${id}-state"><svg aria-hidden="true"></svg></div></div>
  <div class="set">
    ${choice("The tensor", "radio", `${id}-tensor`, [["BTC", "(B, T, C)"], ["BCHW", "(B, C, H, W)"]], 2)}
    ${choice("A norm", "radio", `${id}-norm`, Object.keys(NORMS).map((name) => [name, name]), 3)}
    <div class="axes"></div>
    ${choice("C is cut into groups", "radio", `${id}-groups`, [[1, "1"], [2, "2"], [4, "4"]], 3)}
    <code></code>
    <p class="unseen" id="${id}-state" role="status"></p>
  </div></div>`;

// ---- The explorable ----

/** Builds the explorable in el and returns the function that takes it away. */
function render({ model, el }) {
  const KEYS = Object.keys(start);
  const get = () => Object.fromEntries(KEYS.map((key) => [key, model.get(key)]));
  const id = `ln-${Math.random().toString(36).slice(2)}`;
  const gone = new AbortController();
  const on = (node, event, act) => node.addEventListener(event, act, { signal: gone.signal });
  const root = document.createElement("div");
  root.className = "ln-block";
  root.innerHTML = page(id);
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", TITLE);
  el.append(root);
  const [stage, picture, say, axes, line, status] = [".stage", "svg", ".say", ".axes", "code", "[role=status]"].map((selector) => root.querySelector(selector));
  const inputs = (kind) => [...root.querySelectorAll(`[name="${id}-${kind}"]`)];
  let [frame, telling, unsaved, shownTensor] = [0, 0, false, ""];

  function request() {
    frame ||= requestAnimationFrame(draw);
  }
  /** Sets values of the model; they are saved once a frame. */
  function change(values) {
    for (const key in values) model.set(key, values[key]);
    unsaved = true;
    request();
  }
  const write = (node, words) => { if (node.textContent !== words) node.textContent = words; };

  function draw() {
    frame = 0;
    const width = stage.clientWidth;
    if (!width) return; // not on the page yet; its size will ask again
    const state = get();
    const shape = SHAPES[state.tensor];
    if (shownTensor !== state.tensor) { // its axes are others
      shownTensor = state.tensor;
      axes.innerHTML = choice("The mean runs over", "checkbox", `${id}-over`, Object.entries(shape).map(([axis, size]) => [axis, `${axis} = ${size}`]), Object.keys(shape).length);
    }
    const { inside, height } = drawing(state, width);
    picture.style.height = `${height}px`;
    picture.innerHTML = inside;
    for (const input of inputs("tensor")) input.checked = input.value === state.tensor;
    for (const input of inputs("norm")) input.checked = input.value === nameOf(state);
    for (const input of inputs("over")) input.checked = state.over.includes(input.value);
    for (const input of inputs("groups")) {
      input.checked = +input.value === state.groups;
      input.disabled = !state.over.includes("C");
    }
    const { entries } = reduced(shape, state.over, state.groups);
    const words = sentence(state);
    write(line, code(state));
    write(say, words);
    const place = Object.keys(shape).map((axis, i) => `${nameOfAxis(axis, state.tensor)} ${state.cell[i] + 1}`).join(", ");
    clearTimeout(telling); // a screen reader is told once the hand rests
    telling = setTimeout(() => write(status, `${words} Cell: ${place}. It shares its statistics with ${entries - 1} others.`), 700);
    if (unsaved) model.save_changes();
    unsaved = false;
  }

  /** Points at a cell of the picture, if the event is on one. */
  function point(event) {
    const cell = event.target.dataset?.cell?.split(",").map(Number);
    if (cell && cell.join() !== model.get("cell").join()) change({ cell });
  }
  on(stage, "pointermove", point);
  on(stage, "pointerdown", point);
  // One step in the picture: at the end of a sheet the next one begins, as far as there is one.
  const ARROWS = { ArrowLeft: [-1, -1, -3], ArrowRight: [-1, 1, -3], ArrowUp: [-2, -1, -4], ArrowDown: [-2, 1, -4] };
  on(stage, "keydown", (event) => {
    const [axis, by, beyond] = ARROWS[event.key] ?? [];
    if (!axis) return;
    event.preventDefault();
    const sizes = Object.values(SHAPES[model.get("tensor")]);
    const cell = [...model.get("cell")];
    const [here, next] = [sizes.length + axis, sizes.length + beyond];
    const moved = cell[here] + by;
    if (moved >= 0 && moved < sizes[here]) cell[here] = moved;
    else if (next >= 0 && sizes[next] > cell[next] + by && cell[next] + by >= 0) [cell[here], cell[next]] = [by > 0 ? 0 : sizes[here] - 1, cell[next] + by];
    change({ cell });
  });
  on(root, "change", ({ target }) => {
    const [kind, state] = [target.name.replace(`${id}-`, ""), get()];
    if (kind === "tensor") change({ tensor: target.value, cell: target.value === "BTC" ? [0, 1, 2] : [0, 1, 1, 2], ...setting(nameOf(state) || "LayerNorm", target.value) });
    if (kind === "norm") change(setting(target.value, state.tensor));
    if (kind === "groups") change({ groups: +target.value, squares: false });
    if (kind === "over") {
      const over = inputs("over").filter((input) => input.checked).map((input) => input.value);
      change({ over, squares: false, groups: over.includes("C") ? state.groups : 1 });
    }
  });
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
