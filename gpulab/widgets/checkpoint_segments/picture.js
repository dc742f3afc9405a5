/* What is held through the step; the chain of layers at one moment of it; and the peak by the number of segments. */
import { svg } from "../shared/svg.js";
import { checkpointed, duration, passes, segmentsOf } from "./model.js";

const H = { left: 76, right: 10, top: 42, bottom: 40, height: 240 };
const C = { box: 26, top: 14, height: 62 };
const U = { left: 76, right: 14, top: 26, bottom: 44, height: 230 };

const MIB = 2 ** 20;
export const amount = (bytes) => (bytes < 10000 * MIB ? `${bytes / MIB} MiB` : `${(bytes / 1024 / MIB).toFixed(1)} GiB`);

/* A stair: what is held lasts through the next turn. */
function stair(turns, x, y) {
  const points = [[0, 0]];
  let at = 0, held = 0;
  for (const turn of turns) {
    at += duration(turn);
    points.push([at, held], [at, turn.held]);
    held = turn.held;
  }
  return points.map(([when, bytes]) => `${x(when)},${y(bytes)}`).join(" ");
}

const endOf = (turns, at) => turns.slice(0, at + 1).reduce((all, turn) => all + duration(turn), 0);

/* Turns of one kind in a row, as one strip below the axis. */
function strips(turns, x, top) {
  const nodes = [];
  let at = 0, begun = 0;
  turns.forEach((turn, i) => {
    at += duration(turn);
    if (turns[i + 1]?.phase === turn.phase) return;
    const height = turn.phase === "recompute" ? 12 : 6;
    nodes.push(svg("rect", { x: x(begun), y: top, width: x(at) - x(begun), height, class: `strip ${turn.phase}` }));
    begun = at;
  });
  return nodes;
}

/* The axis, from nothing to what is held without checkpointing. */
function scale(whole, box, y, width) {
  return [0, whole].flatMap((bytes) => [
    svg("line", { x1: box.left, x2: width - box.right, y1: y(bytes), y2: y(bytes), class: "grid" }),
    svg("text", { x: box.left - 6, y: y(bytes) + 5, class: "end" }, bytes ? amount(bytes) : "0"),
  ]);
}

/* `most`: the turn at the peak. `at`: the turn that is over. The axis has room for a step that recomputes every layer. */
export function heldPicture(job, turns, most, at, width) {
  const whole = job.layers * job.layer_bytes, base = H.height - H.bottom;
  const x = (time) => H.left + (time / (4 * job.layers)) * (width - H.left - H.right);
  const y = (bytes) => base - (bytes / whole) * (base - H.top);
  const words = `Held through the step: ${amount(most.held)} at the peak, ${amount(turns[at].held)} now; `
    + `${amount(whole)} at the peak without checkpointing.`;
  const root = svg("svg", { viewBox: `0 0 ${width} ${H.height}`, role: "img", "aria-label": words, class: "through" });
  root.append(...scale(whole, H, y, width));
  root.append(svg("polygon", { points: stair(turns, x, y), class: "area" }));
  root.append(svg("polyline", { points: stair(passes({ ...job, segments: 1, last: false }), x, y), class: "plain" }));
  root.append(svg("polyline", { points: stair(turns, x, y), class: "held" }));
  root.append(...strips(turns, x, base + 5));
  const now = x(endOf(turns, at)), top = x(endOf(turns, turns.indexOf(most)));
  root.append(svg("line", { x1: H.left, x2: top, y1: y(most.held), y2: y(most.held), class: "level" }));
  root.append(svg("line", { x1: now, x2: now, y1: H.top, y2: base + 17, class: "cursor" }));
  root.append(svg("circle", { cx: now, cy: y(turns[at].held), r: 6, class: "here" }));
  root.append(svg("text", { x: 0, y: 14 }, "held for the backward pass"));
  root.append(svg("text", { x: H.left + 4, y: y(most.held) - 7, class: "name" }, `peak: ${amount(most.held)}`));
  root.append(svg("text", { x: x(0), y: H.height - 5 }, "forward"));
  const twice = job.segments > 1 || job.last;
  root.append(svg("text", { x: x(job.layers) + 4, y: H.height - 5 }, twice ? "backward and recomputation" : "backward"));
  return root;
}

