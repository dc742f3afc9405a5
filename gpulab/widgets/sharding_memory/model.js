/* gpulab.memory.plan's weights, gradients and optimizer state of a rank; what a ring makes each rank send. */

const share = (bytes, ranks) => (bytes - (bytes % ranks)) / ranks; // exact where both are whole and below 2**53
const LAPS = { all_reduce: 2, reduce_scatter: 1, all_gather: 1 };
export const STAGES = [0, 1, 2, 3];
export const total = (terms) => Object.values(terms).reduce((a, b) => a + b, 0);

/* `job`: known, billions, precision and optimizer. */
export function held(job, stage, ranks) {
  const { known } = job, bytes = known.precisions[job.precision], count = Math.round(job.billions * 1e9);
  const blocks = Math.ceil(count / known.state_block);
  const state = { sgd: 0, adamw: 2 * bytes.state * count, "adamw 8-bit": 2 * (count + 4 * blocks) }[job.optimizer];
  const over = (from) => (stage >= from ? ranks : 1);
  return {
    parameters: share(bytes.weights * count, over(3)), gradients: share(bytes.weights * count, over(2)),
    "master weights": share(bytes.master * count, over(1)), optimizer: share(state, over(1)),
  };
}

/* In numbers of parameters. */
export const crossing = (job, stage) => job.known.stages[stage].reduce((all, kind) => all + LAPS[kind], 0);

export const sent = (job, stage, ranks) =>
  (crossing(job, stage) * job.known.precisions[job.precision].weights * Math.round(job.billions * 1e9) * (ranks - 1)) / ranks;

/* The fewest ranks, a power of two, whose parts in stage 3 have room each. */
export function enough(job, capacity) {
  let ranks = 1;
  while (total(held(job, 3, ranks)) > capacity) ranks *= 2;
  return ranks;
}
