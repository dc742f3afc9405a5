/* Two bars: the tokens of a request by kind, and the card's memory with its weights and such requests. */
import { svg, torn } from "../shared/svg.js";
import { binary, listed, percent } from "../shared/words.js";
import { KINDS, total } from "./model.js";

const BAR = 34, FIRST = 26, SECOND = 106, HEIGHT = 148;
const WIDEST = 2.2, THIN = 3;

const rect = (x, y, long, kind) => svg("rect", { x, y, width: Math.max(0, long), height: BAR, class: `part ${kind}` });

/* Segments one after the other, and then the name of each where there is room. */
function stacked(parts, x, y, scale, most) {
  const bars = [], texts = [];
  let at = x;
  for (const [kind, size, text = ""] of parts.filter(([, bytes]) => bytes)) {
    const end = Math.min(most, at + size * scale), long = end - at;
    if (long > 0) bars.push(rect(at, y, long, kind));
    if (long > 8 * text.length + 8) texts.push(svg("text", { x: at + long / 2, y: y + BAR / 2 + 5, class: `middle within ${kind}` }, text));
    at = end;
  }
  return { bars, texts };
}

/* Thin lines between requests, where each has room for one. */
function lines(from, each, count, scale, y) {
  if (each * scale < THIN) return [];
  return Array.from({ length: count }, (_, i) => from + (i + 1) * each * scale)
    .map((x) => svg("line", { x1: x, x2: x, y1: y, y2: y + BAR, class: "between" }));
}

function cardBar(shape, card, { cached, left, fitting }, width) {
  const whole = shape.weights + (fitting ? 0 : cached), cap = card.bytes;
  const scale = (width - 4) / Math.min(WIDEST * cap, Math.max(whole, 1.02 * cap)), edge = 2 + cap * scale;
  const further = fitting ? (fitting - 1) * cached : 0, free = Math.max(0, left) - (fitting ? fitting * cached : 0);
  const parts = [["weights", shape.weights, "weights"], ["one", cached], ["more", further, `${fitting - 1} more`]];
  if (fitting || !cached) parts.push(["free", free, "free"]);
  const { bars: nodes, texts } = stacked(parts, 2, SECOND, scale, width - 2);
  if (fitting) nodes.push(...lines(2 + shape.weights * scale, cached, fitting, scale, SECOND));
  nodes.push(...texts);
  if (2 + whole * scale > width - 1) nodes.push(torn(width, SECOND, BAR));
  nodes.push(svg("line", { x1: edge, x2: edge, y1: SECOND - 8, y2: SECOND + BAR + 8, class: "capacity" }));
  const right = edge > width / 2;
  nodes.push(svg("text", { x: right ? Math.min(width, edge + 2) : edge - 2, y: SECOND - 13, class: right ? "end" : "" },
    `${card.name.replace(/NVIDIA |GeForce /g, "")}: ${binary(cap)}`));
  return nodes;
}

/* `counts`: tokens by kind. `room`: of model.js's budget. */
export function budgetPicture(shape, card, counts, room, width) {
  const all = total(counts), shares = KINDS.filter((kind) => counts[kind]).map((kind) => `${kind} ${percent(counts[kind], all)}`);
  const fit = room.fitting === null ? ""
    : ` ${room.fitting} such requests have room beside ${binary(shape.weights)} of weights on a card with ${binary(card.bytes)}.`;
  const words = `${all} tokens${shares.length ? `: ${listed(shares)}` : ""}.${fit}`;
  const root = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": words });
  root.append(svg("text", { x: 0, y: 14 }, `one request: ${all} token${all === 1 ? "" : "s"}`));
  if (all) {
    const { bars, texts } = stacked(KINDS.map((kind) => [kind, counts[kind], kind]), 2, FIRST, (width - 4) / all, width - 2);
    root.append(...bars, ...texts);
  }
  root.append(...cardBar(shape, card, room, width));
  return root;
}
