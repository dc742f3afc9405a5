/* What an operation has to compute and to move, and which roof of a card it meets first. */

export const BYTES = { fp32: 4, tf32: 4, fp16: 2, bf16: 2 };

/* Kernels, FLOP and bytes of device memory. `rows` x `width` elements; `steps` operations of a chain. */
export function work({ operation, rows, width, steps, fmt }) {
  const size = BYTES[fmt], elements = rows * width;
  switch (operation) {
    case "linear": return { kernels: 1, flops: 2 * elements * width, bytes: (2 * elements + width * width) * size };
    case "fused": return { kernels: 1, flops: steps * elements, bytes: 2 * elements * size };
    default: return { kernels: steps, flops: steps * elements, bytes: 2 * steps * elements * size };
  }
}

/* Matrix units work on products alone; all else runs at the peak of ordinary float32 arithmetic. */
export const roofOf = ({ operation, fmt }) => (operation === "linear" ? fmt : "fp32");

/* FLOP per byte, the ridge, FLOP/s that the card allows at most, and the roof that is met first. */
export function place(card, roof, { flops, bytes }) {
  const intensity = flops / bytes, peak = card.flops_per_s[roof];
  const ridge = peak / card.bytes_per_s;
  const attainable = Math.min(peak, intensity * card.bytes_per_s);
  return { intensity, peak, ridge, attainable, us: (flops / attainable) * 1e6, bound: intensity < ridge ? "memory" : "compute" };
}
