// Makes the folds of a question buttons: the first that opens is the answer, and opens what was folded until then.
const LOOK = `
  .lesson-option > summary {
    display: block; margin: 4px 0; padding: 6px 12px; cursor: pointer;
    border: 1px solid var(--jp-border-color1, #888); border-radius: 4px; background: var(--jp-layout-color2, #8881);
  }
  .lesson-option > summary:hover { border-color: currentColor; }
  .lesson-option[open] > summary { border-left-width: 4px; }
  .lesson-option > :not(summary) { margin-left: 12px; }
  .jp-MarkdownCell:has(+ .jp-CodeCell .lesson-choices) .jp-RenderedMarkdown > ul:last-child { display: none; }
  @media print { .lesson-choices { display: none; } }`;

function render({ model, el }) {
  const gone = new AbortController();
  const on = (event, act) => document.addEventListener(event, act, { capture: true, signal: gone.signal });
  const said = document.createElement("div");
  said.setAttribute("role", "status");
  el.classList.add("lesson-choices");
  el.append(Object.assign(document.createElement("style"), { textContent: LOOK }), said);

  function options() {
    let at = el; // the nearest that holds folds is the output of this cell
    while (at && !at.querySelector(".lesson-option")) at = at.parentElement;
    return at ? [...at.querySelectorAll(".lesson-option")] : [];
  }
  function show() {
    const letter = model.get("letter");
    said.textContent = letter ? `Your answer is ${letter}.` : "A click answers, and opens the reason.";
    if (letter) for (const fold of document.querySelectorAll(`.after-${model.get("place")}`)) fold.open = true;
  }
  on("toggle", ({ target }) => {
    const letter = "abcd"[options().indexOf(target)];
    if (!letter || !target.open || model.get("letter")) return;
    model.set("letter", letter);
    model.save_changes();
  });
  // Or Enter would be JupyterLab's, to edit the cell.
  on("keydown", (event) => {
    const pressed = event.key === "Enter" || event.key === " ";
    if (pressed && !event.shiftKey && options().includes(event.target.parentElement)) event.stopPropagation();
  });
  model.on("change:letter", show);
  show();
  return () => {
    gone.abort();
    model.off("change:letter", show);
  };
}
export default { render };
