/* Blocks that one multiprocessor holds, and the waves in which a launch runs; as gpulab.kernels has them. */

const up = (value, unit) => Math.ceil(value / unit) * unit;

export const LIMITS = ["warps", "blocks", "shared memory", "registers"];

/* Blocks that each store allows. `launch`: threads, registers (of a thread), shared (bytes of a block). */
export function allowed({ threads, registers, shared }, sm) {
  const warps = Math.ceil(threads / 32);
  const ofAWarp = up(32 * registers, sm.register_unit);
  const taken = up(shared + sm.shared_reserved, sm.shared_unit);
  const quarters = sm.partitions;
  return {
    warps: Math.floor(sm.max_warps / warps),
    blocks: sm.max_blocks,
    "shared memory": shared > sm.max_shared_bytes_per_block ? 0 : taken ? Math.floor(sm.shared_bytes / taken) : sm.max_blocks,
    registers: Math.floor((quarters * Math.floor(Math.floor(sm.registers / quarters) / ofAWarp)) / warps),
  };
}

/* What binds is the first of LIMITS that allows fewest. */
export function resident(launch, sm) {
  const fits = allowed(launch, sm), warps = Math.ceil(launch.threads / 32);
  const limit = LIMITS.reduce((best, name) => (fits[name] < fits[best] ? name : best));
  return { fits, limit, blocks: fits[limit], warps: fits[limit] * warps };
}

/* Waves of a launch of equally long blocks: how many, how full the last, how full all together (0 to 1). */
export function waves(blocks, places) {
  if (!places) return { count: 0, last: 0, share: 0 };
  const count = Math.ceil(blocks / places);
  return { count, last: (blocks - (count - 1) * places) / places, share: blocks / (count * places) };
}
