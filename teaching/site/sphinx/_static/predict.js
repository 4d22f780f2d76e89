// A click on an option answers, as in JupyterLab: the course's own module is put before this (teaching/site/stage.py).
// Its model is a plain object, since no kernel listens.
for (const box of document.querySelectorAll(".admonition:is(.predict, .recall)")) {
  const values = { letter: "", place: box.id };
  let changed = () => {};
  const model = {
    get: (key) => values[key],
    set: (key, value) => {
      values[key] = value;
      changed();
    },
    on: (event, act) => (changed = act),
    off: () => {},
    save_changes: () => {},
  };
  render({ model, el: box.appendChild(document.createElement("div")) });
}
