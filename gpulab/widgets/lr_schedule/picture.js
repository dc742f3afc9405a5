/* The rate over the steps, and thin behind it what it should be. */
import { svg } from "../shared/svg.js";

const LEFT = 58, RIGHT = 20, TOP = 24, HEIGHT = 210, BOTTOM = 40;
export const power = (value) => (value === 0 ? "0" : value.toExponential(1).replace(".0e", "e"));

export function ratePicture(found, due, peak, warm, width, words) {
  const steps = found.length, x = (step) => LEFT + (step / steps) * (width - LEFT - RIGHT);
  const y = (rate) => TOP + (1 - rate / peak) * (HEIGHT - TOP - BOTTOM);
  const root = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": words });
  for (const part of [0, 0.5, 1]) {
    root.append(svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(part * peak), y2: y(part * peak), class: "grid" }),
      svg("text", { x: LEFT - 6, y: y(part * peak) + 4, class: "end" }, power(part * peak)));
  }
  for (let step = 0; step <= steps; step += 250) root.append(svg("text", { x: x(step), y: HEIGHT - BOTTOM + 17, class: "middle" }, String(step)));
  root.append(svg("text", { x: (LEFT + width) / 2, y: HEIGHT - 6, class: "middle" }, "optimizer step"), svg("text", { x: 0, y: 12 }, "learning rate"));
  const line = (values, kind) => svg("polyline", { points: values.map((value, step) => `${x(step + 0.5).toFixed(1)},${y(value).toFixed(1)}`).join(" "), class: kind });
  if (warm) root.append(svg("rect", { x: x(0), y: TOP, width: x(warm) - x(0), height: HEIGHT - TOP - BOTTOM, class: "warm" }));
  root.append(line(due, "due"), line(found, "rate"));
  return root;
}