function diamond(x, y, r, held) {
  return svg("polygon", { points: `${x - r},${y} ${x},${y - r} ${x + r},${y} ${x},${y + r}`, class: held ? "checkpoint kept" : "checkpoint" });
}

function box(x, width, state) {
  const short = state === "done", y = short ? C.top + C.box - 7 : C.top;
  const nodes = [svg("rect", { x, y, width, height: short ? 7 : C.box, class: `layer ${state}` })], middle = C.top + C.box / 2;
  if (state === "recomputed") nodes.push(svg("line", { x1: x, x2: x + width, y1: middle, y2: middle, class: "again" }));
  return nodes;
}

/* `found`: of model.js's chain. */
export function chainPicture(job, found, words, width) {
  const step = (width - 2) / job.layers, gap = step < 8 ? 1 : 2, r = Math.min(6, (step - gap) / 2);
  const root = svg("svg", { viewBox: `0 0 ${width} ${C.height}`, role: "img", "aria-label": words, class: "boxes" });
  segmentsOf(job).forEach((layers, segment) => {
    const x = 1 + layers[0] * step, end = 1 + (layers[layers.length - 1] + 1) * step - gap;
    root.append(svg("line", { x1: x, x2: end, y1: 6, y2: 6, class: "segment" }));
    if (checkpointed(job, segment)) root.append(diamond(x + r, C.top + C.box + 12, r, found.held.includes(segment)));
    for (const layer of layers) root.append(...box(1 + layer * step, step - gap, found.layers[layer]));
  });
  return root;
}

/* Where numbers stand along the axis: not closer to each other than they are wide. */
function ticks(sizes, x) {
  const shown = [], last = sizes[sizes.length - 1];
  for (const { segments } of sizes) {
    const clear = x(last.segments) - x(segments) > 26;
    if (Number.isInteger(Math.log2(segments)) && clear) shown.push(segments);
  }
  return [...shown, last.segments];
}

/* `sizes`: of model.js's sweep. `least`: where the curve of equal segments, the thin one, is lowest. */
export function curve(job, sizes, best, least, width) {
  const whole = job.layers * job.layer_bytes, base = U.height - U.bottom, here = sizes[job.segments - 1];
  const x = (segments) => U.left + (Math.log2(segments) / Math.log2(job.layers)) * (width - U.left - U.right);
  const y = (bytes) => base - (bytes / whole) * (base - U.top);
  const words = `The peak is ${amount(here.held)} with ${job.segments} segments, `
    + `and ${amount(best.held)} at its lowest, with ${best.segments}.`;
  const root = svg("svg", { viewBox: `0 0 ${width} ${U.height}`, role: "img", "aria-label": words, class: "curve" });
  root.append(...scale(whole, U, y, width));
  for (const at of ticks(sizes, x)) root.append(svg("text", { x: x(at), y: base + 18, class: "middle" }, String(at)));
  root.append(svg("text", { x: (U.left + width - U.right) / 2, y: U.height - 5, class: "middle" }, "segments"));
  root.append(svg("text", { x: 0, y: 14 }, "peak"));
  const equal = sizes.map(({ segments }) => [x(segments), y((segments - 1) * job.checkpoint_bytes + whole / segments)]);
  root.append(svg("polyline", { points: equal.map(String).join(" "), class: "equal" }));
  if (least <= job.layers) {
    root.append(svg("line", { x1: x(least), x2: x(least), y1: U.top, y2: base, class: "least" }));
    const near = x(least) > width - 45;
    root.append(svg("text", { x: near ? width : x(least), y: 18, class: near ? "end" : "middle" }, "√(n a / c)"));
  }
  root.append(svg("polyline", { points: sizes.map((one) => `${x(one.segments)},${y(one.held)}`).join(" "), class: "steps" }));
  for (const one of sizes) {
    const shape = one === best ? { r: 5, class: "best" } : { r: 2.5, class: "size" };
    root.append(svg("circle", { cx: x(one.segments), cy: y(one.held), ...shape }));
  }
  root.append(svg("circle", { cx: x(job.segments), cy: y(here.held), r: 7, class: "here" }));
  return root;
}
