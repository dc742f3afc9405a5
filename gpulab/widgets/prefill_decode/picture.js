/* The roofs of a card in a 16-bit format, and what a forward pass of each phase has under them; two logarithmic axes. */
import { svg } from "../shared/svg.js";
import { three } from "../shared/words.js";
import { PARTS, PHASES, ridge } from "./model.js";

const LEFT = 58, RIGHT = 10, TOP = 28, HEIGHT = 290, BOTTOM = 40, BASE = HEIGHT - BOTTOM;
const INTENSITY = [-0.5, 4.5], SPEED = [10.5, 15.4];
const SPEEDS = [[11, "0.1 T"], [12, "1 T"], [13, "10 T"], [14, "100 T"], [15, "1000 T"]];

const along = (value, [low, high]) => (Math.log10(value) - low) / (high - low);
const x = (value, width) => LEFT + along(value, INTENSITY) * (width - LEFT - RIGHT);
const y = (value) => BASE - along(value, SPEED) * (BASE - TOP);

function axes(width) {
  const nodes = [];
  for (let power = 0; power <= 4; power++) {
    const at = x(10 ** power, width);
    nodes.push(svg("line", { x1: at, x2: at, y1: TOP, y2: BASE, class: "grid" }));
    nodes.push(svg("text", { x: at, y: BASE + 16, class: "middle" }, String(10 ** power)));
  }
  for (const [power, name] of SPEEDS) {
    nodes.push(svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(10 ** power), y2: y(10 ** power), class: "grid" }));
    nodes.push(svg("text", { x: LEFT - 5, y: y(10 ** power) + 5, class: "end" }, name));
  }
  nodes.push(svg("text", { x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 6, class: "middle" }, "FLOP per byte"));
  nodes.push(svg("text", { x: 0, y: 14 }, "FLOP/s, at most"));
  return nodes;
}

function roof(card, width) {
  const low = 10 ** INTENSITY[0], high = 10 ** INTENSITY[1];
  const points = [[low, low * card.bytes_per_s], [ridge(card), card.flops_per_s], [high, card.flops_per_s]];
  return svg("polyline", { points: points.map(([a, b]) => `${x(a, width)},${y(b)}`).join(" "), class: "roof" });
}

export function mark(part, at, r, kind) {
  const { cx, cy } = at, corners = `${cx - r},${cy} ${cx},${cy - r} ${cx + r},${cy} ${cx},${cy + r}`;
  return part === "attention" ? svg("polygon", { points: corners, class: kind }) : svg("circle", { cx, cy, r: r - 1, class: kind });
}

/* `places`: by phase and part, of model.js's place. `cross`: a batch, or null. */
export function rooflinePicture(card, places, phase, cross, width) {
  const said = PARTS.map((part) => `${part} at ${three(places[phase][part].intensity)} FLOP per byte, bound by ${places[phase][part].bound}`);
  const words = `Roofline with its ridge at ${three(ridge(card))} FLOP per byte. In ${phase}, ${said.join("; ")}.`;
  const root = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": words });
  const edge = x(ridge(card), width);
  root.append(...axes(width));
  root.append(svg("line", { x1: edge, x2: edge, y1: y(card.flops_per_s), y2: BASE, class: "ridge" }));
  root.append(svg("text", { x: edge - 6, y: BASE - 26, class: "end name" }, `ridge ${three(ridge(card))}`));
  root.append(svg("text", { x: edge - 6, y: BASE - 8, class: "end name" }, cross ? `decode: batch ${cross}` : "decode: no batch"));
  root.append(roof(card, width));
  for (const one of [...PHASES].sort((a, b) => (a === phase) - (b === phase))) {
    for (const part of PARTS) {
      const { intensity, attainable } = places[one][part], at = { cx: x(intensity, width), cy: y(attainable) };
      root.append(mark(part, at, 8, one === phase ? `point ${one} here` : `point ${one}`));
    }
  }
  return root;
}
