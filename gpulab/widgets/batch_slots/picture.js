/* The slots of each policy over one axis of time. */
import { svg } from "../shared/svg.js";
import { percent } from "../shared/words.js";

const ROW = 17, BAR = 14, HEAD = 22, BETWEEN = 10, AXIS = 36, LEFT = 16, RIGHT = 6;
export const ms = (us) => `${Math.round(us / 1000)} ms`;

/* Stretches of time without a pause between steps. */
function busy(spans) {
  const found = [];
  for (const { begin, us } of spans) {
    const last = found.at(-1);
    if (last && begin <= last.end) last.end = Math.max(last.end, begin + us);
    else found.push({ begin, end: begin + us });
  }
  return found;
}

/* The first span of each request in its slot, where its letter stands. */
const begun = (spans) => [...new Map([...spans].reverse().map((span) => [span.request, span])).values()];

function panel(policy, { spans, idle, makespan, worst }, slots, top, x) {
  const y = (slot) => top + HEAD + slot * ROW, nodes = [];
  const rect = (from, to, slot, kind) => svg("rect", { x: x(from), y: y(slot), width: Math.max(0.5, x(to) - x(from)), height: BAR, class: kind });
  const title = svg("text", { x: LEFT, y: top + 15 });
  title.append(svg("tspan", { class: "policy" }, policy), svg("tspan", {}, `: ${percent(idle)} idle, done after ${ms(makespan)}`));
  nodes.push(title);
  for (let slot = 0; slot < slots; slot++) {
    nodes.push(svg("text", { x: 0, y: y(slot) + 12 }, String(slot)));
    for (const { begin, end } of busy(spans)) nodes.push(rect(begin, end, slot, "cell idle"));
  }
  for (const { slot, kind, begin, us } of spans) nodes.push(rect(begin, begin + us, slot, `cell ${kind}`));
  if (worst.us) nodes.push(svg("rect", { x: x(worst.from), y: y(worst.slot) - 1.5, width: x(worst.to) - x(worst.from), height: BAR + 3, class: "worst" }));
  for (const { slot, request, begin } of begun(spans))
    nodes.push(svg("text", { x: x(begin) + 3, y: y(slot) + 12, class: "letter" }, String.fromCharCode(65 + request)));
  return nodes;
}

function axis(most, base, width, x) {
  const step = [50, 100, 200, 500, 1000, 2000].find((each) => (x(1000 * each) - x(0)) > 48) ?? 5000, nodes = [];
  for (let at = 0; 1000 * at <= most; at += step) {
    nodes.push(svg("line", { x1: x(1000 * at), x2: x(1000 * at), y1: HEAD - 4, y2: base, class: "grid" }));
    nodes.push(svg("text", { x: x(1000 * at), y: base + 15, class: at ? "middle" : "" }, String(at)));
  }
  return [...nodes, svg("text", { x: width - RIGHT, y: base + 31, class: "end" }, "ms since the first arrival")];
}

/* `plays`: of model.js, by policy. */
export function slotsPicture(plays, slots, width) {
  const each = HEAD + slots * ROW + BETWEEN, base = each * Object.keys(plays).length - BETWEEN, height = base + AXIS;
  const most = Math.max(...Object.values(plays).map(({ makespan }) => makespan));
  const x = (us) => LEFT + (us / most) * (width - LEFT - RIGHT);
  const words = Object.entries(plays).map(([policy, { idle, makespan, gap }]) =>
    `${policy}: slots ${percent(idle)} idle, done after ${ms(makespan)}, longest gap ${ms(gap)}`);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${slots} slots over time. ${words.join("; ")}.` });
  root.append(...axis(most, base, width, x));
  Object.entries(plays).forEach(([policy, played], i) => root.append(...panel(policy, played, slots, i * each, x)));
  return root;
}
