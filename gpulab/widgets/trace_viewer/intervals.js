/* Sets of moments as sorted pairs [start, end): gpulab.traces.intervals. */

export function union(pairs) {
  const joined = [];
  for (const [start, end] of pairs.filter(([a, b]) => a < b).sort((a, b) => a[0] - b[0])) {
    const last = joined[joined.length - 1];
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else joined.push([start, end]);
  }
  return joined;
}

/* Of two unions. */
export function intersection(a, b) {
  const found = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    const start = Math.max(a[i][0], b[j][0]), end = Math.min(a[i][1], b[j][1]);
    if (start < end) found.push([start, end]);
    if (a[i][1] < b[j][1]) i++;
    else j++;
  }
  return found;
}

/* What is in the first union and not in the second. */
export function subtraction(a, b) {
  const left = [];
  let j = 0;
  for (let [start, end] of a) {
    while (j < b.length && b[j][1] <= start) j++;
    for (let k = j; k < b.length && b[k][0] < end; k++) {
      if (start < b[k][0]) left.push([start, b[k][0]]);
      start = Math.max(start, b[k][1]);
    }
    if (start < end) left.push([start, end]);
  }
  return left;
}

export const length = (pairs) => pairs.reduce((all, [start, end]) => all + end - start, 0);
