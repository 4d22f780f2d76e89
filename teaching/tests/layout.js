// Of an open deck: [the text of each slide, {what is wrong: the number of the first slide where it is}]. In the notes a
// formula must not show twice, and long code must wrap. The room's last row reads letters of 24 pixels of a slide's 720.
() => {
const drawn = (image) => {  // the smallest letters of an explorable's picture
  const sizes = [...atob(image.src.split(",")[1]).matchAll(/font-size="(.+?)"/g)].map((match) => +match[1]);
  const shares = [image.clientWidth / image.naturalWidth, image.clientHeight / image.naturalHeight];
  return Math.min(...sizes) * Math[getComputedStyle(image).objectFit === "cover" ? "max" : "min"](...shares);
};
const text = (e) => !e.closest("svg") && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
const size = (e) => parseFloat(getComputedStyle(e).fontSize), wrong = {};
const slides = [...document.querySelectorAll(".slides section")].map((section, k) => {
  Reveal.slide(k);
  const frame = section.getBoundingClientRect(), scale = Reveal.getScale(), inside = section.querySelector(".fit");
  const read = (e) => !e.closest("mjx-assistive-mml") && e.getClientRects().length;
  const all = [...inside.querySelectorAll("*")].filter(read), boxes = all.map((e) => e.getBoundingClientRect());
  const notes = section.querySelector("aside.notes");
  const faults = {
    "too wide": Math.max(...boxes.map((box) => box.right - frame.left)) / scale > 1280,
    "too high": Math.max(...boxes.map((box) => box.bottom - frame.top)) / scale > 720,
    "small letters": Math.min(
      ...[...all.filter(text), document.querySelector(".slide-number")].map(size),
      ...[...inside.querySelectorAll("img[src^='data:']")].map(drawn),
    ) < 24,
    "a picture without words": inside.querySelector("img:not([alt]), img[alt='']"),
    "notes on the slide": notes?.getClientRects().length,
    "formulas twice in notes": notes?.querySelector("mjx-assistive-mml"),
    "code cut off in notes": [...notes?.querySelectorAll("pre") ?? []].some((e) => e.style.whiteSpace !== "pre-wrap"),
    "arrows over it": document.querySelector(".reveal .controls")?.getClientRects().length,
  };
  for (const [name, there] of Object.entries(faults)) if (there) wrong[name] ??= k + 1;
  return inside.textContent;
});
return [slides, wrong];
}
