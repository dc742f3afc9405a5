/* What every rank holds of every unit, as a table of strips; and what that comes to, event by event. */
import { h } from "../shared/dom.js";
import { svg } from "../shared/svg.js";
import { live, replicated } from "./model.js";

const HEIGHT = 190, LEFT = 40, RIGHT = 8, TOP = 24, BOTTOM = 42;

/* Slices of a unit: `own` the rank's, `on` those that it holds. */
function strip(kind, letter, ranks, on, words) {
  const slices = Array.from({ length: ranks }, (_, slice) => h("span", { class: on(slice) ? "slice on" : "slice" }));
  return h("span", { class: `strip ${kind}`, role: "img", "aria-label": words }, h("span", { class: "letter" }, letter), ...slices);
}

function weights({ whole }, unit, rank, ranks) {
  const all = whole.includes(unit);
  return strip("weights", "W", ranks, (slice) => all || slice === rank, all ? "weights: all" : "weights: its own slice");
}

function gradients(moment, unit, rank, ranks) {
  const whole = moment.gradients.includes(unit), summed = moment.summed.includes(unit);
  const own = `gradients: of its own batch, all${summed ? ", being summed" : ""}`;
  const words = whole ? own : summed ? "gradients: its slice of the sum" : "gradients: none";
  return strip(whole ? "local" : "summed", "G", ranks, (slice) => whole || (summed && slice === rank), words);
}

function mark({ event }, unit) {
  const at = event.compute && (event.compute[1] === unit || event.compute[1] === -1);
  return (at ? "computing " : "") + (event.sends.some(([, sent]) => sent === unit) ? "sending" : "");
}

export function holdings(moment, units, ranks) {
  const list = (length) => Array.from({ length }, (_, i) => i);
  const cell = (unit, rank) => h("td", { class: mark(moment, unit) }, weights(moment, unit, rank, ranks), gradients(moment, unit, rank, ranks));
  const rows = list(ranks).map((rank) => h("tr", {}, h("th", { scope: "row" }, `rank ${rank}`), ...list(units).map((unit) => cell(unit, rank))));
  const head = h("tr", {}, h("td", {}), ...list(units).map((unit) => h("th", { scope: "col" }, `unit ${unit}`)));
  const caption = h("caption", {}, "What each rank holds. Dark frame: computed now; dashed frame: on the network.");
  return h("table", {}, caption, h("thead", {}, head), h("tbody", {}, ...rows));
}

/* The event from which on nothing of the forward pass is left to do. */
function turn(moments) {
  const last = moments.map(({ event }) => event.compute?.[0]).lastIndexOf("forward");
  return last + (moments[last + 1].event.frees === null ? 1 : 2);
}

/* Two lines over the events; `now`: the event that is shown. */
export function liveLine(moments, units, ranks, now, width) {
  const ours = moments.map((moment) => live(moment, units, ranks)), theirs = moments.map((moment) => replicated(moment, units));
  const wide = (width - LEFT - RIGHT) / moments.length, base = HEIGHT - BOTTOM, most = Math.max(2 * units, ...ours);
  const x = (at) => LEFT + at * wide, y = (held) => base - (held / most) * (base - TOP), times = (held) => (held / units).toFixed(2);
  const words = `FSDP holds ${times(ours[now])} times the model's weights at event ${now + 1}, ${times(Math.max(...ours))} at most. `
    + `DDP holds ${times(theirs[now])} then, and 2.00 at most.`;
  const root = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": words });
  const text = (at, high, kind, said) => root.append(svg("text", { x: at, y: high, class: kind }, said));
  root.append(svg("rect", { x: x(now), y: TOP - 4, width: wide, height: base - TOP + 4, class: "now" }));
  for (const level of [0, 1, 2]) {
    root.append(svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(level * units), y2: y(level * units), class: "grid" }));
    text(LEFT - 6, y(level * units) + 5, "end", `${level} ×`);
  }
  const edge = x(turn(moments)), end = width - RIGHT;
  root.append(svg("line", { x1: edge, x2: edge, y1: TOP - 4, y2: base + 22, class: "turn" }));
  const corners = (line) => line.map((held, at) => `${x(at)},${y(held)} ${x(at + 1)},${y(held)}`).join(" ");
  root.append(svg("polyline", { points: corners(theirs), class: "theirs" }), svg("polyline", { points: corners(ours), class: "ours" }));
  root.append(svg("circle", { cx: x(now + 0.5), cy: y(ours[now]), r: 5, class: "here" }));
  text((LEFT + edge) / 2, base + 18, "middle", "forward");
  text((edge + end) / 2, base + 18, "middle", "backward, update");
  text(end, y(theirs[theirs.length - 1]) + 17, "end name", "DDP");
  text(end, y(ours[ours.length - 1]) + 17, "end name", "FSDP");
  text(0, 13, "", "held, in times the model's weights");
  text((LEFT + end) / 2, HEIGHT - 4, "middle", "events, in order");
  return root;
}
