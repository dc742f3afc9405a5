/* Lanes of events between two moments, exposed communication shaded behind them. */
import { svg } from "../shared/svg.js";
import { timeWords } from "../shared/words.js";

const LABEL = 18, HOST_ROW = 15, DEVICE_ROW = 24, GAP = 8, AXIS = 22, LETTER = 6.7, MOST_ROWS = 12;
export const words = (us) => timeWords(us / 1e6);

/* Where each lane stands: its top and the height of a row. */
export function layout(all) {
  let y = 4;
  const placed = all.map((lane) => {
    const row = lane.host ? HOST_ROW : DEVICE_ROW, rows = Math.min(lane.rows, MOST_ROWS), top = y + LABEL;
    y = top + rows * row + GAP;
    return { lane, top, row, rows };
  });
  return { placed, height: y + AXIS };
}

const rowOf = (event) => event.depth ?? 0;
/* The first of events, sorted by start, that may reach beyond a moment. Host parents begin earlier: look from the front. */
const seen = (events, [from, to]) => events.filter(({ start, end }) => end >= from && start <= to);

function lane({ lane: { events, host, place, key }, top, row, rows }, view, width) {
  const x = (us) => ((us - view[0]) / (view[1] - view[0])) * width, paths = {}, painted = {}, labels = [];
  for (const each of seen(events, view)) {
    const depth = rowOf(each);
    if (depth >= rows) continue;
    const left = Math.max(-2, x(each.start)), right = Math.max(left + 1, Math.min(width + 2, x(each.end))), y = top + depth * row;
    const id = `${each.kind} ${depth}`;
    if (right - (painted[id] ?? -Infinity) < 0.5) continue;
    painted[id] = right;
    (paths[each.kind] ??= []).push(`M${left.toFixed(1)} ${y}h${Math.max(0.7, right - left - (right - left > 4 ? 1 : 0)).toFixed(1)}v${row - 2}H${left.toFixed(1)}z`);
    const letters = Math.floor((right - Math.max(0, left) - 6) / LETTER);
    if (letters > 3) labels.push(svg("text", { x: Math.max(0, left) + 3, y: y + row - 5, class: "inside" }, each.name.length > letters ? `${each.name.slice(0, letters - 1)}…` : each.name));
  }
  const bars = Object.entries(paths).map(([kind, d]) => svg("path", { d: d.join(""), class: `bar-of ${kind}` }));
  return [svg("text", { x: 0, y: top - 5, class: "place" }, host ? `host, ${place}` : `device ${key.split(" ")[1]}, ${place}`), ...bars, ...labels];
}

function bands({ placed }, exposed, view, width) {
  const device = placed.filter(({ lane: { host } }) => !host);
  if (!device.length) return [];
  const x = (us) => ((us - view[0]) / (view[1] - view[0])) * width, top = device[0].top - LABEL + 2, last = device[device.length - 1];
  const inside = exposed.filter(([start, end]) => end > view[0] && start < view[1]);
  const d = inside.map(([start, end]) => `M${Math.max(0, x(start)).toFixed(1)} ${top}H${Math.max(x(start) + 1, Math.min(width, x(end))).toFixed(1)}V${last.top + last.row}H${Math.max(0, x(start)).toFixed(1)}z`);
  return d.length ? [svg("path", { d: d.join(""), class: "exposed" })] : [];
}

function frame({ placed }, event, view, width) {
  const at = event && placed.find(({ lane: { key } }) => key === event.key);
  if (!at || rowOf(event) >= at.rows) return [];
  const x = (us) => Math.max(-3, Math.min(width + 3, ((us - view[0]) / (view[1] - view[0])) * width));
  return [svg("rect", { x: x(event.start) - 1, y: at.top + rowOf(event) * at.row - 1, width: Math.max(3, x(event.end) - x(event.start) + 1), height: at.row, class: "chosen" })];
}

/* `origin`: the moment that the axis calls 0. */
export function picture(placed, exposed, view, chosen, width, origin) {
  const root = svg("svg", { viewBox: `0 0 ${width} ${placed.height}`, role: "img", "aria-label": `${placed.placed.length} lanes over ${words(view[1] - view[0])}` });
  root.append(...bands(placed, exposed, view, width));
  for (const one of placed.placed) root.append(...lane(one, view, width));
  root.append(...frame(placed, chosen, view, width));
  root.append(svg("text", { x: 0, y: placed.height - 6 }, words(Math.max(0, view[0] - origin))));
  root.append(svg("text", { x: width, y: placed.height - 6, class: "end" }, words(view[1] - origin)));
  return root;
}

/* The event under a point of the picture: the one that is at most 3 pixels away and begins last. */
export function eventAt({ placed }, view, width, x, y) {
  const at = placed.find(({ top, row, rows }) => y >= top - 3 && y < top + row * rows);
  if (!at) return null;
  const depth = Math.max(0, Math.floor((y - at.top) / at.row)), scale = (view[1] - view[0]) / width, moment = view[0] + x * scale;
  const near = at.lane.events.filter((each) => rowOf(each) === depth && each.start <= moment + 3 * scale && each.end >= moment - 3 * scale);
  return near[near.length - 1] ?? null;
}
