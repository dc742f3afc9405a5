/* One request under both placements, from its arrival to its last token; and the split's prefill with its transfer, layer by layer. */
import { svg } from "../shared/svg.js";
import { timeWords } from "../shared/words.js";

const LEFT = 66, ROOM = 64, BAR = 22, HEIGHT = 190, FIRST = 24, SECOND = 122;
const rect = (x, y, long, kind) => svg("rect", { x, y, width: Math.max(0, long), height: BAR, class: `part ${kind}` });

function bar(name, times, y, scale) {
  const nodes = [svg("text", { x: 0, y: y + 16 }, name)];
  if (!times) return [...nodes, svg("text", { x: LEFT, y: y + 16 }, "cannot keep up")];
  let x = LEFT;
  for (const [kind, long] of [["wait", times.wait], ["prefill", times.prefill], ["exposed", times.exposed], ["decode", times.last - times.first - times.exposed]]) {
    nodes.push(rect(x, y, long * scale, kind));
    x += long * scale;
  }
  return [...nodes, svg("text", { x: x + 6, y: y + 16 }, timeWords(times.last))];
}

/* `layers` parts of each lane: a layer is sent when it is computed and the link is free. */
function pipeline(two, link, layers, width) {
  const end = two.prefill + link.exposed, scale = (width - LEFT - ROOM) / end, computed = two.prefill / layers, sent = link.seconds / layers;
  const edged = (long) => (long * scale < 3 ? "layer thin" : "layer");
  const nodes = [svg("text", { x: 0, y: SECOND + 16 }, "computes"), svg("text", { x: 0, y: SECOND + BAR + 20 }, "sends")];
  let free = 0;
  for (let layer = 0; layer < layers; layer++) {
    const begin = Math.max(free, (layer + 1) * computed);
    free = begin + sent;
    nodes.push(rect(LEFT + layer * computed * scale, SECOND, computed * scale, `prefill ${edged(computed)}`));
    nodes.push(rect(LEFT + begin * scale, SECOND + BAR + 4, sent * scale, `sent ${edged(sent)}`));
  }
  const x = LEFT + two.prefill * scale;
  nodes.push(rect(x, SECOND, (end - two.prefill) * scale, "exposed"));
  nodes.push(svg("line", { x1: x, x2: x, y1: SECOND - 4, y2: SECOND + 2 * BAR + 8, class: "edge" }));
  nodes.push(svg("text", { x: LEFT + end * scale + 6, y: SECOND + 16 }, timeWords(end)));
  return nodes;
}

/* `found`: of model.js's placed. */
export function placesPicture({ one, two, link }, layers, width) {
  const said = (name, times) => (times ? `${name}: first token after ${timeWords(times.first)}, last after ${timeWords(times.last)}` : `${name}: cannot keep up`);
  const sent = two ? ` The transfer takes ${timeWords(link.seconds)}, of which ${timeWords(link.exposed)} are not hidden.` : "";
  const root = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `${said("Shared cards", one)}. ${said("Two pools", two)}.${sent}` });
  const most = Math.max(one?.last ?? 0, two?.last ?? 0) || 1, scale = (width - LEFT - ROOM) / most;
  root.append(svg("text", { x: 0, y: 14 }, "a request, from arrival to last token"));
  root.append(...bar("shared", one, FIRST, scale), ...bar("split", two, FIRST + BAR + 6, scale));
  root.append(svg("text", { x: 0, y: SECOND - 10 }, two ? `the split's prefill, ${layers} layers, larger` : "no split keeps up"));
  if (two) root.append(...pipeline(two, link, layers, width));
  return root;
}
