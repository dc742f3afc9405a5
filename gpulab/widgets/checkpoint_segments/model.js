/* gpulab.memory.checkpoints: a chain of equal layers, and the bytes held for the backward pass after every layer's turn.
   `job`: layers, segments, layer_bytes, checkpoint_bytes, and whether the `last` segment is checkpointed too. */

const count = (from, to) => Array.from({ length: to - from }, (_, i) => from + i);

/* The layers of each segment, from 0. */
export function segmentsOf({ layers, segments }) {
  const size = Math.floor(layers / segments);
  return count(0, segments).map((i) => count(i * size, i < segments - 1 ? (i + 1) * size : layers));
}

export const checkpointed = ({ segments, last }, segment) => last || segment < segments - 1;

function forward(job, segment, layers) {
  const before = segment * job.checkpoint_bytes;
  const saved = (i) => (checkpointed(job, segment) ? job.checkpoint_bytes : job.layer_bytes * (i + 1));
  return layers.map((layer, i) => ({ phase: "forward", segment, layer, held: before + saved(i) }));
}

function backward(job, segment, layers) {
  const before = segment * job.checkpoint_bytes;
  const again = layers.map((layer, i) => ({ phase: "recompute", segment, layer, held: before + job.layer_bytes * (i + 1) }));
  const freed = layers.map((layer, i) => ({ phase: "backward", segment, layer, held: before + job.layer_bytes * i }));
  return [...(checkpointed(job, segment) ? again : []), ...freed.reverse()];
}

export function passes(job) {
  const segments = [...segmentsOf(job).entries()];
  const ahead = segments.flatMap(([i, layers]) => forward(job, i, layers));
  return [...ahead, ...segments.reverse().flatMap(([i, layers]) => backward(job, i, layers))];
}

export const peak = (turns) => turns.reduce((most, one) => (one.held > most.held ? one : most));

export const recomputed = (turns) => turns.filter(({ phase }) => phase === "recompute").length;

/* A layer's backward pass counts as two of its forward passes. */
export const duration = ({ phase }) => (phase === "backward" ? 2 : 1);

/* Every number of segments. */
export const sweep = (job) => count(1, job.layers + 1).map((segments) =>
  ({ segments, held: peak(passes({ ...job, segments })).held }));

/* The least that is held at the peak, and of equals the one with the fewest segments. */
export const fewest = (sizes) => sizes.reduce((best, one) => (one.held < best.held ? one : best));

/* Where the peak of segments that are all equally long has its minimum. */
export const valley = (job) => Math.sqrt((job.layers * job.layer_bytes) / job.checkpoint_bytes);

/* The ends of the segments' passes, as indices into the turns: where a reader stops. */
export const stops = (turns) => turns.flatMap((one, i) => {
  const next = turns[i + 1];
  return next && next.phase === one.phase && next.segment === one.segment ? [] : [i];
});

/* What became of each layer when the turns up to `at` are over, and the segments whose checkpoints are held. */
export function chain(job, turns, at) {
  const segments = segmentsOf(job), layers = Array(job.layers).fill("ahead"), held = new Set();
  for (const { phase, segment, layer } of turns.slice(0, at + 1)) {
    const dropped = checkpointed(job, segment), over = phase === "backward" && layer === segments[segment][0];
    layers[layer] = { forward: dropped ? "dropped" : "kept", recompute: "recomputed", backward: "done" }[phase];
    if (dropped && !over) held.add(segment);
    if (over) held.delete(segment);
  }
  return { layers, held: [...held] };
}
