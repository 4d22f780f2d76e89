// Makes each slide fit, starts reveal.js, and counts the minutes of an exercise down from a click on its button.
const HEIGHT = 719; // a printed page of 720 loses one
const SMALLEST = 24, LARGEST = 36; // pixels

const full = (inside) => inside.scrollHeight > HEIGHT || inside.scrollWidth > inside.clientWidth;
const wraps = (block) => [...block.querySelectorAll(".line")]
  .some((line) => line.offsetHeight > 2 * parseFloat(getComputedStyle(block).fontSize));

// Text is set smaller until its slide holds it; code and output grow until their slide is full or a line is.
function fit(section) {
  const inside = section.querySelector(".fit");
  for (let size = LARGEST; size > SMALLEST && full(inside); size--) inside.style.fontSize = `${size - 1}px`;
  for (const block of inside.querySelectorAll("pre")) {
    let size = SMALLEST;
    do block.style.setProperty("--size", ++size); while (size < LARGEST && !full(inside) && !wraps(block));
    block.style.setProperty("--size", size - 1);
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

const pictures = [...document.images].map((image) => image.decode().catch(() => {}).then(() => {
  image.classList.toggle("wide", image.naturalWidth > document.body.dataset.wide * image.naturalHeight);
}));
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
