/* gpulab.serving.tokens and what is held for them: tokens of a request, bytes of its keys and values, requests that fit. */

export const KINDS = ["text", "images", "video"];
export const total = (counts) => KINDS.reduce((all, kind) => all + counts[kind], 0);

/* One for each square of merge x merge patches; an edge is padded to a whole one. */
export function imageTokens({ height, width, patch, merge }) {
  const side = patch * merge;
  return Math.ceil(height / side) * Math.ceil(width / side);
}

export const frames = ({ frames_per_s, seconds }) => Math.ceil(frames_per_s * seconds);

export function tokens(job) {
  const each = imageTokens(job);
  return { text: job.text, images: job.images * each, video: frames(job) * each };
}

/* Of a token, in all layers. `heads`: of keys and of values. */
export const tokenBytes = ({ shape, element_bytes }, heads = shape.kv_heads) => 2 * shape.layers * heads * shape.head_dim * element_bytes;

/* Bytes: of one request's keys and values, of the card beside the weights, and how many such requests have room; null of none. */
export function budget(job, card) {
  const cached = total(tokens(job)) * tokenBytes(job), left = card.bytes - job.shape.weights;
  return { cached, left, fitting: cached ? Math.floor(Math.max(0, left) / cached) : null };
}
