// Makes each slide fit, starts reveal.js, and counts the minutes of an exercise down from a click on its button.
const HEIGHT = 719; // a printed page of 720 loses one
const SMALLEST = 0.55; // of 30 pixels

function fit(section) {
  const inside = section.querySelector(".fit");
  let size = 1;
  while (size > SMALLEST && (inside.scrollHeight > HEIGHT || inside.scrollWidth > inside.clientWidth)) {
    size -= 0.03;
    inside.style.fontSize = `${size}em`;
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
Promise.all([MathJax.startup.promise, ...pictures]).then(() => {
  document.querySelectorAll(".slides section").forEach(fit);
  document.body.classList.remove("fitting");
  document.querySelectorAll(".timer").forEach((button) => button.addEventListener("click", () => count(button)));
  const printing = new URLSearchParams(location.search).has("print-pdf");
  Reveal.on(printing ? "pdf-ready" : "ready", () => { document.body.dataset.ready = "yes"; });
  return Reveal.initialize({
    hash: true, width: 1280, height: 720, margin: 0, center: false, transition: "none", slideNumber: "c/t",
    pdfSeparateFragments: false, pdfMaxPagesPerSlide: 1, plugins: [RevealNotes],
  });
});
