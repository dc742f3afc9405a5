/* gpulab.collectives.network.overlap: buckets of equal layers, in microseconds since the backward pass began. */

const sum = (list) => list.reduce((a, b) => a + b, 0);

export function overlap({ layers, layer_us, layer_bytes, bucket_bytes, alpha_us, bytes_per_us, ranks }) {
  const most = Math.min(layers, Math.ceil(bucket_bytes / layer_bytes)), held = [];
  for (let first = 0; first < layers; first += most) held.push(Math.min(most, layers - first));
  const ready = held.map((_, k) => layer_us * sum(held.slice(0, k + 1)));
  const crossing = (((2 * (ranks - 1)) / ranks) * layer_bytes) / bytes_per_us;
  const takes = held.map((count) => alpha_us + crossing * count);
  const over = held.map((_, k) => Math.max(...ready.slice(0, k + 1).map((at, i) => at + sum(takes.slice(i, k + 1)))));
  const sent = held.map((count, k) => ({ layers: count, ready_us: ready[k], start_us: over[k] - takes[k], end_us: over[k] }));
  const step_us = over[over.length - 1], backward_us = layer_us * layers;
  return { backward_us, sent, step_us, exposed_us: step_us - backward_us };
}

/* Every size that differs, in layers a bucket. */
export const sweep = (job) => Array.from({ length: job.layers }, (_, i) =>
  ({ layers: i + 1, ...overlap({ ...job, bucket_bytes: (i + 1) * job.layer_bytes }) }));

/* The shortest step, and of steps equally long the one with the smallest buckets. */
export const shortest = (steps) => steps.reduce((best, one) => (one.step_us < best.step_us ? one : best));
