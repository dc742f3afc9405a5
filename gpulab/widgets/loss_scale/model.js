/* PyTorch's rule for the loss scale, and loops around it. One weight, SGD with a rate of 1, gradients in fp16. */
import { decode, encode } from "../float_formats/model.js";

export const CLIP = 1;

/* The scale after a step: half on overflow, twice after `interval` clean steps in a row. */
export function updated({ scale, clean }, overflow, interval) {
  if (overflow) return { scale: scale / 2, clean: 0 };
  return clean + 1 === interval ? { scale: scale * 2, clean: 0 } : { scale, clean: clean + 1 };
}

/* What the optimizer is given of a gradient that backward left in fp16, and whether it is asked to step. */
function given(loop, scaled, scale) {
  const finite = Number.isFinite(scaled);
  switch (loop) {
    case "optimizer": case "none": return { applied: scaled, taken: true };
    case "clip": return { applied: Math.min(CLIP, scaled) / scale, taken: finite };
    default: return { applied: scaled / scale, taken: finite };
  }
}

/* One entry a step: the scale, what was applied (null: skipped), whether the weight is still a number.
   `error`: what PyTorch raises in that step; none follows it. */
export function simulate({ init, interval, peak, spikes, loop, steps, half }) {
  const told = [], start = { scale: loop === "none" ? 1 : 2 ** init, clean: 0 };
  let state = start, sound = true;
  for (let step = 0; step < steps; step++) {
    if (loop === "no update" && step) {
      told.push({ scale: state.scale, applied: null, sound, error: "step() has already been called since the last update()." });
      break;
    }
    const scaled = spikes.includes(step) ? Infinity : decode(half, encode(half, 2 ** peak * state.scale));
    const { applied, taken } = sound ? given(loop, scaled, state.scale) : { applied: NaN, taken: true };
    if (taken && !Number.isFinite(applied)) sound = false;
    told.push({ scale: state.scale, applied: taken ? applied : null, sound });
    if (loop === "right" || loop === "clip") state = updated(state, !Number.isFinite(scaled), interval);
  }
  return told;
}
