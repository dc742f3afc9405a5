/* Who works when, and what each stage allows. */
import { svg } from "../shared/svg.js";
import { three } from "../shared/words.js";

const T = { left: 74, lane: 22, gap: 5, top: 20, bottom: 24, lanes: 6 };
const B = { left: 120, bar: 20, gap: 7, top: 4, right: 78 };

export const BARS = 6;
export const heightOfLanes = () => T.top + (T.lanes + 1) * (T.lane + T.gap) + T.bottom;
export const heightOfBars = () => B.top + BARS * (B.bar + B.gap);

function block(x, y, width, kind, number) {
  const nodes = [svg("rect", { x, y, width: Math.max(0.5, width), height: T.lane, class: kind })];
  if (width > 22) nodes.push(svg("text", { x: x + width / 2, y: y + 16, class: "within" }, String(number + 1)));
  return nodes;
}

/* The first turns, as long as the last of `shown` takes. Workers beyond the sixth are not drawn. */
export function lanesPicture(turns, loader, shown, width) {
  const first = turns.slice(0, shown), end = first.at(-1).ended, height = heightOfLanes();
  const x = (ms) => T.left + (ms / end) * (width - T.left - 4), y = (lane) => T.top + lane * (T.lane + T.gap);
  const lanes = Math.min(T.lanes, Math.max(1, loader.workers)), device = T.lanes;
  const gaps = first.map((turn, i) => [i ? first[i - 1].ended : 0, turn.started]);
  const waiting = gaps.reduce((all, [from, to]) => all + to - from, 0);
  const words = `The first ${shown} batches take ${Math.round(end)} ms; for ${Math.round(waiting)} of them no step runs.`;
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words, class: "lanes" });
  root.append(svg("text", { x: 0, y: 13 }, loader.workers ? "who makes batch 1, 2, 3 …" : "the loop makes its batches itself"));
  for (let lane = 0; lane < lanes; lane += 1) {
    root.append(svg("text", { x: 0, y: y(lane) + 16 }, loader.workers ? `worker ${lane}` : "loop"));
  }
  if (loader.workers > T.lanes) root.append(svg("text", { x: width, y: 13, class: "end" }, `${loader.workers - T.lanes} more not drawn`));
  turns.forEach((turn, number) => {
    const lane = Math.max(0, turn.worker);
    if (lane < lanes && turn.begun < end) root.append(...block(x(turn.begun), y(lane), x(Math.min(end, turn.ready)) - x(turn.begun), "made", number));
  });
  root.append(svg("text", { x: 0, y: y(device) + 16 }, "device"));
  for (const [from, to] of gaps) root.append(svg("rect", { x: x(from), y: y(device), width: x(to) - x(from), height: T.lane, class: "gap" }));
  first.forEach((turn, number) => root.append(...block(x(turn.started), y(device), x(turn.ended) - x(turn.started), "step", number)));
  root.append(svg("text", { x: T.left, y: height - 5 }, "0"), svg("text", { x: width - 2, y: height - 5, class: "end" }, `${Math.round(end)} ms`));
  return root;
}

const said = (value) => (Number.isFinite(value) ? `${three(value)} / s` : "not used");

/* `limits`: of model.js's bounds; `low`: the least of them. Bars end at three times the least. */
export function barsPicture(limits, low, reached, width) {
  const most = 3 * low[1], x = (value) => Math.min(value, most) / most * (width - B.left - B.right);
  const words = `${limits.map(([name, value]) => `${name}: ${said(value)}`).join(", ")}. Reached: ${said(reached)}.`;
  const root = svg("svg", { viewBox: `0 0 ${width} ${heightOfBars()}`, role: "img", "aria-label": words, class: "bars" });
  limits.forEach(([name, value], i) => {
    const y = B.top + i * (B.bar + B.gap);
    root.append(svg("text", { x: 0, y: y + 15 }, name));
    root.append(svg("rect", { x: B.left, y, width: x(value), height: B.bar, class: name === low[0] ? "bound least" : "bound" }));
    root.append(svg("text", { x: width, y: y + 15, class: "end" }, said(value)));
  });
  const at = B.left + x(reached), bottom = B.top + limits.length * (B.bar + B.gap) - B.gap;
  root.append(svg("line", { x1: at, x2: at, y1: B.top - 3, y2: bottom + 3, class: "reached" }));
  return root;
}
