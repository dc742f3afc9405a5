/* Four charts of a run, one above the other, with one cursor through all. */
import { svg } from "../shared/svg.js";
import { missing, octaves, pieces } from "./model.js";

const LEFT = 52, RIGHT = 16, TOP = 24, GAP = 32, FOOT = 34;
const PANELS = [{ key: "loss", height: 140 }, { key: "norm", height: 90 }, { key: "lr", height: 56 }, { key: "scale", height: 56 }];
const TITLES = { loss: "loss: of each batch, and (thick) held out", norm: "gradient norm, before clipping", lr: "learning rate", scale: "loss scale" };
const superscript = (power) => [...String(power)].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]).join("");

export const HEIGHT = PANELS.reduce((sum, { height }) => sum + height + GAP, TOP - GAP + FOOT);

/* How a number becomes a height between 0 and 1, and the marks of the axis. */
function axis(key, values, most) {
  if (key === "loss") return { at: (value) => Math.min(1, value / most), marks: Array.from({ length: most / 2 + 1 }, (_, i) => [2 * i, String(2 * i)]) };
  if (key === "lr") {
    const top = Math.max(...values), power = Math.floor(Math.log10(top));
    return { at: (value) => value / (1.05 * top), marks: [[0, "0"], [top, `${+(top / 10 ** power).toFixed(1)}·10${superscript(power)}`]] };
  }
  const base = key === "norm" ? 10 : 2, [low, high] = octaves(values, base), every = Math.ceil((high - low) / 3);
  const marks = Array.from({ length: Math.floor((high - low) / every) + 1 }, (_, i) => low + i * every);
  return { at: (value) => (Math.log(value) / Math.log(base) - low) / (high - low), marks: marks.map((power) => [base ** power, `${base}${superscript(power)}`]) };
}

export function charts(run, step, width, most, words) {
  const steps = run.loss.length, x = (at) => LEFT + (at / steps) * (width - LEFT - RIGHT);
  const root = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": words });
  let top = TOP;
  for (const { key, height } of PANELS) {
    const { at, marks } = axis(key, run[key], most), y = (value) => top + height * (1 - at(value));
    root.append(svg("text", { x: 0, y: top - 10, class: "title" }, TITLES[key]));
    for (const [value, text] of marks) {
      root.append(svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value), class: "grid" }), svg("text", { x: LEFT - 6, y: y(value) + 4, class: "end" }, text));
    }
    const line = (points, kind) => svg("polyline", { points: points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" "), class: kind });
    for (const piece of pieces(run[key])) root.append(piece.length > 1 ? line(piece, key) : svg("circle", { cx: x(piece[0][0]), cy: y(piece[0][1]), r: 1.2, class: "dot" }));
    if (key === "loss") root.append(line(run.held_out.filter(([, value]) => value !== null), "held"));
    for (const gone of missing(run[key])) root.append(svg("line", { x1: x(gone), x2: x(gone), y1: top, y2: top + 7, class: "gone" }));
    top += height + GAP;
  }
  const bottom = top - GAP;
  for (let mark = 0; mark <= steps; mark += 50) root.append(svg("text", { x: x(mark), y: bottom + 16, class: "middle" }, String(mark)));
  root.append(svg("text", { x: (LEFT + width) / 2, y: bottom + 31, class: "middle" }, "step"), svg("line", { x1: x(step), x2: x(step), y1: TOP - 4, y2: bottom, class: "cursor" }));
  return root;
}

/* The step under a pointer. */
export function stepAt(picture, event, steps) {
  const box = picture.getBoundingClientRect();
  const at = Math.floor(((event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT)) * steps);
  return Math.max(0, Math.min(steps - 1, at));
}
