// Prints the first picture of an explorable for a slide, as SVG: node frame.mjs NAME STATE_AS_JSON WIDE
const modules = "../../lessons_src/lessonkit/explore";
const [name, state, wide] = process.argv.slice(2);
const { enlarged } = await import(`${modules}/host.mjs`);
const { still } = await import(`${modules}/${name}.mjs`);

const LEAST = 24; // pixels of letters, of a slide's 720
// Pixels that a picture can fill: a wide one has the slide for itself, others have words beside them (theme/deck.css).
const room = (width, height) => (width > wide * height ? [1192, 580] : [690, 600]);

/** The picture with letters of this size, and how many pixels one of its pixels has on the slide. */
function drawn(size) {
  const picture = enlarged(size, () => still(JSON.parse(state)));
  const [width, height] = picture.match(/viewBox="\S+ 0 (\S+) (\S+)"/).slice(1).map(Number);
  const [across, down] = room(width, height);
  return { picture, share: Math.min(across / width, down / height) };
}
let size = 12;
let frame = drawn(size);
while (size * frame.share < LEAST) frame = drawn(++size);
process.stdout.write(frame.picture);
