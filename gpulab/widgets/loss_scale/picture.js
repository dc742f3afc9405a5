/* The scale over the steps, the line above which a step overflows, and what became of each step. */

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 46, RIGHT = 12, TOP = 22, WIDTH = 640, HEIGHT = 240, BOTTOM = 40;

function svg(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

const superscript = (power) => [...String(power)].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]).join("");

/* The step under a pointer, or null. */
export function stepAt(picture, event, steps) {
  const box = picture.getBoundingClientRect();
  const across = ((event.clientX - box.left) / box.width) * WIDTH;
  const step = Math.floor(((across - LEFT) / (WIDTH - LEFT - RIGHT)) * steps);
  return step >= 0 && step < steps ? step : null;
}

/* `ceiling`: exponent of the scale from which on the gradient overflows. */
export function scalePicture(told, steps, ceiling, words) {
  const logs = told.map(({ scale }) => Math.log2(scale));
  const low = Math.min(...logs, ceiling) - 2, high = Math.max(...logs, ceiling) + 2;
  const x = (step) => LEFT + (step / steps) * (WIDTH - LEFT - RIGHT);
  const y = (log) => TOP + ((high - log) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const root = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": words });
  const every = Math.max(1, Math.ceil((high - low) / 6));
  for (let log = Math.ceil(low); log <= high; log += every) {
    root.append(svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(log), y2: y(log), class: "grid" }));
    root.append(svg("text", { x: LEFT - 5, y: y(log) + 4, class: "end" }, `2${superscript(log)}`));
  }
  for (let step = 0; step <= steps; step += Math.ceil(steps / 8 / 10) * 10) root.append(svg("text", { x: x(step), y: HEIGHT - BOTTOM + 16, class: "middle" }, String(step)));
  root.append(svg("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 5, class: "middle" }, "step"), svg("text", { x: 0, y: 12 }, "scale"));
  const broken = told.findIndex(({ sound }) => !sound);
  if (broken >= 0) {
    root.append(svg("rect", { x: x(broken), y: TOP, width: x(steps) - x(broken), height: HEIGHT - TOP - BOTTOM, class: "broken" }));
    root.append(svg("text", { x: Math.min(x(broken) + 6, WIDTH - 170), y: TOP + 16 }, "the weights are lost"));
  }
  root.append(svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(ceiling), y2: y(ceiling), class: "ceiling" }));
  root.append(svg("text", { x: LEFT + 6, y: y(ceiling) - 6 }, "from here on every step overflows"));
  const corners = told.flatMap(({ scale }, i) => [`${x(i)},${y(Math.log2(scale))}`, `${x(i + 1)},${y(Math.log2(scale))}`]);
  root.append(svg("polyline", { points: corners.join(" "), class: "scale" }));
  told.forEach(({ scale, applied }, i) => {
    if (applied !== null) return;
    const [a, b] = [x(i + 0.5), y(Math.log2(scale))];
    root.append(svg("path", { d: `M${a - 4},${b - 4}L${a + 4},${b + 4}M${a - 4},${b + 4}L${a + 4},${b - 4}`, class: "skipped" }));
  });
  return root;
}
