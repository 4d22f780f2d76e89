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

const drawn = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))));
const SHARES = [1.4, 1.25, 1.1, 1, 0.9, 0.8]; // pixels of a slide for one of what is alive on it
const WIDE = [16, 20, 24]; // letters beside its picture
const AREAS = [ // where its picture, its controls, its sentence and the question stand
  "'ask ask' 'show say' 'show set' 1fr", "'show ask' 'show say' 'show set' 1fr",
  "'ask ask' 'show set' 'say set' 1fr", "'show ask' 'show set' 'say set' 1fr",
];

// What is alive is set as large as its slide holds, with letters for the last row; tried when it is first seen. The
// question goes with it, since beside its picture is often room.
async function enliven(frame) {
  if (frame.begun) return; // a deck that opens on its slide asks twice, and two would spoil each other's tries
  frame.begun = true;
  while (!frame.contentDocument?.querySelector(".ln")) await new Promise((done) => setTimeout(done, 50)); // not loaded yet
  const { contentWindow: inside, contentDocument: { head, body } } = frame;
  const words = frame.closest(".fit").querySelector(".words");
  words?.querySelectorAll("svg").forEach((svg) => { svg.style.cssText += `display: inline; width: ${svg.getAttribute("width")}`; });
  head.append(document.getElementById("MJX-SVG-styles").cloneNode(true));
  const whole = body.querySelector(".whole");
  if (words && whole) whole.append(words); // last: a module looks for the first picture in it
  else if (words) body.prepend(words);
  const { offsetWidth, offsetHeight } = frame.parentElement;
  const cut = ({ scrollWidth, clientWidth }) => scrollWidth > clientWidth;
  const holds = (share, areas) => {
    body.style.setProperty("--areas", areas);
    return body.scrollHeight * share <= offsetHeight && ![body, ...body.querySelectorAll(".track label")].some(cut);
  };
  const fits = async (letters, share, wide) => {
    Object.assign(frame.style, { width: `${offsetWidth / share}px`, height: `${offsetHeight / share}px`, transform: `scale(${share})` });
    body.style = `--letters: ${letters / share}px; --wide: ${wide}`;
    await drawn();
    return AREAS.some((areas) => holds(share, areas));
  };
  const sizes = [SMALLEST, 22, 20].flatMap((letters) => SHARES.flatMap((share) => WIDE.map((wide) => [letters, share, wide])));
  await drawn(); // once it is in sight
  for (const size of sizes) if (await fits(...size) && await fits(...size)) break; // and still when all is drawn
  frame.dataset.fits = "yes";
  inside.addEventListener("keydown", (event) => {
    const leads = /^(Page(Up|Down)|Escape)$/.test(event.key); // a clicker's keys lead on in any case
    if (!leads && event.target.closest(".ln *")) return; // a control that has the focus keeps its keys
    event.stopPropagation();
    focus();
    if (event.key !== "Escape") document.dispatchEvent(new KeyboardEvent("keydown", event));
  }, true);
}

const pictures = [...document.images].map((image) => image.decode().catch(() => {}).then(() => {
  image.classList.toggle("wide", image.naturalWidth > document.body.dataset.wide * image.naturalHeight);
}));
const printing = new URLSearchParams(location.search).has("print-pdf");
document.body.classList.toggle("printing", printing);
const only = (selector, change) => document.querySelectorAll(`aside.notes ${selector}`).forEach(change);
Promise.all([MathJax.startup.promise, ...pictures]).then(() => {
  document.querySelectorAll(".slides section").forEach(fit);
  only("mjx-assistive-mml", (formula) => formula.remove()); // the speaker's view would show each formula twice
  only("pre", (block) => { Object.assign(block.style, { whiteSpace: "pre-wrap", fontSize: "0.65em" }); }); // nor has it the styles of this page
  document.body.classList.remove("fitting");
  document.querySelectorAll(".timer").forEach((button) => button.addEventListener("click", () => count(button)));
  const seen = ({ currentSlide }) => currentSlide.querySelectorAll(".alive iframe").forEach(enliven);
  if (!printing) for (const event of ["ready", "slidechanged"]) Reveal.on(event, seen);
  Reveal.on(printing ? "pdf-ready" : "ready", () => { document.body.dataset.ready = "yes"; });
  return Reveal.initialize({
    hash: true, width: 1280, height: 720, margin: 0, center: false, transition: "none", slideNumber: "c/t", controls: false,
    pdfSeparateFragments: false, pdfMaxPagesPerSlide: 1, plugins: [RevealNotes],
  });
});
