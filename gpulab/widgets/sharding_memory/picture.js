/* A bar for each stage, stacked by term, under the line of the card's memory. */
import { svg, torn } from "../shared/svg.js";
import { total } from "./model.js";

export const TERMS = ["parameters", "gradients", "master weights", "optimizer"];
const LEFT = 66, TOP = 30, BAR = 26, ROW = 36, HEIGHT = TOP + 4 * ROW + 6;
/* Of the card's memory: what lies beyond is cut off. */
const WIDEST = 2.2;

export const shade = (term) => `t${TERMS.indexOf(term)}`;
export const gib = (bytes) => (bytes / 2 ** 30).toFixed(bytes < 99.95 * 2 ** 30 ? 1 : 0);

function bar(terms, row, scale, width) {
  const y = TOP + row * ROW, nodes = [svg("text", { x: 0, y: y + 18 }, `stage ${row}`)];
  let x = LEFT;
  for (const term of TERMS.filter((name) => terms[name])) {
    const end = Math.min(width, x + terms[term] * scale);
    if (end > x) nodes.push(svg("rect", { x, y, width: end - x, height: BAR, class: `term ${shade(term)}` }));
    x = end;
  }
  return beyond(terms, scale, width) ? [...nodes, torn(width, y, BAR)] : nodes;
}

const beyond = (terms, scale, width) => LEFT + total(terms) * scale > width + 1e-6;

/* Behind the bar, or in its end where no room is left. */
function amount(terms, row, scale, width) {
  const x = Math.min(width, LEFT + total(terms) * scale), cut = beyond(terms, scale, width), after = !cut && x + 76 < width;
  const at = { x: after ? x + 6 : x - (cut ? 14 : 6), y: TOP + row * ROW + 18, class: after ? "amount" : "amount end" };
  return svg("text", at, `${gib(total(terms))} GiB`);
}

/* `stages`: the terms of each. */
export function stagesPicture(stages, card, width) {
  const most = Math.max(...stages.map(total));
  const scale = (width - LEFT) / Math.min(WIDEST * card.bytes, Math.max(most, 1.12 * card.bytes));
  const fitting = [0, 1, 2, 3].filter((stage) => total(stages[stage]) <= card.bytes);
  const each = stages.map((terms, stage) => `${gib(total(terms))} GiB in stage ${stage}`);
  const words = `Each rank holds ${each.join(", ")}. ${card.name} has ${gib(card.bytes)} GiB: `
    + (fitting.length ? `what fits is stage ${fitting.join(", ")}.` : "no stage fits.");
  const root = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": words });
  const edge = LEFT + card.bytes * scale, right = edge > width / 2;
  stages.forEach((terms, row) => root.append(...bar(terms, row, scale, width)));
  root.append(svg("line", { x1: edge, x2: edge, y1: TOP - 10, y2: HEIGHT - 4, class: "capacity" }));
  stages.forEach((terms, row) => root.append(amount(terms, row, scale, width)));
  const name = card.name.replace(/NVIDIA |GeForce /g, "");
  root.append(svg("text", { x: edge, y: 15, class: right ? "end" : "" }, `${name}: ${gib(card.bytes)} GiB`));
  return root;
}
