/* Three lanes over time, as SVG. */

const SVG = "http://www.w3.org/2000/svg";
const LANES = [["host", "host waits"], ["copy", "copy engine"], ["step", "compute"]];
const LEFT = 96, WIDTH = 640, ROW = 40;

function svg(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

export function lanes(spans, { total }) {
  const end = Math.max(...spans.map((s) => s.end));
  const x = (us) => LEFT + (us / end) * (WIDTH - LEFT);
  const words = `${spans.filter((s) => s.lane === "copy").length} batches, ${Math.round(total)} microseconds from the first copy to the last step.`;
  const root = svg("svg", { viewBox: `0 0 ${WIDTH} ${ROW * LANES.length + 20}`, role: "img", "aria-label": words });
  LANES.forEach(([lane, name], row) => {
    root.append(svg("text", { x: 0, y: row * ROW + 24 }, name));
    root.append(svg("line", { x1: LEFT, x2: WIDTH, y1: (row + 1) * ROW - 1, y2: (row + 1) * ROW - 1, class: "rule" }));
    for (const s of spans.filter((s) => s.lane === lane)) {
      const width = Math.max(1, x(s.end) - x(s.start));
      root.append(svg("rect", { x: x(s.start), y: row * ROW + 6, width, height: ROW - 12, class: `span ${lane}${s.for_copy ? " held" : ""}` }));
      if (s.batch !== undefined && width > 14) root.append(svg("text", { x: x(s.start) + width / 2, y: row * ROW + 25, class: "batch" }, String(s.batch + 1)));
    }
  });
  root.append(svg("text", { x: LEFT, y: ROW * LANES.length + 16 }, "0"));
  root.append(svg("text", { x: WIDTH, y: ROW * LANES.length + 16, class: "end" }, `${Math.round(end)} µs`));
  return root;
}
