/* A lane for each stage, and for each tier that the weights cross the time in which it carries them. */
import { svg } from "../shared/svg.js";
import { listed, timeWords } from "../shared/words.js";

const LANE = 30, NAME = 92, TOP = 6;
const STAGES = ["image", "runtime", "weights", "graphs"];
export const HEIGHT = TOP + STAGES.length * LANE + 26;

export function startPicture({ spans, ready, critical }, width) {
  const scale = (width - NAME - 60) / (ready || 1);
  const words = `${STAGES.map((name) => `${name} from ${timeWords(spans[name][0] || 0)} to ${timeWords(spans[name][1] || 0)}`).join(", ")}. `
    + `Critical: ${listed(critical)}.`;
  const root = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": words });
  STAGES.forEach((name, lane) => {
    const [begin, end] = spans[name], y = TOP + lane * LANE, on = critical.includes(name);
    const x = NAME + begin * scale, long = (end - begin) * scale;
    root.append(svg("text", { x: 0, y: y + 18 }, name));
    root.append(svg("rect", { x, y, width: Math.max(long, 1), height: LANE - 8, class: `stage ${on ? "on" : "off"}` }));
    root.append(svg("text", { x: Math.min(x + long + 6, width - 58), y: y + 17 }, timeWords(end - begin)));
  });
  const edge = NAME + ready * scale, base = TOP + STAGES.length * LANE;
  root.append(svg("line", { x1: edge, x2: edge, y1: TOP, y2: base, class: "ready" }));
  root.append(svg("text", { x: edge, y: base + 16, class: "end" }, `ready after ${timeWords(ready || 0)}`));
  return root;
}
