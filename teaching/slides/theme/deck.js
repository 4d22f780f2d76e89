// Makes each slide fit, starts reveal.js, and counts the minutes of an exercise down from a click on its button.
const HEIGHT = 719; // a printed page of 720 loses one
const SMALLEST = 0.55; // of 30 pixels
const CODE = { first: 0.62, least: 0.5, unbroken: 0.8, most: 1 }; // of the text; above `unbroken` no line is wrapped
const STEP = 0.02;

const full = (inside) => inside.scrollHeight > HEIGHT || inside.scrollWidth > inside.clientWidth;

function fit(section) {
  const inside = section.querySelector(".fit");
  let size = 1;
  inside.querySelectorAll("pre.output").forEach(unwrap);
  while (size > SMALLEST && full(inside)) {
    size -= 0.03;
    inside.style.fontSize = `${size}em`;
  }
  enlarge(inside);
}

function wraps(block) {
  const height = parseFloat(getComputedStyle(block).fontSize);
  return [...block.querySelectorAll(".line")].some((line) => line.offsetHeight > 2 * height);
}

// What is printed in columns is set smaller rather than wrapped. What is too wide all the same is a sentence.
function unwrap(block) {
  for (let size = CODE.first - STEP; wraps(block); size -= STEP) {
    block.style.setProperty("--size", size);
    if (size < CODE.least) {
      block.style.removeProperty("--size");
      block.classList.add("prose");
      return;
    }
  }
}

// Code and output grow, each until its slide is full or its longest line is.
function enlarge(inside) {
  const sizes = new Map([...inside.querySelectorAll("pre")].map((block) =>
    [block, parseFloat(getComputedStyle(block).getPropertyValue("--size")) || CODE.first]));
  while (sizes.size) {
    for (const [block, size] of [...sizes]) {
      const larger = size + STEP, whole = larger > CODE.unbroken || block.matches(".output:not(.prose)");
      block.style.setProperty("--size", larger);
      if (larger <= CODE.most && !full(inside) && !(whole && wraps(block))) {
        sizes.set(block, larger);
      } else {
        block.style.setProperty("--size", size);
        sizes.delete(block);
      }
    }
  }
}

function count(button) {
  clearInterval(button.running);
  if (button.dataset.left) { // a second click sets it back
    delete button.dataset.left;
    button.classList.remove("over");
    button.textContent = `${button.dataset.minutes} min`;
    return;
  }
  button.dataset.left = 60 * button.dataset.minutes;
  const tick = () => {
    const left = button.dataset.left;
    button.textContent = left > 0 ? `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}` : "time";
    button.classList.toggle("over", left <= 0);
    if (left <= 0) clearInterval(button.running);
    else button.dataset.left = left - 1;
  };
  tick();
  button.running = setInterval(tick, 1000);
}

const pictures = [...document.images].map((image) => image.decode().catch(() => {}));
const only = (selector, change) => document.querySelectorAll(`aside.notes ${selector}`).forEach(change);
Promise.all([MathJax.startup.promise, ...pictures]).then(() => {
  document.querySelectorAll(".slides section").forEach(fit);
  only("mjx-assistive-mml", (formula) => formula.remove()); // the speaker's view would show each formula twice
  only("pre", (block) => { Object.assign(block.style, { whiteSpace: "pre-wrap", fontSize: "0.65em" }); }); // nor has it the styles of this page
  document.body.classList.remove("fitting");
  document.querySelectorAll(".timer").forEach((button) => button.addEventListener("click", () => count(button)));
  const printing = new URLSearchParams(location.search).has("print-pdf");
  Reveal.on(printing ? "pdf-ready" : "ready", () => { document.body.dataset.ready = "yes"; });
  return Reveal.initialize({
    hash: true, width: 1280, height: 720, margin: 0, center: false, transition: "none", slideNumber: "c/t", controls: false,
    pdfSeparateFragments: false, pdfMaxPagesPerSlide: 1, plugins: [RevealNotes],
  });
});
