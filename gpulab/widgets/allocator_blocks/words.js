/* What the last action did, in sentences. */
import { listed, many } from "../shared/words.js";

export const UNITS = [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10], ["B", 1]];
export const inBytes = (bytes) => `${String(bytes).replace(/\B(?=(\d{3})+$)/g, ",")} B`;

/* In the largest unit that two decimals tell exactly. */
export function exact(bytes) {
  const [unit, each] = UNITS.find(([, one]) => bytes >= one && Number.isInteger((100 * bytes) / one)) ?? ["B", 1];
  return each === 1 ? inBytes(bytes) : `${bytes / each} ${unit}`;
}

/* To two decimals. */
export function about(bytes) {
  const [unit, each] = UNITS.find(([, one]) => bytes >= one) ?? ["B", 1];
  return `${Number((bytes / each).toFixed(2))} ${unit}`;
}

const pool = ({ small }) => (small ? "small" : "large");
const sizes = (segments) => about(segments.reduce((all, { size }) => all + size, 0));

function origin(event) {
  if (event.from === "pool") return `The ${pool(event)} pool has it: the smallest free block that fits has ${exact(event.found)}, in segment ${event.segment}.`;
  const none = `No free block of the ${pool(event)} pool holds it`, asked = `a new segment of ${exact(event.wanted)}`, { returned } = event;
  if (!returned.length) return `${none}: ${asked} comes from the driver.`;
  return `${none}, and the card had no room for ${asked}: ${many(returned.length, "wholly free segment")} (${sizes(returned)}) went back to the driver first.`;
}

function division({ split, rest, size }) {
  if (split) return ` The block is split: ${exact(rest)} behind it stay free.`;
  return rest ? ` The block is not split, because a rest of ${exact(rest)} is not more than 1 MiB: all its ${exact(size + rest)} count as allocated.` : " It is used whole.";
}

function outOfMemory(event, left) {
  const back = event.returned.length ? ` ${many(event.returned.length, "wholly free segment")} went back to the driver, which was not enough.` : "";
  const short = `Out of memory. No free block of the ${pool(event)} pool holds it, and the card has ${exact(left)} left for a segment of ${exact(event.wanted)}.${back}`;
  if (event.freeInPool < event.size) return short;
  return `${short} Yet ${exact(event.freeInPool)} lie free in segments, in ${many(event.parts, "block")} of at most ${exact(event.largest)}: fragmentation.`;
}

const rounding = ({ requested, size }) => (size === requested ? "" : ` It is rounded up to ${exact(size)}.`);

function freed(event) {
  const merged = event.merged.length
    ? `It is merged with the free ${event.merged.length > 1 ? "blocks" : "block"} ${listed(event.merged)} into one of ${exact(event.into)}.` : "No neighbour is free: nothing is merged.";
  const end = event.whole ? ` Segment ${event.segment} is wholly free and stays reserved.` : "";
  return `Its block of ${exact(event.size)} goes back to the pool. ${merged}${end}`;
}

function emptied({ returned, kept, staying }) {
  if (!returned.length && !staying) return "Nothing is reserved.";
  const gone = returned.length ? `${many(returned.length, "wholly free segment")} (${sizes(returned)}) ${returned.length === 1 ? "goes" : "go"} back to the driver.` : "No segment is wholly free: nothing goes back.";
  return staying ? `${gone} ${many(staying, "segment")} with live blocks ${staying === 1 ? "stays" : "stay"}, and ${about(kept)} free in ${staying === 1 ? "it" : "them"}.` : gone;
}

/* `left`: bytes that the card has left after the action. */
export function happened(event, left) {
  if (event.kind === "free") return freed(event);
  if (event.kind === "empty_cache") return emptied(event);
  return (event.failed ? `${rounding(event)} ${outOfMemory(event, left)}` : `${rounding(event)} ${origin(event)}${division(event)}`).trim();
}

/* As a reader would write it. */
export function called(action, actions) {
  if (action.kind === "malloc") return `malloc of ${exact(action.bytes)} for ${action.name}`;
  return action.kind === "free" ? `free of ${actions[action.of].name}` : "empty_cache()";
}

export function sentence(actions, count, event, left) {
  if (!count) return `Nothing is reserved. ${many(actions.length, "action")}.`;
  const action = actions[count - 1], phase = action.phase ? ` (${action.phase})` : "";
  return `Action ${count} of ${actions.length}${phase}: ${called(action, actions)}. ${happened(event, left)}`;
}
