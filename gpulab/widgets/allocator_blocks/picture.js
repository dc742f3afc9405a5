/* A bar for each segment, to its own scale, with its blocks. */
import { svg } from "../shared/svg.js";
import { about, exact } from "./words.js";

const LABEL = 20, BAR = 28, ROW = 58, LETTER = 7.4, THINNEST = 12;

/* Widths in proportion, none thinner than `thinnest`, as far as the room allows. */
export function widths(sizes, room, thinnest = THINNEST) {
  const least = Math.min(thinnest, room / sizes.length), thin = new Set();
  for (;;) {
    const scale = (room - thin.size * least) / sizes.reduce((all, size, i) => all + (thin.has(i) ? 0 : size), 0);
    const more = sizes.findIndex((size, i) => !thin.has(i) && size * scale < least);
    if (more < 0) return sizes.map((size, i) => (thin.has(i) ? least : size * scale));
    thin.add(more);
  }
}

function label(text, width) {
  const room = Math.floor((width - 8) / LETTER);
  return text.length <= room ? text : room > 4 ? `${text.slice(0, room - 1)}…` : "";
}

function block({ size, holds, requested, offset }, x, y, width, { actions, chosen, touched, choose }) {
  const free = holds === null, name = free ? "free" : actions[holds].name;
  const kind = `block ${free ? "free" : "live"}${!free && holds === chosen ? " chosen" : ""}${touched(offset) ? " touched" : ""}`;
  const box = svg("rect", { x: x + 1, y: y + 1, width: Math.max(1, width - 2), height: BAR - 2, class: kind });
  box.append(svg("title", {}, `${name}, ${exact(size)}`));
  const lost = free ? 0 : ((size - requested) / size) * (width - 4);
  const nodes = [box];
  if (lost > 0.5) nodes.push(svg("rect", { x: x + width - 2 - lost, y: y + 2, width: lost, height: BAR - 4, class: "lost" }));
  const text = label(free ? about(size) : name, width - lost);
  if (text) nodes.push(svg("text", { x: x + 6, y: y + 19, class: free ? "inside soft" : "inside" }, text));
  const group = svg("g", { class: free ? "" : "press" });
  group.append(...nodes);
  if (!free) group.addEventListener("click", () => choose(holds));
  return group;
}

function bar(segment, row, width, look) {
  const y = row * ROW + LABEL, wide = widths(segment.blocks.map(({ size }) => size), width);
  const isNew = look.event?.kind === "malloc" && look.event.from === "driver" && look.event.segment === segment.number;
  const text = `segment ${segment.number}, ${segment.small ? "small" : "large"} pool, ${exact(segment.size)}${isNew ? ", new" : ""}`;
  const nodes = [svg("text", { x: 0, y: y - 5 }, text)];
  let x = 0;
  segment.blocks.forEach((each, i) => {
    nodes.push(block(each, x, y, wide[i], { ...look, touched: (offset) => touches(look.event, segment.number, offset) }));
    x += wide[i];
  });
  return nodes;
}

const touches = (event, segment, offset) => event?.segment === segment && offset === (event.kind === "free" ? event.at : event.offset);

function inWords(segments) {
  const each = segments.map(({ number, size, blocks }) => {
    const live = blocks.filter(({ holds }) => holds !== null), free = size - live.reduce((all, one) => all + one.size, 0);
    return `segment ${number} of ${exact(size)} with ${live.length} live ${live.length === 1 ? "block" : "blocks"} and ${exact(free)} free`;
  });
  return each.length ? `Segments: ${each.join("; ")}.` : "No segment.";
}

/* `look`: actions, event, chosen (the number of a malloc) and choose. `rows`: that there is room for. */
export function segmentsPicture(segments, rows, width, look) {
  const height = Math.max(1, rows, segments.length) * ROW - 6;
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": inWords(segments) });
  segments.forEach((segment, row) => root.append(...bar(segment, row, width, look)));
  if (!segments.length) root.append(svg("text", { x: 0, y: LABEL - 5 }, "no segment"));
  return root;
}
