/* What a chart of a run is made of: points, gaps where a number is not finite, and what is said of a step. */
import { three } from "../shared/words.js";

/* Steps whose number is there, as runs of neighbours: [[[step, value], ...], ...]. */
export function pieces(values) {
  const found = [];
  values.forEach((value, step) => {
    if (value === null) return;
    if (step && values[step - 1] !== null) found.at(-1).push([step, value]);
    else found.push([[step, value]]);
  });
  return found;
}

export const missing = (values) => values.flatMap((value, step) => (value === null ? [step] : []));

/* From the least to the most of what is there, in powers of ten or of two, whole ones. */
export function octaves(values, base) {
  const logs = values.filter((value) => value !== null && value > 0).map((value) => Math.log(value) / Math.log(base));
  if (!logs.length) return [0, 1];
  const low = Math.floor(Math.min(...logs) + 1e-9), high = Math.ceil(Math.max(...logs) - 1e-9);
  return low === high ? [low - 1, high + 1] : [low, high];
}

const shown = (value) => (value === null ? "not finite" : (value >= 1e6 || value < 1e-3 ? value.toExponential(1) : three(value)));

/* Names and values at a step. */
export function told(run, step) {
  return [["loss", shown(run.loss[step])], ["gradient norm", shown(run.norm[step])],
    ["learning rate", run.lr[step].toExponential(1)], ["loss scale", `2^${Math.round(Math.log2(run.scale[step]))}`]];
}

/* The held-out loss that was taken last. */
export const heldOutAt = (run, step) => shown(run.held_out.filter(([at]) => at <= step).at(-1)[1]);
