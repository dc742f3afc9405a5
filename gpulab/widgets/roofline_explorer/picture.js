/* A card's roofs and one operation under them, as SVG with two logarithmic axes. */

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 62, RIGHT = 12, TOP = 20, WIDTH = 640, HEIGHT = 280, BOTTOM = 40;
const INTENSITY = [-2, 4], SPEED = [9, 15.4];
const UNIT = { 9: "1 GFLOP/s", 12: "1 TFLOP/s", 15: "1 PFLOP/s" };

function svg(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

const x = (value) => LEFT + ((Math.log10(value) - INTENSITY[0]) / (INTENSITY[1] - INTENSITY[0])) * (WIDTH - LEFT - RIGHT);
const y = (value) => HEIGHT - BOTTOM - ((Math.log10(value) - SPEED[0]) / (SPEED[1] - SPEED[0])) * (HEIGHT - BOTTOM - TOP);

function axes() {
  const nodes = [];
  for (let power = INTENSITY[0]; power <= INTENSITY[1]; power++) {
    nodes.push(svg("line", { x1: x(10 ** power), x2: x(10 ** power), y1: TOP, y2: HEIGHT - BOTTOM, class: "grid" }));
    const side = power === INTENSITY[1] ? "end" : "middle";
    nodes.push(svg("text", { x: x(10 ** power), y: HEIGHT - BOTTOM + 16, class: side }, String(10 ** power)));
  }
  for (const [power, name] of Object.entries(UNIT)) {
    nodes.push(svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(10 ** power), y2: y(10 ** power), class: "grid" }));
    nodes.push(svg("text", { x: LEFT - 4, y: y(10 ** power) + 4, class: "end" }, name.replace("FLOP/s", "")));
  }
  nodes.push(svg("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 6, class: "middle" }, "FLOP per byte"));
  nodes.push(svg("text", { x: 0, y: 12 }, "FLOP/s"));
  return nodes;
}

function roof(card, peak, kind) {
  const low = 10 ** INTENSITY[0], high = 10 ** INTENSITY[1], meet = peak / card.bytes_per_s;
  const points = [[low, low * card.bytes_per_s], [meet, peak], [high, peak]];
  return svg("polyline", { points: points.map(([a, b]) => `${x(a)},${y(b)}`).join(" "), class: `roof ${kind}` });
}

/* Names at the right end: over the highest roof, under the others, one beside the other. */
function names(roofs) {
  const peaks = [...new Set(Object.values(roofs))].sort((a, b) => b - a);
  return peaks.map((peak, i) => svg("text", { x: WIDTH - RIGHT - 74 * i, y: y(peak) + (i ? 15 : -5), class: "end" },
    Object.keys(roofs).filter((name) => roofs[name] === peak).join(", ")));
}

/* `roofs`: peaks by name; `under`: the name of the one over the operation. */
export function rooflinePicture(card, roofs, under, at) {
  const words = `${at.intensity.toPrecision(3)} FLOP per byte, ridge at ${at.ridge.toPrecision(3)}: bound by ${at.bound}.`;
  const root = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": words });
  root.append(...axes());
  for (const [name, peak] of Object.entries(roofs)) root.append(roof(card, peak, name === under ? "over" : ""));
  root.append(...names(roofs));
  root.append(svg("line", { x1: x(at.ridge), x2: x(at.ridge), y1: y(at.peak), y2: HEIGHT - BOTTOM, class: "ridge" }));
  root.append(svg("text", { x: x(at.ridge) + 5, y: HEIGHT - BOTTOM - 8 }, `ridge ${at.ridge.toPrecision(3)}`));
  root.append(svg("circle", { cx: x(at.intensity), cy: y(at.attainable), r: 7, class: "here" }));
  return root;
}
