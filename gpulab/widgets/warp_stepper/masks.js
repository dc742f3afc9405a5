/* What a traced block did: masks of 32 lanes for each warp and step, and sums over them. */

export const WARP = 32;

export const lanes = (mask) => Array.from({ length: WARP }, (_, lane) => (mask >>> lane) & 1);

export const active = (mask) => lanes(mask).reduce((sum, bit) => sum + bit, 0);

/* Lanes of a warp that are threads at all: a block that is no multiple of 32 ends in a part. */
export function existing(block, warp) {
  const threads = block[0] * block[1] * block[2];
  return Math.max(0, Math.min(WARP, threads - WARP * warp));
}

/* A linear number as (x, y, z): x runs fastest. */
export function unravel(number, extents) {
  return [number % extents[0], Math.floor(number / extents[0]) % extents[1], Math.floor(number / (extents[0] * extents[1]))];
}

/* threadIdx and the index in the whole grid, of a lane of a warp of a block. */
export function thread(grid, block, number, warp, lane) {
  const inside = unravel(WARP * warp + lane, block), which = unravel(number, grid);
  return { inside, block: which, inGrid: inside.map((index, axis) => which[axis] * block[axis] + index) };
}

/* Steps from the first to `upto`: warps that took part, lanes that did, lanes there were for them. */
export function totals(steps, block, upto) {
  let issued = 0, used = 0, offered = 0;
  for (const [, masks] of steps.slice(0, upto + 1)) {
    masks.forEach((mask, warp) => {
      if (!mask) return;
      issued += 1;
      used += active(mask);
      offered += existing(block, warp);
    });
  }
  return { issued, used, offered };
}

/* The warp to ask about: the first with some of its lanes only, else the first that takes part. */
export function interesting(masks, block) {
  const partial = masks.findIndex((mask, warp) => mask && active(mask) < existing(block, warp));
  return partial >= 0 ? partial : masks.findIndex((mask) => mask);
}
