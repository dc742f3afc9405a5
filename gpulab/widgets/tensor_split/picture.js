/* x A = z and z B = y as boxes, each in stripes by the rank that has them; above and below them what crosses. */
import { svg } from "../shared/svg.js";

const SHORT = { all_reduce: "AR", all_gather: "AG", reduce_scatter: "RS", all_to_all: "A2A" };
const HEIGHT = 214, TOP = 58, TALL = 96;
/* Of the whole width, and of TALL. */
const BOXES = { x: [0.11, 0.6], A: [0.16, 0.6], z: [0.16, 0.6], B: [0.11, 1], y: [0.11, 0.6] };
const NAMES = Object.keys(BOXES), BETWEEN = ["×", "=", "×", "="];
const LINES = { forward: 28, backward: HEIGHT - 16 };

function stripes(box, cut, ranks) {
  if (!cut) return [svg("rect", { ...box, class: "every" })];
  const along = cut === "columns" ? ["x", "width"] : ["y", "height"], size = box[along[1]] / ranks;
  return Array.from({ length: ranks }, (_, rank) =>
    svg("rect", { ...box, [along[0]]: box[along[0]] + rank * size, [along[1]]: size, class: `part r${rank % 4}` }));
}

/* How each lies: "columns", "rows", or null for whole on every rank. */
function lies({ first, second, gather, sequence }) {
  const ends = sequence ? "rows" : null;
  return { x: ends, A: first, z: first === "rows" || gather ? null : "columns", B: second, y: ends };
}

function places(width) {
  const gap = ((1 - NAMES.reduce((all, name) => all + BOXES[name][0], 0)) * width) / NAMES.length;
  let left = gap / 2;
  return NAMES.map((name) => {
    const [wide, high] = BOXES[name], box = { x: left, y: TOP + ((1 - high) * TALL) / 2, width: wide * width, height: high * TALL };
    left += box.width + gap;
    return { name, box, middle: box.x + box.width / 2, after: left - gap / 2 };
  });
}

export function splitPicture(cut, ranks, found, width) {
  const cuts = lies(cut), all = places(width), at = { x: all[0].after, z: all[2].middle, y: all[3].after };
  const said = NAMES.map((name) => `${name} ${cuts[name] ? `in ${ranks} parts by ${cuts[name]}` : "whole on every rank"}`);
  const words = [said.join(", "), ...found.map(({ passing, kind, tensor }) => `${passing}: ${kind.replaceAll("_", "-")} of ${tensor}`)].join("; ");
  const root = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": words });
  all.forEach(({ name, box, middle, after }, i) => {
    root.append(...stripes(box, cuts[name], ranks), svg("rect", { ...box, class: "edge" }), svg("text", { x: middle, y: TOP - 8, class: "middle" }, name));
    if (name === "z") root.append(svg("text", { x: middle, y: TOP + TALL, class: "middle" }, "gelu"));
    if (BETWEEN[i]) root.append(svg("text", { x: after, y: TOP + TALL / 2 + 5, class: "middle" }, BETWEEN[i]));
  });
  for (const [passing, y] of Object.entries(LINES)) {
    for (const tensor of Object.keys(at)) {
      const kinds = found.filter((one) => one.passing === passing && one.tensor === tensor).map(({ kind }) => SHORT[kind]);
      if (kinds.length) root.append(svg("text", { x: at[tensor], y, class: "middle tag" }, kinds.join(", ")));
    }
  }
  root.append(svg("text", { x: 0, y: 14 }, "forward →"), svg("text", { x: 0, y: HEIGHT - 2 }, "← backward"));
  return root;
}
