/* The states of a job, by the changes that are in force. */

/* A later change of a part replaces an earlier one. */
export function inForce(options, made) {
  const shares = (one, other) => options[one].parts.some((part) => options[other].parts.includes(part));
  return made.filter((number, at) => !made.slice(at + 1).some((later) => later === number || shares(number, later)));
}

export const stateOf = (told, made) => told.states[inForce(told.options, made).toSorted((a, b) => a - b).join(" ")];

/* The names of the figures that are above what is allowed. */
export const above = (told, made) => told.figures.filter(({ most }, i) => stateOf(told, made).figures[i] > most).map(({ name }) => name);

export const left = (told, made) => told.budget - made.length;

/* Whether everything is as it should be. */
export const mended = (told, made) => !above(told, made).length && stateOf(told, made).same;

/* What the last change did, in a sentence. */
export function said(told, made) {
  if (mended(told, made)) return "Every figure meets its target, and the job learns what it was asked to learn.";
  if (!made.length) return `Three parts are broken, and ${told.budget} changes may be made.`;
  const now = stateOf(told, made), before = stateOf(told, made.slice(0, -1)), last = told.options[made.at(-1)].name;
  const lower = told.figures.filter((_, i) => now.figures[i] * 1.02 < before.figures[i]).map(({ name }) => name);
  const higher = told.figures.filter((_, i) => now.figures[i] > before.figures[i] * 1.02).map(({ name }) => name);
  const moved = [lower.length && `lowers ${lower.join(", ")}`, higher.length && `raises ${higher.join(", ")}`].filter(Boolean).join(" and ");
  const learns = now.same === before.same ? "" : now.same ? " The job learns again what it was asked to learn." : " The job now learns something else.";
  const over = left(told, made) ? "" : " The budget is spent.";
  return `“${last}” ${moved || "changes no figure"}.${learns}${over}`;
}

const digits = (value) => Math.round(value).toLocaleString("en-US");

/* Rows of the table: name, what it says, in the broken job, now, at most, whether it is too much. */
export function rows(told, made) {
  const broken = stateOf(told, []), now = stateOf(told, made);
  return told.figures.map(({ name, says, most }, i) => ({
    name, says, broken: digits(broken.figures[i]), now: digits(now.figures[i]), most: digits(most), over: now.figures[i] > most,
  }));
}
