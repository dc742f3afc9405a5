/* gpulab.serving.costs for a batch of equal requests: FLOP, bytes, and the roof that is met first.
   `job`: shape, element_bytes, phase, batch and tokens. */

export const PHASES = ["prefill", "decode"];
export const PARTS = ["linear layers", "attention"];

/* Of each request: tokens whose keys and values are held, and tokens that are read now. */
export const chunk = ({ phase, tokens }) => (phase === "prefill" ? { cached: 0, fresh: tokens } : { cached: tokens, fresh: 1 });

function linearLayers({ shape, element_bytes, batch }, { fresh }) {
  const matrices = shape.layers * shape.layer_matrices, tokens = batch * fresh;
  const moved = matrices + shape.embedding + tokens * shape.layers * shape.ends + batch * (shape.width + shape.vocabulary);
  return { flops: 2 * (tokens * matrices + batch * shape.embedding), bytes: element_bytes * moved };
}

function attention({ shape, element_bytes, batch }, { cached, fresh }) {
  const pairs = fresh * cached + (fresh * (fresh + 1)) / 2;
  const ends = 2 * fresh * shape.queries + 2 * (cached + fresh) * shape.keys;
  return { flops: 4 * shape.layers * shape.queries * batch * pairs, bytes: element_bytes * shape.layers * batch * ends };
}

export function parts(job) {
  const each = chunk(job);
  return { "linear layers": linearLayers(job, each), attention: attention(job, each) };
}

export const ridge = (card) => card.flops_per_s / card.bytes_per_s;

/* FLOP per byte, FLOP/s that the card allows at most, the least seconds, and the roof that is met first. */
export function place(card, { flops, bytes }) {
  const intensity = flops / bytes;
  return { intensity, attainable: Math.min(card.flops_per_s, intensity * card.bytes_per_s),
    seconds: Math.max(flops / card.flops_per_s, bytes / card.bytes_per_s), bound: intensity < ridge(card) ? "memory" : "compute" };
}

/* The smallest batch at which decode's linear layers are bound by compute; null where no batch is enough. */
export function crossing(job, card) {
  const at = (batch) => linearLayers({ ...job, batch }, { fresh: 1 }), weights = at(0), own = at(1);
  const gained = own.flops - ridge(card) * (own.bytes - weights.bytes);
  if (gained <= 0) return null;
  const holds = (batch) => place(card, at(batch)).bound === "compute";
  let found = Math.max(1, Math.ceil((ridge(card) * weights.bytes) / gained));
  while (!holds(found)) found += 1;
  while (found > 1 && holds(found - 1)) found -= 1;
  return found;
}

/* Bytes of the weights, and of the keys and values when the pass is over. */
export function held(job) {
  const { shape, element_bytes, batch } = job, { cached, fresh } = chunk(job);
  return { weights: element_bytes * shape.parameters, cache: batch * (cached + fresh) * shape.cached * element_bytes };
}
