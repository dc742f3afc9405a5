/* Layers over all-reduces in time; and below, what the step takes at every bucket size. */
import { svg } from "../shared/svg.js";

const BAR = 30, COMPUTE = 24, NETWORK = 92, HEIGHT = 152;
const U = { left: 68, right: 14, top: 24, bottom: 44, height: 220 };

const short = (number) => Number(number.toPrecision(3));
export const micros = (us) => (us < 999.5 ? `${short(us)} µs` : `${short(us / 1e3)} ms`);
const parity = (index) => (index % 2 ? "odd" : "even");

function bars(found, job, x) {
  const nodes = [];
  let layer = 0;
  found.sent.forEach(({ layers, ready_us, start_us, end_us }, k) => {
    for (let i = 0; i < layers; i++, layer++) {
      const at = x(layer * job.layer_us), width = x((layer + 1) * job.layer_us) - at;
      nodes.push(svg("rect", { x: at, y: COMPUTE, width, height: BAR, class: `layer ${parity(k)}${width < 3 ? " thin" : ""}` }));
    }
    nodes.push(svg("line", { x1: x(ready_us), y1: COMPUTE + BAR, x2: x(start_us), y2: NETWORK, class: "leaves" }));
    const width = Math.max(1, x(end_us) - x(start_us));
    nodes.push(svg("rect", { x: x(start_us), y: NETWORK, width, height: BAR, class: `sent ${parity(k)}` }));
  });
  return nodes;
}

/* `end`: microseconds at the right edge, the same for every bucket size. */
export function timeline(found, job, end, width) {
  const x = (us) => 1 + (us / end) * (width - 2);
  const words = `${found.sent.length} all-reduces. The backward pass ends after ${micros(found.backward_us)}, `
    + `the last all-reduce after ${micros(found.step_us)}.`;
  const root = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": words, class: "timeline" });
  const from = x(found.backward_us), to = x(found.step_us);
  root.append(svg("rect", { x: from, y: COMPUTE - 6, width: to - from, height: NETWORK + BAR + 6 - COMPUTE + 6, class: "exposed" }));
  root.append(...bars(found, job, x));
  root.append(svg("text", { x: 0, y: 14 }, "backward pass, layer after layer"));
  root.append(svg("text", { x: 0, y: NETWORK - 8, class: "over" }, "all-reduces"));
  root.append(svg("line", { x1: from, x2: from, y1: COMPUTE - 6, y2: NETWORK + BAR + 6, class: "edge" }));
  if (to - from > 62) root.append(svg("text", { x: (from + to) / 2, y: COMPUTE + 20, class: "middle" }, "exposed"));
  const near = to > width - 70;
  root.append(svg("text", { x: 0, y: HEIGHT - 4 }, "0"));
  root.append(svg("text", { x: near ? width : to, y: HEIGHT - 4, class: near ? "end" : "middle" }, micros(found.step_us)));
  return root;
}

/* Where numbers stand along the axis: not closer to each other than they are wide. */
function ticks(sizes, x) {
  const shown = [];
  for (const one of sizes) {
    const power = Number.isInteger(Math.log2(one.layers));
    if ((power || one === sizes[sizes.length - 1]) && (!shown.length || x(one.layers) - x(shown[shown.length - 1].layers) > 26)) shown.push(one);
  }
  return shown;
}

/* `sizes`: of model.js's sweep. `found`: at the reader's size, of `now` layers. */
export function curve(sizes, found, now, best, mib, width) {
  const highest = Math.max(...sizes.map((one) => one.step_us)), many = Math.log2(Math.max(2, sizes.length));
  const x = (layers) => U.left + (Math.log2(layers) / many) * (width - U.left - U.right);
  const y = (us) => U.height - U.bottom - (us / highest) * (U.height - U.bottom - U.top);
  const words = `The step takes ${micros(found.step_us)} with buckets of ${now * mib} MiB, `
    + `and ${micros(best.step_us)} at best, with ${best.layers * mib} MiB.`;
  const root = svg("svg", { viewBox: `0 0 ${width} ${U.height}`, role: "img", "aria-label": words, class: "curve" });
  const base = U.height - U.bottom;
  for (const us of [0, highest]) {
    root.append(svg("line", { x1: U.left, x2: width - U.right, y1: y(us), y2: y(us), class: "grid" }));
    root.append(svg("text", { x: U.left - 6, y: y(us) + 5, class: "end" }, us ? micros(us) : "0"));
  }
  for (const { layers } of ticks(sizes, x)) root.append(svg("text", { x: x(layers), y: base + 18, class: "middle" }, String(layers * mib)));
  root.append(svg("text", { x: (U.left + width - U.right) / 2, y: U.height - 5, class: "middle" }, "bucket size in MiB"));
  root.append(svg("text", { x: 0, y: 13 }, "step"));
  const floor = y(found.backward_us);
  root.append(svg("line", { x1: U.left, x2: width - U.right, y1: floor, y2: floor, class: "floor" }));
  root.append(svg("text", { x: U.left + 6, y: floor + 16 }, "backward pass"));
  root.append(svg("line", { x1: x(now), x2: x(now), y1: floor, y2: y(found.step_us), class: "exposure" }));
  root.append(svg("polyline", { points: sizes.map((one) => `${x(one.layers)},${y(one.step_us)}`).join(" "), class: "steps" }));
  for (const one of sizes) root.append(svg("circle", { cx: x(one.layers), cy: y(one.step_us), r: 2.5, class: "size" }));
  root.append(svg("circle", { cx: x(now), cy: y(found.step_us), r: 7, class: "here" }));
  return root;
}
