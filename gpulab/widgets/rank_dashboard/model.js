/* Medians over steps, and what a rank delays its meetings by, as gpulab.fleet.ranks has it. */
export function median(values) {
  const ordered = [...values].sort((a, b) => a - b), middle = ordered.length >> 1;
  return ordered.length % 2 ? ordered[middle] : (ordered[middle - 1] + ordered[middle]) / 2;
}

/* Of rows by step: one number for each rank. */
export const medians = (rows) => rows[0].map((_, rank) => median(rows.map((row) => row[rank])));

export function groups(ranks, tp) {
  const all = Array.from({ length: ranks }, (_, rank) => rank);
  return {
    tp: Array.from({ length: ranks / tp }, (_, number) => all.slice(number * tp, (number + 1) * tp)),
    dp: Array.from({ length: tp }, (_, place) => all.filter((rank) => rank % tp === place)),
  };
}

/* The second shortest time less the shortest, which is the last comer's. */
export function holdsUp(times) {
  const [first, second] = [...times].sort((a, b) => a - b);
  return times.map((time) => (time === first ? second - first : 0));
}

/* Of each rank the median over the steps of what it delays its meeting by. */
export function delays(rows, meetings) {
  const found = [];
  for (const group of meetings) {
    const byStep = rows.map((row) => holdsUp(group.map((rank) => row[rank])));
    group.forEach((rank, place) => { found[rank] = median(byStep.map((row) => row[place])); });
  }
  return found;
}

/* How far a value is from the least to the most of what is shown, 0 where all are equal; beyond the 98th part of the values it is cut off. */
export function scale(rows) {
  const ordered = rows.flat().sort((a, b) => a - b), least = ordered[0], most = ordered[Math.floor(0.98 * (ordered.length - 1))];
  return (value) => (most > least ? Math.max(0, Math.min(1, (value - least) / (most - least))) : 0);
}
