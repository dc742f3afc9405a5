/* Where time went, and what each host event took itself: gpulab.traces.breakdown and gpulab.traces.self_times. */
import { intersection, length, subtraction, union } from "./intervals.js";
import { isStep, onDevice } from "./reader.js";

const SLACK = 1;
const spans = (events) => union(events.map(({ start, end }) => [start, end]));

/* From the first step, or event, to the last end of steps and of the device's work. */
export function windowOf(events) {
  const steps = events.filter(isStep), marked = steps.length ? steps : events;
  const end = [...marked, ...events.filter(onDevice)].reduce((most, each) => Math.max(most, each.end), -Infinity);
  return [marked[0].start, end];
}

/* What runs when, once for all windows. */
export function sets(events) {
  const of = (...kinds) => spans(events.filter(({ kind }) => kinds.includes(kind)));
  const computing = of("kernel"), talking = of("collective"), moving = of("copy", "set");
  const exposed = subtraction(talking, computing);
  return {
    computing, exposed, hidden: intersection(talking, computing), busy: union([...computing, ...talking, ...moving].map((pair) => [...pair])),
    copies: subtraction(moving, union([...computing, ...talking].map((pair) => [...pair]))),
  };
}

/* Microseconds of a window: compute, exposed and hidden communication, copies alone, and nothing. */
export function breakdown({ computing, exposed, hidden, copies, busy }, window) {
  const within = (pairs) => length(intersection([window], pairs)), total = window[1] - window[0];
  return { total, compute: within(computing), communication: within(exposed), hidden: within(hidden), copies: within(copies), idle: total - within(busy) };
}

/* Adds `depth` and `self` to the host events of one thread; the slack is for times that were rounded. */
function nest(events) {
  const stack = [];
  for (const each of events) {
    const inside = (outer) => each.start < outer.end || (each.start === each.end && each.start === outer.end);
    while (stack.length && !inside(stack[stack.length - 1])) stack.pop();
    const parent = stack[stack.length - 1];
    each.depth = stack.length;
    each.self = each.end - each.start;
    each.apart = Boolean(parent) && each.end > parent.end + SLACK;
    if (parent) parent.self -= each.self;
    stack.push(each);
  }
  return 1 + events.reduce((most, { depth }) => Math.max(most, depth), 0);
}

/* Threads of the host, then streams: [{ key, place, host, rows, events }]. Host events get `depth` and `self`. */
export function lanes(events) {
  const found = new Map();
  for (const each of events) {
    if (!found.has(each.key)) found.set(each.key, { key: each.key, place: each.place, host: !onDevice(each), events: [] });
    found.get(each.key).events.push(each);
  }
  const all = [...found.values()];
  for (const lane of all) lane.rows = lane.host ? nest(lane.events) : 1;
  const order = (lane) => (lane.host ? 0 : 1);
  return all.sort((a, b) => order(a) - order(b) || b.events.length - a.events.length);
}

/* The part of a collective beside which no kernel runs. */
export const exposedOf = ({ start, end }, { exposed }) => length(intersection([[start, end]], exposed));

/* The runtime's call that put an event of the device into its queue. */
export const launches = (events) => new Map(events.filter(({ kind, correlation }) => kind === "call" && correlation !== null).map((call) => [call.correlation, call]));
