// Of an open deck: [the text of each slide, {what is wrong: the number of the first slide where it is}]. In the notes a
// formula must not show twice, and long code must wrap. The room's last row reads letters of 24 pixels of a slide's 720.
async () => {
const drawn = (image) => {  // the smallest letters of an explorable's picture
  const sizes = [...atob(image.src.split(",")[1]).matchAll(/font-size="(.+?)"/g)].map((match) => +match[1]);
  const shares = [image.clientWidth / image.naturalWidth, image.clientHeight / image.naturalHeight];
  return Math.min(...sizes) * Math[getComputedStyle(image).objectFit === "cover" ? "max" : "min"](...shares);
};
const text = (e) => !e.closest("svg") && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
const size = (e) => parseFloat(getComputedStyle(e).fontSize), wrong = {};
const alive = (frame) => {  // the smallest letters of an explorable that moves, and whether it is cut off
  const share = frame.getBoundingClientRect().width / Reveal.getScale() / frame.offsetWidth, { body } = frame.contentDocument;
  const written = [...body.querySelectorAll("main :not(style, .unseen)")].filter((e) => e.checkVisibility()
    && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()));
  return { letters: share * Math.min(...written.map(size)), cut: body.scrollHeight > frame.offsetHeight + 1 };
};
const slides = [];
for (const [k, section] of document.querySelectorAll(".slides section").entries()) {
  Reveal.slide(k);
  const moves = section.querySelector("iframe");
  while (moves && !moves.dataset.fits) await new Promise((done) => setTimeout(done, 50));
  const frame = section.getBoundingClientRect(), scale = Reveal.getScale(), inside = section.querySelector(".fit");
  const read = (e) => !e.closest("mjx-assistive-mml") && e.getClientRects().length;
  const all = [...inside.querySelectorAll("*")].filter(read), boxes = all.map((e) => e.getBoundingClientRect());
  const notes = section.querySelector("aside.notes");
  const faults = {
    "too wide": Math.max(...boxes.map((box) => box.right - frame.left)) / scale > 1280,
    "too high": Math.max(...boxes.map((box) => box.bottom - frame.top)) / scale > 720,
    "small letters": Math.min(
      ...[...all.filter(text), document.querySelector(".slide-number")].map(size),
      ...[...inside.querySelectorAll("img[src^='data:']")].filter(read).map(drawn),
    ) < 24,
    "an explorable with small letters": moves && alive(moves).letters < 19.9, // 24, where so many find room
    "an explorable cut off": moves && alive(moves).cut,
    "a picture without words": inside.querySelector("img:not([alt]), img[alt='']"),
    "notes on the slide": notes?.getClientRects().length,
    "formulas twice in notes": notes?.querySelector("mjx-assistive-mml"),
    "code cut off in notes": [...notes?.querySelectorAll("pre") ?? []].some((e) => e.style.whiteSpace !== "pre-wrap"),
    "arrows over it": document.querySelector(".reveal .controls")?.getClientRects().length,
  };
  for (const [name, there] of Object.entries(faults)) if (there) wrong[name] ??= k + 1;
  slides.push(inside.textContent);
}
return [slides, wrong];
}
