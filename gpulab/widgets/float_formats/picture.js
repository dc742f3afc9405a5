/* Magnitudes by octave, over the bands of what the format makes of them. */
import { fate, largest, least, leastNormal, octaves } from "./model.js";

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 8, RIGHT = 8, TOP = 24, WIDTH = 640, HEIGHT = 230, BOTTOM = 44;
const LOW = -72, HIGH = 24;

function svg(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

const clamp = (octave) => Math.min(HIGH, Math.max(LOW, octave));
const x = (octave) => LEFT + ((clamp(octave) - LOW) / (HIGH - LOW)) * (WIDTH - LEFT - RIGHT);
const superscript = (power) => [...String(power)].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]).join("");

function bands(f) {
  const zero = Math.log2(least(f)) - 1, normal = Math.log2(leastNormal(f)), over = Math.log2(largest(f));
  return [["zero", LOW, zero], ["subnormal", zero, normal], ["normal", normal, over], ["too large", over, HIGH]]
    .filter(([, from, to]) => clamp(to) > clamp(from))
    .flatMap(([name, from, to]) => {
      const node = svg("rect", { x: x(from), y: TOP, width: x(to) - x(from), height: HEIGHT - TOP - BOTTOM, class: `band ${name.replace(" ", "-")}` });
      const room = x(to) - x(from) > 7.5 * name.length;
      return room ? [node, svg("text", { x: (x(from) + x(to)) / 2, y: TOP - 8, class: "middle" }, name)] : [node];
    });
}

function axis(label) {
  const nodes = [svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM, class: "axis" })];
  for (let power = LOW + 8; power < HIGH; power += 8) {
    nodes.push(svg("text", { x: x(power), y: HEIGHT - BOTTOM + 17, class: "middle" }, `2${superscript(power)}`));
  }
  nodes.push(svg("text", { x: WIDTH / 2, y: HEIGHT - 8, class: "middle" }, label));
  return nodes;
}

/* `number`: the magnitude in the box, or null. */
export function histogramPicture(f, histogram, edges, moved, number, label, words) {
  const root = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": words });
  const sums = octaves(histogram, edges), most = Math.max(...sums), room = HEIGHT - TOP - BOTTOM;
  root.append(...bands(f));
  sums.forEach((count, i) => {
    const octave = histogram.first + i + moved;
    if (!count || octave < LOW || octave >= HIGH) return;
    const height = Math.max(1, (count / most) * (room - 4));
    root.append(svg("rect", { x: x(octave), y: HEIGHT - BOTTOM - height, width: x(octave + 1) - x(octave) - 1, height, class: `bar ${fate(f, 1.5 * 2 ** octave)}` }));
  });
  if (number) {
    const at = x(Math.log2(number));
    root.append(svg("line", { x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM, class: "here" }));
  }
  root.append(...axis(label));
  return root;
}
