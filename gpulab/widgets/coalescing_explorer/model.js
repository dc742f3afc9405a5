/* One request of a warp: lane i asks for item offset + stride * i. Bytes and 32-byte sectors. */

export const LANES = 32, SECTOR_BYTES = 32;

export function request({ stride, offset, item_bytes }) {
  const addresses = Array.from({ length: LANES }, (_, lane) => item_bytes * (offset + stride * lane));
  const touched = [...new Set(addresses.map((address) => Math.floor(address / SECTOR_BYTES)))];
  return {
    addresses,
    sectors: touched,
    moved: SECTOR_BYTES * touched.length,
    used: item_bytes * new Set(addresses).size,
    asked: item_bytes * LANES,
  };
}

/* For each item of a sector, the lanes that ask for it. */
export function itemsOf(sector, { addresses }, item_bytes) {
  return Array.from({ length: SECTOR_BYTES / item_bytes }, (_, at) => {
    const address = SECTOR_BYTES * sector + item_bytes * at;
    return addresses.flatMap((own, lane) => (own === address ? [lane] : []));
  });
}

export const TYPES = [[1, "int8, 1 byte"], [2, "float16, 2 bytes"], [4, "float32, 4 bytes"], [8, "float64, 8 bytes"], [16, "four float32, 16 bytes"]];

/* Why the request costs what it costs, in a sentence. */
export function reason(shape, found) {
  const { stride, offset, item_bytes } = shape, late = (offset * item_bytes) % SECTOR_BYTES;
  if (stride === 0) return "All lanes want the same item: one sector serves the warp.";
  const step = stride * item_bytes;
  if (step >= SECTOR_BYTES) return `Lanes are ${step} bytes apart, a sector or more: each pays for one of its own.`;
  if (stride > 1) return `Lanes are ${step} bytes apart: of each sector, one item in ${stride} is used.`;
  return late
    ? `The lanes are neighbours, but the first begins ${late} bytes into a sector: one more is touched.`
    : `The lanes are neighbours and the first begins a sector: ${found.sectors.length} sector${found.sectors.length === 1 ? "" : "s"}, fully used.`;
}

const pick = (random, items) => items[Math.floor(random() * items.length)];

/* A request to be guessed. */
export function question(random) {
  const item_bytes = pick(random, [1, 2, 4, 8, 16]), stride = pick(random, [0, 1, 1, 1, 2, 3, 4, 5, 8, 16, 32]);
  return { item_bytes, stride, offset: pick(random, [0, 0, 1, 2, 3, 5, 8, 12]) };
}
