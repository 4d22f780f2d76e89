// Sliders without a kernel: every position was drawn when the site was built, this only chooses which one is shown.
document.querySelectorAll("figure.twin").forEach((figure) => {
  const { controls, rows } = window.twins[figure.id.replace("twin-", "")];
  const state = controls.map((control) => control.start);
  const panel = figure.querySelector(".controls");
  const outputs = [...figure.querySelectorAll("[data-out]")];

  // What a control may be, given the controls before it.
  const values = (at) => [...new Set(
    rows.filter((row) => row.key.slice(0, at).every((value, k) => value === state[k])).map((row) => row.key[at]),
  )];

  const element = (name, text = "", attributes = {}) => {
    const made = Object.assign(document.createElement(name), attributes);
    if (text) made.textContent = text;
    return made;
  };

  function table(numbers) { // [[header], [row], ...]
    const made = element("table"), [head, ...body] = numbers;
    const line = (cells, name) => {
      const row = element("tr");
      row.append(...cells.map((cell) => element(name, cell, name === "th" ? { scope: "col" } : {})));
      return row;
    };
    const top = element("thead"), rest = element("tbody");
    top.append(line(head, "th"));
    rest.append(...body.map((cells) => line(cells, "td")));
    made.append(element("caption", "What the figure draws"), top, rest);
    return made;
  }

  function show() {
    const row = rows.find((one) => one.key.every((value, k) => value === state[k]));
    row.show.forEach((item, n) => {
      const place = outputs[n];
      if (item.picture) {
        const image = place.querySelector("img");
        image.src = figure.dataset.frames + item.picture;
        image.alt = item.alt;
        image.width = item.width;
        image.height = item.height;
        place.querySelector("details p").textContent = item.alt;
        place.querySelector("details .scrolls")?.replaceChildren(table(item.numbers));
      } else if (item.html !== undefined) place.innerHTML = item.html;
      else place.textContent = item.text;
    });
  }

  // After control `at` has changed, later ones may offer something else.
  function changed(at) {
    let anew = false;
    for (let k = at + 1; k < controls.length; k += 1) {
      const offered = values(k);
      if (offered.includes(state[k])) continue;
      state[k] = offered[0];
      anew = true;
    }
    if (anew) build(at);
    show();
  }

  function range(control, at, options) {
    const label = element("label", `${control.label} `), output = element("output");
    const input = element("input", "", { type: "range", min: 0, max: options.length - 1, step: 1 });
    input.value = options.indexOf(state[at]);
    const say = () => {
      state[at] = options[input.value];
      output.textContent = state[at];
      input.setAttribute("aria-valuetext", state[at]);
    };
    input.addEventListener("input", () => { say(); changed(at); });
    say();
    label.append(input, " ", output);
    return label;
  }

  function choice(control, at, options) {
    const label = element("label", `${control.label} `), select = element("select");
    select.append(...options.map((value) => new Option(value, value, false, value === state[at])));
    select.addEventListener("change", () => { state[at] = select.value; changed(at); });
    label.append(select);
    return label;
  }

  function boxes(control, at, options, type) { // radio buttons, or checkboxes whose sum is one of the options
    const set = element("fieldset"), nothing = "nothing";
    const single = type === "radio" ? options : options.filter((value) => value !== nothing && !value.includes(", "));
    const on = type === "radio" ? [state[at]] : state[at].split(", ");
    set.append(element("legend", control.label));
    single.forEach((value) => {
      const label = element("label"), input = element("input", "", { type, name: `${figure.id}-${at}`, value });
      input.checked = on.includes(value);
      input.addEventListener("change", () => {
        const chosen = [...set.querySelectorAll("input")].filter((one) => one.checked).map((one) => one.value);
        state[at] = chosen.join(", ") || nothing;
        changed(at);
      });
      label.append(input, ` ${value}`);
      set.append(label);
    });
    return set;
  }

  const MAKE = {
    range, choice,
    buttons: (control, at, options) => boxes(control, at, options, "radio"),
    several: (control, at, options) => boxes(control, at, options, "checkbox"),
  };

  function build(from = -1) { // the controls after this one
    [...panel.children].slice(from + 1).forEach((old) => old.remove());
    controls.slice(from + 1).forEach((control, k) => {
      const at = from + 1 + k;
      panel.append(MAKE[control.kind](control, at, values(at)));
    });
  }

  build();
  show();
  const load = () => rows.forEach((row) => row.show.forEach((item) => {
    if (item.picture) new Image().src = figure.dataset.frames + item.picture;
  }));
  ["pointerenter", "focusin"].forEach((event) => figure.addEventListener(event, load, { once: true }));
});
