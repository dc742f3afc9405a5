/* The terms as one bar, and the card's capacity as a line across it, as SVG. */

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 96, TOP = 26, BAR = 40;
export const ORDER = ["parameters", "scales", "gathered weights", "master weights", "optimizer", "gradients", "cache", "activations",
  "logits", "weight casts", "temporaries", "context"];

function svg(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

export const shade = (name) => `t${ORDER.indexOf(name)}`;
export const gib = (bytes) => (bytes / 2 ** 30).toFixed(bytes < 2 ** 30 ? 2 : 1);

/* `width`: of the picture, in the pixels that its letters are sized in. */
export function barPicture({ terms, peak, capacity, fits }, card, width) {
  const words = `${gib(peak)} GiB on a card with ${gib(capacity)} GiB: it ${fits ? "fits" : "does not fit"}.`;
  const root = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": words });
  const scale = (width - 8) / Math.max(peak, capacity * 1.12);
  let x = 2;
  for (const name of ORDER.filter((term) => terms[term])) {
    const long = terms[name] * scale;
    root.append(svg("rect", { x, y: TOP, width: long, height: BAR, class: `term ${shade(name)}` }));
    if (long > 8.2 * name.length) root.append(svg("text", { x: x + long / 2, y: TOP + BAR / 2 + 5, class: "middle" }, name));
    x += long;
  }
  const edge = 2 + capacity * scale;
  root.append(svg("line", { x1: edge, x2: edge, y1: TOP - 8, y2: TOP + BAR + 8, class: "capacity" }));
  root.append(svg("text", { x: edge > width / 2 ? edge - 5 : edge + 5, y: TOP - 11, class: edge > width / 2 ? "end" : "" }, `${card}: ${gib(capacity)} GiB`));
  root.append(svg("text", { x: 2, y: HEIGHT - 6 }, `${gib(peak)} GiB in all`));
  return root;
}
