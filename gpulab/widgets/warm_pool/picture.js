/* Two lines over the seconds: what is at work or waits, and the pool's size. */
import { svg } from "../shared/svg.js";

export const HEIGHT = 190;
const BASE = 160, TOP = 12, LEFT = 30;

const steps = (values, x, y) => values.map((value, i) => `${x(i)},${y(value)} ${x(i + 1)},${y(value)}`).join(" ");

/* Of so many seconds that share a dot the largest value is drawn. */
function thinned(values, width) {
  const each = Math.max(1, Math.ceil(values.length / width));
  return Array.from({ length: Math.ceil(values.length / each) }, (_, i) => Math.max(...values.slice(i * each, (i + 1) * each)));
}

export function poolPicture(found, size, settle, width) {
  const most = Math.max(...found.sizes, size, 1), seconds = found.sizes.length, long = width - LEFT - 4;
  const y = (value) => BASE - ((BASE - TOP) * value) / most;
  const sizes = thinned(found.sizes, long), needs = thinned(found.needs, long);
  const x = (i) => LEFT + (long * i) / sizes.length;
  const words = `Over ${seconds} seconds up to ${Math.max(...found.needs)} requests are at work or wait; the pool has up to ${Math.max(...found.sizes)} `
    + `instances. The fixed pool has ${size}.`;
  const root = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": words });
  root.append(svg("rect", { x: LEFT, y: TOP, width: (long * settle) / seconds, height: BASE - TOP, class: "settle" }));
  root.append(svg("polygon", { points: `${LEFT},${BASE} ${steps(needs, x, y)} ${LEFT + long},${BASE}`, class: "needs" }));
  root.append(svg("polyline", { points: steps(sizes, x, y), class: "sizes" }));
  root.append(svg("line", { x1: LEFT, x2: LEFT + long, y1: y(size), y2: y(size), class: "fixed" }));
  root.append(svg("line", { x1: LEFT, x2: LEFT + long, y1: BASE, y2: BASE, class: "axis" }));
  root.append(svg("text", { x: LEFT - 6, y: TOP + 10, class: "end" }, String(most)), svg("text", { x: LEFT - 6, y: BASE, class: "end" }, "0"));
  root.append(svg("text", { x: LEFT, y: BASE + 18 }, "0 s"), svg("text", { x: LEFT + long, y: BASE + 18, class: "end" }, `${seconds} s`));
  return root;
}
