/* When a card comes back: SM-2, as sm2.py says it; and what a file of states has to be. */
export const GRADES = [["Again", 2], ["Hard", 3], ["Good", 4], ["Easy", 5]];
export const NEW_A_DAY = 10;
const FORMAT = "gpulab-interview", VERSION = 1;

export function graded(state, quality, day) {
  const onceMore = quality < 4 ? day : null;
  if (state?.again === day) return { ...state, again: onceMore };
  const old = state ?? { ease: 2.5, streak: 0, interval: 0, first: day };
  const known = quality >= 3;
  const ease = known ? Math.max(1.3, old.ease + (0.1 - (5 - quality) * (0.08 + (5 - quality) * 0.02))) : old.ease;
  const streak = known ? old.streak + 1 : 0;
  const interval = streak < 2 ? 1 : streak === 2 ? 6 : Math.ceil(old.interval * ease);
  return { ease, streak, interval, due: day + interval, first: old.first, again: onceMore };
}

/* What is to be asked on a day, of the cards with these ids: what is due, the longest overdue first; new ones, so many a day
   and `extra` more; and what was not known today. */
export function lines(states, ids, day, extra = 0) {
  const seen = ids.filter((id) => id in states);
  const due = seen.filter((id) => states[id].due <= day && states[id].again !== day).sort((a, b) => states[a].due - states[b].due);
  const begun = Object.values(states).filter(({ first }) => first === day).length;
  const unseen = ids.filter((id) => !(id in states));
  return { due, fresh: unseen.slice(0, Math.max(0, NEW_A_DAY + extra - begun)), again: seen.filter((id) => states[id].again === day), unseen };
}

/* The card to ask, or null; the last one only where no other is left. */
export function following({ due, fresh, again }, last) {
  return due[0] ?? fresh[0] ?? again.find((id) => id !== last) ?? again[0] ?? null;
}

/* The first day on which one of these cards is due, or null. */
export function nextDay(states, ids) {
  const days = ids.filter((id) => id in states).map((id) => states[id].due);
  return days.length ? Math.min(...days) : null;
}

/* Days since 1970 by the reader's own clock. */
export const dayOf = (date) => Math.floor((date.getTime() - 60_000 * date.getTimezoneOffset()) / 86_400_000);

export const written = (states) => JSON.stringify({ format: FORMAT, version: VERSION, cards: states }, null, 1);

/* The states in a file's text, of cards that there are. Throws an Error that says what is wrong with it. */
export function read(text, ids) {
  let file;
  try { file = JSON.parse(text); } catch { throw new Error("the file is no JSON"); }
  if (file?.format !== FORMAT || file.version !== VERSION || !isRecord(file.cards)) throw new Error("the file was not exported here");
  const states = {};
  for (const id of ids.filter((one) => Object.hasOwn(file.cards, one))) {
    if (!isState(file.cards[id])) throw new Error(`the file's card ${id} is broken`);
    const { ease, streak, interval, due, first, again } = file.cards[id];
    states[id] = { ease, streak, interval, due, first, again };
  }
  return states;
}

const isRecord = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

function isState(state) {
  if (!isRecord(state)) return false;
  const whole = [state.streak, state.interval, state.due, state.first].every((n) => Number.isSafeInteger(n) && n >= 0);
  return whole && Number.isFinite(state.ease) && state.ease >= 1.3 && (state.again === null || Number.isSafeInteger(state.again));
}
