// Explorables without a kernel: a plain object is the model of the module that JupyterLab runs. The modules are loaded
// by scripts of the page that are deferred like this one.
addEventListener("DOMContentLoaded", () => {
  for (const place of document.querySelectorAll("[data-explore]")) {
    const { start, default: explorable } = window.explorables[place.dataset.explore];
    const state = { ...structuredClone(start), ...JSON.parse(place.dataset.state) };
    const heard = new Map(); // event: what listens to it
    const listeners = (event) => heard.get(event) ?? heard.set(event, new Set()).get(event);
    const model = {
      get: (key) => state[key],
      set: (key, value) => {
        state[key] = value;
        for (const act of listeners(`change:${key}`)) act();
      },
      on: (event, act) => listeners(event).add(act),
      off: (event, act) => listeners(event).delete(act),
      save_changes: () => {},
    };
    place.replaceChildren();
    explorable.render({ model, el: place });
  }
});
