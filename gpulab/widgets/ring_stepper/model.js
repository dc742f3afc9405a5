/* Who sends which chunks to whom in each step, what everybody holds after it, and what it takes. */

const mod = (a, n) => ((a % n) + n) % n;
const range = (n) => Array.from({ length: n }, (_, i) => i);

/* Step s of n - 1: each rank passes on the chunk that it has just got. `first`: by rank, the chunk it begins with. */
const lap = (n, first, reduce) => range(n - 1).map((s) =>
  range(n).map((r) => ({ source: r, target: mod(r + 1, n), chunks: [mod(first(r) - s, n)], reduce })));

/* Through rank 0: it takes the others' buffers one after another, and gives the sum to one after another. */
function root(n) {
  const others = range(n).slice(1), chunks = range(n);
  return [...others.map((r) => [{ source: r, target: 0, chunks, reduce: true }]),
    ...others.map((r) => [{ source: 0, target: r, chunks, reduce: false }])];
}

/* Whole buffers between partners at distance 1, 2, 4: only for a power of two. */
function doubling(n) {
  const steps = [];
  for (let reach = 1; reach < n; reach *= 2) steps.push(range(n).map((r) => ({ source: r, target: r ^ reach, chunks: range(n), reduce: true })));
  return steps;
}

export const possible = (way, n) => way !== "all_reduce doubling" || (n & (n - 1)) === 0;

export function schedule(way, n) {
  switch (way) {
    case "reduce_scatter ring": return lap(n, (r) => r, true);
    case "all_gather ring": return lap(n, (r) => r, false);
    case "all_reduce root": return root(n);
    case "all_reduce doubling": return possible(way, n) ? doubling(n) : [];
    default: return [...lap(n, (r) => r, true), ...lap(n, (r) => r + 1, false)];
  }
}

/* held[rank][chunk]: bit i is set where rank i's numbers are in it. Of an all-gather, chunk i is rank i's alone. */
export function heldAfter(way, n, steps) {
  let held = range(n).map((r) => range(n).map((c) => (way === "all_gather ring" ? (r === c ? 1 << r : 0) : 1 << r)));
  for (const sends of schedule(way, n).slice(0, steps)) {
    const next = held.map((row) => [...row]);
    for (const { source, target, chunks, reduce } of sends)
      for (const c of chunks) next[target][c] = reduce ? held[target][c] | held[source][c] : held[source][c];
    held = next;
  }
  return held;
}

/* Of each rank, in chunks. */
export function moved(way, n, steps) {
  const sent = Array(n).fill(0), received = Array(n).fill(0);
  for (const { source, target, chunks } of schedule(way, n).slice(0, steps).flat()) { sent[source] += chunks.length; received[target] += chunks.length; }
  return { sent, received };
}

/* Microseconds: in a step every rank sends at once, and the next begins when all have arrived. */
export function time(way, n, steps, nbytes, { hop_us, bytes_per_s }) {
  return schedule(way, n).slice(0, steps).reduce((sum, sends) =>
    sum + hop_us + ((Math.max(...sends.map(({ chunks }) => chunks.length)) * nbytes) / n / bytes_per_s) * 1e6, 0);
}

/* What a chunk must hold in the end, and where it must. */
export function done(way, n, held) {
  const all = 2 ** n - 1;
  if (way === "reduce_scatter ring") return held.every((row, r) => row[mod(r + 1, n)] === all);
  if (way === "all_gather ring") return held.every((row) => row.every((mask, c) => mask === 1 << c));
  return held.every((row) => row.every((mask) => mask === all));
}
